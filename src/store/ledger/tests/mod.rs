//! The rules of booking, compared with those of a run, and tested with a crowd of processes.

mod audit;
mod changes;
mod crowd;
mod losses;
mod returned;
mod turns;
mod within;

use fastrand::Rng;

use super::*;
use crate::charge::Key;
use crate::gate::Limit;
use crate::random::for_each_seed;
use crate::rule::{Algorithm, Extra, Terms};
use crate::store::Turn;
use crate::time::Time;

/// Calendar rules have their own tests.
fn of_any_period() -> Vec<Algorithm> {
    Algorithm::ALL.into_iter().filter(|algorithm| !algorithm.spec().takes(Extra::Zone)).collect()
}

fn quota(algorithm: Algorithm, count: u64, period: u64) -> Quota {
    let burst = if algorithm.spec().takes(Extra::Burst) { count } else { 0 };
    let terms = Terms { instants: 1024, ..Terms::new(count, period, burst) };
    Quota::new(algorithm, terms)
}

/// No horizon, and no tolerance for lateness.
fn policy(quotas: &[Quota]) -> Policy {
    let (rates, text) = (Vec::new(), "a limit".to_owned());
    Policy { quotas: quotas.into(), validity: 0, horizon: u64::MAX, span: 1000, rates, text }
}

fn order(costs: &[u64], count: u64) -> Order {
    Order::new(Key::new(), costs, count)
}

fn with_turn(count: u64, turn: Option<Turn>) -> Order {
    order(&[1], 0).with(Task::Book(Wanted { count, within: u64::MAX, turn, ..Wanted::default() }))
}

/// A state: its rules and ledger.
#[derive(Clone)]
struct Books {
    rules: BookingRules,
    ledger: Ledger,
}

impl Books {
    fn new(policy: Policy) -> Self {
        let rules = BookingRules::new(policy);
        Books { ledger: rules.begin(Time(0)), rules }
    }

    fn give_back(&mut self, now: u64, order: &Order, slots: &[Slot]) {
        let slots = slots.iter().map(|slot| slot.at);
        self.rules.give_back(&mut self.ledger, Time(now), &order.costs, slots);
    }

    fn book(&mut self, now: u64, order: &Order) -> Answer {
        self.rules.book(&mut self.ledger, Time(now), order)
    }

    /// The number of instants that the log of the first limit has.
    fn runs(&self) -> usize {
        let AnyState::Sliding(log) = &self.ledger.accounts[0] else { panic!("no log") };
        log.len()
    }

    /// The instants of slots that are booked one at a time.
    fn slots(&mut self, asks: &[(u64, u64)]) -> Vec<u64> {
        asks.iter().map(|&(now, cost)| self.book(now, &order(&[cost], 1)).slots[0].at.0).collect()
    }
}

fn limit(quota: &Quota) -> Limit {
    Limit::of(quota.algorithm, quota.terms, None)
}

/// Charges a release that was checked earlier but ended only at `at`.
fn overrun(quota: &Quota, limit: &mut Limit, at: Time, cost: u64) {
    let ask = Ask { eligible_at: at, cost };
    match (quota.algorithm, limit.opening(b"", ask, ask.eligible_at).from) {
        // Charges nothing if earlier charges already keep the next release away for as long.
        (Algorithm::Interval, next)
            if next.0 >= at.0 + (cost * quota.terms.period).div_ceil(quota.terms.count) => {}
        _ => limit.commit(0, at, ask, 1),
    }
}

/// Three limits of random kinds.
fn quotas(random: &mut Rng, starts_empty: bool) -> Vec<Quota> {
    let quota = |_| {
        let algorithm = random.choice(of_any_period()).expect("one");
        let quota = quota(algorithm, random.u64(1..=12), random.u64(1..=100));
        let burst = if algorithm.spec().takes(Extra::Burst) { random.u64(1..=12) } else { 0 };
        Quota { terms: Terms { burst, ..quota.terms }, starts_empty, ..quota }
    };
    (0..3).map(quota).collect()
}

/// A cost for each limit: at least one is not 0, and all can be admitted.
fn costs(random: &mut Rng, quotas: &[Quota]) -> Vec<u64> {
    let mut costs: Vec<_> = quotas.iter().map(|quota| random.u64(0..=quota.most().min(12))).collect();
    costs[0] = costs[0].max(1);
    costs
}

