//! After bookings are lost, nothing is released for a period: never a burst.

use std::time::Duration;

use throttle::exit::Exit;
use throttle::store::{Store, VaultStore};

use super::booking::Frozen;
use super::client::{book_out, failure, impatient, impatient_failure, keyed, policy, some, store, writes};
use super::proxy::Proxy;
use super::server::RedisServer;
use crate::support::eventually;

const RATES: [&str; 4] = ["6/h", "6/h,algo=fixed", "6/h,algo=bucket,margin=10s", "1/h,algo=interval"];

/// A process that had booked gets nothing and is warned, once.
#[track_caller]
fn assert_silent(store: &mut VaultStore, rate: &str, what: &str) {
    let answer = store.book(&some(1)).unwrap();
    assert_eq!(answer.slots, [], "{rate}");
    assert!(answer.ask_again.is_some(), "{rate}");
    assert!(answer.next > answer.ask_again, "{rate}: without an end");
    let warning = answer.warning.expect("a warning");
    assert!(warning.contains(what), "{warning}");
    let answer = store.book(&some(1)).unwrap();
    assert_eq!((answer.slots.len(), answer.warning), (0, None), "{rate}");
}

#[test]
fn nothing_is_given_out_after_a_flush() {
    let Some(server) = RedisServer::start() else { return };
    for (name, rate) in RATES.iter().enumerate() {
        let (url, rates) = (server.url(&name.to_string()), [*rate]);
        let (mut knows, mut knows_too) = (store(&url, &rates), store(&url, &rates));
        knows.book(&some(1)).unwrap();
        knows_too.book(&some(1)).unwrap();
        server.ask::<()>("FLUSHALL");
        assert_silent(&mut knows, rate, "lost");
        // Others that had booked are warned too, although the loss is known by then; a new process is not.
        assert_silent(&mut knows_too, rate, "lost");
        let answer = store(&url, &rates).book(&some(1)).unwrap();
        assert_eq!((answer.slots.len(), answer.warning), (0, None), "{rate}");
    }
}

/// One process has booked as far ahead as it can; another, which has not, notices the loss.
#[test]
fn what_was_booked_ahead_counts_although_nobody_tells_of_it() {
    let Some(mut frozen) = Frozen::start() else { return };
    let policy = policy(&["2/s"]);
    let (mut ahead, mut behind) = (frozen.store("web", policy.clone()), frozen.store("web", policy.clone()));
    behind.book(&some(1)).unwrap();
    let (slots, _) = book_out(&mut ahead, &some(1));
    let last = frozen.server_time(*slots.last().unwrap());
    frozen.server.ask::<()>("FLUSHALL");
    let mut answer = behind.book(&some(1)).unwrap();
    while answer.slots.is_empty() {
        frozen.pass(100_000);
        answer = behind.book(&some(1)).unwrap();
    }
    assert!(frozen.server_time(answer.slots[0]) >= last + policy.quotas[0].terms.period / 1000);
}

/// Until it may have expired by itself, others may have booked after what this process has seen.
#[test]
fn what_is_lost_before_it_expires_counts_although_what_was_seen_is_over() {
    let Some(mut frozen) = Frozen::start() else { return };
    for (micros, is_lost) in [(200_000, true), (12_000_000, false)] {
        let mut store = frozen.store("web", policy(&["3/50ms"]));
        store.book(&some(1)).unwrap();
        frozen.pass(micros);
        frozen.server.ask::<()>("FLUSHALL");
        let answer = store.book(&some(1)).unwrap();
        assert_eq!(
            (answer.slots.is_empty(), answer.warning.is_some(), answer.lost),
            (is_lost, is_lost, is_lost)
        );
        frozen.server.ask::<()>("FLUSHALL");
    }
}

/// The slots of a full limit are the same whoever books them, so they do not show that the state is an older one.
#[test]
fn an_older_state_in_which_the_same_slots_were_booked_again_is_found_out() {
    let Some(frozen) = Frozen::start() else { return };
    for rate in ["6/h", "6/h,algo=fixed", "6/h,algo=bucket,margin=10s", "6/h,algo=interval"] {
        let mut books = [frozen.store("web", policy(&[rate])), frozen.store("web", policy(&[rate]))];
        books[0].book(&some(1)).unwrap();
        frozen.server.ask::<u64>("COPY throttle:web copy REPLACE");
        let slots = books.each_mut().map(|store| {
            let slots = store.book(&some(1)).unwrap().slots;
            frozen.server.ask::<u64>("COPY copy throttle:web REPLACE");
            slots
        });
        assert_eq!(slots[0], slots[1], "{rate}");
        books[1].book(&some(1)).unwrap();
        assert!(books[0].book(&some(1)).unwrap().lost, "{rate}");
        frozen.server.ask::<()>("FLUSHALL");
    }
}

