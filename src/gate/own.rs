//! Limits that only this run uses.

use std::borrow::Cow;
use std::mem;

use smallvec::SmallVec;

use super::change::{Paused, change};
use super::charges::Admitted;
use super::limit::key_parts;
use super::{Charged, Charges, Gate, Kind, Limit, News, Opening, Order, Part, Properties, Request, Why};
use crate::config::{Rate, keys};
use crate::rule::Ask;
use crate::time::{Time, Wall};

/// The gate of limits that only this run uses. It allows what all of them allow; with no limit, everything.
///
/// There are two kinds: *common* limits, which all items share, and limits by key, which apply to each key separately.
#[derive(Clone, Default)]
pub struct Own {
    rates: Vec<Rate>,
    /// In the order of the costs of a request.
    limits: Vec<Limit>,
    charged: Vec<Charged>,
    paused: Vec<Paused>,
    properties: Properties,
    /// Items that differ in one key may share another, so one may use up what another waits for.
    shares_keys: bool,
    /// The revisions of the common limits and of the limits by key.
    revisions: (u64, u64),
    /// Answers from this instant on may have become more lenient since the last news.
    lenient_from: Option<Time>,
    /// For each limit: true if it counts beyond the start of a release and did not continue a history.
    is_new: Vec<bool>,
    wall: Wall,
}

impl Own {
    /// The gate of a run that starts at `start`, by this wall clock.
    pub fn new(rates: Vec<Rate>, start: Time, wall: Wall) -> Self {
        let limits =
            rates.iter().zip(key_parts(&rates)).map(|(rate, key)| Limit::new(rate, key, start, wall));
        let mut own = Own { wall, ..Own::of(limits.collect()) };
        own.set_rates(rates);
        own
    }

    fn of(limits: Vec<Limit>) -> Self {
        Own { charged: vec![Charged::default(); limits.len()], limits, ..Own::default() }
    }

    fn set_rates(&mut self, rates: Vec<Rate>) {
        // Items that became next in line under earlier limits may still be waiting.
        let depended_on_since = self.properties.depends_on_since;
        self.properties = Properties::new(&rates, None, depended_on_since);
        self.shares_keys = self.limits.iter().any(|limit| !limit.is_common()) && keys(&rates).len() > 1;
        self.revisions = (self.revisions.0 + 1, self.revisions.1 + 1);
        self.rates = rates;
    }

    /// A copy of the common limits that charge something, to try releases out on, and their costs.
    pub(super) fn copied(&self, costs: &[u64]) -> (Own, Vec<u64>) {
        let charged = self.limits.iter().zip(costs).filter(|(limit, cost)| **cost > 0 && limit.is_common());
        let (limits, costs) = charged.map(|(limit, &cost)| (limit.clone(), cost)).unzip();
        (Own::of(limits), costs)
    }

    /// Charges a release that has happened and ended by `now`. The account that admitted it may have been evicted
    /// since.
    pub(crate) fn charge(&mut self, now: Time, request: &Request) {
        self.charge_start(now, request);
        self.finish(now, request);
    }

    /// Charges a release that was not admitted by these limits, or was admitted long ago, and may not have ended.
    fn charge_start(&mut self, now: Time, request: &Request) {
        for (limit, &cost) in self.limits.iter_mut().zip(request.costs).filter(|(_, cost)| **cost > 0) {
            let account = limit.account(limit.key_of(request), now);
            limit.commit(account, now, request.ask(cost), 1);
        }
    }

    /// The limit that is the last to allow the release at `now` or later, and its answer; `None` if it may go at `now`.
    fn binding(&self, request: &Request, now: Time) -> Option<(usize, Time)> {
        let mut from = request.since.max(now);
        if self.rates.iter().any(|rate| rate.during.is_some()) {
            // A limit with hours may allow the release at once, but refuse it by the time the others allow it. The
            // binding limit is the one that refuses it just before all agree.
            let agreed = self.ask(Part::All, request, from).from.known();
            from = agreed.map_or(from, |at| from.max(Time(at.0.saturating_sub(1))));
        }
        let answers = self.limits.iter().zip(request.costs).map(|(limit, &cost)| match cost {
            0 => from,
            _ => limit.opening(limit.key_of(request), request.ask(cost), from).from,
        });
        let latest = answers.enumerate().max_by_key(|&(at, answer)| (answer, std::cmp::Reverse(at)));
        latest.filter(|(_, answer)| *answer > from)
    }

