//! Servers that do not answer, answer too late, or answer nonsense.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use throttle::config::{Shared, State};
use throttle::exit::Exit;
use throttle::store::{Admin, Store, StoreError, book_over};
use throttle::time::{Time, Wall};

use super::client::{self, failure, impatient, impatient_failure, now, some, store};
use super::proxy::{Proxy, listen};
use super::server::{RedisServer, free_port};
use crate::memory_store::{MemoryStore, MemoryVault};
use crate::support::eventually;

const TIMEOUT: Duration = Duration::from_millis(700);

/// The server is retried until the timeout is over, and no longer.
#[track_caller]
fn assert_away(url: &str, why: &str) {
    let start = Instant::now();
    assert_eq!(impatient_failure(url, &["10/h"], TIMEOUT, why), Exit::StoreAway);
    assert!(start.elapsed() >= TIMEOUT, "{:?}", start.elapsed());
}

#[test]
fn nobody_is_there() {
    assert_away(&format!("redis://127.0.0.1:{}/web", free_port()), "refused");
    assert_away("unix:///nowhere/at/all?name=web", "No such file");
}

#[test]
fn what_was_away_may_come_back() {
    let Some(mut server) = RedisServer::start() else { return };
    let url = server.url("web");
    let mut store = store(&url, &["10/h"]);
    store.book(&some(1)).unwrap();
    server.kill();
    let booking = thread::spawn(move || store.book(&some(1)).map_err(|error| error.error.to_string()));
    thread::sleep(Duration::from_millis(200));
    server.restart();
    assert!(booking.join().unwrap().unwrap().warning.is_some());
}

#[test]
fn a_replica_does_not_take_bookings() {
    let Some(server) = RedisServer::start_with(&["--replicaof", "127.0.0.1 1"]) else { return };
    assert_away(&server.url("web"), "READONLY");
}

#[test]
fn a_server_without_memory_does_not_take_bookings() {
    let Some(server) = RedisServer::start_with(&["--maxmemory", "1"]) else { return };
    assert_away(&server.url("web"), "OOM");
}

/// A server that gives the same answer to everything, for as long as somebody listens.
fn server_that_says(what: &'static [u8], pause: Duration) -> String {
    let port = listen(move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4096]);
        while stream.write_all(what).is_ok() {
            thread::sleep(pause);
        }
    });
    format!("redis://127.0.0.1:{port}/web")
}

#[test]
fn nonsense() {
    let cases: [(&[u8], &str); 6] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not in the protocol"),
        (b"+PONG\r\n", "makes no sense"),
        (b":1\r\n", "makes no sense"),
        // Arrays in arrays: the time runs out first, or the nesting that is allowed.
        (b"*1\r\n", ""),
        (b"$-1\r\n", "makes no sense"),
        (b"$18446744073709551615\r\n", "not in the protocol"),
    ];
    for (says, why) in cases {
        println!("{}", says.escape_ascii());
        assert_away(&server_that_says(says, Duration::ZERO), why);
    }
}

