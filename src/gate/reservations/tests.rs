//! Slots of some claims, and the answers of a store.

use super::lease::TotalDemand;
use super::order::Overruns;
use super::*;
use crate::config::{Defaults, RateText};
use crate::time::SECOND;

const PATIENCE: u64 = 7;

/// Slots for a number of shared limits.
fn reservations(limits: usize, rate: &str) -> Reservations {
    let rate: RateText = rate.parse().unwrap();
    let rates = vec![rate.resolve(&Defaults::default()).unwrap(); limits];
    let most = vec![400; limits];
    let terms = BookingTerms { span: 20, longest_span: 30, most, validity: 4, ..BookingTerms::default() };
    Reservations::new(&rates, BookingTerms { patience: PATIENCE, ..terms }, true)
}

/// What the run itself knows stays.
#[test]
fn the_terms_of_new_limits_are_taken_once() {
    let mut claims = shared(1);
    claims.terms.answers_within = 9;
    let new = BookingTerms { span: 1, changes: 1, ..BookingTerms::default() };
    assert_eq!(
        [0, 1, 1, 0].map(|changes| claims.follow(&BookingTerms { changes, ..new.clone() })),
        [false, true, false, false]
    );
    assert_eq!(claims.terms, BookingTerms { patience: PATIENCE, answers_within: 9, ..new });
}

/// Slots that all keys share.
fn shared(limits: usize) -> Reservations {
    reservations(limits, "9/s")
}

/// Slots of each key.
fn keyed(limits: usize) -> Reservations {
    reservations(limits, "9/s,key=col:1")
}

/// The first slot of a request.
fn first(claims: &Reservations, request: &Request) -> Time {
    claims.opening(request, request.eligible_at).from
}

/// Takes slots for up to `most` releases.
fn take(claims: &mut Reservations, now: u64, request: &Request, most: u64) -> Vec<Taken> {
    claims.take(Time(now), request, most).into_iter().filter_map(|(_, taken)| taken).collect()
}

/// Takes slots, of which one is used by a release that is over at `end`.
fn use_one(claims: &mut Reservations, now: u64, request: &Request, most: u64, end: u64) -> Option<Order> {
    let taken = take(claims, now, request, most).remove(0);
    claims.commit(Time(end), taken, 1)
}

fn slots(instants: &[(u64, u64)]) -> Vec<Slot> {
    instants.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }).collect()
}

fn request<'a>(eligible_at: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
    Request { eligible_at: Time(eligible_at), costs, keys, waits: true }
}

/// Releases that cost this, of one lane, next in line at `eligible_at`.
fn demand<const N: usize>(eligible_at: u64, costs: &[u64; N], count: u64, before: u64) -> Demand<'_> {
    Demand { request: request(eligible_at, costs, &[]), count, within: u64::MAX, before, lane: 0 }
}

/// The answer of a store to an order at 0, with nothing overrun.
fn put(claims: &mut Reservations, key: &Key, costs: &[u64], instants: &[(u64, u64)]) {
    let answer = Answer { slots: slots(instants), ..Answer::default() };
    claims.apply(Time(0), &Order::new(key.clone(), costs, 1), &answer);
}

/// The number of slots that can be used at `now`.
fn usable(claims: &mut Reservations, now: u64, request: &Request) -> usize {
    let taken = take(claims, now, request, 9);
    let count = taken.iter().map(|taken| taken.slots.len()).sum();
    taken.into_iter().for_each(|taken| _ = claims.commit(Time(now), taken, 0));
    count
}

#[test]
fn one_release_goes_in_each_slot_and_not_after_it() {
    let mut claims = shared(1);
    let one = request(3, &[1], &[]);
    assert_eq!(first(&claims, &one), Time::NEVER);
    put(&mut claims, &Key::new(), &[1], &[(5, 7), (5, 7), (9, 11)]);
    assert_eq!(first(&claims, &one), Time(5));
    assert_eq!([4, 5, 7, 8].map(|now| usable(&mut claims, now, &one)), [0, 2, 2, 0]);
    assert_eq!(use_one(&mut claims, 5, &one, 1, 7), None);
    claims.expire(Time(7));
    assert_eq!((first(&claims, &request(6, &[1], &[])), claims.have_lost()), (Time(6), false));
    claims.expire(Time(8));
    assert_eq!((first(&claims, &one), claims.have_lost()), (Time(9), true));
    assert_eq!(use_one(&mut claims, 9, &one, 9, 9), None);
    assert!(!claims.have_lost());
    assert_eq!((first(&claims, &one), claims.keys.len()), (Time::NEVER, 0));
}

