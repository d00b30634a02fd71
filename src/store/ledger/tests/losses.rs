//! Whatever was lost, or is unknown since a restart, counts as used.

use super::*;

#[test]
fn lost_state_is_silent_for_one_window() {
    let table = [
        (Algorithm::Sliding, [105, 105, 205]),
        (Algorithm::Bucket, [55, 105, 155]),
        (Algorithm::Interval, [105, 155, 205]),
        (Algorithm::Fixed, [105, 105, 205]),
    ];
    for (algorithm, slots) in table {
        let mut state = Books::new(policy(&[quota(algorithm, 2, 100)]));
        state.slots(&[(0, 1), (1, 1), (2, 1)]);
        state.ledger = state.rules.quarantine(Time(5));
        assert_eq!(state.slots(&[(3, 1), (4, 1), (4, 1)]), slots, "{algorithm}");
    }
}

#[test]
fn after_a_restart_what_was_used_counts_as_used_then() {
    for (algorithm, slots) in [
        // Two of three were used, by one release at 1000.
        (Algorithm::Sliding, [5, 10, 10]),
        // The missing two accrue from 0.
        (Algorithm::Bucket, [5, 5, 7]),
        // The gap after the last release, of cost 2, is 7.
        (Algorithm::Interval, [7, 11, 15]),
        (Algorithm::Fixed, [5, 10, 10]),
    ] {
        let mut state = Books::new(policy(&[quota(algorithm, 3, 10)]));
        state.slots(&[(1000, 2)]);
        state.ledger = state.rules.restart(state.ledger);
        assert_eq!(state.slots(&[(5, 1), (5, 1), (5, 1)]), slots, "{algorithm}");
        // An unused limit is fresh.
        let mut state = Books::new(policy(&[quota(algorithm, 3, 10)]));
        state.ledger = state.rules.restart(state.ledger);
        assert_eq!(state.slots(&[(2, 1)]), [2], "{algorithm}");
    }
}

#[test]
fn after_a_restart_each_limit_keeps_the_gap_after_its_last_slot() {
    let mut state = Books::new(policy(&[quota(Algorithm::Interval, 2, 10), quota(Algorithm::Fixed, 9, 1)]));
    state.book(1000, &order(&[1, 1], 1));
    state.book(1003, &order(&[0, 1], 1));
    state.ledger = state.rules.restart(state.ledger);
    assert_eq!(state.book(1, &order(&[1, 1], 1)).slots[0].at, Time(5));
}

#[test]
fn a_quarantine_lasts_no_longer_for_a_restart_in_the_middle_of_it() {
    for algorithm in of_any_period() {
        let mut state = Books::new(policy(&[quota(algorithm, 1, 10)]));
        for ledger in [state.rules.quarantine(Time(1000)), state.rules.begin(Time(1000))] {
            state.ledger = state.rules.restart(ledger);
            assert!(state.slots(&[(1, 1)])[0] <= 10, "{algorithm}");
        }
    }
}

#[test]
fn a_quarantine_ends_when_all_of_it_is_as_new() {
    for algorithm in of_any_period() {
        let rules = BookingRules::new(policy(&[quota(algorithm, 3, 10)]));
        assert_eq!(rules.end_of_quarantine(Time(100)), Time(110), "{algorithm}");
    }
    let both = [quota(Algorithm::Sliding, 3, 10), quota(Algorithm::Sliding, 3, 20)];
    assert_eq!(BookingRules::new(policy(&both)).end_of_quarantine(Time(100)), Time(120));
}
