//! What a decision costs: alone, in bulk, among many lanes, and in the whole simulated pump.
//!
//! `cargo bench`; for the whole program against its peers, see `compare.py`.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use throttle::cli;
use throttle::limiter::{Ask, Bucket, Fixed, Interval, Limiter, Sliding, Terms};
use throttle::pump::Pump;
use throttle::report::Reporter;
use throttle::sink::{Load, SendError, Sent, Sink};
use throttle::source::{Delimiter, Reader};
use throttle::time::Time;
use throttle::world::sim::{Clock, Sim};

fn main() {
    divan::main();
}

const TERMS: Terms = Terms { count: 1000, period: 1_000_000_000, burst: 1000 };

fn limiters() -> [(&'static str, Box<dyn Limiter>); 4] {
    [
        ("sliding", Box::new(Sliding::new(TERMS))),
        ("bucket", Box::new(Bucket::new(TERMS))),
        ("interval", Box::new(Interval::new(TERMS))),
        ("fixed", Box::new(Fixed::new(TERMS))),
    ]
}

/// Asks for one release and commits it, a million times, a millisecond apart.
#[divan::bench(args = ["sliding", "bucket", "interval", "fixed"])]
fn decision(bencher: Bencher<'_, '_>, name: &str) {
    const ROUNDS: u64 = 1_000_000;
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        let (_, mut limiter) = limiters().into_iter().find(|(known, _)| *known == name).expect("known");
        for round in 0..ROUNDS {
            let now = Time(round * 1_000_000);
            let ask = Ask { since: now, cost: 1, key: b"" };
            if black_box(limiter.earliest(&ask)).allows(now) {
                limiter.commit(now, &ask);
            }
        }
    });
}

/// Asks how many may go, and commits them as one, as a burst of a thousand is.
#[divan::bench]
fn decision_in_bulk(bencher: Bencher<'_, '_>) {
    const ROUNDS: u64 = 10_000;
    bencher.counter(ItemsCount::new(ROUNDS * TERMS.count)).bench_local(|| {
        let mut limiter = Sliding::new(TERMS);
        for round in 0..ROUNDS {
            let now = Time(round * TERMS.period);
            let ask = Ask { since: now, cost: 1, key: b"" };
            let cost = black_box(limiter.room(now, &ask));
            limiter.commit(now, &Ask { cost, ..ask });
        }
    });
}

/// Takes all, and keeps nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn send(&mut self, _: Time, load: &Load<'_>) -> Result<Sent, SendError> {
        black_box(load.bytes);
        Ok(Sent::Released)
    }
}

/// The whole program but for the system, on `items` items of a thousand keys.
fn pump(bencher: Bencher<'_, '_>, args: &[&str], items: usize) {
    let args = ["throttle"].iter().chain(args).map(Into::into);
    let spec = cli::parse(args).expect("a command line");
    let input: Vec<u8> =
        (0..items).flat_map(|item| format!("key{:03} {item}\n", item % 1000).into_bytes()).collect();
    bencher.counter(ItemsCount::new(items)).bench_local(|| {
        let rates = spec.limits.load().expect("limits");
        let reader = Reader::new(&input[..], Delimiter::new(b"\n"), 1 << 20);
        let mut world = Sim::new(Clock::default(), reader);
        let (mut sink, reporter) = (Nowhere, Reporter::silent());
        Pump::new(&mut world, &mut sink, &reporter, &spec, rates).run()
    });
}

/// No limit binds: all goes in blocks.
#[divan::bench]
fn pump_unlimited(bencher: Bencher<'_, '_>) {
    pump(bencher, &["-r", "1T/s"], 1_000_000);
}

/// A thousand at a time.
#[divan::bench]
fn pump_in_bursts(bencher: Bencher<'_, '_>) {
    pump(bencher, &["-n", "1000", "-p", "1ms"], 1_000_000);
}

/// One at a time.
#[divan::bench]
fn pump_one_by_one(bencher: Bencher<'_, '_>) {
    pump(bencher, &["-A", "interval", "-r", "1M/s"], 100_000);
}

/// A thousand lanes, each with a limit of its own, under one that they share.
#[divan::bench]
fn pump_keyed(bencher: Bencher<'_, '_>) {
    pump(bencher, &["-r", "10/s,key=col:1", "-r", "100k/s"], 100_000);
}
