//! The reason that a run waits, and how much is left.

use super::*;
use crate::schedule::{Precision, Total, WaitReason};

/// The reason that the run waits after these events.
fn wait_reason(mut scene: Scene, events: &[(u64, Event)]) -> WaitReason {
    scene.go_through(events);
    let now = events.last().map_or(0, |(at, _)| *at);
    scene.schedule.forecast(Time(now), None).wait_reason
}

/// The end of the run, as it is foreseen once all of its input is known.
fn end(args: &str, input: &'static str) -> Option<(Time, Precision)> {
    let mut scene = Scene::new(args);
    scene.happens(Time(0), &Input(input));
    scene.go_through(&[(0, EndOfInput)]);
    scene.schedule.forecast(Time(0), None).ends
}

#[test]
fn what_the_next_release_waits_for() {
    let table: [(&str, &[(u64, Event)], WaitReason); 17] = [
        ("-r 9/100ns --jitter=50ns,seed=1", &[(0, Input("a\n"))], WaitReason::Jitter),
        (
            "-r 9/100ns -j 1 --retries 1 --backoff 35ns..35ns -- cmd",
            &[(0, Input("a\n")), (1, Ended(1, 1)), (2, Input("b\nc\n"))],
            WaitReason::Command,
        ),
        ("-r 1/100ns", &[(0, Input("a\n"))], WaitReason::Input),
        ("-r 1/100ns", &[(0, Input("a\nb\n"))], WaitReason::Limit(rate("1/100ns"))),
        ("-r 1/100ns", &[(0, Input("a\nb\n")), (1, Interrupt)], WaitReason::Input),
        ("-r 1/100ns", &[(0, Input("a\nb\n")), (1, Limits("0/s"))], WaitReason::Pause(rate("0/s"))),
        ("-r 1/100ns -B 2,50ns", &[(0, Input("a\n"))], WaitReason::Batch),
        ("-r 1/100ns -j 9 -- cmd", &[(0, Input("a\n"))], WaitReason::Command),
        ("-r 9/100ns -j 1 -- cmd", &[(0, Input("a\nb\n"))], WaitReason::Command),
        ("-r 1/100ns -j 9 -- cmd", &[(0, Input("a\n")), (1, Ended(1, 0))], WaitReason::Input),
        ("-r 1/100ns -j 9 -- cmd", &[(0, Input("a\nb\n")), (1, Interrupt)], WaitReason::Command),
        ("-r 1/100ns,from=exit -j 9 -- cmd", &[(0, Input("a\nb\n"))], WaitReason::Command),
        (
            "-r 9/100ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd",
            &[(0, Input("a\n")), (1, Ended(1, 1))],
            WaitReason::Backoff,
        ),
        (
            "-r 9/100ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd",
            &[(0, Input("a\n")), (1, Ended(1, 1)), (2, Interrupt)],
            WaitReason::Input,
        ),
        (
            "-r 9/100ns -j 9 --in-order --retries 1 --backoff 35ns..35ns -- cmd",
            &[(0, Input("a\n")), (1, Ended(1, 1))],
            WaitReason::Backoff,
        ),
        (
            "-r 9/100ns -j 9 --retries 1 -- cmd",
            &[(0, Input("a\n")), (1, EndedAndAsks(1, 1, 100))],
            WaitReason::Hold,
        ),
        ("-r 1/100ns,key=col:1,only=b -r 1/300ns,key=col:1,only=a", &[(0, Input("a\nb\na\nb\n"))], {
            WaitReason::Limit(rate("1/100ns,key=col:1,only=b"))
        }),
    ];
    for (args, events, expected) in table {
        assert_eq!(wait_reason(Scene::new(args), events), expected, "{args}");
    }
}

#[test]
fn the_end_stays_where_it_is_while_a_limit_holds_up_the_next_release() {
    for args in [
        "-r 2/100ns",
        "-r 1/100ns,algo=interval",
        "-r 1/100ns,algo=fixed",
        "-r 1/100ns,algo=bucket,burst=0",
        "-r 2/100ns,algo=bucket,burst=3,cost=7",
        "-r 1/100ns,algo=bucket,burst=0 -r 2/150ns",
    ] {
        let mut scene = Scene::new(args);
        scene.happens(Time(0), &Input("a\nb\nc\nd\n"));
        scene.go_through(&[(0, EndOfInput)]);
        let forecast = |now| scene.schedule.forecast(Time(now), None).ends;
        let end = forecast(0);
        assert!((1..50).all(|now| forecast(now) == end), "{args}");
    }
}

