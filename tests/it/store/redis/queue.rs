//! Processes that want to swap the same value at the same time: one of them decides for all.

use std::thread;
use std::time::{Duration, Instant};

use ::redis::{Client, Value, cmd};

use throttle::store::Store as _;

use super::client::{giving_back, now, some, store, writes};
use super::server::RedisServer;

const SCRIPT: &str = include_str!("../../../../src/store/redis/vault.lua");

/// Joins the queue as a process that is never heard of again. Returns what became of it: 3 if it has the turn.
fn join(server: &RedisServer, id: &str, request: &str, turn: Duration) -> u64 {
    let client = Client::open(server.url("")).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut call = cmd("EVAL");
    call.arg(SCRIPT).arg(1).arg("throttle:web").arg("").arg("").arg(60_000).arg(id).arg(request);
    let reply: (u64, u64, u64, Value, Value) =
        call.arg(u64::try_from(turn.as_micros()).unwrap()).query(&mut connection).unwrap();
    reply.2
}

#[test]
fn whoever_has_the_turn_decides_for_all_that_wait_and_all_get_the_same() {
    let Some(server) = RedisServer::start() else { return };
    let mut stores: Vec<_> = (0..8).map(|_| store(&server.url("web"), &["64/s"])).collect();
    stores.iter_mut().for_each(|store| _ = store.book(&some(1)).unwrap());
    let before = writes(&server, "web");
    // It keeps all others waiting for a while, so that they wait together.
    assert_eq!(join(&server, "1", "", Duration::from_millis(500)), 3);
    let books =
        stores.into_iter().map(|mut store| thread::spawn(move || store.book(&some(7)).unwrap().slots));
    let books: Vec<_> = books.collect();
    let slots: Vec<_> = books.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(slots.iter().all(|slots| slots.len() == 7), "{slots:?}");
    let count = writes(&server, "web") - before;
    assert!(count <= 4, "{count} swaps for 8 that asked at once");
}

#[test]
fn a_process_that_dies_in_its_turn_keeps_nobody_waiting_for_long() {
    let Some(server) = RedisServer::start() else { return };
    let mut alive = store(&server.url("web"), &["64/s"]);
    alive.book(&some(1)).unwrap();
    let turn = Duration::from_millis(300);
    // The first one has the turn; the other one, which has died too, only waits.
    assert_eq!(join(&server, "1", "", turn), 3);
    assert_eq!(join(&server, "2", "{}", turn), 4);
    let (start, asked) = (Instant::now(), now());
    let slots = alive.book(&some(1)).unwrap().slots;
    assert!(slots[0].at > asked && start.elapsed() >= turn / 2, "it does not swap out of turn");
    // What was asked by nobody who listens is not asked again.
    let again = Instant::now();
    alive.book(&some(1)).unwrap();
    assert!(again.elapsed() < Duration::from_secs(5));
}

/// What the clock showed then is an hour ahead.
#[test]
fn nor_does_it_if_the_clock_is_set_back() {
    let Some((server, clock)) = RedisServer::start_with_clock(&[]) else { return };
    let mut alive = store(&server.url("web"), &["64/s"]);
    alive.book(&some(1)).unwrap();
    for id in ["1", "2"] {
        join(&server, id, "{}", Duration::from_millis(300));
    }
    clock.step(-3_600_000_000);
    let start = Instant::now();
    alive.book(&some(1)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let queue: String = server.ask("HGET throttle:web queue");
    assert!(!queue.contains("\n1 ") && !queue.contains("\n2 "), "{queue}");
}

#[test]
fn a_queue_that_another_program_has_altered_is_empty() {
    let Some(server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["64/s"]);
    for queue in ["garbage", "garbage\n1 2 3", "1 x\n", "\n", "99 99\n"] {
        let client = Client::open(server.url("")).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut set = cmd("HSET");
        set.arg("throttle:web").arg("queue").arg(queue).exec(&mut connection).unwrap();
        store.book(&some(1)).unwrap();
    }
}

/// Also by a process that nobody else can decide for, among many that can be decided for.
#[test]
fn a_request_that_nobody_can_decide_on_has_its_turn() {
    let Some(server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["64/s"]);
    store.book(&some(1)).unwrap();
    assert_eq!(join(&server, "1", "{}", Duration::from_millis(200)), 3);
    assert_eq!(join(&server, "2", "", Duration::from_millis(200)), 4);
    thread::sleep(Duration::from_millis(250));
    // The first one did not use its turn. Somebody else does, and the next one goes to the one that waits for it.
    store.book(&some(1)).unwrap();
    let queue: String = server.ask("HGET throttle:web queue");
    assert!(queue.starts_with("2 ") && !queue.contains("\n1 "), "{queue}");
    assert_eq!(join(&server, "2", "", Duration::ZERO), 3);
}

/// They would be used twice if the first attempt was made after all.
#[test]
fn slots_are_given_back_with_one_attempt_that_nobody_waits_for() {
    let Some(server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["64/s"]);
    let order = some(70);
    let slots = store.book(&order).unwrap().slots;
    thread::scope(|scope| {
        scope.spawn(|| server.stop_for(Duration::from_secs(5)));
        thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        store.give_back(&giving_back(&slots[slots.len() - 1..])).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    });
}
