//! Servers that limit their clients, and the client of the AWS SDKs.

use std::collections::VecDeque;

use fastrand::Rng;
use throttle::time::{SECOND, Time};

use super::Client;

pub(super) const KINDS: [&str; 3] = ["fixed", "sliding", "bucket"];

/// Counts on arrival, which is at once.
pub(super) enum Server {
    Fixed { window: u64, used: u64 },
    Sliding(VecDeque<Time>),
    Bucket { burst: f64, level: f64, at: Time },
}

impl Server {
    /// A server of this kind. A bucket holds up to three seconds of its limit.
    pub(super) fn draw(kind: usize, limit: u64, rng: &mut Rng) -> Self {
        match kind {
            0 => Server::Fixed { window: 0, used: 0 },
            1 => Server::Sliding(VecDeque::new()),
            _ => Server::Bucket {
                burst: (limit as f64 * 3.0 * rng.f64()).max(1.0),
                level: 0.0,
                at: Time::ZERO,
            },
        }
    }

    /// Whether an attempt at `now` is served, at `limit` a second.
    pub(super) fn admits(&mut self, now: Time, limit: u64) -> bool {
        match self {
            Server::Fixed { window, used } => {
                if *window != now.0 / SECOND {
                    (*window, *used) = (now.0 / SECOND, 0);
                }
                *used += 1;
                *used <= limit
            }
            Server::Sliding(served) => {
                while served.front().is_some_and(|first| now.since(*first) >= SECOND) {
                    served.pop_front();
                }
                let admits = (served.len() as u64) < limit;
                served.extend(admits.then_some(now));
                admits
            }
            Server::Bucket { burst, level, at } => {
                *level = (*level + now.since(*at) as f64 / 1e9 * limit as f64).min(*burst);
                *at = now;
                let admits = *level >= 1.0;
                *level -= f64::from(admits);
                admits
            }
        }
    }
}

/// The rate limiter of the AWS SDKs' adaptive retry mode, as published: CUBIC with a token bucket, which is used from
/// the first throttled attempt on.
#[derive(Default)]
pub(super) struct AwsClient {
    fill: f64,
    capacity: f64,
    level: f64,
    filled: f64,
    is_enabled: bool,
    measured: f64,
    bucket: f64,
    requests: f64,
    last_max: f64,
    last_throttled: f64,
    window: f64,
}

const BETA: f64 = 0.7;
const C: f64 = 0.4;

impl AwsClient {
    fn measure(&mut self, now: f64) {
        let bucket = (now * 2.0).floor() / 2.0;
        self.requests += 1.0;
        if bucket > self.bucket {
            let current = self.requests / (bucket - self.bucket);
            self.measured = current * 0.8 + self.measured * 0.2;
            (self.requests, self.bucket) = (0.0, bucket);
        }
    }

    fn refill(&mut self, now: f64) {
        self.level = (self.level + (now - self.filled) * self.fill).min(self.capacity);
        self.filled = now;
    }
}

impl Client for AwsClient {
    fn next(&mut self, now: Time) -> Time {
        if !self.is_enabled {
            return now;
        }
        self.refill(seconds(now));
        let wait = ((1.0 - self.level) / self.fill).max(0.0);
        Time(now.0 + (wait * 1e9).ceil() as u64)
    }

    fn sent(&mut self, now: Time) {
        self.refill(seconds(now));
        self.level -= f64::from(self.is_enabled);
    }

    fn answered(&mut self, _: Time, now: Time, is_throttled: bool) {
        let now = seconds(now);
        self.measure(now);
        let rate = if is_throttled {
            let rate = if self.is_enabled { self.measured.min(self.fill) } else { self.measured };
            self.last_max = rate;
            self.window = (self.last_max * (1.0 - BETA) / C).cbrt();
            (self.last_throttled, self.is_enabled) = (now, true);
            rate * BETA
        } else {
            C * (now - self.last_throttled - self.window).powi(3) + self.last_max
        };
        let rate = rate.min(2.0 * self.measured);
        self.refill(now);
        (self.fill, self.capacity) = (rate.max(0.5), rate.max(1.0));
        self.level = self.level.min(self.capacity);
    }

    fn rate(&self) -> f64 {
        if self.is_enabled { self.fill } else { f64::INFINITY }
    }
}

fn seconds(at: Time) -> f64 {
    at.0 as f64 / 1e9
}
