//! Lanes, and the short way past them.

use super::*;
use crate::config::Jitter;
use crate::gate::ASKED;

#[test]
fn an_item_that_cannot_take_the_short_way_waits_in_its_lane() {
    Scene::new("-r 2/100ns,cost=col:1").check(&[
        (0, Input("1 a\n"), "send 1 a; wait - or input"),
        (10, Input("2 b\n1 c\n"), "wait 100 or input"),
        (100, Due, "send 2 b; wait 200 or input"),
        (200, Due, "send 1 c; wait - or input"),
    ]);
}

#[test]
fn what_is_trimmed_does_not_leave_as_it_lies_in_its_buffer() {
    let schedule = Scene::new("-r 9/100ns,key=col:1 --trim").check(&[(
        0,
        Input("  a  \n"),
        "send a; wait 1000000000 or input",
    )]);
    assert_eq!(schedule.stats().bytes, 2);
}

#[test]
fn what_no_command_could_be_given_does_not_take_the_short_way_of_a_dry_run() {
    let scene = Scene::new("-r 9/100ns,cost=col:1");
    let line =
        CommandLine { several: 99, single: 99, longest: 5, times: 1, overhead: 2, ..CommandLine::default() };
    let capacity = Capacity { line: Some(line), ..scene.capacity };
    let schedule = Scene { capacity, ..scene }.check(&[
        (0, Input("1 a\n1 long\n1 b\n"), "send 1 a 1 b; failed 2; wait - or input"),
        (1, EndOfInput, "finish 123"),
    ]);
    assert_eq!((schedule.stats().settled, schedule.stats().failed), (3, 1));
}

#[test]
fn what_cannot_go_at_its_arrival_is_dropped() {
    let schedule = Scene::new("-r 1/100ns,key=col:1 --on-limit drop").check(&[
        (0, Input("a\na\nb\n"), "send a b; wait 1000000000 or input"),
        (99, Input("a\n"), "wait 1000000000 or input"),
        (100, Input("a\n"), "send a; wait 1000000000 or input"),
    ]);
    assert_eq!((schedule.stats().refused, schedule.stats().settled, schedule.stats().left()), (2, 5, 0));
}

#[test]
fn the_newest_takes_the_place_of_all_that_wait() {
    let schedule = Scene::new("-r 1/100ns --on-limit latest").check(&[
        (0, Input("a\nb\nc\n"), "wait 0 or input"),
        (0, Due, "send c; wait - or input"),
        (10, Input("d\n"), "wait 100 or input"),
        (20, Input("e\nf\n"), "wait 100 or input"),
        (100, Due, "send f; wait - or input"),
    ]);
    assert_eq!((schedule.stats().refused, schedule.stats().left()), (4, 0));
}

/// Otherwise a key whose items come often would never have its turn.
#[test]
fn the_newest_takes_the_turn_of_what_it_replaces() {
    Scene::new("-r 1/100ns -r 9/100ns,key=col:1 --on-limit latest").check(&[
        (0, Input("x\n"), "wait 0 or input"),
        (0, Due, "send x; wait 1000000000 or input"),
        (10, Input("a 1\nb 1\nc 1\n"), "wait 100 or input"),
        (90, Input("a 2\nb 2\n"), "wait 100 or input"),
        (100, Due, "send a 2; wait 200 or input"),
        (190, Input("a 3\nb 3\n"), "wait 200 or input"),
        (200, Due, "send b 3; wait 300 or input"),
        (210, Input("a 4\nb 4\n"), "wait 300 or input"),
        (300, Due, "send c 1; wait 400 or input"),
        (400, Due, "send a 4; wait 500 or input"),
    ]);
}

#[test]
fn the_newest_leaves_although_the_input_never_pauses() {
    let schedule = Scene::new("-r 1/100ns --on-limit latest").check(&[
        (0, Input("a\n"), "wait 0 or input"),
        // What arrives at the instant of the release still belongs to it.
        (0, Input("b\n"), "wait 0 or input"),
        (1, Input("c\n"), "send c; wait - or input"),
        (2, Input("d\n"), "wait 101 or input"),
        (101, Input("e\n"), "wait 101 or input"),
        (102, Input("f\n"), "send f; wait - or input"),
    ]);
    assert_eq!((schedule.stats().refused, schedule.stats().left()), (4, 0));
    Scene::new("-r 1/100ns,key=col:1 --on-limit latest").check(&[
        (0, Input("a 1\nb 1\n"), "wait 0 or input"),
        (1, Input("a 2\n"), "send a 2; wait 1 or input"),
        (2, Input("a 3\n"), "send b 1; wait 101 or input"),
        (102, Input("b 2\n"), "send a 3; wait 102 or input"),
    ]);
}

