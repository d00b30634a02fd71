//! The limits, and what was admitted by them: the state that is shared.

use std::sync::{Arc, Weak};

use super::Refusal;
use super::values::Charges;
use crate::gate::{Gate, Pending, Request, Scope};
use crate::time::{Time, Wall};

/// An item's charges, and the instant from which it waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) since: Time,
    pub(super) charges: Charges,
    /// Held by all copies, if answers depend on `since`.
    #[expect(dead_code, reason = "it is only held")]
    pub(super) mark: Option<Arc<Time>>,
}

impl Waiting {
    pub(super) fn request(&self) -> Request<'_> {
        Request { since: self.since, costs: &self.charges.costs, keys: &self.charges.keys }
    }
}

/// An answer other than yes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum No {
    Until(Time),
    Busy,
    Never,
}

/// Limits with their past releases and those under way.
pub(super) struct Limits {
    gate: Gate,
    /// The latest instant at which something was admitted, counted or ended. Nothing can happen before it: a limit may
    /// have forgotten what mattered until then.
    latest: Time,
    /// Nothing is admitted before.
    paused: Time,
    /// The items that are waiting, if an answer depends on when they began to.
    marks: Vec<Weak<Time>>,
    /// Releases whose end was not told: they end by the next instant that is.
    dropped: Vec<Waiting>,
    /// Nothing was asked for yet.
    is_new: bool,
}

impl Limits {
    pub(super) fn new(gate: Gate) -> Self {
        Limits {
            gate: gate.until_ended(),
            latest: Time::ZERO,
            paused: Time::ZERO,
            marks: Vec::new(),
            dropped: Vec::new(),
            is_new: true,
        }
    }

    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        if self.is_new {
            // With `start=empty`, a period of another clock would be used up.
            self.gate = Gate::new(self.gate.rates().to_vec(), Time::ZERO, wall).until_ended();
        }
        self.gate.set_wall(now, wall);
    }

    pub(super) fn pause(&mut self, until: Time) {
        self.paused = self.paused.max(until);
    }

    /// True if answers depend on when an item began to wait.
    pub(super) fn saves_up(&self) -> bool {
        self.gate.properties().depends_on_since
    }

    /// Keeps what an answer to an item that waits since then depends on, as long as there is a copy.
    pub(super) fn mark(&mut self, since: Time) -> Arc<Time> {
        if self.marks.len() == self.marks.capacity() {
            self.marks.retain(|mark| mark.strong_count() > 0);
        }
        let mark = Arc::new(since);
        self.marks.push(Arc::downgrade(&mark));
        mark
    }

    /// The first instant from `now` on at which a release is allowed, or why there is none.
    pub(super) fn answer(&mut self, item: &Waiting, now: Time) -> No {
        self.settle(now);
        let now = now.max(self.latest).max(self.paused);
        match self.gate.opening(Scope::All, &item.request(), now).from.known() {
            Some(at) => No::Until(at),
            None if self.gate.runs(&item.request()) => No::Busy,
            None => No::Never,
        }
    }

    /// The number of releases like this that may be admitted at `now`.
    pub(super) fn left(&mut self, item: &Waiting, now: Time) -> u64 {
        let now = self.advance(now);
        if now < item.since.max(self.paused) {
            return 0;
        }
        self.gate.admit(&mut Pending::default(), now, &item.request(), u64::MAX).unwrap_or(0)
    }

    /// Admits a release: it counts from now on. Returns the instant at which it does.
    pub(super) fn admit(&mut self, item: &Waiting, now: Time) -> Result<Time, Refused> {
        self.settle(now);
        let now = now.max(self.latest);
        if now < item.since.max(self.paused) {
            return Err(Refused::ByAll);
        }
        match self.gate.begin(now, &item.request()) {
            Ok(()) => {
                self.latest = now;
                Ok(now)
            }
            Err(blocked) if self.gate.is_common(blocked.by) => Err(Refused::ByAll),
            Err(blocked) => Err(Refused::ByKey(self.gate.key_of(blocked.by))),
        }
    }

    /// Ends a release by `now`.
    pub(super) fn finish(&mut self, item: Waiting, admitted: Time, now: Time) {
        let now = self.advance(now.max(admitted));
        self.gate.finish(now, &item.request());
        // It no longer waits, so it must not hold back the horizon below.
        drop(item);
        if self.gate.evict_at() <= now {
            let waiting = self.marks.iter().filter_map(Weak::upgrade);
            let horizon = waiting.map(|since| *since).fold(now, Time::min);
            self.gate.evict(now, horizon);
        }
    }

    /// Ends a release by the next instant that is told.
    pub(super) fn finish_soon(&mut self, item: Waiting) {
        self.dropped.push(item);
    }

    /// Takes back a release that did not happen.
    pub(super) fn withdraw(&mut self, item: &Waiting) {
        self.gate.withdraw(&item.request());
    }

    /// Goes on to `now`, or stays at a later instant.
    fn advance(&mut self, now: Time) -> Time {
        self.settle(now);
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Ends what was dropped before `now`.
    fn settle(&mut self, now: Time) {
        self.is_new = false;
        while let Some(item) = self.dropped.pop() {
            self.latest = self.latest.max(now);
            self.gate.finish(self.latest, &item.request());
        }
    }
}

/// What refused a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// A limit that all items share.
    ByAll,
    /// A limit by the key with this index.
    ByKey(usize),
}

impl No {
    pub(super) fn refusal(self, instant: impl FnOnce(Time) -> Option<std::time::Instant>) -> Refusal {
        match self {
            No::Until(at) => instant(at).map_or(Refusal::Never, Refusal::Until),
            No::Busy => Refusal::Busy,
            No::Never => Refusal::Never,
        }
    }
}
