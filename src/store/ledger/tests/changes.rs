//! Keys that have no record, after a change of limits.

use super::*;
use crate::config::Rate;
use crate::store::Reserve;

fn rules(rate: &str) -> BookingRules {
    let rate: Rate = format!("{rate},key=col:1,margin=1s").parse().expect("a rate");
    BookingRules::new(Policy::new(&[rate], Reserve::LOCAL))
}

/// In seconds: the first slot after a change at 100, of a key that is found to be missing at an instant. With the margin
/// of 1 s, releases less than 10 s ago are in its record.
#[test]
fn a_missing_key_may_have_used_what_its_old_limits_no_longer_remember() {
    let old = rules("5/9s");
    for (new, began, missing, first) in [
        // It is free as soon as it can be, however long its record was kept.
        ("5/9s", 0, 100, 100),
        ("5/9s", 0, 105, 105),
        ("5/9s", 0, 500, 500),
        ("9/4s", 0, 100, 100),
        // Up to 10 s ago, but not by slots that were booked for more than 3 s after the change.
        ("5/99s", 0, 100, 190),
        ("5/99s", 0, 105, 195),
        ("5/99s", 0, 113, 203),
        ("5/99s", 0, 200, 203),
        ("5/99s", 0, 500, 500),
        // Before it began, nothing was used.
        ("5/99s", 95, 104, 104),
        ("5/99s", 95, 105, 195),
        // Another algorithm.
        ("5/99s,algo=fixed", 0, 100, 190),
        ("5/99s,algo=fixed", 0, 200, 203),
        ("5/4s,algo=fixed", 0, 100, 100),
    ] {
        let [at, began, missing] = [100, began, missing].map(|seconds| Time(seconds * SECOND));
        let change = Change { at, began, quarantine: None, missing: Some(missing) };
        let new_rules = rules(new);
        let mut ledger = new_rules.carry_over(&old, &old.begin(Time(0)), change);
        let slots = new_rules.book(&mut ledger, missing, &order(&[1], 1)).slots;
        let found = slots.first().map(|slot| slot.at.0 / SECOND);
        assert_eq!(found, Some(first), "{new}, missing at {missing:?}");
    }
}
