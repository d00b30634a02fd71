//! What the model takes from the program: the policy, and the ledger's rules.

use throttle::config::Rate;
use throttle::store::ledger::{BookingRules, Ledger, NOBODY, Owner};
use throttle::store::{Answer, Order, Overruns, Policy, Reserve, Slot};
use throttle::time::Time;

use crate::memory_store::MemoryLog;

use super::slots::{COSTS, order};

/// Time passes in steps of this. The ledger tells nobody to come back sooner.
pub(super) const TICK: u64 = 1_000_000;

/// What is booked, and how slots are used.
#[derive(Clone)]
pub(super) struct Terms {
    /// N and P of the limit itself, of which slots know nothing; P in ticks.
    pub(super) count: u64,
    pub(super) period: u64,
    pub(super) policy: Policy,
    pub(super) rules: BookingRules,
    /// Whether those who are turned away have turns. Without, whoever asks first is served, which is one more thing
    /// that may happen, so that a limit that holds without turns does so with them; and there are fewer states.
    pub(super) has_turns: bool,
    /// As far ahead as anyone likes.
    pub(super) unbounded: BookingRules,
}

impl Terms {
    /// Of `count` per `period`, with a deadline of one tick; `horizon` in ticks, too.
    pub(super) fn new(count: u64, period: u64, horizon: u64, span: u64) -> Self {
        let rate = format!("{count}/{period}ms").parse::<Rate>().expect("a rate");
        let reserve =
            Reserve { least: TICK, dearest_part: 1, floor: TICK, most: TICK, longest: 0, ..Reserve::LOCAL };
        let policy = Policy { horizon: horizon * TICK, span, ..Policy::new(&[rate], reserve) };
        let unbounded = BookingRules::new(Policy { horizon: u64::MAX, ..policy.clone() });
        let rules = BookingRules::new(policy.clone());
        Terms { count, period, rules, has_turns: false, unbounded, policy }
    }

    /// The same with slots that know nothing of how late a release may be.
    pub(super) fn without_reserve(mut self) -> Self {
        self.policy.quotas[0].terms.period = self.period * TICK;
        let unbounded = BookingRules::new(Policy { horizon: u64::MAX, ..self.policy.clone() });
        Terms { rules: BookingRules::new(self.policy.clone()), unbounded, ..self }
    }
}

/// The state of the ledger.
#[derive(Clone)]
pub(super) struct Log {
    ledger: Ledger,
    units: MemoryLog,
    /// Whether nobody who knew what was lost has asked since.
    pub(super) is_unhealed: bool,
}

/// Owns the slots of all who have died.
const DEAD: Owner = Owner::MAX;

impl Log {
    pub(super) fn begin(terms: &Terms, now: Time) -> Self {
        let ledger = terms.rules.begin(now);
        Log { ledger, units: MemoryLog::default(), is_unhealed: false }
    }

    /// Begins anew, with nothing known of what was.
    pub(super) fn lose(&mut self, terms: &Terms, now: Time) {
        *self = Log { is_unhealed: true, ..Log::begin(terms, now) };
    }

    /// Whoever knew what was lost takes all that may have been booked as used.
    pub(super) fn heal(&mut self, terms: &Terms, now: Time) {
        let last = Time(now.0 + terms.policy.horizon).max(self.ledger.newest);
        *self = Log { ledger: terms.rules.silence(last), ..Log::begin(terms, now) };
    }

    /// Books what is free at once, or else nothing.
    pub(super) fn book_at_once(&mut self, terms: &Terms, now: Time, order: &Order) -> Answer {
        let (future, turns) = (self.future(terms, now), self.ledger.turns);
        let answer = self.book(terms, now, order);
        assert!(answer.slots.iter().all(|slot| slot.at == now), "a slot that is not free yet: {answer:?}");
        assert_eq!((answer.turn, self.ledger.turns), (None, turns), "who does not wait is not in the queue");
        let is_refused = answer.slots.is_empty();
        assert!(!is_refused || future == self.future(terms, now), "a refusal books something");
        answer
    }