#[test]
fn an_enforced_limit_tells_how_early_an_item_was_after_those_before_it() {
    Scene::new("-r 1/100ns --on-limit fail").check(&[(
        0,
        Input("a\nb\n"),
        "send a; refused 2 early by Some(100); finish 75",
    )]);
    Scene::new("-r 2/100ns,cost=col:1 --on-limit fail").check(&[(
        0,
        Input("1\n2\n"),
        "send 1; refused 2 early by Some(100); finish 75",
    )]);
}

#[test]
fn no_more_items_are_held_than_may_be() {
    Scene::new("-r 1/100ns,key=col:1 --lookahead 2 -j 9 -- cmd").check(&[
        (0, Input("a\na\na\nb\n"), "send a; wait 100"),
        (100, Due, "send a; send b; wait 200 or input"),
    ]);
    Scene::new("-r 1/100ns,key=col:1 --lookahead 2")
        .check(&[(0, Input("a\na\na\nb\n"), "send a; wait 100"), (100, Due, "send a b; wait 200 or input")]);
}

#[test]
fn a_sink_that_is_busy_is_tried_again_after_a_pause() {
    Scene { busy: Some(50), ..Scene::new("-r 9/100ns,key=col:1") }.check(&[
        (0, Input("a\n"), "busy a; wait 50 or input"),
        (20, Input("b\n"), "wait 50"),
        (50, Due, "send a b; wait 1000000000 or input"),
    ]);
    // What did not leave begins no window.
    Scene { busy: Some(50), ..Scene::new("-r 2/100ns,algo=fixed") }.check(&[
        (0, Input("a\nb\nc\n"), "busy a b; wait 50 or input"),
        (50, Due, "send a b; wait 150 or input"),
    ]);
}

/// Others may cost the common limit less, but go only after what is being sent.
#[test]
fn what_the_batch_has_left_of_a_common_limit_is_not_given_to_others_first() {
    Scene { busy: Some(50), ..Scene::new("-r 3/100ns,cost=col:2 -r 9/s,key=col:1") }.check(&[
        (0, Input("x 2\na 2\nb 1\n"), "busy x 2 b 1; wait 50 or input"),
        (50, Due, "send x 2; send b 1; wait 150 or input"),
        (150, Due, "send a 2; wait 1000000000 or input"),
    ]);
}

/// A write is no longer than a pipe usually is.
#[test]
fn a_batch_is_sent_once_it_fills_a_pipe() {
    let items = |first: u8| -> &'static str {
        let item = |key: u8| format!("{}{}\n", char::from(key), " ".repeat((16 << 10) - 2));
        Box::leak((first..first + 5).map(item).collect::<String>().into_boxed_str())
    };
    Scene::new("-r 1/100ns,key=col:1").check(&[
        (0, Input(items(b'a')), "send a b c d; send e; wait 1000000000 or input"),
        (10, Input(items(b'a')), "wait 100 or input"),
        (100, Due, "send a b c d; send e; wait 1000000000 or input"),
    ]);
}

#[test]
fn an_item_waits_for_all_limits_that_its_keys_have() {
    Scene::new("-r 1/100ns,key=col:1 -r 1/100ns,key=col:2").check(&[
        (0, Input("a x\nb x\na y\nb y\n"), "send a x b y; wait 100 or input"),
        (100, Due, "send b x a y; wait 1000000000 or input"),
    ]);
}

#[test]
fn other_limits_give_what_waits_other_keys() {
    Scene::new("-r 1/100ns,key=col:1").check(&[
        (0, Input("a x\na y\na y\na z\n"), "send a x; wait 100 or input"),
        (50, Limits("1/100ns,key=col:2"), "limits; send a y a z; wait 150 or input"),
        (60, EndOfInput, "wait 150"),
        (150, Due, "send a y; finish 0"),
    ]);
}

