//! A request to stop that reaches a thread wherever it is blocked.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Ignored by default, and sent by nobody else to a process that owns no socket. It must not be blocked, see
/// [`crate::inherited::prepare`].
const NUDGE: Signal = Signal::SIGURG;

/// The pauses between nudges, the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LAST_PAUSE: Duration = Duration::from_millis(1);

/// Raised once the run is to stop.
///
/// A thread that waits on a channel hears of it there. One that is blocked in a system call, such as a write
/// to a full pipe, has to be nudged out of it: the call returns EINTR, and the thread looks at the flag.
pub(crate) struct Interrupt {
    raised: AtomicBool,
    heard: AtomicBool,
    thread: Pthread,
}

impl Interrupt {
    /// An interrupt for the calling thread.
    pub(crate) fn for_this_thread() -> Self {
        extern "C" fn nothing(_: i32) {}
        // Without SA_RESTART, so that the interrupted call returns.
        let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing.
        #[expect(unsafe_code)]
        let _ = unsafe { sigaction(NUDGE, &action) };
        Interrupt { raised: AtomicBool::new(false), heard: AtomicBool::new(false), thread: pthread_self() }
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(SeqCst)
    }

    /// The run is to stop, and the thread does not know yet why.
    pub(crate) fn is_unheard(&self) -> bool {
        self.is_raised() && !self.heard.load(SeqCst)
    }

    pub(crate) fn raise(&self) {
        self.raised.store(true, SeqCst);
    }

    /// Nudges the thread until it has heard. For another thread to call.
    pub(crate) fn nudge_until_heard(&self) {
        self.nudge_while(|| !self.heard.load(SeqCst));
    }

    /// Nudges the thread out of a call, as long as it is in one.
    ///
    /// Once is not enough: the nudge may come just before the call that then blocks.
    pub(crate) fn nudge_while(&self, is_in_call: impl Fn() -> bool) {
        let mut pause = FIRST_PAUSE;
        while is_in_call() {
            let _ = pthread_kill(self.thread, NUDGE);
            thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// The thread knows.
    pub(crate) fn hear(&self) {
        self.heard.store(true, SeqCst);
    }
}