/// The time runs out first, or the length that is read of an answer.
#[test]
fn an_answer_without_end() {
    for says in
        [&[b'+'; 8192][..], &[b'1'; 8192], b"$536870912\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]
    {
        assert_away(&server_that_says(says, Duration::ZERO), "");
    }
}

#[test]
fn an_answer_drop_by_drop() {
    assert_away(&server_that_says(b"+", Duration::from_millis(10)), "no answer in time");
}

#[test]
fn silence() {
    assert_away(&server_that_says(b"", Duration::from_millis(10)), "no answer in time");
}

#[test]
fn two_hundred_milliseconds_away() {
    let Some(server) = RedisServer::start() else { return };
    let way = Proxy::new(server.port, Duration::from_millis(100));
    let url = format!("redis://127.0.0.1:{}/web", way.port);
    let (exit, why) = failure(&mut store(&url, &["10/s"]));
    assert_eq!(exit, Exit::BadStore);
    assert!(why.contains("margin="), "{why}");
    let mut far = store(&url, &["3/h,margin=4s"]);
    let mut longest = 0;
    for _ in 0..3 {
        let asked = now();
        let slot = far.book(&some(1)).unwrap().slots[0];
        let answered = now();
        longest = longest.max(answered.since(asked));
        // The server's now was between a question and its answer. Later ones are estimated from that.
        assert!(slot.at <= answered && slot.at.0 + longest >= asked.0, "{slot:?} {asked:?} {answered:?}");
        assert!(slot.at < slot.until && slot.until.since(slot.at) <= 2_800_000_000, "{slot:?}");
    }
}

/// Runs that already use the state wait too. A state that has not begun has no users.
#[test]
fn answers_that_take_too_long_are_waited_out_by_those_who_share_a_state() {
    for (is_kept, exit, why) in [
        (true, Exit::StoreAway, "the margin of this state, 100.0ms"),
        (false, Exit::BadStore, "give every limit margin="),
    ] {
        let clock = AtomicU64::new(1_000_000_000_000);
        let slow = move || Time(clock.fetch_add(90_000_000, Relaxed));
        let policy = client::policy(&["9/5s,margin=100ms"]);
        let mut store = client::on_server("redis://127.0.0.1/web", policy, Duration::ZERO, slow);
        let value = if is_kept { value_of("9/5s,margin=100ms") } else { Vec::new() };
        let reply = |is_swapped: u8, value: &[u8]| {
            let head = format!("*5\r\n$1\r\n1\r\n$1\r\n0\r\n:{is_swapped}\r\n${}\r\n", value.len());
            [head.as_bytes(), value, b"\r\n*0\r\n"].concat()
        };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"-ERR no cluster\r\n").unwrap();
        (0..if is_kept { 2 } else { 8 }).for_each(|_| theirs.write_all(&reply(0, &value)).unwrap());
        // Once more, as that may have been an accident.
        (0..4).for_each(|_| theirs.write_all(&reply(1, b"")).unwrap());
        let error = book_over(&mut store, [ours], &some(1)).unwrap_err();
        assert!(error.exit == exit && error.to_string().contains(why), "{:?}: {error}", error.exit);
    }
}

/// The value of a state for a limit.
fn value_of(rate: &str) -> Vec<u8> {
    let vault = MemoryVault::new(|| Time(1_000_000_000), || Wall::EPOCH);
    drop(MemoryStore::over(vault.clone(), client::policy(&[rate])));
    let values = vault.values();
    values.values().next().expect("one").clone()
}

/// Opens a state like a run that leaves margins to whoever came first.
fn opened(url: &str, rate: &str) -> Box<dyn Store> {
    let timeout = u64::try_from(client::PATIENT.as_nanos()).unwrap();
    let shared = Shared { state: State::Server(Box::new(url.parse().unwrap())), timeout };
    Admin::of(&shared).unwrap().open(&[client::rate(rate)], Box::new(now)).unwrap().0
}

/// Nor is there a message about the margin that slow answers would choose.
#[test]
fn a_margin_that_answers_exceed_for_a_while_is_kept() {
    let Some(server) = RedisServer::start() else { return };
    // For the second state, fast answers choose the margin.
    thread::scope(|scope| {
        for (name, theirs) in [("given", "9/5s,margin=90ms"), ("chosen", "9/5s")] {
            let server = &server;
            scope.spawn(move || is_kept_while_answers_are_slow(server, name, theirs));
        }
    });
}

