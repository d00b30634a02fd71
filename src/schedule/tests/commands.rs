//! Commands: what is reported, and what follows from their ends.

use super::*;

/// The sink takes no item from the fourth on. The second backs off, and the key of the third is blocked.
#[test]
fn only_what_the_sink_still_takes_is_sent() {
    let scene = Scene::new("-r 1/10ns -r 1/60ns,key=col:1 -j 9 -k --retries 1 --backoff 15ns..15ns -- cmd");
    let mut scene = Scene { capacity: Capacity { before: 4, ..scene.capacity }, ..scene };
    scene.follow(&[
        (0, Input("a\nb\na\nc\nd\n"), "send a; wait 10"),
        (10, Due, "send b; wait 60"),
        (12, Ended(2, 1), "wait 27"),
        // The keys of both have been used, at 0 and at 10.
        (27, Due, "wait 60"),
    ]);
    scene.capacity.before = 3;
    assert_eq!(scene.actions(28), "wait 70");
    scene.capacity.before = u64::MAX;
    assert_eq!(scene.actions(29), "send c; wait 39 or input");
}

#[test]
fn in_order_it_is_told_up_to_where_all_have_been_sent() {
    Scene::new("-r 1/10ns -j 9 -k --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait 10 or input"),
        (10, Due, "send b; wait 20 or input"),
        (12, Ended(2, 0), "retire 2 3; wait 20 or input"),
        (15, Ended(1, 1), "wait 20 or input"),
        (20, Due, "send c; wait 50 or input"),
        // The first item backs off, so it is not settled.
        (22, Ended(3, 0), "retire 3 4; wait 50 or input"),
        (50, Due, "send a; wait - or input"),
        (55, Ended(1, 0), "retire 1 4; wait - or input"),
    ]);
}

#[test]
fn a_carriage_return_in_an_argument_is_told_once() {
    let line =
        CommandLine { several: 99, single: 99, longest: 99, times: 1, overhead: 0, ..CommandLine::default() };
    let warning = "warning item 2 ends in a carriage return, which COMMAND gets: \
                   add --trim, or filter with tr -d '\\r'";
    let input = "a\nb\r\nc\r\n";
    let scene = || Scene::new("-r 9/s -j 9 -- cmd");
    let capacity = Capacity { line: Some(line), ..scene().capacity };
    let told = format!("send a; {warning}; send b; send c; wait - or input");
    Scene { capacity, ..scene() }.check(&[(0, Input(input), &told)]);
    // No warning if it does not become an argument, or if items are not lines.
    scene().check(&[(0, Input(input), "send a; send b; send c; wait - or input")]);
    let mut scene = Scene { capacity, ..Scene::new("-r 9/s -j 9 -d ; -- cmd") };
    scene.schedule.input(Segment::of(b"a\r;b\r;".to_vec(), 2, Time(0)));
    assert!(!scene.actions(0).contains("warning"));
}

#[test]
fn failures_add_up_until_they_end_the_run() {
    Scene::new("-r 9/s -j 9 --halt soon,fail=2 -- cmd").check(&[
        (0, Input("a\nb\nc\nd\n"), "send a; send b; send c; send d; wait - or input"),
        (1, Ended(1, 1), "failed 1; wait - or input"),
        (2, Ended(2, 0), "wait - or input"),
        (3, Ended(3, 1), "failed 3; halted after 2; wait -"),
        // The halt is reported only once.
        (4, Ended(4, 1), "failed 4; finish 123"),
    ]);
    Scene::new("-r 9/s -j 9 --halt now,fail=50% -- cmd").check(&[
        (0, Input("a\nb\nc\nd\n"), "send a; send b; send c; send d; wait - or input"),
        (1, Ended(1, 0), "wait - or input"),
        (2, Ended(2, 0), "wait - or input"),
        (3, Ended(3, 1), "failed 3; wait - or input"),
        (4, Ended(4, 1), "failed 4; halted after 2; SIGTERM; finish 123"),
    ]);
}

