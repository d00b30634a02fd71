//! The cost of a decision: alone, in bulk, among many lanes, and in the whole simulated program.
//!
//! `cargo bench`; for the whole program against its peers, see `compare.py`.

use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use throttle::charge::Key;
use throttle::cli;
use throttle::config::Rate;
use throttle::gate::Limit;
use throttle::rule::{Algorithm, Ask, Terms};
use throttle::runtime::sim::{Sim, SimClock};
use throttle::runtime::{Driver, World};
use throttle::schedule::Schedule;
use throttle::sink::PermitSink;
use throttle::source::{Delimiter, Reader};
use throttle::store::{FileVault, Order, Policy, Reserve, ServerVault, Store, VaultStore};
use throttle::time::{SECOND, Time};
use throttle::ui::report::Reporter;

fn main() {
    divan::main();
    if std::env::args().any(|argument| argument == "booking") {
        fairness();
    }
}

const TERMS: Terms = Terms::new(1000, 1_000_000_000, 1000);

/// Asks for one release and commits it, a million times, 1 ms apart.
#[divan::bench(args = Algorithm::ALL)]
fn decision(bencher: Bencher<'_, '_>, algorithm: Algorithm) {
    const ROUNDS: u64 = 1_000_000;
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        let mut limit = Limit::of(algorithm, TERMS, None);
        for round in 0..ROUNDS {
            let now = Time(round * 1_000_000);
            let ask = Ask { eligible_at: now, cost: 1 };
            if black_box(limit.opening(b"", ask, now)).allows(now) {
                limit.commit(0, now, ask, 1);
            }
        }
    });
}

/// Asks how many may go and commits them as one, as for a burst of a thousand.
#[divan::bench]
fn decision_in_bulk(bencher: Bencher<'_, '_>) {
    const ROUNDS: u64 = 10_000;
    bencher.counter(ItemsCount::new(ROUNDS * TERMS.count)).bench_local(|| {
        let mut limit = Limit::of(Algorithm::Sliding, TERMS, None);
        for round in 0..ROUNDS {
            let now = Time(round * TERMS.period);
            let ask = Ask { eligible_at: now, cost: 1 };
            let account = limit.account(b"", now);
            let cost = black_box(limit.available(account, now, ask, 0, u64::MAX));
            limit.commit(account, now, ask, cost);
        }
    });
}

/// Runs the whole program except the system calls, on `items` items with a thousand keys.
fn schedule(bencher: Bencher<'_, '_>, args: &[&str], items: usize) {
    let args = ["throttle"].iter().chain(args).map(Into::into);
    let config = cli::parse(args).expect("a command line");
    let input: Vec<u8> =
        (0..items).flat_map(|item| format!("key{:03} {item}\n", item % 1000).into_bytes()).collect();
    bencher.counter(ItemsCount::new(items)).bench_local(|| {
        let rates = config.limits.given().expect("limits");
        let reader = Reader::new(&input[..], Delimiter::new(b"\n"), 1 << 20);
        let mut world = Sim::new(SimClock::default(), reader);
        let mut schedule = Schedule::new(&config, rates, world.now(), world.wall());
        Driver::new(&mut world, &mut PermitSink::default(), &Reporter::default()).run(&mut schedule)
    });
}

/// No limit binds: everything passes in blocks.
#[divan::bench]
fn schedule_unlimited(bencher: Bencher<'_, '_>) {
    schedule(bencher, &["-r", "1T/s"], 1_000_000);
}

/// A thousand items at a time.
#[divan::bench]
fn schedule_in_bursts(bencher: Bencher<'_, '_>) {
    schedule(bencher, &["-n", "1000", "-p", "1ms"], 1_000_000);
}

/// One item at a time.
#[divan::bench]
fn schedule_one_by_one(bencher: Bencher<'_, '_>) {
    schedule(bencher, &["-A", "interval", "-r", "1M/s"], 100_000);
}

/// A thousand lanes, each with its own limit, under one shared limit.
#[divan::bench]
fn schedule_keyed(bencher: Bencher<'_, '_>) {
    schedule(bencher, &["-r", "10/s,key=col:1", "-r", "100k/s"], 100_000);
}

/// More than can be booked.
const NO_LIMIT: &str = "60000/ms";

fn policy(rate: &str) -> Policy {
    let rate = rate.parse::<Rate>();
    Policy::new(&[rate.expect("a rate")], Reserve::LOCAL)
}

