//! The state of the process as it was started: writing to a closed stdout must fail, and commands inherit the signal
//! dispositions that we inherited.
//!
//! Signals that were ignored stay ignored, as in a shell. Blocked ones are unblocked: the mask was rarely meant for us.
//! Commands get the original mask and dispositions.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use nix::libc::{
    self, SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2, SIGXFSZ,
    c_int,
};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};

/// The signals besides INT that would end a process which leaves its commands behind.
pub(crate) const ENDING: [c_int; 5] = [SIGTERM, SIGHUP, SIGQUIT, SIGUSR2, SIGALRM];

/// The other signals whose disposition a run, a wait or std changes, or that must not be caught if they were ignored.
const OTHERS: [c_int; 6] = [SIGCHLD, SIGINT, SIGPIPE, SIGURG, SIGUSR1, SIGXFSZ];

/// Those of them that we or std reset even if they were ignored.
const CHANGED: [c_int; 3] = [SIGCHLD, SIGPIPE, SIGURG];

/// The signals besides those that are unblocked if they were blocked.
const HEARD: [c_int; 3] = [SIGINT, SIGURG, SIGUSR1];

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    /// True if descriptor 0 was not open.
    pub(crate) stdin_closed: bool,
    /// True if descriptor 1 was not open.
    pub(crate) stdout_closed: bool,
    /// In the order of `ENDING`, then `OTHERS`.
    ignored: [bool; ENDING.len() + OTHERS.len()],
    /// The signals that were blocked, if known.
    pub(crate) mask: Option<SigSet>,
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// The state of the process before [`prepare`].
pub(crate) fn inherited() -> Inherited {
    INHERITED.get().copied().unwrap_or_default()
}

/// Notes down the state of the process, and makes it that of a run. To be called once, before anything else.
///
/// A closed stdin, stdout or stderr is filled, so that no file takes its number. SIGPIPE is ignored: the write fails
/// instead. When a file reaches its size limit, the write must fail, too, where SIGXFSZ would end the run without a
/// word. That signal is caught rather than ignored, so commands find it at its default. So is USR1 until there is a
/// listener: it never ends a run. The signals that a run needs are unblocked.
pub fn prepare() {
    extern "C" fn nothing(_: c_int) {}
    let _ = INHERITED.set(Inherited::now());
    [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().for_each(fill);
    handle(Signal::SIGPIPE, SigHandler::SigIgn);
    for signal in [Signal::SIGXFSZ, Signal::SIGUSR1] {
        if !inherited().ignores(signal as c_int) {
            handle(signal, SigHandler::Handler(nothing));
        }
    }
    let _ = heard().thread_unblock();
}

/// The signals that a run needs.
fn heard() -> SigSet {
    ENDING.into_iter().chain(HEARD).filter_map(|signal| Signal::try_from(signal).ok()).collect()
}

fn watched() -> impl Iterator<Item = c_int> {
    ENDING.into_iter().chain(OTHERS)
}

fn handle(signal: Signal, handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: no handler of ours does anything.
    #[expect(unsafe_code)]
    let _ = unsafe { sigaction(signal, &action) };
}

/// While it exists, the signals that a run needs stay pending, and threads that are started never receive them.
pub(crate) struct Uninterrupted(Option<SigSet>);

impl Uninterrupted {
    pub(crate) fn begin() -> Self {
        Uninterrupted(heard().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok())
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        let _ = self.0.map(|mask| mask.thread_set_mask());
    }
}

impl Inherited {
    fn now() -> Self {
        let mut ignored = [false; ENDING.len() + OTHERS.len()];
        ignored.iter_mut().zip(watched()).for_each(|(ignored, signal)| *ignored = is_ignored(signal));
        Inherited {
            stdin_closed: is_closed(libc::STDIN_FILENO),
            stdout_closed: is_closed(libc::STDOUT_FILENO),
            ignored,
            mask: SigSet::thread_get_mask().ok(),
        }
    }

    /// Checks that standard output is open: what is opened in its place would take everything and keep nothing.
    ///
    /// # Errors
    /// It was closed.
    pub(crate) fn check_stdout(self) -> Result<()> {
        ensure!(
            !self.stdout_closed,
            "cannot write to standard output: it is closed: redirect it to a file, or to /dev/null"
        );
        Ok(())
    }

    /// The signals that a command must ignore, and would not without our help.
    pub(crate) fn to_ignore(self) -> impl Iterator<Item = c_int> {
        CHANGED.into_iter().filter(move |&signal| self.ignores(signal))
    }

    pub(crate) fn ignores(self, signal: c_int) -> bool {
        watched().zip(self.ignored).any(|(watched, is_ignored)| watched == signal && is_ignored)
    }
}

/// Opens something in place of a closed standard stream: where there is no /dev/null, a directory, which can be neither
/// read nor written, and is closed again for commands.
#[expect(unsafe_code)]
fn fill(fd: c_int) {
    // SAFETY: only queries, and opens the lowest free descriptor, which nothing uses yet.
    unsafe {
        if is_closed(fd) && libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) == -1 {
            libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        }
    }
}

/// The descriptor 0, without the buffer that std keeps for it.
#[expect(unsafe_code)]
pub(crate) fn stdin() -> BorrowedFd<'static> {
    // SAFETY: `prepare` has seen to it that it is open, and nothing closes it.
    unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
}

#[expect(unsafe_code)]
fn is_closed(fd: c_int) -> bool {
    // SAFETY: only queries.
    unsafe { libc::fcntl(fd, libc::F_GETFD) == -1 }
}

#[expect(unsafe_code)]
fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zero is a valid sigaction, and a null action only queries the current one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
