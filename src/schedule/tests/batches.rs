//! Batches: what joins one, and when it closes.

use super::*;

#[test]
fn all_that_has_arrived_by_the_release_is_in_its_batch() {
    Scene::new("-r 1/100ns,key=col:1 -B 2")
        .check(&[(0, Input("a\na\n"), "wait 0 or input"), (0, Due, "send a a; wait 1000000000 or input")]);
}

#[test]
fn what_is_too_long_for_the_system_is_halved() {
    let scene = Scene::new("-r 1/100ns -B 9 -- cmd");
    Scene { longest: 2, ..scene }.check(&[
        (0, Input("a\nb\nc\nd\ne\nf\n"), "wait 0 or input"),
        (0, Due, "too long a b c d e f; wait 0 or input"),
        (0, Due, "too long a b c; wait 0 or input"),
        (0, Due, "send a; wait -"),
    ]);
    let scene = Scene::new("-r 1/100ns -B 9 -- cmd");
    let schedule = Scene { longest: 0, ..scene }.check(&[
        (0, Input("a\nb\n"), "wait 0 or input"),
        (0, Due, "too long a b; wait 0 or input"),
        (0, Due, "too long a; failed 1; wait 0 or input"),
        (0, Due, "too long b; failed 2; wait - or input"),
        (1, EndOfInput, "finish 123"),
    ]);
    assert_eq!((schedule.stats().failed, schedule.stats().settled, schedule.stats().released), (2, 2, 0));
}

#[test]
fn a_batch_that_lingers_closes_with_the_item_that_fills_it() {
    Scene::new("-r 1/10ns -B 3,50ns").check(&[
        (0, Input("a\n"), "wait 50 or input"),
        (20, Input("b\n"), "wait 50 or input"),
        (30, Input("c\nd\ne\n"), "wait 30 or input"),
        (30, Due, "send a b c; wait 80 or input"),
        // What arrives at the very instant it closes may still join.
        (80, Input("f\n"), "wait 80 or input"),
        (80, Due, "send d e f; wait - or input"),
    ]);
    Scene::new("-r 1/100ns -B 3,50ns").check(&[
        (0, Input("a\n"), "wait 50 or input"),
        (50, Due, "send a; wait - or input"),
        (60, Input("b\n"), "wait 150 or input"),
        // It closed at 110.
        (111, Input("c\n"), "wait 150 or input"),
        (150, Due, "send b; wait 250 or input"),
        (250, Due, "send c; wait - or input"),
    ]);
}

#[test]
fn a_batch_that_lingers_costs_no_more_than_a_limit_ever_admits() {
    Scene::new("-r 5/100ns,cost=col:1 -B 9,50ns").check(&[
        (0, Input("2\n2\n"), "wait 50 or input"),
        // It closes with what cannot join it.
        (10, Input("2\n"), "wait 10 or input"),
        (10, Due, "send 2 2; wait 110 or input"),
        (110, Due, "send 2; wait - or input"),
    ]);
}

#[test]
fn a_batch_that_the_next_item_cannot_join_does_not_linger() {
    Scene::new("-r 1/10ns --in-order -r 9/s,key=col:1 -B 3,50ns").check(&[
        (0, Input("a\na\n"), "wait 50 or input"),
        (5, Input("b\n"), "wait 5 or input"),
        (5, Due, "send a a; wait 55 or input"),
        (20, Input("b\nb\n"), "wait 20 or input"),
        (20, Due, "send b b b; wait 1000000005 or input"),
    ]);
}

/// Nothing can join them until one has left.
#[test]
fn batches_do_not_linger_while_the_lanes_are_full() {
    Scene::new("-r 1/10ns,key=col:1 -B 3,1h --lookahead 2").check(&[
        // They still take what joins before they leave.
        (0, Input("a 1\nb 1\na 2\nb 2\na 3\n"), "send a 1 a 2; send b 1 b 2; wait 10 or input"),
        (7, EndOfInput, "wait 10"),
        (10, Due, "send a 3; finish 0"),
    ]);
    Scene::new("-r 1/10ns,key=col:1 -B 3,50ns --on-limit latest --lookahead 3").check(&[
        (0, Input("a\nb\n"), "wait 50 or input"),
        (5, Input("c\nd\n"), "send a; send b; wait 5 or input"),
    ]);
    let large = format!("{}\n", "x".repeat(1 << 20)).repeat(64);
    assert_eq!(released_at_once("-r 1/10ns -B 99,1h", large), 64);
}

/// Those that can never go wait for their turn.
#[test]
fn batches_do_not_linger_while_no_item_may_be_looked_at() {
    let released = |bad| {
        let input = format!("a 1\n{}", "bad\n".repeat(bad));
        released_at_once("-r 9/10ns,cost=col:2 -B 3,1h --on-bad skip", input)
    };
    assert_eq!([1023, 1024].map(released), [0, 1]);
}

