//! What the errors of a server mean: whether they may pass, and in words.

use std::fmt::Display;
use std::io;

use redis::{ErrorKind, RedisError};

use crate::exit::Exit;
use crate::printable::escaped;

/// The most characters of a server's words that are repeated.
const LONGEST: usize = 200;

pub(super) const TOO_LATE: &str = "no answer in time";

/// An error that may pass: try again.
pub(super) fn away(why: impl Into<String>) -> RedisError {
    (ErrorKind::Client, "", why.into()).into()
}

/// An error that will not pass.
pub(super) fn refused(why: impl Display) -> RedisError {
    (ErrorKind::InvalidClientConfig, "", why.to_string()).into()
}

/// An error of a stream.
pub(super) fn of_stream(error: io::Error) -> RedisError {
    #[cfg(feature = "tls")]
    if let Some(why) = distrust(&error) {
        return refused(format!("its certificate is not accepted: {}", of_certificate(&why.to_string())));
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => refused(error),
        _ => error.into(),
    }
}

/// Why the server's certificate is not accepted, if that is what failed.
#[cfg(feature = "tls")]
fn distrust(error: &io::Error) -> Option<&rustls::CertificateError> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(why) => Some(why),
        _ => None,
    }
}

/// The reason in words, where the library has none.
#[cfg(feature = "tls")]
fn of_certificate(why: &str) -> &str {
    if !why.contains("CaUsedAsEndEntity") {
        return why;
    }
    "it is that of an authority (CA:TRUE), which a server may not use for itself: make one with \
     basicConstraints=CA:FALSE"
}

/// A refusal of user and password. The server's own words may repeat them, so they are not shown.
pub(super) fn of_presenting(error: RedisError) -> RedisError {
    match error.code() {
        Some(code) if PASSING.contains(&code) => away(code),
        Some(code) => refused(format!("it does not accept the user and password ({})", shown(code))),
        None => error,
    }
}

/// The exit with which a run ends, at once unless it is [`Exit::StoreAway`], and the reason.
pub(super) fn meaning(error: &RedisError) -> (Exit, String) {
    let words = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidClientConfig => (Exit::BadStore, words.to_owned()),
        ErrorKind::Client => (Exit::StoreAway, words.to_owned()),
        ErrorKind::Parse => (Exit::StoreAway, "its reply makes no sense".to_owned()),
        _ if error.code().is_some() => of_reply(error.code().unwrap_or_default(), words),
        _ if error.is_timeout() => (Exit::StoreAway, TOO_LATE.to_owned()),
        _ => (Exit::StoreAway, shown(&error.to_string())),
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

fn of_reply(code: &str, detail: &str) -> (Exit, String) {
    let reply = format!("{} {}", shown(code), shown(detail));
    match HOPELESS.iter().find(|(word, _)| reply.contains(word)) {
        Some((_, why)) => (Exit::BadStore, format!("{why}: {reply}")),
        None if reply.trim().is_empty() => {
            (Exit::StoreAway, "it replies with an error and no reason".to_owned())
        }
        None => (Exit::StoreAway, reply.trim_end().to_owned()),
    }
}

/// Escaped, so that it cannot control a terminal.
fn shown(text: &str) -> String {
    escaped(text).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_hope_unless_it_is_known_that_there_is_none() {
        let table = [
            ("LOADING", "Redis is loading the dataset in memory", Exit::StoreAway),
            ("READONLY", "You can't write against a read only replica.", Exit::StoreAway),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", Exit::StoreAway),
            ("CLUSTERDOWN", "The cluster is down", Exit::StoreAway),
            ("MASTERDOWN", "Link with MASTER is down", Exit::StoreAway),
            ("ERR", "max number of clients reached", Exit::StoreAway),
            ("WRONGPASS", "invalid username-password pair", Exit::BadStore),
            ("NOAUTH", "Authentication required.", Exit::BadStore),
            ("ERR", "Protocol error: unauthenticated multibulk length", Exit::BadStore),
            ("NOPERM", "this user has no permissions", Exit::BadStore),
            ("WRONGTYPE", "Operation against a key", Exit::BadStore),
            ("ERR", "Error running script: @user_script:3: WRONGTYPE Operation", Exit::BadStore),
            ("ERR", "unknown command 'EVALSHA'", Exit::BadStore),
            ("ERR", "Unknown Redis command called from script script: eea2", Exit::BadStore),
            ("ERR", "The user executing the script can't run this command or subcommand", Exit::BadStore),
            (
                "ERR",
                "ACL failure in script: User joe has no permissions to run the 'time' command",
                Exit::BadStore,
            ),
        ];
        for (code, detail, expected) in table {
            let reply = format!("-{code} {detail}\r\n");
            let error = redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error().unwrap_err();
            assert_eq!(meaning(&error).0, expected, "{code} {detail}");
        }
    }

    #[test]
    fn an_error_without_a_reason_is_told_as_such() {
        for code in ["", " "] {
            assert_eq!(
                of_reply(code, ""),
                (Exit::StoreAway, "it replies with an error and no reason".into())
            );
        }
    }

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        let why = (Exit::StoreAway, "ERR \\u{1b}[2Jboo".to_owned());
        assert_eq!(of_reply("ERR", "\u{1b}[2Jboo"), why);
    }
}
