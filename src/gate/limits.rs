//! Several limits at once.

use super::build::{key_parts, limiter};
use super::charges::{Admitted, Charges};
use super::{Limit, Opening, Part, Request};
use crate::config::Rate;
use crate::rule::{Ask, Verdict};
use crate::time::{Time, Wall};

/// The total charges of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charged {
    /// The number of releases.
    pub releases: u64,
    /// The sum of their costs.
    pub cost: u64,
}

impl Charged {
    /// Adds releases with the sum of their costs.
    pub(crate) fn add(&mut self, releases: u64, cost: u64) {
        self.releases += releases;
        self.cost = self.cost.saturating_add(cost);
    }
}

/// Allows what all of its limits allow. With no limit, everything.
///
/// There are two kinds: *common* limits, which all items share, and limits by key, which apply to each key separately.
#[derive(Clone, Default)]
pub struct Limits {
    pub(super) all: Vec<Limit>,
    charged: Vec<Charged>,
}

impl FromIterator<Limit> for Limits {
    fn from_iter<I: IntoIterator<Item = Limit>>(limits: I) -> Self {
        let all: Vec<_> = limits.into_iter().collect();
        let charged = vec![Charged::default(); all.len()];
        Limits { all, charged }
    }
}

impl Limits {
    /// Limits with no history. `start` is the start of the run.
    pub fn new(rates: &[Rate], start: Time, wall: Wall) -> Self {
        let limit = |(rate, key)| Limit::new(limiter(rate, start, wall), key).asked(rate, wall);
        rates.iter().zip(key_parts(rates)).map(limit).collect()
    }

    /// Follows the wall clock, which was set at `now`.
    pub(super) fn set_wall(&mut self, now: Time, rates: &[Rate], wall: Wall) {
        let limits = self.all.iter_mut().zip(rates).filter(|(_, rate)| rate.hours.is_some());
        limits.for_each(|(limit, rate)| limit.set_wall(now, rate, wall));
    }

    pub(super) fn charged(&self) -> &[Charged] {
        &self.charged
    }

    /// The first opening, at or after `from`, that all limits of a part agree on.
    pub(super) fn ask(&self, part: Part, request: &Request, from: Time) -> Opening {
        let is_meant = move |limit: &Limit| match part {
            Part::Common => limit.key.is_none(),
            Part::Keyed => limit.key.is_some(),
            Part::All => true,
        };
        let asked = self.all.iter().zip(request.costs);
        let asked = asked.filter(move |(limit, cost)| **cost > 0 && is_meant(limit));
        Opening::agreed(request.since.max(from), &asked, |(limit, cost), from| {
            limit.opening(request.key(limit), request.ask(*cost), from)
        })
    }

    /// The first limit that does not allow the release at `request.since`, after those in `charges`.
    pub(super) fn refusing(&mut self, charges: &Charges, request: &Request) -> Option<usize> {
        self.all.iter_mut().zip(request.costs).enumerate().position(|(at, (limit, &cost))| {
            if cost == 0 {
                return false;
            }
            let account = limit.limiter.account(request.key(limit), request.since);
            let pending = charges.pending(at, account);
            limit.available(account, request.since, request.ask(cost), pending, 1) == 0
        })
    }

    /// The limit that is the last to allow the release at `now` or later, and its answer; `None` if it may go
    /// at `now`.
    pub(super) fn binding(&self, request: &Request, now: Time) -> Option<(usize, Verdict)> {
        let mut from = request.since.max(now);
        if self.all.iter().any(Limit::has_hours) {
            // A limit with hours may allow the release at once, but refuse it by the time the others allow it. The
            // binding limit is the one that refuses it just before all agree.
            let agreed = self.ask(Part::All, request, from).from.instant();
            from = agreed.map_or(from, |at| from.max(Time(at.0.saturating_sub(1))));
        }
        let answers = self.all.iter().zip(request.costs).map(|(limit, &cost)| match cost {
            0 => Verdict::At(from),
            _ => limit.opening(request.key(limit), request.ask(cost), from).from,
        });
        let latest = answers.enumerate().max_by_key(|&(at, answer)| (answer, std::cmp::Reverse(at)));
        latest.filter(|(_, answer)| *answer > Verdict::At(from))
    }

