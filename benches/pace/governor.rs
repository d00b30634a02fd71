//! `governor`: GCRA, lock-free, one limiter or one by key.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};

use crate::{Column, MILLI, by_key, by_threads, repeat};

pub(crate) const COLUMN: Column = Column {
    name: "governor",
    admitted: Some(|| {
        let clock = FakeRelativeClock::default();
        let limiter = RateLimiter::direct_with_clock(per_second(1000), clock.clone());
        repeat(|| {
            clock.advance(MILLI);
            black_box(limiter.check()).expect("it is time");
        })
    }),
    ended: None,
    refused: Some(|| {
        let quota = Quota::with_period(Duration::from_secs(3600)).expect("not 0");
        let limiter = RateLimiter::direct_with_clock(quota, FakeRelativeClock::default());
        limiter.check().expect("it is the first");
        repeat(|| _ = black_box(limiter.check()).expect_err("it is too early"))
    }),
    clocked: || {
        let limiter = RateLimiter::direct(per_second(1_000_000_000));
        repeat(|| black_box(limiter.check()).expect("it is plenty"))
    },
    threads: || {
        let limiter = RateLimiter::direct_with_clock(per_second(1_000_000_000), FakeRelativeClock::default());
        by_threads(|| black_box(limiter.check()).expect("it is plenty"))
    },
    keys: Some(|| {
        let (clock, mut last) = (FakeRelativeClock::default(), Duration::ZERO);
        let limiter = RateLimiter::hashmap_with_clock(per_second(10), clock.clone());
        by_key(|now, key| {
            clock.advance(now.saturating_sub(last));
            last = now;
            _ = black_box(limiter.check_key(&key));
        })
    }),
    through,
};

fn per_second(count: u32) -> Quota {
    Quota::per_second(NonZeroU32::new(count).expect("not 0"))
}

fn through(asked: &[Duration]) -> Vec<Duration> {
    let (clock, mut last) = (FakeRelativeClock::default(), Duration::ZERO);
    let quota = Quota::with_period(10 * MILLI).expect("not 0");
    let quota = quota.allow_burst(NonZeroU32::new(10).expect("not 0"));
    let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
    let mut ask = |at: &Duration| {
        clock.advance(at.saturating_sub(last));
        last = *at;
        limiter.check().is_ok()
    };
    asked.iter().copied().filter(|at| ask(at)).collect()
}
