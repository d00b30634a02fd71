//! The counters of a run, and what is known about it.

use std::collections::VecDeque;

use super::*;
use crate::schedule::{Stats, Times};

#[test]
fn a_run_counts_items_bytes_and_the_time_that_they_waited() {
    let schedule = Scene::new("-r 1/100ns").check(&[
        (0, Input("a\nbb\n"), "send a; wait 100 or input"),
        (60, Input("c\n"), "wait 100 or input"),
        (100, Due, "send bb; wait 200 or input"),
        (200, Due, "send c; wait - or input"),
        (250, EndOfInput, "finish 0"),
    ]);
    let expected = Stats {
        read: 3,
        released: 3,
        settled: 3,
        bytes: 7,
        times: Times { waited: 200, last: Time(200), ..Times::default() },
        busiest: 3,
        ..Stats::default()
    };
    assert_eq!(schedule.stats(), expected);
    assert_eq!(schedule.stats().left(), 0);
}

/// Prometheus takes a counter that falls for one that was reset.
#[test]
fn blank_items_are_not_counted_though_they_were_not_looked_at_yet() {
    let mut scene = Scene::new("-r 1/100ns --skip-blank --lookahead 1");
    scene.happens(Time(0), &Input("a\nb\n\n \n\nc\n"));
    let mut counts = Vec::new();
    for at in [0, 100, 200] {
        scene.go_through(&[(at, Due)]);
        let stats = scene.schedule.stats();
        counts.push((stats.read, stats.released, stats.left()));
    }
    assert_eq!(counts, [(3, 1, 2), (3, 2, 1), (3, 3, 0)]);
}

#[test]
fn a_wait_that_goes_on_counts_as_far_as_it_has_come() {
    let mut scene = Scene::new("-r 1/100ns");
    scene.happens(Time(0), &Input("a\nb\n"));
    let mut waited = Vec::new();
    for at in [0, 100, 150] {
        scene.go_through(&[(at, Due)]);
        scene.schedule.count_time(Time(at + 30));
        let limit = scene.schedule.limit_stats()[0].waited;
        waited.push((scene.schedule.stats().times.waited, limit));
    }
    // From 100 on nothing waits.
    assert_eq!(waited, [(30, 30), (100, 100), (100, 100)]);
}

#[test]
fn what_leaves_in_parts_is_counted_once() {
    let schedule = Scene { takes: 1, ..Scene::new("-r 9/100ns") };
    let schedule =
        schedule.check(&[(5, Input("a\nbb\nc\n"), "send a bb c; send bb c; send c; wait - or input")]);
    let stats = schedule.stats();
    assert_eq!((stats.released, stats.settled, stats.bytes), (3, 3, 7));
}

#[test]
fn what_did_not_leave_is_not_counted() {
    let mut scene = Scene::new("-r 9/100ns");
    scene.happens(Time(5), &Input("a\n"));
    let Action::Send(admission) = scene.schedule.poll(Time(5), scene.capacity) else { panic!("it may go") };
    scene.schedule.sent(Time(7), admission, 0);
    assert_eq!(scene.schedule.stats(), Stats { read: 1, ..Stats::default() });
    assert_eq!((scene.schedule.stats().left(), scene.schedule.consumed()), (1, 0));
}

#[test]
fn the_busiest_second_is_the_one_with_the_most_releases() {
    const S: u64 = 1_000_000_000;
    let schedule = Scene::new("-r 9/100ns").check(&[
        (S - 1, Input("a\nb\n"), "send a b; wait - or input"),
        (S, Input("c\n"), "send c; wait - or input"),
        (2 * S - 1, Input("d\ne\n"), "send d e; wait - or input"),
        (2 * S, Input("f\n"), "send f; wait - or input"),
    ]);
    let stats = schedule.stats();
    assert_eq!((stats.busiest, stats.times.last), (3, Time(2 * S)));
}

