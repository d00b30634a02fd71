//! The gate: decides what may leave when. It is pure: it never reads a clock, it is told the time.
//!
//! [`Limits`] are those of this run, each a [`Rule`](crate::rule::Rule) with its [`History`], of all items or of each key.
//! [`Slots`] are those that a store has booked, for limits that are shared with other runs.
//!
//! Releases that leave together are *admitted* one after the other at one instant, each as though those before it had
//! been charged: their [`Charges`] are a value of their own. Once they have left, [`Gate::commit`] charges as many as
//! really did, at the instant read after that.
//!
//! A release that is allowed at an instant need not be allowed at any later one: see [`Opening`].

mod accounts;
mod build;
mod change;
mod charges;
mod history;
mod holds;
mod last_release;
mod limit;
mod limiter;
mod limits;
mod memory;
mod opening;
mod properties;
mod request;
mod slots;

use std::borrow::Cow;
use std::mem;

use smallvec::SmallVec;

pub(crate) use self::accounts::Accounts;
pub use self::charges::Charges;
pub use self::history::History;
pub use self::holds::Holds;
pub use self::last_release::last_release;
pub use self::limit::Limit;
pub use self::limiter::{Availability, Limiter};
pub use self::limits::{Charged, Limits};
#[cfg(test)]
pub(crate) use self::opening::ASKED;
pub use self::opening::Opening;
pub use self::properties::{BatchTerms, Properties};
pub use self::request::{Kind, OwnedRequest, Part, Refusal, Request, Why};
pub use self::slots::{
    Answer, BookingTerms, Closed, Needs, News, Order, Overruns, Slot, Slots, Turn, Wanted,
};

use self::change::{Paused, change};
use crate::config::{CountFrom, Rate, keys};
use crate::rule::Verdict;
use crate::time::{Time, Wall};

/// Decides what may leave when.
#[derive(Default)]
pub struct Gate {
    rates: Vec<Rate>,
    properties: Properties,
    /// Those of this run; none if a store keeps them.
    limits: Limits,
    paused: Vec<Paused>,
    /// The slots of limits that a store keeps.
    pub slots: Option<Slots>,
    /// Items that differ in one key may share another, so that one uses up what another waits for.
    shares_keys: bool,
    /// The revisions of the common limits, and of those that go by key.
    revisions: (u64, u64),
    /// Something has ended since the last news, or the wall clock was set.
    has_ended: bool,
    /// For each limit: it counts what is running, and has no history of those before it.
    is_new: Vec<bool>,
    start: Time,
    /// `None` until the first [`Gate::set_wall`].
    wall: Option<Wall>,
}

impl Gate {
    /// With limits that nobody else uses, for a run that starts at `start`.
    pub fn new(rates: Vec<Rate>, start: Time) -> Self {
        let mut gate = Gate { limits: Limits::new(&rates, start, Wall::EPOCH), start, ..Gate::default() };
        gate.set_rates(rates);
        gate
    }

    /// Has a store keep the limits, on these terms. Releases that may `wait` take slots to come.
    pub fn share(&mut self, terms: BookingTerms, wait: bool) {
        self.slots = Some(Slots::new(&self.rates, terms, wait));
        self.limits = Limits::default();
        let rates = mem::take(&mut self.rates);
        self.set_rates(rates);
    }

    fn set_rates(&mut self, rates: Vec<Rate>) {
        // An item that became next in line under limits before these still depends on that.
        let depended_on_since = self.properties.depends_on_since;
        self.properties = Properties::new(&rates, self.slots.as_ref(), depended_on_since);
        self.shares_keys = self.limits.iter().any(|limit| limit.key.is_some()) && keys(&rates).len() > 1;
        self.revisions = (self.revisions.0 + 1, self.revisions.1 + 1);
        self.rates = rates;
    }

    fn counts_exits(&self) -> bool {
        self.rates.iter().any(|rate| rate.from != CountFrom::Start)
    }

    /// All answers may have changed, to more lenient ones, too.
    fn answers_change(&mut self) {
        self.revisions = (self.revisions.0 + 1, self.revisions.1 + 1);
        self.has_ended = true;
    }

    /// The limits as given, in the order of the costs of a request.
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// Valid until [`Gate::change`].
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// An answer of [`Gate::ask`] stands until this number changes, or the opening ends.
    pub fn revision(&self, part: Part) -> u64 {
        let (common, by_key) = self.revisions;
        let keyed = by_key + self.slots.as_ref().map_or(0, |slots| slots.revision);
        match part {
            Part::Common => common,
            Part::Keyed => keyed,
            Part::All => common + keyed,
        }
    }

