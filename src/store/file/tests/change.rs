//! Restarts, and states that are lost while in use.

use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::store::Wanted;

const LOST: &str = "was removed, replaced or reset during the run";

fn wanted(store: &mut FileStore, silence: u64) {
    let now = now(store);
    let answer = store.book(&order(1)).expect("booked");
    assert!(answer.warning.expect("told").contains(LOST));
    let next =
        answer.slots.first().map_or_else(|| answer.ask_again.expect("told").0 + HORIZON, |slot| slot.at.0);
    // Processes that asked earlier have earlier turns.
    assert!((silence..=silence + PERIOD).contains(&(next - now.0)), "{next} {now:?}");
}

fn policy_of(rate: &str) -> Policy {
    Policy::new(&[told::rate(rate)], Reserve::LOCAL)
}

/// An order for a slot of this key that is free at once.
fn at_once(key: u8) -> Order {
    let wanted = Wanted { count: 1, ..Wanted::default() };
    Order { key: Key::from_slice(&[key]), ..order(1).with(Task::Book(wanted)) }
}

impl Stage {
    fn set_limits(&self, rate: &str) {
        let vault = FileVault::with(self.setting.clone(), &self.path(), self.clock());
        VaultStore::set_limits(vault, policy_of(rate), &[], Reserve::LOCAL).expect("replaced");
    }
}

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

/// The second limit keeps slots 620 s apart.
#[test]
fn what_was_booked_ahead_is_not_handed_on_once_the_wall_clock_is_set() {
    let rates = ["3/d,algo=calendar,tz=UTC,margin=10m", "1/20s,margin=10m"].map(told::rate);
    let policy = Policy::new(&rates, Reserve::LOCAL);
    let order = |count| Order::new(Key::new(), [1, 1], count);
    // Ten minutes into a day, counted from noon of the one before.
    let next_day = 1000 + 43_200 + 600;
    let table: [(i64, bool, &[u64], Option<u64>); 6] = [
        // By up to a quarter of D.
        (150, true, &[1620, 2240], Some(next_day)),
        (-150, false, &[], Some(next_day)),
        // Slots are not handed on any more, and stay charged.
        (151, true, &[], Some(next_day - 151)),
        (151, false, &[], Some(next_day - 151)),
        // The day before, and the day after.
        (-86_400, true, &[], Some(next_day + 86_400)),
        (86_400, false, &[2860], None),
    ];
    for (set_by, is_given_back, expected, next) in table {
        let stage = Stage::new();
        show(0);
        let [mut one, mut other] = [(); 2].map(|()| stage.try_open(policy.clone()).expect("a state"));
        let book = |store: &mut FileStore, count| {
            let answer = store.book(&order(count)).expect("booked");
            let at = answer.slots.iter().map(|slot| slot.at.0 / SECOND).collect::<Vec<_>>();
            (at, answer.next.map(|at| at.0 / SECOND), answer)
        };
        let (at, _, booked) = book(&mut one, 3);
        assert_eq!(at, [1000, 1620, 2240]);
        show(set_by);
        let (.., told) = book(&mut other, 0);
        assert_eq!(told.booked_by == booked.booked_by, set_by.abs() <= 150, "{set_by}");
        if is_given_back {
            one.give_back(&order(0).with(Task::GiveBack(booked.slots[1..].into(), None)))
                .expect("given back");
        }
        let (at, found, _) = book(&mut other, 9);
        assert_eq!((&*at, found), (expected, next), "{set_by} {is_given_back}");
    }
}

/// The state is created before the first booking.
#[test]
fn a_period_of_the_calendar_in_which_a_state_begins_empty_is_used_up() {
    let stage = Stage::new();
    let policy = policy_of("2/d,algo=calendar,tz=UTC,start=empty");
    show(0);
    let answer = stage.try_open(policy).expect("a state").book(&order(1)).expect("booked");
    assert_eq!((answer.slots, answer.next), (vec![], Some(Time((1000 + 43_200 + 2) * SECOND))));
}

