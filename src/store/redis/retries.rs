//! Retries a server that did not answer.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use redis::RedisResult;

use super::failure::{TOO_LATE, meaning};
use super::socket::Timeouts;
use crate::config::Server;
use crate::exit::Exit;
use crate::store::{BEFORE_WARNING, StoreError};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The wait for one answer: a quarter of the whole time, within these bounds.
const SHORTEST_TRY: Duration = Duration::from_millis(250);
const LONGEST_TRY: Duration = Duration::from_secs(2);

const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Attempts something again and again as long as there is hope, up to `timeout`, and at least once. Errors name the
/// server. Calls `warn` with the reason if it takes long.
///
/// While the process is stopped, nothing is attempted. If that was for longer than there was time, the last attempt was
/// cut off whatever the server did, so there is one more, once.
pub(super) fn persist<T>(
    server: &Server,
    timeout: Duration,
    warn: impl Fn(String),
    mut attempt: impl FnMut(Timeouts) -> RedisResult<T>,
) -> Result<T, StoreError> {
    let start = Instant::now();
    let each = (timeout / 4).clamp(SHORTEST_TRY, LONGEST_TRY);
    // Some centuries are as good as for ever.
    let mut end = start + timeout.min(Duration::from_secs(1 << 33));
    let (mut pause, mut warn_at) = (FIRST_PAUSE, start + Duration::from_secs(BEFORE_WARNING));
    let (mut told, mut is_extended) = (String::new(), false);
    loop {
        let error = match attempt(Timeouts { each, end: end.max(start + each) }) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let (exit, why) = meaning(&error);
        if exit != Exit::StoreAway {
            return Err(StoreError { exit, error: anyhow!("{server}: {why}") });
        }
        let now = Instant::now();
        // The last attempt may have had less time than an answer takes.
        if told.is_empty() || now < end || !why.contains(TOO_LATE) {
            told = why;
        }
        if now >= warn_at {
            warn_at = now + BETWEEN_WARNINGS;
            warn(format!("{server}: {told}; waiting for up to {timeout:?}"));
        }
        // Processes that lost the server at the same time must not come back at the same time.
        let this_pause = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        pause = (pause * 2).min(LONGEST_PAUSE);
        let left = end.saturating_duration_since(now);
        thread::sleep(this_pause.min(left));
        if !is_extended && now >= end + each {
            (is_extended, end) = (true, Instant::now() + each);
        } else if this_pause >= left {
            let error = anyhow!("{server}: {told}; gave up after {timeout:?}");
            return Err(StoreError { exit, error });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::away;
    use super::*;

    /// Attempts for a millisecond; the first attempt takes much longer, as if the process were stopped meanwhile.
    fn persist_with_a_stop(then: fn() -> RedisResult<()>) -> Result<(), Exit> {
        let server: Server = "redis://127.0.0.1:1/web".parse().unwrap();
        let mut is_first = true;
        let attempt = |_: Timeouts| {
            if !std::mem::take(&mut is_first) {
                return then();
            }
            thread::sleep(SHORTEST_TRY + Duration::from_millis(1));
            Err(away(TOO_LATE))
        };
        persist(&server, Duration::from_millis(1), drop, attempt).map_err(|error| error.exit)
    }

    #[test]
    fn a_server_that_answers_is_not_given_up_because_the_process_was_stopped() {
        assert_eq!(persist_with_a_stop(|| Ok(())), Ok(()));
    }

    #[test]
    fn a_server_is_asked_once_if_there_is_no_time_to_ask_again() {
        let server: Server = "redis://127.0.0.1:1/web".parse().unwrap();
        let mut times = 0;
        let attempt = |patience: Timeouts| -> RedisResult<()> {
            times += 1;
            assert!(patience.until() > Instant::now(), "no time for an answer");
            Err(away("elsewhere"))
        };
        let error = persist(&server, Duration::ZERO, drop, attempt).unwrap_err();
        assert_eq!((error.exit, times), (Exit::StoreAway, 1));
    }

    #[test]
    fn a_server_that_is_away_is_given_up_also_by_a_process_that_was_stopped() {
        let stops_again = || {
            thread::sleep(SHORTEST_TRY * 2);
            Err(away(TOO_LATE))
        };
        assert_eq!(persist_with_a_stop(stops_again), Err(Exit::StoreAway));
    }
}