#[test]
fn slots_are_the_instants_at_which_the_limits_would_release() {
    for_each_seed(400, |random| {
        let starts_empty = random.bool();
        let quotas = &quotas(random, starts_empty)[..random.usize(1..=3)];
        let mut state = Books::new(policy(quotas));
        let mut limits: Vec<_> = quotas.iter().map(limit).collect();
        if starts_empty {
            limits.iter_mut().for_each(|limit| limit.exhaust(Time(0)));
        }
        let (mut now, mut previous) = (0, Time(0));
        for _ in 0..60 {
            let most = random.choice([0, 3, 30, 300]).expect("one");
            now += random.u64(0..=most);
            let costs = costs(random, quotas);
            let charged = || costs.iter().enumerate().filter(|(_, cost)| **cost > 0);
            if random.u8(0..8) == 0 {
                let (over, count) = (Time(random.u64(0..=now)), random.u64(1..=3));
                previous = previous.max(over);
                state.book(now, &order(&costs, 0).with(Task::Late(count, over)));
                charged().for_each(|(limit, cost)| {
                    overrun(&quotas[limit], &mut limits[limit], previous, cost * count);
                });
            }
            let ask = |cost: u64| Ask { eligible_at: previous.max(Time(now)), cost };
            let answers = charged().map(|(at, &cost)| limits[at].opening(b"", ask(cost), Time(0)).from);
            let Some(at) = answers.max() else { panic!("never") };
            assert_eq!(state.book(now, &order(&costs, 1)).slots, [Slot { at, until: at }]);
            charged().for_each(|(limit, &cost)| limits[limit].commit(0, at, ask(cost), 1));
            previous = at;
        }
    });
}

/// Two calendar limits and one of another kind, in minutes over two hours around a boundary.
#[test]
fn slots_go_by_the_calendar() {
    let minute = 60 * SECOND;
    for_each_seed(100, |random| {
        let hour = |count| quota(Algorithm::Calendar, count, 60 * minute);
        let mut day = quota(Algorithm::Calendar, 7, 1440 * minute);
        day.terms.margin = random.u64(0..5) * minute;
        let quotas = [hour(random.u64(1..=4)), day, quota(Algorithm::Sliding, 2, 7 * minute)];
        let validity = random.u64(0..3) * minute;
        let mut state = Books::new(Policy { validity, ..policy(&quotas) });
        let (mut now, mut used) = (22 * 60, Vec::<u64>::new());
        for _ in 0..20 {
            now += random.u64(0..20);
            let is_allowed = |at: &u64| {
                let in_hour = used.iter().filter(|slot| *slot / 60 == at / 60).count() as u64;
                let in_day = used.iter().filter(|slot| *slot / 1440 == at / 1440).count();
                let recent = used.iter().filter(|slot| *slot + 7 > *at).count();
                let (late, margin) = (validity / minute, quotas[1].terms.margin / minute);
                let in_time =
                    (at + late) / 60 == at / 60 && (at % 1440) >= margin && at % 1440 + late + margin < 1440;
                in_time && in_hour < quotas[0].terms.count && in_day < 7 && recent < 2
            };
            let eligible_at = used.last().copied().unwrap_or(0).max(now);
            let expected = (eligible_at..eligible_at + 100_000).find(is_allowed).expect("a minute");
            let slots = state.book(now * minute, &order(&[1, 1, 1], 1)).slots;
            assert_eq!(slots[0].at, Time(expected * minute), "{used:?}");
            used.push(expected);
        }
    });
}

#[test]
fn several_at_once_are_the_same_as_one_by_one() {
    for_each_seed(100, |random| {
        let quotas = quotas(random, false);
        let policy = Policy { validity: 3, ..policy(&quotas) };
        let (mut at_once, mut singly) = (Books::new(policy.clone()), Books::new(policy));
        for now in (0..400).step_by(20) {
            let costs = costs(random, &quotas);
            let several = at_once.book(now, &order(&costs, random.u64(1..=6)));
            for slot in &several.slots {
                assert_eq!(singly.book(now, &order(&costs, 1)).slots, [*slot]);
            }
        }
    });
}

