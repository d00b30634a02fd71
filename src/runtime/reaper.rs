//! Notices that a command has ended.

use std::thread;

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, unbounded};
use nix::errno::Errno;
use nix::sys::signal::{SigHandler, Signal, signal};

use super::readable::AGAIN;
use super::waker::Waker;
use super::world::Event;
use crate::sink::has_ended;

/// Waits for commands to end, without reaping them.
///
/// Until the driver's thread reaps a command, its process ID cannot be reused, so that thread may safely send it
/// signals.
pub(super) struct Reaper {
    ask: Sender<()>,
    /// True while the thread waits for an end that was not reported yet.
    is_asked: bool,
}

impl Reaper {
    /// Starts a thread that waits for the end of a command whenever it is asked to.
    pub(super) fn start(waker: Waker) -> Result<Self> {
        restore_sigchld();
        let (ask, asked) = unbounded();
        super::spawn("reaper", move || run(&asked, &waker))?;
        Ok(Reaper { ask, is_asked: false })
    }

    /// Has the next end reported as an event, for waits that also listen to other things.
    pub(super) fn listen(&mut self) {
        if !self.is_asked {
            self.is_asked = self.ask.send(()).is_ok();
        }
    }

    /// Notes that an end was reported as an event.
    pub(super) fn has_told(&mut self) {
        self.is_asked = false;
    }

    /// Blocks until a command ends or a signal comes. Returns whether a command has ended.
    pub(super) fn wait() -> bool {
        wait_for_an_end().is_ok()
    }
}

/// Restores the default of SIGCHLD: if our parent ignored it, the kernel would reap commands and lose their statuses.
fn restore_sigchld() {
    // SAFETY: the default action runs none of our code.
    #[expect(unsafe_code)]
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

fn run(asked: &Receiver<()>, waker: &Waker) {
    for () in asked {
        while let Err(Errno::EINTR) = wait_for_an_end() {}
        waker.send(Event::Exited);
    }
}

/// Blocks until some child may have ended.
///
/// # Errors
/// A signal came, or there is no child.
fn wait_for_an_end() -> nix::Result<()> {
    let ended = has_ended(None, 0).map(drop);
    if let Err(Errno::EINTR | Errno::ECHILD) | Ok(()) = ended {
        return ended;
    }
    // Some sandboxes forbid it. Whoever asked looks for itself.
    thread::sleep(AGAIN);
    Ok(())
}
