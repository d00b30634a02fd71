//! Limits that go by the wall clock, which is set.

use super::*;

/// As in another time namespace, or one that is set just then.
#[test]
fn whoever_was_not_the_first_to_begin_a_state_goes_on_with_it_whatever_its_clock_shows() {
    let stage = Stage::new();
    let vault = FileVault::with(stage.setting.clone(), &stage.path(), stage.clock());
    let mut late = VaultStore::new(Box::new(vault), policy(), &[], Reserve::LOCAL);
    let mut attempts = 0;
    let begun = late.update(b"", |_| {
        attempts += 1;
        if attempts == 1 {
            show(-3600);
            assert_eq!(stage.open().book(&order(1)).expect("booked").slots.len(), 1);
            show(0);
        }
        assert!(attempts < 3, "it does not see what the other one has begun");
    });
    begun.expect("a state");
    let instants = late.book(&order(4)).expect("booked").slots.into_iter().map(|slot| slot.at);
    assert_eq!(instants.collect::<Vec<_>>(), [1000, 1000, 1000, 1010].map(|at| Time(at * SECOND)));
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
        let book = |store: &mut VaultStore, count| {
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
        // One slot at a time, as both book.
        let (mut at, mut found) = (Vec::new(), None);
        while found.is_none() && (at.len() < expected.len() || next.is_some()) {
            let (more, told, _) = book(&mut other, 9);
            at.extend(more);
            found = told;
        }
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