#[test]
fn what_waits_goes_by_its_key_when_the_limit_for_others_opens() {
    Scene::new("-r 2/100ns -r 1/300ns,key=col:1").check(&[
        (0, Input("a\na\nb\nc\n"), "send a b; wait 100 or input"),
        (100, Due, "send c; wait 300 or input"),
        (300, Due, "send a; wait 1000000000 or input"),
    ]);
}

/// A bucket fills for an item that costs more than it holds only once that item is next in line.
#[test]
fn what_is_next_in_line_is_so_from_when_the_item_before_it_has_left() {
    let scene = Scene::new("-r 10/100ns,algo=bucket,burst=2,cost=col:1");
    Scene { slowness: 30, ..scene }.check(&[(0, Input("0 a\n5 b\n"), "send 0 a; wait 60 or input")]);
    let scene = Scene::new("-r 10/100ns,algo=bucket,burst=2,cost=5,key=col:1,only=b --in-order");
    Scene { slowness: 30, ..scene }.check(&[(0, Input("a\nb\n"), "send a; wait 60 or input")]);
    let scene = Scene::new("-r 1/100ns");
    Scene { slowness: 30, ..scene }.check(&[
        (0, Limits("10/100ns,algo=bucket,burst=2,cost=col:1"), "limits; wait - or input"),
        (0, Input("0 a\n5 b\n"), "send 0 a; wait 60 or input"),
    ]);
}

#[test]
fn a_lane_that_waits_for_one_key_may_have_to_wait_for_another() {
    Scene::new("-r 1/100ns,key=col:1 -r 1/100ns,key=col:2").check(&[
        (0, Input("a y\nc z\n"), "send a y c z; wait 1000000000 or input"),
        (10, Input("a x\nc x\n"), "wait 100 or input"),
        (50, Input("b x\n"), "send b x; wait 150 or input"),
        (150, Due, "send a x; wait 250 or input"),
    ]);
    // The other lane waits longer.
    Scene::new("-r 1/100ns,key=col:1 -r 1/100ns,key=col:2 -r 1/400ns,key=col:1,only=d").check(&[
        (0, Input("a y\nd w\n"), "send a y d w; wait 1000000000 or input"),
        (10, Input("a x\nd v\n"), "wait 100 or input"),
        (50, Input("b x\n"), "send b x; wait 150 or input"),
    ]);
}

#[test]
fn a_lane_that_was_ready_waits_again_once_another_has_used_up_their_key() {
    Scene::new("-r 1/30ns -r 1/100ns,key=col:1 -r 1/100ns,key=col:2").check(&[
        (0, Input("z z\na x\nb x\n"), "send z z; wait 30 or input"),
        (30, Due, "send a x; wait 130 or input"),
        (130, Due, "send b x; wait 1000000000 or input"),
    ]);
    Scene::new("-r 1/30ns -r 1/100ns,key=col:1 -r 1/100ns,key=col:2").check(&[
        (0, Input("z z\na x\nb x\nc y\n"), "send z z; wait 30 or input"),
        (30, Due, "send a x; wait 60 or input"),
        (60, Due, "send c y; wait 130 or input"),
        (130, Due, "send b x; wait 1000000000 or input"),
    ]);
}

#[test]
fn what_refused_items_made_room_for_is_let_in_at_once() {
    Scene::new("-r 2/100ns,cost=col:1 --on-limit drop --lookahead 2").check(&[
        (0, Input("2 a\n"), "send 2 a; wait - or input"),
        (10, Input("1 b\n1 c\n0 d\n"), "send 0 d; wait - or input"),
    ]);
}

#[test]
fn limits_that_have_little_in_common_begin_anew() {
    Scene::new("-r 1/100ns").check(&[
        (0, Input("a\nb\n"), "send a; wait 100 or input"),
        (50, Limits("1/100ns,algo=fixed"), "limits; send b; wait - or input"),
    ]);
}

#[test]
fn a_margin_makes_the_period_longer() {
    Scene::new("-r 1/100ns,margin=20ns").check(&[(0, Input("a\nb\n"), "send a; wait 120 or input")]);
}