#[test]
fn what_is_left_is_what_could_be_booked() {
    for_each_seed(100, |random| {
        let starts_empty = random.bool();
        let quotas = quotas(random, starts_empty);
        let horizon = random.choice([30, 1000, u64::MAX]).expect("one");
        let mut state = Books::new(Policy { horizon, ..policy(&quotas) });
        let mut now = 0;
        for _ in 0..20 {
            let most = random.choice([0, 30, 300]).expect("one");
            now += random.u64(0..=most);
            let single = random.usize(0..6);
            let costs = match single {
                0..3 => (0..3).map(|limit| u64::from(limit == single)).collect(),
                _ => costs(random, &quotas),
            };
            let booked = state.book(now, &order(&costs, random.u64(1..=3))).slots;
            let returned = random.usize(0..=booked.len());
            let returned = booked[..returned].iter().map(|slot| slot.at);
            state.rules.give_back(&mut state.ledger, Time(now), &costs, returned.clone());
            // Sometimes one of them is due.
            now = returned.max().filter(|_| random.bool()).map_or(now, |at| at.0);
            for (limit, quota) in quotas.iter().enumerate() {
                let capacity = quota.at_once();
                let costs: Vec<_> = (0..3).map(|other| u64::from(other == limit)).collect();
                let left = state.rules.left(&state.ledger, Time(now), (limit, capacity));
                let mut without_turns = state.clone();
                without_turns.ledger.turns = Time::ZERO;
                let answer = without_turns.book(now, &order(&costs, capacity + 1));
                let free = answer.slots.iter().filter(|slot| slot.at.0 <= now).count() as u64;
                assert_eq!(left.0, free.min(capacity), "{quota:?}");
                let first = answer.slots.first().map(|slot| slot.at);
                let turn = answer.turn.map(|turn| Time(turn.0));
                let mut of_all = state.ledger.returned.of(&[1; 3]).iter().copied();
                let of_all = of_all.find(|at| at.0 >= now);
                assert_eq!(Some(left.1), first.or(turn).into_iter().chain(of_all).min(), "{quota:?}");
            }
        }
    });
}

#[test]
fn nothing_is_given_out_beyond_the_horizon_and_who_asks_again_then_gets_it() {
    for algorithm in of_any_period() {
        let horizon = 2 * SECOND;
        let quota = quota(algorithm, 10, 10 * SECOND);
        let mut state = Books::new(Policy { horizon, ..policy(&[quota]) });
        let (mut now, mut booked, mut turn) = (0, 0, None);
        while booked < 30 {
            let answer = state.book(now, &with_turn(4, turn));
            assert!(answer.slots.iter().all(|slot| slot.at.0 >= now && slot.at.0 <= now + horizon));
            booked += answer.slots.len();
            assert_eq!(answer.turn.is_some(), answer.slots.is_empty());
            turn = answer.turn;
            if let Some(again) = answer.ask_again {
                assert!(again >= Time(now + PAUSE));
                now = again.0;
                // At that time, the next free slot is just within the horizon.
                let slot = state.clone().book(now, &with_turn(1, turn)).slots[0];
                assert!(slot.at.0 >= now + horizon - PAUSE, "{algorithm}: {slot:?} at {now}");
            }
        }
    }
}

#[test]
fn a_slot_is_good_until_its_deadline() {
    let mut state = Books::new(Policy { validity: 7, ..policy(&[quota(Algorithm::Interval, 1, 10)]) });
    let slot = |at| Slot { at: Time(at), until: Time(at + 7) };
    assert_eq!(state.book(5, &order(&[1], 3)).slots, [5, 15, 25].map(slot));
}

/// In a window of 100, slots end 10 before the boundary, so that late releases stay in the window.
#[test]
fn what_is_released_late_is_still_in_its_fixed_window() {
    let fixed = || Policy { validity: 10, ..policy(&[quota(Algorithm::Fixed, 3, 100)]) };
    assert_eq!(Books::new(fixed()).slots(&[(0, 1), (89, 1), (90, 1)]), [0, 89, 100]);
    // Together with a limit whose slots come later than asked, each slot starts its own window.
    let mut both = fixed();
    both.quotas.push(quota(Algorithm::Interval, 1, 95));
    let mut both = Books::new(both);
    assert_eq!(
        both.book(0, &order(&[1, 1], 3)).slots.iter().map(|slot| slot.at.0).collect::<Vec<_>>(),
        [0, 100, 195 + 5]
    );
}