#[test]
fn time_that_the_process_stood_still_is_no_time_of_the_run() {
    let mut schedule = Scene::new("-r 1/s").schedule;
    schedule.stood_still(30);
    schedule.stood_still(3);
    assert_eq!((schedule.stats().times.stopped, schedule.stats().elapsed(Time(100))), (33, 67));
}

#[test]
fn an_attempt_that_fails_is_counted_apart_from_the_release() {
    let schedule = Scene::new("-r 1/10ns -j 2 --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nbb\n"), "send a; wait 10 or input"),
        (5, Ended(1, 1), "wait 10 or input"),
        (10, Due, "send bb; wait 40 or input"),
        (12, Ended(2, 0), "wait 40 or input"),
        (40, Due, "send a; wait - or input"),
        (45, Ended(1, 1), "failed 1; wait - or input"),
        (46, EndOfInput, "finish 123"),
    ]);
    let stats = schedule.stats();
    assert_eq!((stats.released, stats.retried, stats.failed, stats.settled), (2, 1, 1, 2));
    assert_eq!(stats.ended, 0);
    // From 0 to 10 an item waited; after that, one that backed off.
    assert_eq!((stats.bytes, stats.times.waited, stats.busiest), (5, 40, 3));
}

#[test]
fn what_is_to_be_tried_again_is_left_and_named_when_the_run_ends() {
    for args in ["--backoff 1h..1h", "--backoff 1h..1h --in-order"] {
        let mut schedule = Scene::new(&format!("-r 9/10ns -j 4 --retries 1 {args} -- cmd"));
        schedule.go_through(&[(0, Input("a\nb\nc\n"))]);
        for (item, left) in [(1, 1), (3, 2)] {
            schedule.go_through(&[(5, Ended(item, 1))]);
            let stats = schedule.schedule.stats();
            assert_eq!((stats.left(), stats.retrying, stats.unreleased()), (left, left, 0), "{args}");
        }
        let schedule = schedule.check(&[
            (6, Interrupt, "SIGTERM; wait -"),
            (7, Ended(2, 1), "failed 2; failed 1 so far; failed 3 so far; finish 130"),
        ]);
        let stats = schedule.stats();
        assert_eq!((stats.released, stats.failed, stats.ended, stats.left()), (3, 1, 1, 2), "{args}");
    }
    // An item that is being retried is no longer left.
    let schedule = Scene::new("-r 9/10ns -j 4 --retries 1 --backoff 5ns..5ns -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (1, Ended(1, 1), "wait 6 or input"),
        (6, Due, "send a; wait - or input"),
        (7, Interrupt, "SIGTERM; wait -"),
        (8, Ended(1, 1), "failed 1; finish 130"),
    ]);
    let stats = schedule.stats();
    assert_eq!((stats.failed, stats.left(), stats.retrying), (1, 0, 0));
}

/// Models a run that releases one item at a time, bad ones in their turn: returns the numbers released and failed. The
/// percentage is of all items if their number is `known`, otherwise of those that have ended.
fn in_turn(items: &[&str], percent: u64, known: bool) -> (u64, u64) {
    let (mut released, mut failed) = (0, 0);
    for (ended, item) in (1..).zip(items) {
        let count = if *item == "1" { &mut released } else { &mut failed };
        *count += 1;
        let of = if known { items.len() as u64 } else { ended };
        if *item != "1" && (known || ended >= 3) && failed * 100 >= of * percent {
            break;
        }
    }
    (released, failed)
}