    /// The number that all limits allow, never 0. Adds the costs and accounts of one release to `charges`.
    ///
    /// # Errors
    /// The index of the first limit that allows none.
    fn available(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, usize> {
        let mut count = most;
        for (at, (limit, &cost)) in self.limits.iter_mut().zip(request.costs).enumerate() {
            let mut account = 0;
            if cost > 0 {
                account = limit.account(limit.key_of(request), now);
                let pending = charges.pending(at, account);
                count = limit.available(account, now, request.ask(cost), pending, count);
            }
            if count == 0 {
                return Err(at);
            }
            charges.rows.push((cost, account));
        }
        Ok(count)
    }

    /// As [`Own::available`] for one release, which is not admitted.
    fn try_one(&mut self, charges: &mut Charges, now: Time, request: &Request) -> Result<u64, usize> {
        let row = charges.begin(&self.limits);
        let available = self.available(charges, now, request, 1);
        charges.rows.truncate(row);
        available
    }

    fn counts_exits(&self) -> bool {
        self.rates.iter().any(Rate::counts_exits)
    }

    /// True if a limit that counts from ends has hours: until a command ends, it answers with the end of the hours, and
    /// then perhaps with an earlier instant.
    fn waits_for_ends_or_hours(&self) -> bool {
        self.rates.iter().any(|rate| rate.counts_exits() && rate.during.is_some())
    }

    /// Notes that any answer may have changed, and that those from `at` on may have become more lenient.
    fn answers_change(&mut self, at: Time) {
        self.revisions = (self.revisions.0 + 1, self.revisions.1 + 1);
        self.lenient_from = Some(self.lenient_from.map_or(at, |other| other.min(at)));
    }
}

impl Gate for Own {
    fn rates(&self) -> &[Rate] {
        &self.rates
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn revision(&self, part: Part) -> u64 {
        match part {
            Part::Keyed => self.revisions.1,
            Part::Common | Part::All => self.revisions.0,
        }
    }

    fn set_wall(&mut self, now: Time, wall: Wall) {
        if mem::replace(&mut self.wall, wall) == wall {
            return;
        }
        let limits = self.limits.iter_mut().zip(&self.rates).filter(|(_, rate)| rate.zone.is_some());
        limits.for_each(|(limit, rate)| limit.set_wall(now, rate, wall));
        self.paused.iter_mut().for_each(|paused| paused.set_wall(now, wall));
        self.answers_change(Time::ZERO);
    }

    fn ask(&self, part: Part, request: &Request, from: Time) -> Opening {
        let is_meant = move |limit: &Limit| match part {
            Part::Common => limit.is_common(),
            Part::Keyed => !limit.is_common(),
            Part::All => true,
        };
        let asked = self.limits.iter().zip(request.costs);
        let asked = asked.filter(move |(limit, cost)| **cost > 0 && is_meant(limit));
        Opening::agreed(request.since.max(from), &asked, |(limit, cost), from| {
            limit.opening(limit.key_of(request), request.ask(*cost), from)
        })
    }

    fn kind(&self, request: &Request) -> Kind {
        let common = |(limit, &cost): (&Limit, &u64)| if limit.is_common() { cost } else { 0 };
        let costs: SmallVec<[u64; 4]> = self.limits.iter().zip(request.costs).map(common).collect();
        let depends = self.rates.iter().zip(&costs).any(|(rate, &cost)| rate.depends_on_since(cost));
        (costs, Some(request.since).filter(|_| depends))
    }

    fn why(&self, request: &Request, now: Time) -> Option<Why> {
        self.binding(request, now).map(|(limit, verdict)| match verdict {
            Time::NEVER => Why::Never(limit),
            _ => Why::Limit(limit),
        })
    }

    fn refusing(&mut self, charges: &mut Charges, request: &Request) -> Option<Why> {
        self.try_one(charges, request.since, request).err().map(Why::Limit)
    }

    fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool {
        self.try_one(charges, now, request).is_ok()
    }

    fn admit(&mut self, charges: &mut Charges, now: Time, request: &Request, most: u64) -> Result<u64, Part> {
        let row = charges.begin(&self.limits);
        let admitted = self.available(charges, now, request, most);
        match admitted {
            Ok(count) => charges.add(Admitted { since: request.since, count, taken: None }),
            Err(_) => charges.rows.truncate(row),
        }
        let part = |limit: usize| if self.limits[limit].is_common() { Part::Common } else { Part::Keyed };
        admitted.map_err(part)
    }

    fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order> {
        charges.take_all(left, |release, count, row| {
            let limits = self.limits.iter_mut().zip(&mut self.charged).zip(row);
            for ((limit, charged), &(cost, account)) in limits.filter(|(_, (cost, _))| count > 0 && *cost > 0)
            {
                let one = Ask { since: release.since, cost };
                let all = Ask { cost: cost.saturating_mul(count), ..one };
                charged.add(count, all.cost);
                limit.commit(account, now, one, count);
                if over {
                    limit.end(account, now, all);
                }
            }
        });
        self.revisions.0 += 1;
        self.revisions.1 += u64::from(self.shares_keys);
        Vec::new()
    }

    fn finish(&mut self, now: Time, request: &Request) {
        self.limits.iter_mut().zip(request.costs).for_each(|(limit, &cost)| limit.finish(now, request, cost));
        self.paused.iter_mut().for_each(|paused| paused.finish(now, request));
        if self.counts_exits() {
            self.answers_change(if self.waits_for_ends_or_hours() { Time::ZERO } else { Time::NEVER });
        }
    }

    fn resume(&mut self, now: Time, request: &Request) {
        let costs = request.costs.iter().zip(&self.is_new);
        let costs: Vec<_> = costs.map(|(&cost, &is_new)| if is_new { cost } else { 0 }).collect();
        self.charge_start(now, &Request { costs: &costs, ..*request });
    }

    fn next_change(&self) -> Option<Time> {
        self.limits.iter().map(Limit::evict_at).min()?.known()
    }

    fn evict(&mut self, now: Time, horizon: Time) {
        self.limits.iter_mut().for_each(|limit| limit.evict(now, horizon));
    }

    fn take_news(&mut self) -> Option<News> {
        self.lenient_from.take().map(|at| News::new(at, false))
    }

    fn change(&mut self, now: Time, rates: Vec<Rate>) {
        let (limits, paused) = (mem::take(&mut self.limits), mem::take(&mut self.paused));
        (self.limits, self.paused, self.is_new) = change(&self.rates, limits, paused, &rates, now, self.wall);
        self.charged = vec![Charged::default(); rates.len()];
        self.set_rates(rates);
    }

    fn charged(&self) -> &[Charged] {
        &self.charged
    }

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn is_foreseeable(&self) -> bool {
        !self.counts_exits()
    }

    fn foreseen(&self, _: Time) -> Cow<'_, Own> {
        Cow::Borrowed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;
    use crate::rule::Algorithm::{self, Fixed, Interval, Sliding};
    use crate::rule::tests::terms;

    fn common(algorithm: Algorithm, count: u64, period: u64) -> Limit {
        Limit::of(algorithm, terms(count, period), None)
    }

    fn keyed(count: u64, period: u64) -> Limit {
        Limit::of(Sliding, terms(count, period), Some(0))
    }

    fn own(limits: impl IntoIterator<Item = Limit>) -> Own {
        Own::of(limits.into_iter().collect())
    }

    fn request<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
        Request { since: Time(since), costs, keys }
    }

