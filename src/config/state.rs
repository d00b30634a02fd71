//! STATE: where limits that several runs share are kept, and a check that they can be shared.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::quantity::parse_count;
use super::rate::{Rate, keys};
use super::server::{SCHEMES, Server};
use super::{BatchSize, LimitOptions, QueueOptions};

/// The environment variable that may hold a STATE, even one with a password.
pub const VARIABLE: &str = "THROTTLE_STATE";

/// Where limits are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// In a file of this name, in the user's state directory.
    Name(String),
    /// In this file.
    File(PathBuf),
    /// On a server.
    Server(Box<Server>),
}

/// Shared limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shared {
    /// Where they are kept.
    pub state: State,
    /// The longest wait for a server that cannot be reached, in nanoseconds.
    pub timeout: u64,
}

impl State {
    /// Parses a STATE from the command line: a name, a path, the URL of a server, or `@FILE`, a file that holds one of
    /// these. `read` returns the text of a file.
    ///
    /// # Errors
    /// None of these, or one with a user or password, which everybody on the machine could see.
    pub fn parse_public(text: &str, read: impl FnOnce(&str) -> io::Result<String>) -> Result<Self> {
        let state = Self::parse_private(text, read)?;
        let is_secret = matches!(&state, State::Server(server) if server.has_credentials());
        ensure!(
            !is_secret || text.starts_with('@'),
            "everyone can see a user or password on the command line: put the URL into $THROTTLE_STATE, or \
             into a file and use -s @FILE"
        );
        Ok(state)
    }

    /// Parses a STATE from where only the user can look, such as the environment. `read` returns the text of a file,
    /// whose first line counts.
    ///
    /// # Errors
    /// As [`State::parse`]; or the file cannot be read.
    pub fn parse_private(text: &str, read: impl FnOnce(&str) -> io::Result<String>) -> Result<Self> {
        let Some(file) = text.strip_prefix('@') else { return Self::parse(text) };
        ensure_no_address(file)?;
        ensure!(!file.is_empty(), "a file name is needed, as in @redis.url");
        let content = read(file).with_context(|| format!("cannot read {file}"))?;
        Self::parse(content.lines().next().unwrap_or_default().trim()).with_context(|| file.to_owned())
    }

    /// Warns about a name that looks like the size that pv takes with `-s`.
    pub(super) fn warning(&self) -> Option<String> {
        let State::Name(name) = self else { return None };
        parse_count(name).ok()?;
        Some(format!(
            "-s {name} shares the limits with all runs that use the state '{name}': it is not a size, as in \
             pv"
        ))
    }

    /// Parses a STATE that is written out.
    ///
    /// # Errors
    /// Neither a name, nor a path, nor the URL of a server. The error does not show the text: it may have a password.
    pub fn parse(text: &str) -> Result<Self> {
        if is_url(text) {
            return Ok(State::Server(Box::new(text.parse()?)));
        }
        ensure_no_address(text)?;
        ensure!(
            !text.ends_with('/'),
            "a path that ends in a slash is a directory: leave out the slash, or add a file name"
        );
        ensure!(
            !is_host(text),
            "for a server, write redis://HOST:PORT/NAME; for a file, begin its path with ./"
        );
        ensure!(
            !["-journal", "-wal", "-shm"].iter().any(|end| text.ends_with(end)),
            "a state whose name ends in -journal, -wal or -shm would be taken for what SQLite keeps beside another: \
             use a different name"
        );
        if text.contains('/') {
            return Ok(State::File(text.into()));
        }
        let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
        ensure!(
            !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('.'),
            "a name consists of letters, digits and -_.+ and does not begin with a dot, a path has a slash, and a \
             server is like redis://HOST/NAME"
        );
        Ok(State::Name(text.to_owned()))
    }

    /// The value of [`VARIABLE`] that a command inherits: `text` without user and password, or nothing if they may be
    /// anywhere in it.
    pub fn inherited(text: &OsStr) -> String {
        let text = text.to_str().unwrap_or_default();
        if text.strip_prefix('@').is_some_and(|file| ensure_no_address(file).is_ok()) {
            return text.to_owned();
        }
        match State::parse(text) {
            Ok(State::Server(server)) => server.without_credentials().to_string(),
            Ok(State::Name(_) | State::File(_)) => text.to_owned(),
            Err(_) => String::new(),
        }
    }
}