/// The same for a real run that reads `items` in pieces whenever nothing else happens. It learns of the end of the
/// input at the start if `known`, otherwise when all items are done.
fn in_pieces(items: &[&str], percent: u64, known: bool, random: &mut fastrand::Rng) -> (u64, u64) {
    let args = format!("-r 1T/s,cost=col:1 --on-bad skip --halt soon,fail={percent}% -- cmd");
    let (mut scene, mut left, mut running) = (Scene::new(&args), items, VecDeque::new());
    if known {
        let text: Vec<u8> = items.iter().flat_map(|item| format!("{item}\n").into_bytes()).collect();
        scene.schedule.input(Segment::of(text, items.len() as u64, Time(0)));
        scene.schedule.end_of_input(Time(0), None);
    }
    for now in (0..).map(Time) {
        let vacancies = 1 - running.len() as u64;
        match scene.schedule.poll(now, Capacity { vacancies, ..scene.capacity }) {
            Action::Send(admission) => {
                running.push_back(admission.batch().first());
                scene.schedule.sent(now, admission, 1);
            }
            Action::Wait { accepting, .. } if accepting && (running.is_empty() || random.bool()) => {
                let (piece, rest) = left.split_at(random.usize(..=left.len()));
                left = rest;
                match piece {
                    [] if left.is_empty() && running.is_empty() => scene.schedule.end_of_input(now, None),
                    [] => {}
                    piece => {
                        let text: Vec<u8> =
                            piece.iter().flat_map(|item| format!("{item}\n").into_bytes()).collect();
                        scene.schedule.input(Segment::of(text, piece.len() as u64, now));
                    }
                }
            }
            Action::Wait { .. } => {
                let first = running.pop_front().expect("it waits for a command");
                let end = End::Exited(0);
                scene.schedule.job_ended(now, &JobEnd::new(first, end));
            }
            Action::Finish(_) => break,
            _ => {}
        }
    }
    let stats = scene.schedule.stats();
    (stats.released, stats.failed)
}

#[test]
fn bad_items_count_in_turn_however_the_input_is_cut() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let share = random.f64();
        let count = if seed % 50 == 0 { 3000 } else { random.usize(1..30) };
        let items: Vec<_> = (0..count).map(|_| if random.f64() < share { "x" } else { "1" }).collect();
        let percent = random.u64(1..=100);
        let known = random.bool() && count < 1000;
        let expected = in_turn(&items, percent, known);
        let found = in_pieces(&items, percent, known, &mut random);
        assert_eq!(found, expected, "seed {seed}: {percent}%, known {known}, {items:?}");
    }
}

#[test]
fn bad_items_that_were_not_reached_are_left() {
    let schedule = Scene::new("-r 1/100ns,cost=col:1 --on-bad skip").check(&[
        (0, Input("1\n1\nx\n"), "send 1; wait 100 or input"),
        (5, Interrupt, "SIGTERM; finish 130"),
    ]);
    assert_eq!((schedule.stats().failed, schedule.stats().left(), schedule.consumed()), (0, 2, 2));
    // The bad item is not reached, as its turn comes only after all that left.
    let schedule = Scene::new("-r 2/100ns,cost=col:1 --on-bad skip -j 2 -- cmd").check(&[
        (0, Input("1\nx\n1\n"), "send 1; send 1; wait -"),
        (5, Interrupt, "SIGTERM; wait -"),
        (6, Ended(3, 0), "wait -"),
        (7, Ended(1, 0), "finish 130"),
    ]);
    assert_eq!((schedule.stats().left(), schedule.consumed()), (1, 2));
}

#[test]
fn what_waits_for_a_command_does_not_wait_for_a_limit() {
    let schedule = Scene::new("-r 1/100ns -j 1 -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait -"),
        (50, Ended(1, 0), "wait 100 or input"),
        (100, Due, "send b; wait -"),
        (300, Ended(2, 0), "send c; wait -"),
        (310, Interrupt, "SIGTERM; wait -"),
        (400, Ended(3, 0), "finish 130"),
    ]);
    assert_eq!(schedule.stats().times.waited, 50);
    assert_eq!(waits(&schedule), [1]);
}

#[test]
fn after_a_stop_nothing_waits() {
    let schedule = Scene::new("-r 1/100ns -j 2 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; wait 100 or input"),
        (10, Interrupt, "SIGTERM; wait -"),
        (90, Ended(1, 0), "finish 130"),
    ]);
    assert_eq!(schedule.stats().times.waited, 10);
}

