//! The rules of booking. Pure: they read no clock, and do not know where their numbers are kept.
//!
//! A state consists of a [`Ledger`] for each key, with a few numbers for each limit and the slots that may be handed
//! on; and, for sliding windows, of a [`UnitLog`] of the instants at which units of cost were used. All zeros and an
//! empty log are the state of limits that were never used. Booking a slot takes a few reads and writes for each limit,
//! whatever its count.

mod owned;
#[cfg(test)]
mod tests;
mod turns;
mod unlogged;

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use self::owned::OwnerSlots;
pub use self::owned::{NOBODY, OwnedSlots, Owner};
#[cfg(feature = "redis")]
pub(super) use self::turns::LONGEST_QUEUE;
use self::unlogged::Unlogged;
use super::{Answer, BookedBy, Hold, Order, Overruns, Policy, Quota, Slot};
use crate::charge::Key;
pub use crate::rule::SlotAccount;
use crate::rule::{Ask, SlotsInHours};
use crate::time::{SECOND, Time, Wall};

/// The nanoseconds after which a process may ask again at the earliest.
pub(super) const PAUSE: u64 = SECOND / 1000;

/// Slots that are more nanoseconds ahead than this are given out a few at a time: others were booked before them.
pub(super) const NEAR: u64 = SECOND / 10;

/// The numbers of all limits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// The newest slot that was given out. No other is after it, and no new one before it.
    pub newest: Time,
    /// The first instant that no turn is for.
    pub turns: Time,
    /// One for each limit.
    pub accounts: Box<[SlotAccount]>,
    /// Slots that may be handed on.
    #[serde(rename = "held")]
    pub owned: OwnedSlots,
    /// The releases since the state began that were over only after their slots had ended.
    pub overruns: Overruns,
    /// A hold of this key.
    pub hold: Hold,
}

/// The instants at which units of cost were used, for the limits with a sliding window. Units are numbered from 0 in
/// the order of use.
pub trait UnitLog {
    /// The instant at which `unit` was used. The unit must have been recorded and not forgotten.
    ///
    /// # Errors
    /// It cannot be read.
    fn used_at(&mut self, limit: usize, unit: u128) -> Result<Time>;

    /// Records that `units` were used at `at`, replacing any record with the same first unit.
    ///
    /// # Errors
    /// It cannot be written.
    fn record(&mut self, limit: usize, units: Range<u128>, at: Time) -> Result<()>;

    /// Forgets records that end at or before `unit`.
    ///
    /// # Errors
    /// It cannot be written.
    fn forget(&mut self, limit: usize, unit: u128) -> Result<()>;
}

/// Books slots under a policy.
#[derive(Clone, Debug)]
pub struct BookingRules {
    policy: Policy,
    wall: Wall,
    rules: Arc<[SlotsInHours]>,
}

/// A limit that an order charges.
struct Debit<'a> {
    limit: usize,
    quota: &'a Quota,
    rule: &'a SlotsInHours,
    cost: u64,
}

impl Debit<'_> {
    fn ask(&self, at: Time) -> Ask {
        Ask { since: at, cost: self.cost }
    }
}

impl BookingRules {
    /// The rules of `policy`.
    pub fn new(policy: Policy) -> Self {
        let rules = policy.quotas.iter().map(|quota| quota.rule(Wall::EPOCH)).collect();
        BookingRules { policy, wall: Wall::EPOCH, rules }
    }

    /// The wall clock of these rules.
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Sets the wall clock.
    pub fn set_wall(&mut self, wall: Wall) {
        if self.policy.goes_by_wall() && wall != self.wall {
            self.wall = wall;
            self.rules = self.policy.quotas.iter().map(|quota| quota.rule(wall)).collect();
        }
    }

    /// Sets the wall clock to the one that slots are booked by, or to what it was found to be if that is off by more
    /// than a quarter of D. Those who hold slots give them up at half of D, so they agree with all who book.
    pub fn follow_wall(&mut self, booked_by: Wall, found: Wall) {
        self.set_wall(if found.differs(booked_by, self.policy.deadline / 4) { found } else { booked_by });
    }

    /// The policy of these rules.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The state of limits that begin at `now`.
    pub fn begin(&self, now: Time) -> Ledger {
        let accounts = self.limits().map(|(quota, limit)| match quota.starts_empty {
            true => limit.rule.exhausted(now),
            false => SlotAccount::default(),
        });
        Ledger { accounts: accounts.collect(), ..Ledger::default() }
    }

