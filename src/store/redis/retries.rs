//! Asks a server again that did not answer.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::failure::{ServerFailure, TOO_LATE};
use super::socket::Timeouts;
use crate::config::Server;
use crate::exit::Exit;
use crate::store::{BEFORE_TELLING, StoreError};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The wait for one answer: a quarter of all the time, within these bounds.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
const MOST_PATIENCE: Duration = Duration::from_secs(2);

const BETWEEN_TELLING: Duration = Duration::from_secs(60);

/// Attempts something over and over as long as there is hope, up to `timeout`. Errors name the server. Calls `tell`
/// with the reason that it takes long.
pub(super) fn persist<T>(
    server: &Server,
    timeout: Duration,
    tell: impl Fn(String),
    mut attempt: impl FnMut(Timeouts) -> Result<T, ServerFailure>,
) -> Result<T, StoreError> {
    let start = Instant::now();
    let patience = Timeouts {
        each: (timeout / 4).clamp(LEAST_PATIENCE, MOST_PATIENCE),
        // Some centuries are as good as for ever.
        end: start + timeout.min(Duration::from_secs(1 << 33)),
    };
    let (mut pause, mut tell_at) = (FIRST_PAUSE, start + Duration::from_secs(BEFORE_TELLING));
    let mut told = String::new();
    loop {
        let why = match attempt(patience) {
            Ok(done) => return Ok(done),
            Err(ServerFailure::Final(StoreError { exit, error })) => {
                return Err(StoreError { exit, error: anyhow!("{server}: {error:#}") });
            }
            Err(failure) => failure.given_up().error.to_string(),
        };
        let now = Instant::now();
        // The last attempt may have had less time than an answer takes.
        if told.is_empty() || now < patience.end || !why.contains(TOO_LATE) {
            told = why;
        }
        if now >= tell_at {
            tell_at = now + BETWEEN_TELLING;
            tell(format!("{server}: {told}; waiting for it, for up to {timeout:?}"));
        }
        // Those who lost the server at the same time do not come back at the same time.
        let this_pause = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        pause = (pause * 2).min(LONGEST_PAUSE);
        let left = patience.end.saturating_duration_since(now);
        thread::sleep(this_pause.min(left));
        if this_pause >= left {
            let error = anyhow!("{server}: {told}; given up after {timeout:?}");
            return Err(StoreError { exit: Exit::StoreAway, error });
        }
    }
}
