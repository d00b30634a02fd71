//! Limits that are shared, by slots that a store books.

use super::*;
use crate::exit::Exit;

fn scene(args: &str, span: u64, most: u64) -> Scene {
    let mut scene = Scene::new(args);
    scene.schedule = scene.schedule.with_bookings(BookingTerms {
        span,
        longest_span: span,
        most: vec![most],
        patience: 20,
    });
    scene
}

#[test]
fn an_item_that_costs_more_than_is_ever_admitted_ends_the_run() {
    scene("-r 9/100ns,cost=col:1", 2, 5)
        .check(&[(0, Input("5\n6\n"), "book 1; wait - or input"), (1, EndOfInput, "wait -")]);
    scene("-r 9/100ns,cost=col:1", 2, 5).check(&[(
        0,
        Input("6\n"),
        "error item 1: its cost of 6 is more than the shared limit ever admits, 5; finish 1",
    )]);
}

#[test]
fn a_store_that_cannot_be_asked_any_more_ends_the_run() {
    let mut scene = scene("-r 1/100ns", 2, 1);
    scene.happens(Time(0), &Input("a\n"));
    scene.actions(0);
    scene.schedule.booking_failed(Exit::StoreAway, anyhow::anyhow!("gone"));
    assert_eq!(scene.actions(1), "error gone; finish 69");
}

#[test]
fn a_slot_says_until_when_its_release_may_leave() {
    let mut scene = scene("-r 1/100ns", 2, 1);
    scene.happens(Time(0), &Input("a\nb\n"));
    scene.actions(0);
    scene.happens(Time(1), &Booked(&[10, 110]));
    scene.actions(1);
    scene.happens(Time(10), &Due);
    let Action::Send(admission) = scene.schedule.poll(Time(10), scene.capacity) else { panic!("it may go") };
    assert_eq!(admission.good_until(), Some(Time(15)));
    scene.schedule.sent(Time(11), admission, 1);
}

#[test]
fn lanes_that_are_alike_in_nothing_share_the_vacancies() {
    let mut scene = Scene::new("-r 9/s,key=col:1 -j 7 -- cmd");
    scene.schedule =
        scene.schedule.with_bookings(BookingTerms { span: 3, longest_span: 3, most: vec![9], patience: 20 });
    scene.check(&[
        // Of a, no more than 3 at once; of b, as many as there are; of c, what is left.
        (0, Input("a\na\na\na\nb\nc\nc\nc\nd\n"), "book 3; book 1; book 3; wait - or input"),
    ]);
}

/// Or else it would be formed again and again, and be late each time.
#[test]
fn a_batch_that_is_formed_too_late_is_made_smaller_for_a_while() {
    let mut scene = scene("-r 99/s,cost=col:1 -B 8", 9, 99);
    scene
        .happens(Time(0), &Input("1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n"));
    scene.happens(Time(0), &EndOfInput);
    let mut batch_for = |slot: &'static [u64], cost| {
        let now = slot[0];
        scene.actions(now);
        scene.happens(Time(now), &BookedFor("", cost, slot));
        scene.happens(Time(now), &Due);
        let Action::Send(admission) = scene.schedule.poll(Time(now), scene.capacity) else {
            panic!("at {now}")
        };
        let items = admission.batch().items();
        match now {
            ..30 => scene.schedule.late(Time(now + 6), admission),
            _ => scene.schedule.sent(Time(now), admission, items),
        }
        items
    };
    let items = [(&[10], 8), (&[20], 4), (&[30], 2), (&[40], 2), (&[50], 4)]
        .map(|(slot, cost)| batch_for(slot, cost));
    assert_eq!(items, [8, 4, 2, 2, 4]);
}

#[test]
fn a_batch_takes_one_slot() {
    scene("-r 9/s -B 2", 9, 9).check(&[
        (0, Input("a\nb\nc\n"), "wait 0 or input"),
        (0, Due, "book 2; wait - or input"),
        (1, Booked(&[10, 20]), "wait 1 or input"),
        (1, Due, "wait 10 or input"),
    ]);
}

#[test]
fn slots_are_booked_ahead_for_what_is_known_to_wait() {
    let items = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
    scene("-r 9/s", 4, 9).check(&[
        (0, Input(items), "book 4; wait - or input"),
        (1, Booked(&[10, 20, 30, 40]), "book 4; wait 10 or input"),
    ]);
}

