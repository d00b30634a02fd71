//! The limits, and what was admitted by them: the state that is shared.

use std::sync::{Arc, Weak};

use super::values::Charges;
use crate::charge::Key;
use crate::config::Rate;
use crate::gate::{Blocked, By, LocalLimits, Request};
use crate::time::{Time, Wall};

/// An item's charges, and the instant from which it waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) eligible_at: Time,
    pub(super) charges: Charges,
    /// Held by all copies, if answers depend on `eligible_at`.
    pub(super) mark: Option<Arc<Time>>,
}

impl Waiting {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            eligible_at: self.eligible_at,
            costs: &self.charges.costs,
            keys: &self.charges.keys,
            waits: true,
        }
    }

    /// All that may block it: a pause, and the limits that charge it.
    pub(super) fn obstacles(&self) -> impl Iterator<Item = Blocked> {
        let limits = self.charges.costs.iter().enumerate().filter(|(_, cost)| **cost > 0);
        let all = std::iter::once(By::Hold).chain(limits.map(|(limit, _)| By::Limit(limit)));
        all.map(|by| Blocked { by, until: None })
    }
}

/// The items that the same limit blocks, by the same key: the limit's index, or none during a pause, and the key, which
/// is empty if all items share the limit.
pub(super) type Line = (Option<usize>, Key);

/// Limits with their past releases and those under way.
pub(super) struct Limits {
    rates: Arc<[Rate]>,
    local: LocalLimits,
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
    pub(super) fn new(rates: Vec<Rate>, wall: Wall) -> Self {
        Limits {
            local: LocalLimits::new(&rates, Time::ZERO, wall).until_ended(),
            rates: rates.into(),
            latest: Time::ZERO,
            paused: Time::ZERO,
            marks: Vec::new(),
            dropped: Vec::new(),
            is_new: true,
        }
    }

