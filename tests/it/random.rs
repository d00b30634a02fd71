//! Random cases. The library's unit tests include this file too, so it uses nothing of either.

use std::env;
use std::ops::Range;
use std::thread;

use fastrand::Rng;

/// The seeds of `count` random cases; `THROTTLE_SEED` is the first one, `THROTTLE_CASES` their number.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let first = number("THROTTLE_SEED").unwrap_or(1);
    first..first + number("THROTTLE_CASES").unwrap_or(count)
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not '{text}'")))
}

/// Calls `check` with random numbers, over and over.
pub(crate) fn for_each_seed(count: u64, mut check: impl FnMut(&mut Rng)) {
    for seed in seeds(count) {
        let _told = Told { seed, case: String::new };
        check(&mut Rng::with_seed(seed));
    }
}

/// Says how to repeat a case if it fails, and prints the case.
pub(crate) struct Told<F: Fn() -> String> {
    pub(crate) seed: u64,
    pub(crate) case: F,
}

impl<F: Fn() -> String> Drop for Told<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("again with THROTTLE_SEED={} THROTTLE_CASES=1\n{}", self.seed, (self.case)());
        }
    }
}
