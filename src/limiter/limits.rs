//! Several limits at once.
//!
//! Releases that leave together are *admitted* one after the other at one instant, each as though those before it had
//! been charged: their [`Charges`] are a value of their own. Once they have left, [`Limits::commit`] charges as many as
//! really did, at the instant read after it.

use super::charges::{Charges, Release};
use super::{Answer, Ask, Booked, Held, Limiter, Needed, Order, Slot, Verdict};
use crate::charge::Key;
use crate::time::Time;

/// What a release asks of a set of limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// When the item became next in line.
    pub since: Time,
    /// What each limit charges; 0 where it does not apply.
    pub costs: &'a [u64],
    /// The keys that limits go by.
    pub keys: &'a [Key],
}

impl<'a> Request<'a> {
    /// Whether it asks nothing of any limit.
    pub fn is_free(&self) -> bool {
        self.costs.iter().all(|&cost| cost == 0)
    }

    fn key(&self, limit: &Limit) -> &'a [u8] {
        limit.key.map_or(&[], |key| self.keys[key].as_slice())
    }

    fn ask(&self, cost: u64) -> Ask {
        Ask { since: self.since, cost }
    }
}

/// One of several limits.
#[derive(Clone)]
pub struct Limit {
    /// The rule with its history.
    pub limiter: Box<dyn Limiter>,
    /// Which of a request's keys it goes by, if each key has a limit of its own.
    pub key: Option<usize>,
}

/// What a limit was charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charged {
    /// For how many releases.
    pub releases: u64,
    /// What they cost together.
    pub cost: u64,
}

impl Charged {
    /// Adds releases that cost so much together.
    pub(crate) fn add(&mut self, releases: u64, cost: u64) {
        self.releases += releases;
        self.cost = self.cost.saturating_add(cost);
    }
}

/// What a release was refused by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A limit, by its place.
    Limit(usize),
    /// There was no slot: for which of the shared limits is not told.
    Slots,
}

/// Why nothing more is admitted at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// By a limit that all items use up together.
    Common,
    /// By a limit that goes by key, or for want of a slot.
    Keyed,
}

/// Allows what every one of its limits allows. With no limit at all, everything.
///
/// Its limits are of two kinds: *common* ones, which all items use up together, and those that each key has for
/// itself. Besides, slots may have to be booked: then a release goes in one of them, too.
#[derive(Clone, Default)]
pub struct Limits {
    all: Vec<Limit>,
    /// What each was charged.
    charged: Vec<Charged>,
    booked: Option<Booked>,
}

impl FromIterator<Limit> for Limits {
    fn from_iter<I: IntoIterator<Item = Limit>>(limits: I) -> Self {
        let all: Vec<_> = limits.into_iter().collect();
        let charged = vec![Charged::default(); all.len()];
        Limits { all, charged, booked: None }
    }
}

