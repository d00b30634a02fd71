//! What a store is told of the limits, with the reserve that late wake-ups need.

use anyhow::Result;

use super::reserve::{MILLISECOND, Reserve};
use crate::config::{Defaults, Rate, RateText, Start};
use crate::rule::{Algorithm, Terms};
use crate::time::{Hours, SECOND, Wall};

/// One limit, as a store keeps it: the terms hold for slots, and so have the reserve in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The rule.
    pub algorithm: Algorithm,
    /// N.
    pub count: u64,
    /// P in nanoseconds, with the reserve.
    pub period: u64,
    /// B, if the rule has a burst, less the reserve: at least 1. Otherwise 0.
    pub burst: u64,
    /// Nanoseconds around each boundary without a slot, if the rule goes by the calendar.
    pub margin: u64,
    /// When it is asked at all, if not always; or else the zone whose calendar it goes by.
    pub hours: Option<Box<Hours>>,
    /// Whether a new state begins as though all of it had just been used.
    pub starts_empty: bool,
}

impl Quota {
    /// With nothing else said.
    pub fn new(algorithm: Algorithm, Terms { count, period, burst, margin, .. }: Terms) -> Self {
        Quota { algorithm, count, period, burst, margin, hours: None, starts_empty: false }
    }

    /// What its rule goes by, if the clock on the wall shows this.
    pub fn terms(&self, wall: Wall) -> Terms {
        let &Quota { count, period, burst, margin, .. } = self;
        let zone = self.hours.as_ref().map(|hours| hours.zone);
        Terms { margin, zone, wall, ..Terms::new(count, period, burst) }
    }

    /// The most that one release may cost.
    pub fn most(&self) -> u64 {
        self.algorithm.facts().dearest_slot(&self.terms(Wall::EPOCH))
    }

    /// Whether a store keeps the instant of each unit of cost.
    pub fn is_logged(&self) -> bool {
        self.algorithm.facts().is_logged
    }

    /// How much may go at once after idling.
    pub fn at_once(&self) -> u64 {
        (self.algorithm.facts().at_once)(&self.terms(Wall::EPOCH))
    }
}

/// All limits of a run, as a store keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The limits, in their order. At least one.
    pub quotas: Vec<Quota>,
    /// D: how long a slot is good, in nanoseconds.
    pub deadline: u64,
    /// How far ahead slots are given out, in nanoseconds.
    pub horizon: u64,
    /// How many slots one order may ask for at most.
    pub span: u64,
    /// The limits in words. Processes that share a state have to agree on it.
    pub text: String,
}

/// The most slots that are booked at once are those for so many nanoseconds.
const SPAN: u64 = 50 * MILLISECOND;

/// No more are booked at once, whatever the rate: a store serves one order at a time.
const MOST: u64 = 1000;

impl Policy {
    /// For these limits, of which there is at least one, with a `reserve` where they do not say.
    pub fn new(rates: &[Rate], reserve: Reserve) -> Self {
        let rates: Vec<_> =
            rates.iter().map(|rate| Rate { margin: reserve.margin(rate), ..rate.clone() }).collect();
        Policy {
            deadline: rates.iter().map(|rate| rate.margin).min().unwrap_or(0),
            horizon: rates.iter().map(horizon).max().unwrap_or(0),
            span: rates.iter().map(span).min().unwrap_or(1),
            text: rates.iter().map(text).collect::<Vec<_>>().join(" "),
            quotas: rates.iter().map(quota).collect(),
        }
    }

    /// The limits that a [`text`](Self::text) stands for, each with its margin.
    ///
    /// # Errors
    /// It is not the text of a policy.
    pub fn rates(text: &str) -> Result<Vec<Rate>> {
        let rate = |text| RateText::parse_pausing(text)?.resolve(&Defaults::default());
        text.split_whitespace().map(rate).collect()
    }

    /// How many slots an order gets where slots are far ahead: a few at a time, so that all processes get the same.
    pub fn far_span(&self) -> u64 {
        self.span.div_ceil(8)
    }

    /// How many slots an order may ask for if answers take long: a quarter of the least count.
    pub fn longest_span(rates: &[Rate]) -> u64 {
        rates.iter().map(|rate| (rate.count / 4).clamp(1, MOST)).min().unwrap_or(1)
    }
}

/// The limit in words, as far as processes that share it have to agree.
fn text(rate: &Rate) -> String {
    Rate { start: Start::Full, ..rate.clone() }.to_string()
}

/// The terms that slots have to keep so that releases, which may be late by the margin, keep those of `rate`.
fn quota(rate: &Rate) -> Quota {
    let terms = Terms { margin: rate.margin, ..rate.terms() };
    let terms = rate.algorithm.facts().slot_terms(&terms, rate.margin);
    let starts_empty = rate.start == Start::Empty;
    Quota { hours: rate.hours.clone(), starts_empty, ..Quota::new(rate.algorithm, terms) }
}

/// A few periods: enough to serve a waiting fleet in order, but few enough that the bookings of dead processes expire soon. After
/// a loss of the state, this much may have been booked without anyone knowing.
fn horizon(rate: &Rate) -> u64 {
    rate.period.saturating_mul(5).clamp(SECOND, 3600 * SECOND)
}

