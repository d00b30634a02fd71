//! Records that no throttle has written, but with the right checksum: nothing panics, whatever numbers are in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;

use super::memory_store::MemoryVault;
use super::record::Record;
use super::{Order, Policy, Reserve, Status, Store, Task, Turn, VaultStore, Wanted, admin};
use crate::charge::Key;
use crate::config::Rate;
use crate::random::for_each_seed;
use crate::rule::pack;
use crate::time::{SECOND, Time, Wall};

const START: u64 = 1000 * SECOND;

/// Limits of all algorithms.
const LIMITS: [&[&str]; 5] = [
    &["4/10s"],
    &["9/m,algo=bucket", "5/s,algo=interval"],
    &["7/3s,algo=fixed", "5000/s"],
    &["100/d,algo=calendar,tz=UTC", "4/s"],
    &["3/s,during=09:00-17:00,tz=UTC", "20/h,algo=bucket,burst=2"],
];

#[derive(Clone)]
struct Stage {
    policy: Policy,
    clock: Arc<AtomicU64>,
    vault: MemoryVault,
}

impl Stage {
    fn new(limits: &[&str]) -> Self {
        let rates: Vec<Rate> = limits.iter().map(|text| text.parse().unwrap()).collect();
        let clock = Arc::new(AtomicU64::new(START));
        let shown = Arc::clone(&clock);
        let vault = MemoryVault::new(move || Time(shown.load(Relaxed)), || Wall::EPOCH);
        Stage { policy: Policy::new(&rates, Reserve::LOCAL), clock, vault }
    }

    fn open(&self) -> Option<VaultStore> {
        VaultStore::over(self.vault.clone(), self.policy.clone()).ok()
    }

    fn now(&self) -> Time {
        Time(self.clock.load(Relaxed))
    }

    fn order(&self, random: &mut Rng) -> Order {
        let now = self.now();
        let key = if random.bool() { Key::new() } else { Key::from_slice(b"key") };
        let costs: Vec<_> =
            self.policy.quotas.iter().map(|quota| random.u64(0..4).min(quota.most())).collect();
        let (count, at) = (random.u64(0..6), number(random, now));
        let turn = Some(Turn(number(random, now))).filter(|_| random.u8(..4) == 0);
        Order::new(key, costs, 0).with(match random.u8(..4) {
            0 => Task::Late(count, Time(at)),
            1 => Task::Hold(Time(at)),
            _ => Task::Book(Wanted {
                count,
                within: if random.bool() { u64::MAX } else { 0 },
                ahead: random.u64(..=1 << 20),
                by: u32::MAX - random.u32(..3),
                follows: random.bool(),
                turn,
            }),
        })
    }

    /// Does anything that a process or its user may do.
    fn act(&self, store: &mut VaultStore, random: &mut Rng) -> bool {
        let longest = [0, SECOND, 10_000 * SECOND][random.usize(..3)];
        self.clock.fetch_add(random.u64(..=longest), Relaxed);
        let order = self.order(random);
        match random.u8(..8) {
            0 => Status::of(Box::new(self.vault.clone())).is_ok(),
            1 => admin::hold(Box::new(self.vault.clone()), number(random, Time(SECOND))).is_ok(),
            _ => {
                let turn = order.wanted().and_then(|wanted| wanted.turn);
                let back = |slots| order.with(Task::GiveBack(slots, turn));
                store.book(&order).and_then(|answer| store.give_back(&back(answer.slots))).is_ok()
            }
        }
    }

    /// Replaces the value of a key by one that has other numbers. Returns whether that can be read.
    fn tamper(&self, key: &[u8], random: &mut Rng) -> bool {
        let Some(value) = self.vault.values().get(key).cloned() else { return false };
        let text = String::from_utf8(value).unwrap();
        let mut text = format!("{{{}", text.split_once(',').unwrap().1);
        (0..random.usize(1..5)).for_each(|_| text = tampered(&text, random, self.now()));
        let Ok(mut record) = serde_json::from_str::<Record>(&text) else { return false };
        let value = record.encode(key, Time(number(random, self.now())));
        let is_readable = Record::decode(key, &value).is_ok_and(|read| read == record);
        self.vault.values().insert(key.to_owned(), value);
        is_readable
    }
}

/// A number at some limit, or near to `now`.
fn number(random: &mut Rng, now: Time) -> u64 {
    let near = random.u64(..=20 * SECOND);
    let any = [0, 1, 7, now.0, now.0 + near, now.0.saturating_sub(near), 1 << 63, u64::MAX - 1, u64::MAX];
    any[random.usize(..any.len())]
}

/// The JSON with a number, a list of numbers, a log or an account replaced.
fn tampered(text: &str, random: &mut Rng, now: Time) -> String {
    let numbers = |random: &mut Rng| {
        let numbers: Vec<_> = (0..random.usize(..4)).map(|_| number(random, now).to_string()).collect();
        numbers.join(",")
    };
    let log = |random: &mut Rng| {
        let mut log = String::new();
        (0..random.usize(..6)).for_each(|_| pack(&mut log, number(random, now)));
        log
    };
    let (before, ends, new) = match random.u8(..9) {
        0 => ("\"quarantine\":", ",", number(random, now).to_string()),
        1 => ("\"Sliding\":\"", "\"", log(random)),
        2 => ("\"costs\":[", "]", numbers(random)),
        3 => {
            let slots = format!("{{\"costs\":[{}],\"slots\":\"{}\"}}", numbers(random), log(random));
            ("\"returned\":[", "", if text.contains("\"returned\":[]") { slots } else { slots + "," })
        }
        4 => ("\"accounts\":[", "", format!("{{\"Sliding\":\"{}\"}},", log(random))),
        5 => ("\"used\":", ",}", u128::MAX.to_string()),
        6 => ("\"got\":\"", "\"", log(random)),
        _ => {
            let starts: Vec<_> = text
                .match_indices(':')
                .filter(|(at, _)| text.as_bytes()[at + 1].is_ascii_digit())
                .map(|(at, _)| at + 1)
                .collect();
            let start = starts[random.usize(..starts.len())];
            let end = start + text[start..].find(|c: char| !c.is_ascii_digit()).unwrap();
            return format!("{}{}{}", &text[..start], number(random, now), &text[end..]);
        }
    };
    let places: Vec<_> = text.match_indices(before).map(|(at, _)| at + before.len()).collect();
    if places.is_empty() {
        return text.to_owned();
    }
    let start = places[random.usize(..places.len())];
    let length = if ends.is_empty() { 0 } else { text[start..].find(|c| ends.contains(c)).unwrap() };
    format!("{}{new}{}", &text[..start], &text[start + length..])
}

#[test]
fn nothing_panics_whatever_numbers_are_in_a_record() {
    let (mut read, mut done) = (0, 0);
    for_each_seed(500, |random| {
        let stage = Stage::new(LIMITS[random.usize(..LIMITS.len())]);
        let mut store = stage.open().unwrap();
        (0..4).for_each(|_| _ = stage.act(&mut store, random));
        for _ in 0..3 {
            read += u32::from(stage.tamper(if random.bool() { b"" } else { b"key" }, random));
            if let Some(newcomer) = stage.open().filter(|_| random.bool()) {
                store = newcomer;
            }
            (0..3).for_each(|_| done += u32::from(stage.act(&mut store, random)));
        }
    });
    println!("{read} read, {done} done");
    assert!(read > 0 && done > 0);
}
