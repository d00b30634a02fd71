//! The state of a run, for monitoring.

use super::*;

/// For each limit, when it allows the next release, and the number of keys that it makes wait.
fn limits(schedule: &Schedule, now: u64) -> Vec<(Option<u64>, u64)> {
    let metrics = schedule.metrics(Time(now)).limits;
    let now = metrics.iter().filter_map(|limit| limit.now);
    now.map(|now| (now.next.map(|at| at.0), now.waiting)).collect()
}

fn next(schedule: &Schedule, now: u64) -> Option<Time> {
    schedule.metrics(Time(now)).next
}

#[test]
fn each_limit_says_when_it_allows_what_waits() {
    let scene = Scene::new("-r 2/100ns -r 1/100ns,key=col:1 -r 9/100ns,key=col:1 -r 9/100ns,cost=col:2");
    let schedule = scene.check(&[(0, Input("a 1\na 9\nb 1\nb 1\n"), "send a 1 b 1; wait 100 or input")]);
    // Nothing waits for the third.
    assert_eq!(limits(&schedule, 50), [(Some(100), 0), (Some(100), 2), (Some(50), 0), (Some(50), 0)]);
}

#[test]
fn a_limit_that_nothing_waits_for_says_when_it_allows_one_more() {
    let schedule = Scene::new("-r 1/100ns -r 1/100ns,key=col:1").check(&[(
        0,
        Input("a\n"),
        "send a; wait 1000000000 or input",
    )]);
    assert_eq!(limits(&schedule, 50), [(Some(100), 0), (None, 0)]);
}

#[test]
fn a_limit_is_asked_at_the_cost_of_what_waits() {
    let limit = "-r 9/100ns,cost=col:1 -r 2/100ns";
    let first = "send 1 a; wait 100 or input";
    let schedule = Scene::new(limit).check(&[(0, Input("1 a\n9 b\n"), first)]);
    assert_eq!(limits(&schedule, 50), [(Some(100), 0), (Some(50), 0)]);
    // What costs nothing does not ask.
    let first = "send 9 a 0 b; wait 100 or input";
    let schedule = Scene::new(limit).check(&[(0, Input("9 a\n0 b\n0 c\n"), first)]);
    assert_eq!(limits(&schedule, 50), [(Some(100), 0), (Some(100), 0)]);
}

#[test]
fn the_next_release_is_told_while_it_is_to_come() {
    let first = || (0, Input("a\nb\n"), "send a; wait 100 or input");
    let schedule = Scene::new("-r 1/100ns").check(&[first()]);
    assert_eq!([99, 100, 101].map(|now| next(&schedule, now)), [Some(Time(100)), None, None]);
    let stopped = Scene::new("-r 1/100ns").check(&[first(), (1, Interrupt, "SIGTERM; finish 130")]);
    assert_eq!(next(&stopped, 1), None);
}
