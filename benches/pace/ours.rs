//! The library.

use std::hint::black_box;
use std::time::{Duration, Instant};

use throttle::pace::{Pace, Pacer};

use crate::{Column, MILLI, by_key, by_threads, repeat};

pub(crate) const COLUMN: Column = Column {
    name: "throttle",
    admitted: Some(|| admitted("sliding")),
    ended: Some(|| ended("sliding")),
    refused: Some(|| refused("sliding")),
    clocked: || {
        let pacer = Pacer::new("1000/10us").expect("a limit");
        repeat(|| pacer.check(("", 1)).expect("it is plenty"))
    },
    threads: || {
        let (pace, now) = (Pace::new("1000000000/s", Instant::now()).expect("a limit"), Instant::now());
        by_threads(|| pace.check(("", 1), now).expect("it is plenty"))
    },
    keys: Some(|| {
        let start = Instant::now();
        let pace = Pace::new("10/s,key=col:1", start).expect("a limit");
        by_key(|now, key| _ = black_box(pace.check((key, 1), start + now)))
    }),
    through,
};

fn stepped(algorithm: &str, mut ask: impl FnMut(&Pace, Instant)) -> f64 {
    let mut now = Instant::now();
    let pace = Pace::new(&format!("1000/s,algo={algorithm}"), now).expect("a limit");
    repeat(|| {
        now += MILLI;
        ask(&pace, now);
    })
}

pub(crate) fn admitted(algorithm: &str) -> f64 {
    stepped(algorithm, |pace, now| pace.check(("", 1), now).expect("it is time"))
}

pub(crate) fn ended(algorithm: &str) -> f64 {
    stepped(algorithm, |pace, now| pace.admit(("", 1), now).expect("it is time").commit(now))
}

pub(crate) fn refused(algorithm: &str) -> f64 {
    let now = Instant::now();
    let pace = Pace::new(&format!("1/h,algo={algorithm}"), now).expect("a limit");
    pace.check(("", 1), now).expect("it is the first");
    repeat(|| _ = black_box(pace.check(("", 1), now)).expect_err("it is too early"))
}

fn through(asked: &[Duration]) -> Vec<Duration> {
    let start = Instant::now();
    let pace = Pace::new("10/100ms", start).expect("a limit");
    asked.iter().copied().filter(|at| pace.check(("", 1), start + *at).is_ok()).collect()
}