    /// The state of limits of which nothing is known except that they were used no later than `last`.
    ///
    /// They count as used up at `last`, so nothing is released for one window from then on.
    pub fn silence(&self, last: Time) -> Ledger {
        let accounts = self.rules.iter().map(|limit| limit.rule.silent(last));
        Ledger { accounts: accounts.collect(), ..Ledger::default() }
    }

    /// The first instant at which [`BookingRules::silence`] equals a new state.
    pub fn end_of_silence(&self, last: Time) -> Time {
        self.fresh_from(&self.silence(last))
    }

    /// The first instant at which no slot that was given out matters any more.
    pub fn fresh_from(&self, ledger: &Ledger) -> Time {
        let limits = self.rules.iter().zip(&ledger.accounts);
        let fresh = limits.map(|(limit, account)| limit.rule.fresh_from(account, ledger.newest));
        fresh.max().unwrap_or_default()
    }

    /// The first instant at which the state equals that of limits that were never used.
    pub fn idle_at(&self, ledger: &Ledger) -> Time {
        self.fresh_from(ledger).max(ledger.turns).max(ledger.hold.until)
    }

    /// The state after the clock has restarted at 0: all past use counts as made then.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn restart(&self, ledger: &Ledger, log: &mut dyn UnitLog) -> Result<Ledger> {
        let mut accounts = Vec::with_capacity(ledger.accounts.len());
        for (limit, ((quota, in_hours), account)) in self.limits().zip(&ledger.accounts).enumerate() {
            if quota.algorithm.facts().is_logged && account.used > 0 {
                log.forget(limit, account.used)?;
                log.record(limit, 0..account.used, Time::ZERO)?;
            }
            // After a silence, nothing has been booked yet, so the newest slot says nothing.
            let is_alone = ledger.accounts.len() == 1 && ledger.newest > Time::ZERO;
            let newest = Some(ledger.newest).filter(|_| is_alone);
            accounts.push(in_hours.rule.restarted(account, newest));
        }
        Ok(Ledger { accounts: accounts.into(), hold: ledger.hold.restarted(Time::ZERO), ..Ledger::default() })
    }

    /// Books slots at `now`, as [`Store::book`](super::Store::book) does. None may cost more than [`Quota::most`].
    ///
    /// # Errors
    /// The log cannot be read or written. The ledger and the log must then not be used any more.
    pub fn book(
        &self,
        ledger: &mut Ledger,
        log: &mut dyn UnitLog,
        now: Time,
        order: &Order,
    ) -> Result<Answer> {
        if let Some(over) = order.overrun {
            self.overrun(ledger, log, over.min(now), order)?;
            return Ok(Answer { overruns: ledger.overruns.clone(), ..Answer::default() });
        }
        ledger.hold = ledger.hold.after(now, order);
        if let Some(until) = ledger.hold.in_force(now) {
            return Ok(self.answer_held(ledger, now, until, order));
        }
        self.unbook(ledger);
        let mut answer = self.hand_on(ledger, now, order);
        self.book_new(ledger, log, now, order, &mut answer)?;
        self.forget(ledger, log)?;
        Ok(answer)
    }

    /// An answer with the slots that were given back, as many as the order can use. None is later than the newest slot,
    /// and so than any that is booked now.
    fn hand_on(&self, ledger: &mut Ledger, now: Time, order: &Order) -> Answer {
        let most = usize::try_from(order.count).unwrap_or(usize::MAX);
        ledger.owned.forget(now);
        let returned = ledger.owned.take(&order.costs, most, now.saturating_add(order.within));
        let slots = returned.into_iter().map(|at| self.slot(at)).collect();
        let booked_by = self.policy.goes_by_wall().then_some(BookedBy::Wall(self.wall));
        Answer { slots, booked_by, overruns: ledger.overruns.clone(), ..Answer::default() }
    }

    /// Books the slots that an answer lacks, until the order has to ask again.
    fn book_new(
        &self,
        ledger: &mut Ledger,
        log: &mut dyn UnitLog,
        now: Time,
        order: &Order,
        answer: &mut Answer,
    ) -> Result<()> {
        // True if no slot of this order depends on another one of it.
        let is_small =
            self.debits(order).all(|debit| debit.cost.saturating_mul(order.count) <= debit.quota.terms.count);
        let mut unlogged = Unlogged::default();
        let mut lacking = order.count - answer.slots.len() as u64;
        let mut is_first = true;
        while lacking > 0 {
            let at = self.earliest(ledger, log, now, order)?;
            if self.put_off(ledger, now, at, is_first, order, answer) {
                break;
            }
            if std::mem::take(&mut is_first) {
                self.leave_queue(ledger, order);
                lacking = self.share(lacking, at.since(now));
            }
            lacking -= 1;
            self.book_at(ledger, &mut unlogged, at, order);
            if !is_small {
                unlogged.record(log)?;
            }
            answer.slots.push(self.slot(at));
        }
        unlogged.record(log)
    }

    /// Says in the answer when to ask again, if the order gets no slot at `at`. Returns whether it gets none.
    fn put_off(
        &self,
        ledger: &mut Ledger,
        now: Time,
        at: Time,
        is_first: bool,
        order: &Order,
        answer: &mut Answer,
    ) -> bool {
        let is_turned_away = is_first && self.is_turned_away(ledger, now, at, order);
        let at = if is_turned_away { self.turn(ledger, now, at, order) } else { at };
        if at > now.saturating_add(order.within) {
            // A slot that was given back is before all new ones.
            let next = ledger.owned.of(NOBODY, &order.costs).first().map_or(at, |slot| at.min(*slot));
            (answer.next, answer.ask_again) = (Some(next), Some(Time(next.0 - order.within)));
            return true;
        }
        let is_put_off = is_turned_away || at > self.horizon(now);
        if is_put_off {
            (answer.next, answer.ask_again) = (Some(at), Some(self.ask_again(now, at)));
            answer.turn = is_turned_away.then(|| self.queue(ledger, at, order));
        }
        is_put_off
    }

    /// The part of a limit that is left at `now`, at most `most`, and the instant of the next slot. That slot charges 1
    /// to this limit alone, or was given back and charges 1 to each limit. It is the next one for a run without a turn:
    /// runs that have turns may be gone.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn left(
        &self,
        ledger: &Ledger,
        log: &mut dyn UnitLog,
        now: Time,
        (limit, most): (usize, u64),
    ) -> Result<(u64, Time)> {
        let order = |cost| {
            let costs: Vec<_> =
                (0..self.rules.len()).map(|other| if other == limit { cost } else { 0 }).collect();
            Order::new(Key::new(), costs, 1)
        };
        // A cost that is allowed at once as a whole is also allowed in parts.
        let (mut left, mut too_much) = (0, most.saturating_add(1));
        while too_much - left > 1 {
            let cost = left + (too_much - left) / 2;
            let is_free = self.earliest(ledger, log, now, &order(cost))? <= now;
            *(if is_free { &mut left } else { &mut too_much }) = cost;
        }
        let one = order(1);
        // Most slots that were given back are from runs that were charged by all limits.
        let returned = [&vec![1; self.rules.len()], &*one.costs].map(|costs| ledger.owned.of(NOBODY, costs));
        if let Some(first) = returned.into_iter().flatten().filter(|at| **at >= now).min() {
            return Ok((left, *first));
        }
        Ok((left, self.earliest(ledger, log, now, &one)?))
    }

    /// The answer to an order during a hold. The order keeps its turn.
    pub fn answer_held(&self, ledger: &Ledger, now: Time, until: Time, order: &Order) -> Answer {
        let ask_again = (order.count > 0).then(|| Hold::ask_again(now, until));
        let overruns = ledger.overruns.clone();
        Answer { ask_again, turn: order.turn, held: Some(until), overruns, ..Answer::default() }
    }

    /// Takes back slots that were booked at `costs`, each with the wall clock it was booked by. They stay charged, so
    /// no limit sees a difference when they are handed on. Slots that are not after `now` are of no use and dropped. So
    /// are those that are too close to an overrun, which the process that gives them back may not know of yet.
    pub fn give_back(&self, ledger: &mut Ledger, now: Time, costs: &[u64], slots: Vec<(Wall, Time)>) {
        let until = ledger.overruns.until;
        for (wall, at) in slots.into_iter().filter(|(_, at)| *at > now && *at >= until) {
            ledger.owned.add(NOBODY, costs, wall, [at]);
        }
    }

    /// Takes back what no one holds and was booked by another wall clock: it may be in another period by this one. What
    /// someone holds stays charged until it is given back, as its holder may be the last to notice.
    pub fn unbook(&self, ledger: &mut Ledger) {
        for OwnerSlots { costs, wall, slots, .. } in ledger.owned.take_others(self.wall) {
            let charged = self.policy.quotas.iter().zip(&mut ledger.accounts).zip(&costs);
            for ((quota, account), &cost) in charged {
                let rule = quota.rule(wall).rule;
                slots.iter().for_each(|&since| rule.unbook(account, Ask { since, cost }));
            }
        }
    }

    /// Charges the releases of an order once more, as they were over only at `over`.
    fn overrun(&self, ledger: &mut Ledger, log: &mut dyn UnitLog, over: Time, order: &Order) -> Result<()> {
        // Booked slots stay booked, and the log is in time order.
        let at = over.max(ledger.newest);
        let mut unlogged = Unlogged::default();
        if ledger.overruns.costs.is_empty() {
            ledger.overruns.costs = vec![0; ledger.accounts.len()].into();
        }
        for debit in self.debits(order) {
            let debit = Debit { cost: debit.cost.saturating_mul(order.count), ..debit };
            let Debit { limit, quota, rule, cost } = debit;
            let account = &mut ledger.accounts[limit];
            let before = account.used;
            rule.overrun(account, debit.ask(at));
            unlogged.add(&debit, before..account.used, at);
            let overruns = &mut ledger.overruns;
            overruns.costs[limit] = overruns.costs[limit].saturating_add(cost);
            let matters_for = quota.algorithm.facts().matters_for(&quota.terms, cost);
            overruns.until = overruns.until.max(over.saturating_add(matters_for));
        }
        ledger.newest = at;
        // Their holders may give them up; then no one else may get them.
        ledger.owned.forget(ledger.overruns.until);
        unlogged.record(log)?;
        self.forget(ledger, log)
    }

    fn horizon(&self, now: Time) -> Time {
        now.saturating_add(self.policy.horizon)
    }

    /// The instant at which a slot at `at` comes within the horizon.
    fn ask_again(&self, now: Time, at: Time) -> Time {
        Time(at.0.saturating_sub(self.policy.horizon)).max(now.saturating_add(PAUSE))
    }

    /// The number of slots that one process gets of `count`, if the first is `ahead` nanoseconds ahead.
    fn share(&self, count: u64, ahead: u64) -> u64 {
        if ahead <= NEAR { count } else { count.min(self.policy.far_span()) }
    }

    fn slot(&self, at: Time) -> Slot {
        Slot { at, until: at.saturating_add(self.policy.deadline) }
    }

    fn limits(&self) -> impl Iterator<Item = (&Quota, &SlotsInHours)> {
        self.policy.quotas.iter().zip(&*self.rules)
    }

    fn debits<'a>(&'a self, order: &'a Order) -> impl Iterator<Item = Debit<'a>> {
        let limits = self.limits().zip(&order.costs).enumerate().filter(|(_, (_, cost))| **cost > 0);
        limits.map(|(limit, ((quota, rule), &cost))| Debit { limit, quota, rule, cost })
    }

    /// The first instant that all limits allow.
    ///
    /// A limit that allows one instant may refuse a later one, so all are asked again until they agree.
    fn earliest(&self, ledger: &Ledger, log: &mut dyn UnitLog, now: Time, order: &Order) -> Result<Time> {
        let mut at = now.max(ledger.newest);
        loop {
            let mut latest = at;
            for debit in self.debits(order) {
                let Debit { limit, rule, cost, .. } = debit;
                let account = &ledger.accounts[limit];
                let unit = rule.deciding_unit(account, cost);
                let decided = unit.map(|unit| log.used_at(limit, unit)).transpose()?;
                latest = latest.max(rule.first_slot(account, debit.ask(at), self.policy.deadline, decided));
            }
            if latest == at {
                return Ok(at);
            }
            at = latest;
        }
    }

    fn book_at(&self, ledger: &mut Ledger, unlogged: &mut Unlogged, at: Time, order: &Order) {
        for debit in self.debits(order) {
            let account = &mut ledger.accounts[debit.limit];
            let before = account.used;
            debit.rule.book(account, debit.ask(at));
            unlogged.add(&debit, before..account.used, at);
        }
        ledger.newest = at;
    }

    fn forget(&self, ledger: &Ledger, log: &mut dyn UnitLog) -> Result<()> {
        for (limit, (quota, account)) in self.policy.quotas.iter().zip(&ledger.accounts).enumerate() {
            if quota.algorithm.facts().is_logged {
                log.forget(limit, account.used.saturating_sub(quota.terms.count.into()))?;
            }
        }
        Ok(())
    }
}
