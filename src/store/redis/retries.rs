//! When a server is asked again that did not answer.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::failure::{Failure, TOO_LATE};
use super::socket::Patience;
use crate::config::Server;
use crate::exit::Exit;
use crate::store::{BEFORE_TELLING, StoreError};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So long is one answer waited for, a quarter of all the time within these bounds.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
const MOST_PATIENCE: Duration = Duration::from_secs(2);

const BETWEEN_TELLING: Duration = Duration::from_secs(60);

/// Attempts something over and over as long as there is hope, up to `timeout`. Errors name the server. `tell` is told why it
/// takes long.
pub(super) fn persist<T>(
    server: &Server,
    timeout: Duration,
    tell: impl Fn(String),
    mut attempt: impl FnMut(Patience) -> Result<T, Failure>,
) -> Result<T, StoreError> {
    let mut retries = Retries::new(timeout);
    let mut told = String::new();
    loop {
        let why = match attempt(retries.patience()) {
            Ok(done) => return Ok(done),
            Err(Failure::Final(StoreError { exit, error })) => {
                return Err(StoreError { exit, error: anyhow!("{server}: {error:#}") });
            }
            Err(Failure::Away(why)) => why,
            Err(Failure::Redirect(_)) => "the keys of its cluster are being moved".to_owned(),
        };
        // The last attempt may have had less time than an answer takes.
        if told.is_empty() || !retries.is_over() || !why.contains(TOO_LATE) {
            told = why;
        }
        if retries.is_to_be_told() {
            tell(format!("{server}: {told}; waiting for it, for up to {timeout:?}"));
        }
        if !retries.wait() {
            let error = anyhow!("{server}: {told}; given up after {timeout:?}");
            return Err(StoreError { exit: Exit::StoreAway, error });
        }
    }
}

/// Pauses that get longer, up to a timeout that begins with the first attempt.
struct Retries {
    each: Duration,
    end: Instant,
    pause: Duration,
    tell_at: Instant,
}

impl Retries {
    fn new(timeout: Duration) -> Self {
        let each = (timeout / 4).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        // Some centuries are as good as for ever.
        let now = Instant::now();
        let end = now + timeout.min(Duration::from_secs(1 << 33));
        Retries { each, end, pause: FIRST_PAUSE, tell_at: now + Duration::from_secs(BEFORE_TELLING) }
    }

    fn patience(&self) -> Patience {
        Patience { each: self.each, end: self.end }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn is_to_be_told(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.tell_at;
        if is_due {
            self.tell_at = now + BETWEEN_TELLING;
        }
        is_due
    }

    /// Waits before the next attempt. Returns whether there is one.
    fn wait(&mut self) -> bool {
        // Those who lost the server at the same time do not come back at the same time.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let left = self.end.saturating_duration_since(Instant::now());
        thread::sleep(pause.min(left));
        pause < left
    }
}