fn released_at_once(args: &str, input: String) -> u64 {
    let mut scene = Scene::new(args);
    scene.go_through(&[(0, Input(input.leak()))]);
    scene.schedule.stats().released
}

/// Other outputs wait for that of the first batch, so no items are read that could fill it.
#[test]
fn batches_do_not_linger_while_outputs_wait_for_them() {
    let mut scene = Scene::new("-r 9/s,key=col:1 -B 2,1h -j 9 -k -- cmd");
    scene.happens(Time(0), &Input("a\nb\n"));
    scene.capacity.before = 2;
    assert_eq!(scene.actions(0), "send a; wait -");
    scene.capacity.before = u64::MAX;
    assert_eq!(scene.actions(0), "wait 3600000000000 or input");
}

#[test]
fn an_item_that_costs_nothing_joins_a_batch_for_nothing() {
    Scene::new("-r 2/100ns,cost=col:1 -B 4").check(&[
        (0, Input("2\n0\n0\n0\n0\n1\n"), "wait 0 or input"),
        (0, Due, "send 2 0 0 0; wait 0 or input"),
        (0, Due, "send 0; wait 100 or input"),
    ]);
}

#[test]
fn a_batch_for_a_command_is_no_heavier_than_its_line() {
    let line =
        CommandLine { several: 12, single: 20, longest: 15, times: 1, overhead: 2, ..CommandLine::default() };
    let scene = |args: &str| {
        let scene = Scene::new(args);
        Scene { capacity: Capacity { line: Some(line), ..scene.capacity }, ..scene }
    };
    // Each item weighs 4 with its delimiter.
    for (args, expected) in
        [("-r 9/s -B 9 -- cmd", "send a b c; wait -"), ("-r 9/s -B 2 -- cmd", "send a b; wait -")]
    {
        scene(args).check(&[(0, Input("a\nb\nc\nd\n"), "wait 0 or input"), (0, Due, expected)]);
    }
    scene("-r 9/s -B 9,1h -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "wait 3600000000000 or input"),
        (1, Input("d\n"), "wait 1 or input"),
        (1, Due, "send a b c; wait -"),
    ]);
}

#[test]
fn a_batch_has_one_key_and_what_was_sent_together_stays_together() {
    Scene::new("-r 1/10ns --in-order -r 9/s,key=col:1 -B 3").check(&[
        (0, Input("a\na\nb\na\n"), "wait 0 or input"),
        (0, Due, "send a a; wait 10 or input"),
        (10, Due, "send b; wait 20 or input"),
        (20, Due, "send a; wait 1000000000 or input"),
    ]);
    Scene::new("-r 1/10ns -B 2 -j 9 --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nb\n"), "wait 0 or input"),
        (0, Due, "send a b; wait - or input"),
        (5, Ended(1, 1), "wait 40 or input"),
        (38, Input("c\n"), "wait 38 or input"),
        (38, Due, "send c; wait 40 or input"),
        (41, Input("d\n"), "wait 48 or input"),
        (48, Due, "send a b; wait 58 or input"),
        (58, Due, "send d; wait - or input"),
    ]);
}

#[test]
fn items_that_come_one_by_one_fill_a_batch_that_lingers() {
    Scene::new("-r 1/100ns -B 3,500ns").check(&[
        (0, Input("a\n"), "wait 500 or input"),
        (1, Input("b\n"), "wait 500 or input"),
        (2, Input("c\n"), "wait 2 or input"),
        (2, Due, "send a b c; wait - or input"),
        (3, Input("d\n"), "wait 503 or input"),
        (4, Input("e\n"), "wait 503 or input"),
        (5, Input("f\n"), "wait 102 or input"),
        (6, Input("g\n"), "wait 102 or input"),
        (7, Input("h\n"), "wait 102 or input"),
        (8, Input("i\n"), "wait 102 or input"),
        (102, Due, "send d e f; wait 202 or input"),
        (202, Due, "send g h i; wait - or input"),
    ]);
    Scene::new("-r 1/100ns -B 3,500ns").check(&[
        (0, Input("a\nb\nc\nd\n"), "wait 0 or input"),
        (0, Due, "send a b c; wait 500 or input"),
        (10, Input("e\n"), "wait 500 or input"),
        (20, Input("f\n"), "wait 100 or input"),
    ]);
    Scene::new("-r 1/100ns -B 3,500ns").check(&[
        (0, Input("a\nb\nc\nd\ne\n"), "wait 0 or input"),
        (0, Due, "send a b c; wait 500 or input"),
        (10, Input("f\n"), "wait 100 or input"),
    ]);
    Scene::new("-r 1/10ns,key=col:1 -B 2,50ns").check(&[
        (0, Input("a\nb\n"), "wait 50 or input"),
        (10, Input("a\n"), "wait 10 or input"),
        (10, Due, "send a a; wait 50 or input"),
    ]);
}

