//! The rules of booking. Pure: they read no clock, and do not know where their numbers are kept.
//!
//! A state consists of a [`Ledger`] for each key, with an account for each limit and the slots that may be handed on: a
//! value of a few kilobytes, whatever the counts.

mod change;
mod crowd;
mod deal;
mod returned;
#[cfg(test)]
mod tests;
mod turns;

use std::slice;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::change::Change;
pub(super) use self::change::GOOD_FOR;
use self::crowd::Crowd;
pub use self::returned::ReturnedSlots;
use super::hold::HOLD_REFRESH;
use super::{Answer, BookedBy, Hold, Order, Overruns, Policy, Quota, Slot, Task, Wanted};
use crate::rule::{AnyState, Ask, RuleInHours};
use crate::time::{SECOND, Time, Wall};

/// The nanoseconds after which a process may ask again at the earliest.
pub(super) const PAUSE: u64 = SECOND / 1000;

/// The numbers of all limits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// The newest slot that was given out. No other is after it, and no new one before it.
    pub newest: Time,
    /// The first instant that no turn is for.
    pub turns: Time,
    /// One for each limit.
    pub accounts: Box<[AnyState]>,
    /// Slots that may be handed on.
    pub returned: ReturnedSlots,
    /// The releases since the state began that were over only after their slots had ended.
    pub overruns: Overruns,
    /// A hold of this key.
    pub hold: Hold,
    /// The processes that share it.
    #[serde(default)]
    pub(in crate::store) crowd: Crowd,
    /// For each limit, the instant up to which releases may have been forgotten under earlier limits, if any may.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub forgotten: Box<[Option<Time>]>,
}

/// Books slots under a policy.
#[derive(Clone, Debug)]
pub struct BookingRules {
    policy: Policy,
    wall: Wall,
    rules: Arc<[RuleInHours]>,
}

/// A limit that an order charges.
struct Debit<'a> {
    limit: usize,
    quota: &'a Quota,
    rule: &'a RuleInHours,
    cost: u64,
}

impl Debit<'_> {
    fn ask(&self, at: Time) -> Ask {
        Ask { eligible_at: at, cost: self.cost }
    }
}

impl BookingRules {
    /// The rules of `policy`.
    pub fn new(policy: Policy) -> Self {
        let rules = policy.rules(Wall::EPOCH).into();
        BookingRules { policy, wall: Wall::EPOCH, rules }
    }

    /// The wall clock of these rules.
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Sets the wall clock. Also if these rules do not go by it: those that they replaced may have, and those that
    /// replace them.
    pub fn set_wall(&mut self, wall: Wall) {
        if wall != self.wall && self.policy.goes_by_wall() {
            self.rules = self.policy.rules(wall).into();
        }
        self.wall = wall;
    }

    /// Sets the wall clock to the one that slots are booked by, or to what it was found to be if that is off by more
    /// than a quarter of D. Those who hold slots give them up at half of D, so they agree with all who book.
    pub fn follow_wall(&mut self, booked_by: Wall, found: Wall) {
        self.set_wall(if found.differs(booked_by, self.policy.validity / 4) { found } else { booked_by });
    }

    /// The policy of these rules.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The state of limits that begin at `now`.
    pub fn begin(&self, now: Time) -> Ledger {
        self.new_ledger(|quota, rule, account| {
            if quota.starts_empty {
                rule.rule.exhaust(account, now);
            }
        })
    }

    /// The state of limits of which nothing is known except that they were used no later than `last`.
    ///
    /// They count as used up at `last`, so nothing is released for one window from then on.
    pub fn quarantine(&self, last: Time) -> Ledger {
        self.new_ledger(|_, rule, account| rule.rule.quarantine(account, last))
    }

    /// As [`BookingRules::quarantine`]; but no period of the calendar begins again that `ledger` knows to be used, or
    /// that was used by `newest`, even if the clock has been set back since.
    pub fn quarantine_after(&self, ledger: Ledger, last: Time, newest: Time) -> Ledger {
        let mut silent = Ledger { hold: ledger.hold, ..self.quarantine(last) };
        let accounts = self.limits().zip(&mut silent.accounts).zip(ledger.accounts);
        let of_calendar = accounts.filter(|(((quota, _), _), _)| quota.algorithm.spec().is_civil());
        of_calendar.for_each(|((_, account), known)| *account = known);
        self.exhaust_calendar(&mut silent, |_| Some(last.max(newest)));
        silent
    }

