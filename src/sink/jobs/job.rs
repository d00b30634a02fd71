//! A running command, and how it is started and signalled.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::ptr;

use nix::libc;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::capture::Capture;
use crate::inherited::inherited;
use crate::time::{SECOND, Time};

/// The time that a command has to end cleanly after its timeout.
const GRACE: u64 = 2 * SECOND;

pub(super) struct Job {
    pub(super) pid: Pid,
    /// The number of its first item.
    pub(super) first: u64,
    pub(super) slot: usize,
    /// The file to which it writes what a server has said.
    pub(super) headers: Option<PathBuf>,
    pub(super) capture: Option<Capture>,
    pub(super) patience: Patience,
}

/// How long a process may still take.
#[derive(Default)]
pub(super) struct Patience {
    /// The instant at which to signal it next for taking too long.
    pub(super) ends: Option<Time>,
    /// True once it has taken too long.
    pub(super) is_over: bool,
}

impl Patience {
    /// It may take this number of nanoseconds from `now` on, or as long as it likes. Changes nothing if it has taken
    /// too long before.
    pub(super) fn begin(&mut self, now: Time, timeout: Option<u64>) {
        if !self.is_over {
            self.ends = timeout.and_then(|timeout| now.checked_add(timeout.into()));
        }
    }

    /// The signal to send at `now`, if it has taken too long. Sets the next deadline.
    pub(super) fn check(&mut self, now: Time) -> Option<Signal> {
        self.ends.filter(|ends| *ends <= now)?;
        let is_first = !std::mem::replace(&mut self.is_over, true);
        self.ends = now.checked_add(GRACE.into()).filter(|_| is_first);
        Some(if is_first { Signal::SIGTERM } else { Signal::SIGKILL })
    }
}

/// Starts commands, and sends them signals.
///
/// Without a controlling terminal, or with a timeout, each command leads a process group of its own, so that a signal
/// also reaches what it started. Otherwise it stays in our group: the terminal's Ctrl-C reaches it there, and it can
/// still ask for passwords on /dev/tty. In a group of its own, it gets our Ctrl-C passed on.
pub(super) struct Parent {
    own_group: bool,
}

impl Parent {
    pub(super) fn new(is_timed: bool) -> Self {
        let has_terminal = File::open("/dev/tty").is_ok();
        Parent { own_group: is_timed || !has_terminal }
    }

    pub(super) fn start(&self, mut command: Command) -> io::Result<Pid> {
        if self.own_group {
            command.process_group(0);
        }
        // This makes std start the command in a slower way, so only if needed.
        if inherited().to_ignore().next().is_some() || inherited().to_block().is_some() {
            restore(&mut command);
        }
        let child = match command.spawn() {
            // A script without `#!`, which execvp(3) runs with sh: std calls execvp only in its slower way.
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                restore(&mut command);
                command.spawn()
            }
            child => child,
        }?;
        Ok(Pid::from_raw(child.id().cast_signed()))
    }

    /// Sends a signal to a command that was started here and not reaped, so its process ID is still its own.
    pub(super) fn signal(&self, pid: Pid, signal: Signal) {
        let send = if self.own_group { killpg } else { kill };
        let _ = send(pid, signal);
        if signal != Signal::SIGKILL {
            // A stopped command would never receive it.
            let _ = send(pid, Signal::SIGCONT);
        }
    }
}

/// Makes a command ignore and block the signals that we inherited so.
pub(super) fn restore(command: &mut Command) {
    let inherited = inherited();
    let restore = move || {
        // SAFETY: an action that runs none of our code, and calls that are allowed between fork and exec.
        #[expect(unsafe_code)]
        unsafe {
            for signal in inherited.to_ignore() {
                libc::signal(signal, libc::SIG_IGN);
            }
            if let Some(mask) = inherited.to_block() {
                libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ref(), ptr::null_mut());
            }
        }
        Ok(())
    };
    // SAFETY: it only makes those calls.
    #[expect(unsafe_code)]
    unsafe {
        command.pre_exec(restore);
    }
}