/// True of a text that begins with HOST:PORT, like a server's address.
fn is_host(text: &str) -> bool {
    let place = text.split('/').next().unwrap_or_default();
    place.split_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn is_url(text: &str) -> bool {
    let scheme = text.split(':').next().unwrap_or_default().trim_start().to_ascii_lowercase();
    text.contains("://") || (text.contains(':') && SCHEMES.contains(&scheme.as_str()))
}

/// Refuses what may be a mistyped server address. What begins as a path may contain an @, as home directories do, but
/// not where a URL has its password.
fn ensure_no_address(text: &str) -> Result<()> {
    let is_path = ["/", "./", "../"].iter().any(|start| text.starts_with(start)) && !text.starts_with("//");
    let is_address = match is_path {
        true => text.split_once('@').is_some_and(|(before, _)| before.contains(':')),
        false => text.contains('@') || text.contains("//"),
    };
    ensure!(
        !is_address && !text.contains("password="),
        "this looks like a mistyped server address: write redis://[[USER]:PASSWORD@]HOST[:PORT]/NAME or \
         unix:///SOCKET?name=NAME; begin a path that contains @ or // with / or ./"
    );
    Ok(())
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

/// Checks that these limits can be shared.
///
/// # Errors
/// They cannot, and why.
pub fn check_shareable(limits: &LimitOptions, queue: &QueueOptions) -> Result<()> {
    ensure!(
        queue.jitter.is_none(),
        "--jitter cannot be used with shared limits: a slot would expire before the delay ends: \
         leave out --jitter, or -s"
    );
    ensure!(
        limits.files().next().is_none(),
        "-r @FILE cannot be shared: all runs must have the same limits, and files change: use -r RATE"
    );
    check_shared(&limits.given()?, queue)
}

/// Checks that these limits can be shared, except for those of this run alone, and with this queue.
///
/// # Errors
/// They cannot, and why.
pub fn check_shared(all: &[Rate], queue: &QueueOptions) -> Result<()> {
    let rates: Vec<_> = all.iter().filter(|rate| !rate.is_local()).cloned().collect();
    if let Some(rate) = rates.iter().find(|rate| rate.counts_exits()) {
        bail!(
            "{rate} cannot be shared: other runs cannot see how long commands run: add ,local to limit this run \
             alone, or leave out from=exit or -s"
        );
    }
    if let Some(rate) = rates.iter().find(|rate| rate.least.is_some()) {
        bail!(
            "{rate} cannot be shared: what one run finds, others do not know: add ,local, or write one rate"
        );
    }
    if let Some(rate) = rates.iter().find(|rate| rate.burst == Some(0)) {
        bail!("{rate} cannot be shared: a slot is not for one item only: use algo=interval, or leave out -s");
    }
    let is_too_dear =
        |rate: &&Rate| rate.burst.zip(rate.common_cost()).is_some_and(|(most, cost)| cost > most);
    if let Some(rate) = rates.iter().find(is_too_dear) {
        bail!("items of a shared bucket cannot cost more than its burst: raise the burst of {rate}");
    }
    ensure!(
        all.iter().all(|rate| rate.cost.is_none())
            || queue.batch == BatchSize::SINGLE
            || !queue.on_limit.never_waits(),
        "a shared limit cannot drop batches that cost as much as their items: leave out -B or the costs, \
         or let items wait"
    );
    // One booking charges all limits, so it has to be the same for all items, or for all of a key.
    let is_keyed = rates.iter().any(Rate::is_by_key);
    let is_same = rates.iter().all(|rate| rate.key.is_some()) && keys(&rates).len() == 1;
    ensure!(
        !is_keyed || is_same,
        "limits in one state must all have the same key, or none: split them over two runs, one after the \
         other in a pipe"
    );
    Ok(())
}

#[cfg(feature = "cli")]
#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `args` as the options of a run with a shared state.
    fn is_shareable(args: &str) -> bool {
        let words = ["throttle", "-s", "name"].into_iter().chain(args.split(' '));
        crate::cli::parse(words.map(Into::into)).is_ok()
    }

    #[test]
    fn what_can_be_shared() {
        let table = [
            ("-r 1/s", true),
            ("-r 1/s,key=col:1 -r 9/s,key=col:1", true),
            ("-r 1/s,key=col:1 -r 9/s", false),
            ("-r 9/s -r 1/s,key=col:1,only=a -r 2/s,key=col:2,only=b", true),
            ("-r 9/s,key=col:1 -r 1/s,key=col:1,only=a", true),
            ("-r 9/s,key=col:1 -r 1/s,key=col:2,only=a", false),
            ("-r 1/s --on-limit drop", true),
            ("-r 1/s --on-limit fail", true),
            ("-r 1/s --on-limit latest", true),
            ("-r 1/s,from=exit -- cmd", false),
            ("-r 9/s -r 1/s,from=exit,local -- cmd", true),
            ("-r 9/s -r 2/running -- cmd", true),
            ("-r 2/running -- cmd", true),
            ("-r 9/s -r 1/s,key=col:1,local -r 5/s,algo=bucket,burst=0,local", true),
            ("-r 1/s,local", true),
            ("-r @limits", false),
            ("-r 9/s,cost=col:1 -B 3", true),
            ("-r 9/s,cost=col:1 -B 3 --on-limit drop", false),
            ("-r 9/s -B 3 --on-limit drop", true),
            ("-r 5/s,algo=bucket -c 5", true),
            ("-r 5/s,algo=bucket -c 6", false),
            ("-r 5/s,algo=bucket,burst=1 -c 1", true),
            ("-r 5/s,algo=bucket,burst=0", false),
        ];
        for (args, expected) in table {
            assert_eq!(is_shareable(args), expected, "{args}");
        }
    }

    #[test]
    fn names_paths_and_servers() {
        assert_eq!(State::parse("github").unwrap(), State::Name("github".into()));
        assert_eq!(State::parse("./x").unwrap(), State::File("./x".into()));
        for path in ["/home/joe@corp/x", "./a@b", "../a//b", "/tmp//x", "a/b", "/a:b/c", "./redis:x"] {
            assert_eq!(State::parse(path).unwrap(), State::File(path.into()));
        }
        for (text, told) in [
            ("api/", "ends in a slash"),
            ("host:6379/n", "redis://HOST:PORT"),
            ("h:1", "redis://HOST:PORT"),
            ("api-journal", "use a different name"),
            ("./api-wal", "use a different name"),
            ("/tmp/-shm", "use a different name"),
        ] {
            let error = State::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        for bad in ["", ".", "..", ".hidden", "a b", "a\nb", "ftp://host/x"] {
            assert!(State::parse(bad).is_err(), "{bad}");
        }
    }

    const MISTYPED: [&str; 24] = [
        "redis//:hush@h/n",
        "rediss//:hush@h/n",
        " redis//:hush@h/n",
        "redis:/:hush@h/n",
        "redis:/joe:hush@h/n",
        "Redis:/:hush@h/n",
        " rediss:/:hush@h/n",
        "redis:hush@h/n",
        "reids:/:hush@h/n",
        "redis;//:hush@h/n",
        "http://joe:hush@h/n",
        "//:hush@h/n",
        "/:hush@h/n",
        "./:hush@h/n",
        ":hush@h/n",
        ":hush@h",
        "hush@h",
        "joe:hush@h/n",
        "@redis://:hush@h/n",
        "unix//r?name=n&password=hush",
        "unix/r?name=n&password=hush",
        "/r?name=n&password=hush",
        "redis://joe:12/hush@h",
        "redis://joe:12?hush@h/n",
    ];

    #[test]
    fn what_may_be_a_mistyped_url_is_refused_without_an_echo() {
        for text in MISTYPED {
            let public = |text: &str| State::parse_public(text, |file| panic!("{file} is not read"));
            for parse in [State::parse, public] {
                let error = format!("{:?}", parse(text).expect_err(text));
                assert!(!error.contains("hush") && error.contains("redis://"), "{text}: {error}");
            }
        }
    }

    #[test]
    fn the_first_line_of_a_file_counts() {
        let read = |content: &str| State::parse_public("@file", |_| Ok(content.to_owned())).ok();
        for content in ["api", "api\n", "  api\r\nnote: of the team\n"] {
            assert_eq!(read(content).map(|state| state.to_string()).as_deref(), Some("api"), "{content:?}");
        }
        assert!(read("").is_none() && read("\napi").is_none());
    }

    #[test]
    fn commands_inherit_no_secret() {
        let table = [
            ("redis://joe:hush@h/n?db=2", "redis://h/n?db=2"),
            ("redis://h/n", "redis://h/n"),
            ("unix:///r?name=n&user=j&password=hush", "unix:///r?name=n"),
            ("api", "api"),
            ("./a@b", "./a@b"),
            ("@redis.url", "@redis.url"),
            ("@joe:hush@h/n", ""),
        ];
        for (text, inherited) in table.into_iter().chain(MISTYPED.map(|text| (text, ""))) {
            assert_eq!(State::inherited(text.as_ref()), inherited, "{text}");
        }
    }
}