#[test]
fn each_wait_is_counted_once_for_the_limit_that_it_was_for() {
    let schedule = Scene::new("-r 1/100ns -r 2/1us").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait 100 or input"),
        (50, Input("d\n"), "wait 100 or input"),
        (100, Due, "send b; wait 1000 or input"),
        (101, EndOfInput, "wait 1000"),
    ]);
    assert_eq!(waits(&schedule), [1, 1]);
    // Asking for more input of the same instant is not a wait.
    let schedule = Scene::new("-r 1/100ns -B 2 -j 1 -- cmd").check(&[
        (0, Input("a\nb\n"), "wait 0 or input"),
        (0, Due, "send a b; wait -"),
        (10, Input("c\n"), "wait -"),
        (100, Ended(1, 0), "wait 100 or input"),
        (100, Due, "send c; wait -"),
    ]);
    assert_eq!((schedule.stats().times.waited, waits(&schedule)), (0, vec![0]));
    // Nor is it one for the limit that then refuses the items, even if the clock has gone on.
    let schedule = Scene::new("-r 1/100ns -B 2 --on-limit drop").check(&[
        (0, Input("a\nb\nc\nd\n"), "wait 0 or input"),
        (1, Due, "send a b; wait 1 or input"),
        (5, Due, "wait 5 or input"),
        (6, Due, "wait 6 or input"),
        (7, Due, "wait - or input"),
    ]);
    assert_eq!((schedule.stats().times.waited, waits(&schedule)), (0, vec![0]));
}

#[test]
fn items_that_are_done_with_are_passed_over() {
    let mut scene = Scene::new("-r 9/100ns,key=col:1,only=z");
    scene.schedule.skip(Box::new(|item| item == b"b"));
    let schedule = scene.check(&[
        (0, Input("a\nb\nc\n"), "send a c; wait - or input"),
        // No warning: the skipped item may have had the key.
        (9, EndOfInput, "finish 0"),
    ]);
    assert_eq!((schedule.stats().skipped, schedule.stats().released), (1, 2));
}

#[test]
fn a_limit_that_no_item_matched_is_not_told_without_items_or_after_a_stop() {
    Scene::new("-r 1/100ns,key=col:1,only=a").check(&[(0, EndOfInput, "finish 0")]);
    Scene::new("-r 1/100ns -r 1/s,key=col:1,only=a")
        .check(&[(0, Input("b\nb\n"), "send b; wait 100 or input"), (1, Interrupt, "SIGTERM; finish 130")]);
}

#[test]
fn the_input_is_consumed_up_to_the_first_item_that_waits() {
    let mut scene = Scene::new("-r 1/100ns,key=col:1");
    let mut consumed = Vec::new();
    for (at, event) in [(0, Input("a\na\nb\n")), (50, Input("c\na\nb\n")), (100, Due), (200, Due)] {
        scene.go_through(&[(at, event)]);
        consumed.push(scene.schedule.consumed());
    }
    assert_eq!(consumed, [2, 2, 8, 12]);
}

#[test]
fn the_input_is_consumed_up_to_the_bad_item_that_ends_the_run() {
    for batch in ["", "-B 2 "] {
        let schedule = Scene::new(&format!("{batch}-r 9/100ns,cost=col:1")).check(&[(
            0,
            Input("1\nx\n1\n1\n"),
            "send 1; error item 2: its cost, col:1, is 'x', not a whole number: 'x'; finish 1",
        )]);
        assert_eq!((schedule.stats().left(), schedule.consumed()), (3, 2), "{batch}");
    }
}

#[test]
fn what_is_to_be_tried_again_is_not_consumed() {
    for backoff in ["", "--backoff 98ns "] {
        let schedule = Scene::new(&format!("-r 2/100ns -j 9 --retries 1 {backoff}-- cmd")).check(&[
            (0, Input("a\nb\n"), "send a; send b; wait - or input"),
            (1, Ended(1, 0), "wait - or input"),
            (2, Ended(2, 1), "wait 100 or input"),
            (3, Interrupt, "SIGTERM; failed 2 so far; finish 130"),
        ]);
        assert_eq!((schedule.stats().left(), schedule.consumed()), (1, 2), "{backoff}");
    }
}

