//! `leaky-bucket`: a token bucket for tasks of tokio, whose clock it always reads.

use std::hint::black_box;
use std::time::Duration;

use leaky_bucket::RateLimiter;
use tokio::runtime::Builder;

use crate::{Column, MILLI, by_threads, repeat};

pub(crate) const COLUMN: Column = Column {
    name: "leaky-bucket",
    admitted: None,
    ended: None,
    refused: None,
    clocked: || {
        let limiter = plenty();
        repeat(|| assert!(black_box(limiter.try_acquire(1))))
    },
    threads: || {
        let limiter = plenty();
        by_threads(|| assert!(black_box(limiter.try_acquire(1))))
    },
    keys: None,
    through,
};

fn plenty() -> RateLimiter {
    RateLimiter::builder().max(1_000_000_000).initial(1_000_000_000).build()
}

fn through(asked: &[Duration]) -> Vec<Duration> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let limiter = RateLimiter::builder().max(10).initial(10).interval(10 * MILLI).refill(1).build();
        let (mut through, mut last) = (Vec::new(), Duration::ZERO);
        for at in asked {
            tokio::time::advance(at.saturating_sub(last)).await;
            last = *at;
            through.extend(Some(*at).filter(|_| limiter.try_acquire(1)));
        }
        through
    })
}