/// Nothing is kept for keys whose limits are idle.
#[test]
fn limits_of_keys_are_evicted_unless_something_waits_for_them() {
    const S: u64 = 1_000_000_000;
    Scene::new("-r 1/100ns,key=col:1").check(&[
        (0, Input("a\n"), "send a; wait 1000000000 or input"),
        // What came within the last second may not have been reported yet.
        (S, Due, "wait 2000000000 or input"),
        (2 * S, Due, "wait - or input"),
    ]);
    // A waiting item asks as of when it became next in line, so nothing can be evicted before it is released.
    Scene::new("-r 1/100ns,key=col:1 -r 1/10s").check(&[
        (0, Input("a\na\n"), "send a; wait 10000000000 or input"),
        (2 * S, Input("b\n"), "wait 10000000000 or input"),
        (10 * S, Due, "send a; wait 20000000000 or input"),
        (20 * S, Due, "send b; wait 21000000000 or input"),
        (21 * S, Due, "wait 22000000000 or input"),
        (22 * S, Due, "wait - or input"),
    ]);
}

/// Releases `items` with this number of keys as they become due. Returns how often the limits were asked, and how often
/// a release had to wait.
fn asked(args: &str, keys: u64, items: u64, step: u64) -> (u64, u64) {
    let mut scene = Scene::new(args);
    let lines: Vec<_> = (0..items).map(|item| format!("k{} x{}\n", item % keys, item % 3)).collect();
    scene.happens(Time(0), &Input(lines.concat().leak()));
    ASKED.set(0);
    let mut now = 0;
    while scene.schedule.stats().released < items {
        scene.go_through(&[(now, Due)]);
        now += step;
        assert!(now < 1_000_000, "{args}");
    }
    let limits = scene.schedule.limit_stats();
    (ASKED.get(), limits.iter().map(|limit| limit.waits).sum())
}

#[test]
fn a_keyed_release_is_asked_about_at_most_twice() {
    for args in [
        "-r 1/100ns,key=col:1",
        "-r 1/100ns,key=col:1 -r 1/3ns",
        "-r 3/100ns,key=col:1 -r 2/9ns,algo=bucket",
        "-r 1/10ns,key=col:1 --in-order",
        "-r 1/100ns,key=col:1 -r 1/3ns --lookahead 5",
        "-r 1/100ns,key=col:1 -r 1/3ns --skip-blank",
    ] {
        for keys in [1, 2, 70] {
            for step in [1, 50] {
                let (asked, waits) = asked(args, keys, 200, step);
                // Each item and each lane may cost up to two questions, and each wait one for the statistics.
                assert!(
                    asked <= 2 * (200 + keys) + waits,
                    "{asked} with {keys} keys and a step of {step}: {args}"
                );
            }
        }
    }
}

#[test]
fn all_that_waited_for_too_long_is_refused_however_late_the_run_wakes() {
    let schedule = Scene::new("-r 1/100ns --on-limit drop --max-wait 50ns").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait 50 or input"),
        // Neither could have gone in time: refusing one does not bring the other forward.
        (150, Due, "wait - or input"),
        (151, EndOfInput, "finish 0"),
    ]);
    assert_eq!((schedule.stats().released, schedule.stats().refused), (1, 2));
}

#[test]
fn a_blocked_key_holds_up_no_other_and_all_that_may_go_leaves_in_input_order() {
    Scene::new("-r 1/100ns,key=col:1").check(&[
        (0, Input("a1 \nb1 \n"), "send a1 b1; wait 1000000000 or input"),
        (10, Input("b1 2\nc1\na1 2\n"), "send c1; wait 100 or input"),
        (100, Due, "send b1 2 a1 2; wait 1000000000 or input"),
    ]);
}

#[test]
fn in_order_the_first_holds_up_the_others() {
    Scene::new("-r 1/100ns,key=col:1 --in-order").check(&[
        (0, Input("a\na\nb\n"), "send a; wait 100 or input"),
        (100, Due, "send a b; wait 1000000000 or input"),
    ]);
}

#[test]
fn an_item_does_not_pass_others_of_its_lane_while_the_first_lane_is_empty() {
    Scene::new("-r 2/100ns,cost=col:2,key=col:1").check(&[
        (0, Input("a 2\na 1\n"), "send a 2; wait 100 or input"),
        (50, Input("b 1\nb 2\n"), "send b 1; wait 100 or input"),
        (100, Due, "send a 1; wait 150 or input"),
        (110, Input("b 1\n"), "wait 150 or input"),
        (150, Due, "send b 2; wait 250 or input"),
    ]);
}