#[test]
fn a_slot_is_for_the_key_and_the_costs_that_it_was_booked_for() {
    let mut claims = keyed(2);
    let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
    put(&mut claims, &a[0], &[1, 2], &[(5, 7)]);
    assert_eq!(first(&claims, &request(0, &[1, 2], &a)), Time(5));
    assert_eq!(first(&claims, &request(0, &[1, 2], &b)), Time::NEVER);
    assert_eq!(first(&claims, &request(0, &[2, 2], &a)), Time::NEVER);
    put(&mut claims, &a[0], &[2, 2], &[(8, 9)]);
    assert_eq!(first(&claims, &request(0, &[1, 2], &a)), Time(5));
    assert_eq!(first(&claims, &request(0, &[2, 2], &a)), Time(8));
}

#[test]
fn a_slot_is_for_all_keys_if_they_share_their_limits() {
    let mut claims = shared(1);
    let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
    put(&mut claims, &Key::new(), &[1], &[(5, 7)]);
    assert_eq!(first(&claims, &request(0, &[1], &a)), Time(5));
    assert_eq!(take(&mut claims, 5, &request(0, &[1], &b), 9)[0].slots.len(), 1);
    assert!(take(&mut claims, 5, &request(0, &[1], &a), 9).is_empty());
}

/// Those of other keys are of a state of their own.
#[test]
fn slots_are_given_up_with_the_state_in_which_they_were_booked() {
    let mut claims = keyed(1);
    let keys = [b"a", b"b"].map(|key| [Key::from_slice(key)]);
    keys.iter().for_each(|[key]| put(&mut claims, key, &[1], &[(5, 7), (8, 9)]));
    let answer = Answer { slots: slots(&[(20, 22)]), lost: true, ..Answer::default() };
    claims.apply(Time(1), &Order::new(keys[0][0].clone(), [1], 1), &answer);
    let firsts = keys.each_ref().map(|key| first(&claims, &request(0, &[1], key)));
    assert_eq!(firsts, [20, 5].map(Time));
}

#[test]
fn what_arrived_before_a_slot_is_free_is_refused() {
    let mut claims = shared(1);
    let early = request(6, &[1], &[]);
    assert_eq!(claims.expected(&early), None);
    let task = |within| Task::Book(Wanted { count: 1, within, ..Wanted::default() });
    let order = |within| Order::new(Key::new(), [1], 1).with(task(within));
    let next = |at| Answer { next: Some(Time(at)), ..Answer::default() };
    claims.apply(Time(5), &order(0), &next(7));
    assert_eq!(claims.expected(&early), Some(Time(7)));
    for other in [request(7, &[1], &[]), request(6, &[2], &[])] {
        assert_eq!(claims.expected(&other), None);
    }
    claims.apply(Time(8), &order(0), &Answer::default());
    assert_eq!(claims.expected(&early), Some(Time(7)), "it may still be judged");
    claims.apply(Time(8), &order(9), &Answer::default());
    assert_eq!(claims.expected(&early), None);
    assert_eq!(claims.keys.len(), 0);
}

