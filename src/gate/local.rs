//! The limits of a run that it shares with no other.

use std::cmp::Reverse;
use std::mem;

use smallvec::SmallVec;

use super::change::{Paused, change};
use super::learning::Feedback;
use super::limit::{Allowance, Limit, key_parts};
use super::{Blocked, Kind, Opening, Pending, Request, Scope};
use crate::config::{Rate, keys};
use crate::rule::Ask;
use crate::time::{Time, Wall};

/// Limits of this run alone. They allow what all of them allow; with none, everything.
///
/// There are two kinds: *common* limits, which all items share, and limits by key, which apply to each key separately.
#[derive(Clone, Default)]
pub struct LocalLimits {
    limits: Vec<Limit>,
    /// The number of limits that are shared with other runs, whose costs come first in a request.
    shared: usize,
    paused: Vec<Paused>,
    /// Items that differ in one key may share another, so one may use up what another waits for.
    shares_keys: bool,
    /// Some limits count beyond the start of a release.
    counts_exits: bool,
    /// The versions of the common limits and of the limits by key.
    versions: (u64, u64),
    /// Answers from this instant on may have become more lenient since the last news.
    lenient_from: Option<Time>,
    /// For each limit: true if it counts beyond the start of a release and did not continue a history.
    is_new: Vec<bool>,
    wall: Wall,
}

impl LocalLimits {
    /// The limits of a run that starts at `start`, by this wall clock.
    pub(crate) fn new(rates: &[Rate], start: Time, wall: Wall) -> Self {
        let limits = rates.iter().zip(key_parts(rates)).map(|(rate, key)| Limit::new(rate, key, start, wall));
        let mut local = LocalLimits { wall, limits: limits.collect(), ..LocalLimits::default() };
        local.note_rates(rates);
        local
    }

    /// These limits, none of which is shared.
    pub(super) fn of(limits: Vec<Limit>) -> Self {
        LocalLimits { limits, ..LocalLimits::default() }
    }

    /// Makes all limits count a release from its start to its end, as one of `from=exit` does.
    pub(crate) fn until_ended(mut self) -> Self {
        self.limits = self.limits.into_iter().map(Limit::until_ended).collect();
        self
    }

    /// The first limits, as many as are `shared`, are those of other runs, too.
    pub(super) fn share(&mut self, shared: usize) {
        self.limits.drain(..shared);
        self.shared = shared;
    }

    /// Notes all limits, those that are shared included.
    fn note_rates(&mut self, rates: &[Rate]) {
        self.shares_keys = keys(rates).len() > 1;
        self.counts_exits = rates.iter().any(Rate::counts_exits);
        self.versions = (self.versions.0 + 1, self.versions.1 + 1);
    }

    /// The number of limits that are shared with other runs.
    pub(super) fn shared(&self) -> usize {
        self.shared
    }

    /// The limit that has this index among all.
    pub fn limit(&self, at: usize) -> &Limit {
        &self.limits[at - self.shared]
    }

    /// The limits, with their indices among all.
    pub fn limits(&self) -> impl Iterator<Item = (usize, &Limit)> {
        (self.shared..).zip(&self.limits)
    }

    pub(super) fn version(&self, scope: Scope) -> u64 {
        if matches!(scope, Scope::Keyed) { self.versions.1 } else { self.versions.0 }
    }

