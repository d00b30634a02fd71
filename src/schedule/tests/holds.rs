//! Pauses that servers ask for, which hold lanes.

use super::Event::*;
use super::Scene;

const S: u64 = 1_000_000_000;

#[test]
fn a_command_that_succeeds_is_heeded_as_well() {
    let schedule = Scene::new("-r 9/ns -j 9 -- cmd").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (5, EndedAndAsks(1, 0, 100), "wait - or input"),
        // The hold began when nothing was waiting.
        (20, Input("b\n"), "wait 105 or input"),
        (105, Due, "send b; wait - or input"),
    ]);
    let stats = schedule.stats();
    assert_eq!((stats.times.holds, stats.times.waited, schedule.limit_stats()[0].waits), (1, 85, 0));
}

#[test]
fn a_hold_is_of_one_key_and_of_all_without() {
    Scene::new("-r 9/ns,key=col:1 -j 9 -- cmd").check(&[
        (0, Input("a 1\n"), "send a 1; wait 1000000000 or input"),
        (5, EndedAndAsks(1, 0, 100), "wait 1000000000 or input"),
        (20, Input("a 2\nb 1\n"), "send b 1; wait 105 or input"),
        (105, Due, "send a 2; wait 1000000000 or input"),
    ]);
    Scene::new("-r 9/ns,key=col:1 -j 9 --in-order -- cmd").check(&[
        (0, Input("a 1\n"), "send a 1; wait 1000000000 or input"),
        (5, EndedAndAsks(1, 0, 100), "wait 1000000000 or input"),
        (20, Input("a 2\nb 1\n"), "wait 105 or input"),
        (105, Due, "send a 2; send b 1; wait 1000000000 or input"),
    ]);
}

#[test]
fn one_that_fails_for_good_holds_the_others() {
    Scene::new("-r 9/ns -j 9 -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (5, EndedAndAsks(1, 1, 100), "failed 1; wait - or input"),
        // The longer one counts.
        (7, EndedAndAsks(2, 0, 20), "wait - or input"),
        (20, Input("c\n"), "wait 105 or input"),
    ]);
}

#[test]
fn no_hold_is_longer_than_it_may_be() {
    Scene::new("-r 9/ns -j 9 --retries 1 --max-hold 70ns -- cmd").check(&[
        (0, Input("a\nb\n"), "send a; send b; wait - or input"),
        (5, EndedAndAsks(1, 1, 100), "wait 75 or input"),
        (75, Due, "send a; wait - or input"),
    ]);
}

#[test]
fn what_is_held_is_so_under_new_limits() {
    let begun = || {
        let mut scene = Scene::new("-r 9/ns,key=col:1 -j 9 -- cmd");
        scene.follow(&[
            (0, Input("a 1\nb 1\n"), "send a 1; send b 1; wait 1000000000 or input"),
            (5, EndedAndAsks(1, 0, 100), "wait 1000000000 or input"),
            (6, Input("a 2\nb 2\n"), "send b 2; wait 105 or input"),
        ]);
        scene
    };
    begun().check(&[
        (10, Limits("8/ns,key=col:1"), "limits; wait 105 or input"),
        (20, Input("b 3\n"), "send b 3; wait 105 or input"),
        (105, Due, "send a 2; wait 1000000000 or input"),
    ]);
    // Under other keys, what was held for one is held for all.
    begun().check(&[
        (10, Limits("8/ns,key=col:2"), "limits; wait 105 or input"),
        (20, Input("b 3\n"), "wait 105 or input"),
        (105, Due, "send a 2; send b 3; wait 1000000105 or input"),
    ]);
}

#[test]
fn a_hold_is_told_when_it_begins() {
    Scene::new("-r 9/ns -j 9 -- cmd").check(&[
        (0, Input("a\nb\nc\nd\n"), "send a; send b; send c; send d; wait - or input"),
        (5, EndedAndAsks(1, 0, 10 * S), "item 1 holds 10000000000 until 10000000005; wait - or input"),
        (S, EndedAndAsks(2, 0, 10 * S), "wait - or input"),
        (2 * S, EndedAndAsks(3, 0, 20 * S), "item 3 holds 20000000000 until 22000000000; wait - or input"),
        (30 * S, EndedAndAsks(4, 0, S - 1), "wait - or input"),
    ]);
}

#[test]
fn what_a_server_asks_for_holds_up_its_lane() {
    Scene::new("-r 1/10ns,key=col:1 -j 9 --retries 1 -- cmd").check(&[
        (0, Input("a 1\na 2\nb 1\n"), "send a 1; send b 1; wait 10 or input"),
        (5, EndedAndAsks(1, 1, 100), "wait 105 or input"),
        (105, Due, "send a 1; wait 115 or input"),
        (115, Due, "send a 2; wait 1000000000 or input"),
    ]);
}