fn span(rate: &Rate) -> u64 {
    let in_time = u128::from(rate.count) * u128::from(SPAN) / u128::from(rate.period);
    u64::try_from(in_time).unwrap_or(MOST).min(rate.count / 4).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse::<RateText>().unwrap().resolve(&Defaults::default()).unwrap()
    }

    fn rates(texts: &[&str]) -> Vec<Rate> {
        texts.iter().map(|text| rate(text)).collect()
    }

    fn policy(texts: &[&str]) -> Policy {
        Policy::new(&rates(texts), Reserve::LOCAL)
    }

    #[test]
    fn slots_are_kept_apart_by_so_much_more_as_releases_may_be_late() {
        let ms = MILLISECOND;
        // Rate, D, then P and B as slots have to keep them.
        let table = [
            ("10/s", 10 * ms, 1010 * ms, 0),
            ("10/50ms", ms, 51 * ms, 0),
            ("10/1ms", ms / 5, 6 * ms / 5, 0),
            ("10/h", 2000 * ms, 3_602_000 * ms, 0),
            ("10/s,margin=20ms", 20 * ms, 1020 * ms, 0),
            ("10/s,algo=fixed", 10 * ms, 1010 * ms, 0),
            ("10/s,algo=interval", ms, 1010 * ms, 0),
            ("10/30s,algo=interval", 30 * ms, 30_300 * ms, 0),
            ("1000/s,algo=interval", ms / 20, 1050 * ms, 0),
            // Nobody wakes up more exactly than that.
            ("10000/s,algo=interval", ms / 20, 1500 * ms, 0),
            ("10/s,algo=bucket", 10 * ms, 1000 * ms, 9),
            ("1000/s,algo=bucket,burst=50", ms, 1000 * ms, 49),
            ("1000/s,algo=bucket,burst=50,margin=10ms", 10 * ms, 1000 * ms, 40),
            ("10/s,algo=bucket,burst=100", 10 * ms, 1000 * ms, 99),
            // One of the ten that would be held back is not there.
            ("1000/s,algo=bucket,burst=10,margin=10ms", 10 * ms, 1100 * ms, 1),
            ("10/s,algo=bucket,burst=1", ms, 1010 * ms, 1),
        ];
        for (rate, deadline, period, burst) in table {
            let policy = policy(&[rate]);
            let quota = &policy.quotas[0];
            assert_eq!((policy.deadline, quota.period, quota.burst), (deadline, period, burst), "{rate}");
        }
    }

    /// Of a bucket: for any number of releases in a row, as far apart as slots allow, the limit holds for releases of
    /// which the first is late and the last is not.
    #[test]
    fn a_bucket_of_slots_keeps_the_bucket_of_releases() {
        for (count, period, burst, late) in
            [(10, 1000, 10, 10), (1000, 1000, 50, 10), (7, 100, 1, 3), (3, 100, 2, 99)]
        {
            let rate = rate(&format!("{count}/{period}ns,algo=bucket,burst={burst},margin={late}ns"));
            let quota = quota(&rate);
            for row in 1..200u64 {
                // In units of 1/count nanoseconds.
                let apart = row.saturating_sub(quota.burst) * quota.period;
                let needed = row.saturating_sub(burst) * period;
                assert!(row <= burst || apart >= needed + late * count, "{rate:?}: {row}");
            }
        }
    }

    #[test]
    fn a_policy_is_the_same_for_all_who_mean_the_same() {
        assert_eq!(policy(&["10/s"]).text, policy(&["10/1000ms,margin=10ms,start=empty"]).text);
        assert_ne!(policy(&["10/s"]).text, policy(&["10/s,margin=20ms"]).text);
        let both = policy(&["10/s", "600/m"]);
        assert_eq!((both.deadline, both.horizon, both.span), (10 * MILLISECOND, 300 * SECOND, 1));
        assert_eq!(both.text, "10/1s,algo=sliding,margin=10ms 600/1m,algo=sliding,margin=60ms");
    }

    #[test]
    fn no_more_than_a_quarter_and_50_ms_worth_is_booked_at_once() {
        let table = [("1/s", 1), ("10/s", 1), ("100/s", 5), ("100/200ms", 25), ("1M/s", 1000), ("8/ms", 2)];
        for (rate, span) in table {
            assert_eq!(policy(&[rate]).span, span, "{rate}");
        }
    }

    #[test]
    fn slots_are_given_out_five_periods_ahead_within_a_second_and_an_hour() {
        for (rate, seconds) in [("1/ms", 1), ("9/s", 5), ("1/10m", 3000), ("1/h", 3600)] {
            assert_eq!(policy(&[rate]).horizon, seconds * SECOND, "{rate}");
        }
    }

    #[test]
    fn what_one_release_may_cost() {
        let most = |rate| policy(&[rate]).quotas[0].most();
        let rates = ["10/s", "10/s,algo=fixed", "10/s,algo=interval", "10/s,algo=bucket,burst=5"];
        assert_eq!(rates.map(most), [10, 10, u64::MAX, 4]);
    }

    #[test]
    fn from_afar_a_quarter_of_the_least_count_is_booked_at_once() {
        let longest = |texts: &[&str]| Policy::longest_span(&rates(texts));
        assert_eq!((longest(&["100/s", "40/m"]), longest(&["1/s"]), longest(&["1M/s"])), (10, 1, 1000));
    }

    #[test]
    fn a_state_begins_empty_if_that_is_asked_for() {
        let starts_empty = |rate| policy(&[rate]).quotas[0].starts_empty;
        assert_eq!(["10/s", "10/s,start=empty"].map(starts_empty), [false, true]);
    }
}