/// The instants of which are in the order of the lane, or later ones would be of no use.
#[test]
fn what_follows_in_a_lane_is_booked_with_it_as_long_as_that_has_slots() {
    // Its cost, the number of such releases, and of those before them.
    let lane = [([2], 1, 0), ([1], 50, 1), ([3], 1, 30), ([2], 9, 39), ([4], 9, 48)];
    let wanted = |claims: &mut Reservations, lane: &[([u64; 1], u64, u64)]| {
        let demands = lane.iter().map(|(costs, count, before)| demand(1, costs, *count, *before));
        let Steps { orders, again, .. } = claims.want(Time(1), demands, u64::MAX);
        let orders = orders.iter().filter_map(|order| Some((order.costs[0], order.wanted()?.count)));
        (orders.collect::<Vec<_>>(), again)
    };
    // Two orders of 20 at most, and nothing after what is not ordered yet.
    assert_eq!(wanted(&mut shared(1), &lane), (vec![(2, 1), (1, 20)], None));
    let apart = [([2], 1, 0), ([1], 3, 1), ([3], 1, 4), ([2], 9, 5)];
    assert_eq!(wanted(&mut shared(1), &apart), (vec![(2, 1), (1, 3), (3, 1), (2, 9)], None));
    let mut turned_away = shared(1);
    assert_eq!(wanted(&mut turned_away, &lane[..1]), (vec![(2, 1)], None));
    let answer = Answer { ask_again: Some(Time(SECOND)), ..Answer::default() };
    turned_away.heard(Time(1), &Order::new(Key::new(), [2], 1), &answer);
    assert_eq!(wanted(&mut turned_away, &lane), (vec![], Some(Time(SECOND))));
    for (first, expected) in [(5, vec![(1, 20)]), (SECOND, vec![])] {
        let mut claims = shared(1);
        put(&mut claims, &Key::new(), &[2], &[(first, first)]);
        assert_eq!(wanted(&mut claims, &lane[..3]).0, expected);
    }
}

#[test]
fn lanes_that_are_charged_the_same_need_slots_together() {
    let [zero, one, two] = [0, 1, 2].map(Time);
    let mut claims = shared(1);
    let (cheap, dear): (Arc<[u64]>, Arc<[u64]>) = ([1].into(), [2].into());
    let mut runs = Vec::new();
    let wanted = [(&cheap, 2, two, 4), (&dear, 1, zero, 0), (&cheap, 2, one, 3), (&cheap, 1, two, 0)];
    for (costs, count, eligible_at, within) in wanted {
        let request = request(eligible_at.0, costs, &[]);
        claims.need(&Demand { request, count, within, before: 0, lane: 0 }, None, &mut runs);
    }
    let runs: Vec<_> = runs.iter().map(|run| (&run.costs, run.near, run.eligible_at, run.within)).collect();
    assert_eq!(runs, [(&cheap, 5, one, 4), (&dear, 1, zero, 0)]);
    let mut needed = |key: &[u8], costs: &[u64]| {
        let TotalDemand { count, eligible_at, .. } = claims.of(&key.into()).lease(costs).demand;
        (count, eligible_at)
    };
    assert_eq!(needed(&[], &cheap), (5, one));
    assert_eq!(needed(&[], &dear), (1, zero));
    assert_eq!(needed(b"a", &dear), (0, zero));
}

#[test]
fn a_hold_is_lifted_by_an_answer_that_knows_of_its_report() {
    let mut claims = shared(1);
    let one = request(0, &[1], &[]);
    let book = |count| Order::new(Key::new(), [1], count);
    let held = |until| Answer { held: Some(Time(until)), ..Answer::default() };
    put(&mut claims, &Key::new(), &[1], &[(5, 7), (20, 22)]);
    let report = claims.hold(Time(0), &one, Time(15));
    // Of several, the longest counts.
    let shorter = claims.hold(Time(0), &one, Time(9));
    let mut hear = |now, order: &Order, answer: &Answer| {
        claims.heard(Time(now), order, answer);
        let news = claims.take_news().map(|news| news.from().0);
        (claims.held_until(&one).0, claims.slots(&one).count(), news)
    };
    assert_eq!(hear(1, &book(0), &Answer::default()), (15, 0, Some(0)));
    assert_eq!(hear(2, &report, &held(20)), (20, 0, Some(2)));
    assert_eq!(hear(3, &shorter, &held(20)), (20, 1, Some(3)));
    // The report of an overrun is answered whether or not there is a hold.
    assert_eq!(hear(4, &book(0).with(Task::Late(0, Time(4))), &Answer::default()), (20, 1, Some(4)));
    assert_eq!(hear(5, &book(0), &held(20)), (20, 1, Some(5)));
    assert_eq!(hear(6, &book(0), &Answer::default()), (0, 1, Some(6)));
    assert_eq!(hear(7, &book(0), &Answer::default()), (0, 1, None));
    assert_eq!(hear(8, &book(0), &held(21)), (21, 0, Some(8)));
}

