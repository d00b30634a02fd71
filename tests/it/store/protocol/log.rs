//! What the model takes from the program: the policy, and the ledger's rules.

use throttle::config::Rate;
use throttle::store::ledger::{BookingRules, Change, Ledger};
use throttle::store::{Answer, Order, Overruns, Policy, Reserve, Slot};
use throttle::time::Time;

use super::slots::{COSTS, order};

/// The length of a time step. The ledger tells nobody to come back sooner.
pub(super) const TICK: u64 = 1_000_000;

/// What is booked, and how slots are used.
#[derive(Clone)]
pub(super) struct Terms {
    /// N and P of the limit itself, which slots do not know; P is in ticks.
    pub(super) count: u64,
    pub(super) period: u64,
    pub(super) policy: Policy,
    pub(super) rules: BookingRules,
    /// Whether processes that are turned away have turns. Without turns, whoever asks first is served: more can happen,
    /// so a limit that holds without turns also holds with them, and there are fewer states.
    pub(super) has_turns: bool,
    /// The rules without a horizon.
    pub(super) unbounded: BookingRules,
}

impl Terms {
    /// Terms of `count` per `period` with a deadline of one tick; `horizon` is in ticks too.
    pub(super) fn new(count: u64, period: u64, horizon: u64, span: u64) -> Self {
        let rate = format!("{count}/{period}ms").parse::<Rate>().expect("a rate");
        let reserve =
            Reserve { least: TICK, dearest_part: 1, floor: TICK, most: TICK, longest: 0, ..Reserve::LOCAL };
        let policy = Policy { horizon: horizon * TICK, span, ..Policy::new(&[rate], reserve) };
        let unbounded = BookingRules::new(Policy { horizon: u64::MAX, ..policy.clone() });
        let rules = BookingRules::new(policy.clone());
        Terms { count, period, rules, has_turns: false, unbounded, policy }
    }

    /// The same terms, with slots that do not allow for late releases.
    pub(super) fn without_reserve(mut self) -> Self {
        self.policy.quotas[0].terms.period = self.period * TICK;
        let unbounded = BookingRules::new(Policy { horizon: u64::MAX, ..self.policy.clone() });
        Terms { rules: BookingRules::new(self.policy.clone()), unbounded, ..self }
    }
}

/// What the head of the state says of its limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    First,
    /// They were replaced, at this instant.
    Replaced(Time),
}

/// The state of the ledger.
#[derive(Clone)]
pub(super) struct Log {
    ledger: Ledger,
    /// Whether it is kept under the limits that have replaced the first.
    pub(super) is_replaced: bool,
    /// Whether it was evicted.
    pub(super) is_missing: bool,
    /// Whether nobody who knew what was lost has asked since the loss.
    pub(super) is_unhealed: bool,
}

impl Log {
    pub(super) fn begin(terms: &Terms, now: Time) -> Self {
        let ledger = terms.rules.begin(now);
        Log { ledger, is_unhealed: false, is_replaced: false, is_missing: false }
    }

    /// The log as a process takes it that has loaded it with this head: carried over, or begun.
    pub(super) fn taken(&self, [first, new]: [&Terms; 2], head: Head, now: Time, is_forgetful: bool) -> Log {
        let Head::Replaced(at) = head else {
            return if self.is_missing { Log::begin(first, Time::ZERO) } else { self.clone() };
        };
        if self.is_replaced && !self.is_missing {
            return self.clone();
        }
        let missing = self.is_missing.then_some(if is_forgetful { at } else { now });
        let change = Change { at, began: Time::ZERO, created: Time::ZERO, quarantine: None, missing };
        let found = if self.is_missing { first.rules.begin(Time::ZERO) } else { self.ledger.clone() };
        let ledger = new.rules.carry_over(&first.rules, &found, change);
        Log { ledger, is_unhealed: false, is_replaced: true, is_missing: false }
    }

    /// From when on it may be evicted.
    pub(super) fn idle_at(&self, terms: &Terms) -> Time {
        terms.rules.idle_at(&self.ledger)
    }

    /// Starts over, with nothing known of the past.
    pub(super) fn lose(&mut self, terms: &Terms, now: Time) {
        *self = Log { is_unhealed: true, ..Log::begin(terms, now) };
    }

    /// A process that knew what was lost has asked: all that may have been booked counts as used.
    pub(super) fn heal(&mut self, terms: &Terms, now: Time) {
        let last = Time(now.0 + terms.policy.horizon).max(self.ledger.newest);
        *self = Log { ledger: terms.rules.quarantine(last), ..Log::begin(terms, now) };
    }

    /// Books what is free at once, or nothing.
    pub(super) fn book_at_once(&mut self, terms: &Terms, now: Time, order: &Order) -> Answer {
        let (future, turns) = (self.future(terms, now), self.ledger.turns);
        let answer = self.book(terms, now, order);
        assert!(answer.slots.iter().all(|slot| slot.at == now), "a slot that is not free yet: {answer:?}");
        assert_eq!((answer.turn, self.ledger.turns), (None, turns), "without a wait there is no queue");
        let is_refused = answer.slots.is_empty();
        assert!(!is_refused || future == self.future(terms, now), "a refusal books something");
        answer
    }

    /// Books, or charges an overrun. Slots that were given back go first.
    pub(super) fn book(&mut self, terms: &Terms, now: Time, order: &Order) -> Answer {
        let answer = terms.rules.book(&mut self.ledger, now, order);
        if terms.has_turns {
            return answer;
        }
        self.ledger.turns = Time::ZERO;
        Answer { turn: None, ..answer }
    }

    /// The overruns since the state began.
    pub(super) fn overruns(&self) -> &Overruns {
        &self.ledger.overruns
    }

    /// Takes back slots that will not be used.
    pub(super) fn take_back(&mut self, terms: &Terms, now: Time, slots: &[Slot]) {
        let slots = slots.iter().map(|slot| slot.at);
        terms.rules.give_back(&mut self.ledger, now, &COSTS, slots);
    }

    /// What the log would answer from now on, however it is represented: the next slots, in ticks.
    ///
    /// Slots that were given back come first. The next N determine all later ones.
    pub(super) fn future(&self, terms: &Terms, now: Time) -> Vec<u8> {
        let mut log = self.clone();
        let returned = self.ledger.returned.of(&COSTS).iter().filter(|at| **at >= now).count() as u64;
        let all = order(returned + terms.count + 1);
        let answer = terms.unbounded.book(&mut log.ledger, now, &all);
        let mut future = vec![u8::from(self.is_unhealed), ticks(self.ledger.turns, now)];
        future.push(u8::try_from(returned).expect("few"));
        future.extend(answer.slots.iter().map(|slot| ticks(slot.at, now)));
        future
    }
}

/// The distance of an instant from `now`, for keys. Instants more than a few ticks ago are all the same.
pub(super) fn ticks(at: Time, now: Time) -> u8 {
    const NOW: u64 = 8;
    let ticks = (at.0 + NOW * TICK).saturating_sub(now.0) / TICK;
    u8::try_from(ticks).expect("not far")
}