    /// The wall clock was set after the ledger was `written`. Releases that the ledger does not know of, in a
    /// `quarantine` or by runs that do not know of a change yet, may be in the period that the clock shows then: it
    /// counts as used up.
    pub fn wall_was_set(&self, ledger: &mut Ledger, written: Time, quarantine: Option<Time>) {
        let forgotten = ledger.forgotten.clone();
        self.exhaust_calendar(ledger, |limit| {
            let until = forgotten.get(limit).copied().flatten();
            until.filter(|until| *until > written).max(quarantine)
        });
    }

    /// Uses up, for each limit of the calendar, the period at the instant that `last` gives for it.
    fn exhaust_calendar(&self, ledger: &mut Ledger, last: impl Fn(usize) -> Option<Time>) {
        let accounts = self.limits().zip(&mut ledger.accounts).enumerate();
        for (limit, ((quota, rule), account)) in accounts {
            if quota.algorithm.spec().is_civil() {
                last(limit).into_iter().for_each(|last| rule.rule.exhaust(account, last));
            }
        }
    }

    fn new_ledger(&self, fill: impl Fn(&Quota, &RuleInHours, &mut AnyState)) -> Ledger {
        let account = |(quota, rule): (&Quota, &RuleInHours)| {
            let mut account = rule.rule.unused();
            fill(quota, rule, &mut account);
            account
        };
        Ledger { accounts: self.limits().map(account).collect(), ..Ledger::default() }
    }

    /// True if it can be a state of these limits.
    pub fn is_of(&self, ledger: &Ledger) -> bool {
        let mut limits = self.rules.iter().zip(&ledger.accounts);
        let is_for_each = |length: usize| length == 0 || length == self.rules.len();
        self.rules.len() == ledger.accounts.len()
            && is_for_each(ledger.overruns.costs.len())
            && is_for_each(ledger.forgotten.len())
            && limits.all(|(limit, account)| limit.rule.is_of(account))
    }

    /// The first instant at which [`BookingRules::quarantine`] equals a new state.
    pub fn end_of_quarantine(&self, last: Time) -> Time {
        self.fresh_from(&self.quarantine(last))
    }

    /// The first instant at which no slot that was given out matters any more.
    pub fn fresh_from(&self, ledger: &Ledger) -> Time {
        let limits = self.rules.iter().zip(&ledger.accounts);
        let idle = limits.map(|(limit, account)| limit.rule.idle_at(account));
        idle.max().unwrap_or(Time::ZERO)
    }

    /// The first instant at which the state equals that of limits that were never used.
    pub fn idle_at(&self, ledger: &Ledger) -> Time {
        self.fresh_from(ledger).max(ledger.turns).max(ledger.hold.until)
    }

    /// The state after the clock has restarted at 0: all past use counts as made then.
    pub fn restart(&self, mut ledger: Ledger) -> Ledger {
        let limits = self.rules.iter().zip(&mut ledger.accounts);
        limits.for_each(|(limit, account)| limit.rule.restart(account));
        let hold = ledger.hold.restarted(Time::ZERO);
        Ledger { accounts: ledger.accounts, hold, ..Ledger::default() }
    }

    /// Books slots at `now`, as [`Store::book`](super::Store::book) does. None may cost more than [`Quota::most`].
    pub fn book(&self, ledger: &mut Ledger, now: Time, order: &Order) -> Answer {
        self.deal(ledger, now, now, slice::from_ref(order)).remove(0)
    }

    /// As [`BookingRules::book`], but no slot before `from`.
    fn book_from(&self, ledger: &mut Ledger, now: Time, from: Time, order: &Order) -> Answer {
        self.expire(ledger, now);
        if let Task::Late(count, over) = order.task {
            self.overrun(ledger, over.min(now), &order.costs, count);
            return Answer { overruns: ledger.overruns.clone(), ..Answer::default() };
        }
        let wanted = order.wanted().unwrap_or_default();
        ledger.hold = ledger.hold.after(now, order);
        if let Some(until) = ledger.hold.in_force(now) {
            return self.answer_held(ledger, now, until, wanted);
        }
        let booked_by = self.policy.goes_by_wall().then_some(BookedBy::Wall(self.wall));
        let mut answer = Answer { booked_by, overruns: ledger.overruns.clone(), ..Answer::default() };
        self.add_slots(ledger, from, &order.costs, wanted, &mut answer);
        answer
    }

    /// Forgets releases that no slot depends on any more.
    fn expire(&self, ledger: &mut Ledger, now: Time) {
        let limits = self.rules.iter().zip(&mut ledger.accounts);
        limits.for_each(|(limit, account)| limit.rule.expire(account, now));
    }