    /// The wall clock shows this from `now` on.
    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        if self.is_new {
            // With `start=empty`, a period of another clock would be used up.
            self.local = LocalLimits::new(&self.rates, Time::ZERO, wall).until_ended();
        } else {
            self.settle(now);
        }
        self.local.set_wall(now, wall);
    }

    /// As [`Limits::set_wall`], if the clock, which showed `shown` up to `within` nanoseconds before `now`, was set.
    pub(super) fn follow(&mut self, now: Time, shown: Time, within: u64) {
        let mut wall = self.local.wall();
        wall.follow(now, shown, within);
        if wall != self.local.wall() {
            self.set_wall(now, wall);
        }
    }

    /// True if answers depend on what the wall clock shows.
    pub(super) fn go_by_wall(&self) -> bool {
        self.rates.iter().any(Rate::goes_by_wall)
    }

    pub(super) fn pause(&mut self, until: Time) {
        self.paused = self.paused.max(until);
    }

    pub(super) fn rates(&self) -> &Arc<[Rate]> {
        &self.rates
    }

    /// Keeps what an answer to an item that waits since then depends on, as long as there is a copy of the mark. An
    /// instant before the latest stands for that.
    pub(super) fn mark(&mut self, since: Time) -> Arc<Time> {
        if self.marks.len() == self.marks.capacity() {
            self.marks.retain(|mark| mark.strong_count() > 0);
        }
        let mark = Arc::new(since.max(self.latest));
        self.marks.push(Arc::downgrade(&mark));
        mark
    }

    /// The first instant from `now` on at which all limits allow a release, if that depends on time alone.
    pub(super) fn earliest(&mut self, item: &Waiting, now: Time) -> Option<Time> {
        self.settle(now);
        let from = now.max(self.latest).max(self.paused);
        self.local.opening(&item.request(), from).from.known()
    }

    /// True if a release is under way that counts for a limit of this one: when that allows it may depend on its end.
    pub(super) fn awaits_end(&self, item: &Waiting) -> bool {
        let charging = item.obstacles().filter_map(Blocked::limit);
        charging.map(|at| self.local.limit(at)).any(|limit| limit.runs(&item.request()))
    }

    /// The line of those whom the same limit blocks.
    pub(super) fn line(&self, blocked: Blocked, item: &Waiting) -> Line {
        let limit = blocked.limit();
        let key = |limit| Key::from_slice(self.local.limit(limit).key_of(&item.request()));
        (limit, limit.map_or(Key::new(), key))
    }

    /// The first instant from `now` on at which what blocks a release no longer does, which may be never; `None` if it
    /// depends on the end of another release.
    pub(super) fn unblocks(&self, blocked: Blocked, item: &Waiting, now: Time) -> Option<Time> {
        let Some(at) = blocked.limit() else { return blocked.until };
        let (limit, request) = (self.local.limit(at), item.request());
        let from = now.max(self.latest).max(request.eligible_at);
        let opens = limit.opening_for(&request, request.costs[at], from).from;
        Some(opens).filter(|opens| *opens < Time::NEVER || !limit.runs(&request))
    }

    /// The number of releases like this that may be admitted at `now`.
    pub(super) fn left(&mut self, item: &Waiting, now: Time) -> u64 {
        let now = self.advance(now);
        if now < item.eligible_at.max(self.paused) {
            return 0;
        }
        let left = self.local.left(now, &item.request());
        self.evict(now);
        left
    }

    /// Admits a release: it counts from now on, or it is `over` at once. Returns the instant at which it does.
    ///
    /// # Errors
    /// What blocks it, with no instant if that is a limit.
    #[inline]
    pub(super) fn admit(&mut self, item: &Waiting, now: Time, over: bool) -> Result<Time, Blocked> {
        self.settle(now);
        let now = now.max(self.latest);
        let from = item.eligible_at.max(self.paused);
        if now < from {
            return Err(Blocked { by: By::Hold, until: Some(from) });
        }
        let begun = self.local.begin(now, &item.request(), over);
        if begun.is_ok() {
            self.latest = now;
        }
        if begun.is_err() || over {
            self.evict(now);
        }
        begun.map(|()| now)
    }

    /// Ends a release by `now`.
    #[inline]
    pub(super) fn finish(&mut self, item: &Waiting, admitted: Time, now: Time) {
        let now = self.advance(now.max(admitted));
        self.local.finish(now, &item.request());
        self.evict(now);
    }

    /// Drops idle keys when it is time, except for those that an item which waits depends on, and those that were not
    /// idle at the latest instant, which may be told again.
    #[inline]
    fn evict(&mut self, now: Time) {
        let waiting = || self.marks.iter().filter_map(Weak::upgrade);
        self.local.tidy(now, || waiting().map(|eligible_at| *eligible_at).fold(self.latest, Time::min));
    }

    /// Ends a release by the next instant that is told.
    pub(super) fn finish_soon(&mut self, item: Waiting) {
        self.dropped.push(item);
    }

    /// Takes back, at `now`, a release that did not happen.
    pub(super) fn withdraw(&mut self, item: &Waiting, now: Time) {
        self.settle(now);
        self.local.withdraw(&item.request());
    }

    /// Goes on to `now`, or stays at a later instant.
    #[inline]
    fn advance(&mut self, now: Time) -> Time {
        self.settle(now);
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Ends what was dropped before `now`.
    #[inline]
    fn settle(&mut self, now: Time) {
        self.is_new = false;
        while let Some(item) = self.dropped.pop() {
            self.latest = self.latest.max(now);
            self.local.finish(self.latest, &item.request());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, parse_limits};
    use crate::gate::Availability;
    use crate::pace::values::Charges;
    use crate::time::SECOND;

    /// Whether they are refused by another limit, or only asked about.
    #[test]
    fn keys_that_nothing_was_admitted_for_are_dropped() {
        let rates = parse_limits("1/s,key=col:1\n1/h", &Defaults::default()).unwrap();
        let mut limits = Limits::new(rates, Wall::EPOCH);
        let of_key = |number: u64| Waiting {
            charges: Charges {
                costs: [1, 1].into_iter().collect(),
                keys: [Key::from_slice(&number.to_le_bytes())].into_iter().collect(),
            },
            ..Waiting::default()
        };
        limits.admit(&of_key(0), Time::ZERO, true).unwrap();
        for is_asked in [false, true] {
            for number in 1..50_000 {
                let now = Time(number * SECOND / 1000);
                if is_asked {
                    limits.left(&of_key(number), now);
                } else {
                    limits.admit(&of_key(number), now, true).unwrap_err();
                }
            }
            let standing = limits.local.limit(0).standing(Time::ZERO);
            assert!(matches!(standing, Some(Availability::Keyed { keys }) if keys < 3000), "{standing:?}");
        }
    }
}
