//! The rules, as an audit reads them: given what was released before, when would this release have been allowed?
//!
//! They share no arithmetic with the limiters, so that either can be judged by the other.

use super::window::Window;
use crate::config::{Algorithm, Rate};
use crate::limiter::Verdict;
use crate::time::Time;

/// A limit, in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) algorithm: Algorithm,
    pub(super) count: u64,
    /// With the margin.
    pub(super) period: u64,
    pub(super) burst: u64,
}

/// What a limit allows of a run that never stops: `first` at once, then `height` after each `length` nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stairs {
    /// What may go at once.
    pub first: u64,
    /// What may go after each length.
    pub height: u64,
    /// In nanoseconds.
    pub length: u64,
}

/// Stairs of one that are shorter than this, in nanoseconds, are not drawn, and would not be whole numbers.
const SHORTEST: u64 = 1000;

impl Terms {
    pub(super) fn stairs(&self) -> Stairs {
        let one = self.period / self.count.max(1);
        let (height, length) = if one < SHORTEST { (self.count, self.period) } else { (1, one) };
        match self.algorithm {
            Algorithm::Sliding | Algorithm::Fixed => {
                Stairs { first: self.count, height: self.count, length: self.period }
            }
            Algorithm::Interval => Stairs { first: 1, height, length },
            Algorithm::Bucket => Stairs { first: self.burst, height, length },
        }
    }

    pub(super) fn new(rate: &Rate) -> Self {
        Terms {
            algorithm: rate.algorithm,
            count: rate.count,
            period: rate.period.saturating_add(rate.margin),
            burst: rate.burst.unwrap_or(rate.count),
        }
    }

    /// What may be released within one period.
    pub(super) fn most(&self) -> u64 {
        match self.algorithm {
            Algorithm::Sliding | Algorithm::Interval => self.count,
            Algorithm::Bucket => self.burst.saturating_add(self.count),
            Algorithm::Fixed => self.count.saturating_mul(2),
        }
    }
}

/// What a rule, but for the sliding window, has to remember.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Of the last release; nothing before the first.
    last: Option<Time>,
    /// What is told by the rule: an instant, a level or a count.
    interval_next: Time,
    bucket_level: i128,
    window_start: Time,
    window_used: u64,
}

impl State {
    /// When a release of this cost, which was at `at`, would have been allowed; and that it happened.
    pub(super) fn judge(&mut self, terms: &Terms, window: &Window, at: Time, cost: u64) -> Verdict {
        let verdict = match terms.algorithm {
            Algorithm::Sliding => sliding(terms, window, cost),
            Algorithm::Interval => self.interval(terms, at, cost),
            Algorithm::Bucket => self.bucket(terms, at, cost),
            Algorithm::Fixed => self.fixed(terms, at, cost),
        };
        self.last = Some(at);
        verdict
    }

    /// Each release is at least the gap of the one before it later.
    fn interval(&mut self, terms: &Terms, at: Time, cost: u64) -> Verdict {
        let next = Verdict::At(self.interval_next);
        let gap = (u128::from(cost) * u128::from(terms.period)).div_ceil(terms.count.into());
        self.interval_next = at.checked_add(gap).unwrap_or(Time(u64::MAX));
        next
    }

    /// In any window, no more than the burst and what accrues in it. What was taken too early stays owed. A release that costs
    /// more than the burst is taken to have waited since the one before it.
    fn bucket(&mut self, terms: &Terms, at: Time, cost: u64) -> Verdict {
        let grains = |cost: u64| i128::from(cost).saturating_mul(terms.period.into());
        let (full, price) = (grains(terms.burst), grains(cost));
        let level = match self.last {
            None if cost > terms.burst => price,
            None => full,
            Some(last) => {
                let accrued = i128::from(terms.count).saturating_mul(at.since(last).into());
                self.bucket_level.saturating_add(accrued).min(full.max(price))
            }
        };
        self.bucket_level = level.saturating_sub(price);
        match u128::try_from(-self.bucket_level) {
            Ok(owed) if owed > 0 => Verdict::after(at, owed.div_ceil(terms.count.into())),
            _ => Verdict::At(at),
        }
    }

    /// In each of its own windows, no more than the count.
    fn fixed(&mut self, terms: &Terms, at: Time, cost: u64) -> Verdict {
        if self.last.is_none() || at.since(self.window_start) >= terms.period {
            (self.window_start, self.window_used) = (at, 0);
        }
        self.window_used = self.window_used.saturating_add(cost);
        match self.window_used > terms.count {
            _ if cost > terms.count => Verdict::Never,
            true => Verdict::after(self.window_start, terms.period),
            false => Verdict::At(at),
        }
    }
}

/// In any window, no more than the count.
fn sliding(terms: &Terms, window: &Window, cost: u64) -> Verdict {
    match window.obstacle() {
        _ if cost > terms.count => Verdict::Never,
        Some(obstacle) => Verdict::after(obstacle, terms.period),
        None => Verdict::At(Time::ZERO),
    }
}
