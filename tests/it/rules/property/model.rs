//! The expected behaviour, found in the simplest way: nanosecond by nanosecond, with the whole history at hand.
//!
//! No instants are computed here, so the model shares nothing with the limiters: at each tick of the clock, the rules
//! in section *algorithms* of the manual are asked whether they allow a release at that very instant.

use std::collections::{BTreeMap, VecDeque};

use throttle::config::{OnLimit, Rate, Until};

use throttle::exit::Exit;
use throttle::rule::Algorithm;

use super::case::{Case, Item, is_window};
use super::waits::Waits;
use crate::support::OWN_TESTS;

/// What should happen.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Expected {
    /// The instants, and the numbers of the items that leave together.
    pub(super) releases: Vec<(u64, Vec<usize>)>,
    pub(super) refused: u64,
    pub(super) exit: Exit,
}

pub(super) fn expected(case: &Case) -> Expected {
    expected_with_waits(case).0
}

/// What should happen, and what is waited for until then.
pub(super) fn expected_with_waits(case: &Case) -> (Expected, Waits) {
    let mut waits = Waits::new(case.rates.len());
    let mut model = Model::new(case);
    while !model.is_over() {
        if model.is_time_up() {
            break;
        }
        model.admit();
        if !model.step() && !model.expire() {
            if model.held() > 0 {
                waits.tick(model.next_release());
            }
            if model.is_too_late() {
                model.exit = Exit::Refused;
                break;
            }
            model.now += 1;
        }
        assert!(model.now < 1_000_000, "it never ends");
    }
    let Model { releases, refused, exit, .. } = model;
    (Expected { releases, refused, exit }, waits)
}

struct Model<'a> {
    case: &'a Case,
    now: u64,
    start: u64,
    to_come: VecDeque<&'a Item>,
    lanes: BTreeMap<Vec<String>, Lane<'a>>,
    /// One for each limit and key.
    histories: BTreeMap<(usize, String), Vec<Charge>>,
    ended: Option<u64>,
    releases: Vec<(u64, Vec<usize>)>,
    refused: u64,
    exit: Exit,
}

#[derive(Default)]
struct Lane<'a> {
    waiting: VecDeque<&'a Item>,
    previous: u64,
    /// The number of the first item that gave way to a newer one since the last release.
    displaced: Option<usize>,
    /// The instant until which its next release is delayed.
    delay: Option<u64>,
    /// The instant at which its next batch could not get any more items.
    flushed: Option<u64>,
}

/// Items that may leave together, their costs, and the instant since when they are next in line.
#[derive(Clone)]
struct Offer<'a> {
    items: Vec<&'a Item>,
    /// The first of them, or the first that it has replaced.
    turn: usize,
    costs: Vec<u64>,
    since: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub(super) at: u64,
    pub(super) cost: u64,
    /// The level that it left in the bucket, where N accrue per nanosecond and P make a cost of 1. Below 0 only if it
    /// was too early.
    pub(super) level: i64,
}

impl<'a> Model<'a> {
    fn new(case: &'a Case) -> Self {
        let start = case.items[0].arrival;
        Model {
            case,
            now: start,
            start,
            to_come: case.items.iter().collect(),
            lanes: BTreeMap::new(),
            histories: BTreeMap::new(),
            ended: None,
            releases: Vec::new(),
            refused: 0,
            exit: Exit::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.exit == Exit::Refused || self.ended.is_some() && self.held() == 0
    }

    fn held(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).sum()
    }

    fn has_room(&self) -> bool {
        let most = self.case.config.queue.lookahead.max(self.case.config.queue.batch.items).get();
        (self.held() as u64) < most
    }

    /// Lets in items that have arrived, up to the first that no limit can ever admit.
    fn admit(&mut self) {
        while self.ended.is_none() && self.has_room() {
            match self.to_come.front() {
                Some(item) if item.arrival > self.now => break,
                Some(item) if !item.is_too_dear(&self.case.rates) => self.join(),
                next => {
                    self.exit = if next.is_some() { Exit::Error } else { Exit::Done };
                    self.ended = Some(self.now);
                }
            }
        }
        if !self.has_room() {
            let waiting = self.lanes.values_mut().filter(|lane| !lane.waiting.is_empty());
            waiting.for_each(|lane| lane.flushed = lane.flushed.or(Some(self.now)));
        }
    }