/// Each lane moves behind the others with each item that leaves.
#[test]
fn what_leaves_together_is_in_input_order_however_many_leave_a_lane() {
    Scene::new("-r 2/100ns,key=col:1").check(&[
        (0, Input("a\na\nb\nb\n"), "send a a b b; wait 1000000000 or input"),
        (10, Input("a 1\nb 1\na 2\nb 2\n"), "wait 100 or input"),
        (100, Due, "send a 1 b 1 a 2 b 2; wait 1000000000 or input"),
    ]);
}

/// It goes by the limits as they were when it became next in line.
#[test]
fn what_waits_for_a_command_is_dropped_if_a_limit_did_not_admit_it_at_its_arrival() {
    const S: u64 = 1_000_000_000;
    Scene::new("-r 1/100ns,key=col:1 --on-limit drop -j 1 -- cmd").check(&[
        (0, Input("a 1\n"), "send a 1; wait 1000000000 or input"),
        (50, Input("a 2\n"), "wait - or input"),
        (2 * S, Input("b 1\n"), "wait - or input"),
        (3 * S, Input("c 1\n"), "wait - or input"),
        (4 * S, Ended(1, 0), "send b 1; wait - or input"),
    ]);
    // What was released before it has left by then.
    let mut scene = Scene::new("-r 2/100ns --on-limit drop");
    scene.follow(&[(0, Input("a\n"), "send a; wait - or input")]);
    Scene { busy: Some(100), ..scene }.check(&[
        (20, Input("b\n"), "busy b; wait 120 or input"),
        (30, Input("c\n"), "wait 120 or input"),
        (120, Due, "send b c; wait - or input"),
    ]);
}

#[test]
fn another_attempt_waits_although_items_never_do() {
    let schedule = Scene::new("-r 1/100ns --on-limit drop -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (5, Ended(1, 1), "wait 100 or input"),
        (6, Input("b\n"), "wait 100 or input"),
        (100, Due, "send a; wait - or input"),
    ]);
    assert_eq!((schedule.stats().refused, schedule.stats().retried), (1, 1));
}

#[test]
fn the_newest_does_not_take_the_place_of_another_attempt() {
    Scene::new("-r 1/100ns --on-limit latest -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a\n"), "wait 0 or input"),
        (0, Due, "send a; wait - or input"),
        (5, Ended(1, 1), "wait 100 or input"),
        (6, Input("b\n"), "wait 100 or input"),
        (7, Input("c\n"), "wait 100 or input"),
        (100, Due, "send a; wait 200 or input"),
        (200, Due, "send c; wait - or input"),
    ]);
}

#[test]
fn the_turn_of_what_was_replaced_is_over_once_the_newest_has_left() {
    let scene = Scene::new("-r 1/100ns -r 9/100ns,key=col:1 --on-limit latest");
    Scene { slowness: 30, ..scene }.check(&[
        (0, Input("x\n"), "wait 0 or input"),
        (0, Due, "send x; wait 1000000000 or input"),
        (40, Input("a 1\nb 1\n"), "wait 130 or input"),
        (50, Input("a 2\n"), "wait 130 or input"),
        (130, Due, "send a 2; wait 260 or input"),
        // It arrived before that had left.
        (150, Input("a 3\n"), "wait 260 or input"),
        (260, Due, "send b 1; wait 390 or input"),
    ]);
}

/// The lanes of all keys become one while the last item is running.
#[test]
fn another_attempt_goes_after_what_waited_before_it_under_other_keys() {
    let changed = |order: &str, rows: &[(u64, Event, &str)]| {
        let mut scene = Scene::new(&format!("-r 1/100ns,key=col:1 {order} -j 9 --retries 1 -- cmd"));
        scene.go_through(&[(0, Input("a 1\nb 1\n")), (0, Due), (0, Due)]);
        scene.go_through(&[(1, Input("a 2\nb 2\n")), (2, Input("c 1\n")), (2, Due)]);
        assert_eq!(scene.schedule.running(), 3);
        scene.happens(Time(5), &Limits("1/10ns"));
        scene.check(rows)
    };
    changed(
        "",
        &[
            (5, Ended(5, 1), "limits; send a 2; wait 15 or input"),
            (15, Due, "send b 2; wait 25 or input"),
            (25, Due, "send c 1; wait - or input"),
        ],
    );
    let schedule = changed(
        "--on-limit latest",
        &[
            (5, Ended(5, 1), "limits; wait 5 or input"),
            (5, Due, "send c 1; wait 15 or input"),
            (15, Due, "send b 2; wait - or input"),
        ],
    );
    assert_eq!(schedule.stats().refused, 1);
}

