//! Limits that only this run uses.

use std::borrow::Cow;
use std::mem;

use smallvec::SmallVec;

use super::change::{Paused, change};
use super::{
    Charged, Charges, Gate, Kind, Limit, Limits, News, Opening, Order, Part, Properties, Refusal, Request,
    Why,
};
use crate::config::{CountFrom, Rate, keys};
use crate::rule::Verdict;
use crate::time::{Time, Wall};

/// The gate of limits that only this run uses.
#[derive(Default)]
pub struct Own {
    rates: Vec<Rate>,
    limits: Limits,
    paused: Vec<Paused>,
    properties: Properties,
    /// Items that differ in one key may share another, so one may use up what another waits for.
    shares_keys: bool,
    /// The revisions of the common limits and of the limits by key.
    revisions: (u64, u64),
    /// Answers later than this may have become more lenient since the last news.
    lenient_beyond: Option<Time>,
    /// For each limit: true if it counts beyond the start of a release and did not continue a history.
    is_new: Vec<bool>,
    start: Time,
    /// `None` until the first [`Gate::set_wall`].
    wall: Option<Wall>,
}

impl Own {
    /// The gate of a run that starts at `start`.
    pub fn new(rates: Vec<Rate>, start: Time) -> Self {
        let mut own = Own { limits: Limits::new(&rates, start, Wall::EPOCH), start, ..Own::default() };
        own.set_rates(rates);
        own
    }

    fn set_rates(&mut self, rates: Vec<Rate>) {
        // Items that became next in line under earlier limits may still be waiting.
        let depended_on_since = self.properties.depends_on_since;
        self.properties = Properties::new(&rates, None, depended_on_since);
        self.shares_keys = self.limits.iter().any(|limit| limit.key.is_some()) && keys(&rates).len() > 1;
        self.revisions = (self.revisions.0 + 1, self.revisions.1 + 1);
        self.rates = rates;
    }

    /// Charges a release that has happened and ended by `now`. The account that admitted it may have been evicted
    /// since.
    pub(crate) fn charge(&mut self, now: Time, request: &Request) {
        self.limits.charge(now, request);
        self.finish(now, request);
    }

    fn counts_exits(&self) -> bool {
        self.rates.iter().any(|rate| rate.from != CountFrom::Start)
    }

    /// True if a limit that counts from ends has hours: until a command ends, it answers with the end of the hours, and
    /// then perhaps with an earlier instant.
    fn waits_for_ends_or_hours(&self) -> bool {
        self.rates.iter().any(|rate| rate.from != CountFrom::Start && rate.during().is_some())
    }

    /// Notes that any answer may have changed, and that those later than `at` may have become more lenient.
    fn answers_change(&mut self, at: Time) {
        self.revisions = (self.revisions.0 + 1, self.revisions.1 + 1);
        self.lenient_beyond = Some(self.lenient_beyond.map_or(at, |other| other.min(at)));
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
        if self.wall == Some(wall) {
            return;
        }
        match self.wall.replace(wall) {
            None => self.limits = Limits::new(&self.rates, self.start, wall),
            Some(_) => self.limits.set_wall(now, &self.rates, wall),
        }
        self.paused.iter_mut().for_each(|paused| paused.set_wall(now, wall));
        self.answers_change(Time::ZERO);
    }

    fn ask(&self, part: Part, request: &Request, from: Time) -> Opening {
        self.limits.ask(part, request, from)
    }

    fn kind(&self, request: &Request) -> Kind {
        let common = |(limit, &cost): (&Limit, &u64)| if limit.key.is_none() { cost } else { 0 };
        let costs: SmallVec<[u64; 4]> = self.limits.iter().zip(request.costs).map(common).collect();
        let depends = self.rates.iter().zip(&costs).any(|(rate, &cost)| rate.depends_on_since(cost));
        (costs, Some(request.since).filter(|_| depends))
    }

    fn why(&self, request: &Request, now: Time) -> Option<Why> {
        self.limits.binding(request, now).map(|(limit, verdict)| match verdict {
            Verdict::Never => Why::Never(limit),
            Verdict::At(_) => Why::Limit(limit),
        })
    }

    fn refusing(&mut self, charges: &Charges, request: &Request) -> Option<Refusal> {
        self.limits.refusing(charges, request).map(|limit| Refusal { limit: Some(limit), allowed: None })
    }

    fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool {
        self.limits.fits(charges, now, request)
    }

    fn admit(&mut self, charges: &mut Charges, now: Time, request: &Request, most: u64) -> Result<u64, Part> {
        self.limits.admit(charges, now, request, most)
    }

    fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order> {
        self.limits.commit(charges, now, left, over);
        self.revisions.0 += 1;
        self.revisions.1 += u64::from(self.shares_keys);
        Vec::new()
    }

    fn finish(&mut self, now: Time, request: &Request) {
        self.limits.finish(now, request);
        self.paused.iter_mut().for_each(|paused| paused.finish(now, request));
        if self.counts_exits() {
            let never = Time(u64::MAX);
            self.answers_change(if self.waits_for_ends_or_hours() { Time::ZERO } else { never });
        }
    }

    fn resume(&mut self, now: Time, request: &Request) {
        let costs = request.costs.iter().zip(&self.is_new);
        let costs: Vec<_> = costs.map(|(&cost, &is_new)| if is_new { cost } else { 0 }).collect();
        self.limits.charge(now, &Request { costs: &costs, ..*request });
    }

    fn next_change(&self) -> Option<Time> {
        self.limits.evict_at()
    }

    fn forget(&mut self, now: Time, horizon: Time) {
        self.limits.evict(now, horizon);
    }

    fn take_news(&mut self) -> Option<News> {
        self.lenient_beyond.take().map(|at| News::new(at, false))
    }

    fn change(&mut self, now: Time, rates: Vec<Rate>) {
        let (limits, paused) = (mem::take(&mut self.limits), mem::take(&mut self.paused));
        (self.limits, self.paused, self.is_new) =
            change(&self.rates, limits, paused, &rates, now, self.wall.unwrap_or_default());
        self.set_rates(rates);
    }

    fn charged(&self) -> &[Charged] {
        self.limits.charged()
    }

    fn limits(&self) -> Option<&Limits> {
        Some(&self.limits)
    }

    fn is_foreseeable(&self) -> bool {
        !self.counts_exits()
    }

    fn foreseen(&self, _: Time) -> Cow<'_, Limits> {
        Cow::Borrowed(&self.limits)
    }
}
