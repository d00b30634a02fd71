//! The process as it was found, before the standard library's own start changes it.
//!
//! Before `main`, std opens /dev/null in place of a closed stdin, stdout or stderr, and ignores SIGPIPE.
//! Both have to be known as they were: writing to a stdout that was closed is an error, not success, and
//! commands are to get the signal dispositions that we got. So this looks earlier, when the program is loaded.

use std::sync::OnceLock;

use nix::libc::{self, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, c_int};

/// The signals whose actions we, or std, change.
const CHANGED: [c_int; 6] = [SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1];

/// What was found at the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inherited {
    /// Descriptor 0 was not open.
    pub stdin_closed: bool,
    /// Descriptor 1 was not open.
    pub stdout_closed: bool,
    /// Which of `CHANGED` were ignored.
    ignored: [bool; CHANGED.len()],
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// What was found at the start.
pub fn inherited() -> Inherited {
    INHERITED.get().copied().unwrap_or_default()
}

impl Inherited {
    /// The signals that were ignored and no longer are, or that std would not leave ignored in a command.
    pub(crate) fn ignored(self) -> impl Iterator<Item = c_int> {
        CHANGED.into_iter().zip(self.ignored).filter(|(_, ignored)| *ignored).map(|(signal, _)| signal)
    }

    /// Whether `signal` was ignored.
    pub(crate) fn ignores(self, signal: c_int) -> bool {
        self.ignored().any(|ignored| ignored == signal)
    }
}

#[used]
#[expect(unsafe_code)]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let inherited = Inherited {
        stdin_closed: is_closed(libc::STDIN_FILENO),
        stdout_closed: is_closed(libc::STDOUT_FILENO),
        ignored: CHANGED.map(is_ignored),
    };
    let _ = INHERITED.set(inherited);
}

#[expect(unsafe_code)]
fn is_closed(fd: c_int) -> bool {
    // SAFETY: only asks.
    unsafe { libc::fcntl(fd, libc::F_GETFD) == -1 }
}

#[expect(unsafe_code)]
fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zero is a valid sigaction, and a null action only asks for the present one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