#[test]
fn a_batch_is_charged_for_what_is_in_it() {
    Scene::new("-r 10/100ns,cost=2 -B 4,50ns").check(&[
        (0, Input("a\nb\n"), "wait 50 or input"),
        (50, Due, "send a b; wait - or input"),
        (60, Input("c\nd\ne\n"), "wait 110 or input"),
        (110, Due, "send c d e; wait - or input"),
    ]);
    Scene::new("-r 10/100ns,cost=2 -B 4").check(&[
        (0, Input("a\nb\n"), "wait 0 or input"),
        (0, Due, "send a b; wait - or input"),
        (10, Input("c\nd\ne\n"), "wait 10 or input"),
        (10, Due, "send c d e; wait - or input"),
    ]);
}

#[test]
fn a_release_carries_no_more_items_than_the_sink_takes() {
    for args in ["-r 9/s -B 9", "-r 99/s,cost=2 -B 9"] {
        let scene = Scene::new(args);
        let capacity = Capacity { items: 2, ..scene.capacity };
        Scene { capacity, ..scene }.check(&[
            (0, Input("a\nb\nc\n"), "wait 0 or input"),
            (0, Due, "send a b; wait 0 or input"),
            (0, Due, "send c; wait - or input"),
        ]);
    }
}

#[test]
fn a_batch_closes_when_it_is_full_or_has_lingered_or_the_input_ends() {
    Scene::new("-r 1/10ns -B 3,50ns").check(&[
        (0, Input("a\nb\nc\nd\n"), "wait 0 or input"),
        (0, Due, "send a b c; wait 50 or input"),
        (50, Due, "send d; wait - or input"),
        (60, Input("e\n"), "wait 110 or input"),
        (70, EndOfInput, "send e; finish 0"),
    ]);
}

#[test]
fn a_batch_without_time_to_linger_is_what_has_arrived_and_fits() {
    Scene::new("-r 10/100ns,cost=col:1 -B 5").check(&[
        (0, Input("4\n4\n4\n"), "wait 0 or input"),
        (0, Due, "send 4 4; wait 100 or input"),
        (50, Input("6\n1\n"), "wait 100 or input"),
        (100, Due, "send 4 6; wait 200 or input"),
    ]);
}

#[test]
fn a_batch_knows_the_capacity_of_the_sink() {
    let scene = Scene::new("-r 9/s -B 9 -- cmd");
    let line =
        CommandLine { several: 10, single: 20, longest: 15, times: 1, overhead: 2, ..CommandLine::default() };
    let capacity = Capacity { line: Some(line), ..scene.capacity };
    Scene { capacity, ..scene }.check(&[
        // Two items of 1 byte with their delimiters weigh 8, one more would be 12. One of 16 bytes never fits.
        (0, Input("a\nb\nc\n0123456789abcdef\n"), "wait 0 or input"),
        (0, Due, "send a b; wait -"),
        (9, Ended(1, 0), "wait 9 or input"),
        (9, Due, "send c; wait -"),
        (15, Ended(3, 0), "failed 4; wait - or input"),
    ]);
}

/// Found by a property test, seed 13924.
#[test]
fn what_has_arrived_joins_a_batch_that_refused_items_made_room_for() {
    Scene::new("-r 3/6ns,cost=col:1 --on-limit drop -B 3 --lookahead 3").check(&[
        (0, Input("3 a\n"), "wait 0 or input"),
        (0, Due, "send 3 a; wait - or input"),
        (3, Input("1 b\n2 c\n0 d\n0 e\n"), "wait 3"),
        (3, Due, "wait 3 or input"),
        (3, Due, "send 0 d 0 e; wait - or input"),
    ]);
}

#[test]
fn batches_that_wait_for_more_go_on_under_limits_with_other_keys() {
    Scene::new("-r 9/100ns,key=col:1 -B 3,50ns").check(&[
        (0, Input("a 1\nb 1\n"), "wait 50 or input"),
        (5, Limits("9/100ns"), "limits; wait 50 or input"),
        (6, EndOfInput, "send a 1 b 1; finish 0"),
    ]);
    Scene::new("-r 9/100ns,key=col:1 -B 3,50ns").check(&[
        (0, Input("a x\nb x\n"), "wait 50 or input"),
        (5, Limits("9/100ns,key=col:2"), "limits; wait 50 or input"),
        (6, EndOfInput, "send a x b x; finish 0"),
    ]);
}

