//! Shared limits, kept by slots that a store books.

mod batches;
mod ends;

use super::*;
use crate::config::Jitter;
use crate::exit::Exit;
use crate::schedule::WaitReason;

fn scene(args: &str, span: u64, most: u64) -> Scene {
    Scene::booking(args, booking_terms(span, &[most]))
}

/// An answer of the store to an order for this key and cost.
fn answered(scene: &mut Scene, at: u64, key: &str, cost: u64, slots: &[u64], next: Option<u64>) -> String {
    scene.answered(Time(at), &Order::new(Key::from_slice(key.as_bytes()), [cost], 1), slots, next);
    scene.actions(at)
}

#[test]
fn an_item_that_costs_more_than_is_ever_admitted_is_bad() {
    let bucket = "-r 9/100ns,algo=bucket,cost=col:1";
    let why = "item 2: its cost of 6 is more than the limit 9/100ns,algo=bucket,burst=9,cost=col:1 ever admits if \
               shared, 5 (a higher burst would): '6'";
    scene(bucket, 2, 5).check(&[
        (0, Input("5\n6\n5\n"), "book 1; wait -"),
        (1, BookedFor("", 5, &[1]), &format!("send 5; error {why}; finish 1")),
    ]);
    scene(&format!("{bucket} --on-bad skip"), 2, 5).check(&[
        (0, Input("5\n6\n5\n"), "book 2; wait - or input"),
        (1, BookedFor("", 5, &[1, 8]), &format!("send 5; bad {why}; wait 8 or input")),
    ]);
}

#[test]
fn a_slot_says_until_when_its_release_may_leave() {
    let mut scene = scene("-r 1/100ns", 2, 1);
    scene.go_through(&[(0, Input("a\nb\n")), (1, Booked(&[10, 110]))]);
    scene.happens(Time(10), &Due);
    let Action::Send(admission) = scene.schedule.poll(Time(10), scene.capacity) else { panic!("it may go") };
    assert_eq!(admission.good_until(), Some(Time(15)));
    scene.schedule.sent(Time(11), admission, 1);
    // Still known after it is charged, as the process may be about to become a command.
    assert_eq!(scene.schedule.good_until(), Some(Time(15)));
}

#[test]
fn lanes_that_are_alike_in_nothing_share_the_vacancies() {
    scene("-r 9/s,key=col:1 -j 7 -- cmd", 3, 9).check(&[
        // For a, at most 3 at once; for b, as many as there are; for c, the vacancies that are left.
        (0, Input("a\na\na\na\nb\nc\nc\nc\nd\n"), "book 3; book 1; book 3; wait - or input"),
    ]);
    // Nor are those booked that are due soon.
    scene("-r 9/s -j 2 -- cmd", 3, 9).check(&[
        (0, Input("a\nb\nc\nd\n"), "book 2; wait - or input"),
        (1, Booked(&[5, 7]), "wait 5 or input"),
        (5, Due, "send a; wait 7 or input"),
    ]);
}

/// A slot that could not be used would be wasted.
#[test]
fn no_slot_is_booked_while_a_local_limit_is_shut() {
    scene("-r 9/s -r 1/running -j 3 -- cmd", 2, 9).check(&[
        (0, Input("a\nb\n"), "book 1; wait - or input"),
        (1, Booked(&[4]), "wait 4 or input"),
        (4, Due, "send a; wait - or input"),
        // Until then, it is not known when the next command may start.
        (9, Ended(1, 0), "book 1; wait - or input"),
        (10, Booked(&[10]), "send b; wait - or input"),
    ]);
    scene("-r 9/s -r 1/100ns,key=col:1,local", 2, 9).check(&[
        (0, Input("a 1\na 2\nb 1\n"), "book 2; wait - or input"),
        (1, Booked(&[1, 1]), "send a 1 b 1; wait 101 or input"),
        (101, Due, "book 1; wait - or input"),
        (102, Booked(&[103]), "wait 103 or input"),
        (103, Due, "send a 2; wait 1000000000 or input"),
    ]);
}

