//! Several limits at once.

use super::{Ask, Booked, Limiter, Slot, Verdict};
use crate::charge::Key;
use crate::time::Time;

/// What a release asks of a set of limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim<'a> {
    /// When the item became next in line.
    pub since: Time,
    /// What each limit charges; 0 where it does not apply.
    pub costs: &'a [u64],
    /// The keys that limits go by.
    pub keys: &'a [Key],
}

impl Claim<'_> {
    /// Whether it asks nothing of any limit.
    pub fn is_free(&self) -> bool {
        self.costs.iter().all(|&cost| cost == 0)
    }
}

/// One of several limits.
pub struct Limit {
    /// The rule.
    pub rule: Box<dyn Limiter>,
    /// Which of a claim's keys it goes by, if each key has a limiter of its own.
    pub key: Option<usize>,
}

/// Allows what every one of its limits allows. With no limit at all, everything.
///
/// Its limits are of two kinds: *shared* ones, which all items use up together, and those that each key has for
/// itself. Besides, slots may have to be booked: then a release goes in one of them, too.
#[derive(Default)]
pub struct All {
    limits: Vec<Limit>,
    booked: Option<Booked>,
}

impl FromIterator<Limit> for All {
    fn from_iter<I: IntoIterator<Item = Limit>>(limits: I) -> Self {
        All { limits: limits.into_iter().collect(), booked: None }
    }
}

impl IntoIterator for All {
    type Item = Limit;
    type IntoIter = std::vec::IntoIter<Limit>;

    fn into_iter(self) -> Self::IntoIter {
        self.limits.into_iter()
    }
}

impl All {
    /// No limit but that releases need slots, which are kept elsewhere.
    pub fn booked() -> Self {
        All { limits: Vec::new(), booked: Some(Booked::default()) }
    }

    /// Takes slots that were booked for a key and these costs.
    pub fn put(&mut self, key: &Key, costs: &[u64], slots: &[Slot]) {
        self.booked.iter_mut().for_each(|booked| booked.put(key, costs, slots.iter().copied()));
    }

    /// The slots that are held for claims like this, earliest first.
    pub fn slots(&self, claim: &Claim) -> impl DoubleEndedIterator<Item = Slot> {
        self.booked.iter().flat_map(|booked| booked.slots(claim))
    }

    /// How many slots are held, for whatever claims, that are not after `at`.
    pub fn slots_until(&self, at: Time) -> u64 {
        self.booked.iter().map(|booked| booked.until(at)).sum()
    }

    /// Gives up the slots that were not used in time.
    pub fn expire(&mut self, now: Time) {
        self.booked.iter_mut().for_each(|booked| booked.expire(now));
    }

    /// The first instant at which every limit allows the release.
    pub fn earliest(&self, claim: &Claim) -> Verdict {
        self.strictest(claim, |_| true).max(self.slot(claim))
    }

    /// Which of the limits does not allow the release at `now`; the first, if several do not.
    pub fn refusing(&self, now: Time, claim: &Claim) -> Option<usize> {
        self.limits.iter().zip(claim.costs).position(|(limit, &cost)| {
            cost > 0 && !limit.rule.earliest(&ask(claim, limit.key, cost)).allows(now)
        })
    }

    /// The answer of the shared limits only.
    pub fn shared(&self, claim: &Claim) -> Verdict {
        self.strictest(claim, |limit| limit.key.is_none())
    }

    /// The answer of the limits that go by key only, and of the slots.
    pub fn own(&self, claim: &Claim) -> Verdict {
        self.strictest(claim, |limit| limit.key.is_some()).max(self.slot(claim))
    }

    /// What of `costs` and `since` the answer of [`All::shared`] depends on, apart from being no earlier.
    ///
    /// Claims that agree in it get the same answer.
    pub fn shared_part(&self, claim: &Claim) -> (Box<[u64]>, Option<Time>) {
        let shared = |(limit, &cost): (&Limit, &u64)| if limit.key.is_none() { cost } else { 0 };
        let costs = self.limits.iter().zip(claim.costs).map(shared).collect();
        let minds = |(limit, &cost): (&Limit, &u64)| limit.key.is_none() && limit.rule.minds_since(cost);
        let minds_since = self.limits.iter().zip(claim.costs).any(minds);
        (costs, Some(claim.since).filter(|_| minds_since))
    }

    /// How many releases like it are allowed at `now`.
    pub fn room(&self, now: Time, claim: &Claim) -> u64 {
        let rooms = self.asks(claim).map(|(limit, ask)| limit.rule.room(now, &ask));
        let slots = self.booked.iter().map(|booked| booked.room(now, claim));
        rooms.chain(slots).min().unwrap_or(u64::MAX)
    }

