//! What is known, and what is not, when limits are replaced.

use super::*;
use crate::config::Rate;
use crate::store::Reserve;

fn rules(rate: &str) -> BookingRules {
    rules_of(&format!("{rate},key=col:1"))
}

fn rules_of(rate: &str) -> BookingRules {
    let rate: Rate = format!("{rate},margin=1s").parse().expect("a rate");
    BookingRules::new(Policy::new(&[rate], Reserve::LOCAL))
}

/// A change of limits whose state began at 0, with all records.
fn change_at(at: Time) -> Change {
    Change { at, began: Time(0), created: Time(0), quarantine: None, missing: None }
}

/// In seconds: the first slot after a change at 100, of a key that is found to be missing at an instant. With the
/// margin of 1 s, releases less than 10 s ago are in its record.
#[test]
fn a_missing_key_may_have_used_what_its_old_limits_no_longer_remember() {
    for (old, new, began, missing, first) in [
        // It is free as soon as it can be, however long its record was kept.
        ("5/9s", "5/9s", 0, 100, 100),
        ("5/9s", "5/9s", 0, 105, 105),
        ("5/9s", "5/9s", 0, 500, 500),
        ("5/9s", "9/4s", 0, 100, 100),
        // Up to 10 s ago, but not by slots that were booked for more than 3 s after the change.
        ("5/9s", "5/99s", 0, 100, 190),
        ("5/9s", "5/99s", 0, 105, 195),
        ("5/9s", "5/99s", 0, 113, 203),
        ("5/9s", "5/99s", 0, 200, 203),
        ("5/9s", "5/99s", 0, 500, 500),
        // Before it began, nothing was used.
        ("5/9s", "5/99s", 95, 104, 104),
        ("5/9s", "5/99s", 95, 105, 195),
        // Another algorithm.
        ("5/9s", "5/99s,algo=fixed", 0, 100, 190),
        ("5/9s", "5/99s,algo=fixed", 0, 200, 203),
        ("5/9s", "5/4s,algo=fixed", 0, 100, 100),
        // A window is forgotten at its end, with its last releases.
        ("5/9s,algo=fixed", "5/99s", 0, 100, 200),
        ("5/9s,algo=fixed", "5/99s", 0, 105, 203),
    ] {
        let [at, began, missing] = [100, began, missing].map(|seconds| Time(seconds * SECOND));
        let change = Change { at, began, created: began, quarantine: None, missing: Some(missing) };
        let (old, new_rules) = (rules(old), rules(new));
        let mut ledger = new_rules.carry_over(&old, &old.begin(Time(0)), change);
        let slots = new_rules.book(&mut ledger, missing, &order(&[1], 1)).slots;
        let found = slots.first().map(|slot| slot.at.0 / SECOND);
        assert_eq!(found, Some(first), "{new}, missing at {missing:?}");
    }
}

/// In seconds: what a run books after a change of limits that others had booked far ahead under. These learn of it
/// before they use a slot more than 3 s after it.
#[test]
fn slots_that_are_given_up_after_a_change_do_not_count() {
    for (old, new, at, first) in [
        // Slots at 0, 10, 20 and 30.
        // What may have been forgotten since those after 0 were booked counts as used at 4.
        ("1/9s", "1/9s", 1, 14),
        ("1/9s", "1/4s", 1, 9),
        // The one at 20 may be used.
        ("1/9s", "1/4s", 18, 25),
        ("1/9s", "1/9s", 18, 30),
    ] {
        let (old, new) = (rules(old), rules(new));
        let mut ledger = old.begin(Time(0));
        let booked = (0..4).map(|_| old.book(&mut ledger, Time(0), &order(&[1], 1)).slots[0].at.0 / SECOND);
        assert_eq!(booked.collect::<Vec<_>>(), [0, 10, 20, 30]);
        let at = Time(at * SECOND);
        let change = change_at(at);
        let mut ledger = new.carry_over(&old, &ledger, change);
        let found = new.book(&mut ledger, at, &order(&[1], 1)).slots[0].at.0 / SECOND;
        assert_eq!(found, first, "{} at {at}", new.policy().text);
    }
}