#[test]
fn what_waits_keeps_its_order_under_other_keys() {
    Scene::new("-r 1/100ns,key=col:1").check(&[
        (0, Input("a\nb\na 1\nb 2\na 3\n"), "send a b; wait 100 or input"),
        (50, Limits("9/100ns"), "limits; send a 1 b 2 a 3; wait - or input"),
    ]);
    // In order, all wait in one lane, whose last release still counts.
    let scene = Scene::new("-r 1/1us --in-order");
    Scene { slowness: 30, ..scene }.check(&[
        (0, Input("0 a\n5 b\n"), "send 0 a; wait 1030 or input"),
        (40, Limits("10/100ns,algo=bucket,burst=2,cost=col:1,key=col:2"), "limits; wait 60 or input"),
    ]);
}

/// At its deadline it still may go, and later if only the run was late.
#[test]
fn what_waited_too_long_is_refused_once_what_may_go_has_left() {
    Scene::new("-r 1/100ns,key=col:1,only=a -r 1/50ns,key=col:1,only=b --on-limit fail --max-wait 50ns")
        .check(&[
            (0, Input("a\nb\na\nb\n"), "send a b; wait 50 or input"),
            (50, Due, "send b; wait 50 or input"),
            (50, Due, "expired 3; finish 75"),
        ]);
    // The first of several ends the run.
    Scene::new("-r 1/100ns,key=col:1 --on-limit fail --max-wait 50ns").check(&[
        (0, Input("a\nb\na\nb\n"), "send a b; wait 50 or input"),
        (51, Due, "expired 3; finish 75"),
    ]);
    Scene::new("-r 1/50ns --on-limit drop --max-wait 50ns")
        .check(&[(0, Input("a\nb\n"), "send a; wait 50 or input"), (60, Due, "send b; wait - or input")]);
    Scene { busy: Some(50), ..Scene::new("-r 9/100ns --on-limit drop --max-wait 40ns -j 9 -- cmd") }.check(
        &[(0, Input("a\nb\n"), "busy a; wait 40 or input"), (60, Due, "send a; send b; wait - or input")],
    );
    // Each has a deadline of its own.
    Scene::new("-r 1/100ns --on-limit drop --max-wait 50ns").check(&[
        (0, Input("a\nb\n"), "send a; wait 50 or input"),
        (30, Input("c\n"), "wait 50 or input"),
        (50, Due, "wait 80 or input"),
        (60, Input("d\n"), "wait 80 or input"),
        (80, Due, "wait 100 or input"),
        (100, Due, "send d; wait - or input"),
    ]);
    // What is behind it may cost less.
    Scene::new("-r 3/100ns,cost=col:2,key=col:1 --on-limit drop --max-wait 50ns").check(&[
        (0, Input("a 2\n"), "send a 2; wait 1000000000 or input"),
        (10, Input("a 3\na 1\n"), "wait 60 or input"),
        (60, Due, "send a 1; wait 1000000000 or input"),
    ]);
    Scene::new("-r 1/100ns,key=col:1 --on-limit drop --max-wait 50ns").check(&[
        (0, Input("a x\nb x\na x\nb x\n"), "send a x b x; wait 50 or input"),
        (10, Limits("1/100ns,key=col:2"), "limits; send a x; wait 50 or input"),
        (50, Due, "wait 1000000010 or input"),
    ]);
}