/// When one lane has used up what a limit of the run allows, the slots of others that are still to come are given back.
#[test]
fn a_slot_that_a_local_limit_would_waste_is_given_back() {
    scene("-r 9/s,key=col:1 -r 1/100ns,local", 3, 9).check(&[
        (0, Input("a\n"), "book 1; wait - or input"),
        // A slot that is far off does not keep others from going before it.
        (1, BookedFor("a", 1, &[200_000_000]), "wait 149999999 or input"),
        (2, Input("b\n"), "book 1; wait 149999999 or input"),
        (3, BookedFor("b", 1, &[3]), "send b; give back 200000000; wait 103 or input"),
        (103, Due, "book 1; wait - or input"),
    ]);
}

/// What a limit of the run alone does not allow is refused at once, and no slot is asked for.
#[test]
fn an_item_that_does_not_wait_is_refused_by_a_local_limit_first() {
    let schedule = scene("-r 9/s -r 1/100ns,local --on-limit drop", 2, 9).check(&[
        (0, Input("a\n"), "ask for 1; wait - or input"),
        (1, Booked(&[1]), "send a; wait - or input"),
        (50, Input("b\n"), "wait - or input"),
        (101, Input("c\n"), "ask for 1; wait - or input"),
    ]);
    assert_eq!(schedule.limit_stats().iter().map(|limit| limit.refused).collect::<Vec<_>>(), [0, 1]);
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

#[test]
fn slots_are_booked_for_what_waits_and_used_while_they_are_good() {
    Scene::shared("-r 1/100ns").check(&[
        (0, Input("a\nb\nc\n"), "book 2; wait - or input"),
        (1, Booked(&[10, 110]), "book 1; wait 10 or input"),
        (10, Due, "send a; wait 110 or input"),
        // It woke up too late for that slot.
        (116, Due, "wait - or input"),
    ]);
}

#[test]
fn earlier_slots_that_others_gave_back_go_first() {
    Scene::shared("-r 1/100ns").check(&[
        (0, Input("a\nb\nc\n"), "book 2; wait - or input"),
        (1, Booked(&[110, 210]), "book 1; wait 110 or input"),
        (2, Booked(&[10]), "wait 10 or input"),
        (10, Due, "send a; wait 110 or input"),
    ]);
    Scene::shared("-r 1/100ns,key=col:1").check(&[
        (0, Input("a\na\na\nb\n"), "book 2; book 1; wait - or input"),
        (1, BookedFor("a", 1, &[110, 210]), "book 1; wait 110 or input"),
        (2, BookedFor("b", 1, &[120]), "wait 110 or input"),
        (3, BookedFor("a", 1, &[10]), "wait 10 or input"),
        (10, Due, "send a; wait 110 or input"),
    ]);
}

#[test]
fn a_run_that_is_stopped_gives_its_slots_back_and_those_that_come_late() {
    Scene::shared("-r 1/100ns").check(&[
        (0, Input("a\nb\nc\n"), "book 2; wait - or input"),
        (1, Booked(&[10, 110]), "book 1; wait 10 or input"),
        (2, Interrupt, "SIGTERM; give back 10 110; wait 22"),
        (10, Due, "wait 22"),
        (12, Booked(&[210]), "give back 210; finish 130"),
    ]);
    Scene::shared("-r 1/100ns").check(&[
        (0, Input("a\n"), "book 1; wait - or input"),
        (9, ReaderGone, "wait 29"),
        // No answer came in time.
        (29, Due, "finish 141"),
    ]);
    Scene::shared("-r 1/100ns").check(&[
        (0, Input("a\n"), "book 1; wait - or input"),
        (9, Booked(&[5]), "send a; wait - or input"),
        (10, Input("b\n"), "book 1; wait - or input"),
        (11, Booked(&[10]), "send b; wait - or input"),
        (12, EndOfInput, "finish 0"),
    ]);
}

#[test]
fn what_finds_no_slot_free_at_its_arrival_is_dropped() {
    Scene::shared("-r 2/100ns --on-limit drop").check(&[
        // One of two slots is free. The other item came too early, and so does one that comes before the next slot.
        (0, Input("a\nb\n"), "ask for 2; wait - or input"),
        (1, Free(1, &[1], 101), "send a; wait - or input"),
        (9, Input("c\n"), "wait - or input"),
        (101, Input("d\n"), "ask for 1; wait - or input"),
        // For what comes meanwhile, it asks later.
        (102, Input("e\n"), "wait - or input"),
        (103, Booked(&[102]), "send d; ask for 1; wait - or input"),
        (104, Free(1, &[], 202), "wait - or input"),
        (105, EndOfInput, "finish 0"),
    ]);
}

/// Items are charged only by the limits that apply to them, and those with other costs have other slots.
#[test]
fn limits_for_some_items_hold_up_no_others() {
    let mut scene = Scene::booking("-r 9/100ns -r 1/100ns,key=col:1,only=a", booking_terms(2, &[9, 1]));
    let asked = Task::Book(Wanted { count: 2, ..Wanted::default() });
    let order = |costs: [u64; 2]| Order::new(Key::new(), costs, 2).with(asked.clone());
    scene.follow(&[(0, Input("a 1\nb\na 2\nc\n"), "ask for 2; ask for 2; wait - or input")]);
    scene.answered(Time(0), &order([1, 1]), &[0], Some(100));
    assert_eq!(scene.actions(0), "send a 1; wait 100 or input");
    scene.answered(Time(1), &order([1, 0]), &[1, 1], None);
    assert_eq!(scene.actions(1), "send b c; wait 100 or input");
    // It asks again when the slot may be free.
    scene.check(&[(100, Due, "ask for 1; wait - or input")]);
}

#[test]
fn slots_go_back_at_a_stop_while_commands_run_on() {
    Scene::shared("-r 1/100ns -j 3 -- cmd").check(&[
        (0, Input("a\nb\nc\n"), "book 2; wait - or input"),
        (1, Booked(&[1, 110]), "send a; book 1; wait 110 or input"),
        (2, Interrupt, "SIGTERM; give back 110; wait 22"),
        // The command runs on after the wait for an answer is over.
        (22, Due, "wait -"),
        (23, Booked(&[210]), "give back 210; wait -"),
        (24, Ended(1, 0), "finish 130"),
    ]);
}

#[test]
fn slots_that_became_useless_go_back_at_once() {
    // A newer item replaces one with another cost.
    Scene::shared("-r 9/100ns,cost=col:1 --on-limit latest").check(&[
        (0, Input("2 a\n"), "wait 0 or input"),
        (0, Due, "book 1; wait - or input"),
        (1, BookedFor("", 2, &[10]), "wait 1 or input"),
        (1, Due, "wait 10 or input"),
        (2, Input("3 b\n"), "wait 2 or input"),
        (2, Due, "give back 10; book 1; wait - or input"),
        (3, BookedFor("", 3, &[20]), "wait 3 or input"),
        // With the same cost, it takes the slot as well.
        (4, Input("3 c\n"), "wait 4 or input"),
        (4, Due, "wait 20 or input"),
        (20, Due, "send 3 c; wait - or input"),
    ]);
    // A server asks for a pause: the slot before its end is dropped, and the store decides on what comes.
    Scene::shared("-r 1/100ns --retries 1 -j 2 -- cmd").check(&[
        (0, Input("a\nb\n"), "book 2; wait - or input"),
        (1, Booked(&[1, 110]), "send a; wait 110 or input"),
        (2, EndedAndAsks(1, 1, 1000), "hold until 1002; book 2; wait - or input"),
    ]);
}

/// Each waits for an answer of the store when the first one uses up the local limit.
#[test]
fn all_that_never_waits_is_refused_once_a_local_limit_is_used_up() {
    let schedule = scene("-r 9/s,key=col:1 -r 1/100ns,local --on-limit drop", 2, 9).check(&[
        (0, Input("a\nb\nc\n"), "ask for 1; wait - or input"),
        (1, BookedFor("a", 1, &[1]), "send a; wait - or input"),
    ]);
    assert_eq!((schedule.stats().released, schedule.stats().refused), (1, 2));
}

#[test]
fn a_slot_that_ends_in_a_random_delay_is_booked_again_after_it() {
    let delay = "50ns,seed=1".parse::<Jitter>().unwrap().delay(1, 1);
    assert!(delay > 5);
    for order in ["", " --in-order"] {
        scene(&format!("-r 9/s --jitter=50ns,seed=1{order}"), 2, 9).check(&[
            (0, Input("a\n"), "book 1; wait - or input"),
            (1, Booked(&[1]), &format!("wait {} or input", 1 + delay)),
            (1 + delay, Due, "book 1; wait - or input"),
        ]);
    }
}

/// Some lanes wait until a limit of the run opens, others until they may ask the store again.
#[test]
fn it_looks_again_at_the_first_of_all_instants_that_are_known() {
    scene("-r 9/s -r 1/100ns,key=col:1,local", 2, 9).check(&[
        (0, Input("a 1\n"), "book 1; wait - or input"),
        (1, Booked(&[1]), "send a 1; wait 1000000000 or input"),
        (2, Input("b 1\n"), "book 1; wait - or input"),
        (3, Booked(&[3]), "send b 1; wait 1000000000 or input"),
        (4, Input("a 2\nb 2\nc 1\n"), "book 1; wait 101 or input"),
        (5, Free(1, &[], 50), "wait 50 or input"),
        (50, Due, "book 1; wait 101 or input"),
        (51, Free(1, &[], 200), "wait 101 or input"),
    ]);
}

/// Not before the slot may it leave, and not before that is it refused.
#[test]
fn a_slot_that_is_free_at_once_may_begin_a_little_later() {
    Scene::shared("-r 1/100ns --on-limit drop").check(&[
        (0, Input("a\n"), "ask for 1; wait - or input"),
        (5, Booked(&[7]), "wait 7 or input"),
        (7, Due, "send a; wait - or input"),
    ]);
    let schedule = Scene::shared("-r 1/100ns --on-limit drop").check(&[
        (0, Input("a\nb\n"), "ask for 2; wait - or input"),
        (5, Free(1, &[7], 107), "wait 7 or input"),
        (7, Due, "send a; wait - or input"),
    ]);
    assert_eq!((schedule.stats().released, schedule.stats().refused), (1, 1));
}

#[test]
fn the_deadline_of_an_item_is_not_that_of_another_attempt() {
    Scene::shared("-r 1/100ns --on-limit drop --max-wait 50ns -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a\n"), "book 1; wait 50 or input"),
        (1, Booked(&[1]), "send a; wait - or input"),
        (60, Ended(1, 1), "book 1; wait - or input"),
    ]);
}

