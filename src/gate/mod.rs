//! The gate decides what may leave when. It is pure: it never reads a clock; callers pass the time.
//!
//! A [`Gate`] keeps the limits of this run, each a [`Limit`], and [`Reservations`] for those that it shares with other
//! runs: slots booked from a store. What leaves needs both.
//!
//! Releases that leave together are *admitted* one after the other at one instant, each as if those before it had been
//! charged; until then they are one value, [`Pending`]. Once they have left, [`Gate::commit`] charges those that really
//! did, at an instant read afterwards.
//!
//! A release allowed at one instant is not always allowed later: see [`Opening`].

mod accounts;
mod change;
mod compact_key;
mod evict;
mod last_release;
mod learning;
mod limit;
mod memory;
mod opening;
mod pending;
mod properties;
mod request;
mod reservations;
mod sums;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::mem;

use smallvec::SmallVec;

pub(crate) use self::accounts::Accounts;
pub use self::change::predecessor;
pub(crate) use self::evict::Eviction;
pub use self::last_release::last_release;
pub use self::learning::{Feedback, Learned};
pub use self::limit::{Availability, Limit};
#[cfg(test)]
pub(crate) use self::opening::ASKED;
pub use self::opening::Opening;
pub use self::pending::Pending;
pub use self::properties::{BatchTerms, Properties};
pub use self::request::{Blocked, By, Kind, Request, Scope};
pub use self::reservations::{
    Answer, BookedBy, BookingTerms, Demand, NewLimits, News, Order, Overruns, Reservations, Slot, Steps,
    Task, Turn, Wanted,
};

use self::change::{Paused, change};
use self::limit::{Allowance, key_parts};
use self::pending::Admitted;
use crate::config::{Rate, keys};
use crate::rule::Ask;
use crate::time::{Time, Wall};

/// The limits of a run. It allows what all of them allow; with no limit, everything.
///
/// There are two kinds: *common* limits, which all items share, and limits by key, which apply to each key separately.
#[derive(Clone, Default)]
pub struct Gate {
    /// All limits, in the order of the costs of a request: first those that are shared.
    rates: Vec<Rate>,
    /// The limits of this run alone.
    limits: Vec<Limit>,
    /// Slots for the others.
    reservations: Option<Reservations>,
    paused: Vec<Paused>,
    properties: Properties,
    /// Items that differ in one key may share another, so one may use up what another waits for.
    shares_keys: bool,
    /// Some limits count beyond the start of a release.
    counts_exits: bool,
    /// The versions of the common limits and of the limits by key.
    versions: (u64, u64),
    /// Answers of these limits from this instant on may have become more lenient since the last news.
    lenient_from: Option<Time>,
    /// For each limit of this run: true if it counts beyond the start of a release and did not continue a history.
    is_new: Vec<bool>,
    wall: Wall,
}

impl Gate {
    /// The gate of a run that starts at `start`, by this wall clock.
    pub fn new(rates: Vec<Rate>, start: Time, wall: Wall) -> Self {
        let limits =
            rates.iter().zip(key_parts(&rates)).map(|(rate, key)| Limit::new(rate, key, start, wall));
        let mut gate = Gate { wall, limits: limits.collect(), ..Gate::default() };
        gate.set_rates(rates);
        gate
    }

    /// Makes all limits count a release from its start to its end, as one of `from=exit` does.
    pub(crate) fn until_ended(mut self) -> Self {
        self.limits = self.limits.into_iter().map(Limit::until_ended).collect();
        self
    }

    /// Shares the first of the limits, one for each of `terms`, with other runs: releases need slots booked on these
    /// terms. If releases may `wait`, future slots are booked, too.
    pub fn share(&mut self, terms: BookingTerms, wait: bool) {
        let shared = terms.most.len();
        self.limits.drain(..shared);
        self.reservations = Some(Reservations::new(&self.rates[..shared], terms, wait));
        let rates = mem::take(&mut self.rates);
        self.set_rates(rates);
    }

    fn set_rates(&mut self, rates: Vec<Rate>) {
        // Items that became next in line under earlier limits may still be waiting.
        let depended_on_eligibility = self.properties.depends_on_eligibility;
        let terms = self.reservations.as_ref().map(Reservations::terms);
        self.properties = Properties::new(&rates, terms, depended_on_eligibility);
        self.shares_keys = keys(&rates).len() > 1;
        self.counts_exits = rates.iter().any(Rate::counts_exits);
        self.versions = (self.versions.0 + 1, self.versions.1 + 1);
        self.rates = rates;
    }

