//! States that are lost while in use.

use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

const LOST: &str = "was removed, replaced or reset during the run";

fn wanted(store: &mut VaultStore, silence: u64) {
    let now = now(store);
    let answer = store.book(&order(1)).expect("booked");
    assert!(answer.warning.expect("told").contains(LOST));
    let next =
        answer.slots.first().map_or_else(|| answer.ask_again.expect("told").0 + HORIZON, |slot| slot.at.0);
    // Processes that asked earlier have earlier turns.
    assert!((silence..=silence + PERIOD).contains(&(next - now.0)), "{next} {now:?}");
}

#[test]
fn slots_of_a_lost_state_are_not_handed_on() {
    let stage = Stage::new();
    let mut store = stage.open();
    let booked = store.book(&order(9)).expect("booked").slots;
    fs::remove_file(stage.path()).expect("removed");
    store.give_back(&giving_back(&booked)).expect("given back");
    stage.wait(HORIZON);
    assert_eq!(slots(&mut store, 4), [10, 10, 10, 10]);
    let mut stage = Stage::new();
    let booked = stage.open().book(&order(9)).expect("booked").slots;
    stage.open().give_back(&giving_back(&booked)).expect("given back");
    stage.setting.origin.boot = "2".to_owned();
    stage.clock.store(1000 * SECOND, Relaxed);
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
}

#[test]
fn a_removed_state_is_followed_by_a_quarantine() {
    let stage = Stage::new();
    let mut stores = [stage.open(), stage.open()];
    slots(&mut stores[0], 8);
    fs::remove_file(stage.path()).expect("removed");
    wanted(&mut stores[0], HORIZON + PERIOD);
    // The others find later that the loss has been handled.
    stage.wait(HORIZON);
    wanted(&mut stores[1], PERIOD);
    assert_eq!(slots(&mut stage.open(), 4), [10, 10, 10, 20]);
}

/// It is lost as if it had been removed just after.
#[test]
fn what_is_written_as_a_state_is_removed_is_lost_with_it() {
    let stage = Stage::new();
    slots(&mut stage.open(), 2);
    let mut vault = FileVault::with(stage.setting.clone(), &stage.path(), stage.clock());
    let old = vault.load(&[b""], false).expect("loaded").values.remove(0);
    fs::remove_file(stage.path()).expect("removed");
    let write = Write { old, value: b"{}".into(), ..Write::default() };
    assert!(matches!(vault.swap(&write), Ok(Swap::Done(_))));
    let next = vault.load(&[b""], false).expect("loaded");
    assert!(next.values == [None] && next.suspicion.is_some());
}

/// It has begun the new one itself.
#[test]
fn who_has_noticed_a_loss_notices_it_once() {
    let stage = Stage::new();
    let mut store = stage.open();
    slots(&mut store, 2);
    fs::remove_file(stage.path()).expect("removed");
    wanted(&mut store, HORIZON + PERIOD);
    stage.wait(HORIZON);
    let answer = store.book(&order(1)).expect("booked");
    assert_eq!(answer.warning, None);
    assert!(answer.slots[0].at.since(now(&store)) <= PERIOD, "{answer:?}");
}

/// A report of an overrun may be the first to notice.
#[test]
fn a_loss_is_told_once_it_is_known_until_when_a_quarantine_ends() {
    let stage = Stage::new();
    let mut store = stage.open();
    slots(&mut store, 1);
    fs::remove_file(stage.path()).expect("removed");
    let report = order(1).with(Task::Late(1, now(&store)));
    assert_eq!(store.book(&report).expect("booked").warning, None);
    let answer = store.book(&order(1)).expect("booked");
    assert!(answer.warning.expect("told").contains(LOST));
    assert!(answer.next.expect("told") > now(&store));
    assert_eq!(warning(&mut store), None);
}

#[test]
fn a_state_that_began_anew_without_knowing_is_silenced_by_the_first_who_knows() {
    for is_reset in [false, true] {
        let stage = Stage::new();
        let mut store = stage.open();
        slots(&mut store, 2);
        if is_reset {
            assert!(stage.reset().expect("reset"));
        } else {
            fs::remove_file(stage.path()).expect("removed");
        }
        assert_eq!(slots(&mut stage.open(), 4), [0, 0, 0, 0]);
        wanted(&mut store, HORIZON + PERIOD);
        assert_eq!(warning(&mut store), None);
    }
}

#[test]
fn a_reset_state_begins_anew_for_any_limits() {
    let stage = Stage::new();
    slots(&mut stage.open(), 8);
    assert!(stage.reset().expect("reset"));
    let quota = Quota::new(Algorithm::Sliding, Terms::new(200, PERIOD, 0));
    let other = || Policy { quotas: vec![quota.clone()], text: "200/10s".to_owned(), ..policy() };
    let mut store = stage.try_open(other()).expect("a state");
    assert_eq!(slots(&mut store, 201).last(), Some(&10));
    // And back to a shorter ring.
    assert!(stage.reset().expect("reset"));
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
    let error = store.book(&order(1)).expect_err("of other limits now");
    assert_eq!(error.exit, Exit::BadState);
}

