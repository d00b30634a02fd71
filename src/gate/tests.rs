//! Limits of a run, as a gate asks and charges them.

mod answers;

use super::*;
use crate::charge::Key;
use crate::rule::Algorithm::{self, Fixed, Interval, Sliding};
use crate::rule::tests::terms;

fn common(algorithm: Algorithm, count: u64, period: u64) -> Limit {
    Limit::of(algorithm, terms(count, period), None)
}

fn keyed(count: u64, period: u64) -> Limit {
    Limit::of(Sliding, terms(count, period), Some(0))
}

fn gate(limits: impl IntoIterator<Item = Limit>) -> Gate {
    let limits: Vec<_> = limits.into_iter().collect();
    Gate { rates: vec![Rate::default(); limits.len()], local: LocalLimits::of(limits), ..Gate::default() }
}

pub(super) fn request<'a>(eligible_at: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
    Request { eligible_at: Time(eligible_at), costs, keys, waits: true }
}

/// Returns what each limit was charged for.
pub(super) fn release(limits: &mut Gate, at: u64, request: &Request) -> Vec<(usize, u64, u64)> {
    let (mut pending, mut charged) = (Pending::default(), Vec::new());
    assert_eq!(limits.admit(&mut pending, Time(at), request, 1), Ok(1));
    limits.commit(&mut pending, Time(at), 1, false, |limit, count, cost| charged.push((limit, count, cost)));
    charged
}

/// Terms for this number of shared limits.
fn booking_terms(limits: usize) -> BookingTerms {
    let most = vec![9; limits];
    BookingTerms { span: 2, longest_span: 4, most, validity: 4, ..BookingTerms::default() }
}

#[test]
fn the_latest_answer_counts_and_every_limit_is_charged() {
    let mut limits = gate([common(Interval, 1, 2), common(Sliding, 3, 100)]);
    let mut instants = Vec::new();
    for _ in 0..7 {
        let request = request(instants.last().copied().unwrap_or(0), &[1, 1], &[]);
        let Some(at) = limits.opening(Scope::All, &request, Time(0)).from.known() else { panic!("never") };
        release(&mut limits, at.0, &request);
        instants.push(at.0);
    }
    assert_eq!(instants, [0, 2, 4, 100, 102, 104, 200]);
}

#[test]
fn asking_never_charges() {
    let limits = gate([common(Fixed, 1, 10)]);
    for _ in 0..5 {
        assert_eq!(limits.opening(Scope::All, &request(3, &[1], &[]), Time(0)).from, Time(3));
    }
}

#[test]
fn a_limit_that_costs_nothing_is_neither_asked_nor_charged() {
    let mut limits = gate([common(Interval, 1, 10)]);
    release(&mut limits, 0, &request(0, &[1], &[]));
    assert_eq!(limits.opening(Scope::All, &request(1, &[0], &[]), Time(0)).from, Time(1));
    release(&mut limits, 5, &request(5, &[0], &[]));
    assert_eq!(limits.opening(Scope::All, &request(5, &[1], &[]), Time(0)).from, Time(10));
}

#[test]
fn common_and_keyed_answers() {
    let mut limits = gate([common(Sliding, 2, 100), keyed(1, 10)]);
    let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
    release(&mut limits, 0, &request(0, &[1, 1], &a));
    assert_eq!(limits.opening(Scope::Keyed, &request(1, &[1, 1], &a), Time(0)).from, Time(10));
    assert_eq!(limits.opening(Scope::Keyed, &request(1, &[1, 1], &b), Time(0)).from, Time(1));
    release(&mut limits, 1, &request(1, &[1, 1], &b));
    assert_eq!(limits.opening(Scope::Common, &request(1, &[1, 1], &b), Time(0)).from, Time(100));
    assert_eq!(limits.opening(Scope::Keyed, &request(1, &[1, 1], &b), Time(0)).from, Time(11));
}

