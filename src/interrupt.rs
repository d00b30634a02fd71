//! A request to stop that reaches a thread wherever it is blocked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Ignored by default, and sent by no one else unless the process owns a socket (`F_SETOWN`). It must not be blocked,
/// see [`crate::inherited::prepare`].
const NUDGE: Signal = Signal::SIGURG;

/// The first and the longest pause between nudges.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LAST_PAUSE: Duration = Duration::from_millis(1);

/// A flag that is raised when the run is to stop.
///
/// A thread that waits on a channel hears of it there. A thread that is blocked in a system call, such as a write to a
/// full pipe, must be nudged out of it: the call returns EINTR, and the thread looks at the flag.
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    acknowledged: AtomicBool,
    /// Something else waits for the thread: statistics that were asked for, or only a look at what is due.
    asked: AtomicBool,
    wants_report: AtomicBool,
    /// True in a write that the thread can be asked in.
    is_writing: AtomicBool,
    /// A [`Pthread`]. Some systems have a pointer there, which could not be passed to other threads.
    thread: usize,
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
        // It is as wide as a pointer everywhere.
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast)]
        let thread = pthread_self() as usize;
        let [acknowledged, asked, wants_report, is_writing] = [(); 4].map(|()| AtomicBool::new(false));
        Interrupt { raised: Arc::default(), acknowledged, asked, wants_report, is_writing, thread }
    }

    /// The flag, for signal handlers.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.raised)
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(SeqCst)
    }

    /// True if the run is to stop, but the thread does not know why yet.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.is_raised() && !self.acknowledged.load(SeqCst)
    }

    pub(crate) fn raise(&self) {
        self.raised.store(true, SeqCst);
    }

    /// Nudges the thread for as long as it is in a call. To be called from another thread.
    ///
    /// One nudge is not enough: it may come just before the call blocks.
    pub(crate) fn nudge_while(&self, is_in_call: impl Fn() -> bool) {
        let mut pause = FIRST_PAUSE;
        while is_in_call() {
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast)]
            let _ = pthread_kill(self.thread as Pthread, NUDGE);
            thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Has the thread do what is due: in the midst of a [write](Self::while_writing), or before the next. To be called
    /// from another thread.
    pub(crate) fn ask(&self) {
        self.asked.store(true, SeqCst);
        self.nudge_while(|| self.is_asked() && self.is_writing.load(SeqCst) && !self.is_raised());
    }

    /// Has the thread report when it is [asked](Self::ask) next.
    pub(crate) fn want_report(&self) {
        self.wants_report.store(true, SeqCst);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(SeqCst)
    }

    /// Makes a write out of which the thread is nudged when it is asked.
    pub(crate) fn while_writing<T>(&self, write: impl FnOnce() -> T) -> T {
        // Stored first: whoever asks after the first look at the flag must find that there is a write.
        self.is_writing.store(true, SeqCst);
        let result = write();
        self.is_writing.store(false, SeqCst);
        result
    }

    /// Notes that the thread does what it was asked. Returns whether that is a report.
    pub(crate) fn answer(&self) -> bool {
        self.asked.store(false, SeqCst);
        self.wants_report.swap(false, SeqCst)
    }

    /// Notes that the thread knows of the stop.
    pub(crate) fn acknowledge(&self) {
        self.acknowledged.store(true, SeqCst);
    }
}