#[test]
fn a_busy_sink_and_a_store_hold_up_what_the_limits_allow() {
    let busy = || Scene { busy: Some(50), ..Scene::new("-r 9/100ns") };
    assert_eq!(wait_reason(busy(), &[(0, Input("a\n"))]), WaitReason::Shortage);
    assert_eq!(wait_reason(busy(), &[(0, Input("a\n")), (1, Interrupt)]), WaitReason::Input);
    let mut scene = Scene::booking("-r 1/100ns", booking_terms(2, &[1]));
    scene.go_through(&[(0, Input("a\n"))]);
    // Other runs may take the slots.
    let forecast = scene.schedule.forecast(Time(0), Some(Total { items: 3, is_exact: true }));
    let ends = Some((Time(200), Precision::AtLeast));
    assert_eq!((forecast.wait_reason, forecast.ends), (WaitReason::Slot, ends));
    // So does the answer of a store, whatever waits for it.
    let drops = Scene::shared("-r 1/100ns --on-limit drop");
    assert_eq!(wait_reason(drops, &[(0, Input("a\n"))]), WaitReason::Slot);
}

#[test]
fn each_wait_is_for_the_lane_that_is_next() {
    let schedule = Scene::new("-r 1/300ns,key=col:1,only=a -r 1/100ns,key=col:1,only=b").check(&[
        (0, Input("a\nb\na\nb\n"), "send a b; wait 100 or input"),
        (100, Due, "send b; wait 300 or input"),
        (300, Due, "send a; wait - or input"),
    ]);
    assert_eq!(waits(&schedule), [1, 1]);
}

#[test]
fn what_was_passed_over_is_not_left() {
    let mut scene = Scene::new("-r 1/100ns");
    scene.schedule.skip(Box::new(|item| item == b"b"));
    scene.go_through(&[(0, Input("a\nb\nc\n"))]);
    // It counts as done.
    let forecast = scene.schedule.forecast(Time(0), None);
    assert_eq!((forecast.left, forecast.done), (1, 2));
    scene.go_through(&[(100, Due)]);
    assert_eq!((scene.schedule.forecast(Time(100), None).left, scene.schedule.stats().left()), (0, 0));
}

#[test]
fn the_end_is_no_sooner_than_that_of_the_last_backoff() {
    let mut scene = Scene::new("-r 9/10ns -j 9 --retries 1 --backoff 1s..9s -- cmd");
    scene.happens(Time(0), &Input("a\nb\nc\n"));
    scene.go_through(&[(0, EndOfInput), (5, Ended(1, 1)), (6, Ended(2, 1)), (7, Ended(3, 1))]);
    let forecast = scene.schedule.forecast(Time(8), None);
    let mut again = Vec::new();
    while scene.schedule.running() < 3 {
        let next = scene.schedule.next_release().expect("a backoff");
        scene.actions(next.0);
        again.push(next);
    }
    assert_eq!((forecast.left, forecast.next), (3, again.first().copied()));
    assert_eq!(forecast.ends, again.last().map(|last| (*last, Precision::AtLeast)));
}

#[test]
fn the_end_may_be_later_if_what_fails_is_charged_again() {
    for (args, precision) in [("", Precision::Exact), ("--retries 1", Precision::AtLeast)] {
        let end = end(&format!("-r 1/100ns -j 9 {args} -- cmd"), "a\nb\nc\n");
        assert_eq!(end, Some((Time(200), precision)), "{args}");
    }
}