#[test]
fn what_is_admitted_together_counts_before_it_is_charged() {
    let mut limits = gate([common(Sliding, 5, 100), keyed(2, 10)]);
    let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
    let (of_a, of_b) = (request(0, &[1, 1], &a), request(0, &[2, 1], &b));
    let mut charges = Pending::default();
    assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Ok(2));
    assert_eq!(limits.admit(&mut charges, Time(0), &of_a, 9), Err(Blocked::by_limit(1)));
    assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Ok(1));
    assert_eq!(limits.admit(&mut charges, Time(0), &of_b, 9), Err(Blocked::by_limit(0)));
    // Only the first two have left, at 3: nothing is charged for b.
    limits.commit(&mut charges, Time(3), 2, false, |_, _, _| ());
    assert_eq!(limits.opening(Scope::All, &of_a, Time(0)).from, Time(13));
    assert_eq!(limits.admit(&mut charges, Time(3), &of_b, 9), Ok(1));
}

fn by(limit: usize, until: u64) -> Blocked {
    Blocked { by: By::Limit(limit), until: Some(Time(until)) }
}

#[test]
fn the_binding_limit_is_the_one_that_allows_last() {
    let mut limits = gate([common(Interval, 1, 10), common(Sliding, 1, 100)]);
    assert_eq!(limits.blocked(&request(0, &[1, 1], &[]), Time(0)), None);
    release(&mut limits, 0, &request(0, &[1, 1], &[]));
    assert_eq!(limits.blocked(&request(5, &[1, 1], &[]), Time(0)), Some(by(1, 100)));
    assert_eq!(limits.blocked(&request(5, &[1, 0], &[]), Time(7)), Some(by(0, 10)));
    assert_eq!(limits.blocked(&request(5, &[1, 0], &[]), Time(10)), None);
}

/// From 00:00 on, with hours from 00:01 to 00:05, and a gap of two minutes.
#[test]
fn the_binding_limit_may_be_one_that_allows_it_only_before_the_others_do() {
    const MINUTE: u64 = 60_000_000_000;
    let rates = ["1/h,during=00:01-00:05,tz=UTC", "1/2m,algo=interval"];
    let rates = rates.map(|text| text.parse().unwrap()).to_vec();
    let mut gate = Gate::new(rates, Time(0), Wall::EPOCH);
    let one = request(0, &[1, 1], &[]);
    release(&mut gate, 0, &one);
    assert_eq!(gate.opening(Scope::All, &one, Time(1)).from, Time(5 * MINUTE));
    assert_eq!(gate.blocked(&one, Time(1)), Some(by(0, 5 * MINUTE)));
    assert_eq!(gate.blocked(&request(0, &[0, 1], &[]), Time(1)), Some(by(1, 2 * MINUTE)));
    assert_eq!(gate.blocked(&one, Time(5 * MINUTE)), None);
}

#[test]
fn what_is_charged_is_told_for_each_limit_that_applies() {
    let rates = ["9/s", "9/s", "9/s,local", "9/s,local"].map(|text| text.parse().unwrap()).to_vec();
    let mut gate = Gate::new(rates, Time(0), Wall::EPOCH);
    gate.share(booking_terms(2), true);
    let slots = [7, 5, 9].map(|until| Slot { at: Time(0), until: Time(until) }).into();
    let answer = Answer { slots, ..Answer::default() };
    gate.reservations_mut().unwrap().heard(Time(0), &Order::new(Key::new(), [0, 2], 3), &answer);
    let (one, mut pending) = (request(0, &[0, 2, 0, 3], &[]), Pending::default());
    assert_eq!(gate.admit(&mut pending, Time(0), &one, 3), Ok(3));
    assert_eq!(pending.good_until(), Some(Time(5)));
    let mut charged = Vec::new();
    let charge = |limit, count, cost| charged.push((limit, count, cost));
    assert!(gate.commit(&mut pending, Time(0), 2, false, charge).is_empty());
    assert_eq!(charged, [(3, 2, 6), (1, 2, 4)]);
    // The slot that was not used is good for another.
    assert_eq!(gate.admit(&mut pending, Time(1), &one, 3), Ok(1));
    gate.commit(&mut pending, Time(1), 0, false, |_, _, _| panic!("nothing has left"));
}