    fn join(&mut self) {
        let Some(item) = self.to_come.pop_front() else { return };
        let never_waits = self.never_waits();
        let lane = self.lanes.entry(self.case.lane(item)).or_default();
        // While delayed items take up the room, it has not arrived.
        if never_waits && lane.waiting.is_empty() {
            lane.previous = lane.previous.max(self.now);
        }
        if self.case.config.queue.on_limit == OnLimit::Latest {
            self.refused += lane.waiting.len() as u64;
            lane.displaced = lane.displaced.or(lane.waiting.front().map(|first| first.number));
            lane.waiting.clear();
            lane.flushed = None;
        }
        lane.waiting.push_back(item);
    }

    /// Makes one release or refusal, if one is due now.
    fn step(&mut self) -> bool {
        let never_waits = self.never_waits();
        let offers = self.lanes.values().filter_map(|lane| self.offer(lane));
        let offers = offers.filter(|offer| never_waits || self.allows(offer, &offer.costs));
        let Some(offer) = offers.min_by_key(|offer| offer.turn) else { return false };
        let at = if never_waits { offer.since } else { self.now };
        if self.allows_at(at, &offer, &offer.costs) {
            if !self.delay(offer.items[0]) {
                self.release(&offer);
            }
        } else if self.case.config.queue.on_limit == OnLimit::Fail {
            self.exit = Exit::Refused;
        } else {
            self.refused += self.take(&offer).len() as u64;
        }
        true
    }

    /// Delays an item that could go now, unless it has been delayed already.
    fn delay(&mut self, item: &Item) -> bool {
        let Some(jitter) = self.case.config.queue.jitter else { return false };
        let lane = self.lanes.entry(self.case.lane(item)).or_default();
        if lane.delay.is_some() {
            return false;
        }
        lane.delay = Some(self.now + jitter.delay(item.number as u64 + 1, 1));
        true
    }

    fn polices(&self) -> bool {
        matches!(self.case.config.queue.on_limit, OnLimit::Drop | OnLimit::Fail)
    }

    /// Whether an item is released as of when it becomes next in line, or refused.
    fn never_waits(&self) -> bool {
        self.polices() && self.max_wait().is_none()
    }

    fn max_wait(&self) -> Option<u64> {
        self.case.config.queue.max_wait
    }

    /// Whether nothing more is released. Items that are there by then are left.
    fn is_time_up(&mut self) -> bool {
        let Some(Until::After(nanos)) = self.case.config.queue.until else { return false };
        let is_over = self.now > self.start + nanos;
        let has_arrived = |item: &&&Item| item.arrival <= self.now;
        let next = self.to_come.front().filter(|_| self.ended.is_none());
        let next = next.filter(has_arrived).map(|item| item.is_too_dear(&self.case.rates));
        match next {
            _ if !is_over => {}
            _ if self.held() > 0 => self.exit = Exit::Refused,
            Some(is_too_dear) => self.exit = if is_too_dear { Exit::Error } else { Exit::Refused },
            None => {}
        }
        is_over
    }

    /// Refuses the front items that have waited too long. Only if there are none is the next release chosen.
    fn expire(&mut self) -> bool {
        let Some(wait) = self.max_wait().filter(|_| self.polices()) else { return false };
        let now = self.now;
        let is_late = |lane: &&mut Lane| lane.waiting.front().is_some_and(|item| item.arrival + wait <= now);
        let late: Vec<_> = self.lanes.values_mut().filter(is_late).collect();
        let is_any = !late.is_empty();
        if is_any && self.case.config.queue.on_limit == OnLimit::Fail {
            self.exit = Exit::Refused;
            return true;
        }
        self.refused += late.len() as u64;
        for lane in late {
            lane.waiting.pop_front();
            (lane.delay, lane.flushed) = (None, None);
        }
        is_any
    }

    /// Whether something waits, and nothing can go soon enough.
    fn is_too_late(&mut self) -> bool {
        let Some(wait) = self.max_wait().filter(|_| !self.polices() && self.held() > 0) else { return false };
        let now = self.now;
        let goes = (now..=now + wait).any(|at| {
            self.now = at;
            let mut offers = self.lanes.values().filter_map(|lane| self.offer(lane));
            offers.any(|offer| self.allows(&offer, &offer.costs))
        });
        self.now = now;
        !goes
    }