/// All items have been started by the end of the time, and one exits with 255.
#[test]
fn a_run_that_waits_for_its_last_commands_can_still_be_halted() {
    let halted = |halt: &str, code, last: &str| {
        Scene::new(&format!("-r 9/s -j 9 --until 5ns --halt now,{halt} -- cmd")).check(&[
            (0, Input("a\nb\nc\n"), "send a; send b; send c; wait 6 or input"),
            (6, Due, "wait -"),
            (7, Ended(1, code), "failed 1; wait -"),
            (8, Ended(2, 0), last),
        ]);
    };
    halted("success=1", 1, "SIGTERM; wait -");
    halted("success=1", 255, "SIGTERM; wait -");
    halted("done=2", 1, "SIGTERM; wait -");
    halted("fail=2", 1, "wait -");
    Scene::new("-r 9/s -j 9 --halt now,success=1 -- cmd").check(&[
        (0, Input("a\nb\nc\nd\n"), "send a; send b; send c; send d; wait - or input"),
        (1, Ended(1, 255), "failed 1; wait -"),
        (2, Ended(2, 0), "SIGTERM; wait -"),
        (3, Ended(3, 0), "wait -"),
        (4, Ended(4, 1), "finish 0"),
    ]);
    // They have been asked to end, and are not killed.
    Scene::new("-r 9/s -j 9 --halt now,success=1 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (1, Interrupt, "SIGTERM; wait -"),
        (2, Ended(1, 0), "wait -"),
        (3, Ended(2, 1), "finish 130"),
    ]);
}

/// Whichever is known first, the end of the input or that of the command.
#[test]
fn a_percentage_is_counted_anew_once_the_number_of_all_items_is_known() {
    Scene::new("-r 1/20ns --halt soon,fail=50% -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait - or input"),
        (1, Ended(1, 1), "failed 1; wait 20 or input"),
        (2, EndOfInput, "halted after 1; finish 123"),
    ]);
    Scene::new("-r 1/20ns --halt soon,fail=51% -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait - or input"),
        (1, Ended(1, 1), "failed 1; wait 20 or input"),
        (2, EndOfInput, "wait 20"),
    ]);
}

#[test]
fn all_items_of_a_batch_fail_together() {
    let schedule = Scene::new("-r 9/s -B 2 -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "wait 0 or input"),
        (0, Due, "send a b; wait - or input"),
        (1, Ended(1, 1), "failed 1; wait - or input"),
    ]);
    assert_eq!((schedule.stats().failed, schedule.stats().settled), (2, 2));
}

#[test]
fn after_a_stop_nothing_is_tried_again() {
    let schedule = Scene::new("-r 9/s -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (1, Interrupt, "SIGTERM; wait -"),
        (2, Ended(1, 1), "failed 1; finish 130"),
    ]);
    assert_eq!(schedule.stats().bytes, 2);
}

#[test]
fn what_is_not_tried_again_has_failed() {
    let end = |halt: &str, events: &[(u64, Event, &str)]| {
        Scene::new(&format!("-r 9/s -j 9 --retries 1 --backoff 1s {halt} -- cmd")).check(events);
    };
    let begin = || (0, Input("a\nb\n"), "send a; send b; wait - or input");
    let first = || (1, Ended(1, 1), "wait 1000000001 or input");
    end(
        "--halt soon,done=1",
        &[begin(), first(), (2, Ended(2, 0), "halted after 1; failed 1 so far; finish 123")],
    );
    end(
        "--halt soon,success=1",
        &[begin(), first(), (2, Ended(2, 0), "halted after 1; failed 1 so far; finish 0")],
    );
    end("", &[begin(), first(), (2, Ended(2, 255), "failed 2; failed 1 so far; finish 124")]);
}

#[test]
fn what_fails_once_the_reader_is_gone_is_not_told() {
    Scene::new("-r 9/s -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (1, Ended(1, 1), "send a; wait - or input"),
        (2, ReaderGone, "wait -"),
        (3, Ended(1, 1), "wait -"),
        (4, Ended(2, 1), "finish 141"),
    ]);
}

#[test]
fn a_signal_that_has_ended_the_reader_as_well_is_why_the_run_ends() {
    Scene::new("-r 9/s -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (1, Interrupt, "SIGTERM; wait -"),
        (2, ReaderGone, "wait -"),
        (3, Ended(1, 0), "wait -"),
        (4, Ended(2, 1), "failed 2; finish 130"),
    ]);
}