impl IntoIterator for Limits {
    type Item = Limit;
    type IntoIter = std::vec::IntoIter<Limit>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl Limits {
    /// No limit but that releases need slots, which are kept elsewhere, for each key or for all items.
    pub fn booked(by_key: bool) -> Self {
        Limits { booked: Some(Booked::new(by_key)), ..Limits::default() }
    }

    /// What each limit was charged since it was built. Of booked ones, as many as were charged for a release.
    pub fn charged(&self) -> &[Charged] {
        &self.charged
    }

    /// The first instant at which every limit allows the release.
    pub fn earliest(&self, request: &Request) -> Verdict {
        self.strictest(request, |_| true).max(self.slot(request))
    }

    /// When it is known whether the release is allowed at `request.since`: then, but slots have to be asked for first.
    pub fn judged(&self, request: &Request) -> Verdict {
        match &self.booked {
            Some(booked) if booked.refused_until(request).is_none() => booked.earliest(request),
            _ => Verdict::At(request.since),
        }
    }

    /// What does not allow the release at `request.since`, after those that are charged; the first limit, if several do not.
    pub fn refusing(&mut self, charges: &Charges, request: &Request) -> Option<Refusal> {
        if let Some(booked) = &self.booked {
            let is_refused = !booked.has_slot(request) && booked.refused_until(request).is_some();
            return is_refused.then_some(Refusal::Slots);
        }
        let limit = self.all.iter_mut().zip(request.costs).enumerate().position(|(at, (limit, &cost))| {
            if cost == 0 {
                return false;
            }
            let account = limit.limiter.account(request.key(limit), request.since);
            let pending = charges.pending(at, account);
            limit.limiter.available(account, request.since, request.ask(cost), pending, 1) == 0
        });
        limit.map(Refusal::Limit)
    }

    /// When a release that was refused would have been allowed.
    pub fn allowed_at(&self, request: &Request) -> Verdict {
        let refused_until = self.booked.as_ref().and_then(|booked| booked.refused_until(request));
        refused_until.map_or_else(|| self.earliest(request), Verdict::At)
    }

    /// Which of the limits allows the release last, if any makes it wait at all.
    pub fn binding(&self, request: &Request) -> Option<usize> {
        let answers = self.all.iter().zip(request.costs).map(|(limit, &cost)| match cost {
            0 => Verdict::At(request.since),
            _ => limit.limiter.earliest(request.key(limit), request.ask(cost)),
        });
        let latest = answers.enumerate().max_by_key(|&(at, answer)| (answer, std::cmp::Reverse(at)));
        latest.filter(|(_, answer)| *answer > Verdict::At(request.since)).map(|(at, _)| at)
    }

    /// The limits, in the order of the costs of a request.
    pub fn iter(&self) -> impl Iterator<Item = &Limit> {
        self.all.iter()
    }

    /// A copy of those common limits that charge something, to try things out on, and what they charge.
    pub fn copied(&self, costs: &[u64]) -> (Limits, Vec<u64>) {
        let charged = self.all.iter().zip(costs).filter(|(limit, cost)| **cost > 0 && limit.key.is_none());
        let copies = charged.map(|(limit, &cost)| (limit.clone(), cost));
        let (limits, costs): (Vec<_>, _) = copies.unzip();
        (limits.into_iter().collect(), costs)
    }

    /// The answer of the common limits only.
    pub fn common(&self, request: &Request) -> Verdict {
        self.strictest(request, |limit| limit.key.is_none())
    }

    /// The answer of the limits that go by key only, and of the slots.
    pub fn keyed(&self, request: &Request) -> Verdict {
        self.strictest(request, |limit| limit.key.is_some()).max(self.slot(request))
    }

    /// What of `costs` and `since` the answer of [`Limits::common`] depends on, apart from being no earlier.
    ///
    /// Requests that agree in it get the same answer.
    pub fn common_part(&self, request: &Request) -> (Box<[u64]>, Option<Time>) {
        let common = |(limit, &cost): (&Limit, &u64)| if limit.key.is_none() { cost } else { 0 };
        let costs = self.all.iter().zip(request.costs).map(common).collect();
        let depends =
            |(limit, &cost): (&Limit, &u64)| limit.key.is_none() && limit.limiter.depends_on_since(cost);
        let depends = self.all.iter().zip(request.costs).any(depends);
        (costs, Some(request.since).filter(|_| depends))
    }

    /// Whether the answer to a request of these costs depends on its `since` in more than being no earlier.
    pub fn depends_on_since(&self, costs: &[u64]) -> bool {
        self.all.iter().zip(costs).any(|(limit, &cost)| limit.limiter.depends_on_since(cost))
    }

    /// Admits releases like `request` at `now`, after those that are charged: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// What blocks even one.
    pub fn admit(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Blocked> {
        charges.fit(&self.all);
        let row = charges.row();
        let admitted = self.available(charges, now, request, most).and_then(|most| {
            let taken = self.booked.as_mut().filter(|_| !request.is_free());
            let taken = taken.map(|booked| booked.take(now, request, most));
            let count = taken.as_ref().map_or(most, |taken| taken.slots.len() as u64);
            if count == 0 { Err(Blocked::Keyed) } else { Ok((count, taken)) }
        });
        match admitted {
            Ok((count, taken)) => {
                charges.add(Release { since: request.since, count, taken });
                Ok(count)
            }
            Err(blocked) => {
                charges.truncate(row);
                Err(blocked)
            }
        }
    }

    /// How many the limits allow; the costs and accounts of one are added to the charges.
    fn available(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Blocked> {
        let mut count = most;
        for (at, (limit, &cost)) in self.all.iter_mut().zip(request.costs).enumerate() {
            let mut account = 0;
            if cost > 0 {
                account = limit.limiter.account(request.key(limit), now);
                let pending = charges.pending(at, account);
                count = limit.limiter.available(account, now, request.ask(cost), pending, count);
            }
            if count == 0 {
                return Err(if limit.key.is_none() { Blocked::Common } else { Blocked::Keyed });
            }
            charges.charge(cost, account);
        }
        Ok(count)
    }

    /// Charges the first `left` of the releases, which have left by `now`; the others are as though they had never been
    /// admitted. Those that are `over` have come to their end as well. Returns reports of those that were late for their
    /// slots.
    pub fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order> {
        let mut reports = Vec::new();
        charges.settle(left, |release, count, row| {
            if let Some((booked, taken)) = self.booked.as_mut().zip(release.taken) {
                reports.extend(booked.commit(now, taken, count, &mut self.charged));
            }
            let limits = self.all.iter_mut().zip(&mut self.charged).zip(row);
            for ((limit, charged), &(cost, account)) in limits.filter(|(_, (cost, _))| count > 0 && *cost > 0)
            {
                let ask = Ask { since: release.since, cost: cost.saturating_mul(count) };
                charged.add(count, ask.cost);
                limit.limiter.commit(account, now, ask);
                if over {
                    limit.limiter.finish(account, now, ask);
                }
            }
        });
        reports
    }

    /// Whether `request` would be admitted at `now`.
    pub fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool {
        charges.fit(&self.all);
        let row = charges.row();
        let fits = self.available(charges, now, request, 1).is_ok();
        charges.truncate(row);
        fits && self.booked.as_ref().is_none_or(|booked| booked.is_open(now, request))
    }

    /// A release that was charged has come to its end at `now`.
    pub fn finish(&mut self, now: Time, request: &Request) {
        for (limit, &cost) in self.all.iter_mut().zip(request.costs).filter(|(_, cost)| **cost > 0) {
            let account = limit.limiter.account(request.key(limit), now);
            limit.limiter.finish(account, now, request.ask(cost));
        }
    }

    /// When some limit has accounts to evict.
    pub fn evict_at(&self) -> Option<Time> {
        self.all.iter().filter_map(|limit| limit.limiter.evict_at()).min()
    }

    /// Gives back, at `now`, the memory of accounts that were idle by `horizon`. No later request may be of a time
    /// before that.
    pub fn evict(&mut self, now: Time, horizon: Time) {
        self.all.iter_mut().for_each(|limit| limit.limiter.evict(now, horizon));
    }

    /// At `now`, no slot for a key and these costs was free, nor is one before `at`.
    pub fn refuse_until(&mut self, now: Time, key: &Key, costs: &[u64], at: Time) {
        self.booked.iter_mut().for_each(|booked| booked.refuse_until(now, key, costs, at));
    }

    /// Has a request held until an instant by all who share its limits. Returns what tells them.
    pub fn hold(&mut self, now: Time, request: &Request, until: Time) -> Option<Order> {
        self.booked.as_mut().map(|booked| booked.hold(now, request, until))
    }

    /// Until when a request is held by all who share its limits.
    pub fn held_until(&self, request: &Request) -> Time {
        self.booked.as_ref().map_or(Time::ZERO, |booked| booked.held_until(request))
    }

    /// Takes what a store has answered at `now`.
    pub fn put(&mut self, now: Time, order: &Order, answer: &Answer) {
        self.booked.iter_mut().for_each(|booked| booked.put(now, order, answer));
    }

    /// The slots that are held for requests like this, earliest first.
    pub fn slots(&self, request: &Request) -> impl DoubleEndedIterator<Item = Slot> {
        self.booked.iter().flat_map(|booked| booked.slots(request))
    }

    /// The slots that are held for a key and costs.
    pub fn held(&self, key: &Key, costs: &[u64]) -> Held {
        self.booked.as_ref().map_or(Held::default(), |booked| booked.held(key, costs))
    }

    /// How many slots are held, for whatever requests, that are not after `at`.
    pub fn slots_until(&self, at: Time) -> u64 {
        self.booked.iter().map(|booked| booked.until(at)).sum()
    }

    /// Takes out the slots after `now` that are not needed, to be given back. `needed` tells how many are, of those for a
    /// key and costs.
    pub fn take_surplus(
        &mut self,
        now: Time,
        needed: impl Fn(&Key, &[u64]) -> Needed,
    ) -> Vec<(Order, Vec<Slot>)> {
        self.booked.iter_mut().flat_map(|booked| booked.take_surplus(now, &needed)).collect()
    }

    /// Gives up the slots that were not used in time.
    pub fn expire_slots(&mut self, now: Time) {
        self.booked.iter_mut().for_each(|booked| booked.expire(now));
    }

    /// The answer of the slots, if any are needed.
    fn slot(&self, request: &Request) -> Verdict {
        self.booked.as_ref().map_or(Verdict::At(request.since), |booked| booked.earliest(request))
    }

    fn strictest(&self, request: &Request, which: impl Fn(&Limit) -> bool) -> Verdict {
        let mut verdict = Verdict::At(request.since);
        for (limit, &cost) in self.all.iter().zip(request.costs) {
            if cost > 0 && which(limit) {
                verdict = verdict.max(limit.limiter.earliest(request.key(limit), request.ask(cost)));
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Keyed, Single};
    use super::*;
    use crate::rule::table::terms;
    use crate::rule::{Fixed, Interval, Rule as _, Sliding};

    fn common(limiter: impl Limiter + 'static) -> Limit {
        Limit { limiter: Box::new(limiter), key: None }
    }

    fn keyed(count: u64, period: u64) -> Limit {
        let limiter = Keyed::new(Sliding::new(terms(count, period)), period);
        Limit { limiter: Box::new(limiter), key: Some(0) }
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
            common(Single::new(Interval::new(terms(1, 2)))),
            common(Single::new(Sliding::new(terms(3, 100)))),
        ]);
        let mut instants = Vec::new();
        for _ in 0..7 {
            let request = request(instants.last().copied().unwrap_or(0), &[1, 1], &[]);
            let Verdict::At(at) = limits.earliest(&request) else { panic!("never") };
            release(&mut limits, at.0, &request);
            instants.push(at.0);
        }
        assert_eq!(instants, [0, 2, 4, 100, 102, 104, 200]);
    }

    #[test]
    fn asking_never_charges() {
        let limits = Limits::from_iter([common(Single::new(Fixed::new(terms(1, 10))))]);
        for _ in 0..5 {
            assert_eq!(limits.earliest(&request(3, &[1], &[])), Verdict::At(Time(3)));
        }
    }

    #[test]
    fn a_limit_that_costs_nothing_is_neither_asked_nor_charged() {
        let mut limits = Limits::from_iter([common(Single::new(Interval::new(terms(1, 10))))]);
        release(&mut limits, 0, &request(0, &[1], &[]));
        assert_eq!(limits.earliest(&request(1, &[0], &[])), Verdict::At(Time(1)));
        release(&mut limits, 5, &request(5, &[0], &[]));
        assert_eq!(limits.earliest(&request(5, &[1], &[])), Verdict::At(Time(10)));
    }

    #[test]
    fn common_and_keyed_answers() {
        let mut limits = Limits::from_iter([common(Single::new(Sliding::new(terms(2, 100)))), keyed(1, 10)]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        release(&mut limits, 0, &request(0, &[1, 1], &a));
        assert_eq!(limits.keyed(&request(1, &[1, 1], &a)), Verdict::At(Time(10)));
        assert_eq!(limits.keyed(&request(1, &[1, 1], &b)), Verdict::At(Time(1)));
        release(&mut limits, 1, &request(1, &[1, 1], &b));
        assert_eq!(limits.common(&request(1, &[1, 1], &b)), Verdict::At(Time(100)));
        assert_eq!(limits.keyed(&request(1, &[1, 1], &b)), Verdict::At(Time(11)));
    }

    #[test]
    fn what_is_admitted_together_counts_before_it_is_charged() {
        let mut limits = Limits::from_iter([common(Single::new(Sliding::new(terms(5, 100)))), keyed(2, 10)]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        let (of_a, of_b) = (request(0, &[1, 1], &a), request(0, &[2, 1], &b));
        let mut charges = Charges::default();
        assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Ok(2));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Err(Blocked::Keyed));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Ok(1));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Err(Blocked::Common));
        // Only the first two have left, at 3: nothing of b is charged.
        limits.commit(&mut charges, Time(3), 2, false);
        assert_eq!(limits.earliest(&of_a), Verdict::At(Time(13)));
        assert_eq!(limits.admit(&mut charges, Time(3), &of_b, 9), Ok(1));
    }

    #[test]
    fn the_binding_limit_is_the_one_that_allows_last() {
        let mut limits = Limits::from_iter([
            common(Single::new(Interval::new(terms(1, 10)))),
            common(Single::new(Sliding::new(terms(1, 100)))),
        ]);
        assert_eq!(limits.binding(&request(0, &[1, 1], &[])), None);
        release(&mut limits, 0, &request(0, &[1, 1], &[]));
        assert_eq!(limits.binding(&request(5, &[1, 1], &[])), Some(1));
        assert_eq!(limits.binding(&request(5, &[1, 0], &[])), Some(0));
    }
}
