//! The ends of commands and runs, and which of several failures decides the exit status.

use std::borrow::Cow;
use std::fmt::{self, Display};

use nix::sys::signal::{SigHandler, SigSet, Signal, raise, signal};

/// The end of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Exited with this code.
    Exited(i32),
    /// Killed by the signal with this number; TERM if it exited on a timeout.
    Killed(i32),
}

impl End {
    /// The exit code, as a shell reports it: 128 plus the number for a signal.
    pub(crate) fn code(self) -> i32 {
        match self {
            End::Exited(code) => code,
            End::Killed(signal) => 128 + signal,
        }
    }

    /// The signal that ended it, or 0.
    pub(crate) fn signal(self) -> i32 {
        match self {
            End::Exited(_) => 0,
            End::Killed(signal) => signal,
        }
    }
}

impl Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            End::Exited(code) => write!(f, "exited with {code}"),
            End::Killed(signal) => write!(f, "was killed by {}", signal_name(signal)),
        }
    }
}

/// The end of a command that was run for one or more items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobEnd {
    /// The number of its first item.
    pub first: u64,
    /// Its exit code or signal.
    pub end: End,
    /// It reached its timeout and was ended.
    pub timed_out: bool,
    /// The status of the last HTTP answer that it passed on.
    pub http: Option<u16>,
    /// The pause that a server asked for, in nanoseconds.
    pub retry_after: Option<u64>,
    /// What it passed on of a server's answer that cannot be read, if the user has not been told of such yet.
    pub unread: Option<Box<str>>,
}

impl JobEnd {
    /// The end of a command that passed on nothing.
    pub fn new(first: u64, end: End) -> Self {
        JobEnd { first, end, timed_out: false, http: None, retry_after: None, unread: None }
    }
}

/// The end of a run. Ordered by rank: of several, the highest decides the exit status.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// A bad item was skipped, with `--on-bad skip`.
    BadItem,
    /// A command exited with 1 to 254, or could not be given its item.
    CommandFailed,
    /// A command exited with 255, which asks to stop.
    CommandStopped,
    /// A command was killed by a signal.
    CommandKilled,
    /// Workers ended with this status before they had answered.
    Worker(i32),
    /// The command was found but cannot be run.
    CannotRun,
    /// The command was not found.
    NotFound,
    /// An item was refused, with `--on-limit fail`, or an audit found a release too early.
    Refused,
    /// The store cannot be reached, or is busy for too long.
    StoreAway,
    /// The shared state is damaged, or belongs to other limits.
    BadState,
    /// The store refuses to serve us: a password, a permission, a certificate.
    BadStore,
    /// The command line is invalid.
    Usage,
    /// An internal error, or an I/O error.
    Error,
    /// Ended by the signal with this number.
    Signal(i32),
}

impl Exit {
    /// Nobody reads the output: ends like a process that does not handle SIGPIPE.
    pub(crate) const READER_GONE: Exit = Exit::Signal(Signal::SIGPIPE as i32);

    /// The exit status, as a shell sees it.
    pub fn status(self) -> i32 {
        match self {
            Exit::Done => 0,
            Exit::BadItem | Exit::Error => 1,
            Exit::Usage => 2,
            Exit::BadState => 65,
            Exit::StoreAway => 69,
            Exit::Refused => 75,
            Exit::BadStore => 78,
            Exit::CommandFailed => 123,
            Exit::CommandStopped => 124,
            Exit::CommandKilled => 125,
            Exit::Worker(status) => status,
            Exit::CannotRun => 126,
            Exit::NotFound => 127,
            Exit::Signal(number) => 128 + number,
        }
    }

    /// The exit of a run in which every other command succeeded.
    pub(crate) fn of_command(end: End) -> Exit {
        match end {
            End::Exited(0) => Exit::Done,
            End::Exited(255) => Exit::CommandStopped,
            End::Exited(_) => Exit::CommandFailed,
            End::Killed(_) => Exit::CommandKilled,
        }
    }

    /// True if nothing more may be started after it.
    pub(crate) fn ends_the_run(self) -> bool {
        !matches!(self, Exit::Done | Exit::BadItem | Exit::CommandFailed | Exit::CommandKilled)
    }

    /// Ends the process. After a signal, raises that signal again so that the shell or parent sees it.
    pub fn leave(self) -> ! {
        if let Exit::Signal(number) = self {
            die_of(number);
        }
        std::process::exit(self.status())
    }
}

/// The name of a signal; real-time signals have only a number.
pub(crate) fn signal_name(number: i32) -> Cow<'static, str> {
    Signal::try_from(number)
        .map_or_else(|_| format!("signal {number}").into(), |signal| signal.as_str().into())
}

/// Kills the process with a signal; returns if the signal does not kill.
fn die_of(number: i32) {
    let Ok(number) = Signal::try_from(number) else { return };
    // SAFETY: the default action runs none of our code.
    #[expect(unsafe_code)]
    let _ = unsafe { signal(number, SigHandler::SigDfl) };
    let _ = SigSet::from(number).thread_unblock();
    let _ = raise(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_ranking_failure_wins() {
        let ranks = [
            Exit::Done,
            Exit::BadItem,
            Exit::CommandFailed,
            Exit::CommandStopped,
            Exit::CommandKilled,
            Exit::Worker(9),
            Exit::CannotRun,
            Exit::NotFound,
            Exit::Refused,
            Exit::StoreAway,
            Exit::BadState,
            Exit::BadStore,
            Exit::Usage,
            Exit::Error,
            Exit::Signal(1),
        ];
        for pair in ranks.windows(2) {
            assert_eq!(pair[0].max(pair[1]), pair[1]);
        }
        assert_eq!(ranks.map(Exit::status), [0, 1, 123, 124, 125, 9, 126, 127, 75, 69, 65, 78, 2, 1, 129]);
    }

    #[test]
    fn signals_without_a_name_are_told_by_their_number() {
        assert_eq!([9, 34, 64].map(signal_name), ["SIGKILL", "signal 34", "signal 64"]);
    }

    #[test]
    fn what_a_commands_end_means() {
        let table = [
            (End::Exited(0), 0, false),
            (End::Exited(1), 123, false),
            (End::Exited(125), 123, false),
            (End::Exited(254), 123, false),
            (End::Exited(255), 124, true),
            (End::Killed(9), 125, false),
        ];
        for (end, status, ends) in table {
            let exit = Exit::of_command(end);
            assert_eq!((exit.status(), exit.ends_the_run()), (status, ends), "{end:?}");
        }
    }
}
