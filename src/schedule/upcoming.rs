//! The next release, as far as is known.

use crate::time::Time;

/// When something is released next, and from which lane.
#[derive(Default)]
pub(super) struct Upcoming {
    /// The instant, which may turn out later; and the lane, if that is known.
    next: Option<(Time, Option<usize>)>,
    /// Since when the limits name no instant for what waits.
    paused_since: Option<Time>,
    /// The sink could not take more; it is not tried again before this instant.
    not_before: Time,
}

impl Upcoming {
    /// The instant, if the limits say when.
    pub(super) fn at(&self) -> Option<Time> {
        self.next.and_then(|(at, _)| at.known())
    }

    /// The lane, if it is known.
    pub(super) fn lane(&self) -> Option<usize> {
        self.next?.1
    }

    /// True once it is known, since it was last cleared, what the next release waits for.
    pub(super) fn is_decided(&self) -> bool {
        self.next.is_some()
    }

    /// What may go now is to be decided anew.
    pub(super) fn clear(&mut self) {
        self.next = None;
    }

    /// A lane may release something at `at`, or as soon as the sink is tried again.
    pub(super) fn set(&mut self, at: Time, lane: usize) {
        self.next = Some((at.max(self.not_before), Some(lane)));
    }

    /// Nothing may go at `now`. The limits name this next instant, in a lane, if anything waits.
    pub(super) fn find(&mut self, now: Time, next: Option<(Time, usize)>) {
        self.next = next.map(|(at, lane)| (at, Some(lane)));
        self.paused_since = self.is_never().then(|| self.paused_since.unwrap_or(now));
    }

    /// True if it is known that the limits name no instant.
    pub(super) fn is_never(&self) -> bool {
        matches!(self.next, Some((Time::NEVER, _)))
    }

    /// Something is released.
    pub(super) fn release(&mut self) {
        self.paused_since = None;
    }

    /// Since when the limits have named no instant, if they do not.
    pub(super) fn paused_since(&self) -> Option<Time> {
        self.paused_since.filter(|_| self.is_never())
    }

    /// Does not try the sink again before `until`.
    pub(super) fn postpone(&mut self, until: Time) {
        self.not_before = until;
    }

    /// True if the sink is not tried at `now`.
    pub(super) fn is_postponed(&self, now: Time) -> bool {
        self.not_before > now
    }

    /// Nothing may go before the sink is tried again.
    pub(super) fn wait_for_sink(&mut self) {
        self.next = Some((self.not_before, None));
    }
}