    /// Charges every limit with `releases` like it, which happened at `now`.
    pub fn commit(&mut self, now: Time, claim: &Claim, releases: u64) {
        for (limit, &cost) in self.limits.iter_mut().zip(claim.costs).filter(|(_, cost)| **cost > 0) {
            let cost = cost.saturating_mul(releases);
            limit.rule.commit(now, &ask(claim, limit.key, cost));
        }
        self.booked.iter_mut().for_each(|booked| booked.commit(claim, releases));
    }

    /// A release that was charged has come to its end at `now`.
    pub fn finish(&mut self, now: Time, claim: &Claim) {
        for (limit, &cost) in self.limits.iter_mut().zip(claim.costs).filter(|(_, cost)| **cost > 0) {
            limit.rule.finish(now, &ask(claim, limit.key, cost));
        }
    }

    /// When some limit would like to be tidied.
    pub fn tidy_at(&self) -> Option<Time> {
        self.limits.iter().filter_map(|limit| limit.rule.tidy_at()).min()
    }

    /// Gives back, at `now`, the memory of what had settled by `horizon`. No later ask may be of a time before that.
    pub fn tidy(&mut self, now: Time, horizon: Time) {
        self.limits.iter_mut().for_each(|limit| limit.rule.tidy(now, horizon));
    }

    fn asks<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = (&'a Limit, Ask<'a>)> {
        let charged = self.limits.iter().zip(claim.costs).filter(|(_, cost)| **cost > 0);
        charged.map(|(limit, &cost)| (limit, ask(claim, limit.key, cost)))
    }

    /// The answer of the slots, if any are needed.
    fn slot(&self, claim: &Claim) -> Verdict {
        self.booked.as_ref().map_or(Verdict::At(claim.since), |booked| booked.earliest(claim))
    }

    fn strictest(&self, claim: &Claim, which: impl Fn(&Limit) -> bool) -> Verdict {
        let asks = self.asks(claim).filter(|(limit, _)| which(limit));
        asks.map(|(limit, ask)| limit.rule.earliest(&ask)).fold(Verdict::At(claim.since), Verdict::max)
    }
}

fn ask<'a>(claim: &'a Claim, key: Option<usize>, cost: u64) -> Ask<'a> {
    Ask { since: claim.since, cost, key: key.map_or(&[], |key| claim.keys[key].as_slice()) }
}

#[cfg(test)]
mod tests {
    use super::super::table::terms;
    use super::super::{Bucket, Fixed, FromExit, Interval, Keyed, Sliding};
    use super::*;

    fn limit(rule: impl Limiter + 'static, key: Option<usize>) -> Limit {
        Limit { rule: Box::new(rule), key }
    }