    /// Adds the slots that an answer lacks: those that were given back, as many as the order can use, and new ones.
    fn add_slots(&self, ledger: &mut Ledger, now: Time, costs: &[u64], wanted: Wanted, answer: &mut Answer) {
        self.hand_on(ledger, now, costs, wanted, answer);
        self.book_new(ledger, now, costs, wanted, answer);
    }

    /// Adds slots that were given back. None is later than the newest slot, and so than any that is booked now.
    fn hand_on(&self, ledger: &mut Ledger, now: Time, costs: &[u64], wanted: Wanted, answer: &mut Answer) {
        let most = usize::try_from(wanted.count).unwrap_or(usize::MAX).saturating_sub(answer.slots.len());
        ledger.returned.forget(now);
        let (from, latest) = (self.soonest(now, wanted), now.saturating_add(wanted.within));
        let returned = ledger.returned.take(costs, most, from, latest);
        answer.slots.extend(returned.into_iter().map(|at| self.slot(at)));
    }

    /// Books the slots that an answer lacks, until the order has to ask again.
    fn book_new(&self, ledger: &mut Ledger, now: Time, costs: &[u64], wanted: Wanted, answer: &mut Answer) {
        let asked = self.debits(costs).filter(|debit| debit.rule.is_asked(now));
        let most =
            asked.filter_map(|debit| self.policy.most_at_once(debit.limit)).fold(wanted.count, u64::min);
        let mut lacking = most.saturating_sub(answer.slots.len() as u64);
        let mut is_first = true;
        let from = self.soonest(now, wanted);
        while lacking > 0 {
            let at = self.earliest(ledger, from, costs);
            if self.put_off(ledger, now, at, is_first, (costs, wanted), answer) {
                break;
            }
            if std::mem::take(&mut is_first) {
                self.leave_queue(ledger, costs, wanted.turn);
            }
            lacking -= 1;
            self.book_at(ledger, at, costs);
            answer.slots.push(self.slot(at));
        }
    }

    /// Says in the answer when to ask again, if the order gets no slot at `at`. Returns whether it gets none.
    fn put_off(
        &self,
        ledger: &mut Ledger,
        now: Time,
        at: Time,
        is_first: bool,
        (costs, wanted): (&[u64], Wanted),
        answer: &mut Answer,
    ) -> bool {
        let is_turned_away = is_first && self.is_turned_away(ledger, now, at, wanted);
        let at = if is_turned_away { self.turn(ledger, now, at, wanted) } else { at };
        if at > now.saturating_add(wanted.within) {
            // A slot that was given back is before all new ones.
            let from = self.soonest(now, wanted);
            let next = ledger.returned.of(costs).iter().copied().find(|at| *at >= from).unwrap_or(at);
            (answer.next, answer.ask_again) = (Some(next), Some(Time(next.0 - wanted.within)));
            return true;
        }
        let is_put_off = at > self.horizon(now);
        if is_put_off {
            (answer.next, answer.ask_again) = (Some(at), Some(self.ask_again(now, at)));
            answer.turn = is_turned_away.then(|| self.queue(ledger, at, costs));
        }
        is_put_off
    }

    /// The part of a limit that is left at `now`, at most `most`, and the instant of the next slot. That slot charges 1
    /// to this limit alone, or was given back and charges 1 to each limit. It is the next one for a run without a turn:
    /// runs that have turns may be gone.
    pub fn left(&self, ledger: &Ledger, now: Time, (limit, most): (usize, u64)) -> (u64, Time) {
        let costs = |cost| {
            let costs = (0..self.rules.len()).map(|other| if other == limit { cost } else { 0 });
            costs.collect::<Vec<u64>>()
        };
        // A cost that is allowed at once as a whole is also allowed in parts.
        let (mut left, mut too_much) = (0, most.saturating_add(1));
        while too_much - left > 1 {
            let cost = left + (too_much - left) / 2;
            let is_free = self.earliest(ledger, now, &costs(cost)) <= now;
            *(if is_free { &mut left } else { &mut too_much }) = cost;
        }
        let one = costs(1);
        // Those that were given back and are due just now are charged already.
        let due = ledger.returned.of(&one).iter().filter(|at| **at == now).count() as u64;
        let left = left.saturating_add(due).min(most);
        // Most slots that were given back are from runs that were charged by all limits.
        let returned = [&vec![1; self.rules.len()], &one].map(|costs| ledger.returned.of(costs));
        if let Some(first) = returned.into_iter().flatten().filter(|at| **at >= now).min() {
            return (left, *first);
        }
        (left, self.earliest(ledger, now, &one))
    }

