//! Standard error as a terminal.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::unistd::{getpgrp, tcgetpgrp};
use terminal_size::{Width, terminal_size};

/// The number of columns if the terminal does not tell, or if there is none.
const USUAL_WIDTH: usize = 80;

pub(super) fn can_redraw() -> bool {
    io::stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The current number of columns of the terminal that any of the standard streams is connected to.
pub(super) fn width() -> usize {
    terminal_size().map_or(USUAL_WIDTH, |(Width(width), _)| width.into())
}

/// Reports whether the terminal is ours to draw on: not while the shell runs another job in the foreground. A terminal
/// that does not control our session is always ours.
pub(super) fn is_foreground() -> bool {
    is_ours(io::stderr())
}

fn is_ours(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).map_or(true, |group| group == getpgrp())
}

/// The terminal that controls our session, for lines of which some may be lost.
pub(super) struct Terminal(File);

impl Terminal {
    /// `None` if there is none, as under cron.
    pub(super) fn open() -> Option<Self> {
        // A terminal that was stopped with Ctrl-S must not hold up the run.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        OpenOptions::new().write(true).custom_flags(flags.bits()).open("/dev/tty").ok().map(Terminal)
    }

    /// Shows a line, unless the shell runs another job in the foreground.
    pub(super) fn show(&self, line: &str) {
        if is_ours(&self.0) {
            let _ = (&self.0).write_all(line.as_bytes());
        }
    }
}
