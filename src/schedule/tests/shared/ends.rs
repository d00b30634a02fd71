//! Holds in a store, and how a run ends that waits for one.

use super::*;

#[test]
fn a_store_that_cannot_be_asked_any_more_ends_the_run() {
    let mut scene = scene("-r 1/100ns", 2, 1);
    scene.go_through(&[(0, Input("a\n"))]);
    scene.schedule.booking_failed(Exit::StoreAway, anyhow::anyhow!("gone"));
    assert_eq!(scene.actions(1), "error gone; finish 69");
}

/// A bound on the wait is known before a slot can be asked for.
#[test]
fn a_local_limit_that_is_shut_for_too_long_ends_the_run() {
    scene("-r 9/s -r 1/100ns,local --max-wait 50ns", 2, 9).check(&[
        (0, Input("a\nb\n"), "book 1; wait - or input"),
        (1, Booked(&[1]), "send a; wait 1 or input"),
        (1, Due, "too long by Some(100); finish 75"),
    ]);
}

/// The store keeps the hold that a server asked for, and it may be lifted there.
#[test]
fn what_a_server_asks_for_is_told_to_the_store_and_no_slot_is_used_before() {
    let mut scene = scene("-r 9/100ns -j 9 -- cmd", 2, 9);
    scene.follow(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (1, Booked(&[10, 40]), "wait 10 or input"),
        (10, Due, "send a; wait 40 or input"),
        (11, EndedAndAsks(1, 0, 50), "hold until 61; book 1; wait - or input"),
        // An earlier order, booked before the hold.
        (12, Booked(&[20]), "wait - or input"),
    ]);
    let hold = Order::new(Key::new(), [1], 0).with(Task::Hold(Time(61)));
    scene.schedule.booked(Time(13), &hold, Answer { held: Some(Time(90)), ..Answer::default() });
    assert_eq!(scene.actions(13), "book 1; wait - or input");
    let order = Order::new(Key::new(), [1], 1);
    let told = Answer { held: Some(Time(90)), ask_again: Some(Time(30)), ..Answer::default() };
    scene.schedule.booked(Time(14), &order, told);
    assert_eq!(scene.actions(14), "wait 30 or input");
    // It is lifted.
    scene.check(&[
        (30, Due, "book 1; wait - or input"),
        (31, Booked(&[35]), "wait 35 or input"),
        (35, Due, "send b; wait - or input"),
    ]);
}

#[test]
fn the_first_that_finds_no_slot_free_ends_an_enforced_run() {
    Scene::shared("-r 1/100ns --on-limit fail").check(&[
        (0, Input("a\n"), "ask for 1; wait - or input"),
        (1, Booked(&[1]), "send a; wait - or input"),
        (40, Input("b\n"), "ask for 1; wait - or input"),
        (41, Free(1, &[], 101), "refused 2 early by Some(61); finish 75"),
    ]);
}

/// The next slot is later than the run may wait, so the store only names it.
#[test]
fn a_run_that_would_wait_too_long_ends_at_once() {
    Scene::shared("-r 1/100ns --max-wait 30ns").check(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (1, Booked(&[1]), "send a; book 1; wait - or input"),
        (2, Free(1, &[], 101), "wait 2 or input"),
        (2, Due, "too long by Some(99); finish 75"),
    ]);
}

/// It is as far ahead as its answer may take.
#[test]
fn a_slot_that_is_free_at_once_is_in_time_for_a_run_that_does_not_wait() {
    let terms = BookingTerms { answers_within: 10, ..booking_terms(2, &[9]) };
    Scene::booking("-r 1/100ns --max-wait 0ns", terms).check(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (3, Booked(&[13]), "book 1; wait 13 or input"),
        (13, Due, "send a; wait - or input"),
        (14, Free(1, &[], 113), "wait 14 or input"),
        (14, Due, "too long by Some(99); finish 75"),
    ]);
}

/// A machine that is busy may need longer than a slot lasts to use one that was free at once.
#[test]
fn a_run_that_ends_as_its_slot_has_expired_says_so() {
    Scene::shared("-r 1/100ns --max-wait 30ns").check(&[
        (0, Input("a\n"), "book 1; wait - or input"),
        (7, Booked(&[1]), "book 1; wait - or input"),
        (8, Free(1, &[], 101), "wait 8 or input"),
        (8, Due, "too long by Some(93), a slot was lost; finish 75"),
    ]);
    // A slot that was used is not lost.
    Scene::shared("-r 1/100ns --max-wait 30ns").check(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (7, Booked(&[1]), "book 1; wait - or input"),
        (8, Booked(&[8]), "send a; book 1; wait - or input"),
        (9, Free(1, &[], 108), "wait 9 or input"),
        (9, Due, "too long by Some(99); finish 75"),
    ]);
}