    /// Books, or charges what was overrun. Slots that were given back go first.
    pub(super) fn book(&mut self, terms: &Terms, now: Time, order: &Order) -> Answer {
        let answer = terms.rules.book(&mut self.ledger, &mut self.units, now, order).expect("booked");
        if terms.has_turns {
            return answer;
        }
        self.ledger.turns = Time::ZERO;
        Answer { turn: None, ..answer }
    }

    /// What was overrun since it began.
    pub(super) fn overruns(&self) -> &Overruns {
        &self.ledger.overruns
    }

    /// Takes slots that are not going to be used.
    pub(super) fn take_back(&mut self, terms: &Terms, now: Time, slots: &[Slot]) {
        let slots = slots.iter().map(|slot| slot.at).collect();
        terms.rules.give_back(&mut self.ledger, now, &COSTS, slots);
    }

    /// Notes whose slots they are that were booked at `now`, as a file does.
    pub(super) fn own(&mut self, owner: Owner, now: Time, slots: &[Slot]) {
        self.ledger.owned.add(owner, &COSTS, slots.iter().map(|slot| slot.at).filter(|at| *at > now));
    }

    /// Takes slots out that `owner` has. Returns those that it had.
    pub(super) fn disown(&mut self, owner: Owner, slots: Vec<Slot>) -> Vec<Slot> {
        let instants: Vec<_> = slots.iter().map(|slot| slot.at).collect();
        let had = self.ledger.owned.remove(owner, &COSTS, &instants);
        slots.into_iter().filter(|slot| had.contains(&slot.at)).collect()
    }

    /// What an owner that dies has is for others once they notice.
    pub(super) fn bury(&mut self, owner: Owner) {
        let slots = self.ledger.owned.of(owner, &COSTS).to_vec();
        self.ledger.owned.remove(owner, &COSTS, &slots);
        self.ledger.owned.add(DEAD, &COSTS, slots);
    }

    /// Hands on what those who have died cannot have used by the clock.
    pub(super) fn inherit(&mut self, clock: Time) {
        self.ledger.owned.inherit(|owner| owner == DEAD, || clock);
    }

    /// When the slots are that an owner has, in ticks.
    pub(super) fn owned(&self, owner: Owner, since: Time) -> Vec<u8> {
        let slots = self.ledger.owned.of(owner, &COSTS).iter().filter(|at| **at >= since);
        slots.map(|at| ticks(*at, since)).collect()
    }

    /// When the slots are that the dead have, in ticks.
    pub(super) fn left_behind(&self, since: Time) -> Vec<u8> {
        self.owned(DEAD, since)
    }

    /// What the log would answer from now on, however it keeps that: when the next slots are, in ticks.
    ///
    /// Those after the next N follow from these. First come those that were given back.
    pub(super) fn future(&self, terms: &Terms, now: Time) -> Vec<u8> {
        let mut log = self.clone();
        let returned = self.ledger.owned.of(NOBODY, &COSTS).iter().filter(|at| **at >= now).count() as u64;
        let all = order(returned + terms.count + 1);
        let answer = terms.unbounded.book(&mut log.ledger, &mut log.units, now, &all).expect("booked");
        let mut future = vec![u8::from(self.is_unhealed), ticks(self.ledger.turns, now)];
        future.push(u8::try_from(returned).expect("few"));
        future.extend(answer.slots.iter().map(|slot| ticks(slot.at, now)));
        future
    }
}

/// How far an instant is from `now`, for keys. Whatever is over by more than a few ticks is the same.
pub(super) fn ticks(at: Time, now: Time) -> u8 {
    const NOW: u64 = 8;
    let ticks = (at.0 + NOW * TICK).saturating_sub(now.0) / TICK;
    u8::try_from(ticks).expect("not far")
}
