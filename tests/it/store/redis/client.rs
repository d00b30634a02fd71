//! Stores as a process uses them, and what a process does with their slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use throttle::charge::Key;
use throttle::config::Rate;
use throttle::exit::Exit;
use throttle::store::{Answer, Order, Policy, Reserve, ServerVault, Slot, Store, Task, VaultStore};
use throttle::time::Time;

use super::server::RedisServer;
use crate::support::eventually;

pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// Machines that are busy with tests are late, sometimes by seconds.
const GENEROUS: Reserve =
    Reserve { floor: 100_000_000, most: 20_000_000_000, longest: 20_000_000_000, ..Reserve::REMOTE };

pub(crate) fn rate(text: &str) -> Rate {
    text.parse::<Rate>().unwrap()
}

pub(crate) fn policy(rates: &[&str]) -> Policy {
    let rates: Vec<_> = rates.iter().map(|text| rate(text)).collect();
    Policy::new(&rates, GENEROUS)
}

/// The one clock of this test.
pub(crate) fn now() -> Time {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    // Not at its origin, so that there is a past.
    Time(1_000_000_000_000 + u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap())
}

pub(crate) fn store(url: &str, rates: &[&str]) -> VaultStore {
    impatient(url, rates, PATIENT)
}

pub(crate) fn impatient(url: &str, rates: &[&str], timeout: Duration) -> VaultStore {
    on_server(url, policy(rates), timeout, now)
}

/// A store that gives slots on this clock.
pub(crate) fn on_server(
    url: &str,
    policy: Policy,
    timeout: Duration,
    clock: impl Fn() -> Time + Send + 'static,
) -> VaultStore {
    let vault = ServerVault::new(url.parse().expect("a server"), timeout, Box::new(clock));
    VaultStore::over(vault, policy).expect("a state")
}

/// A store whose clock shows `clock`.
pub(crate) fn store_at(url: &str, policy: Policy, clock: &Arc<AtomicU64>) -> VaultStore {
    let clock = Arc::clone(clock);
    on_server(url, policy, PATIENT, move || Time(clock.load(Relaxed)))
}

/// The number of times that the value of a name was written.
pub(crate) fn writes(server: &RedisServer, name: &str) -> u64 {
    let value: String = server.ask(&format!("HGET throttle:{name} value"));
    let value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
    value["history"]["writes"].as_u64().expect("a number")
}

/// An order for `count` slots, at a cost of 1 under the only limit.
pub(crate) fn some(count: u64) -> Order {
    keyed(b"", count)
}

/// An order that gives back such slots.
pub(crate) fn giving_back(slots: &[Slot]) -> Order {
    some(0).with(Task::GiveBack(slots.into(), None))
}

pub(crate) fn keyed(key: &[u8], count: u64) -> Order {
    Order::new(Key::from_slice(key), [1], count)
}

/// Books one slot at a time until there are no more. Returns the last answer too.
pub(crate) fn book_out(store: &mut VaultStore, order: &Order) -> (Vec<Slot>, Answer) {
    let mut slots = Vec::new();
    loop {
        let answer = store.book(order).unwrap();
        slots.extend(&answer.slots);
        if (answer.slots.len() as u64) < order.wanted().unwrap_or_default().count {
            return (slots, answer);
        }
        assert!(slots.len() < 10_000, "there is no end of slots");
    }
}

/// How a booking fails: the exit, and the message.
pub(crate) fn failure(store: &mut VaultStore) -> (Exit, String) {
    let error = store.book(&some(1)).unwrap_err();
    (error.exit, format!("{:#}", error.error))
}

/// As [`failure`], for a store that gives up soon; repeated until the message contains `why`, as on a busy machine the
/// time may be over before the server has answered.
#[track_caller]
pub(crate) fn impatient_failure(url: &str, rates: &[&str], timeout: Duration, why: &str) -> Exit {
    let mut exit = None;
    eventually(why, || {
        let (found, told) = failure(&mut impatient(url, rates, timeout));
        println!("{told}");
        exit = told.contains(why).then_some(found);
        exit.is_some()
    });
    exit.expect("told")
}

/// Processes that share a limit. Each releases when it has a slot, in time or not at all.
pub(crate) struct Crowd {
    stop: Arc<AtomicBool>,
    /// When each member had its last answer; 0 before the first.
    heard: Vec<Arc<AtomicU64>>,
    released: Arc<Mutex<Vec<u64>>>,
    members: Vec<thread::JoinHandle<Vec<String>>>,
}

impl Crowd {
    pub(crate) fn start(size: usize, make: impl Fn() -> VaultStore) -> Self {
        let (stop, released) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let heard: Vec<_> = (0..size).map(|_| Arc::<AtomicU64>::default()).collect();
        let member = |heard: &Arc<AtomicU64>| {
            let (store, stop, released) = (make(), Arc::clone(&stop), Arc::clone(&released));
            let heard = Arc::clone(heard);
            thread::spawn(move || release_until(&stop, store, &heard, &released))
        };
        let members = heard.iter().map(member).collect();
        Crowd { stop, heard, released, members }
    }

    pub(crate) fn has_answers(&self) -> bool {
        self.has_heard_since(Time::ZERO)
    }

    /// True if each member has had an answer after `at`.
    pub(crate) fn has_heard_since(&self, at: Time) -> bool {
        self.heard.iter().all(|heard| heard.load(Relaxed) > at.0)
    }

    pub(crate) fn released(&self) -> usize {
        self.released.lock().unwrap().len()
    }

    /// The instants of the releases, in order, and the warnings.
    pub(crate) fn finish(self) -> (Vec<u64>, Vec<String>) {
        self.stop.store(true, Relaxed);
        let warnings = self.members.into_iter().flat_map(|member| member.join().unwrap()).collect();
        let mut released = std::mem::take(&mut *self.released.lock().unwrap());
        released.sort_unstable();
        (released, warnings)
    }
}

fn release_until(
    stop: &AtomicBool,
    mut store: VaultStore,
    heard: &AtomicU64,
    released: &Mutex<Vec<u64>>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    loop {
        let answer = match store.book(&some(3)) {
            // On a busy machine. A run would end.
            Err(error) if format!("{:#}", error.error).contains("its answers take") => {
                if stop.load(Relaxed) {
                    return warnings;
                }
                continue;
            }
            answer => answer.unwrap(),
        };
        heard.store(now().0, Relaxed);
        for slot in &answer.slots {
            sleep_until(stop, slot.at);
            let at = now();
            if slot.at <= at && at <= slot.until {
                released.lock().unwrap().push(at.0);
            }
        }
        warnings.extend(answer.warning);
        if let Some(at) = answer.ask_again {
            sleep_until(stop, at);
        }
        if stop.load(Relaxed) {
            return warnings;
        }
    }
}

fn sleep_until(stop: &AtomicBool, at: Time) {
    while !stop.load(Relaxed) && now() < at {
        thread::sleep(Duration::from_nanos(at.since(now())).min(Duration::from_millis(50)));
    }
}

/// Whether no window of `period` nanoseconds holds more than `count`.
#[track_caller]
pub(crate) fn audit(released: &[u64], count: usize, period: u64) {
    for pair in released.windows(count + 1) {
        assert!(pair[count] - pair[0] >= period, "{} in {} ns", count + 1, pair[count] - pair[0]);
    }
}