    fn release(limits: &mut Own, at: u64, request: &Request) {
        let mut charges = Charges::default();
        assert_eq!(limits.admit(&mut charges, Time(at), request, 1), Ok(1));
        limits.commit(&mut charges, Time(at), 1, false);
    }

    #[test]
    fn the_latest_answer_counts_and_every_limit_is_charged() {
        let mut limits = own([common(Interval, 1, 2), common(Sliding, 3, 100)]);
        let mut instants = Vec::new();
        for _ in 0..7 {
            let request = request(instants.last().copied().unwrap_or(0), &[1, 1], &[]);
            let Some(at) = limits.ask(Part::All, &request, Time(0)).from.known() else { panic!("never") };
            release(&mut limits, at.0, &request);
            instants.push(at.0);
        }
        assert_eq!(instants, [0, 2, 4, 100, 102, 104, 200]);
    }

    #[test]
    fn asking_never_charges() {
        let limits = own([common(Fixed, 1, 10)]);
        for _ in 0..5 {
            assert_eq!(limits.ask(Part::All, &request(3, &[1], &[]), Time(0)).from, Time(3));
        }
    }

    #[test]
    fn a_limit_that_costs_nothing_is_neither_asked_nor_charged() {
        let mut limits = own([common(Interval, 1, 10)]);
        release(&mut limits, 0, &request(0, &[1], &[]));
        assert_eq!(limits.ask(Part::All, &request(1, &[0], &[]), Time(0)).from, Time(1));
        release(&mut limits, 5, &request(5, &[0], &[]));
        assert_eq!(limits.ask(Part::All, &request(5, &[1], &[]), Time(0)).from, Time(10));
    }