#[test]
fn it_is_known_what_runs_and_when_the_next_release_may_be() {
    let mut scene = Scene::new("-r 1/10ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd");
    assert_eq!((scene.schedule.running(), scene.schedule.next_release()), (0, None));
    scene.go_through(&[(0, Input("a\nbb\nc\n"))]);
    assert_eq!((scene.schedule.running(), scene.schedule.next_release()), (1, Some(Time(10))));
    let attempt = scene.schedule.attempt(1).expect("it runs");
    assert_eq!((attempt.batch.attempt(), attempt.batch.items(), attempt.batch.bytes()), (1, 1, 2));
    assert!(scene.schedule.attempt(2).is_none());
    scene.go_through(&[(10, Due), (20, Due), (21, Ended(2, 1))]);
    // Only items that back off are waiting.
    assert_eq!((scene.schedule.running(), scene.schedule.next_release()), (2, Some(Time(56))));
}

#[test]
fn a_turn_that_never_comes_ends_the_run_unless_something_may_change_that() {
    const LATE: u64 = 1 << 60;
    let never = "error the next release would be later than any clock can show: shorten the period";
    Scene::new("-r 1/584y").check(&[(LATE, Input("a\nb\n"), &format!("send a; {never}; finish 1"))]);
    let dear = never.replace("shorten", "check the costs of the items, or shorten");
    Scene::new("-r 1/584y,cost=col:1,algo=interval").check(&[(
        LATE,
        Input("1\n1\n"),
        &format!("send 1; {dear}; finish 1"),
    )]);
    Scene::new("-r 1/584y -j 2 -- cmd").check(&[
        (LATE, Input("a\nb\n"), "send a; wait - or input"),
        (LATE + 1, Ended(1, 0), &format!("{never}; finish 1")),
    ]);
    Scene::new("-r 1/s").check(&[
        (0, Input("a\nb\n"), "send a; wait 1000000000 or input"),
        (1, Limits("0/s"), "limits; wait - or input"),
        (2, Limits("2/s"), "limits; send b; wait - or input"),
    ]);
}

#[test]
fn a_sink_that_fails_ends_the_run() {
    let mut scene = Scene::new("-r 1/100ns");
    scene.schedule.fail(crate::exit::Exit::Error, anyhow::anyhow!("no"));
    assert_eq!(scene.actions(0), "error no; finish 1");
}

/// Even if the new one allows it at the same instant.
#[test]
fn a_wait_is_one_for_each_of_two_limits_that_follow_each_other() {
    let schedule = Scene::new("-r 1/100ns").check(&[
        (0, Input("a\nb\n"), "send a; wait 100 or input"),
        (30, Limits("1/60ns,margin=40ns"), "limits; wait 100 or input"),
        (100, Due, "send b; wait - or input"),
    ]);
    let counts = schedule.limit_stats().iter().map(|limit| (limit.waits, limit.waited));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 30), (1, 70)]);
}

#[test]
fn the_wait_for_the_next_end_of_a_command_is_another() {
    let schedule = Scene::new("-r 1/running -j 9 -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait - or input"),
        (10, Ended(1, 0), "send b; wait - or input"),
        (20, Ended(2, 0), "send c; wait - or input"),
    ]);
    assert_eq!((waits(&schedule), schedule.limit_stats()[0].waited), (vec![2], 20));
}