#[test]
fn each_attempt_has_a_delay_of_its_own() {
    let jitter = "50ns,seed=1".parse::<Jitter>().unwrap();
    let first = jitter.delay(1, 1);
    let again = first + 1 + jitter.delay(1, 2);
    let second = again + jitter.delay(2, 1);
    let wait = |until: u64| format!("wait {until} or input");
    Scene::new("-r 9/s --jitter=50ns,seed=1 -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a\nb\n"), &wait(first)),
        (first, Due, &format!("send a; {}", wait(first + jitter.delay(2, 1)))),
        (first + 1, Ended(1, 1), &wait(again)),
        (again, Due, &format!("send a; {}", wait(second))),
        (second, Due, "send b; wait - or input"),
    ]);
    // None begins before the limits admit the release.
    Scene::new("-r 1/100ns -r 9/s,key=col:1 --jitter=50ns,seed=1").check(&[
        (0, Input("a\n"), &wait(first)),
        (first, Input("b\n"), &format!("send a; {}", wait(first + 100))),
    ]);
}

#[test]
fn the_first_to_leave_may_be_behind_what_waits_for_a_common_limit() {
    Scene::new("-r 2/300ns,cost=col:2 -r 1/100ns,key=col:1").check(&[
        (0, Input("a 1\n"), "send a 1; wait 1000000000 or input"),
        (10, Input("b 2\na 1\n"), "wait 100 or input"),
        (100, Due, "send a 1; wait 400 or input"),
    ]);
    // Nothing passes what the batch has left too little for.
    Scene::new("-r 3/100ns,cost=col:2 -r 9/s,key=col:1").check(&[
        (0, Input("z 3\n"), "send z 3; wait 1000000000 or input"),
        (10, Input("x 2\na 2\n"), "wait 100 or input"),
        (100, Input("b 1\n"), "send x 2; send b 1; wait 200 or input"),
    ]);
}

/// More lanes wait than are asked to find out when to look again.
#[test]
fn a_run_that_may_not_wait_for_long_knows_its_next_release_exactly() {
    let items: Vec<_> = (0..80).map(|item| format!("{}\n", item % 40)).collect();
    let mut scene = Scene::new("-r 1/100ns,key=col:1 -r 40/10us --max-wait 5us");
    scene.go_through(&[(0, Input(items.concat().leak()))]);
    scene.check(&[(0, Due, "too long by Some(10000); finish 75")]);
}

#[test]
fn what_refused_items_made_room_for_goes_by_its_lane() {
    Scene::new("-r 2/100ns,cost=col:1 --on-limit drop --lookahead 2 -j 9 -- cmd").check(&[
        (0, Input("2 a\n"), "send 2 a; wait - or input"),
        (10, Input("1 b\n1 c\n0 d\n0 e\n"), "send 0 d; send 0 e; wait - or input"),
    ]);
}

/// The buffers of most lanes are freed as soon as nothing waits in them.
#[test]
fn many_lanes_know_when_their_last_items_left() {
    let mut scene = Scene::new("-r 10/100ns,algo=bucket,burst=2,cost=col:2,key=col:1");
    scene.slowness = 30;
    let items: Vec<_> = (0..70).map(|key| format!("{key} 0\n")).collect();
    scene.go_through(&[(0, Input(items.concat().leak()))]);
    scene.check(&[(10, Input("0 5\n"), "wait 60 or input")]);
}

#[test]
fn what_is_refused_while_the_sink_is_busy_is_not_tried_again() {
    Scene { busy: Some(50), ..Scene::new("-r 9/100ns --on-limit drop --max-wait 40ns -j 9 -- cmd") }
        .check(&[(0, Input("a\n"), "busy a; wait 40 or input"), (40, Due, "wait - or input")]);
}

#[test]
fn what_waited_too_long_is_refused_although_no_more_is_read() {
    Scene::new("-r 1/100ns --on-limit drop --max-wait 50ns").check(&[
        (0, Input("a\nb\n"), "send a; wait 50 or input"),
        (1, EndOfInput, "wait 50"),
        (50, Due, "finish 0"),
    ]);
}

/// The lane may release until the hours begin, and waits for a command until then.
#[test]
fn hours_that_have_begun_hold_up_what_could_have_gone_before() {
    const H: u64 = 3_600_000_000_000;
    Scene::new("-r 9/s -r 0/s,key=col:1,during=08:00-09:00,tz=UTC -j 1 -- cmd").check(&[
        (8 * H - 1, Input("a\nb\n"), "send a; wait -"),
        (8 * H + 1, Ended(1, 0), &format!("wait {} or input", 9 * H)),
        (9 * H, Due, &format!("send b; wait {}", 9 * H + 1_000_000_000)),
    ]);
}