    /// When the next release is if nothing else arrives, and the limits that do not allow it any sooner: if
    /// several lanes may go then, those of each.
    fn next_release(&mut self) -> (u64, Vec<Vec<usize>>) {
        let now = self.now;
        let found = (now + 1..now + 100_000).find_map(|at| {
            self.now = at;
            let offers = self.lanes.values().filter_map(|lane| self.offer(lane));
            let open: Vec<_> = offers.filter(|offer| self.allows(offer, &offer.costs)).collect();
            if open.is_empty() { None } else { Some((at, open)) }
        });
        let (at, open) = found.expect("some release");
        self.now = at - 1;
        let refusing =
            |offer: &Offer| (0..offer.costs.len()).filter(|&limit| !self.allows_by(limit, offer)).collect();
        let limits = open.iter().map(refusing).collect();
        self.now = now;
        (at, limits)
    }

    /// Whether one limit allows an offer now.
    fn allows_by(&self, limit: usize, offer: &Offer) -> bool {
        let cost = |(at, &cost)| if at == limit { cost } else { 0 };
        self.allows(offer, &offer.costs.iter().enumerate().map(cost).collect::<Vec<_>>())
    }

    /// What a lane would release now, if the limits allowed it.
    fn offer(&self, lane: &Lane<'a>) -> Option<Offer<'a>> {
        let front = lane.waiting.front().filter(|_| lane.delay.is_none_or(|until| until <= self.now))?;
        let turn = lane.displaced.unwrap_or(front.number);
        // An item that never waits is judged again at the end of its delay.
        let ready = lane.delay.filter(|_| self.never_waits()).unwrap_or(0);
        let Some(linger) = self.case.config.queue.batch.linger else {
            let since = front.arrival.max(lane.previous).max(ready);
            let alone = Offer { items: vec![front], turn, costs: self.costs(front), since };
            return Some(self.joined(lane, alone, self.now, |offer, costs| self.allows(offer, costs)));
        };
        let alone = Offer { items: vec![front], turn, costs: self.costs(front), since: 0 };
        let up_to = |last| self.joined(lane, alone.clone(), last, |_, costs| !self.is_impossible(costs));
        // What fills a batch is its last item, or one that cannot join it.
        let most = usize::try_from(self.case.config.queue.batch.items.get()).ok()?;
        let full = lane.waiting.get(up_to(u64::MAX).items.len().min(most - 1)).map(|item| item.arrival);
        let closes = [full, self.ended].into_iter().flatten().fold(front.arrival + linger, u64::min);
        let leaves = lane.flushed.map_or(closes, |flushed| flushed.min(closes));
        let since = leaves.max(lane.previous).max(ready);
        (since <= self.now).then(|| Offer { since, ..up_to(closes) })
    }

    /// Adds all that joins the first item of a batch.
    fn joined(
        &self,
        lane: &Lane<'a>,
        mut offer: Offer<'a>,
        until: u64,
        may_cost: impl Fn(&Offer, &[u64]) -> bool,
    ) -> Offer<'a> {
        let most = usize::try_from(self.case.config.queue.batch.items.get()).expect("a small number");
        let keys = self.case.keys(offer.items[0]);
        for item in lane.waiting.iter().take(most).skip(1) {
            let costs = self.sum(&offer.costs, item);
            if item.arrival > until || self.case.keys(item) != keys || !may_cost(&offer, &costs) {
                break;
            }
            offer.items.push(item);
            offer.costs = costs;
        }
        offer
    }

    fn costs(&self, item: &Item) -> Vec<u64> {
        self.case.rates.iter().map(|rate| item.charge(rate)).collect()
    }

    /// A batch costs as much as its items together if the limit has `cost=`, otherwise as much as one.
    fn sum(&self, costs: &[u64], item: &Item) -> Vec<u64> {
        let sum = |(rate, cost): (&Rate, &u64)| cost + rate.cost.as_ref().map_or(0, |_| item.charge(rate));
        self.case.rates.iter().zip(costs).map(sum).collect()
    }

    fn is_impossible(&self, costs: &[u64]) -> bool {
        self.case.rates.iter().zip(costs).any(|(rate, cost)| is_window(rate) && *cost > rate.count)
    }