#[test]
fn the_end_is_no_later_than_that_of_the_time_for_the_run() {
    let table = [
        ("-r 1/100ns --until 250ns", 200, Precision::Exact),
        ("-r 1/100ns --until 150ns", 150, Precision::Exact),
        ("-r 1/100ns,key=col:1 --until 150ns", 150, Precision::Exact),
        ("-r 1/100ns,key=col:1 --until 250ns", 200, Precision::AtLeast),
        // It is no later, either.
        ("-r 1/100ns,key=col:1 --until 200ns", 200, Precision::Exact),
        ("-r 2/100ns,cost=col:2 --until 90ns", 90, Precision::About),
        ("-r 2/100ns,cost=col:2 --until 999ns", 200, Precision::About),
        ("-r 1/100ns --jitter=1ns,seed=1 --until 999ns", 200, Precision::AtLeast),
    ];
    for (args, at, precision) in table {
        assert_eq!(end(args, "a 2\na 2\na 2\n"), Some((Time(at), precision)), "{args}");
    }
}

#[test]
fn the_end_is_an_estimate_while_some_may_have_been_done_before() {
    let mut scene = Scene::new("-r 1/100ns --lookahead 1");
    scene.schedule.skip(Box::new(|item| item == b"c"));
    scene.happens(Time(0), &Input("a\nb\nc\nd\n"));
    scene.happens(Time(0), &EndOfInput);
    let ends = [0, 100].map(|at| {
        scene.go_through(&[(at, Due)]);
        scene.schedule.forecast(Time(at), None).ends
    });
    let end = |at, precision| Some((Time(at), precision));
    assert_eq!(ends, [end(300, Precision::About), end(200, Precision::Exact)]);
}

#[test]
fn what_may_go_now_is_not_the_next_release() {
    let mut scene = Scene::new("-r 1/100ns -B 2");
    scene.follow(&[(7, Input("a\n"), "wait 7 or input")]);
    assert_eq!(scene.schedule.forecast(Time(7), None).next, None);
}

#[test]
fn how_well_the_end_is_known_if_costs_differ() {
    let scene = Scene::new("-r 9/100ns,cost=col:1");
    let precision = |items| {
        let total = Total { items, is_exact: true };
        scene.schedule.forecast(Time(0), Some(total)).ends.map(|(_, precision)| precision)
    };
    let counted = Some(Total { items: 0, is_exact: false });
    let uniform = Scene::new("-r 9/100ns").schedule.forecast(Time(0), counted);
    assert_eq!(uniform.ends, Some((Time(0), Precision::About)));
    // With nothing left, costs do not matter.
    assert_eq!((precision(0), precision(5)), (Some(Precision::About), Some(Precision::AtLeast)));
}

#[test]
fn the_end_is_that_of_the_batches_that_the_items_would_form() {
    // Each costs one release, or what is in it.
    for (args, at) in [("-r 1/100ns -B 2", 100), ("-r 1/100ns,cost=1 -B 2", 300)] {
        assert_eq!(end(args, "a\nb\nc\nd\n"), Some((Time(at), Precision::About)), "{args}");
    }
}

#[test]
fn the_next_release_is_that_of_the_limit_that_another_attempt_waits_for_too() {
    let mut scene = Scene::new("-r 1/100ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd");
    scene.go_through(&[(0, Input("a\nb\n")), (1, Ended(1, 1))]);
    assert_eq!(scene.schedule.forecast(Time(2), None).next, Some(Time(100)));
}

#[test]
fn what_is_held_is_released_from_the_end_of_the_hold_on() {
    let mut scene = Scene::new("-r 1/100ns -j 9 -- cmd");
    scene.go_through(&[(0, Input("a\nb\nc\n")), (0, EndOfInput), (1, EndedAndAsks(1, 0, 999))]);
    let forecast = scene.schedule.forecast(Time(1), None);
    assert_eq!((forecast.next, forecast.ends), (Some(Time(1000)), Some((Time(1100), Precision::Exact))));
}

#[test]
fn what_may_go_now_waited_for_a_limit() {
    let mut scene = Scene::new("-r 1/100ns");
    scene.go_through(&[(0, Input("a\nb\n"))]);
    let reason = scene.schedule.forecast(Time(100), None).wait_reason;
    assert_eq!(reason, WaitReason::Limit(rate("1/100ns")));
    // The lanes have gone with their keys.
    let mut scene = Scene::new("-r 1/100ns,key=col:1");
    scene.go_through(&[(0, Input("a\nb\na\n"))]);
    scene.happens(Time(1), &Limits("1/100ns"));
    assert_eq!(scene.schedule.forecast(Time(1), None).wait_reason, WaitReason::Input);
}