    fn claim<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Claim<'a> {
        Claim { since: Time(since), costs, keys }
    }

    #[test]
    fn the_latest_answer_counts_and_every_limit_is_charged() {
        let mut limits = All::from_iter([
            limit(Interval::new(terms(1, 2)), None),
            limit(Sliding::new(terms(3, 100)), None),
        ]);
        let mut instants = Vec::new();
        for _ in 0..7 {
            let claim = claim(instants.last().copied().unwrap_or(0), &[1, 1], &[]);
            let Verdict::At(at) = limits.earliest(&claim) else { panic!("never") };
            limits.commit(at, &claim, 1);
            instants.push(at.0);
        }
        assert_eq!(instants, [0, 2, 4, 100, 102, 104, 200]);
    }

    #[test]
    fn asking_never_charges() {
        let limits = All::from_iter([limit(Fixed::new(terms(1, 10)), None)]);
        for _ in 0..5 {
            assert_eq!(limits.earliest(&claim(3, &[1], &[])), Verdict::At(Time(3)));
        }
    }

    #[test]
    fn a_limit_that_costs_nothing_is_neither_asked_nor_charged() {
        let mut limits = All::from_iter([limit(Interval::new(terms(1, 10)), None)]);
        limits.commit(Time(0), &claim(0, &[1], &[]), 1);
        assert_eq!(limits.earliest(&claim(1, &[0], &[])), Verdict::At(Time(1)));
        limits.commit(Time(5), &claim(5, &[0], &[]), 1);
        assert_eq!(limits.earliest(&claim(5, &[1], &[])), Verdict::At(Time(10)));
    }

    #[test]
    fn shared_and_own_answers() {
        let own = Keyed::new(Sliding::new(terms(1, 10)), 10);
        let mut limits = All::from_iter([limit(Sliding::new(terms(2, 100)), None), limit(own, Some(0))]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        limits.commit(Time(0), &claim(0, &[1, 1], &a), 1);
        assert_eq!(limits.own(&claim(1, &[1, 1], &a)), Verdict::At(Time(10)));
        assert_eq!(limits.own(&claim(1, &[1, 1], &b)), Verdict::At(Time(1)));
        limits.commit(Time(1), &claim(1, &[1, 1], &b), 1);
        assert_eq!(limits.shared(&claim(1, &[1, 1], &b)), Verdict::At(Time(100)));
        assert_eq!(limits.own(&claim(1, &[1, 1], &b)), Verdict::At(Time(11)));
    }

    #[test]
    fn room_is_the_least_of_the_limits_that_are_charged() {
        let limits = All::from_iter([
            limit(Sliding::new(terms(5, 10)), None),
            limit(Sliding::new(terms(9, 10)), None),
        ]);
        let rooms =
            [[1, 1], [0, 1], [1, 3], [0, 0]].map(|costs| limits.room(Time(0), &claim(0, &costs, &[])));
        assert_eq!(rooms, [5, 9, 3, u64::MAX]);
        assert_eq!(limits.into_iter().count(), 2);
    }

    #[test]
    fn the_first_that_refuses_is_named() {
        let mut limits = All::from_iter([
            limit(Interval::new(terms(1, 10)), None),
            limit(Interval::new(terms(1, 20)), None),
        ]);
        limits.commit(Time(0), &claim(0, &[1, 1], &[]), 1);
        let refusing = |now, costs: [u64; 2]| limits.refusing(Time(now), &claim(now, &costs, &[]));
        assert_eq!([5, 10, 20].map(|now| refusing(now, [1, 1])), [Some(0), Some(1), None]);
        assert_eq!([5, 20].map(|now| refusing(now, [0, 1])), [Some(1), None]);
    }

    #[test]
    fn an_end_counts_only_for_limits_that_were_charged() {
        let serial = |period| limit(FromExit::serial(Interval::new(terms(1, period))), None);
        let mut limits = All::from_iter([serial(1), serial(20)]);
        limits.commit(Time(0), &claim(0, &[1, 1], &[]), 1);
        assert_eq!(limits.earliest(&claim(1, &[1, 1], &[])), Verdict::Never);
        limits.finish(Time(5), &claim(0, &[1, 1], &[]));
        limits.commit(Time(6), &claim(6, &[1, 0], &[]), 1);
        limits.finish(Time(7), &claim(6, &[1, 0], &[]));
        assert_eq!(limits.earliest(&claim(7, &[0, 1], &[])), Verdict::At(Time(25)));
    }

    #[test]
    fn memory_is_given_back_by_the_limits_that_want_to() {
        let own = Keyed::new(Sliding::new(terms(1, 10)), 10);
        let mut limits = All::from_iter([limit(Sliding::new(terms(2, 10)), None), limit(own, Some(0))]);
        assert_eq!(limits.tidy_at(), None);
        limits.commit(Time(0), &claim(0, &[1, 1], &[Key::from_slice(b"a")]), 1);
        let at = limits.tidy_at().expect("something to tidy");
        limits.tidy(at, at);
        assert_eq!(limits.tidy_at(), None);
    }

    #[test]
    fn only_shared_limits_mind_how_long_an_item_has_waited() {
        let bucket = || Bucket::new(terms(1, 10));
        let limits = All::from_iter([limit(bucket(), None), limit(Keyed::new(bucket(), 10), Some(0))]);
        let minds = |costs: [u64; 2]| limits.shared_part(&claim(3, &costs, &[])).1;
        assert_eq!([[2, 1], [1, 2], [1, 1]].map(minds), [Some(Time(3)), None, None]);
        let sliding = All::from_iter([limit(Sliding::new(terms(1, 10)), None)]);
        assert_eq!(sliding.shared_part(&claim(3, &[2], &[])).1, None);
    }

    #[test]
    fn slots_are_needed_once_they_are_booked_elsewhere() {
        let mut limits = All::booked();
        let ask = claim(0, &[1], &[]);
        assert_eq!((limits.earliest(&ask), limits.slots_until(Time(9))), (Verdict::Never, 0));
        let slot = |at| Slot { at: Time(at), until: Time(at + 1) };
        limits.put(&Key::new(), &[1], &[slot(3), slot(5), slot(7)]);
        assert_eq!([2, 3, 5, 9].map(|at| limits.slots_until(Time(at))), [0, 1, 2, 3]);
        limits.expire(Time(5));
        assert_eq!(limits.slots(&ask).collect::<Vec<_>>(), [slot(5), slot(7)]);
    }
}