    /// The answer to an order during a hold. The order keeps its turn.
    pub fn answer_held(&self, ledger: &Ledger, now: Time, until: Time, wanted: Wanted) -> Answer {
        let ask_again = (wanted.count > 0).then(|| until.min(now.saturating_add(HOLD_REFRESH)));
        let overruns = ledger.overruns.clone();
        Answer { ask_again, turn: wanted.turn, held: Some(until), overruns, ..Answer::default() }
    }

    /// Takes back slots that were booked at `costs`. They stay charged, so no limit sees a difference when they are
    /// handed on. Slots that are not after `now` are of no use and dropped. So are those that are too close to an
    /// overrun, which the process that gives them back may not know of yet.
    pub fn give_back(
        &self,
        ledger: &mut Ledger,
        now: Time,
        costs: &[u64],
        slots: impl IntoIterator<Item = Time>,
    ) {
        let until = ledger.overruns.until;
        ledger.returned.add(costs, slots.into_iter().filter(|at| *at > now && *at >= until));
    }

    /// Charges `count` releases once more, as they were over only at `over`.
    fn overrun(&self, ledger: &mut Ledger, over: Time, costs: &[u64], count: u64) {
        // Booked slots stay booked, and accounts are in time order.
        let at = over.max(ledger.newest);
        if ledger.overruns.costs.is_empty() {
            ledger.overruns.costs = vec![0; ledger.accounts.len()].into();
        }
        for debit in self.debits(costs) {
            let debit = Debit { cost: debit.cost.saturating_mul(count), ..debit };
            let Debit { limit, quota, rule, cost } = debit;
            rule.overrun(&mut ledger.accounts[limit], at, debit.ask(at));
            let overruns = &mut ledger.overruns;
            overruns.costs[limit] = overruns.costs[limit].saturating_add(cost);
            let matters_for = quota.algorithm.spec().matters_for(&quota.terms, cost);
            overruns.until = overruns.until.max(over.saturating_add(matters_for));
        }
        ledger.newest = at;
        // Their holders may give them up; then no one else may get them.
        ledger.returned.forget(ledger.overruns.until);
    }

    /// The first instant of a slot that comes in time. None is far ahead for that.
    fn soonest(&self, now: Time, wanted: Wanted) -> Time {
        now.saturating_add(wanted.ahead.min(self.policy.horizon / 2))
    }

    fn horizon(&self, now: Time) -> Time {
        now.saturating_add(self.policy.horizon)
    }

    /// The instant at which a slot at `at` comes within the horizon.
    fn ask_again(&self, now: Time, at: Time) -> Time {
        let never = Some(at).filter(|at| *at == Time::NEVER);
        never.unwrap_or_else(|| Time(at.0.saturating_sub(self.policy.horizon)).max(now.saturating_add(PAUSE)))
    }

    fn slot(&self, at: Time) -> Slot {
        Slot { at, until: at.saturating_add(self.policy.validity) }
    }

    fn limits(&self) -> impl Iterator<Item = (&Quota, &RuleInHours)> {
        self.policy.quotas.iter().zip(&*self.rules)
    }

    fn debits<'a>(&'a self, costs: &'a [u64]) -> impl Iterator<Item = Debit<'a>> {
        let limits = self.limits().zip(costs).enumerate().filter(|(_, (_, cost))| **cost > 0);
        limits.map(|(limit, ((quota, rule), &cost))| Debit { limit, quota, rule, cost })
    }

    /// The first instant that all limits allow.
    ///
    /// A limit that allows one instant may refuse a later one, so all are asked again until they agree.
    fn earliest(&self, ledger: &Ledger, now: Time, costs: &[u64]) -> Time {
        let mut at = now.max(ledger.newest);
        loop {
            let first = |debit: Debit| debit.rule.earliest(&ledger.accounts[debit.limit], debit.ask(at));
            let latest = self.debits(costs).map(first).max().unwrap_or(at);
            if latest <= at {
                return at;
            }
            at = latest;
        }
    }

    fn book_at(&self, ledger: &mut Ledger, at: Time, costs: &[u64]) {
        for debit in self.debits(costs) {
            debit.rule.commit(&mut ledger.accounts[debit.limit], at, debit.ask(at));
        }
        ledger.newest = at;
    }
}
