//! The gate decides what may leave when. It is pure: it never reads a clock; callers pass the time.
//!
//! A [`Gate`] has the [`LocalLimits`] of this run, and [`Reservations`] for the limits that it shares with other runs:
//! slots booked from a store. What leaves needs both.
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
mod local;
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

pub(crate) use self::accounts::Accounts;
pub use self::change::predecessor;
pub(crate) use self::evict::Eviction;
pub use self::last_release::last_release;
pub use self::learning::{Feedback, Learned};
pub use self::limit::{Availability, Limit};
pub use self::local::LocalLimits;
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

use self::limit::key_parts;
use self::pending::Admitted;
use crate::config::Rate;
use crate::time::{Time, Wall};

/// The limits of a run.
#[derive(Clone, Default)]
pub struct Gate {
    /// All limits, in the order of the costs of a request: first those that are shared.
    rates: Vec<Rate>,
    local: LocalLimits,
    /// Slots for the others.
    reservations: Option<Reservations>,
    properties: Properties,
}

impl Gate {
    /// The gate of a run that starts at `start`, by this wall clock.
    pub fn new(rates: Vec<Rate>, start: Time, wall: Wall) -> Self {
        let properties = Properties::new(&rates, None, false);
        Gate { local: LocalLimits::new(&rates, start, wall), rates, reservations: None, properties }
    }

    /// Shares the first of the limits, one for each of `terms`, with other runs: releases need slots booked on these
    /// terms. If releases may `wait`, future slots are booked, too.
    pub fn share(&mut self, terms: BookingTerms, wait: bool) {
        let shared = terms.most.len();
        self.local.share(shared);
        self.reservations = Some(Reservations::new(&self.rates[..shared], terms, wait));
        self.update_properties();
    }

    fn update_properties(&mut self) {
        // Items that became next in line under earlier limits may still be waiting.
        let depended_on_eligibility = self.properties.depends_on_eligibility;
        let terms = self.reservations.as_ref().map(Reservations::terms);
        self.properties = Properties::new(&self.rates, terms, depended_on_eligibility);
    }

    /// All limits, in the order of the costs of a request.
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// The properties of these limits, valid until [`Gate::set_limits`].
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The limits of this run alone.
    pub fn local(&self) -> &LocalLimits {
        &self.local
    }

    /// As [`Gate::local`], to be told of what happens to releases.
    pub fn local_mut(&mut self) -> &mut LocalLimits {
        &mut self.local
    }

    /// The slots for shared limits, if there are any.
    pub fn reservations(&self) -> Option<&Reservations> {
        self.reservations.as_ref()
    }

    /// As [`Gate::reservations`], to be changed.
    pub fn reservations_mut(&mut self) -> Option<&mut Reservations> {
        self.reservations.as_mut()
    }

    /// An answer of [`Gate::opening`] stands until this number changes or the opening ends.
    pub fn version(&self, scope: Scope) -> u64 {
        let of_slots = self.reservations.as_ref().map_or(0, Reservations::version);
        self.local.version(scope) + if scope == Scope::Common { 0 } else { of_slots }
    }

    /// The first opening for a release at or after `from`, by these limits; of one that does not wait, the opening in
    /// which it can be decided whether it is allowed.
    pub fn opening(&self, scope: Scope, request: &Request, from: Time) -> Opening {
        if !request.waits {
            return self.judged(request);
        }
        let from = request.eligible_at.max(from);
        let slots = self.reservations.as_ref().filter(|_| scope != Scope::Common);
        let asked = self.local.asked(scope, request).map(Some).chain(slots.map(|_| None));
        Opening::agreed(from, &asked, |limit, from| match (limit, slots) {
            (Some((limit, cost)), _) => limit.opening_for(request, cost, from),
            (None, Some(slots)) => slots.opening(request, from),
            (None, None) => Opening::at(from),
        })
    }

    fn judged(&self, request: &Request) -> Opening {
        let waiting = Request { waits: true, ..*request };
        let is_open = |_: &&_| self.local.opening(&waiting, request.eligible_at).from <= request.eligible_at;
        let slots = self.reservations.as_ref().filter(is_open);
        let opening = slots.and_then(|slots| {
            let opening = slots.opening(request, request.eligible_at);
            // Without a slot, it is decided as soon as the instant of the next one is known.
            Some(opening).filter(|opening| *opening != Opening::NEVER || slots.expected(request).is_none())
        });
        opening.unwrap_or(Opening::at(request.eligible_at))
    }

    /// Why a release still waits at `now`, if it does.
    pub fn blocked(&self, request: &Request, now: Time) -> Option<Blocked> {
        let held = self.reservations.as_ref().map_or(Time::ZERO, |slots| slots.held_until(request));
        if held > now {
            return Some(Blocked { by: By::Hold, until: Some(held) });
        }
        match self.local.binding(request, now) {
            Some((limit, until)) => Some(Blocked { by: By::Limit(limit), until: until.known() }),
            None => Some(self.reservations.as_ref()?.blocked(request)),
        }
    }

