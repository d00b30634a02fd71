//! STATE: where limits are kept that several runs share, and which limits can be.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::quantity::parse_count;
use super::rate::{From, Rate, keys};
use super::{Batch, Limits, OnLimit, Server, Source};

/// Where limits are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// In a file of this name, in the user's directory for state.
    Name(String),
    /// In this file.
    File(PathBuf),
    /// On a server.
    Server(Box<Server>),
}

/// Limits that are shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shared {
    /// Where they are kept.
    pub state: State,
    /// How long to wait for a server that cannot be reached, in nanoseconds.
    pub timeout: u64,
}

impl State {
    /// Reads a STATE from the command line: a name, a path, the URL of a server, or `@FILE` that holds one of these.
    ///
    /// # Errors
    /// None of these, or one with a password: everybody on the machine could see it.
    pub fn parse_public(text: &str) -> Result<Self> {
        if let Some(file) = text.strip_prefix('@') {
            let content = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
            return Self::parse(content.trim()).with_context(|| file.to_owned());
        }
        let state = Self::parse(text)?;
        let is_secret = matches!(&state, State::Server(server) if server.has_password());
        ensure!(
            !is_secret,
            "a password on the command line is there for all to see: put the URL into $THROTTLE_STATE, or into a file and say -s @FILE"
        );
        Ok(state)
    }

    /// If it looks like the size that pv takes with `-s`.
    pub(super) fn warning(&self) -> Option<String> {
        let State::Name(name) = self else { return None };
        parse_count(name).ok()?;
        Some(format!(
            "-s {name} shares the limits with all runs that name the state '{name}': it is no size, as with pv"
        ))
    }

    /// Reads a STATE from where only the user can look: the environment, or a file.
    ///
    /// # Errors
    /// Neither a name, nor a path, nor the URL of a server.
    pub fn parse(text: &str) -> Result<Self> {
        if text.contains("://") {
            return Ok(State::Server(Box::new(text.parse()?)));
        }
        if text.contains('/') {
            return Ok(State::File(text.into()));
        }
        let is_plain = |c: char| c.is_alphanumeric() || "-_.+@".contains(c);
        ensure!(
            !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('.'),
            "a name is of letters, digits and -_.+@, a path has a slash, and a server is like redis://host/NAME"
        );
        Ok(State::Name(text.to_owned()))
    }
}

/// Without any password.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Name(name) => f.write_str(name),
            State::File(path) => write!(f, "{}", path.display()),
            State::Server(server) => write!(f, "{server}"),
        }
    }
}

/// Checks that limits of these sources can be shared.
///
/// # Errors
/// They cannot, and why.
pub fn check_shareable(state: &State, limits: &Limits, on_limit: OnLimit, batch: Batch) -> Result<()> {
    ensure!(
        !limits.sources.iter().any(|source| matches!(source, Source::File(_))),
        "-r @FILE cannot be shared: all who share limits have to agree on them, and files change: give them as -r RATE"
    );
    let is_on_server = matches!(state, State::Server(_));
    ensure!(
        !on_limit.never_waits() || !is_on_server,
        "--on-limit drop and fail cannot be shared on a server: name a file as the state, or let items wait"
    );
    let rates = limits.load()?;
    ensure!(
        rates.iter().all(|rate| rate.from == From::Start),
        "from=exit cannot be shared: a slot is booked before its command starts, and nobody knows then when it will end"
    );
    ensure!(
        rates.iter().all(|rate| rate.cost.is_none()) || batch == Batch::SINGLE || !on_limit.never_waits(),
        "a batch that costs what its items do is not dropped by a shared limit: leave out -B, or the costs, or let items wait"
    );
    ensure!(
        rates.iter().all(|rate| rate.only.is_none()) || !is_on_server,
        "only= cannot be shared on a server: name a file as the state, or give each kind of items a run of its own"
    );
    check_keys(&rates)
}

/// All limits are charged by one booking, which has to be the same for all items, or all of a key.
fn check_keys(rates: &[Rate]) -> Result<()> {
    let is_keyed = rates.iter().any(|rate| rate.key.is_some() && rate.only.is_none());
    let is_same = rates.iter().all(|rate| rate.key.is_some()) && keys(rates).len() == 1;
    ensure!(
        !is_keyed || is_same,
        "limits that share a state go all by the same key, or none does: split them over two runs, one after the other in a pipe"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether limits that are given like this can be shared, in a file and on a server.
    fn is_shareable(args: &str) -> [bool; 2] {
        ["./state", "redis://localhost/n"].map(|state| {
            let words = ["throttle", "-s", state].into_iter().chain(args.split(' '));
            crate::cli::parse(words.map(Into::into)).is_ok()
        })
    }

    #[test]
    fn what_can_be_shared() {
        let table = [
            ("-r 1/s", [true, true]),
            ("-r 1/s,key=col:1 -r 9/s,key=col:1", [true, true]),
            ("-r 1/s,key=col:1 -r 9/s", [false, false]),
            ("-r 9/s -r 1/s,key=col:1,only=a -r 2/s,key=col:2,only=b", [true, false]),
            ("-r 9/s,key=col:1 -r 1/s,key=col:1,only=a", [true, false]),
            ("-r 9/s,key=col:1 -r 1/s,key=col:2,only=a", [false, false]),
            ("-r 1/s --on-limit drop", [true, false]),
            ("-r 1/s --on-limit fail", [true, false]),
            ("-r 1/s --on-limit latest", [true, true]),
            ("-r 1/s,from=exit -- cmd", [false, false]),
            ("-r @limits", [false, false]),
            ("-r 9/s,cost=col:1 -B 3", [true, true]),
            ("-r 9/s,cost=col:1 -B 3 --on-limit drop", [false, false]),
            ("-r 9/s -B 3 --on-limit drop", [true, false]),
        ];
        for (args, expected) in table {
            assert_eq!(is_shareable(args), expected, "{args}");
        }
    }

    #[test]
    fn names_paths_and_servers() {
        assert_eq!(State::parse("github").unwrap(), State::Name("github".into()));
        assert_eq!(State::parse("./x").unwrap(), State::File("./x".into()));
        for bad in ["", ".", "..", ".hidden", "a b", "a\nb", "ftp://host/x"] {
            assert!(State::parse(bad).is_err(), "{bad}");
        }
    }
}
