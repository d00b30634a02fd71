//! The forecast: what the run waits for, and when it will end.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Schedule;
use super::account::Awaited;
use super::lanes::{Lane, Lanes};
use crate::charge::Key;
use crate::config::Rate;
use crate::gate::{Blocked, By, Limit, last_release};
use crate::rule::Ask;
use crate::source::Items;
use crate::time::Time;

/// The most lanes that are looked at for an estimate.
const MAX_LANES: usize = 1024;

/// The reason that the next release waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitReason {
    /// Items that have not arrived yet.
    Input,
    /// A limit.
    Limit(Rate),
    /// A limit of 0, until it changes.
    Pause(Rate),
    /// The backoff of a failed item.
    Backoff,
    /// A random delay.
    Jitter,
    /// A pause that a server asked for.
    Hold,
    /// A batch that is not full yet.
    Batch,
    /// A slot of a shared limit.
    Slot,
    /// Memory, processes or descriptors that other processes use.
    Shortage,
    /// The end of a running command.
    Command,
}

/// The precision with which the end of a run is known, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Precision {
    /// The limits say so.
    Exact,
    /// It is based on averages, many releases wait for several limits, or commands may take longer.
    About,
    /// It may be later, as keys, costs or the size of the input are not known.
    AtLeast,
}

/// The number of items in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Total {
    /// The number of items.
    pub items: u64,
    /// True if they were counted, not estimated.
    pub is_exact: bool,
}

/// The forecast for a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// The reason that the next release waits.
    pub wait_reason: WaitReason,
    /// The instant of the next release, if it is known and later than now.
    pub next: Option<Time>,
    /// The number of items in the input, if known.
    pub total: Option<Total>,
    /// The number of items that are done, without those whose command is running.
    pub done: u64,
    /// The number of known items left to release.
    pub left: u64,
    /// The instant of the last release; `None` if that depends on a change of limits.
    pub ends: Option<(Time, Precision)>,
    /// From this instant on, nothing is released.
    pub over: Option<Time>,
}

impl Forecast {
    pub(super) fn of(schedule: &Schedule, now: Time, counted: Option<Total>) -> Forecast {
        let Schedule { input, jobs, .. } = schedule;
        let stats = schedule.stats();
        let read = Total { items: stats.read, is_exact: true };
        let total = if input.has_ended() { Some(read) } else { counted };
        let known = total.map_or(stats.read, |total| total.items.max(stats.read));
        let left = known - (stats.settled + stats.skipped).min(known);
        let held = held_by_all(schedule, now);
        let next = next_release_of(schedule, now).or(held).filter(|next| *next > now);
        let is_exact = |total: Total| total.is_exact && !input.may_skip();
        let precision = |total| if is_exact(total) { Precision::Exact } else { Precision::About };
        let size = total.map_or(Precision::AtLeast, precision);
        // Nobody knows what will fail and be charged again.
        let fails = if jobs.retry().times > 0 { Precision::AtLeast } else { Precision::Exact };
        // The end is never before the next release, which takes holds into account, nor before the end of a backoff.
        let no_sooner = next.max(jobs.backoffs().map(|(_, last)| last));
        let last = last_release_of(schedule, now, left).filter(|_| !schedule.ending.is_stopping());
        let ends = last
            .map(|(at, precision)| (at.max(no_sooner.unwrap_or_default()), precision.max(size).max(fails)));
        let (wait_reason, over) = (WaitReason::of(schedule, now), schedule.ending.over());
        let done = schedule.done() + stats.skipped;
        let forecast = Forecast { wait_reason, next, total, done, left, ends: None, over };
        Forecast { ends: ends.map(|end| forecast.cut_short(end)), ..forecast }
    }

    /// The end, if it would be this one if releases could go on for ever.
    pub(crate) fn cut_short(&self, (at, precision): (Time, Precision)) -> (Time, Precision) {
        let last = self.over.map(|over| Time(over.0.saturating_sub(1)));
        match last.filter(|last| *last <= at) {
            Some(last) if precision == Precision::AtLeast => (last, Precision::Exact),
            Some(last) => (last, precision),
            None => (at, precision),
        }
    }
}

impl WaitReason {
    fn of(schedule: &Schedule, now: Time) -> WaitReason {
        let Schedule { gate, lanes, jobs, .. } = schedule;
        let is_stopping = schedule.ending.is_stopping();
        if !is_stopping && !lanes.is_empty() {
            if lanes.capacity().vacancies == 0 {
                return WaitReason::Command;
            } else if schedule.upcoming.is_postponed(now) {
                return WaitReason::Shortage;
            }
        }
        let Some(at) = schedule.next_lane().filter(|_| !is_stopping) else {
            return match jobs.backoffs() {
                Some(_) if !is_stopping => WaitReason::Backoff,
                _ if jobs.running() > 0 => WaitReason::Command,
                _ => WaitReason::Input,
            };
        };
        let (lane, rates) = (lanes.lane(at), gate.rates());
        let blocked = lanes.blocked(at, gate, now);
        match blocked.map(|blocked| blocked.by) {
            Some(By::Hold) => WaitReason::Hold,
            // It begins when the limits allow the release.
            _ if lane.delayed_until(now).is_some() => WaitReason::Jitter,
            Some(By::Slot(_)) => WaitReason::Slot,
            Some(By::Limit(limit)) if blocked.is_some_and(|blocked| blocked.until.is_some()) => {
                WaitReason::Limit(rates[limit].clone())
            }
            Some(By::Limit(_)) => match rates.iter().find(|rate| rate.pauses()) {
                Some(rate) => WaitReason::Pause(rate.clone()),
                None => WaitReason::Command,
            },
            None if lane.is_held(now) => WaitReason::Hold,
            None if lane.front().is_some_and(|front| front.segment.not_before() > now) => WaitReason::Backoff,
            None if schedule.options.forms_batches() => WaitReason::Batch,
            // It may go now: the last that it waited for.
            None => match lanes.blocked(at, gate, Time::ZERO).and_then(Blocked::limit) {
                Some(limit) => WaitReason::Limit(rates[limit].clone()),
                None => WaitReason::Input,
            },
        }
    }
}