fn is_kept_while_answers_are_slow(server: &RedisServer, name: &str, theirs: &str) {
    let way = Proxy::new(server.port, Duration::ZERO);
    opened(&server.url(name), theirs).book(&some(1)).unwrap();
    way.set_delay(Duration::from_millis(60));
    let told = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&told);
    let mut late = opened(&format!("redis://127.0.0.1:{}/{name}", way.port), "9/5s");
    late.warn_of_waits_by(Arc::new(move |why| into.lock().unwrap().push_str(&why)));
    let waiting = thread::spawn(move || late.book(&some(1)));
    // Long enough to choose another margin.
    thread::sleep(Duration::from_millis(900));
    way.set_delay(Duration::ZERO);
    assert_eq!(waiting.join().unwrap().unwrap().slots.len(), 1);
    let told = told.lock().unwrap();
    assert!(!told.contains("of it can be reached"), "{told}");
}

/// They take turns, so each hears of slots that others have booked for it.
#[test]
fn several_whose_answers_are_slow_give_up_in_time_and_leave_the_limit_to_another() {
    let Some(server) = RedisServer::start() else { return };
    let way = Proxy::new(server.port, Duration::from_millis(60));
    let (near, far) = (server.url("mixed"), format!("redis://127.0.0.1:{}/mixed", way.port));
    let rate = "20/s,margin=100ms";
    store(&near, &[rate]).book(&some(1)).unwrap();
    let (start, timeout) = (Instant::now(), Duration::from_secs(3));
    let told = Arc::new(AtomicU64::new(0));
    let slow = [(); 2].map(|()| {
        let (mut store, count) = (impatient(&far, &[rate], timeout), Arc::clone(&told));
        store.warn_of_waits_by(Arc::new(move |why| {
            count.fetch_add(u64::from(why.contains("its answers take")), Relaxed);
        }));
        thread::spawn(move || {
            loop {
                match store.book(&some(1)) {
                    Ok(answer) => {
                        assert!(answer.slots.is_empty(), "{answer:?}");
                        pause_until(answer.ask_again);
                    }
                    Err(error) => return error,
                }
            }
        })
    });
    let (mut fast, mut slots) = (store(&near, &[rate]), 0);
    while slow.iter().any(|slow| !slow.is_finished()) {
        let answer = fast.book(&some(5)).unwrap();
        slots += answer.slots.len();
        pause_until(answer.ask_again);
    }
    for slow in slow {
        let StoreError { exit, error } = slow.join().unwrap();
        assert!(exit == Exit::StoreAway && error.to_string().contains("its answers take"), "{error}");
    }
    assert!(start.elapsed() >= timeout, "{:?}", start.elapsed());
    // If it was told at all, once by each.
    assert!(told.load(Relaxed) <= 2);
    // What it books for those who are slow is lost, but that is not much.
    assert!(slots > 20, "{slots}");
}

/// Until an instant, and at least for some milliseconds.
fn pause_until(at: Option<Time>) {
    let left = at.map_or(0, |at| at.since(now()));
    thread::sleep(Duration::from_nanos(left).max(Duration::from_millis(5)));
}

#[test]
fn slots_that_come_too_late_are_not_used() {
    let Some(server) = RedisServer::start() else { return };
    let mut number = 0;
    eventually("it is too slow, and not silent", || {
        number += 1;
        are_not_used_if_too_late(&server, &format!("late-{number}"))
    });
}

/// Lets slots come too late. Returns whether they did, rather than the server seeming to be away.
fn are_not_used_if_too_late(server: &RedisServer, name: &str) -> bool {
    let way = Proxy::new(server.port, Duration::ZERO);
    let url = format!("redis://127.0.0.1:{}/{name}", way.port);
    let mut store = impatient(&url, &["1000/h,margin=100ms"], Duration::from_secs(3));
    if store.book(&some(1)).is_err() {
        return false;
    }
    way.set_delay(Duration::from_millis(100));
    let (exit, why) = failure(&mut store);
    assert_eq!(exit, Exit::StoreAway);
    // It was not asked again and again without a pause.
    let writes = client::writes(server, name);
    assert!((2..12).contains(&writes), "{writes}");
    why.contains("margin=")
}