/// In seconds: a bucket of which slots are ahead, as another limit holds them back. When the limits are replaced at
/// 100, what it has been refilled with until the last slot counts only if it is the same.
#[test]
fn a_bucket_is_not_refilled_as_the_old_limits_did_after_a_change() {
    for (new, slots, first) in [
        ("600/m,algo=bucket,burst=600", 2, 104),
        ("60/m,algo=bucket,burst=600", 2, 132),
        // The last slot is not after the change.
        ("60/m,algo=bucket,burst=600", 1, 102),
    ] {
        let rules = |bucket: &str, other: &str| {
            let rates =
                [bucket, other].map(|rate| format!("{rate},margin=1s").parse::<Rate>().expect("a rate"));
            BookingRules::new(Policy::new(&rates, Reserve::LOCAL))
        };
        let (old, new) =
            (rules("600/m,algo=bucket,burst=600", "1/s,cost=col:1"), rules(new, "1/s,cost=col:1"));
        let (mut ledger, change) = (old.begin(Time(0)), change_at(Time(100 * SECOND)));
        let slots = old.book(&mut ledger, change.at, &order(&[280, 1], slots)).slots;
        assert_eq!(slots.last().map(|slot| slot.at.0 / SECOND), Some(98 + 2 * slots.len() as u64));
        let mut ledger = new.carry_over(&old, &ledger, change);
        let found = new.book(&mut ledger, change.at, &order(&[30, 1], 1)).slots[0].at;
        assert_eq!(found.0 / SECOND, first, "{}", new.policy().text);
    }
}

/// The last slot may be given up, or its answer may have been lost; then the dear one before it counts for longer.
#[test]
fn before_a_slot_that_nobody_used_there_may_have_been_a_dear_one() {
    let rules = |rate: &str| rules(&format!("{rate},algo=interval,cost=col:2"));
    let new = rules("8/80s");
    // Also if the state is too young for one that is dearer, or if the old limit is one that its N has exceeded.
    for (old, dear) in [("8/8s", 8), ("8/8s", 5), ("4/4s", 8)] {
        let old = rules(old);
        let mut ledger = old.begin(Time(0));
        let mut book = |cost| old.book(&mut ledger, Time(0), &order(&[cost], 1)).slots[0].at;
        assert_eq!(book(dear), Time(0));
        let last = book(1);
        // A gap is longer by as much as a slot may be late.
        assert_eq!(last, Time(2 * dear * SECOND));
        let next = |at: u64| {
            let change = change_at(Time(at * SECOND));
            let mut ledger = new.carry_over(&old, &ledger, change);
            new.book(&mut ledger, change.at, &order(&[1], 1)).slots[0].at
        };
        let before = next(2 * dear - 1);
        assert!(before.0 >= dear * 11 * SECOND, "{before}");
        assert_eq!(next(2 * dear + 1), Time(dear * 11 * SECOND));
    }
}

/// In a minute of which a second has long forgotten its slot.
#[test]
fn what_matters_no_more_under_its_own_limit_may_under_another() {
    let [old, new] = ["1/s", "1/m,algo=calendar,tz=UTC"].map(rules_of);
    let [slot, at] = [5, 50].map(|seconds| Time(seconds * SECOND));
    let mut ledger = old.begin(Time(0));
    assert_eq!(old.book(&mut ledger, slot, &order(&[1], 1)).slots[0].at, slot);
    old.book(&mut ledger, at, &order(&[1], 0));
    let change = change_at(at);
    let answer = new.book(&mut new.carry_over(&old, &ledger, change), at, &order(&[1], 1));
    let next = answer.slots.first().map(|slot| slot.at).or(answer.next);
    assert!(next >= Some(Time(60 * SECOND)), "{next:?}");
}

/// A window forgets what it no longer needs; a gap or a period of the calendar is known for ever.
#[test]
fn limits_that_were_never_used_are_free_unless_they_may_have_forgotten_it() {
    for (old, new, first) in [
        ("5/9s", "5/99s", 190),
        ("5/9s,algo=fixed", "5/99s,algo=fixed", 190),
        ("5/9s,algo=interval", "5/99s,algo=interval", 100),
        ("5/9s,algo=bucket", "5/99s,algo=bucket", 100),
        ("5/m,algo=calendar,tz=UTC", "5/h,algo=calendar,tz=UTC", 100),
    ] {
        let [old, new] = [old, new].map(rules_of);
        let at = Time(100 * SECOND);
        let change = change_at(at);
        let mut ledger = new.carry_over(&old, &old.begin(Time(0)), change);
        let slots = new.book(&mut ledger, at, &order(&[1], 1)).slots;
        assert_eq!(slots[0].at, Time(first * SECOND), "{}", new.policy().text);
    }
}

