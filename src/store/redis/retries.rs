//! When a server is asked again that did not answer.

use std::thread;
use std::time::{Duration, Instant};

use super::connection::Patience;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So long is one answer waited for, a quarter of all the time within these bounds.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
const MOST_PATIENCE: Duration = Duration::from_secs(5);

/// Pauses that get longer, up to a timeout that begins with the first attempt.
pub(super) struct Retries {
    each: Duration,
    end: Instant,
    pause: Duration,
}

impl Retries {
    pub(super) fn new(timeout: Duration) -> Self {
        let each = (timeout / 4).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        // Some centuries are as good as for ever.
        let end = Instant::now() + timeout.min(Duration::from_secs(1 << 33));
        Retries { each, end, pause: FIRST_PAUSE }
    }

    pub(super) fn patience(&self) -> Patience {
        Patience { each: self.each, end: self.end }
    }

    /// Waits before the next attempt. Returns whether there is one.
    pub(super) fn wait(&mut self) -> bool {
        // Those who lost the server at the same time do not come back at the same time.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let left = self.end.saturating_duration_since(Instant::now());
        thread::sleep(pause.min(left));
        pause < left
    }
}
