//! The cost of a decision of the library, beside governor's, and what each lets through in a window.

use std::fs;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};
use throttle::pace::Pace;

const ROUNDS: u32 = 1_000_000;
const KEYS: u32 = 100_000;
const THREADS: u32 = 8;
const MILLI: Duration = Duration::from_millis(1);

fn main() {
    let (ours, theirs) = (keyed(), keyed_by_governor());
    row("100,000 keys, ns each", ours.0, theirs.0);
    row("100,000 keys, bytes a key", ours.1, theirs.1);
    for algorithm in ["sliding", "bucket", "interval", "fixed"] {
        row(&format!("admitted, {algorithm}, ns"), best(|| admitted(algorithm)), best(admitted_by_governor));
        row(&format!("refused, {algorithm}, ns"), best(|| refused(algorithm)), best(refused_by_governor));
    }
    row("8 threads on one limit, wall ns each", best(threads), best(threads_by_governor));
    println!("{:40} {:>10} {:>10}", "10/100ms, most in a window", most(&through()), most(&by_governor()));
}

fn row(what: &str, ours: f64, theirs: f64) {
    println!("{what:40} {ours:>10.1} {theirs:>10.1}");
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..5).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// The nanoseconds of one of `rounds`.
fn each(rounds: u32, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
}

fn admitted(algorithm: &str) -> f64 {
    let mut now = Instant::now();
    let pace = Pace::new(&format!("1000/s,algo={algorithm}"), now).expect("a limit");
    each(ROUNDS, || {
        for _ in 0..ROUNDS {
            now += MILLI;
            pace.admit(("", 1), now).expect("it is time").commit(now);
        }
    })
}

fn refused(algorithm: &str) -> f64 {
    let now = Instant::now();
    let pace = Pace::new(&format!("1/h,algo={algorithm}"), now).expect("a limit");
    pace.admit(("", 1), now).expect("it is the first").commit(now);
    each(ROUNDS, || {
        for _ in 0..ROUNDS {
            black_box(pace.admit(("", 1), now)).expect_err("it is too early");
        }
    })
}

fn threads() -> f64 {
    let now = Instant::now();
    let pace = Pace::new("1000000000/s", now).expect("a limit");
    each(ROUNDS, || {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS / THREADS {
                        pace.admit(("", 1), now).expect("it is time").commit(now);
                    }
                });
            }
        });
    })
}

/// The resident bytes.
fn resident() -> f64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(f64::NAN) * 4096.0
}

fn keyed() -> (f64, f64) {
    let (before, mut now) = (resident(), Instant::now());
    let pace = Pace::new("10/s,key=col:1", now).expect("a limit");
    let mut random = fastrand::Rng::with_seed(1);
    for key in 0..KEYS {
        pace.admit((key.to_le_bytes(), 1), now).expect("it is time").commit(now);
    }
    let bytes = (resident() - before) / f64::from(KEYS);
    let ns = each(ROUNDS, || {
        for _ in 0..ROUNDS {
            now += Duration::from_micros(5);
            let key = random.u32(..KEYS).to_le_bytes();
            if let Ok(admission) = pace.admit((key, 1), now) {
                admission.commit(now);
            }
        }
    });
    (ns, bytes)
}

fn per_second(count: u32) -> Quota {
    Quota::per_second(NonZeroU32::new(count).expect("not 0"))
}

fn admitted_by_governor() -> f64 {
    let clock = FakeRelativeClock::default();
    let limiter = RateLimiter::direct_with_clock(per_second(1000), clock.clone());
    each(ROUNDS, || {
        for _ in 0..ROUNDS {
            clock.advance(MILLI);
            black_box(limiter.check()).expect("it is time");
        }
    })
}

fn refused_by_governor() -> f64 {
    let quota = Quota::with_period(Duration::from_secs(3600)).expect("not 0");
    let limiter = RateLimiter::direct_with_clock(quota, FakeRelativeClock::default());
    limiter.check().expect("it is the first");
    each(ROUNDS, || {
        for _ in 0..ROUNDS {
            black_box(limiter.check()).expect_err("it is too early");
        }
    })
}

fn threads_by_governor() -> f64 {
    let limiter = RateLimiter::direct_with_clock(per_second(1_000_000_000), FakeRelativeClock::default());
    each(ROUNDS, || {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS / THREADS {
                        black_box(limiter.check()).expect("it is time");
                    }
                });
            }
        });
    })
}

fn keyed_by_governor() -> (f64, f64) {
    let before = resident();
    let clock = FakeRelativeClock::default();
    let limiter = RateLimiter::hashmap_with_clock(per_second(10), clock.clone());
    let mut random = fastrand::Rng::with_seed(1);
    for key in 0..KEYS {
        limiter.check_key(&key).expect("it is time");
    }
    let bytes = (resident() - before) / f64::from(KEYS);
    let ns = each(ROUNDS, || {
        for _ in 0..ROUNDS {
            clock.advance(Duration::from_micros(5));
            _ = black_box(limiter.check_key(&random.u32(..KEYS)));
        }
    });
    (ns, bytes)
}

/// The milliseconds at which 10 per 100 ms, asked all the time, let something through.
fn through() -> Vec<u32> {
    let start = Instant::now();
    let pace = Pace::new("10/100ms", start).expect("a limit");
    let admits = |at: &u32| {
        let now = start + *at * MILLI;
        pace.admit(("", 1), now).map(|admission| admission.commit(now)).is_ok()
    };
    (0..1000).flat_map(|at| [at; 20]).filter(admits).collect()
}

fn by_governor() -> Vec<u32> {
    let clock = FakeRelativeClock::default();
    let quota =
        Quota::with_period(10 * MILLI).expect("not 0").allow_burst(NonZeroU32::new(10).expect("not 0"));
    let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
    let mut through = Vec::new();
    for at in 0..1000 {
        through.extend((0..20).filter(|_| limiter.check().is_ok()).map(|_| at));
        clock.advance(MILLI);
    }
    through
}

fn most(through: &[u32]) -> usize {
    let from = |first: usize| through[first..].iter().take_while(|at| **at < through[first] + 100).count();
    (0..through.len()).map(from).max().unwrap_or(0)
}