    /// Checks whether `request` would be admitted at `now`, after those in `pending`. One that does not wait is judged
    /// as of when it became next in line or, if it needs a slot, as of now, as it had to wait for one.
    ///
    /// # Errors
    /// What does not allow it; of one that does not wait, what refuses it.
    pub fn check(&mut self, pending: &mut Pending, now: Time, request: &Request) -> Result<(), Blocked> {
        let at = if request.waits || self.reservations.is_some() { now } else { request.eligible_at };
        let available = self.local.available(pending, at, request, 1);
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
        let count = self.local.available(pending, now, request, most)?;
        let slots = self.reservations.as_mut();
        let (count, taken) = slots.map_or(Ok((count, None)), |slots| slots.take(now, request, count))?;
        pending.add(Admitted { eligible_at: request.eligible_at, count, taken });
        Ok(count)
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
        let mut reports = Vec::new();
        let Gate { local, reservations, .. } = self;
        pending.take_all(left, |release, count, row| {
            let sums = (release.eligible_at, count);
            local.commit(row, sums, now, over, |limit, cost| charged(limit, count, cost));
            if let Some((slots, taken)) = reservations.as_mut().zip(release.taken) {
                let costs = taken.costs.iter().enumerate().filter(|(_, cost)| count > 0 && **cost > 0);
                costs.for_each(|(at, &cost)| charged(at, count, cost.saturating_mul(count)));
                reports.extend(slots.commit(now, taken, count));
            }
        });
        reports
    }

    /// The answers that may have become more lenient since the last call, if any.
    pub fn take_news(&mut self) -> Option<News> {
        let of_slots = self.reservations.as_mut().and_then(Reservations::take_news);
        match self.local.take_lenient() {
            Some(from) => Some(News::new(from.min(of_slots.map_or(Time::NEVER, |news| news.from())), false)),
            None => of_slots,
        }
    }

    /// Replaces the limits at `now`. Those of this run keep their history; the first ones are shared, as many as there
    /// are terms for.
    pub fn set_limits(&mut self, now: Time, rates: Vec<Rate>) {
        let shared = self.reservations.as_ref().map_or(0, |slots| slots.terms().most.len());
        self.reservations.iter_mut().for_each(|slots| slots.change(now, &rates[..shared]));
        self.local.set_limits(now, &rates, shared);
        self.rates = rates;
        self.update_properties();
    }

    /// The wall clock shows this from `now` on.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        // Slots that have come since may have been booked by the clock as it was.
        self.reservations.iter_mut().for_each(|slots| slots.set_wall(now, wall));
        self.local.set_wall(now, wall);
    }

    /// The limits from which to forecast the end of the run. If some are shared, other runs may take slots that the
    /// forecast counts on.
    pub fn foreseen(&self, now: Time) -> Vec<Cow<'_, Limit>> {
        let shared = self.rates.iter().zip(key_parts(&self.rates)).take(self.local.shared());
        let shared = shared.map(|(rate, key)| Cow::Owned(Limit::new(rate, key, now, self.local.wall())));
        shared.chain(self.local.limits().map(|(_, limit)| Cow::Borrowed(limit))).collect()
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
        let Gate { local, reservations: Some(slots), .. } = self else { return Steps::default() };
        let demands = demands.filter(|demand| !slots.is_free(&demand.request));
        let (demands, opens) = allowed(local, now, demands, slots);
        let mut steps = slots.want(now, demands.into_iter(), vacancies);
        steps.again = steps.again.into_iter().chain(opens.known()).min();
        steps
    }
}

/// What the limits of this run allow now of what lanes demand, and when they will allow some of the rest.
fn allowed<'a>(
    local: &mut LocalLimits,
    now: Time,
    demands: impl Iterator<Item = Demand<'a>>,
    slots: &Reservations,
) -> (Vec<Demand<'a>>, Time) {
    let (mut allowed, mut opens, mut trial) = (Vec::new(), Time::NEVER, Pending::default());
    let mut is_cut = false;
    for demand in demands {
        // What follows in a lane waits for what is before it.
        if is_cut && demand.before > 0 {
            continue;
        }
        let available = local.available(&mut trial, now, &demand.request, demand.count);
        is_cut = !available.is_ok_and(|count| count == demand.count);
        if let Ok(count) = available {
            // A slot that is far off takes nothing away from releases that may go before it.
            if slots.may_go_soon(now, &demand.request) {
                trial.add(Admitted { eligible_at: now, count, taken: None });
            }
            allowed.push(Demand { count, ..demand });
            continue;
        }
        let at = local.opening(&demand.request, now).from;
        // Otherwise it is only held up by what is allowed above.
        opens = if at > now { opens.min(at) } else { opens };
    }
    (allowed, opens)
}