    /// All limits, in the order of the costs of a request.
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// The limit of this run alone that has this index.
    pub fn limit(&self, at: usize) -> &Limit {
        &self.limits[at - self.shared()]
    }

    /// The limits of this run alone, with their indices.
    pub fn limits(&self) -> impl Iterator<Item = (usize, &Limit)> {
        self.limits.iter().enumerate().map(|(at, limit)| (self.shared() + at, limit))
    }

    /// The properties of these limits, valid until [`Gate::set_limits`].
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The slots for shared limits, if there are any.
    pub fn reservations(&self) -> Option<&Reservations> {
        self.reservations.as_ref()
    }

    /// As [`Gate::reservations`], to be changed.
    pub fn reservations_mut(&mut self) -> Option<&mut Reservations> {
        self.reservations.as_mut()
    }

    /// The number of limits that are shared.
    fn shared(&self) -> usize {
        self.rates.len() - self.limits.len()
    }

    /// An answer of [`Gate::opening`] stands until this number changes or the opening ends.
    pub fn version(&self, scope: Scope) -> u64 {
        let of_slots = self.reservations.as_ref().map_or(0, Reservations::version);
        match scope {
            Scope::Common | Scope::Local => self.versions.0,
            Scope::Keyed => self.versions.1 + of_slots,
            Scope::All => self.versions.0 + of_slots,
        }
    }

    /// The first opening for a release at or after `from`, by these limits; of one that does not wait, the opening in
    /// which it can be decided whether it is allowed.
    pub fn opening(&self, scope: Scope, request: &Request, from: Time) -> Opening {
        if !request.waits {
            return self.judged(request);
        }
        let from = request.eligible_at.max(from);
        let slots = self.reservations.as_ref().filter(|_| matches!(scope, Scope::Keyed | Scope::All));
        let asked = self.asked(scope, request).map(Some).chain(slots.map(|_| None));
        Opening::agreed(from, &asked, |limit, from| match (limit, slots) {
            (Some((limit, cost)), _) => limit.opening(limit.key_of(request), request.ask(cost), from),
            (None, Some(slots)) => slots.opening(request, from),
            (None, None) => Opening::at(from),
        })
    }

    fn judged(&self, request: &Request) -> Opening {
        let waiting = Request { waits: true, ..*request };
        let is_open =
            |_: &&_| self.opening(Scope::Local, &waiting, request.eligible_at).from <= request.eligible_at;
        let slots = self.reservations.as_ref().filter(is_open);
        let opening = slots.and_then(|slots| {
            let opening = slots.opening(request, request.eligible_at);
            // Without a slot, it is decided as soon as the instant of the next one is known.
            Some(opening).filter(|opening| *opening != Opening::NEVER || slots.expected(request).is_none())
        });
        opening.unwrap_or(Opening::at(request.eligible_at))
    }

