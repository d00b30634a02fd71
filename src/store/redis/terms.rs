//! A policy in the numbers of the scripts: microseconds, and nothing beyond what a double holds.

use anyhow::{Result, anyhow, ensure};
use redis::Cmd;

use crate::config::{exact, format_duration};
use crate::rule::{Algorithm, Terms};
use crate::store::{Policy, Quota};

/// Whole numbers up to here are exact in Lua; as microseconds, they reach to the year 2255.
pub(super) const EXACT: u64 = 1 << 53;

/// The longest period, some 35 years: added to an instant of this century, it stays below [`EXACT`].
const LONGEST: u64 = 1 << 50;

/// The most units of a log: a longer one is heavy to keep, and there are rules that need none.
const LONGEST_LOG: u64 = 1_000_000;

/// One limit, as a script needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScriptTerms {
    algorithm: Algorithm,
    /// The count, period and burst.
    terms: Terms,
    /// The number of units in the logs before its own.
    log: u64,
}

impl ScriptTerms {
    fn of(quota: &Quota) -> Result<Self> {
        let Terms { count, period, burst, .. } = quota.terms;
        let micros = period.div_ceil(1000);
        ensure!(count > 0 || quota.during.is_some(), "a count of 0 cannot be shared");
        // A count of 0 is no rate.
        let algorithm = if count > 0 { quota.algorithm } else { Algorithm::Fixed };
        ensure!(
            micros <= LONGEST,
            "a period of {} is too long for Redis: the maximum is 35 years",
            format_duration(period)
        );
        let terms = match algorithm.facts().accrues {
            // The same rate in the smallest numbers.
            true => count.checked_mul(1000).and_then(|count| exact(count.into(), period.into(), 1)),
            false => Some((count, micros)),
        };
        let too_large = || anyhow!("a count of {} is too large for Redis", quota.terms.count);
        let (count, period) = terms.filter(|&(count, _)| count < EXACT).ok_or_else(too_large)?;
        ensure!(
            !algorithm.facts().is_logged || count <= LONGEST_LOG,
            "{count} per period are too many for algo={algorithm} on Redis, which logs each: the maximum is \
             1000000; algo=bucket has no log"
        );
        let terms = ScriptTerms { algorithm, terms: Terms::new(count, period, burst), log: 0 };
        terms.ensure_exact(burst)?;
        Ok(terms)
    }

    /// Adds them to the arguments of a script. Releases may be `late` nanoseconds late.
    pub(super) fn tell(&self, call: &mut Cmd, late: u64) {
        let Terms { count, period, burst, .. } = self.terms;
        call.arg(self.log).arg(self.algorithm.to_string());
        call.arg(count).arg(period).arg(burst).arg(late / 1000);
    }

    /// # Errors
    /// The scripts cannot reckon with this cost exactly.
    pub(super) fn ensure_exact(&self, cost: u64) -> Result<()> {
        let unit = if self.algorithm.facts().accrues { self.terms.period } else { 1 };
        // Half of it, so that sums stay exact, too.
        ensure!(
            cost.checked_mul(unit).is_some_and(|most| most < EXACT / 2),
            "{cost} units at once are too many for exact arithmetic in Redis: use a larger unit, such as \
             kilobytes instead of bytes"
        );
        Ok(())
    }

    /// The number of units in the logs up to and including its own.
    pub(super) fn end_of_log(&self) -> u64 {
        self.log + if self.algorithm.facts().is_logged { self.terms.count } else { 0 }
    }

    /// Microseconds after which no past release matters, if none costs more than `cost`.
    pub(super) fn memory(&self, cost: u64) -> u64 {
        self.algorithm.facts().matters_for(&self.terms, cost)
    }
}

/// The terms of all limits.
///
/// # Errors
/// Redis cannot keep one of them exactly. The error says what to do about it.
pub(super) fn terms(policy: &Policy) -> Result<Vec<ScriptTerms>> {
    policy.check()?;
    let mut terms = policy.quotas.iter().map(ScriptTerms::of).collect::<Result<Vec<_>>>()?;
    let mut logged: Vec<_> = terms.iter_mut().filter(|terms| terms.algorithm.facts().is_logged).collect();
    // The longest log is the last: what stands before a unit takes memory even if it is not used.
    logged.sort_by_key(|terms| terms.terms.count);
    let mut before = 0;
    for terms in logged {
        terms.log = before;
        before += terms.terms.count;
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    fn quota(algorithm: Algorithm, count: u64, period: u64, burst: u64) -> Quota {
        Quota::new(algorithm, Terms::new(count, period, burst))
    }

    #[test]
    fn windows_are_rounded_up_and_rates_are_exact() {
        let table = [
            (quota(Algorithm::Sliding, 10, 1001, 0), (10, 2)),
            (quota(Algorithm::Fixed, 10, SECOND, 0), (10, 1_000_000)),
            (quota(Algorithm::Bucket, 1000, SECOND, 5), (1, 1000)),
            (quota(Algorithm::Interval, 3, SECOND, 0), (3, 1_000_000)),
            (quota(Algorithm::Interval, 1, 10, 0), (100, 1)),
        ];
        for (quota, expected) in table {
            let ScriptTerms { terms, .. } = ScriptTerms::of(&quota).unwrap();
            assert_eq!((terms.count, terms.period), expected, "{quota:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_advice() {
        let table = [
            (quota(Algorithm::Sliding, 1_000_001, SECOND, 0), "algo=bucket"),
            (quota(Algorithm::Sliding, 1, u64::MAX, 0), "35 years"),
            (quota(Algorithm::Bucket, 1, SECOND, 1 << 40), "kilobytes"),
            (quota(Algorithm::Bucket, u64::MAX, 7, 1), "too large"),
            (quota(Algorithm::Fixed, 1 << 53, SECOND, 0), "too large"),
        ];
        for (quota, advice) in table {
            let error = ScriptTerms::of(&quota).unwrap_err().to_string();
            assert!(error.contains(advice), "{error}");
        }
        let terms = ScriptTerms::of(&quota(Algorithm::Interval, 1, SECOND, 0)).unwrap();
        assert!(terms.ensure_exact(1 << 20).is_ok());
        assert!(terms.ensure_exact(1 << 33).is_err());
    }
}
