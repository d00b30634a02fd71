//! The clock restarts with the machine.

use super::*;

#[test]
fn after_a_restart_all_counts_as_used_when_it_happened() {
    let mut stage = Stage::new();
    slots(&mut stage.open(), 1);
    // The clock starts over.
    stage.setting.origin.boot = "2".to_owned();
    stage.clock.store(3 * SECOND, Relaxed);
    let mut store = stage.open();
    assert_eq!(slots(&mut store, 5), [0, 0, 0, 7, 10]);
    stage.setting.origin.boot = "3".to_owned();
    assert_eq!(slots(&mut stage.open(), 5), [7, 7, 7, 7, 17]);
    // Once a window is over, it no longer counts.
    stage.setting.origin.boot = "4".to_owned();
    stage.clock.store(10 * SECOND, Relaxed);
    let mut store = stage.open();
    let answer = store.book(&order(4)).expect("booked");
    assert_eq!((answer.slots.len(), answer.slots[3].at, answer.warning), (4, Time(10 * SECOND), None));
}

/// In a time namespace the clock may show anything.
#[test]
fn after_a_restart_in_a_time_namespace_all_counts_as_used_now() {
    let mut stage = Stage::new();
    stage.open();
    stage.setting.origin = Origin { boot: "2".to_owned(), namespace: 12 };
    assert_eq!(slots(&mut stage.open(), 1), [10]);
}

#[test]
fn another_time_namespace_is_refused() {
    let mut stage = Stage::new();
    stage.open();
    stage.setting.origin.namespace = 12;
    stage.refuses(Exit::BadStore, "another time namespace");
}