#[test]
fn what_holds_up_a_lane_holds_up_what_joins_it() {
    Scene::new("-r 1/10ns,key=col:1 -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a 1\n"), "send a 1; wait 1000000000 or input"),
        (5, EndedAndAsks(1, 1, 100), "wait 105 or input"),
        (20, Input("a 2\nb 1\n"), "send b 1; wait 105 or input"),
        (105, Due, "send a 1; wait 115 or input"),
        (106, Ended(1, 0), "wait 115 or input"),
        (115, Due, "send a 2; wait 1000000000 or input"),
    ]);
}

#[test]
fn what_backs_off_goes_before_what_came_later() {
    Scene::new("-r 1/10ns -j 9 --in-order --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait 10 or input"),
        (5, Ended(1, 1), "wait 40 or input"),
        (40, Due, "send a; wait 50 or input"),
        (50, Due, "send b; wait 60 or input"),
    ]);
}

#[test]
fn what_runs_is_charged_by_the_limits_that_hold_when_it_ends() {
    let mut scene = Scene::new("-r 9/s,cost=col:1 -B 2 -j 9 -- cmd");
    scene.go_through(&[(0, Input("1 2 a\n1 3 a\n")), (0, Due), (1, Limits("99/s,cost=col:2,key=col:3"))]);
    let attempt = scene.schedule.attempt(1).expect("it runs");
    let charge = attempt.charge.clone();
    assert_eq!((&*charge.costs, charge.keys[0].as_slice()), (&[5][..], &b"a"[..]));
}

#[test]
fn a_limit_that_counts_from_the_end_of_a_command_starts_then() {
    Scene::new("-r 1/100ns,from=exit -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait - or input"),
        (50, Ended(1, 0), "wait 150 or input"),
        (150, Due, "send b; wait - or input"),
    ]);
    Scene::new("-r 2/100ns,algo=interval,from=exit -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait - or input"),
        (50, Ended(1, 0), "wait 100 or input"),
        (100, Due, "send b; wait - or input"),
    ]);
    Scene::new("-r 1/100ns,algo=interval -j 9 -- cmd")
        .check(&[(0, Input("a\nb\n"), "send a; wait 100 or input"), (100, Due, "send b; wait - or input")]);
    // Lanes that wait for a completion rather than an instant are re-evaluated.
    Scene::new("-r 1/100ns,from=exit,key=col:1 -j 9 -- cmd").check(&[
        (0, Input("a\nb\na\nb\n"), "send a; send b; wait - or input"),
        (50, Ended(1, 0), "wait 150 or input"),
        (60, Ended(2, 0), "wait 150 or input"),
        (150, Due, "send a; wait 160 or input"),
    ]);
}

#[test]
fn what_ends_during_a_pause_counts_after_it() {
    for (limit, pause) in [
        ("1/100ns,from=exit", "0/s,from=exit"),
        ("1/100ns,from=exit", "0/s"),
        ("1/100ns,from=exit,key=col:1", "0/s,key=col:1"),
        ("7/100ns,from=exit,cost=7", "0/s,cost=7"),
        ("1/100ns,from=exit,algo=interval", "0/s,from=exit"),
    ] {
        let mut scene = Scene::new(&format!("-r {limit} -j 9 -- cmd"));
        scene.go_through(&[
            (0, Input("a\na\n")),
            (10, Limits(pause)),
            (50, Ended(1, 0)),
            (70, Limits(limit)),
        ]);
        assert_eq!(scene.actions(149), "wait 150 or input", "{limit}, {pause}");
        assert!(scene.actions(150).starts_with("send a; "), "{limit}, {pause}");
    }
}

#[test]
fn an_item_that_backs_off_holds_up_nothing() {
    Scene::new("-r 1/10ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait 10 or input"),
        (5, Ended(1, 1), "wait 10 or input"),
        (10, Due, "send b; wait 20 or input"),
        (20, Due, "send c; wait 40 or input"),
        (40, Due, "send a; wait - or input"),
        (41, EndOfInput, "wait -"),
        (42, Ended(2, 0), "wait -"),
        (43, Ended(3, 0), "wait -"),
        (45, Ended(1, 1), "failed 1; finish 123"),
    ]);
}

#[test]
fn a_stop_is_passed_on_and_lets_running_commands_end() {
    Scene::new("-r 1/s -j 2 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait 1000000000 or input"),
        (9, Interrupt, "SIGTERM; wait -"),
        (10, Interrupt, "SIGKILL; wait -"),
        (11, Ended(1, 1), "failed 1; finish 130"),
    ]);
}