#[test]
fn each_key_is_lost_by_itself() {
    let Some(server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["6/h"]);
    store.book(&keyed(b"a", 1)).unwrap();
    store.book(&keyed(b"b", 1)).unwrap();
    server.ask::<()>("DEL throttle:web/a");
    assert_eq!(store.book(&keyed(b"b", 1)).unwrap().slots.len(), 1);
    assert_eq!(store.book(&keyed(b"a", 1)).unwrap().slots.len(), 0);
}

#[test]
fn nothing_is_given_out_after_a_restart_without_persistence() {
    let Some(mut server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["6/h"]);
    store.book(&some(1)).unwrap();
    server.kill();
    server.restart();
    assert_silent(&mut store, "6/h", "lost");
}

#[test]
fn a_script_that_is_gone_is_sent_again() {
    let Some(server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["6/h"]);
    store.book(&some(1)).unwrap();
    server.ask::<()>("SCRIPT FLUSH");
    let (slots, answer) = book_out(&mut store, &some(1));
    assert_eq!((slots.len(), answer.warning), (5, None));
}

#[test]
fn a_replica_that_lacks_a_booking_is_found_out() {
    is_found_out_after(1);
    is_found_out_after(2);
}

fn is_found_out_after(bookings: u64) {
    let Some(old) = RedisServer::start() else { return };
    let Some(new) = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", old.port)]) else {
        return;
    };
    eventually("it replicates", || new.ask::<String>("INFO replication").contains("master_link_status:up"));
    let way = Proxy::new(old.port, Duration::ZERO);
    let url = format!("redis://127.0.0.1:{}/web", way.port);
    let (mut early, mut late) = (store(&url, &["8/h"]), store(&url, &["8/h"]));
    early.book(&some(1)).unwrap();
    eventually("it is replicated", || new.ask::<u64>("EXISTS throttle:web") == 1);
    new.ask::<()>("REPLICAOF NO ONE");
    late.book(&some(1)).unwrap();
    way.lead_to(new.port);
    drop(old);
    // This process misses nothing, and its booking takes the place of the missing one.
    for _ in 0..bookings {
        assert_eq!(early.book(&some(1)).unwrap().warning, None);
    }
    assert_silent(&mut late, "6/h", "lost");
    let (slots, answer) = book_out(&mut early, &some(1));
    assert_eq!(slots.len(), 0);
    assert!(answer.warning.expect("told").contains("lost"));
}

#[test]
fn a_booking_that_a_replica_lacks_is_not_used() {
    let Some(server) = RedisServer::start() else { return };
    let url = server.url("web") + "?replicas=1";
    let exit = impatient_failure(&url, &["100/h"], Duration::from_millis(400), "0 of 1 replicas");
    assert_eq!(exit, Exit::StoreAway);
    assert_eq!(server.ask::<u64>("EXISTS throttle:web"), 0);
    let options = ["--replicaof", &format!("127.0.0.1 {}", server.port)];
    let Some(replica) = RedisServer::start_with(&options) else { return };
    let mut knows = impatient(&url, &["100/h"], Duration::from_secs(3));
    assert_eq!(knows.book(&some(1)).unwrap().slots.len(), 1);
    replica.ask::<()>("REPLICAOF NO ONE");
    assert_eq!(failure(&mut knows).0, Exit::StoreAway);
    // It was booked in vain, but only once.
    assert_eq!(writes(&server, "web"), 2);
}

/// The limits of keys are read about once a second, and may be lost meanwhile.
#[test]
fn a_new_key_is_no_way_around_a_loss() {
    let Some(mut frozen) = Frozen::start() else { return };
    let policy = policy(&["4/s,key=col:1"]);
    let mut stores = [(); 2].map(|()| frozen.store("web", policy.clone()));
    assert_eq!(stores[0].book(&keyed(b"used", 4)).unwrap().slots.len(), 4);
    assert_eq!(stores[1].book(&keyed(b"other", 1)).unwrap().slots.len(), 1);
    frozen.server.ask::<()>("FLUSHALL");
    frozen.pass(100_000);
    assert_eq!(stores[1].book(&keyed(b"used", 1)).unwrap().slots, []);
}

/// Whoever still knows the first one finds a key in the second.
#[test]
fn a_second_loss_ends_no_sooner_for_who_has_not_noticed_it() {
    let Some(mut frozen) = Frozen::start() else { return };
    let policy = policy(&["4/s,key=col:1"]);
    let mut stores = [(); 2].map(|()| frozen.store("web", policy.clone()));
    let next = |store: &mut VaultStore| store.book(&keyed(b"a", 1)).unwrap().next;
    stores.iter_mut().for_each(|store| assert_eq!(next(store), None));
    frozen.server.ask::<()>("FLUSHALL");
    assert!(next(&mut stores[0]).is_some());
    frozen.pass(1_050_000);
    assert!(next(&mut stores[1]).is_some());
    frozen.pass(100_000);
    frozen.server.ask::<()>("FLUSHALL");
    let known = next(&mut stores[0]);
    assert!(known.is_some());
    // Turns are one after the other.
    assert!(next(&mut stores[1]) > known);
}
