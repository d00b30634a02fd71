//! The queue of processes that were turned away.

use super::super::turns::LONGEST_QUEUE;
use super::*;
use crate::config::Rate;
use crate::store::{Reserve, Turn};

/// 1 in 10 s, with a horizon of 20 s.
fn one_in_ten_seconds() -> Books {
    let quota = quota(Algorithm::Sliding, 1, 10 * SECOND);
    Books::new(Policy { horizon: 20 * SECOND, ..policy(&[quota]) })
}

#[test]
fn those_who_are_turned_away_are_served_in_their_order() {
    let mut state = one_in_ten_seconds();
    for at in [0, 10, 20] {
        assert_eq!(state.book(0, &order(&[1], 1)).slots[0].at, Time(at * SECOND));
    }
    let mut ask = |now: u64, turn| state.book(now * SECOND, &with_turn(1, turn));
    let turned_away = |answer: &Answer| answer.ask_again.map(|at| at.0 / SECOND).zip(answer.turn);
    let queue: Vec<_> = (0..3).map(|_| turned_away(&ask(0, None)).expect("a turn")).collect();
    assert_eq!(queue.iter().map(|(again, _)| *again).collect::<Vec<_>>(), [10, 20, 30]);
    // There is a slot within the horizon, but it belongs to the first in the queue, even if another process asks first.
    assert_eq!(turned_away(&ask(10, None)).map(|(again, _)| again), Some(40));
    assert_eq!(turned_away(&ask(10, Some(queue[1].1))), Some(queue[1]), "it keeps its turn");
    assert_eq!(ask(10, Some(queue[0].1)).slots[0].at, Time(30 * SECOND));
    assert_eq!(ask(20, Some(queue[1].1)).slots[0].at, Time(40 * SECOND));
}

/// A process in the queue may have ended long ago.
#[test]
fn no_slot_is_left_unused_for_those_who_do_not_come_back() {
    let mut state = one_in_ten_seconds();
    for _ in 0..50 {
        state.book(0, &order(&[1], 1));
    }
    assert!(state.book(19 * SECOND, &order(&[1], 1)).turn.is_some());
    let late = state.book(20 * SECOND, &order(&[1], 1));
    assert_eq!(late.slots[0].at, Time(30 * SECOND));
}

#[test]
fn nobody_waits_for_the_turn_of_one_who_has_left() {
    let mut state = one_in_ten_seconds();
    for _ in 0..3 {
        state.book(0, &order(&[1], 1));
    }
    let turns = [(); 3].map(|()| state.book(0, &order(&[1], 1)).turn);
    let leave = |state: &mut Books, turn: Option<Turn>| {
        state.rules.give_up_turn(&mut state.ledger, &[1], turn.expect("one"));
    };
    leave(&mut state, turns[0]);
    assert_eq!(state.book(0, &order(&[1], 1)).turn, turns[2]);
    [turns[1], turns[2], turns[2]].into_iter().for_each(|turn| leave(&mut state, turn));
    assert_eq!(state.book(10 * SECOND, &order(&[1], 1)).slots[0].at, Time(30 * SECOND));
}

/// Whoever books at once what is needed for long would get more than the others, again and again.
#[test]
fn of_those_who_book_nobody_gets_more_than_its_share_but_for_a_few() {
    let policy = Policy { span: 20, ..policy(&[quota(Algorithm::Interval, 100, SECOND)]) };
    let mut state = Books::new(policy);
    let mut got = |(now, by): (u64, u32)| {
        let wanted = Wanted { count: 40, within: u64::MAX, by, ..Wanted::default() };
        state.book(now * SECOND, &order(&[1], 0).with(Task::Book(wanted))).slots.len()
    };
    // Two thirds of what is left of its share, and a few more. It is told from others for up to two seconds.
    let first = [(0, 1), (0, 2), (0, 1), (0, 2), (0, 2), (0, 1)].map(&mut got);
    assert_eq!(first, [40, 34, 7, 11, 4, 3]);
    let later = [(1, 1), (1, 1), (1, 1), (2, 1), (3, 2), (3, 1), (5, 1)].map(&mut got);
    assert_eq!(later, [34, 11, 4, 40, 34, 34, 40]);
}

/// From 00:00 to 00:10.
#[test]
fn in_its_hours_a_limit_bounds_what_is_booked_at_once() {
    let rates = ["40/s,during=00:00-00:10,tz=UTC", "400/s"].map(|rate| rate.parse::<Rate>().unwrap());
    let rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    let minutes = [0, 9, 10, 11].map(|minute| Time(minute * 60 * SECOND));
    let got = minutes.map(|now| rules.book(&mut rules.begin(now), now, &order(&[1, 1], 100)).slots.len());
    assert_eq!(got, [10, 10, 100, 100]);
    let others = rules.book(&mut rules.begin(Time(0)), Time(0), &order(&[0, 1], 100));
    assert_eq!(others.slots.len(), 100);
    let orders = vec![order(&[1, 1], 100); 2];
    let got = minutes.map(|now| {
        let answers = rules.deal(&mut rules.begin(now), now, now, &orders);
        answers.iter().map(|answer| answer.slots.len()).collect::<Vec<_>>()
    });
    assert_eq!(got, [[10, 10], [10, 10], [100, 100], [100, 100]]);
}

/// Instants are in nanoseconds; the pause is a millisecond.
#[test]
fn nobody_is_told_to_come_back_within_a_millisecond() {
    let rules = BookingRules::new(Policy { horizon: 5, ..policy(&[quota(Algorithm::Sliding, 1, 10)]) });
    let mut state = Books { ledger: rules.begin(Time(0)), rules };
    assert_eq!(state.book(0, &order(&[1], 2)).ask_again, Some(Time(1_000_000)));
}

/// Otherwise others would be turned away for the time of its turn.
#[test]
fn a_turn_ends_with_its_slot() {
    let mut state = one_in_ten_seconds();
    for _ in 0..3 {
        state.book(0, &order(&[1], 1));
    }
    let turn = state.book(0, &order(&[1], 1)).turn;
    let turns = state.ledger.turns;
    assert_eq!(turns, Time(40 * SECOND));
    assert_eq!(state.book(10 * SECOND, &with_turn(1, turn)).slots.len(), 1);
    assert_eq!(state.ledger.turns, Time(30 * SECOND));
}

/// As those of a state that was lost.
#[test]
fn turns_that_no_state_knows_count_for_nothing() {
    let mut state = one_in_ten_seconds();
    for _ in 0..5 {
        state.book(0, &order(&[1], 1));
    }
    let unknown = with_turn(1, Some(Turn(70 * SECOND)));
    assert_eq!(state.book(0, &unknown).turn, Some(Turn(50 * SECOND)));
    for _ in 0..100 {
        state.book(0, &order(&[1], 1));
    }
    let last = state.book(0, &order(&[1], 1)).turn;
    assert_eq!(last, Some(Turn(LONGEST_QUEUE * 20 * SECOND)));
}

#[test]
fn a_turn_is_as_long_as_the_slowest_limit_needs() {
    let quotas = [quota(Algorithm::Sliding, 1, 10 * SECOND), quota(Algorithm::Sliding, 1, SECOND)];
    let mut state = Books::new(Policy { horizon: 20 * SECOND, ..policy(&quotas) });
    for _ in 0..4 {
        state.book(0, &order(&[1, 1], 1));
    }
    assert_eq!(state.ledger.turns, Time(40 * SECOND));
}