    /// The limits that a request asks, and its costs.
    pub(super) fn asked<'a>(
        &'a self,
        scope: Scope,
        request: &Request<'a>,
    ) -> impl Iterator<Item = (&'a Limit, u64)> + Clone {
        let asked = self.limits.iter().zip(request.costs[self.shared..].iter().copied());
        asked.filter(move |(limit, cost)| {
            let is_meant = match scope {
                Scope::Common => limit.is_common(),
                Scope::Keyed => !limit.is_common(),
                Scope::All => true,
            };
            *cost > 0 && is_meant
        })
    }

    /// The first opening for a release at or after `from`, by these limits.
    pub fn opening(&self, request: &Request, from: Time) -> Opening {
        let asked = self.asked(Scope::All, request);
        let from = request.eligible_at.max(from);
        Opening::agreed(from, &asked, |(limit, cost), from| limit.opening_for(request, cost, from))
    }

    /// The parts of a request that the answer of the common limits depends on.
    pub fn kind(&self, request: &Request) -> Kind {
        if !request.waits {
            return Kind::default();
        }
        let common = self.limits.iter().zip(&request.costs[self.shared..]);
        let common = common.map(|(limit, &cost)| if limit.is_common() { cost } else { 0 });
        let costs: SmallVec<[u64; 4]> = common.collect();
        let mut limits = self.limits.iter().zip(&costs);
        let depends = limits.any(|(limit, &cost)| limit.rate().depends_on_eligibility(cost));
        (costs, Some(request.eligible_at).filter(|_| depends))
    }

    /// The last limit to allow the release at `now` or later, and its answer; `None` if all allow it at `now`.
    pub(super) fn binding(&self, request: &Request, now: Time) -> Option<(usize, Time)> {
        let mut from = request.eligible_at.max(now);
        if self.limits.iter().any(|limit| limit.rate().during.is_some()) {
            // A limit with hours may allow the release at once, but refuse it by the time the others allow it. The
            // binding limit is the one that refuses it just before all agree.
            let agreed = self.opening(request, from).from.known();
            from = agreed.map_or(from, |at| from.max(Time(at.0.saturating_sub(1))));
        }
        let answers = self.limits().map(|(at, limit)| match request.costs[at] {
            0 => (at, from),
            cost => (at, limit.opening_for(request, cost, from).from),
        });
        let latest = answers.max_by_key(|&(at, answer)| (answer, Reverse(at)));
        latest.filter(|(_, answer)| *answer > from)
    }

    /// The number of releases like `request` that are allowed at `now` after those in `pending`: up to `most`, never 0.
    /// Begins the row of one in `pending`.
    ///
    /// # Errors
    /// The first limit that allows none.
    pub(super) fn available(
        &mut self,
        pending: &mut Pending,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Blocked> {
        pending.begin(&self.limits);
        let mut count = most;
        let costs = &request.costs[self.shared..];
        for (at, limit) in self.limits.iter_mut().enumerate() {
            let (cost, mut account) = (costs[at], 0);
            if cost > 0 {
                account = limit.account(limit.key_of(request), now);
                let before = pending.sum(at, account);
                count = limit.available(account, now, request.ask(cost), before, count);
            }
            if count == 0 {
                return Err(Blocked::by_limit(self.shared + at));
            }
            pending.rows.push((cost, account));
        }
        Ok(count)
    }

    /// The number of releases like `request` that are allowed at `now`.
    pub(crate) fn left(&mut self, now: Time, request: &Request) -> u64 {
        let left = self.available(&mut Pending::default(), now, request, u64::MAX);
        // It may have opened accounts for nothing.
        self.limits.iter_mut().for_each(|limit| limit.note_unused(0));
        left.unwrap_or(0)
    }

    /// Charges a release that begins at `now`, if all limits allow it. They count it until it ends, unless it is `over`
    /// at once.
    ///
    /// # Errors
    /// The first limit that does not. Nothing has changed then.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time, request: &Request, over: bool) -> Result<(), Blocked> {
        let costs = &request.costs[self.shared..];
        self.versions = (self.versions.0 + 1, self.versions.1 + 1);
        let begun = begin(&mut self.limits, costs, now, request, over);
        begun.map_err(|others| Blocked::by_limit(request.costs.len() - 1 - others))
    }

    /// Charges `count` releases, with the cost and account of one under each limit in `row`. If `over`, they have ended
    /// as well. Calls `charged` with the index of each limit that is charged and the sum of the costs.
    pub(super) fn commit(
        &mut self,
        row: &[(u64, usize)],
        (eligible_at, count): (Time, u64),
        now: Time,
        over: bool,
        mut charged: impl FnMut(usize, u64),
    ) {
        self.versions.0 += 1;
        self.versions.1 += u64::from(self.shares_keys);
        for (at, limit) in self.limits.iter_mut().enumerate() {
            let (cost, account) = row[at];
            if count > 0 && cost > 0 {
                let one = Ask { eligible_at, cost };
                let all = Ask { cost: cost.saturating_mul(count), ..one };
                charged(self.shared + at, all.cost);
                limit.commit(account, now, one, count);
                if over {
                    limit.end(account, now, all);
                }
            }
        }
    }

    /// The limits that charge a request, and its costs.
    fn charged_by<'a>(&'a mut self, request: &'a Request) -> impl Iterator<Item = (&'a mut Limit, u64)> {
        let costs = request.costs[self.shared..].iter().copied();
        self.limits.iter_mut().zip(costs).filter(|(_, cost)| *cost > 0)
    }

    /// Forgets a charged release that has not ended and never took place.
    pub(crate) fn withdraw(&mut self, request: &Request) {
        self.charged_by(request).for_each(|(limit, cost)| limit.withdraw(request, cost));
        self.answers_change(Time::ZERO);
    }

    /// Notes that a charged release ended at `now`.
    #[inline]
    pub fn finish(&mut self, now: Time, request: &Request) {
        let costs = &request.costs[self.shared..];
        self.limits.iter_mut().zip(costs).for_each(|(limit, &cost)| limit.finish(now, request, cost));
        self.paused.iter_mut().for_each(|paused| paused.finish(now, request, costs));
        if self.counts_exits {
            // Until a command ends, a limit with hours answers with the end of these, and then perhaps with an earlier
            // instant.
            let has_hours = |rate: &Rate| rate.counts_exits() && rate.during.is_some();
            let is_any = self.limits.iter().any(|limit| has_hours(limit.rate()));
            self.answers_change(if is_any { Time::ZERO } else { Time::NEVER });
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

    /// The instant from which answers may have become more lenient since the last call, if any have.
    pub(super) fn take_lenient(&mut self) -> Option<Time> {
        self.lenient_from.take()
    }

    /// Replaces the limits at `now`, keeping their history, by those of `rates` but the first, as many as are `shared`.
    pub(super) fn set_limits(&mut self, now: Time, rates: &[Rate], shared: usize) {
        let new: Vec<_> = rates.iter().zip(key_parts(rates)).skip(shared).collect();
        let (limits, paused) = (mem::take(&mut self.limits), mem::take(&mut self.paused));
        (self.limits, self.paused, self.is_new) = change(limits, paused, &new, now, self.wall);
        self.shared = shared;
        self.note_rates(rates);
    }

    /// After a change of limits: a release that was charged before is still running, and this is its request under the
    /// new limits.
    pub fn resume(&mut self, now: Time, request: &Request) {
        let costs = &request.costs[self.shared..];
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
    pub(crate) fn set_wall(&mut self, now: Time, wall: Wall) {
        if mem::replace(&mut self.wall, wall) == wall {
            return;
        }
        let by_wall = self.limits.iter_mut().filter(|limit| limit.rate().goes_by_wall());
        by_wall.for_each(|limit| limit.set_wall(now, wall));
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
}

/// Charges a release that begins, if all of `limits` allow it.
///
/// # Errors
/// The number of limits after the first that does not. Nothing has changed then.
#[inline]
fn begin(limits: &mut [Limit], costs: &[u64], now: Time, request: &Request, over: bool) -> Result<(), usize> {
    let ([limit, others @ ..], [cost, other_costs @ ..]) = (limits, costs) else { return Ok(()) };
    let (ask, known) = (request.ask(*cost), limit.accounts());
    let found = (*cost > 0).then(|| {
        let account = limit.account(limit.key_of(request), now);
        (account, limit.allowance(account, now, ask))
    });
    if let Some((_, Allowance::None)) = found {
        limit.note_unused(known);
        return Err(others.len());
    }
    if !others.is_empty() {
        let begun = begin(others, other_costs, now, request, over);
        begun.inspect_err(|_| limit.note_unused(known))?;
    }
    found.into_iter().for_each(|found| limit.begin(found, now, ask, over));
    Ok(())
}
