//! `ratelimit`: a token bucket, lock-free.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit::{Clock, Ratelimiter};

use crate::{Column, MILLI, by_threads, repeat};

pub(crate) const COLUMN: Column = Column {
    name: "ratelimit",
    admitted: Some(|| {
        let clock = Given::default();
        let limiter = Ratelimiter::with_clock(1000, clock.clone());
        repeat(|| {
            clock.advance(MILLI);
            black_box(limiter.try_wait()).expect("it is time");
        })
    }),
    ended: None,
    refused: Some(|| {
        let limiter = Ratelimiter::with_clock(1, Given::default());
        repeat(|| _ = black_box(limiter.try_wait()).expect_err("it is too early"))
    }),
    clocked: || {
        let limiter =
            Ratelimiter::builder(1_000_000_000).initial_available(1_000_000_000).build().expect("a limit");
        repeat(|| black_box(limiter.try_wait()).expect("it is plenty"))
    },
    threads: || {
        let clock = Given::default();
        let limiter = Ratelimiter::with_clock(1_000_000_000, clock.clone());
        clock.advance(Duration::from_secs(1));
        by_threads(|| black_box(limiter.try_wait()).expect("it is plenty"))
    },
    keys: None,
    through,
};

/// The time that it is given.
#[derive(Clone, Default)]
struct Given(Arc<AtomicU64>);

impl Given {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos().try_into().expect("less than centuries"), Ordering::Relaxed);
    }
}

impl Clock for Given {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

fn through(asked: &[Duration]) -> Vec<Duration> {
    let (clock, mut last) = (Given::default(), Duration::ZERO);
    // 10 per 100 ms, with no more than 10 at once.
    let limiter = Ratelimiter::with_clock(100, clock.clone());
    limiter.set_max_tokens(10);
    let mut ask = |at: &Duration| {
        clock.advance(at.saturating_sub(last));
        last = *at;
        limiter.try_wait().is_ok()
    };
    asked.iter().copied().filter(|at| ask(at)).collect()
}