/// So that a bucket knows since when each accrues.
#[test]
fn releases_are_charged_together_if_they_were_next_in_line_at_the_same_instant() {
    let mut gate = gate([common(Sliding, 9, 10)]);
    let (mut pending, mut charged) = (Pending::default(), Vec::new());
    for eligible_at in [0, 0, 3] {
        assert_eq!(gate.admit(&mut pending, Time(3), &request(eligible_at, &[1], &[]), 1), Ok(1));
    }
    gate.commit(&mut pending, Time(3), 3, false, |limit, count, cost| charged.push((limit, count, cost)));
    assert_eq!(charged, [(0, 2, 2), (0, 1, 1)]);
}

/// The end of a command opens only what waited for it, a withdrawal or a clock that is set may open anything.
#[test]
fn news_of_several_events_is_of_the_earliest() {
    let new = || Gate::new(vec!["2/running".parse().unwrap()], Time(0), Wall::EPOCH);
    let one = request(0, &[1], &[]);
    for withdraws in [[true, false], [false, true], [false, false]] {
        let mut gate = new();
        for withdraws in withdraws {
            release(&mut gate, 0, &one);
            if withdraws { gate.local_mut().withdraw(&one) } else { gate.local_mut().finish(Time(1), &one) }
        }
        let expected = if withdraws.contains(&true) { Time(0) } else { Time::NEVER };
        assert_eq!(gate.take_news().map(|news| news.from()), Some(expected));
        assert!(gate.take_news().is_none());
    }
}

#[test]
fn slots_by_a_wall_clock_are_given_up_once_that_is_set() {
    let rates = ["9/d,algo=calendar,tz=UTC", "2/running"].map(|text| text.parse().unwrap());
    let mut gate = Gate::new(rates.to_vec(), Time(0), Wall::EPOCH);
    gate.share(booking_terms(1), true);
    let slots = vec![Slot { at: Time(7), until: Time(9) }];
    let booked_by = Some(BookedBy::Wall(Wall::EPOCH));
    let answer = Answer { slots, booked_by, ..Answer::default() };
    gate.reservations_mut().unwrap().heard(Time(0), &Order::new(Key::new(), [1], 1), &answer);
    let one = request(0, &[1, 1], &[]);
    assert_eq!(gate.opening(Scope::All, &one, Time(0)).from, Time(7));
    // News of slots and of ends is one.
    gate.local_mut().finish(Time(1), &one);
    assert_eq!(gate.take_news().map(|news| news.from()), Some(Time(7)));
    gate.set_wall(Time(1), Wall::new(Time(1), Time(99)));
    assert_eq!(gate.opening(Scope::All, &one, Time(1)), Opening::NEVER);
}

#[test]
fn a_release_that_is_over_at_once_counts_from_then_on() {
    for (over, next) in [(true, Time(13)), (false, Time::NEVER)] {
        let mut gate = Gate::new(vec!["1/10ns,from=exit".parse().unwrap()], Time(0), Wall::EPOCH);
        let (one, mut pending) = (request(0, &[1], &[]), Pending::default());
        assert_eq!(gate.admit(&mut pending, Time(0), &one, 1), Ok(1));
        gate.commit(&mut pending, Time(3), 1, over, |_, _, _| ());
        assert_eq!(gate.opening(Scope::All, &one, Time(3)).from, next);
    }
}

/// The shared ones have no history here.
#[test]
fn limits_of_the_run_keep_their_history_when_all_are_replaced() {
    let rates = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Rate>>();
    let mut gate = Gate::new(rates(&["9/s", "2/100ns,key=col:1,local"]), Time(0), Wall::EPOCH);
    gate.share(booking_terms(1), true);
    let (a, answer) = ([Key::from_slice(b"a")], |at| Answer { slots: vec![at], ..Answer::default() });
    let order = Order::new(Key::new(), [1], 1);
    let slot = Slot { at: Time(0), until: Time(5) };
    gate.reservations_mut().unwrap().heard(Time(0), &order, &answer(slot));
    assert_eq!(release(&mut gate, 0, &request(0, &[1, 1], &a)), [(1, 1, 1), (0, 1, 1)]);
    gate.set_limits(Time(1), rates(&["7/s", "1/100ns,key=col:1,local"]));
    assert_eq!((gate.local().limits().count(), gate.rates().len()), (1, 2));
    assert_eq!(gate.local().opening(&request(1, &[1, 1], &a), Time(1)).from, Time(100));
}