#[test]
fn what_costs_nothing_is_not_booked_for() {
    Scene { busy: Some(50), ..scene("-r 9/100ns,cost=col:1", 2, 9) }
        .check(&[(0, Input("0 a\n"), "busy 0 a; wait 50 or input"), (50, Due, "send 0 a; wait - or input")]);
}

/// An item that is tried again goes first, and what waits behind it is composed anew.
fn batch_composed_anew(answer: &Answer) -> Scene {
    let mut scene = scene("-r 9/100ns,cost=col:1 -B 4 --retries 1 -j 2 -- cmd", 2, 9);
    let mut rows = |rows: &[(u64, Event, &str)]| {
        for (at, event, expected) in rows {
            scene.happens(Time(*at), event);
            assert_eq!(scene.actions(*at), *expected, "at {at}");
        }
    };
    rows(&[
        (0, Input("0 x\n"), "wait 0 or input"),
        (0, Due, "send 0 x; wait - or input"),
        (1, Input("2 a\n3 b\n"), "wait 1 or input"),
        (1, Due, "book 1; wait - or input"),
    ]);
    let order = Order::new(Key::new(), [5], 1);
    scene.schedule.booked(Time(2), &order, answer.clone());
    scene.happens(Time(3), &EndedAndAsks(1, 1, 20));
    scene.actions(3);
    let hold = Order { hold: Some(Time(23)), ..Order::new(Key::new(), [0], 0) };
    scene.schedule.booked(Time(4), &hold, Answer { held: hold.hold, ..Answer::default() });
    scene.actions(4);
    scene.happens(Time(23), &Due);
    assert_eq!(scene.actions(23), "send 0 x; wait 23 or input");
    scene
}

#[test]
fn a_batch_is_closed_again_if_there_is_a_slot_for_its_costs() {
    let slots = vec![Slot { at: Time(100), until: Time(105) }];
    batch_composed_anew(&Answer { slots, ..Answer::default() }).check(&[
        (23, Due, "wait 23 or input"),
        (23, Due, "wait 100 or input"),
        (24, Input("1 c\n"), "wait 24 or input"),
        (24, Due, "wait 100 or input"),
        (100, Due, "send 2 a 3 b; wait -"),
    ]);
}

#[test]
fn a_batch_that_was_turned_away_takes_what_comes() {
    batch_composed_anew(&Answer { ask_again: Some(Time(300)), ..Answer::default() }).check(&[
        (23, Due, "wait 300 or input"),
        (24, Input("1 c\n"), "wait 24 or input"),
        (24, Due, "book 1; wait - or input"),
    ]);
}

/// The store keeps what a server has asked for: it may be lifted there.
#[test]
fn what_a_server_asks_for_is_told_to_the_store_and_no_slot_is_used_before() {
    let mut scene = scene("-r 9/100ns -j 9 -- cmd", 2, 9);
    let mut rows = |rows: &[(u64, Event, &str)]| {
        for (at, event, expected) in rows {
            scene.happens(Time(*at), event);
            assert_eq!(scene.actions(*at), *expected, "at {at}");
        }
    };
    rows(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (1, Booked(&[10, 40]), "wait 10 or input"),
        (10, Due, "send a; wait 40 or input"),
        (11, EndedAndAsks(1, 0, 50), "hold until 61; book 1; wait - or input"),
        // What was asked before was booked before.
        (12, Booked(&[20]), "wait - or input"),
    ]);
    let hold = Order { hold: Some(Time(61)), ..Order::new(Key::new(), [1], 0) };
    scene.schedule.booked(Time(13), &hold, Answer { held: Some(Time(90)), ..Answer::default() });
    assert_eq!(scene.actions(13), "book 1; wait - or input");
    let order = Order::new(Key::new(), [1], 1);
    let told = Answer { held: Some(Time(90)), ask_again: Some(Time(30)), ..Answer::default() };
    scene.schedule.booked(Time(14), &order, told);
    assert_eq!(scene.actions(14), "wait 30 or input");
    // It is lifted.
    scene.happens(Time(30), &Due);
    assert_eq!(scene.actions(30), "book 1; wait - or input");
    scene.happens(Time(31), &Booked(&[35]));
    assert_eq!(scene.actions(31), "wait 35 or input");
    scene.happens(Time(35), &Due);
    assert_eq!(scene.actions(35), "send b; wait - or input");
}