/// The first item backs off and keeps its place; those behind it wait no longer than they may.
#[test]
fn what_waits_behind_another_attempt_is_refused_at_its_deadline() {
    let waits = "-r 1/10ns --in-order -j9 --retries 1 --backoff 100ns..100ns --max-wait 30ns";
    let schedule = Scene::new(&format!("{waits} --on-limit drop -- cmd")).check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (5, Ended(1, 1), "wait 105 or input"),
        (7, Input("b\nc\n"), "wait 37 or input"),
        (20, Input("d\n"), "wait 37 or input"),
        // It wakes up too late.
        (40, Due, "wait 50 or input"),
        (50, Due, "wait 105 or input"),
        (80, Input("e\n"), "wait 105 or input"),
        (105, Due, "send a; wait 110 or input"),
        (110, Due, "wait - or input"),
    ]);
    assert_eq!((schedule.stats().refused, schedule.stats().left()), (4, 0));
    Scene::new(&format!("{waits} --on-limit fail -- cmd")).check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (5, Ended(1, 1), "wait 105 or input"),
        (7, Input("b\nc\n"), "wait 37 or input"),
        (37, Due, "expired 2; failed 1 so far; finish 75"),
    ]);
}

#[test]
fn a_halt_counts_what_has_succeeded_and_not_what_was_refused() {
    Scene::new("-r 9/100ns -j 9 --halt soon,success=1 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (1, Ended(1, 1), "failed 1; wait - or input"),
        (2, Ended(2, 0), "halted after 1; finish 0"),
    ]);
    Scene::new("-r 1/100ns -j 9 --on-limit drop --halt soon,done=2 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait - or input"),
        (1, Ended(1, 0), "wait - or input"),
        (100, Input("c\n"), "send c; wait - or input"),
        (101, Ended(3, 0), "halted after 2; finish 0"),
    ]);
    for share in ["fail=50%", "done=50%"] {
        let scene = Scene::new(&format!("-r 1/100ns -j 9 --halt now,{share} -- cmd"));
        scene.check(&[(0, EndOfInput, "finish 0")]);
    }
}

/// A command that is running may end, and something go sooner: because it fails and is retried, or as a limit counts
/// it.
#[test]
fn a_run_waits_no_longer_than_it_may_unless_the_end_of_a_command_may_shorten_it() {
    Scene::new("-r 1/100ns --max-wait 30ns -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait 0 or input"),
        (0, Due, "too long by Some(100); wait -"),
        (5, Ended(1, 0), "finish 75"),
    ]);
    for (args, wait) in
        [("-r 1/100ns --retries 1", "100"), ("-r 1/99ns,from=exit", "-"), ("-r 1/100ns -r 2/running", "100")]
    {
        Scene::new(&format!("{args} --max-wait 30ns -j 9 -- cmd")).check(&[
            (0, Input("a\nb\n"), &format!("send a; wait {wait} or input")),
            (1, Ended(1, 0), "wait 1 or input"),
            (1, Due, "too long by Some(99); finish 75"),
        ]);
    }
    // The end of a backoff comes first.
    Scene::new("-r 2/100ns --max-wait 60ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; send b; wait 100 or input"),
        (1, Ended(1, 1), "wait 36 or input"),
        (2, Ended(2, 0), "wait 36 or input"),
    ]);
}

#[test]
fn one_that_may_wait_until_an_instant_does_whatever_runs() {
    let scene = |args: &str| Scene::new(args).patient(30);
    scene("-r 1/running -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait 30 or input"),
        (29, Due, "wait 30 or input"),
        (30, Due, "too long by None; wait -"),
    ]);
    scene("-r 1/30ns -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait 30 or input"),
        (30, Due, "send b; wait - or input"),
        (31, Input("c\n"), "wait 31 or input"),
    ]);
    scene("-r 1/31ns -j 9 --retries 1 -- cmd")
        .check(&[(0, Input("a\nb\n"), "send a; wait 0 or input"), (0, Due, "too long by Some(31); wait -")]);
}