#[test]
fn attempts_count_for_the_limits_that_were_charged() {
    let args = "-r 9/100ns -r 9/s,key=col:1,only=b -j 9 --retries 1 --backoff 35ns..35ns -- cmd";
    let mut schedule = Scene::new(args).check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (1, Ended(1, 1), "wait 36 or input"),
        (5, Ended(2, 1), "wait 36 or input"),
        (36, Due, "send a; wait 40 or input"),
        (37, Ended(1, 1), "failed 1; wait 40 or input"),
        (40, Due, "send b; wait - or input"),
    ]);
    let counts = |schedule: &Schedule| {
        schedule.limit_stats().iter().map(|limit| (limit.retried, limit.failed)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&schedule), [(2, 1), (1, 0)]);
    assert!(schedule.attempt(2).is_some() && !schedule.is_tried_again(2));
    schedule.not_printed(3);
    assert_eq!(schedule.stats().unprinted, 3);
}

#[test]
fn what_is_to_be_released_again_is_not_done_with() {
    let schedule = Scene::new("-r 9/100ns -j 9 --retries 1 --backoff 35ns..35ns -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "send a; send b; send c; wait - or input"),
        (1, Ended(2, 1), "wait 36 or input"),
        (2, Ended(3, 1), "wait 36 or input"),
    ]);
    assert_eq!(schedule.consumed(), 2);
    assert!(schedule.is_tried_again(2) && schedule.attempt(2).is_none());
    assert!(!schedule.is_tried_again(1) && schedule.attempt(1).is_some());
    assert!(!schedule.is_tried_again(9));
}

/// Each release is observed as of when it was over, and what did not leave is not.
#[test]
fn an_observer_sees_what_the_limits_were_charged_for() {
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let scene = Scene::new("-r 3/100ns");
    let mut scene = Scene { takes: 2, slowness: 7, ..scene };
    let observed = std::rc::Rc::clone(&seen);
    scene.schedule.observe(Box::new(move |now, request| {
        observed.borrow_mut().push((now.0, request.eligible_at.0, request.costs.to_vec()));
    }));
    scene.check(&[(5, Input("a\nb\nc\nd\n"), "send a b c; send c; wait 112 or input")]);
    assert_eq!(*seen.borrow(), [(12, 5, vec![1]), (12, 5, vec![1]), (19, 12, vec![1])]);
}

#[test]
fn only_what_waits_for_a_limit_is_counted_as_its_wait() {
    // What is delayed waits for the limit from the end of its delay on.
    let jitter = "50ns,seed=1".parse::<crate::config::Jitter>().unwrap();
    let (first, second) = (jitter.delay(1, 1), jitter.delay(2, 1));
    let schedule = Scene::new("-r 1/100ns -r 9/s,key=col:1 --jitter=50ns,seed=1").check(&[
        (0, Input("a\nb\n"), &format!("wait {first} or input")),
        (first, Due, &format!("send a; wait {second} or input")),
        (second, Due, &format!("wait {} or input", first + 100)),
        (first + 100, Due, "send b; wait 1000000000 or input"),
    ]);
    assert_eq!(schedule.limit_stats()[0].waited, first + 100 - second);
    // A limit that ends after a hold counts, and the hold does not.
    let schedule = Scene::new("-r 1/200ns -j 9 -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (5, EndedAndAsks(1, 0, 100), "wait - or input"),
        (20, Input("b\n"), "wait 200 or input"),
        (200, Due, "send b; wait - or input"),
    ]);
    assert_eq!((schedule.stats().times.holds, waits(&schedule)), (0, vec![1]));
    let schedule = Scene::new("-r 9/s -B 2,50ns")
        .check(&[(0, Input("a\n"), "wait 50 or input"), (50, Due, "send a; wait - or input")]);
    assert_eq!((schedule.stats().times.waited, schedule.stats().times.holds), (50, 0));
}

#[test]
fn a_run_that_goes_by_the_wall_clock_says_so() {
    for (args, expected) in [
        ("-r 1/s", false),
        ("-r 1/s --until 50ns", false),
        ("-r 1/s --until 12:00", true),
        ("-r 9/s -r 1/1d,algo=calendar,tz=UTC", true),
    ] {
        assert_eq!(Scene::new(args).schedule.goes_by_wall(), expected, "{args}");
    }
}
