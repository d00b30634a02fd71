//! Slots that are given back.

use super::*;

#[test]
fn a_slot_that_is_given_back_goes_to_the_next_who_asks() {
    for algorithm in of_any_period() {
        let mut state = Books::new(policy(&[quota(algorithm, 1, 100)]));
        let (one, two) = (order(&[1], 1), order(&[1], 2));
        assert_eq!(state.slots(&[(0, 1)]), [0]);
        let booked = state.book(0, &two).slots;
        assert_eq!([booked[0].at.0, booked[1].at.0], [100, 200], "{algorithm}");
        state.give_back(10, &two, &booked);
        // Each slot is handed on once, the earliest first; then come new ones.
        assert_eq!(state.book(10, &one).slots, booked[..1]);
        assert_eq!(state.slots(&[(10, 1), (10, 1)]), [200, 300]);
        // Past slots are useless, and so are slots of another cost.
        state.give_back(150, &two, &booked);
        assert_eq!(state.slots(&[(150, 1), (150, 1)]), [200, 400]);
        let mut state = Books::new(policy(&[quota(algorithm, 4, 100)]));
        let four = order(&[4], 1);
        state.book(0, &four);
        let booked = state.book(0, &four).slots;
        state.give_back(10, &four, &booked);
        assert!(state.slots(&[(10, 1)])[0] > booked[0].at.0, "{algorithm}");
        assert_eq!(state.book(10, &four).slots, booked);
    }
}

/// The process that gives it back may not know of the overrun, and the one that gets it would think it was booked
/// since.
#[test]
fn a_slot_that_is_too_close_to_what_was_overrun_is_not_handed_on() {
    for algorithm in of_any_period() {
        let mut state = Books::new(policy(&[quota(algorithm, 1, 100)]));
        let booked = state.book(0, &order(&[1], 4)).slots;
        let late = order(&[1], 1).with(Task::Late(1, Time(50)));
        let until = state.book(60, &late).overruns.until;
        state.give_back(60, &late, &booked);
        let after = |at| Slot { at: Time(at), until: Time(at) };
        state.give_back(60, &order(&[7], 1), &[after(149), after(150)]);
        assert_eq!(state.ledger.returned.of(&[7]), [Time(150)]);
        let kept: Vec<_> = booked.into_iter().filter(|slot| slot.at >= until).collect();
        assert_eq!((until, kept.len()), (Time(150), 2), "{algorithm}");
        assert_eq!(state.book(60, &order(&[1], 2)).slots, kept, "{algorithm}");
    }
}

/// Whoever holds a slot that is too close gives it up, as do those who gave it back before.
#[test]
fn what_was_overrun_is_counted_and_takes_back_slots_that_nobody_has() {
    let mut state =
        Books::new(policy(&[quota(Algorithm::Sliding, 1, 100), quota(Algorithm::Sliding, 9, 10)]));
    let booked = state.book(0, &order(&[1, 1], 3)).slots;
    state.give_back(10, &order(&[1, 1], 2), &booked[1..]);
    assert!(state.ledger.returned.contains(Time(100)));
    let late = |over, costs: [u64; 2], count| order(&costs, 0).with(Task::Late(count, Time(over)));
    state.book(60, &late(50, [1, 0], 1));
    assert_eq!(state.ledger.returned.of(&[1, 1]), [Time(200)]);
    let overruns = state.book(70, &late(70, [1, 1], 2)).overruns;
    assert_eq!((&overruns.costs[..], overruns.until), (&[3, 2][..], Time(170)));
    // One that is reported later, but was earlier, matters for no longer.
    assert_eq!(state.book(80, &late(20, [0, 1], 1)).overruns.until, Time(170));
    assert_eq!(state.ledger.newest, Time(200));
    assert_eq!(state.book(300, &late(290, [1, 0], 1)).overruns.until, Time(390));
    assert_eq!(state.ledger.newest, Time(290));
}

#[test]
fn what_is_due_or_over_is_not_given_back() {
    let mut state = Books::new(policy(&[quota(Algorithm::Sliding, 1, 100)]));
    let booked = state.book(0, &order(&[1], 3)).slots;
    state.give_back(100, &order(&[1], 3), &booked);
    assert_eq!(state.ledger.returned.of(&[1]), [Time(200)]);
}

/// And whoever is told to ask again keeps the turn.
#[test]
fn every_answer_tells_what_was_overrun() {
    let mut state = Books::new(policy(&[quota(Algorithm::Sliding, 5, 100)]));
    let one = order(&[1], 1);
    let told = state.book(10, &one.with(Task::Late(1, Time(10)))).overruns;
    assert_eq!(told.costs[..], [1]);
    assert_eq!(state.book(20, &one).overruns, told);
    let until = Time(5_000_000_000);
    state.book(30, &one.with(Task::Hold(until)));
    let held = state.book(40, &with_turn(1, Some(Turn(7))));
    assert_eq!((held.held, held.turn, &held.overruns), (Some(until), Some(Turn(7)), &told));
    assert!(held.slots.is_empty() && held.ask_again > Some(Time(40)));
    assert_eq!(state.book(40, &order(&[1], 0)).ask_again, None);
    // A loss lifts no hold.
    let Books { rules, ledger } = state;
    assert_eq!(rules.quarantine_after(ledger.clone(), Time(50), Time(50)).hold, ledger.hold);
}
