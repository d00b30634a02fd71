//! Failures of a server: those that may pass, and those that will not.

use std::io;

use anyhow::{Error, anyhow};
use redis::{ErrorKind, RedisError};

use crate::exit::Exit;
use crate::printable::escaped;
use crate::store::StoreError;

/// The most characters of a server's words that are repeated.
const LONGEST: usize = 200;

pub(super) const TOO_LATE: &str = "no answer in time";

#[derive(Debug)]
pub(super) enum ServerFailure {
    /// It may pass: try again.
    Away(String),
    /// Another node of the cluster must be asked, HOST:PORT; only once if true, as the key is being moved there.
    Redirect(String, bool),
    /// It will not pass.
    Final(StoreError),
}

impl ServerFailure {
    pub(super) fn away(why: impl Into<String>) -> Self {
        ServerFailure::Away(why.into())
    }

    pub(super) fn nonsense() -> Self {
        ServerFailure::away("its reply makes no sense")
    }

    pub(super) fn refused(why: impl std::fmt::Display) -> Self {
        ServerFailure::bad(Exit::BadStore, anyhow!("{why}"))
    }

    pub(super) fn bad(exit: Exit, error: Error) -> Self {
        ServerFailure::Final(StoreError { exit, error })
    }

    /// A failure to connect.
    pub(super) fn of_connecting(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => ServerFailure::refused(error),
            io::ErrorKind::TimedOut => ServerFailure::away(TOO_LATE),
            _ => ServerFailure::away(shown(&error.to_string())),
        }
    }

    /// A failure of a question.
    pub(super) fn of(error: &RedisError) -> Self {
        if let Some((node, _)) = error.redirect_node() {
            return ServerFailure::Redirect(node.to_owned(), error.code() == Some("ASK"));
        }
        if let Some(code) = error.code() {
            return of_reply(code, error.detail().unwrap_or_default());
        }
        match error.kind() {
            _ if error.is_timeout() => ServerFailure::away(TOO_LATE),
            ErrorKind::Parse => ServerFailure::away("its reply is not in the protocol of Redis"),
            _ => ServerFailure::away(shown(&error.to_string())),
        }
    }

    /// The error when it is not tried again.
    pub(super) fn given_up(self) -> StoreError {
        let why = match self {
            ServerFailure::Final(error) => return error,
            ServerFailure::Away(why) => why,
            ServerFailure::Redirect(..) => "the keys of its cluster are being moved".to_owned(),
        };
        StoreError { exit: Exit::StoreAway, error: anyhow!(why) }
    }

    /// A failure to present user and password. The server's own words may repeat them, so they are not shown.
    pub(super) fn of_presenting(code: &str) -> Self {
        if PASSING.contains(&code) {
            return of_reply(code, "");
        }
        ServerFailure::refused(format!("it does not accept the user and password ({})", shown(code)))
    }
}

/// Codes of errors that pass.
const PASSING: [&str; 5] = ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "TRYAGAIN"];

/// Words of errors that do not pass, wherever they occur in an error: older servers wrap the errors of scripts in one
/// of their own.
const HOPELESS: [(&str, &str); 10] = [
    ("WRONGPASS", "it does not accept the user and password"),
    ("NOAUTH", "it requires a password"),
    // The reply to a command with many arguments, instead of NOAUTH.
    ("unauthenticated", "it requires a password (NOAUTH)"),
    ("NOPERM", MAY_NOT),
    ("ACL failure", MAY_NOT),
    ("The user executing the script can", MAY_NOT),
    ("WRONGTYPE", "another program uses its key"),
    ("DENIED", "it accepts no connections from other machines"),
    ("unknown command", MISSING),
    ("Unknown Redis command", MISSING),
];

const MAY_NOT: &str = "its user lacks a permission that 'man throttle-state' lists";
const MISSING: &str = "it does not know the command";

fn of_reply(code: &str, detail: &str) -> ServerFailure {
    let reply = format!("{} {}", shown(code), shown(detail));
    match HOPELESS.iter().find(|(word, _)| reply.contains(word)) {
        Some((_, why)) => ServerFailure::refused(format!("{why}: {reply}")),
        None if reply.trim().is_empty() => ServerFailure::away("it replies with an error and no reason"),
        None => ServerFailure::away(reply.trim_end()),
    }
}

/// Escaped, so that it cannot control a terminal.
fn shown(text: &str) -> String {
    escaped(text).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(failure: &ServerFailure) -> Option<Exit> {
        match failure {
            ServerFailure::Away(_) | ServerFailure::Redirect(..) => None,
            ServerFailure::Final(error) => Some(error.exit),
        }
    }

    #[test]
    fn there_is_hope_unless_it_is_known_that_there_is_none() {
        let table = [
            ("LOADING", "Redis is loading the dataset in memory", None),
            ("READONLY", "You can't write against a read only replica.", None),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", None),
            ("CLUSTERDOWN", "The cluster is down", None),
            ("MASTERDOWN", "Link with MASTER is down", None),
            ("ERR", "max number of clients reached", None),
            ("WRONGPASS", "invalid username-password pair", Some(Exit::BadStore)),
            ("NOAUTH", "Authentication required.", Some(Exit::BadStore)),
            ("ERR", "Protocol error: unauthenticated multibulk length", Some(Exit::BadStore)),
            ("NOPERM", "this user has no permissions", Some(Exit::BadStore)),
            ("WRONGTYPE", "Operation against a key", Some(Exit::BadStore)),
            ("ERR", "Error running script: @user_script:3: WRONGTYPE Operation", Some(Exit::BadStore)),
            ("ERR", "unknown command 'EVALSHA'", Some(Exit::BadStore)),
            ("ERR", "Unknown Redis command called from script script: eea2", Some(Exit::BadStore)),
            (
                "ERR",
                "The user executing the script can't run this command or subcommand",
                Some(Exit::BadStore),
            ),
            (
                "ERR",
                "ACL failure in script: User joe has no permissions to run the 'time' command",
                Some(Exit::BadStore),
            ),
        ];
        for (code, detail, expected) in table {
            assert_eq!(exit(&of_reply(code, detail)), expected, "{code} {detail}");
        }
    }

    #[test]
    fn an_error_without_a_reason_is_told_as_such() {
        for code in ["", " "] {
            let ServerFailure::Away(why) = of_reply(code, "") else { panic!("there is hope") };
            assert_eq!(why, "it replies with an error and no reason");
        }
    }

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        let ServerFailure::Away(why) = of_reply("ERR", "\u{1b}[2Jboo") else { panic!("there is hope") };
        assert_eq!(why, "ERR \\u{1b}[2Jboo");
    }
}
