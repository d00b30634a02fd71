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
        let kept: Vec<_> = booked.into_iter().filter(|slot| slot.at >= until).collect();
        assert_eq!((until, kept.len()), (Time(150), 2), "{algorithm}");
        assert_eq!(state.book(60, &order(&[1], 2)).slots, kept, "{algorithm}");
    }
}