    /// The limits, in the order of the costs of a request.
    pub fn iter(&self) -> impl Iterator<Item = &Limit> {
        self.all.iter()
    }

    /// A copy of the common limits that charge something, to try releases out on, and their costs.
    pub(super) fn copied(&self, costs: &[u64]) -> (Limits, Vec<u64>) {
        let charged = self.all.iter().zip(costs).filter(|(limit, cost)| **cost > 0 && limit.key.is_none());
        let copies = charged.map(|(limit, &cost)| (limit.clone(), cost));
        let (limits, costs): (Vec<_>, _) = copies.unzip();
        (limits.into_iter().collect(), costs)
    }

    /// Admits releases like `request` at `now`, after those in `charges`: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// The part that allows not even one.
    pub(super) fn admit(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Part> {
        let row = charges.begin(&self.all);
        let admitted = self.available(charges, now, request, most);
        match admitted {
            Ok(count) => charges.add(Admitted { since: request.since, count, taken: None }),
            Err(_) => charges.truncate(row),
        }
        admitted
    }

    /// The number that all limits allow, never 0. Adds the costs and accounts of one release to `charges`.
    fn available(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Part> {
        let mut count = most;
        for (at, (limit, &cost)) in self.all.iter_mut().zip(request.costs).enumerate() {
            let mut account = 0;
            if cost > 0 {
                account = limit.limiter.account(request.key(limit), now);
                let pending = charges.pending(at, account);
                count = limit.available(account, now, request.ask(cost), pending, count);
            }
            if count == 0 {
                return Err(if limit.key.is_none() { Part::Common } else { Part::Keyed });
            }
            charges.charge(cost, account);
        }
        Ok(count)
    }

    /// Charges the first `left` of the releases, which have left by `now`. If `over`, they have ended as well.
    pub(super) fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) {
        charges.take_all(left, |release, count, row| {
            let limits = self.all.iter_mut().zip(&mut self.charged).zip(row);
            for ((limit, charged), &(cost, account)) in limits.filter(|(_, (cost, _))| count > 0 && *cost > 0)
            {
                let one = Ask { since: release.since, cost };
                let all = Ask { cost: cost.saturating_mul(count), ..one };
                charged.add(count, all.cost);
                limit.commit(account, now, one, count);
                if over {
                    limit.limiter.finish(account, now, all);
                }
            }
        });
    }

    /// As [`Gate::fits`](super::Gate::fits).
    pub(super) fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool {
        let row = charges.begin(&self.all);
        let fits = self.available(charges, now, request, 1).is_ok();
        charges.truncate(row);
        fits
    }

    /// Notes that a charged release ended at `now`.
    pub(super) fn finish(&mut self, now: Time, request: &Request) {
        self.all.iter_mut().zip(request.costs).for_each(|(limit, &cost)| limit.finish(now, request, cost));
    }

    /// Charges a release that was not admitted by these limits, or was admitted long ago.
    pub(super) fn charge(&mut self, now: Time, request: &Request) {
        for (limit, &cost) in self.all.iter_mut().zip(request.costs).filter(|(_, cost)| **cost > 0) {
            let account = limit.limiter.account(request.key(limit), now);
            limit.commit(account, now, request.ask(cost), 1);
        }
    }

    pub(super) fn evict_at(&self) -> Option<Time> {
        self.all.iter().filter_map(|limit| limit.limiter.evict_at()).min()
    }

    /// At `now`, frees the accounts that were idle by `horizon`.
    pub(super) fn evict(&mut self, now: Time, horizon: Time) {
        self.all.iter_mut().for_each(|limit| limit.limiter.evict(now, horizon));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{History, Limiter};
    use super::*;
    use crate::charge::Key;
    use crate::rule::tests::terms;
    use crate::rule::{Fixed, Interval, Rule as _, Sliding};

    fn common(limiter: impl Limiter + 'static) -> Limit {
        Limit::new(Box::new(limiter), None)
    }

    fn keyed(count: u64, period: u64) -> Limit {
        let limiter = History::keyed(Sliding::new(terms(count, period)), period);
        Limit::new(Box::new(limiter), Some(0))
    }

    fn request<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
        Request { since: Time(since), costs, keys }
    }

    fn release(limits: &mut Limits, at: u64, request: &Request) {
        let mut charges = Charges::default();
        assert_eq!(limits.admit(&mut charges, Time(at), request, 1), Ok(1));
        limits.commit(&mut charges, Time(at), 1, false);
    }

    #[test]
    fn the_latest_answer_counts_and_every_limit_is_charged() {
        let mut limits = Limits::from_iter([
            common(History::common(Interval::new(terms(1, 2)))),
            common(History::common(Sliding::new(terms(3, 100)))),
        ]);
        let mut instants = Vec::new();
        for _ in 0..7 {
            let request = request(instants.last().copied().unwrap_or(0), &[1, 1], &[]);
            let Verdict::At(at) = limits.ask(Part::All, &request, Time(0)).from else { panic!("never") };
            release(&mut limits, at.0, &request);
            instants.push(at.0);
        }
        assert_eq!(instants, [0, 2, 4, 100, 102, 104, 200]);
    }

    #[test]
    fn asking_never_charges() {
        let limits = Limits::from_iter([common(History::common(Fixed::new(terms(1, 10))))]);
        for _ in 0..5 {
            assert_eq!(limits.ask(Part::All, &request(3, &[1], &[]), Time(0)).from, Verdict::At(Time(3)));
        }
    }

    #[test]
    fn a_limit_that_costs_nothing_is_neither_asked_nor_charged() {
        let mut limits = Limits::from_iter([common(History::common(Interval::new(terms(1, 10))))]);
        release(&mut limits, 0, &request(0, &[1], &[]));
        assert_eq!(limits.ask(Part::All, &request(1, &[0], &[]), Time(0)).from, Verdict::At(Time(1)));
        release(&mut limits, 5, &request(5, &[0], &[]));
        assert_eq!(limits.ask(Part::All, &request(5, &[1], &[]), Time(0)).from, Verdict::At(Time(10)));
    }

    #[test]
    fn common_and_keyed_answers() {
        let mut limits =
            Limits::from_iter([common(History::common(Sliding::new(terms(2, 100)))), keyed(1, 10)]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        release(&mut limits, 0, &request(0, &[1, 1], &a));
        assert_eq!(limits.ask(Part::Keyed, &request(1, &[1, 1], &a), Time(0)).from, Verdict::At(Time(10)));
        assert_eq!(limits.ask(Part::Keyed, &request(1, &[1, 1], &b), Time(0)).from, Verdict::At(Time(1)));
        release(&mut limits, 1, &request(1, &[1, 1], &b));
        assert_eq!(limits.ask(Part::Common, &request(1, &[1, 1], &b), Time(0)).from, Verdict::At(Time(100)));
        assert_eq!(limits.ask(Part::Keyed, &request(1, &[1, 1], &b), Time(0)).from, Verdict::At(Time(11)));
    }

    #[test]
    fn what_is_admitted_together_counts_before_it_is_charged() {
        let mut limits =
            Limits::from_iter([common(History::common(Sliding::new(terms(5, 100)))), keyed(2, 10)]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        let (of_a, of_b) = (request(0, &[1, 1], &a), request(0, &[2, 1], &b));
        let mut charges = Charges::default();
        assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Ok(2));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Err(Part::Keyed));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Ok(1));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Err(Part::Common));
        // Only the first two have left, at 3: nothing is charged for b.
        limits.commit(&mut charges, Time(3), 2, false);
        assert_eq!(limits.ask(Part::All, &of_a, Time(0)).from, Verdict::At(Time(13)));
        assert_eq!(limits.admit(&mut charges, Time(3), &of_b, 9), Ok(1));
    }

    #[test]
    fn the_binding_limit_is_the_one_that_allows_last() {
        let mut limits = Limits::from_iter([
            common(History::common(Interval::new(terms(1, 10)))),
            common(History::common(Sliding::new(terms(1, 100)))),
        ]);
        assert_eq!(limits.binding(&request(0, &[1, 1], &[]), Time(0)), None);
        release(&mut limits, 0, &request(0, &[1, 1], &[]));
        assert_eq!(limits.binding(&request(5, &[1, 1], &[]), Time(0)), Some((1, Verdict::At(Time(100)))));
        assert_eq!(limits.binding(&request(5, &[1, 0], &[]), Time(7)), Some((0, Verdict::At(Time(10)))));
        assert_eq!(limits.binding(&request(5, &[1, 0], &[]), Time(10)), None);
    }
}
