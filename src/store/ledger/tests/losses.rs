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

/// The clock may have been set back since.
#[test]
fn a_lost_state_reopens_no_period_that_was_used() {
    let minute = 60 * SECOND;
    let quotas = [quota(Algorithm::Calendar, 2, minute), quota(Algorithm::Sliding, 2, SECOND)];
    let rules = BookingRules::new(policy(&quotas));
    let mut ledger = rules.begin(Time(0));
    rules.book(&mut ledger, Time(3 * minute + 1), &order(&[1, 1], 3));
    let at = |last, newest| {
        let mut ledger = rules.quarantine_after(ledger.clone(), Time(last), Time(newest));
        [[1, 0], [0, 1]].map(|costs| rules.book(&mut ledger, Time(SECOND), &order(&costs, 1)).slots[0].at.0)
    };
    // The third slot is in the fourth minute, which is used up with it.
    assert_eq!(at(5, 5), [5 * minute, SECOND + 5].map(|at| at.max(5 * minute)));
    assert_eq!(at(6 * minute, 5)[0], 7 * minute);
    assert_eq!(at(5, 6 * minute)[0], 7 * minute);
}

#[test]
fn a_state_is_idle_once_nobody_waits_and_nothing_is_held() {
    let rules = BookingRules::new(policy(&[quota(Algorithm::Sliding, 1, 10)]));
    let used = rules.quarantine(Time(3));
    let hold = Hold::new(Time(10), Time(70));
    for (ledger, idle_at) in [
        (used.clone(), 13),
        (Ledger { turns: Time(50), ..used.clone() }, 50),
        (Ledger { turns: Time(50), hold, ..used.clone() }, 70),
    ] {
        assert_eq!(rules.idle_at(&ledger), Time(idle_at));
        let restarted = rules.restart(ledger.clone()).hold;
        assert_eq!(restarted.until, Time(ledger.hold.length));
    }
}

#[test]
fn a_state_of_other_limits_is_none_of_these() {
    let rules =
        BookingRules::new(policy(&[Algorithm::Sliding, Algorithm::Bucket].map(|of| quota(of, 1, 10))));
    let other =
        BookingRules::new(policy(&[Algorithm::Sliding, Algorithm::Interval].map(|of| quota(of, 1, 10))));
    let ledger = rules.begin(Time(0));
    let costs = |costs: &[u64]| Overruns { costs: costs.into(), until: Time(0) };
    for (known, is_of) in [
        (ledger.clone(), true),
        (other.begin(Time(0)), false),
        (Ledger { accounts: ledger.accounts[..1].into(), ..ledger.clone() }, false),
        (Ledger { overruns: costs(&[1, 2]), forgotten: [None; 2].into(), ..ledger.clone() }, true),
        (Ledger { overruns: costs(&[1]), ..ledger.clone() }, false),
        (Ledger { forgotten: [None; 3].into(), ..ledger.clone() }, false),
    ] {
        assert_eq!(rules.is_of(&known), is_of, "{known:?}");
    }
}
