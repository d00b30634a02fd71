//! Values of a vault, made up and damaged.

use std::sync::LazyLock;

use throttle::charge::Key;
use throttle::config::Rate;
use throttle::store::ledger::BookingRules;
use throttle::store::record::Record;
use throttle::store::vault::Origin;
use throttle::store::{Order, Policy, Reserve, Task};
use throttle::time::{SECOND, Time, Wall};

use super::damaged;

const KEY: &[u8] = b"key";

/// The first byte chooses what the others are: a value, the JSON of a record, or damage to a good value. A value that
/// was changed is refused, or read as it was written: no limit becomes laxer.
///
/// # Panics
/// If that is not so.
pub fn value(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => drop(Record::decode(KEY, rest)),
        1 => {
            let Ok(mut record) = serde_json::from_slice::<Record>(rest) else { return };
            let value = record.encode(KEY, Time::ZERO);
            let read = Record::decode(KEY, &value);
            let is_of_another_format = || format!("{read:?}").starts_with("Err(Format(");
            assert!(read.as_ref() == Ok(&record) || is_of_another_format(), "{read:?}");
        }
        _ => {
            let (value, record) = &GOOD[usize::from(kind / 4) % GOOD.len()];
            let changed = damaged(value.clone(), rest);
            let read = Record::decode(KEY, &changed);
            assert!(read.as_ref() == Ok(record) || (read.is_err() && changed != *value), "{changed:?}");
            assert!(Record::decode(b"another", &changed).is_err());
        }
    }
}

/// Values of used limits of all algorithms.
static GOOD: LazyLock<Vec<(Vec<u8>, Record)>> = LazyLock::new(|| {
    let limits =
        ["4/10s 9/m,algo=bucket", "5/s,algo=interval 7/h", "7/3s,algo=fixed", "1k/d,algo=calendar,tz=UTC"];
    limits.into_iter().map(used).collect()
});

fn used(limits: &str) -> (Vec<u8>, Record) {
    let rates: Vec<_> = limits.split(' ').map(|text| text.parse::<Rate>().expect("a rate")).collect();
    let rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    let mut ledger = rules.begin(Time(1000 * SECOND));
    for seconds in 1000..1007 {
        let (now, order) = (Time(seconds * SECOND), Order::new(Key::new(), vec![1; rates.len()], 2));
        let slots = rules.book(&mut ledger, now, &order).slots;
        rules.give_back(&mut ledger, now, &order.costs, slots.iter().skip(1).map(|slot| slot.at));
        rules.book(&mut ledger, now, &order.with(Task::Late(2, now)));
    }
    let mut record = Record::new(&rules.policy().text, Origin::default(), Wall::EPOCH, Time(SECOND), ledger);
    (record.encode(KEY, Time(1007 * SECOND)), record)
}
