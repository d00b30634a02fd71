//! Telling the driver's thread what happens, wherever it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::world::Event;
use crate::interrupt::Interrupt;

/// Tells of events. For the threads that notice them.
#[derive(Clone)]
pub(super) struct Teller {
    send: Sender<Event>,
    /// How often the driver's thread has begun or ended a call in which it does not see the channel: odd within one.
    calls: Arc<AtomicU64>,
    interrupt: Arc<Interrupt>,
}

/// Hears of events. For the driver's thread.
pub(super) struct Hearer {
    events: Receiver<Event>,
    calls: Arc<AtomicU64>,
}

/// A teller, and who hears it: the thread of `interrupt`.
pub(super) fn pair(interrupt: Arc<Interrupt>) -> (Teller, Hearer) {
    let (send, events) = unbounded();
    let calls = Arc::new(AtomicU64::new(0));
    (Teller { send, calls: Arc::clone(&calls), interrupt }, Hearer { events, calls })
}

impl Teller {
    /// Tells of an event. Returns whether anybody may hear it.
    pub(super) fn tell(&self, event: Event) -> bool {
        let is_sent = self.send.send(event).is_ok();
        let call = self.calls.load(SeqCst);
        // Only out of this very call: the next one begins with a look at the channel.
        self.interrupt.nudge_while(|| call % 2 == 1 && self.calls.load(SeqCst) == call);
        is_sent
    }

    /// Tells that the run is to stop, and has whatever call the thread is in end.
    pub(super) fn stop(&self, event: Event) {
        // Before the event is sent: the driver must not begin a write after receiving it.
        self.interrupt.raise();
        self.tell(event);
        self.interrupt.nudge_until_heard();
    }
}

impl Hearer {
    /// The channel of events.
    pub(super) fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Runs a call that blocks, unless there is an event already; one that comes meanwhile ends the call with EINTR.
    pub(super) fn deafly(&self, call: impl FnOnce()) {
        // Counted first: an event that is sent after the look at the channel finds that there is a call.
        self.calls.fetch_add(1, SeqCst);
        if self.events.is_empty() {
            call();
        }
        self.calls.fetch_add(1, SeqCst);
    }
}
