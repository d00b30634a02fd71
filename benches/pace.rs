//! The cost of a decision of the library, compared with governor's: one admitted, and one refused.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use governor::clock::{Clock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use throttle::pace::Pace;

const ROUNDS: u32 = 100_000;

fn main() {
    divan::main();
}

/// 1000/s, asked every millisecond.
#[divan::bench(args = ["sliding", "bucket", "interval", "fixed"])]
fn admitted(bencher: Bencher<'_, '_>, algorithm: &str) {
    let start = Instant::now();
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        let mut pace = Pace::new(&format!("1000/s,algo={algorithm}"), start).expect("a limit");
        for round in 0..ROUNDS {
            let now = start + Duration::from_millis(round.into());
            let item = pace.item(b"", now).expect("it costs 1");
            let admission = pace.admit(&item, now).expect("it is time");
            pace.commit(admission, now);
        }
    });
}

#[divan::bench(args = ["sliding", "bucket", "interval", "fixed"])]
fn refused(bencher: Bencher<'_, '_>, algorithm: &str) {
    let start = Instant::now();
    let mut pace = Pace::new(&format!("1/h,algo={algorithm}"), start).expect("a limit");
    let item = pace.item(b"", start).expect("it costs 1");
    let admission = pace.admit(&item, start).expect("it is the first");
    pace.commit(admission, start);
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        for _ in 0..ROUNDS {
            black_box(pace.admit(&item, start)).expect_err("it is too early");
        }
    });
}

type Governor = RateLimiter<
    NotKeyed,
    InMemoryState,
    FakeRelativeClock,
    NoOpMiddleware<<FakeRelativeClock as Clock>::Instant>,
>;

#[divan::bench]
fn admitted_by_governor(bencher: Bencher<'_, '_>) {
    let count = NonZeroU32::new(1000).expect("not 0");
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        let clock = FakeRelativeClock::default();
        let limiter: Governor = RateLimiter::direct_with_clock(Quota::per_second(count), clock.clone());
        for _ in 0..ROUNDS {
            clock.advance(Duration::from_millis(1));
            black_box(limiter.check()).expect("it is time");
        }
    });
}

#[divan::bench]
fn refused_by_governor(bencher: Bencher<'_, '_>) {
    let clock = FakeRelativeClock::default();
    let quota = Quota::with_period(Duration::from_secs(3600)).expect("not 0");
    let limiter: Governor = RateLimiter::direct_with_clock(quota, clock);
    limiter.check().expect("it is the first");
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        for _ in 0..ROUNDS {
            black_box(limiter.check()).expect_err("it is too early");
        }
    });
}