    /// The wall clock shows this from `now` on. Called once before anything is asked.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        let before = self.wall.replace(wall);
        if before == Some(wall) || self.slots.is_some() {
            return;
        }
        match before {
            None => self.limits = Limits::new(&self.rates, self.start, wall),
            Some(_) => self.limits.set_wall(now, &self.rates, wall),
        }
        self.answers_change();
    }

    /// The first opening of this part for a release, at or after `from`.
    pub fn ask(&self, part: Part, request: &Request, from: Time) -> Opening {
        match &self.slots {
            None => self.limits.ask(part, request, from),
            Some(_) if part == Part::Common => Opening::at(request.since),
            Some(slots) => slots.booked.opening(request),
        }
    }

    /// Opens when it is known if a release is allowed at `request.since`.
    pub fn judged(&self, request: &Request) -> Opening {
        let slots = self.slots.as_ref().filter(|slots| slots.booked.refused_until(request).is_none());
        slots.map_or(Opening::at(request.since), |slots| slots.booked.opening(request))
    }

    /// The parts of a request that the answer of the common limits depends on.
    pub fn kind(&self, request: &Request) -> Kind {
        let common = |(limit, &cost): (&Limit, &u64)| if limit.key.is_none() { cost } else { 0 };
        let costs: SmallVec<[u64; 4]> = self.limits.iter().zip(request.costs).map(common).collect();
        let depends = self.rates.iter().zip(&costs).any(|(rate, &cost)| rate.depends_on_since(cost));
        (costs, Some(request.since).filter(|_| depends))
    }

    /// The reason that a release waits, if it does.
    pub fn why(&self, request: &Request) -> Option<Why> {
        if self.slots.is_some() {
            // Of several that are shared, it is not known which one.
            return Some(Why::Slot((self.rates.len() == 1).then_some(0)));
        }
        self.limits.binding(request).map(|(limit, verdict)| match verdict {
            Verdict::Never => Why::Never(limit),
            Verdict::At(_) => Why::Limit(limit),
        })
    }

    /// The refusal of a release at `request.since`, after those that are charged, if it is refused.
    pub fn refusing(&mut self, charges: &Charges, request: &Request) -> Option<Refusal> {
        if let Some(slots) = &self.slots {
            return slots.refusing(request);
        }
        self.limits.refusing(charges, request).map(|limit| Refusal { limit: Some(limit), allowed: None })
    }

    /// True if `request` would be admitted at `now`, after those that are charged.
    pub fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool {
        match &self.slots {
            Some(slots) => slots.booked.is_open(now, request),
            None => self.limits.fits(charges, now, request),
        }
    }

    /// Admits releases like `request` at `now`, after those that are charged: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// The part that allows not even one.
    pub fn admit(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Part> {
        match &mut self.slots {
            Some(slots) => slots.admit(charges, now, request, most).ok_or(Part::Keyed),
            None => self.limits.admit(charges, now, request, most),
        }
    }

    /// Charges the first `left` of the releases, which have left by `now`; the others are as though they had never been
    /// admitted. Those that are `over` have come to their end as well. Returns reports of those that were late for
    /// their slots.
    pub fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order> {
        if let Some(slots) = &mut self.slots {
            return slots.commit(charges, now, left);
        }
        self.limits.commit(charges, now, left, over);
        self.revisions.0 += 1;
        self.revisions.1 += u64::from(self.shares_keys);
        Vec::new()
    }

    /// A release that was charged has come to its end at `now`.
    pub fn finish(&mut self, now: Time, request: &Request) {
        self.limits.finish(now, request);
        self.paused.iter_mut().for_each(|paused| paused.finish(now, request));
        if self.counts_exits() {
            self.answers_change();
        }
    }

    /// After a change of the limits: a release that was charged before, and costs this now, is still running.
    pub fn resume(&mut self, now: Time, request: &Request) {
        let costs = request.costs.iter().zip(&self.is_new);
        let costs: Vec<_> = costs.map(|(&cost, &is_new)| if is_new { cost } else { 0 }).collect();
        self.limits.occupy(now, &Request { costs: &costs, ..*request });
    }

    /// The instant at which to call [`Gate::forget`].
    pub fn next_change(&self) -> Option<Time> {
        self.limits.evict_at()
    }

    /// Gives back, at `now`, the memory of accounts that are idle by `horizon`. No later request may be of a time
    /// before that.
    pub fn forget(&mut self, now: Time, horizon: Time) {
        self.limits.evict(now, horizon);
    }

    /// The answers that may have become more lenient since this was last called, if any.
    pub fn take_news(&mut self) -> Option<News> {
        let of_all = mem::take(&mut self.has_ended).then(|| News::new(Time(u64::MAX), false));
        of_all.or_else(|| self.slots.as_mut()?.news.take())
    }

    /// Other limits hold from `now` on, with the history of those before them. A store keeps to those that it was
    /// opened for.
    pub fn change(&mut self, now: Time, rates: Vec<Rate>) {
        if self.slots.is_some() {
            return;
        }
        let (limits, paused) = (mem::take(&mut self.limits), mem::take(&mut self.paused));
        (self.limits, self.paused, self.is_new) =
            change(&self.rates, limits, paused, &rates, now, self.wall.unwrap_or_default());
        self.set_rates(rates);
    }

    /// The charges of each limit since it is there. Of limits that are shared, none are told before the first release.
    pub fn charged(&self) -> &[Charged] {
        self.slots.as_ref().map_or(self.limits.charged(), |slots| &slots.charged)
    }

    /// The limits with their histories; none if a store keeps them.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Nothing else decides: neither other runs nor the ends of commands.
    pub fn is_foreseeable(&self) -> bool {
        self.slots.is_none() && !self.counts_exits()
    }

    /// The limits by which the end of the run may be forecast. Where they are shared, others may book what this run
    /// would.
    pub fn foreseen(&self, now: Time) -> Cow<'_, Limits> {
        match &self.slots {
            Some(_) => Cow::Owned(Limits::new(&self.rates, now, self.wall.unwrap_or_default())),
            None => Cow::Borrowed(&self.limits),
        }
    }
}