#[test]
fn a_run_that_may_not_wait_for_long_goes_by_the_first_slot_that_any_lane_expects() {
    let mut scene = Scene::shared("-r 1/100ns,key=col:1 --max-wait 30ns");
    scene.follow(&[(0, Input("b\na\nc\na\n"), "book 1; book 2; book 1; wait - or input")]);
    answered(&mut scene, 0, "b", 1, &[0], None);
    answered(&mut scene, 0, "c", 1, &[], Some(301));
    answered(&mut scene, 0, "a", 1, &[0], None);
    assert_eq!(answered(&mut scene, 0, "a", 1, &[], Some(100)), "wait 0 or input");
    scene.check(&[(0, Due, "too long by Some(100); finish 75")]);
}

#[test]
fn no_slot_is_asked_for_what_the_sink_does_not_take() {
    let mut scene = Scene::shared("-r 1/100ns,key=col:1 -j 9 -k -- cmd");
    scene.capacity.before = 2;
    scene.check(&[(0, Input("a\nb\n"), "book 1; wait -")]);
}

#[test]
fn a_slot_that_was_overrun_is_reported() {
    Scene { slowness: 10, ..Scene::shared("-r 1/100ns") }.check(&[
        (0, Input("a\n"), "book 1; wait - or input"),
        (1, Booked(&[1]), "send a; 1 late at 11; wait - or input"),
    ]);
}
