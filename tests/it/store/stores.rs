//! What holds for every store: in memory, in a file, and on a server.
//!
//! Slots are judged by the worst case: the earlier release as late as it may be, the later one as early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use throttle::charge::Key;
use throttle::config::{Shared, State};
use throttle::store::{Admin, FileVault, Order, Policy, Reserve, Slot, Store, Task, VaultStore, Wanted};
use throttle::time::{SECOND, Time};

use crate::memory_store::MemoryStore;
use crate::random::for_each_seed;
use crate::store::redis::client::{PATIENT, now, on_server, policy, rate};
use crate::store::redis::server::RedisServer;
use crate::support::{Directory, Running, fed, throttle};

/// Opens a state of this name once more, under a policy.
type Open<'a> = Box<dyn Fn(&str, Policy) -> Box<dyn Store> + 'a>;

/// Runs `check` on each kind of store.
fn for_each_store(check: impl Fn(&str, Open<'_>)) {
    let directory = Directory::new();
    let in_file = |name: &str, policy| -> Box<dyn Store> {
        let vault = FileVault::new(&directory.path().join(name), Box::new(now)).expect("a clock");
        Box::new(VaultStore::over(vault, policy).expect("a state"))
    };
    check("a file", Box::new(in_file));
    let memory = std::cell::RefCell::new(std::collections::HashMap::<String, MemoryStore>::new());
    let in_memory = |name: &str, policy| -> Box<dyn Store> {
        let mut known = memory.borrow_mut();
        Box::new(known.entry(name.to_owned()).or_insert_with(|| MemoryStore::new(policy, now)).clone())
    };
    check("memory", Box::new(in_memory));
    let Some(server) = RedisServer::start() else { return };
    let on_a_server = |name: &str, policy| -> Box<dyn Store> {
        Box::new(on_server(&server.url(name), policy, PATIENT, now))
    };
    check("a server", Box::new(on_a_server));
}

/// One slot, if it is free at once.
fn at_once() -> Task {
    Task::Book(Wanted { count: 1, ..Wanted::default() })
}

fn order(costs: &[u64], count: u64) -> Order {
    Order::new(Key::new(), costs, count)
}

/// Books alternately from two openings of a state, up to `most` slots.
fn slots(open: &Open<'_>, name: &str, rate: &str, cost: u64, most: usize) -> Vec<Slot> {
    let policy = policy(&[rate]);
    let mut stores = [open(name, policy.clone()), open(name, policy.clone())];
    let mut slots = Vec::new();
    for turn in 0..most {
        let answer = stores[turn % 2].book(&order(&[cost], 1 + turn as u64 % 3)).expect("booked");
        slots.extend(answer.slots);
        if slots.len() >= most || answer.ask_again.is_some() {
            break;
        }
    }
    slots
}

/// Checks that there are `wait` nanoseconds between a release and the one `distance` later, however late the first is.
#[track_caller]
fn are_apart(slots: &[Slot], distance: usize, wait: u64, what: &str) {
    assert!(slots.len() > distance, "{what}: too few slots to tell");
    for (early, late) in slots.iter().zip(&slots[distance..]) {
        assert!(late.at.0 >= early.until.0 + wait, "{what}: {early:?} {late:?}");
    }
}

#[test]
fn each_rule_is_kept_by_slots_of_several_processes() {
    for_each_store(|store, open| {
        let all = slots(&open, "sliding", "5/10s,margin=1s", 1, 15);
        are_apart(&all, 5, 10 * SECOND, store);
        assert!(all[4].at.0 - all[0].at.0 < 10 * SECOND, "{store}: the first five go at once");
        let dear = slots(&open, "dear", "5/10s,cost=2", 2, 6);
        are_apart(&dear, 2, 10 * SECOND, store);
        let gaps = slots(&open, "interval", "5/10s,algo=interval", 1, 9);
        are_apart(&gaps, 1, 2 * SECOND, store);
        let windows = slots(&open, "fixed", "5/10s,algo=fixed", 1, 15);
        are_apart(&windows, 10, 10 * SECOND, store);
        let bursts = slots(&open, "bucket", "5/10s,algo=bucket,burst=3", 1, 9);
        for beyond in 1..5 {
            are_apart(&bursts, 2 + beyond, beyond as u64 * 2 * SECOND, store);
        }
    });
}

/// The slot that an opening gets by asking again and again until a pause is over.
fn after_a_pause(store: &mut dyn Store, key: &Key) -> Slot {
    loop {
        let answer = store.book(&Order::new(key.clone(), [1], 1)).expect("booked");
        match answer.slots.first() {
            Some(slot) => return *slot,
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[test]
fn nobody_gets_slots_of_a_key_that_is_held() {
    for_each_store(|store, open| {
        let policy = policy(&["9/s,key=col:1,margin=3s"]);
        let mut stores = [open("held", policy.clone()), open("held", policy)];
        let keys = [b"a", b"b"].map(|key| Key::from_slice(key));
        let order = |key: &Key, count| Order::new(key.clone(), [1], count);
        assert_eq!(stores[1].book(&order(&keys[0], 1)).expect("booked").held, None, "{store}");
        let begin = |until| order(&keys[0], 0).with(Task::Hold(until));
        let mut length = SECOND / 3;
        let until = loop {
            let until = Time(now().0 + length);
            let first = stores[0].book(&begin(until)).expect("told");
            // A shorter pause changes nothing.
            stores[1].book(&begin(Time(until.0 - length / 4))).expect("told");
            let turn = stores[1].book(&order(&keys[0], 3)).expect("told");
            if now() < until {
                assert!(first.held >= Some(until) && first.ask_again.is_none(), "{store}: {first:?}");
                assert!(
                    turn.slots.is_empty() && turn.held >= Some(until) && turn.ask_again >= Some(until),
                    "{store}: {turn:?}"
                );
                break until;
            }
            // On a busy machine, it was over too soon.
            length *= 3;
        };
        assert!(
            !stores[1].book(&order(&keys[1], 1)).expect("booked").slots.is_empty(),
            "{store}: another key"
        );
        for opening in &mut stores {
            let slot = after_a_pause(&mut **opening, &keys[0]);
            assert!(slot.at >= until, "{store}: {slot:?}, held until {until:?}");
        }
        // A process that is held asks again soon, as the hold may be lifted.
        let long = Time(now().0 + 3600 * SECOND);
        stores[0].book(&begin(long)).expect("told");
        let told = stores[1].book(&order(&keys[0], 1)).expect("told");
        assert!(
            told.held >= Some(long) && told.ask_again.is_some_and(|at| at.0 < now().0 + 2 * SECOND),
            "{store}"
        );
    });
}

/// Before any of them is answered, all are in the state.
#[test]
fn orders_for_many_keys_are_booked_together() {
    for_each_store(|store, open| {
        let policy = policy(&["1/10m,key=col:1,margin=1m"]);
        let mut stores = [open("together", policy.clone()), open("together", policy)];
        let orders: Vec<_> =
            (0..100u8).map(|key| Order::new(Key::from_slice(&[key]), [1], 1).with(at_once())).collect();
        let mut left = &orders[..];
        while !left.is_empty() {
            let answers = stores[0].book_some(left).expect("booked");
            assert!(answers.iter().all(|answer| answer.slots.len() == 1), "{store}: {answers:?}");
            let second = stores[1].book(&left[answers.len() - 1]).expect("booked");
            assert_eq!(second.slots, [], "{store}");
            left = &left[answers.len()..];
        }
    });
}

/// Random orders, some of them for the same key.
fn some_orders(random: &mut fastrand::Rng) -> Vec<Order> {
    let one = |random: &mut fastrand::Rng| {
        let within = [0, SECOND, u64::MAX][random.usize(..3)];
        let wanted = Wanted { count: random.u64(1..4), within, ..Wanted::default() };
        Order::new(Key::from_slice(&[random.u8(b'a'..b'e')]), [random.u64(1..4)], 0).with(Task::Book(wanted))
    };
    (0..random.usize(1..12)).map(|_| one(random)).collect()
}

/// In a crowd in which each asks for several keys and costs at a time.
#[test]
fn no_window_is_over_whatever_is_booked_together() {
    let random = fastrand::Rng::new();
    println!("again with seed {}", random.get_seed());
    for_each_store(|store, open| {
        let policy = policy(&["20/2s,key=col:1,margin=1s"]);
        let stores = [(); 4].map(|()| open("crowd", policy.clone()));
        let book = |mut store: Box<dyn Store>, mut random: fastrand::Rng| {
            let mut slots = Vec::new();
            for _ in 0..15 {
                let orders = some_orders(&mut random);
                let mut left = &orders[..];
                while !left.is_empty() {
                    let answers = store.book_some(left).expect("booked");
                    let (answered, rest) = left.split_at(answers.len());
                    for (order, answer) in answered.iter().zip(answers) {
                        assert!(answer.slots.len() as u64 <= order.wanted().expect("an order").count);
                        slots.extend(
                            answer.slots.iter().map(|slot| (order.key.clone(), *slot, order.costs[0])),
                        );
                    }
                    left = rest;
                }
            }
            slots
        };
        let mut slots: Vec<_> = thread::scope(|scope| {
            let start = |store| scope.spawn(|| book(store, random.clone().fork()));
            stores.map(start).into_iter().flat_map(|thread| thread.join().expect("slots")).collect()
        });
        slots.sort_unstable_by_key(|(key, slot, _)| (key.clone(), slot.at));
        for (at, (key, first, _)) in slots.iter().enumerate() {
            let window = slots[at..]
                .iter()
                .take_while(|(other, slot, _)| other == key && slot.at.0 < first.until.0 + 2 * SECOND);
            let used: u64 = window.map(|(.., cost)| cost).sum();
            assert!(used <= 20, "{store}: {used} from {first:?} on");
        }
        assert!(slots.len() >= 80, "{store}: only {}", slots.len());
    });
}

/// Nothing in it depends on what else is asked for.
#[test]
fn keys_get_the_same_together_as_alone() {
    for_each_seed(300, |random| {
        let clock = Arc::new(AtomicU64::new(1000 * SECOND));
        let store = || {
            let shown = Arc::clone(&clock);
            let rate = "4/10s,key=col:1".parse().expect("a rate");
            MemoryStore::new(Policy::new(&[rate], Reserve::LOCAL), move || Time(shown.load(Relaxed)))
        };
        let (mut together, mut alone) = (store(), store());
        for _ in 0..20 {
            clock.fetch_add(random.u64(..5 * SECOND), Relaxed);
            let mut orders = some_orders(random);
            orders.sort_by(|one, other| one.key.cmp(&other.key));
            orders.dedup_by(|one, other| one.key == other.key);
            let expected: Vec<_> = orders.iter().map(|order| alone.book(order).expect("booked")).collect();
            assert_eq!(together.book_some(&orders).expect("booked"), expected, "{orders:?}");
        }
    });
}

/// Under a limit of one in ten minutes, books one slot and gives the next one back. Returns that one.
fn with_a_slot_given_back(store: &mut dyn Store, costs: &[u64]) -> Slot {
    let one = order(costs, 1);
    store.book(&one).expect("booked");
    let slots = store.book(&one).expect("booked").slots;
    store.give_back(&one.with(Task::GiveBack(slots.clone(), None))).expect("given back");
    slots[0]
}

#[test]
fn whoever_does_not_wait_hears_of_a_slot_that_was_given_back() {
    for_each_store(|store, open| {
        let policy = policy(&["1/10m,margin=1m"]);
        let mut stores = [open("returned", policy.clone()), open("returned", policy)];
        let returned = with_a_slot_given_back(&mut *stores[0], &[1]);
        let told = stores[1].book(&order(&[1], 1).with(at_once())).expect("told");
        assert!(told.next.is_some_and(|next| next < returned.until), "{store}: {told:?}, {returned:?}");
        assert_eq!(told.next.max(told.ask_again), told.ask_again, "{store}");
        assert!(told.ask_again.is_some_and(|at| at < returned.until), "{store}: {told:?}, {returned:?}");
    });
}

pub(crate) fn admin_of(name: &str) -> Admin {
    let state = match name.parse() {
        Ok(server) => State::Server(Box::new(server)),
        Err(_) => State::File(name.into()),
    };
    Admin::of(&Shared { state, timeout: 20 * SECOND }).expect("a place for it")
}

#[test]
fn the_status_says_how_far_ahead_slots_are_booked() {
    for_each_state(|name| {
        let admin = admin_of(name);
        let (mut store, _) = admin.open(&[rate("1/10m,margin=1m")], Box::new(now)).expect("a store");
        let mut booked = || {
            store.book(&order(&[1], 1)).expect("booked");
            admin.status(Box::new(now)).expect("a status").expect("there is one").booked
        };
        assert_eq!(booked(), None, "{name}");
        let left = booked().expect("a slot");
        assert!((600 * SECOND..=661 * SECOND).contains(&left), "{name}: {left}");
    });
}

#[test]
fn the_status_tells_of_a_slot_that_was_given_back() {
    for_each_state(|name| {
        let admin = admin_of(name);
        let rates = ["1/10m,margin=1m", "9/h,margin=1m"].map(rate);
        let (mut store, _) = admin.open(&rates, Box::new(now)).expect("a store");
        let returned = with_a_slot_given_back(&mut *store, &[1, 1]);
        let status = admin.status(Box::new(now)).expect("a status").expect("there is one");
        assert!(
            now().0 + status.limits[0].next_in < returned.until.0 + SECOND,
            "{name}: {status:?}, {returned:?}"
        );
        assert_eq!(status.booked, None, "{name}: nobody waits");
    });
}

/// Runs `check` with a state in a file, and with one on a server.
pub(crate) fn for_each_state(check: impl Fn(&str) + Sync) {
    let (directory, server) = (Directory::new(), RedisServer::start());
    let file = directory.path().join("state").display().to_string();
    let on_server = server.as_ref().map(|server| server.url("shared"));
    // Each waits for seconds.
    thread::scope(|scope| {
        for state in [Some(&file), on_server.as_ref()].into_iter().flatten() {
            scope.spawn(|| check(state));
        }
    });
}

/// Both limits are shown as they would be typed.
#[test]
fn a_state_of_other_limits_is_told_with_both() {
    for_each_state(|state| {
        let with = |count: &str| format!("{count}/1h,algo=sliding,margin=1m,key=re:^\\d+\"\u{e9}'");
        let run = |count| fed(&["-r", &with(count), "-s", state], "1\n");
        run("1").success();
        let both = contains(format!("'{}', not '{}'", with("1"), with("2")));
        run("2").code(65).stderr(both.and(contains("--set-limits")));
    });
}

#[test]
fn limits_are_replaced_and_keep_their_history() {
    for_each_state(|state| {
        let run = |args: &[&str]| {
            let args = [&["--on-limit", "drop", "-s", state], args].concat();
            fed(&args, "1\n2\n")
        };
        let set = |rate: &str| throttle(&["-s", state, "--set-limits", "-r", rate]).assert().success();
        run(&[]).code(1).stderr(contains("there is no state").and(contains("such as -r 10/s")));
        set("3/h,margin=1m");
        run(&[]).success().stdout("1\n2\n");
        set("2/h,margin=1m");
        run(&[]).success().stdout("");
        run(&["-r3/h,margin=1m"]).code(65).stderr(contains("this state has other limits"));
        run(&["-r2/h"]).success().stdout("");
        set("3/h,margin=1m");
        run(&["-r3/h"]).success().stdout("1\n");
        run(&["-Kcol:1"]).code(2).stderr(contains("-K is for limits"));
        run(&["-c4"]).code(2).stderr(contains("-c is for limits"));
        throttle(&["-s", state, "--status"]).assert().stdout(contains("3/1h,algo=sliding,margin=1m: 3 used"));
    });
}

/// A job, and a single release that costs 2.
#[test]
fn what_waits_follows_a_change_of_limits() {
    for_each_state(|state| {
        fed(&["-s", state, "-r2/h,margin=1m"], "1\n2\n").success();
        let mut job = Running::throttle(&["-s", state]);
        let mut once = Running::throttle(&["-s", state, "--once", "-c2", "--", "echo", "done"]);
        job.write("3\n");
        thread::sleep(Duration::from_millis(300));
        throttle(&["-s", state, "--set-limits", "-r9/h,margin=1m"]).assert().success();
        assert_eq!((job.line(), once.line()), ("3\n".to_owned(), "done\n".to_owned()), "{state}");
        throttle(&["-s", state, "--status"]).assert().stdout(contains(": 5 used, 4 free"));
    });
}

/// It is not known what was released for which of the new keys.
#[test]
fn what_another_key_costs_is_told_with_its_cause() {
    for_each_state(|state| {
        let mut job = Running::fed(&["-s", state, "-r9/s,key=col:1"], "a x\n");
        assert_eq!(job.line(), "a x\n");
        throttle(&["-s", state, "--set-limits", "-r9/s,key=col:2"]).assert().success();
        job.write("a x\n");
        let told = job.error_line();
        assert!(told.contains("its limits got another key: nothing is released until"), "{told}");
    });
}

/// Each key has its own limit, which outlives the run.
#[test]
fn keys_are_shared_as_well() {
    for_each_state(|state| {
        let args = ["-r1/h,key=col:1,margin=1m", "-s", state];
        fed(&args, "a\nb\n").success().stdout("a\nb\n");
        fed(&args, "c\n").success().stdout("c\n");
        let mut running = Running::fed(&args, "a\nd\n");
        assert_eq!(running.line(), "d\n");
    });
}

#[test]
fn what_comes_too_early_is_dropped_or_ends_the_run_whoever_was_first() {
    for_each_state(|state| {
        let run = |args: &[&str]| {
            let args = [&["-r3/10m,margin=1m", "-s", state], args].concat();
            fed(&args, "1\n2\n")
        };
        run(&[]).success().stdout("1\n2\n");
        run(&["--on-limit", "drop"]).success().stdout("1\n");
        run(&["--on-limit", "drop"]).success().stdout("");
        let early = contains("item 1 '1' came").and(contains("too early for the limit 3/10m"));
        run(&["--on-limit", "fail"]).code(75).stdout("").stderr(early);
        let status = throttle(&["-s", state, "--status"]).assert().success();
        let used_up = |next| contains(format!("3 used, 0 free, next slot in {next}"));
        status.stdout(used_up("11m").or(used_up("10m")));
    });
}

/// A limit for some items is shared too, and items that wait for it hold up no others.
#[test]
fn limits_for_some_items_are_shared() {
    for_each_state(|state| {
        let args = ["-q", "-r9/10m,margin=1m", "-r1/h,key=col:1,only=a,margin=1m", "-s", state];
        fed(&args, "a\nb\n").success().stdout("a\nb\n");
        let mut running = Running::fed(&args, "a\nc\n");
        assert_eq!(running.line(), "c\n");
        fed(&args, "d\n").success().stdout("d\n");
    });
}