    /// The limits of this run that a request asks, and its costs.
    fn asked<'a>(
        &'a self,
        scope: Scope,
        request: &Request<'a>,
    ) -> impl Iterator<Item = (&'a Limit, u64)> + Clone {
        let asked = self.limits.iter().zip(request.costs[self.shared()..].iter().copied());
        asked.filter(move |(limit, cost)| {
            let is_meant = match scope {
                Scope::Common => limit.is_common(),
                Scope::Keyed => !limit.is_common(),
                Scope::Local | Scope::All => true,
            };
            *cost > 0 && is_meant
        })
    }

    /// The parts of a request that the answer of the common limits depends on.
    pub fn kind(&self, request: &Request) -> Kind {
        if !request.waits {
            return Kind::default();
        }
        let shared = self.shared();
        let common = self.limits.iter().zip(&request.costs[shared..]);
        let common = common.map(|(limit, &cost)| if limit.is_common() { cost } else { 0 });
        let costs: SmallVec<[u64; 4]> = common.collect();
        let mut rates = self.rates[shared..].iter().zip(&costs);
        let depends = rates.any(|(rate, &cost)| rate.depends_on_eligibility(cost));
        (costs, Some(request.eligible_at).filter(|_| depends))
    }

    /// The limits of this run that charge a request, and its costs.
    fn charged_by<'a>(&'a mut self, request: &'a Request) -> impl Iterator<Item = (&'a mut Limit, u64)> {
        let costs = request.costs[self.shared()..].iter().copied();
        self.limits.iter_mut().zip(costs).filter(|(_, cost)| *cost > 0)
    }

    /// Why a release still waits at `now`, if it does.
    pub fn blocked(&self, request: &Request, now: Time) -> Option<Blocked> {
        let held = self.reservations.as_ref().map_or(Time::ZERO, |slots| slots.held_until(request));
        if held > now {
            return Some(Blocked { by: By::Hold, until: Some(held) });
        }
        match self.binding(request, now) {
            Some((limit, until)) => Some(Blocked { by: By::Limit(limit), until: until.known() }),
            None => Some(self.reservations.as_ref()?.blocked(request)),
        }
    }

    /// The limit of this run that is the last to allow the release at `now` or later, and its answer; `None` if all
    /// allow it at `now`.
    fn binding(&self, request: &Request, now: Time) -> Option<(usize, Time)> {
        let mut from = request.eligible_at.max(now);
        let shared = self.shared();
        if self.rates[shared..].iter().any(|rate| rate.during.is_some()) {
            // A limit with hours may allow the release at once, but refuse it by the time the others allow it. The
            // binding limit is the one that refuses it just before all agree.
            let agreed = self.opening(Scope::Local, request, from).from.known();
            from = agreed.map_or(from, |at| from.max(Time(at.0.saturating_sub(1))));
        }
        let answers = self.limits.iter().zip(&request.costs[shared..]).map(|(limit, &cost)| match cost {
            0 => from,
            _ => limit.opening(limit.key_of(request), request.ask(cost), from).from,
        });
        let answers = answers.enumerate().map(|(at, answer)| (shared + at, answer));
        let latest = answers.max_by_key(|&(at, answer)| (answer, std::cmp::Reverse(at)));
        latest.filter(|(_, answer)| *answer > from)
    }

    /// Checks whether `request` would be admitted at `now`, after those in `pending`. One that does not wait is judged
    /// as of when it became next in line or, if it needs a slot, as of now, as it had to wait for one.
    ///
    /// # Errors
    /// What does not allow it; of one that does not wait, what refuses it.
    pub fn check(&mut self, pending: &mut Pending, now: Time, request: &Request) -> Result<(), Blocked> {
        let at = if request.waits || self.reservations.is_some() { now } else { request.eligible_at };
        let available = self.available(pending, at, request, 1);
        let slots = self.reservations.as_ref();
        let checked = available.and_then(|_| slots.map_or(Ok(()), |slots| slots.check(at, request)));
        checked.or_else(|blocked| if request.waits || blocked.is_known() { Err(blocked) } else { Ok(()) })
    }

    /// Admits releases like `request` at `now`, after those in `pending`: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// What allows not even one.
    pub fn admit(
        &mut self,
        pending: &mut Pending,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Blocked> {
        let count = self.available(pending, now, request, most)?;
        let slots = self.reservations.as_mut();
        let (count, taken) = slots.map_or(Ok((count, None)), |slots| slots.take(now, request, count))?;
        pending.add(Admitted { eligible_at: request.eligible_at, count, taken });
        Ok(count)
    }

    /// The number that the limits of this run allow, never 0. Begins the row of one in `pending`.
    ///
    /// # Errors
    /// The first limit that allows none.
    fn available(
        &mut self,
        pending: &mut Pending,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Blocked> {
        pending.begin(&self.limits);
        let (mut count, shared) = (most, self.shared());
        let costs = &request.costs[shared..];
        for (at, limit) in self.limits.iter_mut().enumerate() {
            let (cost, mut account) = (costs[at], 0);
            if cost > 0 {
                account = limit.account(limit.key_of(request), now);
                let before = pending.sum(at, account);
                count = limit.available(account, now, request.ask(cost), before, count);
            }
            if count == 0 {
                return Err(Blocked::by_limit(shared + at));
            }
            pending.rows.push((cost, account));
        }
        Ok(count)
    }

    /// Charges a release that begins at `now`, if the limits of this run allow it. They count it until it ends, unless
    /// it is `over` at once.
    ///
    /// # Errors
    /// The first limit that does not. Nothing has changed then.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time, request: &Request, over: bool) -> Result<(), Blocked> {
        let costs = &request.costs[self.shared()..];
        self.versions = (self.versions.0 + 1, self.versions.1 + 1);
        let begun = begin(&mut self.limits, costs, now, request, over);
        begun.map_err(|others| Blocked::by_limit(self.rates.len() - 1 - others))
    }

    /// Charges the first `left` of the releases, which have left by `now`; the others count as never admitted. If
    /// `over`, the releases have ended as well. Calls `charged` with the index of each limit that is charged, the
    /// number of releases and the sum of their costs. Returns reports of releases that were late for their slots.
    pub fn commit(
        &mut self,
        pending: &mut Pending,
        now: Time,
        left: u64,
        over: bool,
        mut charged: impl FnMut(usize, u64, u64),
    ) -> Vec<Order> {
        let (mut reports, shared) = (Vec::new(), self.shared());
        let Gate { limits, reservations, .. } = self;
        pending.take_all(left, |release, count, row| {
            for (at, limit) in limits.iter_mut().enumerate() {
                let (cost, account) = row[at];
                if count > 0 && cost > 0 {
                    let one = Ask { eligible_at: release.eligible_at, cost };
                    let all = Ask { cost: cost.saturating_mul(count), ..one };
                    charged(shared + at, count, all.cost);
                    limit.commit(account, now, one, count);
                    if over {
                        limit.end(account, now, all);
                    }
                }
            }
            if let Some((slots, taken)) = reservations.as_mut().zip(release.taken) {
                let costs = taken.costs.iter().enumerate().filter(|(_, cost)| count > 0 && **cost > 0);
                costs.for_each(|(at, &cost)| charged(at, count, cost.saturating_mul(count)));
                reports.extend(slots.commit(now, taken, count));
            }
        });
        self.versions.0 += 1;
        self.versions.1 += u64::from(self.shares_keys);
        reports
    }

    /// Forgets a charged release that has not ended and never took place.
    pub(crate) fn withdraw(&mut self, request: &Request) {
        self.charged_by(request).for_each(|(limit, cost)| limit.withdraw(request, cost));
        self.answers_change(Time::ZERO);
    }

    /// Notes that a charged release ended at `now`.
    #[inline]
    pub fn finish(&mut self, now: Time, request: &Request) {
        let costs = &request.costs[self.shared()..];
        self.limits.iter_mut().zip(costs).for_each(|(limit, &cost)| limit.finish(now, request, cost));
        self.paused.iter_mut().for_each(|paused| paused.finish(now, request, costs));
        if self.counts_exits {
            // Until a command ends, a limit with hours answers with the end of these, and then perhaps with an earlier
            // instant.
            let has_hours = |rate: &Rate| rate.counts_exits() && rate.during.is_some();
            self.answers_change(if self.rates.iter().any(has_hours) { Time::ZERO } else { Time::NEVER });
        }
    }

    /// Notes at `now` what a server answered to a release, for limits whose rate is to be found.
    pub fn learn(&mut self, now: Time, request: &Request, feedback: &Feedback) {
        let limits = self.charged_by(request);
        let fallen = limits.map(|(limit, cost)| limit.answered((request, cost), now, feedback));
        if fallen.fold(false, |any, fallen| any | fallen) {
            self.answers_change(Time::NEVER);
        }
    }

    /// Notes that any answer may have changed, and that those from `at` on may have become more lenient.
    fn answers_change(&mut self, at: Time) {
        self.versions = (self.versions.0 + 1, self.versions.1 + 1);
        self.lenient_from = Some(self.lenient_from.map_or(at, |other| other.min(at)));
    }

    /// The answers that may have become more lenient since the last call, if any.
    pub fn take_news(&mut self) -> Option<News> {
        let of_slots = self.reservations.as_mut().and_then(Reservations::take_news);
        match self.lenient_from.take() {
            Some(from) => Some(News::new(from.min(of_slots.map_or(Time::NEVER, |news| news.from())), false)),
            None => of_slots,
        }
    }

    /// Replaces the limits at `now`. Those of this run keep their history; the first ones are shared, as many as there
    /// are terms for.
    pub fn set_limits(&mut self, now: Time, rates: Vec<Rate>) {
        let shared = self.reservations.as_ref().map_or(0, |slots| slots.terms().most.len());
        let old = &self.rates[self.shared()..];
        let (limits, paused) = (mem::take(&mut self.limits), mem::take(&mut self.paused));
        let new: Vec<_> = rates.iter().zip(key_parts(&rates)).skip(shared).collect();
        self.reservations.iter_mut().for_each(|slots| slots.change(now, &rates[..shared]));
        (self.limits, self.paused, self.is_new) = change(old, limits, paused, &new, now, self.wall);
        self.set_rates(rates);
    }

    /// After a change of limits: a release that was charged before is still running, and this is its request under the
    /// new limits.
    pub fn resume(&mut self, now: Time, request: &Request) {
        let costs = &request.costs[self.shared()..];
        let limits = self.limits.iter_mut().zip(costs).zip(&self.is_new);
        for ((limit, &cost), _) in limits.filter(|((_, cost), is_new)| **is_new && **cost > 0) {
            let account = limit.account(limit.key_of(request), now);
            limit.commit(account, now, request.ask(cost), 1);
        }
    }

    /// The wall clock.
    pub(crate) fn wall(&self) -> Wall {
        self.wall
    }

    /// The wall clock shows this from `now` on.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        // Slots that have come since may have been booked by the clock as it was.
        self.reservations.iter_mut().for_each(|slots| slots.set_wall(now, wall));
        if mem::replace(&mut self.wall, wall) == wall {
            return;
        }
        let shared = self.shared();
        let limits = self.limits.iter_mut().zip(&self.rates[shared..]);
        let limits = limits.filter(|(_, rate)| rate.goes_by_wall());
        limits.for_each(|(limit, rate)| limit.set_wall(now, rate, wall));
        self.paused.iter_mut().for_each(|paused| paused.set_wall(now, wall));
        self.answers_change(Time::ZERO);
    }

    /// At `now`, if it is time for it, evicts the keys that were idle by `horizon`: no later request may be as of an
    /// instant before that. Returns when it is time again.
    #[inline]
    pub fn tidy(&mut self, now: Time, horizon: impl FnOnce() -> Time) -> Time {
        let next = |limits: &[Limit]| limits.iter().map(Limit::evict_at).min().unwrap_or(Time::NEVER);
        if next(&self.limits) <= now {
            let horizon = horizon();
            self.limits.iter_mut().for_each(|limit| limit.evict(now, horizon));
        }
        next(&self.limits)
    }

    /// The limits from which to forecast the end of the run. If some are shared, other runs may take slots that the
    /// forecast counts on.
    pub fn foreseen(&self, now: Time) -> Vec<Cow<'_, Limit>> {
        let shared = self.rates.iter().zip(key_parts(&self.rates)).take(self.shared());
        let shared = shared.map(|(rate, key)| Cow::Owned(Limit::new(rate, key, now, self.wall)));
        shared.chain(self.limits.iter().map(Cow::Borrowed)).collect()
    }

    /// Provides for what lanes demand, in their order, when only `vacancies` more releases can take place.
    ///
    /// No slot is booked for a release that the limits of this run do not allow now: it could not be used.
    pub fn want<'a>(
        &mut self,
        now: Time,
        demands: impl Iterator<Item = Demand<'a>>,
        vacancies: u64,
    ) -> Steps {
        let Some(mut slots) = self.reservations.take() else { return Steps::default() };
        let demands = demands.filter(|demand| !slots.is_free(&demand.request));
        let (demands, opens) = self.allowed(now, demands, &slots);
        let mut steps = slots.want(now, demands.into_iter(), vacancies);
        steps.again = steps.again.into_iter().chain(opens.known()).min();
        self.reservations = Some(slots);
        steps
    }

    /// What the limits of this run allow now of what lanes demand, and when they will allow some of the rest.
    fn allowed<'a>(
        &mut self,
        now: Time,
        demands: impl Iterator<Item = Demand<'a>>,
        slots: &Reservations,
    ) -> (Vec<Demand<'a>>, Time) {
        let (mut allowed, mut opens, mut trial) = (Vec::new(), Time::NEVER, Pending::default());
        let mut is_cut = false;
        for demand in demands {
            // What follows in a lane waits for what is before it.
            if mem::replace(&mut is_cut, false) && demand.before > 0 {
                is_cut = true;
                continue;
            }
            if let Ok(count) = self.available(&mut trial, now, &demand.request, demand.count) {
                // A slot that is far off takes nothing away from releases that may go before it.
                if slots.may_go_soon(now, &demand.request) {
                    trial.add(Admitted { eligible_at: now, count, taken: None });
                }
                is_cut = count < demand.count;
                allowed.push(Demand { count, ..demand });
                continue;
            }
            is_cut = true;
            let at = self.opening(Scope::Local, &demand.request, now).from;
            // Otherwise it is only held up by what is allowed above.
            opens = if at > now { opens.min(at) } else { opens };
        }
        (allowed, opens)
    }
}

/// Charges a release that begins, if all of `limits` allow it.
///
/// # Errors
/// The number of limits after the first that does not. Nothing has changed then.
#[inline]
fn begin(limits: &mut [Limit], costs: &[u64], now: Time, request: &Request, over: bool) -> Result<(), usize> {
    let ([limit, others @ ..], [cost, other_costs @ ..]) = (limits, costs) else { return Ok(()) };
    let ask = request.ask(*cost);
    let found = (*cost > 0).then(|| {
        let account = limit.account(limit.key_of(request), now);
        (account, limit.allowance(account, now, ask))
    });
    if let Some((_, Allowance::None)) = found {
        return Err(others.len());
    }
    if !others.is_empty() {
        begin(others, other_costs, now, request, over)?;
    }
    found.into_iter().for_each(|found| limit.begin(found, now, ask, over));
    Ok(())
}