#[test]
fn news_is_of_the_earliest_answer() {
    for instants in [[20, 10], [10, 20]] {
        let mut claims = shared(1);
        for at in instants {
            let answer = Answer { slots: slots(&[(at, at)]), ..Answer::default() };
            claims.heard(Time(1), &Order::new(Key::new(), [1], 1), &answer);
        }
        assert_eq!(claims.take_news().map(|news| news.from()), Some(Time(10)));
    }
}

#[test]
fn orders_that_were_turned_away_are_made_again_one_by_one() {
    for instants in [[50, 90], [90, 50]] {
        let mut claims = keyed(1);
        let keys = [b"a", b"b"].map(|key| [Key::from_slice(key)]);
        for ([key], at) in keys.iter().zip(instants) {
            let answer = Answer { ask_again: Some(Time(at)), ..Answer::default() };
            claims.heard(Time(1), &Order::new(key.clone(), [1], 1), &answer);
        }
        let mut want = |now| {
            let one = demand(0, &[1], 1, 0);
            let demands = keys.each_ref().map(|keys| Demand { request: request(0, &[1], keys), ..one });
            let steps = claims.want(Time(now), demands.into_iter(), 9);
            (steps.orders.len(), steps.again)
        };
        assert_eq!([2, 50].map(&mut want), [(0, Some(Time(50))), (1, Some(Time(90)))]);
    }
}

#[test]
fn keys_that_are_not_asked_for_again_take_no_memory() {
    let mut claims = keyed(1);
    for number in 0..10_000u64 {
        let (order, now) =
            (Order::new(Key::from_slice(&number.to_le_bytes()), [1], 2), Time(number * SECOND));
        claims.of(&order.key).lease(&[1]).not_before = Some((now, None));
        let held = Some(now.saturating_add(SECOND)).filter(|_| number % 2 == 0);
        claims.apply(now, &order, &Answer { next: Some(now), held, ..Answer::default() });
    }
    assert!(claims.keys.len() < 1000, "{}", claims.keys.len());
}

/// An overrun replaces the first slots that were booked before it was known.
#[test]
fn slots_are_given_up_for_what_was_overrun() {
    let overruns = |costs: [u64; 2], until| Overruns { costs: costs.into(), until: Time(until) };
    // What was overrun, until when that matters, and which slots are left. Those at 5, 8 and 12 cost (1, 0), the
    // one at 6 costs (1, 2).
    let table: [([u64; 2], u64, &[u64]); 7] = [
        ([0, 0], 0, &[5, 6, 8, 12]),
        ([1, 0], 99, &[6, 8, 12]),
        ([2, 0], 99, &[8, 12]),
        ([0, 1], 99, &[5, 8, 12]),
        ([2, 1], 99, &[8, 12]),
        ([9, 9], 12, &[12]),
        ([9, 0], 5, &[5, 6, 8, 12]),
    ];
    for (costs, until, left) in table {
        let mut claims = shared(2);
        let answer = |at: &[(u64, u64)], overruns| Answer { slots: slots(at), overruns, ..Answer::default() };
        let (cheap, dear) = (Order::new(Key::new(), [1, 0], 9), Order::new(Key::new(), [1, 2], 9));
        claims.apply(Time(0), &cheap, &answer(&[(5, 7), (8, 9), (12, 14)], overruns([3, 4], 4)));
        claims.apply(Time(0), &dear, &answer(&[(6, 7)], overruns([3, 4], 4)));
        let now = answer(&[(30, 31)], overruns([3 + costs[0], 4 + costs[1]], until));
        claims.apply(Time(1), &cheap, &now);
        let [mut found, dear] = [[1, 0], [1, 2]].map(|costs| {
            let request = request(0, &costs, &[]);
            claims.slots(&request).map(|slot| slot.at.0).filter(|at| *at < 30).collect::<Vec<_>>()
        });
        found.extend(dear);
        found.sort_unstable();
        assert_eq!(found, left, "{costs:?} until {until}");
    }
}