/// The second lane waits for an earlier item than the first.
#[test]
fn what_the_sink_takes_leaves_in_input_order() {
    let scene = Scene::new("-r 1/100ns,key=col:1 -j 9 -k -- cmd");
    Scene { capacity: Capacity { before: 5, ..scene.capacity }, ..scene }.check(&[
        (0, Input("a\nb\nb\na\n"), "send a; send b; wait 100 or input"),
        (100, Due, "send b; send a; wait 1000000000 or input"),
    ]);
    let scene = Scene::new("-r 9/s -j 9 -k -- cmd");
    Scene { capacity: Capacity { before: 2, ..scene.capacity }, ..scene }.check(&[(
        0,
        Input("a\nb\n"),
        "send a; wait -",
    )]);
}

#[test]
fn what_is_refused_is_told_to_outputs_that_wait_for_it() {
    Scene::new("-r 1/100ns --on-limit drop -j 9 -k -- cmd").check(&[(
        0,
        Input("a\nb\n"),
        "send a; retire 2 3; wait - or input",
    )]);
}

#[test]
fn a_run_ends_when_nothing_is_left_to_be_tried_again() {
    Scene::new("-r 9/s -j 9 --retries 1 --backoff 35ns..35ns --until 99ns -- cmd").check(&[
        (0, Input("a\n"), "send a; wait 100 or input"),
        (1, EndOfInput, "wait -"),
        (5, Ended(1, 1), "wait 40"),
        (40, Due, "send a; wait -"),
        (41, Ended(1, 0), "finish 0"),
    ]);
    Scene::new("-r 9/s -j 9 --retries 1 --backoff 1h -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (1, Ended(1, 1), "wait 3600000000001 or input"),
        (2, ReaderGone, "finish 141"),
    ]);
}

#[test]
fn an_argument_that_no_command_could_be_given_ends_the_run_in_its_turn() {
    let line = CommandLine { several: 99, single: 99, longest: 5, times: 1, ..CommandLine::default() };
    let scene = Scene::new("-r 9/s --halt soon,fail=1 -j 9 -- cmd");
    Scene { capacity: Capacity { line: Some(line), ..scene.capacity }, ..scene }.check(&[(
        0,
        Input("too long\na\n"),
        "failed 1; halted after 1; finish 123",
    )]);
}

#[test]
fn a_run_ends_at_its_time_unless_nothing_waits() {
    Scene::new("-r 1/100ns --until 50ns")
        .check(&[(0, Input("a\nb\n"), "send a; wait 51 or input"), (51, Due, "time is up; finish 75")]);
    Scene::new("-r 9/s -j 9 --retries 1 --backoff 1h --until 50ns -- cmd").check(&[
        (0, Input("a\n"), "send a; wait 51 or input"),
        (1, Ended(1, 1), "wait 51 or input"),
        (51, Due, "time is up; failed 1 so far; finish 75"),
    ]);
    Scene::new("-r 9/s -j 9 --until 50ns -- cmd").check(&[
        (0, Input("a\n"), "send a; wait 51 or input"),
        (1, EndOfInput, "wait -"),
        (60, Ended(1, 0), "finish 0"),
    ]);
    // While no command could take more, the input was not read.
    let until = |rows: &[(u64, Event, &str)]| {
        let mut scene = Scene::new("-r 9/s -j 1 --until 50ns -- cmd");
        scene.follow(&[(0, Input("a\n"), "send a; wait 51"), (51, Due, "wait 51 or input")]);
        scene.check(rows);
    };
    until(&[(51, Input("b\n"), "time is up; wait -"), (60, Ended(1, 0), "finish 75")]);
    until(&[(51, Due, "wait -"), (60, Ended(1, 0), "finish 0")]);
}

#[test]
fn a_run_that_may_wait_for_new_items_does_not_end_for_one_that_backs_off() {
    Scene::new("-r 9/s -j 9 --retries 1 --backoff 1h --max-wait 30ns -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (1, Ended(1, 1), "wait 3600000000001 or input"),
        (2, EndOfInput, "too long by Some(3599999999999); failed 1 so far; finish 75"),
    ]);
    // Nor for what waits until a command ends.
    Scene::new("-r 1/running --max-wait 0ns -j 9 -- cmd")
        .check(&[(0, Input("a\nb\n"), "send a; wait - or input"), (0, Due, "wait - or input")]);
}