/// By day, and the clock is set back over midnight: before the key is evicted, or after.
#[test]
fn a_wall_clock_that_is_set_back_opens_no_period_again_for_a_key() {
    for is_evicted in [false, true] {
        let stage = Stage::new();
        let policy = policy_of("1/d,algo=calendar,tz=UTC,key=col:1");
        let book = |key| {
            let answer =
                stage.try_open(policy.clone()).expect("a state").book(&at_once(key)).expect("booked");
            (answer.slots.len(), answer.next.map(|next| next.0 / SECOND))
        };
        show(43_100);
        assert_eq!(book(1), (1, None));
        let go_on = |set_by: i64| {
            stage.wait(200 * SECOND);
            show(43_300 - set_by);
        };
        go_on(if is_evicted { 0 } else { 3600 });
        // A new key evicts those that are idle.
        assert_eq!(book(2), (1, None));
        show(43_300 - 3600);
        assert_eq!(
            [book(1), book(3)],
            if is_evicted { [(0, Some(4702)); 2] } else { [(0, Some(4702)), (1, None)] }
        );
        stage.wait(3600 * SECOND);
        show(43_300);
        assert_eq!([book(1), book(3)], [(1, None); 2], "{is_evicted}");
    }
}

/// By day; the key is evicted the day after, and then the limits are replaced by some that know no calendar.
#[test]
fn what_an_evicted_key_had_in_a_period_counts_under_limits_that_do_not_go_by_the_wall_clock() {
    let stage = Stage::new();
    let book = |rate, key| {
        let answer = stage.try_open(policy_of(rate)).expect("a state").book(&at_once(key)).expect("booked");
        (answer.slots.len(), answer.next.map(|next| next.0 / SECOND))
    };
    show(0);
    let (by_day, by_window) = ("1/d,algo=calendar,tz=UTC,key=col:1", "1/3d,margin=1s,key=col:1");
    assert_eq!(book(by_day, 1), (1, None));
    stage.wait(43_300 * SECOND);
    show(43_300);
    assert_eq!(book(by_day, 2), (1, None));
    stage.set_limits(by_window);
    let midnight = 1000 + 43_200;
    assert_eq!(book(by_window, 1), (0, Some(midnight + 3 * 86_400)));
}

/// After a loss, whose quarantine is over when the key is used; and under the new limits it would not be.
#[test]
fn what_an_evicted_key_had_after_a_quarantine_counts_under_longer_limits() {
    let stage = Stage::new();
    let open = |rate| stage.try_open(policy_of(rate)).expect("a state");
    let book = |store: &mut FileStore, key| {
        let answer = store.book(&at_once(key)).expect("booked");
        (answer.slots.first().map(|slot| slot.at.0 / SECOND), answer.next.map(|next| next.0 / SECOND))
    };
    let (short, long) = ("1/9s,margin=1s,key=col:1", "1/1000s,margin=1s,key=col:1");
    let mut store = open(short);
    assert_eq!(book(&mut store, 1), (Some(1000), None));
    fs::remove_file(stage.path()).expect("removed");
    assert_eq!(book(&mut store, 1).0, None);
    stage.wait(500 * SECOND);
    assert_eq!(book(&mut store, 1), (Some(1500), None));
    stage.wait(20 * SECOND);
    assert_eq!(book(&mut open(short), 2), (Some(1520), None));
    stage.set_limits(long);
    let (_, next) = book(&mut open(long), 1);
    // Up to 10 s ago, it may have been used.
    assert_eq!(next, Some(1510 + 1001));
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
fn another_time_namespace_is_refused() {
    let mut stage = Stage::new();
    stage.open();
    stage.setting.origin.namespace = 12;
    stage.refuses(Exit::BadStore, "another time namespace");
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
