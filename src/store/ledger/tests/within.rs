//! Orders that wait for a slot for a limited time, or not at all.

use super::*;

/// Nothing is booked ahead, and the answer tells when the next slot is free.
#[test]
fn an_order_that_does_not_wait_gets_what_is_free_at_once() {
    let rules = BookingRules::new(policy(&[quota(Algorithm::Sliding, 2, 100)]));
    let mut ledger = rules.begin(Time(0));
    let mut book = |now, count| {
        let order = order(&[1], 0).with(Task::Book(Wanted { count, ..Wanted::default() }));
        let answer = rules.book(&mut ledger, Time(now), &order);
        (answer.slots.len(), answer.ask_again)
    };
    let period = rules.policy().quotas[0].terms.period;
    assert_eq!(book(5, 1), (1, None));
    assert_eq!(book(7, 2), (1, Some(Time(5 + period))));
    assert_eq!(book(8, 1), (0, Some(Time(5 + period))));
    assert_eq!(book(5 + period, 1), (1, None));
}

#[test]
fn no_slot_is_sooner_than_an_order_can_use_it_but_none_is_far_ahead_for_that() {
    for (ahead, first) in [(0, 10), (40, 50), (50, 60), (u64::MAX, 60)] {
        let rules = BookingRules::new(Policy { horizon: 100, ..policy(&[quota(Algorithm::Sliding, 1, 9)]) });
        let wanted = Wanted { count: 3, within: u64::MAX, ahead, ..Wanted::default() };
        let orders = [order(&[1], 0).with(Task::Book(wanted))];
        let period = rules.policy().quotas[0].terms.period;
        let expected = [0, 1, 2].map(|after| Time(first + after * period)).to_vec();
        let at = |answer: Answer| answer.slots.iter().map(|slot| slot.at).collect::<Vec<_>>();
        let mut ledger = rules.begin(Time(0));
        assert_eq!(at(rules.book(&mut ledger.clone(), Time(10), &orders[0])), expected);
        assert_eq!(
            rules.deal(&mut ledger, Time(10), Time(10), &orders).into_iter().map(at).next(),
            Some(expected)
        );
    }
}

/// A run that would have to wait too long books nothing: asking again and again uses nothing up.
#[test]
fn whoever_would_wait_too_long_leaves_no_trace_and_hears_of_the_next_slot() {
    for_each_seed(300, |random| {
        let starts_empty = random.bool();
        let quotas = &quotas(random, starts_empty)[..random.usize(1..=3)];
        let horizon = random.choice([30, 1000, u64::MAX]).expect("one");
        let mut state = Books::new(Policy { horizon, ..policy(quotas) });
        let mut now = 0;
        for _ in 0..30 {
            now += random.u64(0..=40);
            let within = random.choice([0, 1, 7, 60]).expect("one");
            let patient = order(&costs(random, quotas), random.u64(1..=3));
            let ahead = random.choice([0, 5]).expect("one");
            let wanted = Wanted { ahead, ..patient.wanted().expect("slots") };
            let patient = patient.with(Task::Book(wanted));
            let order = patient.with(Task::Book(Wanted { within, ..wanted }));
            let first = state.clone().book(now, &patient);
            let first =
                first.slots.first().map(|slot| slot.at).or(first.next).expect("a slot or the next one");
            let mut before = state.clone();
            before.rules.expire(&mut before.ledger, Time(now));
            before.ledger.returned.forget(Time(now));
            let answer = state.book(now, &order);
            assert!(answer.slots.iter().all(|slot| slot.at.0 <= now + within), "{answer:?}");
            match answer.slots.first() {
                Some(slot) => assert_eq!(slot.at, first),
                // Its turn comes in time, but its slot is beyond the horizon.
                None if answer.turn.is_some() => {
                    assert!(answer.next == Some(first) && first.0 <= now + within);
                }
                None => {
                    assert_eq!(state.ledger, before.ledger);
                    assert_eq!((answer.next, answer.ask_again), (Some(first), Some(Time(first.0 - within))));
                    assert!(first.0 > now + within);
                }
            }
            if random.u8(..) < 50 {
                let booked = state.book(now, &patient).slots;
                let returned = if random.bool() { booked } else { Vec::new() };
                state.give_back(now, &patient, &returned);
            }
        }
    });
}
