//! A limit in a cluster, asked for at any node, while slots and masters change.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use ::redis::FromRedisValue;
use throttle::exit::Exit;
use throttle::store::Store;

use super::client::{book_out, failure, giving_back, impatient, impatient_failure, keyed, some, store};
use super::crowds::goes_on_without_a_burst;
use super::proxy::listen;
use super::server::RedisServer;
use crate::support::{Directory, eventually, throttle};

const SLOTS: u16 = 16384;

/// More than a quarter of the margins, in microseconds.
const AHEAD: i64 = 600_000;

const RATES: [&str; 1] = ["2/h,key=col:1"];

const OPTIONS: &str = "--cluster-enabled yes --cluster-node-timeout 5000 --user joe on >hush ~throttle:* \
                       +select +evalsha +script|load +time +hget +hset +pexpire \
                       +cluster|slots +asking +scan +unlink --user default on nopass ~* &* +@all -evalsha";

fn start_node() -> Option<RedisServer> {
    RedisServer::start_with(&OPTIONS.split(' ').collect::<Vec<_>>())
}

/// Three masters, followed by their replicas. Only joe may book.
struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    fn start(size: usize) -> Option<Self> {
        Some(Cluster::of((0..size).map(|_| start_node()).collect::<Option<_>>()?))
    }

    fn of(nodes: Vec<RedisServer>) -> Self {
        // This can no longer be set once the nodes have met.
        for (number, node) in (1..).zip(&nodes) {
            node.ask::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {number}"));
        }
        for (number, node) in (0..).zip(&nodes) {
            if number < 3 {
                let end = if number == 2 { SLOTS } else { SLOTS / 3 * (number + 1) };
                node.ask::<()>(&format!("CLUSTER ADDSLOTSRANGE {} {}", SLOTS / 3 * number, end - 1));
            }
            for other in &nodes {
                node.ask::<()>(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, other.bus));
            }
        }
        let size = format!("cluster_known_nodes:{}\r", nodes.len());
        let is_up = |info: &str| info.contains("cluster_state:ok") && info.contains(&size);
        eventually("it is a cluster", || nodes.iter().all(|node| is_up(&node.ask::<String>("CLUSTER INFO"))));
        Cluster { nodes }
    }

    fn replicate(&self, master: usize, replica: usize) {
        let replica = &self.nodes[replica];
        replica.ask::<()>(&format!("CLUSTER REPLICATE {}", id(&self.nodes[master])));
        let is_up = || replica.ask::<String>("INFO replication").contains("master_link_status:up");
        eventually("it replicates", is_up);
    }

    /// Moves the slot of a key. Runs `between` when the key has moved, but not all nodes know yet.
    fn migrate(&self, key: &str, from: usize, to: usize, between: impl FnOnce()) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let slot: u16 = source.ask(&format!("CLUSTER KEYSLOT {key}"));
        target.ask::<()>(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(source)));
        source.ask::<()>(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(target)));
        ask_until_up::<()>(source, &format!("MIGRATE 127.0.0.1 {} {key} 0 5000", target.port));
        between();
        for node in [target, source] {
            node.ask::<()>(&format!("CLUSTER SETSLOT {slot} NODE {}", id(target)));
        }
    }

    /// The index of the master that keeps a key.
    fn keeper(&self, key: &str) -> usize {
        let slot: u16 = self.nodes[0].ask(&format!("CLUSTER KEYSLOT {key}"));
        usize::from(slot / (SLOTS / 3)).min(2)
    }
}

/// Asks for a key. On a busy machine, nodes may lose touch for so long that they refuse.
fn ask_until_up<T: FromRedisValue>(node: &RedisServer, command: &str) -> T {
    let mut reply = None;
    eventually("the cluster is up", || {
        reply = node.try_ask(command).ok();
        reply.is_some()
    });
    reply.expect("a reply")
}

fn id(node: &RedisServer) -> String {
    node.ask("CLUSTER MYID")
}

/// The node's replication offset.
fn offset(node: &RedisServer) -> String {
    let info: String = node.ask("INFO replication");
    let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    offset.unwrap().to_owned()
}

fn url(node: &RedisServer, name: &str) -> String {
    node.url(name).replace("//", "//joe:hush@")
}

#[test]
fn any_node_may_be_named_and_keys_are_spread() {
    let Some(cluster) = Cluster::start(3) else { return };
    let urls: Vec<_> = cluster.nodes.iter().map(|node| url(node, "api")).collect();
    // Two in all, whichever node is asked.
    let booked = urls.iter().map(|url| book_out(&mut store(url, &RATES), &keyed(b"other", 1)).0.len());
    assert_eq!(booked.collect::<Vec<_>>(), [2, 0, 0]);
    let mut one = store(&urls[0], &RATES);
    let keys = ["a", "b", "{x}c", "d}e{", "f", "g", "h", "i", "j", "k", "l", "m"];
    for key in keys {
        assert_eq!(book_out(&mut one, &keyed(key.as_bytes(), 1)).0.len(), 2, "{key}");
    }
    let kept = || cluster.nodes.iter().map(|node| node.ask::<u64>("DBSIZE")).collect::<Vec<_>>();
    // Two more than the keys: "other", and the record of the limits.
    assert_eq!(kept().iter().sum::<u64>(), 12 + 2);
    assert!(kept().iter().all(|&kept| kept > 0), "{:?}", kept());
    // With a key that nobody had used.
    let (exit, why) = failure(&mut store(&urls[1], &["3/h,key=col:1"]));
    assert_eq!(exit, Exit::BadState, "{why}");
    let directory = Directory::new();
    let file = format!("-s@{}", directory.file("state", &urls[1]).display());
    throttle(&["--reset-state", &file]).assert().success();
    assert_eq!(kept(), [0, 0, 0]);
}