/// What the next release waits for at `now`, as far as limits are concerned.
pub(super) fn awaited(schedule: &Schedule, now: Time) -> Awaited {
    let Schedule { gate, lanes, .. } = schedule;
    let Some(at) = schedule.next_lane() else { return Awaited::default() };
    let lane = lanes.lane(at);
    let blocked = lanes.blocked(at, gate, now);
    let is_limit = !schedule.upcoming.is_postponed(now) && lane.delayed_until(now).is_none();
    let limit = blocked.and_then(Blocked::limit).filter(|_| is_limit);
    let is_held_by_all = blocked.is_some_and(|blocked| blocked.by == By::Hold);
    let is_hold = is_held_by_all || (limit.is_none() && lane.is_held(now));
    Awaited { limit, is_hold, until: schedule.upcoming.at() }
}

/// The end of a hold in all runs that share the limits, if it is in the future.
fn held_by_all(schedule: &Schedule, now: Time) -> Option<Time> {
    let blocked = schedule.lanes.blocked(schedule.next_lane()?, &schedule.gate, now)?;
    blocked.until.filter(|_| blocked.by == By::Hold)
}

/// The next release to expect. The end of a backoff does not end the wait for a limit, hence the later of the two.
pub(super) fn next_release_of(schedule: &Schedule, now: Time) -> Option<Time> {
    schedule.known_next(now).max(schedule.next_release())
}

/// The instant of the release of the last of `left` items.
fn last_release_of(schedule: &Schedule, now: Time, left: u64) -> Option<(Time, Precision)> {
    let Schedule { gate, lanes, input, options, .. } = schedule;
    let limits = gate.foreseen(now);
    // If there is only one lane, what holds it up holds up everything.
    let held = schedule.next_lane().and_then(|at| lanes.lane(at).eligible_at());
    // A bucket saves up for it from then on, which does not go on if something else holds it up.
    let is_limited = awaited(schedule, now).limit.is_some();
    let start = held.filter(|held| *held > now || is_limited).unwrap_or(now);
    let is_all = gate.properties().is_foreseeable && options.jitter.is_none();
    let floor = if is_all { Precision::Exact } else { Precision::AtLeast };
    let (last, precision) = match input.uniform() {
        Some(charge) if !options.forms_batches() => {
            let (last, is_exact) = last_release(&limits, start, &charge.costs, left);
            (last, if is_exact { Precision::Exact } else { Precision::About })
        }
        _ => estimate(lanes, &limits, now, left),
    };
    last.known().map(|at| (at, precision.max(floor)))
}

/// As [`last_release_of`], assuming that items cost what the waiting ones cost, and each limit is the only one.
fn estimate(waiting: &Lanes, limits: &[Cow<Limit>], now: Time, left: u64) -> (Time, Precision) {
    let mut precision = Precision::About;
    let answers = limits.iter().enumerate().map(|(at, limit)| {
        let last_of = |key: &[u8], cost| limit.last_of(key, Ask { eligible_at: now, cost: 1 }, cost);
        if let Some(key) = limit.key() {
            // The keys of the items to come are not known.
            precision = Precision::AtLeast;
            let costs = costs_by_key(waiting, at, key);
            return costs.map(|(key, cost)| last_of(key, cost)).fold(now, Time::max);
        }
        let sums = lanes(waiting).map(|lane| waiting.cost_of(lane.waiting(), at));
        let (items, cost) = sums
            .fold((0u64, 0u64), |(items, cost), (more, costs)| (items + more, cost.saturating_add(costs)));
        let total = u128::from(cost) * u128::from(left) / u128::from(items.max(1));
        if items == 0 && left > 0 {
            precision = Precision::AtLeast;
        }
        last_of(&[], u64::try_from(total).unwrap_or(u64::MAX))
    });
    let last = answers.fold(now, Time::max);
    (last, precision)
}

/// The lanes that are looked at for an estimate.
fn lanes(waiting: &Lanes) -> impl Iterator<Item = &Lane> {
    waiting.occupied().take(MAX_LANES)
}

/// The cost of the waiting items of each key. Lanes may share a key and, if input order is kept, have several.
fn costs_by_key(waiting: &Lanes, limit: usize, key: usize) -> impl Iterator<Item = (&Key, u64)> {
    let mut by_key: HashMap<&Key, Vec<&Items>> = HashMap::new();
    let all = lanes(waiting).flat_map(Lane::waiting);
    all.for_each(|items| by_key.entry(&items.charge.keys[key]).or_default().push(items));
    by_key.into_iter().map(move |(key, items)| (key, waiting.cost_of(items.into_iter(), limit).1))
}
