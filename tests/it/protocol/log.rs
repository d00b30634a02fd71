//! What the model takes from the program: the policy, the ledger's rules, and what a process does with its slots.

use throttle::config::{Defaults, RateText};
use throttle::limiter::{Limits, Request};
use throttle::store::ledger::{BookingRules, Ledger};
use throttle::store::{Answer, MemoryLog, Order, Policy, Reserve, Slot, Turn};
use throttle::time::Time;

/// Time passes in steps of this. The ledger tells nobody to come back sooner.
pub(super) const TICK: u64 = 1_000_000;

/// What is booked, and how slots are used.
pub(super) struct Terms {
    /// N and P of the limit itself, of which slots know nothing; P in ticks.
    pub(super) count: u64,
    pub(super) period: u64,
    pub(super) policy: Policy,
    pub(super) rules: BookingRules,
    /// Whether those who are turned away have turns. Without, whoever asks first is served, which is one more thing that
    /// may happen, so that a limit that holds without turns does so with them; and there are fewer states.
    pub(super) has_turns: bool,
    /// As far ahead as anyone likes.
    pub(super) unbounded: BookingRules,
}

impl Terms {
    /// Of `count` per `period`, with a deadline of one tick; `horizon` in ticks, too.
    pub(super) fn new(count: u64, period: u64, horizon: u64, span: u64) -> Self {
        let rate = format!("{count}/{period}ms").parse::<RateText>().expect("a rate");
        let rate = rate.resolve(&Defaults::default()).expect("resolved");
        let reserve =
            Reserve { least: TICK, dearest_part: 1, floor: TICK, most: TICK, longest: 0, ..Reserve::LOCAL };
        let policy = Policy { horizon: horizon * TICK, span, ..Policy::new(&[rate], reserve) };
        let unbounded = BookingRules::new(Policy { horizon: u64::MAX, ..policy.clone() });
        let rules = BookingRules::new(policy.clone());
        Terms { count, period, rules, has_turns: false, unbounded, policy }
    }

    /// The same with slots that know nothing of how late a release may be.
    pub(super) fn without_reserve(mut self) -> Self {
        self.policy.quotas[0].period = self.period * TICK;
        let unbounded = BookingRules::new(Policy { horizon: u64::MAX, ..self.policy.clone() });
        Terms { rules: BookingRules::new(self.policy.clone()), unbounded, ..self }
    }
}

/// The state of the ledger, and slots that were given back.
#[derive(Clone)]
pub(super) struct Log {
    ledger: Ledger,
    units: MemoryLog,
    returned: Vec<Slot>,
    /// Whether nobody who knew what was lost has asked since.
    pub(super) is_unhealed: bool,
}

fn order(count: u64) -> Order {
    Order { key: throttle::charge::Key::new(), costs: [1].into(), count, turn: None }
}

impl Log {
    pub(super) fn begin(terms: &Terms, now: Time) -> Self {
        let ledger = terms.rules.begin(now);
        Log { ledger, units: MemoryLog::default(), returned: Vec::new(), is_unhealed: false }
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

    /// Books. Slots that were given back go first.
    pub(super) fn book(&mut self, terms: &Terms, now: Time, count: u64, turn: Option<Turn>) -> Answer {
        self.expire(now);
        let reused = self.returned.len().min(usize::try_from(count).expect("few"));
        let mut slots: Vec<_> = self.returned.drain(..reused).collect();
        let lacking = count - slots.len() as u64;
        if lacking == 0 {
            return Answer { slots, ..Answer::default() };
        }
        let order = Order { turn, ..order(lacking) };
        let answer = terms.rules.book(&mut self.ledger, &mut self.units, now, &order).expect("booked");
        slots.extend(answer.slots);
        if terms.has_turns {
            return Answer { slots, ..answer };
        }
        self.ledger.turns = Time::ZERO;
        Answer { slots, turn: None, ..answer }
    }

    /// Takes slots that are not going to be used.
    pub(super) fn take_back(&mut self, slots: &[Slot]) {
        self.returned.extend(slots);
        self.returned.sort_by_key(|slot| slot.at);
    }

    /// Forgets returned slots that nobody can use any more.
    pub(super) fn expire(&mut self, now: Time) {
        self.returned.retain(|slot| slot.until >= now);
    }

    /// What the log would answer from now on, however it keeps that: when the next slots are, in ticks.
    ///
    /// Those after the next N follow from these.
    pub(super) fn future(&self, terms: &Terms, now: Time) -> Vec<u8> {
        let mut log = self.clone();
        let answer = terms.unbounded.book(&mut log.ledger, &mut log.units, now, &order(terms.count + 1));
        let fresh = answer.expect("booked").slots;
        let returned = self.returned.iter().filter(|slot| slot.until >= now);
        let mut future = vec![u8::from(self.is_unhealed), ticks(self.ledger.turns, now)];
        future.extend(fresh.iter().chain(returned).map(|slot| ticks(slot.at, now)));
        future
    }
}

/// How far an instant is from `now`, for keys. Whatever is over by more than a few ticks is the same.
pub(super) fn ticks(at: Time, now: Time) -> u8 {
    const NOW: u64 = 8;
    let ticks = (at.0 + NOW * TICK).saturating_sub(now.0) / TICK;
    u8::try_from(ticks).expect("not far")
}

/// Drops the slots that are over, and releases one item if a slot allows it. Returns the slots that are left.
pub(super) fn use_slots(slots: &[Slot], now: Time) -> (Vec<Slot>, bool) {
    let mut limits = Limits::booked();
    let request = Request { since: now, costs: &[1], keys: &[] };
    limits.put(&throttle::charge::Key::new(), request.costs, slots);
    limits.expire_slots(now);
    let is_released = limits.admit(now, &request, 1).is_ok();
    if is_released {
        limits.commit(now, 1, true);
    }
    (limits.slots(&request).collect(), is_released)
}