/// Only the answer tells which of the others are too close.
#[test]
fn no_slot_is_used_until_a_report_is_answered() {
    let mut claims = shared(1);
    let one = request(0, &[1], &[]);
    put(&mut claims, &Key::new(), &[1], &[(5, 7), (5, 7), (9, 11), (20, 22)]);
    let taken = take(&mut claims, 6, &one, 2).remove(0);
    let report = claims.commit(Time(8), taken, 2).expect("both were late");
    assert_eq!(report.task, Task::Late(2, Time(8)));
    // The answer to an earlier order.
    put(&mut claims, &Key::new(), &[1], &[(10, 12)]);
    assert_eq!((first(&claims, &one), usable(&mut claims, 10, &one)), (Time::NEVER, 0));
    assert_eq!(claims.take_surplus(Time(8)), []);
    let overruns = Overruns { costs: [2].into(), until: Time(15) };
    claims.apply(Time(9), &report, &Answer { overruns, ..Answer::default() });
    assert_eq!(first(&claims, &one), Time(20));
}

#[test]
fn a_report_is_remembered_without_slots() {
    let mut claims = shared(1);
    let one = request(0, &[1], &[]);
    put(&mut claims, &Key::new(), &[1], &[(5, 7)]);
    assert!(use_one(&mut claims, 5, &one, 1, 8).is_some());
    claims.want(Time(8), std::iter::empty(), 9);
    put(&mut claims, &Key::new(), &[1], &[(10, 12)]);
    assert_eq!(first(&claims, &one), Time::NEVER);
}

/// A slot that is over allows no release anyway; giving it up would spare one that is too close.
#[test]
fn no_slot_that_is_over_is_given_up_in_place_of_another() {
    let mut claims = shared(1);
    put(&mut claims, &Key::new(), &[1], &[(5, 7), (9, 11), (20, 22)]);
    let overruns = Overruns { costs: [1].into(), until: Time(15) };
    let check = Order::new(Key::new(), [1], 0);
    claims.apply(Time(8), &check, &Answer { overruns, ..Answer::default() });
    assert_eq!(first(&claims, &request(0, &[1], &[])), Time(20));
}

/// A store that has lost its state counts from 0 again.
#[test]
fn slots_are_given_up_for_a_report_whatever_the_store_has_counted() {
    for counted in [1, 5, 6] {
        let mut claims = shared(1);
        let one = request(0, &[1], &[]);
        let answer = |slots, overrun, until| {
            let overruns = Overruns { costs: [overrun].into(), until: Time(until) };
            Answer { slots, overruns, ..Answer::default() }
        };
        let slots = slots(&[(5, 7), (9, 11), (20, 22)]);
        claims.apply(Time(0), &Order::new(Key::new(), [1], 3), &answer(slots, 5, 0));
        let report = use_one(&mut claims, 5, &one, 1, 8).expect("it was late");
        claims.apply(Time(8), &report, &answer(Vec::new(), counted, 15));
        assert_eq!(first(&claims, &one), Time(20), "{counted}");
    }
}

#[test]
fn what_costs_nothing_needs_no_slot() {
    let mut claims = shared(2);
    let free = request(3, &[0, 0], &[]);
    assert_eq!(first(&claims, &free), Time(3));
    assert_eq!(claims.check(Time(3), &free), Ok(()));
    claims.hold(Time(3), &request(3, &[1, 1], &[]), Time(9));
    assert_eq!(first(&claims, &free), Time(9));
}

#[test]
fn a_slot_is_not_used_from_the_instant_on_that_is_to_be_confirmed() {
    let mut claims = shared(1);
    let mut hear = |now, count, at: &[(u64, u64)], confirm_from: Option<u64>| {
        let answer = Answer { slots: slots(at), confirm_from: confirm_from.map(Time), ..Answer::default() };
        claims.heard(Time(now), &Order::new(Key::new(), [1], count), &answer);
        let good = claims.slots(&request(0, &[1], &[])).map(|slot| slot.at.0).collect::<Vec<_>>();
        (good, claims.take_news().map(|news| news.from()))
    };
    assert_eq!(hear(1, 3, &[(5, 7), (9, 11), (20, 22)], Some(9)), (vec![5], Some(Time(5))));
    // Others may be good now, but none was booked.
    assert_eq!(hear(2, 0, &[], None), (vec![5], Some(Time::NEVER)));
    assert_eq!(hear(3, 0, &[], Some(21)), (vec![5, 9, 20], Some(Time::NEVER)));
    assert_eq!(hear(4, 0, &[], None), (vec![5, 9, 20], None));
}