    #[test]
    fn common_and_keyed_answers() {
        let mut limits = own([common(Sliding, 2, 100), keyed(1, 10)]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        release(&mut limits, 0, &request(0, &[1, 1], &a));
        assert_eq!(limits.ask(Part::Keyed, &request(1, &[1, 1], &a), Time(0)).from, Time(10));
        assert_eq!(limits.ask(Part::Keyed, &request(1, &[1, 1], &b), Time(0)).from, Time(1));
        release(&mut limits, 1, &request(1, &[1, 1], &b));
        assert_eq!(limits.ask(Part::Common, &request(1, &[1, 1], &b), Time(0)).from, Time(100));
        assert_eq!(limits.ask(Part::Keyed, &request(1, &[1, 1], &b), Time(0)).from, Time(11));
    }

    #[test]
    fn what_is_admitted_together_counts_before_it_is_charged() {
        let mut limits = own([common(Sliding, 5, 100), keyed(2, 10)]);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        let (of_a, of_b) = (request(0, &[1, 1], &a), request(0, &[2, 1], &b));
        let mut charges = Charges::default();
        assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Ok(2));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Err(Part::Keyed));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Ok(1));
        assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Err(Part::Common));
        // Only the first two have left, at 3: nothing is charged for b.
        limits.commit(&mut charges, Time(3), 2, false);
        assert_eq!(limits.ask(Part::All, &of_a, Time(0)).from, Time(13));
        assert_eq!(limits.admit(&mut charges, Time(3), &of_b, 9), Ok(1));
    }

    #[test]
    fn the_binding_limit_is_the_one_that_allows_last() {
        let mut limits = own([common(Interval, 1, 10), common(Sliding, 1, 100)]);
        assert_eq!(limits.binding(&request(0, &[1, 1], &[]), Time(0)), None);
        release(&mut limits, 0, &request(0, &[1, 1], &[]));
        assert_eq!(limits.binding(&request(5, &[1, 1], &[]), Time(0)), Some((1, Time(100))));
        assert_eq!(limits.binding(&request(5, &[1, 0], &[]), Time(7)), Some((0, Time(10))));
        assert_eq!(limits.binding(&request(5, &[1, 0], &[]), Time(10)), None);
    }
}