/// From then on, a bucket saves up for it, even if no command may take it.
#[test]
fn a_batch_is_next_in_line_from_the_end_of_the_input_on() {
    Scene::new("-r 1/10ns,algo=bucket,burst=1,cost=col:1 -B 3,1h -j 1 -- cmd").check(&[
        (0, Input("1 a\n1 b\n1 c\n"), "wait 20 or input"),
        (20, Due, "send 1 a 1 b 1 c; wait -"),
        (25, Input("3 d\n"), "wait -"),
        (30, EndOfInput, "wait -"),
        (100, Ended(1, 0), "send 3 d; wait -"),
    ]);
}

#[test]
fn what_did_not_fit_lets_nothing_pass() {
    Scene::new("-r 5/100ns,cost=col:1 -B 9,50ns").check(&[
        (0, Input("2\n4\n1\n"), "wait 0 or input"),
        (0, Due, "send 2; wait 100 or input"),
        (100, Due, "send 4 1; wait - or input"),
    ]);
    // It costs all that is ever admitted.
    Scene::new("-r 5/100ns,cost=col:1 -B 9,50ns")
        .check(&[(0, Input("2\n3\n"), "wait 50 or input"), (50, Due, "send 2 3; wait - or input")]);
    for batch in ["9", "9,50ns"] {
        Scene::new(&format!("-r 9/s -r 5/100ns,cost=col:1 -B {batch}"))
            .check(&[(0, Input("4\n4\n"), "wait 0 or input"), (0, Due, "send 4; wait 100 or input")]);
    }
}

#[test]
fn a_batch_is_tried_again_as_a_whole() {
    Scene::new("-r 5/100ns,cost=col:1 -B 3 -j 9 --retries 1 --backoff 200ns..200ns -- cmd").check(&[
        (0, Input("2 a\n3 b\n"), "wait 0 or input"),
        (0, Due, "send 2 a 3 b; wait - or input"),
        (5, Ended(1, 1), "wait 205 or input"),
        (150, Input("3 c\n"), "wait 150 or input"),
        (150, Due, "send 3 c; wait 205 or input"),
        (205, Due, "wait 250 or input"),
        (250, Due, "send 2 a 3 b; wait - or input"),
    ]);
    // It costs what it cost before.
    Scene::new("-r 8/100ns,cost=col:1 -B 3 -j 9 --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("2 a\n3 b\n"), "wait 0 or input"),
        (0, Due, "send 2 a 3 b; wait - or input"),
        (5, Ended(1, 1), "wait 40 or input"),
        (40, Due, "wait 100 or input"),
        (100, Due, "send 2 a 3 b; wait - or input"),
        (101, Input("3 c\n"), "wait 101 or input"),
        (101, Due, "send 3 c; wait - or input"),
    ]);
    // It does not linger again.
    Scene::new("-r 9/s,key=col:1 -B 3,1h --lookahead 2 -j 9 --retries 1 --backoff 35ns..35ns -- cmd").check(
        &[
            (0, Input("a\nb\nc\nd\n"), "send a; send b; wait 0 or input"),
            (0, Due, "send c; wait 0 or input"),
            (0, Due, "send d; wait 1000000000 or input"),
            (5, Ended(1, 1), "wait 40 or input"),
            (40, Due, "send a; wait 1000000000 or input"),
        ],
    );
}

#[test]
fn a_batch_that_backs_off_in_order_waits_for_that_although_the_input_has_ended() {
    Scene::new("-r 1/100ns --in-order -B 2,1h -j 9 --retries 1 --backoff 200ns..200ns -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "wait 0 or input"),
        (0, Due, "send a b; wait 3600000000000 or input"),
        (1, EndOfInput, "wait 100"),
        (2, Ended(1, 1), "wait 202"),
        (202, Due, "send a b; wait 302"),
        (302, Due, "send c; wait -"),
    ]);
}

#[test]
fn what_arrives_at_the_awaited_instant_is_in_the_batch() {
    let mut scene = Scene::new("-r 1/100ns,key=col:1 -B 3");
    assert_eq!(scene.actions(0), "wait - or input");
    scene.happens(Time(5), &Input("a 1\na 2\n"));
    scene.check(&[(5, Due, "send a 1 a 2; wait 1000000005 or input")]);
}

#[test]
fn what_has_arrived_is_let_in_once_a_whole_batch_is_refused() {
    Scene::new("-r 1/100ns --on-limit drop -B 2,50ns --lookahead 2").check(&[
        (0, Input("a\nb\n"), "send a b; wait - or input"),
        (10, Input("c\nd\ne\n"), "wait 10"),
        (10, Due, "wait 60 or input"),
    ]);
}
