//! The least that a sliding window takes: a mutex, and the instants of the last releases.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::{Column, MILLI, by_key, by_threads, repeat};

pub(crate) const COLUMN: Column = Column {
    name: "bare loop",
    admitted: Some(|| {
        let (window, start) = (Mutex::new(Window::default()), Instant::now());
        let mut now = start;
        repeat(|| {
            now += MILLI;
            assert!(black_box(&window).lock().expect("no panic").admit(now - start, 1000, SECOND));
        })
    }),
    ended: Some(|| {
        let (window, start) = (Mutex::new(Window::default()), Instant::now());
        let mut now = start;
        repeat(|| {
            now += MILLI;
            assert!(black_box(&window).lock().expect("no panic").begin(now - start, 1000, SECOND));
            black_box(&window).lock().expect("no panic").end(now - start);
        })
    }),
    refused: Some(|| {
        let window = Mutex::new(Window::default());
        let ask = || black_box(&window).lock().expect("no panic").admit(MILLI, 1, SECOND);
        assert!(ask());
        repeat(|| assert!(!ask()))
    }),
    clocked: || {
        let (window, start) = (Mutex::new(Window::default()), Instant::now());
        repeat(|| _ = black_box(&window).lock().expect("no panic").admit(start.elapsed(), 1000, MILLI / 100))
    },
    threads: || {
        let window = Mutex::new(Window::default());
        by_threads(|| _ = black_box(&window).lock().expect("no panic").admit(MILLI, 1_000_000_000, SECOND))
    },
    keys: Some(|| {
        let windows = Mutex::new(HashMap::<[u8; 4], Window>::new());
        by_key(|now, key| {
            let mut windows = black_box(&windows).lock().expect("no panic");
            _ = black_box(windows.entry(key).or_default().admit(now, 10, SECOND));
        })
    }),
    through: |asked| {
        let mut window = Window::default();
        asked.iter().copied().filter(|at| window.admit(*at, 10, 100 * MILLI)).collect()
    },
};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Window {
    ended: VecDeque<Duration>,
    running: usize,
}

impl Window {
    fn begin(&mut self, now: Duration, count: usize, period: Duration) -> bool {
        while self.ended.front().is_some_and(|at| now.saturating_sub(*at) >= period) {
            self.ended.pop_front();
        }
        let is_admitted = self.ended.len() + self.running < count;
        self.running += usize::from(is_admitted);
        is_admitted
    }

    fn end(&mut self, now: Duration) {
        self.running -= 1;
        self.ended.push_back(now);
    }

    fn admit(&mut self, now: Duration, count: usize, period: Duration) -> bool {
        let is_admitted = self.begin(now, count, period);
        if is_admitted {
            self.end(now);
        }
        is_admitted
    }
}