#[test]
fn what_lacks_a_slot_waits_for_the_limit_once_the_store_has_said_so() {
    let mut claims = shared(2);
    let order = Order::new(Key::new(), [0, 1], 1);
    let blocked = |claims: &Reservations, costs: [u64; 2]| {
        let Blocked { by, until } = claims.blocked(&request(0, &costs, &[]));
        let By::Slot(limit) = by else { panic!("{by:?}") };
        (limit, until)
    };
    let want = |claims: &mut Reservations, now| {
        let wanted = claims.want(Time(now), [demand(0, &[0, 1], 1, 0)].into_iter(), 9);
        assert_eq!(wanted.orders.len(), 1);
    };
    assert_eq!(blocked(&claims, [0, 1]), (None, None));
    want(&mut claims, 0);
    assert_eq!(blocked(&claims, [0, 1]), (None, None), "it waits for the answer");
    claims.heard(Time(1), &order, &Answer { ask_again: Some(Time(50)), ..Answer::default() });
    assert_eq!(blocked(&claims, [0, 1]), (Some(1), None));
    want(&mut claims, 50);
    assert_eq!(blocked(&claims, [0, 1]), (None, None));
    let next = Answer { ask_again: Some(Time(60)), next: Some(Time(70)), ..Answer::default() };
    claims.heard(Time(51), &order, &next);
    want(&mut claims, 60);
    assert_eq!(blocked(&claims, [0, 1]), (Some(1), Some(Time(70))));
    claims.heard(Time(61), &order, &Answer { slots: slots(&[(80, 90)]), ..Answer::default() });
    assert_eq!(blocked(&claims, [0, 1]), (Some(1), None));
    // It is not known which of two holds it up.
    put(&mut claims, &Key::new(), &[1, 1], &[(80, 90)]);
    assert_eq!(blocked(&claims, [1, 1]), (None, None));
}

#[test]
fn other_limits_leave_no_slots_but_holds() {
    let mut claims = keyed(1);
    let [a, b] = [b"a", b"b"].map(|key| [Key::from_slice(key)]);
    put(&mut claims, &a[0], &[1], &[(5, 7)]);
    claims.hold(Time(0), &request(0, &[1], &b), Time(15));
    let (version, news) = (claims.version(), claims.take_news());
    assert!(news.is_some_and(|news| news.concerns(&b) && !news.concerns(&a)));
    claims.change(Time(1), &["9/h,key=col:1".parse().unwrap()]);
    assert_eq!((first(&claims, &request(0, &[1], &a)), claims.keys.len()), (Time::NEVER, 1));
    assert_eq!(claims.held_until(&request(0, &[1], &b)), Time(15));
    assert!(claims.version() > version && claims.take_news().is_some_and(|news| news.concerns(&a)));
}

#[test]
fn turns_are_given_up_at_the_end() {
    let mut slots = shared(1);
    let order = Order::new(Key::new(), [1], 1);
    let turn = Some(Turn(7));
    slots.heard(Time(1), &order, &Answer { ask_again: Some(Time(90)), turn, ..Answer::default() });
    assert_eq!(slots.close(Time(2)).orders, [order.with(Task::GiveBack(Vec::new(), turn))]);
    assert_eq!(slots.close(Time(3)).orders, []);
}

/// At the end, an answer still to come is waited for, but not for ever.
#[test]
fn the_end_waits_for_an_answer_for_a_while() {
    let mut slots = shared(1);
    assert_eq!(slots.last_answer(Time(0)), None);
    assert_eq!(slots.want(Time(1), [demand(1, &[1], 3, 0)].into_iter(), 9).orders.len(), 1);
    assert_eq!([1, 7].map(|now| slots.last_answer(Time(now))), [Some(Time(8)), Some(Time(8))]);
    assert_eq!(slots.last_answer(Time(8)), None);
}

