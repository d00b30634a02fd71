//! A release of nothing but permission: whoever waits for it may go on.

use super::{Sent, Sink};
use crate::source::{Batch, Capacity};
use crate::time::Time;

/// Takes releases and does nothing with them.
#[derive(Default)]
pub struct PermitSink {
    /// The command that runs next, if it is to be shown.
    pub trace: Option<String>,
}

impl Sink for PermitSink {
    fn capacity(&self) -> Capacity {
        Capacity::UNLIMITED
    }

    fn send(&mut self, _: Time, _: &Batch, _: &mut dyn FnMut()) -> Sent {
        Sent::All
    }

    fn trace(&mut self, _: &Batch) -> Option<String> {
        self.trace.clone()
    }
}