#[test]
fn a_slot_that_is_moved() {
    let Some(cluster) = Cluster::start(3) else { return };
    let from = cluster.keeper("throttle:web");
    let [to, then] = [1, 2].map(|next| (from + next) % 3);
    let has_asked = || cluster.nodes[to].ask::<String>("INFO commandstats").contains("cmdstat_asking");
    goes_on_without_a_burst(3, &url(&cluster.nodes[0], "web"), || {
        cluster.migrate("throttle:web", from, to, || eventually("they ask where it was moved", has_asked));
        cluster.migrate("throttle:web", to, then, || ());
    });
    assert_eq!(ask_until_up::<u64>(&cluster.nodes[then], "EXISTS throttle:web"), 1);
}

/// Three masters. The last one's clock is ahead, and it does not keep the key of "web".
fn with_one_ahead() -> Option<Cluster> {
    let (ahead, clock) = RedisServer::start_with_clock(&OPTIONS.split(' ').collect::<Vec<_>>())?;
    clock.step(AHEAD);
    let cluster = Cluster::of(vec![start_node()?, start_node()?, ahead]);
    assert_ne!(cluster.keeper("throttle:web"), 2);
    Some(cluster)
}

#[test]
fn a_slot_that_is_moved_to_a_node_whose_clock_is_ahead() {
    let Some(cluster) = with_one_ahead() else { return };
    let rates = ["2/10s,margin=2s"];
    let mut stores = [0; 3].map(|_| store(&url(&cluster.nodes[2], "web"), &rates));
    let booked = stores.each_mut().map(|store| store.book(&some(1)).unwrap().slots[0]);
    cluster.migrate("throttle:web", cluster.keeper("throttle:web"), 2, || ());
    for store in &mut stores {
        let answer = store.book(&some(1)).unwrap();
        let told = answer.warning.unwrap();
        assert!(told.contains("clock may be ahead"), "{told}");
        let next = answer.slots.first().map(|slot| slot.at).or(answer.next).unwrap();
        // Nobody knows what was booked up to the horizon.
        assert!(next.since(booked[2].at) > 10_000_000_000, "{next:?}, {booked:?}");
    }
}

/// There it would come too early, by as much as that clock is ahead.
#[test]
fn a_slot_is_not_given_back_to_another_node() {
    let Some(cluster) = with_one_ahead() else { return };
    let rates = ["2/10s,margin=2s"];
    let mut owner = store(&url(&cluster.nodes[2], "web"), &rates);
    let slots = [0; 4].map(|_| owner.book(&some(1)).unwrap().slots[0]);
    cluster.migrate("throttle:web", cluster.keeper("throttle:web"), 2, || ());
    owner.give_back(&giving_back(&slots[2..])).unwrap();
    let next = store(&url(&cluster.nodes[2], "web"), &rates).book(&some(1)).unwrap();
    let at = next.slots.first().map(|slot| slot.at).or(next.next).unwrap();
    assert!(at > slots[2].at, "{next:?}, {slots:?}");
}

#[test]
fn nodes_that_name_each_other_for_ever() {
    let own_port = Arc::new(AtomicU16::new(0));
    let named = Arc::clone(&own_port);
    let port = listen(move |mut stream| {
        while let Ok(1..) = stream.read(&mut [0; 4096]) {
            let moved = format!("-MOVED 7 :{}\r\n", named.load(Relaxed));
            stream.write_all(moved.as_bytes()).unwrap();
        }
    });
    own_port.store(port, Relaxed);
    let url = format!("redis://127.0.0.1:{port}/web");
    let exit = impatient_failure(&url, &["1/s"], Duration::from_millis(400), "redirect to each other");
    assert_eq!(exit, Exit::StoreAway);
}

/// A client that connects to all nodes at once would wait for the one that hangs.
#[test]
fn a_node_that_hangs_holds_up_its_own_keys_only() {
    let Some(cluster) = Cluster::start(3) else { return };
    let keeper = cluster.keeper("throttle:web");
    let (named, hangs) = ((keeper + 1) % 3, &cluster.nodes[(keeper + 2) % 3]);
    thread::scope(|scope| {
        // The others do not miss it for as long.
        scope.spawn(|| hangs.stop_for(Duration::from_secs(4)));
        thread::sleep(Duration::from_millis(200));
        let url = url(&cluster.nodes[named], "web");
        let mut store = impatient(&url, &["2/h"], Duration::from_secs(3));
        assert_eq!(book_out(&mut store, &some(1)).0.len(), 2);
    });
}

/// The named node is the one that fails, so the others must be known.
#[test]
fn a_master_that_fails() {
    let Some(mut cluster) = Cluster::start(4) else { return };
    let master = cluster.keeper("throttle:web");
    cluster.replicate(master, 3);
    goes_on_without_a_burst(3, &url(&cluster.nodes[master], "web"), || {
        // Bookings that the replica lacks might be made twice; the guarantee excludes those.
        cluster.nodes[master].ask::<()>("CLIENT PAUSE 30000 WRITE");
        eventually("all is replicated", || offset(&cluster.nodes[master]) == offset(&cluster.nodes[3]));
        cluster.nodes[master].kill();
        cluster.nodes[3].ask::<()>("CLUSTER FAILOVER TAKEOVER");
    });
}
