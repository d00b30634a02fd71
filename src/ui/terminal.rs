//! Standard error as a terminal.

use std::env;
use std::io::{self, IsTerminal};

use nix::unistd::{getpgrp, tcgetpgrp};
use terminal_size::{Height, Width, terminal_size, terminal_size_of};

/// Columns of a terminal that does not tell, and of an old one if there is none.
const USUAL_WIDTH: usize = 80;

pub(super) fn can_redraw() -> bool {
    io::stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of stderr, as of now.
pub(super) fn width() -> usize {
    columns(terminal_size_of(io::stderr()))
}

/// Columns of the terminal that any of the standard streams leads to.
pub(super) fn any_width() -> usize {
    columns(terminal_size())
}

fn columns(size: Option<(Width, Height)>) -> usize {
    size.map_or(USUAL_WIDTH, |(Width(width), _)| width.into())
}

/// It is ours to draw on: that of the shell's other jobs is not. One that does not control our session is.
pub(super) fn is_foreground() -> bool {
    tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
}
