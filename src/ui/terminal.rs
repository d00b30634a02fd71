//! Standard error as a terminal.

use std::env;
use std::io::{self, IsTerminal};

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
    tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
}