#[test]
fn slots_are_given_up_once_the_wall_clock_is_set() {
    let mut slots = reservations(1, "2/d,algo=calendar,tz=UTC");
    let key = Key::new();
    let order = |count| Order::new(key.clone(), [1], count);
    let booked = [3, 9].map(|at| Slot { at: Time(at), until: Time(at + 5) });
    let ask_again = Some(Time(90));
    let answer = |shown| {
        let booked_by = Some(BookedBy::Wall(Wall::new(Time(1), Time(shown))));
        Answer { slots: booked.into(), ask_again, booked_by, ..Answer::default() }
    };
    let count = |slots: &Reservations| slots.until(Time::NEVER);
    slots.set_wall(Time(1), Wall::new(Time(1), Time(51)));
    slots.heard(Time(1), &order(2), &answer(50));
    // By up to half of the reserve, altogether.
    for shown in [53, 54, 55] {
        slots.set_wall(Time(4), Wall::new(Time(4), Time(shown)));
        assert_eq!(count(&slots), 2);
    }
    let version = slots.version();
    slots.set_wall(Time(4), Wall::new(Time(4), Time(56)));
    assert!(count(&slots) == 0 && slots.version() > version);
    let orders = slots.want(Time(4), [demand(1, &[1], 3, 0)].into_iter(), 9).orders;
    // The first one had begun.
    assert_eq!(orders[0], order(1).with(Task::GiveBack(vec![booked[1]], None)));
    assert!(orders.len() == 2 && orders[1].wanted().is_some());
    // Those on their way were booked by the clock as it was.
    slots.heard(Time(5), &order(2), &answer(50));
    slots.set_wall(Time(5), Wall::new(Time(5), Time(57)));
    assert_eq!((count(&slots), slots.surrendered.len()), (0, 1));
    assert!(slots.of(&key).lease(&[1]).not_before.is_none());
    // Those of another run were booked by another clock, so that state has let go of ours.
    [52, 53].into_iter().for_each(|shown| slots.heard(Time(5), &order(2), &answer(shown)));
    assert_eq!((count(&slots), slots.surrendered.len()), (2, 2));
    // A server has its own clock.
    let mut far = reservations(1, "2/d,algo=calendar,tz=UTC");
    for (times_set, given_up) in [(0, 0), (0, 0), (1, 1)] {
        let slots = if times_set == 0 && count(&far) > 0 { vec![] } else { booked.into() };
        let booked_by = Some(BookedBy::Server(times_set));
        far.heard(Time(1), &order(2), &Answer { slots, booked_by, ..answer(50) });
        far.set_wall(Time(1), Wall::new(Time(1), Time(90)));
        assert_eq!((count(&far), far.surrendered.len()), (2, given_up));
    }
}

/// The first and the last of a lane cost the same. What was said of the first stands until it is ordered again.
#[test]
fn an_answer_to_what_follows_a_release_without_a_slot_says_nothing() {
    let mut claims = shared(1);
    let demands = [demand(1, &[2], 1, 0), demand(1, &[1], 1, 1), demand(1, &[2], 1, 2)];
    let orders = claims.want(Time(1), demands.into_iter(), u64::MAX).orders;
    assert_eq!(orders.len(), 3);
    let (ask_again, turn) = (Some(Time(SECOND)), Some(Turn(5)));
    let first = Answer { ask_again, next: Some(Time(9 * SECOND)), turn, ..Answer::default() };
    claims.heard(Time(2), &orders[0], &first);
    orders[1..].iter().for_each(|order| claims.heard(Time(2), order, &Answer::default()));
    let lease = claims.of(&Key::new()).lease(&[2]);
    assert_eq!((lease.next, lease.not_before), (first.next, ask_again.map(|at| (at, turn))));
    assert!(claims.of(&Key::new()).lease(&[1]).not_before.is_some_and(|(at, _)| at < Time(SECOND)));
    assert!(!claims.is_asking());
}

/// Otherwise its slots would stay out of step with those of the lane before it.
#[test]
fn slots_behind_a_release_that_lacks_one_are_given_back_in_its_lane_alone() {
    let mut claims = shared(1);
    for cost in [[1], [3]] {
        put(&mut claims, &Key::new(), &cost, &[(5, 7)]);
    }
    // The first of the second lane costs nothing.
    let other = Demand { lane: 1, ..demand(1, &[3], 1, 1) };
    let demands = [demand(1, &[2], 1, 0), demand(1, &[1], 1, 1), other];
    let orders = claims.want(Time(1), demands.into_iter(), u64::MAX).orders;
    let costs = |is_meant: fn(&Task) -> bool| {
        orders.iter().filter(|order| is_meant(&order.task)).map(|order| order.costs[0]).collect::<Vec<_>>()
    };
    assert_eq!(costs(|task| matches!(task, Task::GiveBack(..))), [1]);
    assert_eq!(costs(|task| matches!(task, Task::Book(_))), [2, 1]);
}
