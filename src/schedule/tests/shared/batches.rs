//! Batches, each of which takes one slot of a store.

use super::*;

/// Otherwise it would be formed again and again, and be late each time.
#[test]
fn a_batch_that_is_formed_too_late_is_made_smaller_for_a_while() {
    let mut scene = scene("-r 99/s,cost=col:1 -B 8", 9, 99);
    scene.happens(Time(0), &Input("1\n".repeat(24).leak()));
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

/// A retried item goes first, and the batch is formed again with those behind it.
fn batch_composed_anew(answer: &Answer) -> Scene {
    let mut scene = scene("-r 9/100ns,cost=col:1 -B 4 --retries 1 -j 2 -- cmd", 2, 9);
    scene.follow(&[
        (0, Input("0 x\n"), "wait 0 or input"),
        (0, Due, "send 0 x; wait - or input"),
        (1, Input("2 a\n3 b\n"), "wait 1 or input"),
        (1, Due, "book 1; wait - or input"),
    ]);
    let order = Order::new(Key::new(), [5], 1);
    scene.schedule.booked(Time(2), &order, answer.clone());
    scene.go_through(&[(3, EndedAndAsks(1, 1, 20))]);
    let hold = Order::new(Key::new(), [0], 0).with(Task::Hold(Time(23)));
    scene.schedule.booked(Time(4), &hold, Answer { held: Some(Time(23)), ..Answer::default() });
    scene.actions(4);
    scene.follow(&[(23, Due, "send 0 x; wait 23 or input")]);
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

#[test]
fn a_batch_is_closed_when_a_slot_for_its_costs_is_asked_for() {
    Scene::shared("-r 9/100ns,cost=col:1 -B 3").check(&[
        (0, Input("2 a\n3 b\n"), "wait 0 or input"),
        (0, Due, "book 1; wait - or input"),
        // It would fit, but the batch is closed.
        (1, Input("1 c\n"), "wait 1 or input"),
        (1, Due, "wait - or input"),
        (2, BookedFor("", 5, &[10]), "wait 2 or input"),
        (2, Due, "wait 10 or input"),
        (10, Due, "send 2 a 3 b; wait 10 or input"),
        (10, Due, "book 1; wait - or input"),
        (11, EndOfInput, "wait -"),
        // It was too late for the first slot.
        (11, BookedFor("", 1, &[12]), "wait 12"),
        (18, Due, "book 1; wait -"),
        (19, BookedFor("", 1, &[20]), "wait 20"),
        (20, Due, "send 1 c; finish 0"),
    ]);
    // No batch costs more than is ever granted, and a batch that may wait for more is not closed before it is full.
    Scene::shared("-r 9/100ns,cost=col:1 -B 3,50ns").check(&[
        (0, Input("6 a\n"), "wait 0 or input"),
        (0, Due, "wait 50 or input"),
        (1, Input("4 b\n"), "wait 1 or input"),
        (1, Due, "book 1; wait - or input"),
        (51, BookedFor("", 6, &[60]), "wait 51 or input"),
        (60, Due, "send 6 a; wait 60 or input"),
        (60, Due, "book 1; wait - or input"),
        (61, BookedFor("", 4, &[61]), "wait 61 or input"),
        (61, Due, "send 4 b; wait - or input"),
    ]);
}

#[test]
fn slots_are_asked_for_once_no_more_items_of_a_batch_can_be_read() {
    Scene::shared("-r 1/100ns,key=col:1 -B 3,1h --lookahead 2").check(&[
        (0, Input("a 1\nb 1\n"), "wait 0 or input"),
        (0, Due, "wait 3600000000000 or input"),
        (1, Input("a 2\na 3\n"), "book 1; book 1; wait -"),
        (2, BookedFor("b", 1, &[5]), "wait 5"),
        (5, Due, "send b 1; wait -"),
        (6, BookedFor("a", 1, &[6]), "send a 1 a 2 a 3; wait - or input"),
    ]);
    // It has lingered until then, whatever it costs.
    Scene::shared("-r 9/100ns,cost=col:2,key=col:1 -B 3,1h --lookahead 2").check(&[
        (0, Input("a 1\nb 1\n"), "wait 0 or input"),
        (0, Due, "wait 3600000000000 or input"),
        (1, Input("b 2\na 1\n"), "book 1; book 1; wait -"),
        (2, BookedFor("b", 3, &[5]), "wait 5"),
        (5, Due, "send b 1 b 2; wait 5 or input"),
    ]);
}

#[test]
fn slots_are_booked_together_only_for_equal_costs() {
    Scene::shared("-r 9/100ns,cost=col:1").check(&[
        (0, Input("1 a\n1 b\n2 c\n1 d\n"), "book 2; book 1; book 1; wait - or input"),
        (1, BookedFor("", 2, &[1]), "wait - or input"),
        (2, BookedFor("", 1, &[1, 3]), "send 1 a; wait 3 or input"),
        // What the first one could use instead would have been for d.
        (2, BookedFor("", 1, &[3]), "wait 3 or input"),
        (3, Due, "send 1 b 2 c 1 d; wait - or input"),
    ]);
}

/// A batch takes what comes until a slot for its own key and costs is asked for.
#[test]
fn only_batches_that_slots_are_asked_for_are_closed() {
    // One lane of b has been turned away, so none is asked for another one that costs the same.
    let args = "-r 9/100ns,cost=col:3,key=col:1 -r 9/s,key=col:2,local -B 3";
    for other in ["a z 2\n", "b z 5\n"] {
        let mut scene = scene(args, 2, 9);
        scene.follow(&[(0, Input("b x 2\n"), "wait 0 or input"), (0, Due, "book 1; wait - or input")]);
        answered(&mut scene, 0, "b", 2, &[], Some(300));
        scene.check(&[
            (1, Input("b y 2\n"), "wait 1 or input"),
            (1, Due, "wait 300 or input"),
            (2, Input(other), "wait 2 or input"),
            (2, Due, "book 1; wait 300 or input"),
            (3, Input("b y 1\n"), "wait 3 or input"),
            (3, Due, "book 1; wait 300 or input"),
        ]);
    }
    for args in [args, "-r 9/100ns,cost=col:3 -r 9/s,key=col:2,local -B 3"] {
        scene(args, 2, 9).check(&[
            (0, Input("a x 2\nb y 4\n"), "wait 0 or input"),
            (0, Due, "book 1; book 1; wait - or input"),
            (1, Input("a x 1\n"), "wait 1 or input"),
            (1, Due, "wait - or input"),
        ]);
    }
}

#[test]
fn a_slot_is_booked_for_one_batch_at_a_time_if_costs_differ() {
    Scene::shared("-r 9/100ns,cost=col:1 -B 2")
        .check(&[(0, Input("1 a\n1 b\n1 c\n1 d\n"), "wait 0 or input"), (0, Due, "book 1; wait - or input")]);
}
