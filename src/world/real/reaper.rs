//! Noticing that a command has ended.

use std::io;

use crossbeam_channel::{Receiver, Sender, unbounded};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::pump::Wake;

/// Starts a thread that waits for the end of one command for each message sent to what is returned.
///
/// The command is not reaped here: until the pump's thread does that its number cannot be given to another
/// process, so that thread may safely send signals to it.
pub(super) fn start(tell: Sender<Wake>) -> io::Result<Sender<()>> {
    heed_ends();
    let (ask, asked) = unbounded();
    super::spawn("reaper", move || run(&asked, &tell))?;
    Ok(ask)
}

/// A SIGCHLD that was ignored by whoever started us would have the kernel reap commands, and lose their statuses.
fn heed_ends() {
    // SAFETY: the default action runs none of our code.
    #[expect(unsafe_code)]
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

fn run(asked: &Receiver<()>, tell: &Sender<Wake>) {
    for () in asked {
        while let Err(Errno::EINTR) = wait_for_an_end() {}
        if tell.send(Wake::Exited).is_err() {
            break;
        }
    }
}

/// Blocks until some child has ended. nix has `waitid` only for some of the systems that do.
#[expect(unsafe_code)]
fn wait_for_an_end() -> nix::Result<()> {
    // SAFETY: all zero is a valid siginfo_t, and it outlives the call.
    let result = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT)
    };
    Errno::result(result).map(drop)
}