#[test]
fn a_hold_by_another_run_and_a_loss_are_told() {
    let mut scene = Scene::shared("-r 1/100ns");
    let (order, one) = (Order::new(Key::new(), [1], 1), [Slot { at: Time(30), until: Time(35) }]);
    let held = |until| Answer { held: Some(Time(until)), ..Answer::default() };
    let lost = || Answer { warning: Some("all".to_owned()), ..Answer::default() };
    let mut told = |now, order: &Order, answer| {
        scene.schedule.booked(Time(now), order, answer);
        scene.actions(now)
    };
    assert_eq!(told(1, &order, held(50)), "held until 50; wait - or input");
    // That is known, or over, or our own.
    assert_eq!(told(2, &order, held(60)), "wait - or input");
    assert_eq!(told(61, &order, held(61)), "wait - or input");
    assert_eq!(told(62, &order.with(Task::Hold(Time(90))), held(90)), "wait - or input");
    assert_eq!(told(90, &order, held(91)), "held until 91; wait - or input");
    for (answer, silent) in [
        (Answer { slots: one.into(), next: Some(Time(40)), held: Some(Time(30)), ..lost() }, "Some(20)"),
        (Answer { next: Some(Time(40)), held: Some(Time(30)), ..lost() }, "Some(30)"),
        (Answer { held: Some(Time(30)), ..lost() }, "Some(20)"),
        (lost(), "None"),
    ] {
        let mut scene = Scene::shared("-r 1/100ns");
        let order = order.with(Task::Hold(Time(30)));
        scene.schedule.booked(Time(10), &order, answer);
        let actions = scene.actions(10);
        assert!(actions.starts_with(&format!("lost all, silent for {silent};")), "{actions}");
    }
}

#[test]
fn a_hold_and_a_loss_are_told_once_for_all_keys_unless_one_lasts_much_longer() {
    let long = 1_000_000_001;
    let check = |answer: &dyn Fn(Time) -> Answer, told: &dyn Fn(u64, u64) -> String| {
        let mut scene = Scene::shared("-r 1/100ns,key=col:1");
        for (now, key, until, is_told) in [
            (1, "a", 50, true),
            (2, "b", 51, false),
            (3, "c", 50 + long, true),
            (4, "d", 50 + long, false),
            (long + 60, "e", long + 61, true),
        ] {
            let order = Order::new(Key::from_slice(key.as_bytes()), [1], 1);
            scene.schedule.booked(Time(now), &order, answer(Time(until)));
            let notice = if is_told { told(now, until) } else { String::new() };
            assert_eq!(scene.actions(now), format!("{notice}wait - or input"), "{key}");
        }
    };
    let hold = |until| Answer { held: Some(until), ..Answer::default() };
    check(&hold, &|_, until| format!("held until {until}; "));
    let loss = |until| Answer { next: Some(until), warning: Some("all".to_owned()), ..Answer::default() };
    check(&loss, &|now, until| format!("lost all, silent for Some({}); ", until - now));
}

#[test]
fn a_slot_that_never_comes_ends_the_run() {
    let never = "error the next release would be later than any clock can show: shorten the period";
    Scene::shared("-r 1/100ns").check(&[
        (0, Input("a\n"), "book 1; wait - or input"),
        (1, Free(1, &[], u64::MAX), &format!("{never}; finish 1")),
    ]);
}

#[test]
fn a_hold_in_the_store_is_what_the_next_release_waits_for() {
    let mut scene = Scene::shared("-r 1/100ns");
    scene.follow(&[(0, Input("a\n"), "book 1; wait - or input")]);
    let held = Answer { held: Some(Time(50)), ask_again: Some(Time(50)), ..Answer::default() };
    scene.schedule.booked(Time(1), &Order::new(Key::new(), [1], 1), held);
    assert_eq!(scene.actions(1), "held until 50; wait 50 or input");
    let forecast = scene.schedule.forecast(Time(1), None);
    assert_eq!((forecast.wait_reason, forecast.next), (WaitReason::Hold, Some(Time(50))));
    let schedule =
        scene.check(&[(50, Due, "book 1; wait - or input"), (51, Booked(&[51]), "send a; wait - or input")]);
    assert_eq!((schedule.stats().times.holds, waits(&schedule)), (1, vec![0]));
}

#[test]
fn a_hold_is_what_the_next_release_waits_for_while_slots_are_asked_for() {
    let schedule = scene("-r 9/100ns -j 9 -- cmd", 2, 9).check(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (1, Booked(&[10, 40]), "wait 10 or input"),
        (10, Due, "send a; wait 40 or input"),
        (11, EndedAndAsks(1, 0, 50), "hold until 61; book 1; wait - or input"),
    ]);
    assert_eq!(schedule.forecast(Time(11), None).next, Some(Time(61)));
}

/// The answer may still be a slot in time.
#[test]
fn a_run_does_not_give_up_before_the_store_has_answered() {
    Scene::shared("-r 1/100ns").patient(20).check(&[
        (0, Input("a\n"), "book 1; wait 20 or input"),
        (20, Due, "wait - or input"),
        (21, Booked(&[20]), "send a; wait - or input"),
    ]);
}

#[test]
fn a_run_whose_slots_are_always_late_gives_up_in_the_end() {
    Scene::shared("-r 1/100ns").patient(20).check(&[
        (0, Input("a\n"), "book 1; wait 20 or input"),
        (8, Booked(&[2]), "book 1; wait 20 or input"),
        (18, Booked(&[10]), "book 1; wait 20 or input"),
        (20, Due, "too long by None, a slot was lost; wait 40"),
    ]);
}
