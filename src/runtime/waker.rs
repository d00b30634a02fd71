//! Wakes the driver's thread, wherever it waits, when something happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::world::Event;
use crate::interrupt::Interrupt;

/// Sends events. For the threads that notice them.
#[derive(Clone)]
pub(super) struct Waker {
    sender: Sender<Event>,
    /// Incremented when the driver's thread begins or ends a call in which it does not see the channel: odd during a
    /// call.
    calls: Arc<AtomicU64>,
    /// That of the driver's thread, raised when the run is to stop.
    pub(super) interrupt: Arc<Interrupt>,
}

/// Receives events. For the driver's thread.
pub(super) struct Events {
    receiver: Receiver<Event>,
    pub(super) waker: Waker,
}

impl Waker {
    /// Sends an event, and interrupts the wait for it. Returns whether anyone may receive it.
    pub(super) fn send(&self, event: Event) -> bool {
        let is_sent = self.sender.send(event).is_ok();
        let call = self.calls.load(SeqCst);
        // Ends only this very call: the next one begins with a look at the channel.
        self.interrupt.nudge_while(|| call % 2 == 1 && self.calls.load(SeqCst) == call);
        is_sent
    }

    /// Requests statistics, also in the midst of a write.
    pub(super) fn report(&self) {
        // Noted first: once the thread has received the event, it must find the request.
        self.interrupt.want_report();
        self.send(Event::Report);
        self.interrupt.ask();
    }

    /// Sends an event that stops the run, and interrupts whatever call the thread is in.
    pub(super) fn stop(&self, event: Event) {
        // Raised first: once the thread has received the event, it must not begin a write as if nothing had happened.
        self.interrupt.raise();
        self.send(event);
        self.interrupt.nudge_while(|| self.interrupt.is_unacknowledged());
    }
}

impl Events {
    /// The events for the calling thread.
    pub(super) fn for_this_thread() -> Self {
        let ((sender, receiver), interrupt) = (unbounded(), Arc::new(Interrupt::for_this_thread()));
        Events { receiver, waker: Waker { sender, calls: Arc::default(), interrupt } }
    }

    pub(super) fn next(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// Waits for the next event.
    pub(super) fn wait(&self) -> Option<Event> {
        self.receiver.recv().ok()
    }

    /// Runs a call that blocks, unless there is already an event; one that comes meanwhile ends the call with EINTR.
    pub(super) fn interruptible(&self, call: impl FnOnce()) {
        // Counted first: an event that is sent after the look at the channel must find that there is a call.
        self.waker.calls.fetch_add(1, SeqCst);
        if self.receiver.is_empty() {
            call();
        }
        self.waker.calls.fetch_add(1, SeqCst);
    }
}
