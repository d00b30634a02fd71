//! Limits that are replaced.

use super::*;

impl Stage {
    fn set_limits(&self, rate: &str) {
        let vault = FileVault::with(self.setting.clone(), &self.path(), self.clock());
        VaultStore::set_limits(Box::new(vault), policy_of(rate), &[], Reserve::LOCAL).expect("replaced");
    }
}

/// As long as that is the cause: not of a later loss, nor of one in the meantime.
#[test]
fn another_key_is_told_as_what_it_is() {
    for (waited, is_lost, expected) in
        [(0, false, "got another key"), (1, true, "was removed"), (500, true, "was removed")]
    {
        let stage = Stage::new();
        let mut store = stage.try_open(policy_of("4/10s,key=col:1")).expect("a state");
        let mut told = |changes| {
            let order = Order { changes, ..at_once(1) };
            store.book(&order).expect("booked").warning.unwrap_or_default()
        };
        assert_eq!(told(0), "");
        stage.wait(SECOND);
        stage.set_limits("4/10s,key=col:2");
        if is_lost {
            assert!(told(1).contains("got another key"));
            stage.wait(waited * SECOND);
            told(1);
            fs::remove_file(stage.path()).expect("removed");
        }
        let last = told(1);
        assert!(last.contains(expected), "{last}");
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
    let book = |store: &mut VaultStore, key| {
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

/// Its next record has nothing in it: no slot was asked for.
#[test]
fn what_an_evicted_key_had_counts_whatever_record_followed() {
    let stage = Stage::new();
    let open = |rate| stage.try_open(policy_of(rate)).expect("a state");
    let (fixed, sliding) = ("1/9s,algo=fixed,margin=1s,key=col:1", "1/1000s,margin=1s,key=col:1");
    let book = |store: &mut VaultStore, key| store.book(&at_once(key)).expect("booked");
    assert_eq!(book(&mut open(fixed), 1).slots.len(), 1);
    stage.wait(500 * SECOND);
    assert_eq!(book(&mut open(fixed), 2).slots.len(), 1);
    open(fixed).book(&at_once(1).with(Task::Book(Wanted::default()))).expect("asked");
    stage.set_limits(sliding);
    let answer = book(&mut open(sliding), 1);
    assert_eq!((answer.slots, answer.next), (vec![], Some(Time((1500 + 1001) * SECOND))));
}

/// By up to D, past midnight.
#[test]
fn a_slot_that_is_used_late_counts_in_the_period_that_has_begun() {
    let stage = Stage::new();
    let by_day = "1/d,algo=calendar,tz=UTC,margin=1s";
    assert_eq!(slots(&mut stage.try_open(policy_of("1/9s,margin=2s")).expect("a state"), 1), [0]);
    show(43_199);
    stage.set_limits(by_day);
    let answer = stage.try_open(policy_of(by_day)).expect("a state").book(&order(1)).expect("booked");
    assert_eq!((answer.slots, answer.next), (vec![], Some(Time((1000 + 1 + 86_400 + 1) * SECOND))));
}

/// It counts as N: first of the limits that replaced its own, then of those that replaced these.
#[test]
fn what_cost_nobody_knows_how_much_counts_as_the_new_limit_allows() {
    let stage = Stage::new();
    let [first, second] = [3, 9].map(|count| format!("{count}/9s,algo=interval,cost=col:1,margin=1s"));
    assert_eq!(slots(&mut stage.try_open(policy_of("1/s,margin=1s")).expect("a state"), 1), [0]);
    stage.set_limits(&first);
    stage.set_limits(&second);
    let answer = stage.try_open(policy_of(&second)).expect("a state").book(&order(1)).expect("booked");
    assert_eq!(answer.slots[0].at, Time((1000 + 9 * (1 + 1)) * SECOND));
}

/// All keys are silent since limits with another key were replaced, and then these are replaced, too.
#[test]
fn a_key_that_was_never_used_is_silent_as_long_as_the_others() {
    let stage = Stage::new();
    let (of_all, by_key) = ("1/9s,margin=1s", ["1/9s,algo=bucket,key=col:1", "1/8s,algo=bucket,key=col:1"]);
    assert_eq!(slots(&mut stage.try_open(policy_of(of_all)).expect("a state"), 1), [0]);
    by_key.iter().for_each(|rate| stage.set_limits(rate));
    let answer = stage.try_open(policy_of(by_key[1])).expect("a state").book(&at_once(1)).expect("booked");
    assert_eq!(answer.slots, []);
}

/// Slots that were booked before it are used past midnight, to which the clock is set meanwhile.
#[test]
fn what_was_used_without_knowing_of_a_calendar_counts_in_the_period_that_was_shown() {
    let stage = Stage::new();
    let (by_window, by_day) = ("1/s,margin=1ms", "1/d,algo=calendar,tz=UTC,margin=1s");
    let mut unknowing = stage.try_open(policy_of(by_window)).expect("a state");
    assert_eq!(slots(&mut unknowing, 3), [0, 1, 2]);
    show(0);
    stage.set_limits(by_day);
    stage.wait(3 * SECOND);
    show(43_201);
    let mut store = stage.try_open(policy_of(by_day)).expect("a state");
    let answer = store.book(&order(1)).expect("booked");
    let next_day = 1000 + 3 - 1 + 86_400 + 1;
    assert_eq!((answer.slots, answer.next), (vec![], Some(Time(next_day * SECOND))));
}
