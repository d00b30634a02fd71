//! The state of a run, for monitoring.

use super::*;

fn next(schedule: &Schedule, now: u64) -> Option<Time> {
    schedule.metrics(Time(now)).next
}

#[test]
fn the_next_release_is_told_while_it_is_to_come() {
    let first = || (0, Input("a\nb\n"), "send a; wait 100 or input");
    let schedule = Scene::new("-r 1/100ns").check(&[first()]);
    assert_eq!([99, 100, 101].map(|now| next(&schedule, now)), [Some(Time(100)), None, None]);
    let stopped = Scene::new("-r 1/100ns").check(&[first(), (1, Interrupt, "SIGTERM; finish 130")]);
    assert_eq!(next(&stopped, 1), None);
}