#[test]
fn all_that_one_release_may_cost_is_admitted_at_once() {
    for algorithm in [Algorithm::Sliding, Algorithm::Bucket, Algorithm::Fixed] {
        let quota = quota(algorithm, 10, 100);
        assert_eq!(quota.most(), 10, "{algorithm}: larger orders are refused beforehand");
        assert_eq!(Books::new(policy(&[quota])).slots(&[(0, 10)]), [0], "{algorithm}");
    }
    assert_eq!(
        Books::new(policy(&[quota(Algorithm::Interval, 10, 100)])).slots(&[(0, 11), (0, 1)]),
        [0, 110]
    );
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    for algorithm in of_any_period() {
        let mut state = Books::new(policy(&[quota(algorithm, u64::MAX, u64::MAX)]));
        let slots = state.slots(&[(0, u64::MAX), (u64::MAX - 1, 1), (u64::MAX, u64::MAX)]);
        assert!(slots.is_sorted(), "{algorithm}: {slots:?}");
    }
}

/// With a large count, units share entries: items may wait longer, but are never early.
#[test]
fn a_large_count_is_kept_in_few_entries() {
    for_each_seed(3, |random| {
        let (count, period) = (random.u64(1025..3_000_000), SECOND);
        let most = random.choice([count, count / 7, count / 100]).expect("one");
        let mut state = Books::new(policy(&[quota(Algorithm::Sliding, count, period)]));
        let mut limit = Limit::of(Algorithm::Sliding, Terms::new(count, period, 0), None);
        for _ in 0..300 {
            let cost = random.u64(1..=most);
            let slot = state.book(0, &order(&[cost], 1)).slots[0];
            let ask = Ask { eligible_at: slot.at, cost };
            assert!(
                limit.opening(b"", ask, ask.eligible_at).allows(ask.eligible_at),
                "{cost} of {count} is early"
            );
            limit.commit(0, ask.eligible_at, ask, 1);
            assert!(state.runs() <= 1026, "{} runs", state.runs());
        }
    });
}

/// Nothing is lost in bursts, and a thousandth where each slot has an instant of its own.
#[test]
fn a_large_count_fits_into_a_thousand_runs() {
    let policy_of =
        |count, period| Policy { span: 8000, ..policy(&[quota(Algorithm::Sliding, count, period)]) };
    let mut state = Books::new(policy_of(10_000_000, SECOND));
    let last = (0..400).flat_map(|_| state.book(0, &order(&[100], 1000)).slots).last();
    assert_eq!(last.map(|slot| slot.at), Some(Time(3 * SECOND)));
    let mut state = Books::new(policy_of(100_000, 100_000));
    for now in 0..300_000 {
        let slot = state.book(now, &order(&[1], 1)).slots[0].at;
        assert!(slot.0 <= now + now / 1000, "{slot:?} at {now}");
        assert!(state.runs() <= 1026, "{} runs", state.runs());
    }
}

/// Only units that may still decide a slot are kept.
#[test]
fn no_more_is_kept_than_one_window() {
    let mut state = Books::new(policy(&[quota(Algorithm::Sliding, 10, 100)]));
    for now in 0..1000 {
        state.book(now, &order(&[1 + now % 3], 1));
        assert!(state.runs() <= 11, "{} runs", state.runs());
    }
}

/// So an idle state may be replaced by a new one.
#[test]
fn an_idle_state_is_as_good_as_a_new_one() {
    for_each_seed(100, |random| {
        let quotas = quotas(random, false);
        let (mut old, mut new) = (Books::new(policy(&quotas)), Books::new(policy(&quotas)));
        old.book(0, &order(&costs(random, &quotas), random.u64(1..9)));
        let mut now = old.rules.idle_at(&old.ledger).0;
        for _ in 0..10 {
            let order = order(&costs(random, &quotas), random.u64(1..9));
            assert_eq!(old.book(now, &order), new.book(now, &order));
            now += random.u64(0..100);
        }
    });
}

/// All but one in 1024 units of a large count can be used.
#[test]
fn a_large_count_loses_next_to_nothing() {
    let (count, cost) = (1_000_003, 1009);
    let mut state = Books::new(policy(&[quota(Algorithm::Sliding, count, SECOND)]));
    let releases = 30 * count / cost;
    let last = (0..releases).map(|_| state.slots(&[(0, cost)])[0]).last();
    let whole_windows = releases * cost / (count - cost);
    assert_eq!(last, Some(whole_windows * SECOND));
}