/// A clock that starts further from its origin than any limit looks back.
fn clock() -> impl Fn() -> Time + Send + 'static {
    let start = Instant::now();
    move || Time(1000 * SECOND + u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Opens the state at `path` for one more user.
fn open(path: &Path, policy: Policy) -> VaultStore {
    let vault = FileVault::new(path, Box::new(clock())).expect("a clock");
    VaultStore::over(vault, policy).expect("a state")
}

fn order(count: u64) -> Order {
    Order::new(Key::new(), [1], count)
}

/// Bookings of one slot each, by several users of one file at once.
#[divan::bench(args = [1, 2, 4, 8], sample_count = 10, sample_size = 1)]
fn booking_in_a_file(bencher: Bencher<'_, '_>, users: usize) {
    const ROUNDS: usize = 10_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state");
    let stores = || (0..users).map(|_| open(&path, policy(NO_LIMIT))).collect::<Vec<_>>();
    bencher.counter(ItemsCount::new(ROUNDS * users)).with_inputs(stores).bench_local_values(|stores| {
        thread::scope(|scope| {
            for mut store in stores {
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        black_box(store.book(&order(1)).expect("booked"));
                    }
                });
            }
        });
    });
}

/// Slots booked a thousand at a time.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn booking_in_a_file_in_bulk(bencher: Bencher<'_, '_>) {
    const ROUNDS: usize = 100;
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(&directory.path().join("state"), policy(NO_LIMIT));
    bencher.counter(ItemsCount::new(ROUNDS * 1000)).bench_local(|| {
        for _ in 0..ROUNDS {
            black_box(store.book(&order(1000)).expect("booked"));
        }
    });
}

/// A server that ends with the benchmark.
struct Server(Child);

impl Server {
    /// Starts a server on this socket, or returns `None` if the program is not installed.
    fn start(socket: &Path) -> Option<Self> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(socket);
        let server = Server(command.stdout(Stdio::null()).spawn().ok()?);
        let is_up = || std::os::unix::net::UnixStream::connect(socket).is_ok();
        (0..500)
            .any(|_| {
                is_up() || {
                    thread::sleep(Duration::from_millis(10));
                    false
                }
            })
            .then_some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bookings of `count` slots each, over one connection to a local server.
fn book_on_a_server(bencher: Bencher<'_, '_>, rate: &str, count: u64) {
    const ROUNDS: u64 = 1000;
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let Some(_server) = Server::start(&socket) else { return println!("skipped: redis-server is missing") };
    let url = format!("unix://{}?name=bench", socket.display());
    let timeout = Duration::from_secs(30);
    // With slots that are good for this long, answers are in time on a busy machine too.
    let policy = Policy { validity: 60 * SECOND, ..policy(rate) };
    let vault = ServerVault::new(url.parse().expect("a server"), timeout, Box::new(clock()));
    let mut store = VaultStore::over(vault, policy).expect("a state");
    bencher.counter(ItemsCount::new(ROUNDS * count)).bench_local(|| {
        for _ in 0..ROUNDS {
            let answer = store.book(&order(count)).expect("booked");
            assert_eq!(black_box(answer).slots.len() as u64, count);
        }
    });
}

#[divan::bench(args = [1, 10, 100, 1000], sample_count = 10, sample_size = 1)]
fn booking_on_a_server(bencher: Bencher<'_, '_>, count: u64) {
    book_on_a_server(bencher, NO_LIMIT, count);
}

#[divan::bench(args = [1, 10, 100, 1000], sample_count = 10, sample_size = 1)]
fn booking_of_a_bucket_on_a_server(bencher: Bencher<'_, '_>, count: u64) {
    book_on_a_server(bencher, "60000/ms,algo=bucket", count);
}

/// Prints what the unluckiest and the luckiest of eight users get, in percent of their fair share.
fn fairness() {
    const USERS: usize = 8;
    const ROUNDS: usize = 40_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state");
    let (barrier, left) = (Barrier::new(USERS), AtomicUsize::new(ROUNDS));
    let mut shares: Vec<_> = thread::scope(|scope| {
        let run = || {
            let mut store = open(&path, policy(NO_LIMIT));
            let mut share = 0;
            barrier.wait();
            while left.fetch_sub(1, Relaxed) > USERS {
                black_box(store.book(&order(1)).expect("booked"));
                share += 1;
            }
            share * USERS * 100 / ROUNDS
        };
        let users: Vec<_> = (0..USERS).map(|_| scope.spawn(run)).collect();
        users.into_iter().map(|user| user.join().expect("a share")).collect()
    });
    shares.sort_unstable();
    println!("fairness of {USERS} on one file: {} to {} %", shares[0], shares[USERS - 1]);
}
