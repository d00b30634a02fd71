//! Retries a server that did not answer.

use std::thread;
use std::time::{Duration, Instant};

use redis::RedisError;

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

/// The time for which a server that is of no use is waited for.
///
/// While the process is stopped, nothing is attempted. If that was for longer than there was time, the last attempt was
/// cut off whatever the server did, so there is one more, once.
pub(super) struct Patience {
    timeout: Duration,
    start: Instant,
    end: Instant,
    pause: Duration,
    warn_at: Instant,
    /// The last reason that was more than the lack of time for an answer.
    told: String,
    is_extended: bool,
}

impl Patience {
    pub(super) fn begin(timeout: Duration) -> Self {
        let start = Instant::now();
        Patience {
            timeout,
            start,
            // Some centuries are as good as for ever.
            end: start + timeout.min(Duration::from_secs(1 << 33)),
            pause: FIRST_PAUSE,
            warn_at: start + Duration::from_secs(BEFORE_WARNING),
            told: String::new(),
            is_extended: false,
        }
    }

    fn each(&self) -> Duration {
        (self.timeout / 4).clamp(SHORTEST_TRY, LONGEST_TRY)
    }

    /// The time for the next attempt.
    pub(super) fn timeouts(&self) -> Timeouts {
        let each = self.each();
        Timeouts { each, end: self.end.max(self.start + each) }
    }

    /// Pauses after an attempt that failed. Calls `warn` with the reason if it was not the first for long.
    ///
    /// # Errors
    /// There is no hope, or no more time.
    pub(super) fn wait(
        &mut self,
        server: &Server,
        warn: impl Fn(String),
        error: &RedisError,
    ) -> Result<(), StoreError> {
        let (exit, why) = meaning(error);
        if exit != Exit::StoreAway {
            return Err(StoreError::new(exit, server, why));
        }
        let (now, timeout) = (Instant::now(), self.timeout);
        // The last attempt may have had less time than an answer takes.
        if self.told.is_empty() || now < self.end || !why.contains(TOO_LATE) {
            self.told = why;
        }
        let told = &self.told;
        if now >= self.warn_at {
            self.warn_at = now + BETWEEN_WARNINGS;
            warn(format!("{server}: {told}; waiting for up to {timeout:?}"));
        }
        // Processes that lost the server at the same time must not come back at the same time.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let left = self.end.saturating_duration_since(now);
        thread::sleep(pause.min(left));
        if !self.is_extended && now >= self.end + self.each() {
            (self.is_extended, self.end) = (true, Instant::now() + self.each());
        } else if pause >= left {
            return Err(StoreError::new(exit, server, format_args!("{told}; gave up after {timeout:?}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redis::RedisResult;

    use super::super::client::Client;
    use super::super::failure::away;
    use super::*;
    use crate::time::Time;

    fn client(timeout: Duration) -> Client {
        Client::new("redis://127.0.0.1:1/web".parse().unwrap(), timeout, Box::new(|| Time::ZERO))
    }

    /// Attempts for a millisecond; the first attempt takes much longer, as if the process were stopped meanwhile.
    fn persist_with_a_stop(then: fn() -> RedisResult<()>) -> Result<(), Exit> {
        let mut is_first = true;
        let attempt = |_: &mut Client| {
            if !std::mem::take(&mut is_first) {
                return then();
            }
            thread::sleep(SHORTEST_TRY + Duration::from_millis(1));
            Err(away(TOO_LATE))
        };
        client(Duration::from_millis(1)).persist(attempt).map_err(|error| error.exit)
    }

    #[test]
    fn a_server_that_answers_is_not_given_up_because_the_process_was_stopped() {
        assert_eq!(persist_with_a_stop(|| Ok(())), Ok(()));
    }

    #[test]
    fn a_server_is_asked_once_if_there_is_no_time_to_ask_again() {
        let mut times = 0;
        let attempt = |client: &mut Client| -> RedisResult<()> {
            times += 1;
            assert!(client.nodes.patience.until() > Instant::now(), "no time for an answer");
            Err(away("elsewhere"))
        };
        let error = client(Duration::ZERO).persist(attempt).unwrap_err();
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