    fn allows(&self, offer: &Offer, costs: &[u64]) -> bool {
        self.allows_at(self.now, offer, costs)
    }

    fn allows_at(&self, at: u64, offer: &Offer, costs: &[u64]) -> bool {
        let charged = self.case.rates.iter().zip(costs).enumerate().filter(|(_, (_, cost))| **cost > 0);
        let mut charged =
            charged.map(|(index, (rate, &cost))| (rate, self.history(index, offer.items[0]), cost));
        charged.all(|(rate, history, cost)| allows(rate, &history, at, offer.since, cost))
    }

    fn history(&self, index: usize, item: &Item) -> Vec<Charge> {
        let key = item.key(&self.case.rates[index]);
        let known = self.histories.get(&(index, key)).cloned();
        known.unwrap_or_else(|| before(&self.case.rates[index], self.start))
    }

    fn release(&mut self, offer: &Offer<'a>) {
        for (index, (rate, &cost)) in self.case.rates.iter().zip(&offer.costs).enumerate() {
            if cost > 0 {
                let mut history = self.history(index, offer.items[0]);
                let level = level(rate, &history, self.now, offer.since, cost) - grains(rate, cost);
                history.push(Charge { at: self.now, cost, level });
                self.histories.insert((index, offer.items[0].key(rate)), history);
            }
        }
        self.take(offer);
        self.lanes.entry(self.case.lane(offer.items[0])).or_default().previous = self.now;
        self.releases.push((self.now, offer.items.iter().map(|item| item.number).collect()));
    }

    fn take(&mut self, offer: &Offer<'a>) -> VecDeque<&'a Item> {
        let lane = self.lanes.entry(self.case.lane(offer.items[0])).or_default();
        (lane.delay, lane.displaced, lane.flushed) = (None, None, None);
        let rest = lane.waiting.split_off(offer.items.len());
        std::mem::replace(&mut lane.waiting, rest)
    }
}

pub(super) fn period(rate: &Rate) -> u64 {
    rate.period + rate.margin
}

/// What a limit remembers when the run starts.
pub(super) fn before(rate: &Rate, start: u64) -> Vec<Charge> {
    let cost = if rate.algorithm == Algorithm::Interval { 1 } else { rate.count };
    if rate.starts_empty { vec![Charge { at: start, cost, level: 0 }] } else { Vec::new() }
}

/// The rules.
pub(super) fn allows(rate: &Rate, history: &[Charge], now: u64, since: u64, cost: u64) -> bool {
    let period = period(rate);
    match rate.algorithm {
        Algorithm::Sliding => {
            let in_window = history.iter().filter(|charge| charge.at + period > now);
            in_window.map(|charge| charge.cost).sum::<u64>() + cost <= rate.count
        }
        Algorithm::Interval => {
            history.last().is_none_or(|last| now * rate.count >= last.at * rate.count + last.cost * period)
        }
        Algorithm::Calendar => unreachable!("{OWN_TESTS}"),
        Algorithm::Fixed => used_of_window(history, period, now) + cost <= rate.count,
        Algorithm::Bucket => level(rate, history, now, since, cost) >= grains(rate, cost),
    }
}

/// The cost used in the window that contains `now`.
fn used_of_window(history: &[Charge], period: u64, now: u64) -> u64 {
    let (mut start, mut used) = (None, 0);
    for charge in history {
        if start.is_none_or(|start| charge.at >= start + period) {
            (start, used) = (Some(charge.at), 0);
        }
        used += charge.cost;
    }
    start.filter(|start| now < start + period).map_or(0, |_| used)
}

/// The level of the bucket while an item of this cost has been waiting since `since`.
pub(super) fn level(rate: &Rate, history: &[Charge], now: u64, since: u64, cost: u64) -> i64 {
    let burst = rate.burst.unwrap_or(rate.count);
    let full = Charge { at: 0, cost: 0, level: grains(rate, burst) };
    let Charge { at, mut level, .. } = *history.last().unwrap_or(&full);
    for instant in at..now {
        let cap = if instant >= since { burst.max(cost) } else { burst };
        level = (level + i64::try_from(rate.count).expect("a small number")).min(grains(rate, cap));
    }
    level
}

pub(super) fn grains(rate: &Rate, cost: u64) -> i64 {
    i64::try_from(cost * period(rate)).expect("a small number")
}
