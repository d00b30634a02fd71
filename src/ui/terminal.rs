//! What stderr is, where it is a terminal.

use std::env;
use std::io::{self, IsTerminal};

use nix::libc;
use nix::unistd::{getpgrp, tcgetpgrp};

/// Columns of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;

/// Whether stderr is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether a line on it can be drawn again.
pub(super) fn can_redraw() -> bool {
    is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How many columns it has now.
pub(super) fn width() -> usize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills in a winsize, which it is given one of.
    #[expect(unsafe_code)]
    let result = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result == 0 && size.ws_col > 0 { usize::from(size.ws_col) } else { USUAL_WIDTH }
}

/// Whether it is ours to draw on: that of the shell's other jobs is not. One that does not control our session is.
pub(super) fn is_foreground() -> bool {
    tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
}