/// After a loss, 10 s ago, more may have been used than the old limit allowed, so a higher count sets nothing free.
#[test]
fn a_count_that_is_raised_in_a_quarantine_sets_nothing_free() {
    for (algorithm, first) in
        [("sliding", 3611), ("fixed", 3611), ("interval", 912), ("bucket", 467), ("calendar,tz=UTC", 3601)]
    {
        let [old, raised] = [2, 8].map(|count| rules(&format!("{count}/h,algo={algorithm}")));
        let last = Time(10 * SECOND);
        let change = Change { quarantine: Some(last), ..change_at(Time(20 * SECOND)) };
        let mut ledger = raised.carry_over(&old, &old.quarantine(last), change);
        let answer = raised.book(&mut ledger, change.at, &order(&[1], 1));
        let found = answer.slots.first().map(|slot| slot.at).or(answer.next);
        assert_eq!(found.map(|at| at.0 / SECOND), Some(first), "{algorithm}");
    }
}

/// What was used under another algorithm may be more than the new one allows, so a higher count sets nothing free.
#[test]
fn a_count_that_is_raised_after_a_change_of_algorithm_sets_nothing_free() {
    for algorithm in ["algo=fixed", "algo=sliding", "algo=calendar,tz=UTC", "algo=bucket,burst=9"] {
        let [old, new, raised] =
            ["9/h", &format!("2/h,{algorithm}"), &format!("8/h,{algorithm}")].map(rules_of);
        let old = if algorithm == "algo=sliding" { rules_of("9/h,algo=fixed") } else { old };
        let mut ledger = old.begin(Time(0));
        old.book(&mut ledger, Time(0), &order(&[1], 9));
        let first = |rules: &BookingRules, from: &BookingRules, ledger: &Ledger, at: u64| {
            let change = change_at(Time(at * SECOND));
            let ledger = rules.carry_over(from, ledger, change);
            let slots = rules.book(&mut ledger.clone(), change.at, &order(&[1], 1)).slots;
            (ledger, slots.first().map_or(u64::MAX, |slot| slot.at.0 / SECOND))
        };
        let (ledger, after) = first(&new, &old, &ledger, 10);
        assert!(after >= 600, "{algorithm}: {after}");
        let (_, after) = first(&raised, &new, &ledger, 20);
        assert!(after >= 400, "{algorithm}, raised: {after}");
    }
}

/// Under the limits in between, it was too old to be kept, and nothing was used.
#[test]
fn what_a_first_change_has_forgotten_counts_in_a_second_one() {
    let [first, second] = ["7/2s,algo=fixed", "1/1s,algo=fixed"].map(rules_of);
    let at = |at| change_at(Time(at * SECOND));
    for third in ["10/9s,cost=col:1", "10/9s,cost=col:1,algo=interval"].map(rules_of) {
        let mut ledger = first.begin(Time(0));
        first.book(&mut ledger, Time(SECOND), &order(&[1], 7));
        let ledger = second.carry_over(&first, &ledger, at(4));
        let mut ledger = third.carry_over(&second, &ledger, at(5));
        let slot = third.book(&mut ledger, Time(5 * SECOND), &order(&[1], 1)).slots[0].at;
        assert!(slot >= Time(10 * SECOND), "{}: {slot:?}", third.policy().text);
    }
}

#[test]
fn a_hold_goes_on_under_other_limits() {
    let [old, new] = ["5/9s", "6/9s,algo=fixed"].map(rules_of);
    let (mut ledger, until) = (old.begin(Time(0)), Time(100 * SECOND));
    let hold = Order::new(Key::new(), [1], 0).with(Task::Hold(until));
    old.book(&mut ledger, Time(SECOND), &hold);
    let change = change_at(Time(2 * SECOND));
    let mut ledger = new.carry_over(&old, &ledger, change);
    let answer = new.book(&mut ledger, change.at, &order(&[1], 1));
    assert_eq!((answer.held, answer.slots.len()), (Some(until), 0));
}