/// The key starts over, with nothing booked.
#[test]
fn a_key_that_was_forgotten_and_is_held_is_no_loss() {
    let stage = Stage::new();
    let by_key = |key: u8| Order { key: Key::from_slice(&[key]), ..order(1) };
    let (mut store, mut other) = (stage.open(), stage.open());
    store.book(&by_key(1)).expect("booked");
    stage.wait(HORIZON);
    // Adding a key evicts the idle ones.
    other.book(&by_key(2)).expect("booked");
    let until = Time(now(&other).0 + SECOND);
    let hold = by_key(1).with(Task::Hold(until));
    other.book(&hold).expect("held");
    let answer = store.book(&by_key(1)).expect("booked");
    assert_eq!((answer.warning, answer.held), (None, Some(until)));
}

#[test]
fn a_state_that_is_removed_while_it_is_opened_is_begun_anew() {
    let stage = Stage::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                // Without a pause, hardly any opening would ever come to its end.
                thread::sleep(Duration::from_micros(100));
                let _ = fs::remove_file(stage.path());
            }
        });
        let opened: Result<Vec<_>, _> = (0..120).map(|_| stage.try_open(policy()).map(drop)).collect();
        is_over.store(true, Relaxed);
        opened.expect("each begins one");
    });
}

/// Learning of a loss late does not hold up runs that started over long ago.
#[test]
fn what_was_lost_long_ago_does_not_matter_any_more() {
    for (eligible_at, left) in
        [(HORIZON + PERIOD - SECOND, SECOND), (HORIZON + PERIOD, 0), (HORIZON + 5 * PERIOD, 0)]
    {
        let stage = Stage::new();
        let mut stores = [stage.open(), stage.open()];
        stores.iter_mut().for_each(|store| assert_eq!(slots(store, 1), [0]));
        stage.wait(SECOND);
        stage.reset().expect("reset");
        let mut new = stage.open();
        stage.wait(eligible_at);
        wanted(&mut stores[0], left);
        assert_eq!(warning(&mut new).is_some(), left > 0);
        wanted(&mut stores[1], left);
    }
}

/// A quarantine does not make the new state forget the slots it has booked.
#[test]
fn what_the_new_state_has_given_out_counts() {
    let stage = Stage::new();
    let mut store = stage.open();
    stage.reset().expect("reset");
    let mut new = stage.open();
    stage.wait(HORIZON);
    assert_eq!(slots(&mut new, 9), [0, 0, 0, 0, 10, 10, 10, 10, 20]);
    wanted(&mut store, 30 * SECOND);
}

/// It had its own quarantine, which is over.
#[test]
fn a_successor_from_long_ago_is_no_successor() {
    let stage = Stage::new();
    let mut store = stage.open();
    stage.reset().expect("reset");
    wanted(&mut store, HORIZON + PERIOD);
    let older = stage.copy();
    stage.wait(HORIZON + PERIOD);
    stage.reset().expect("reset");
    wanted(&mut store, HORIZON + PERIOD);
    fs::rename(older, stage.path()).expect("replaced");
    wanted(&mut store, HORIZON + PERIOD);
}

/// Keys that are first used after a loss are silent too.
#[test]
fn after_a_loss_all_keys_are_silent() {
    let stage = Stage::new();
    let by_key = |key: u8| Order { key: Key::from_slice(&[key]), ..order(1) };
    let mut store = stage.open();
    store.book(&by_key(1)).expect("booked");
    fs::remove_file(stage.path()).expect("removed");
    for key in [1, 2] {
        let answer = store.book(&by_key(key)).expect("booked");
        assert!(answer.slots.is_empty());
        assert_eq!(answer.ask_again, Some(Time(1000 * SECOND + PERIOD)));
    }
    stage.wait(HORIZON + PERIOD);
    assert_eq!(store.book(&by_key(3)).expect("booked").slots.len(), 1);
}

#[test]
fn what_takes_its_place_has_to_be_as_good() {
    let stage = Stage::new();
    let mut store = stage.open();
    fs::remove_file(stage.path()).expect("removed");
    fs::create_dir(stage.path()).expect("a directory");
    assert_eq!(store.book(&order(1)).unwrap_err().exit, Exit::BadStore);
    fs::remove_dir(stage.path()).expect("removed");
    let mut store = stage.open();
    stage.write(b"");
    assert_eq!(store.book(&order(1)).unwrap_err().exit, Exit::BadState);
}

/// Moved into its place, or written over it.
#[test]
fn an_older_copy_in_its_place_is_noticed() {
    for is_moved in [false, true] {
        let stage = Stage::new();
        let mut stores = [stage.open(), stage.open()];
        let older = stage.bytes();
        stores.iter_mut().for_each(|store| assert_eq!(slots(store, 1), [0]));
        if is_moved {
            fs::remove_file(stage.path()).expect("removed");
        }
        stage.write(&older);
        fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o600)).expect("ours");
        wanted(&mut stores[0], HORIZON + PERIOD);
        stage.wait(SECOND);
        wanted(&mut stores[1], HORIZON + PERIOD - SECOND);
    }
}

/// What is beside a state that is gone belongs to no other.
#[test]
fn the_journal_of_a_removed_state_is_removed_with_the_next() {
    let stage = Stage::new();
    stage.open();
    fs::remove_file(stage.path()).expect("removed");
    fs::write(stage.beside("-journal"), "left behind").expect("a file");
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
    assert!(!stage.beside("-journal").exists());
}
