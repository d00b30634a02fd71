//! What a store is told of the limits, with the reserve that late wake-ups need.

use std::fmt;

use anyhow::Result;

use crate::config::{Algorithm, Defaults, Rate, RateText, Start, format_duration};
use crate::time::SECOND;

const MILLISECOND: u64 = SECOND / 1000;

/// How much later than its slot a release may be, unless `margin=` says so: a share of the time that the limit prescribes,
/// which is the period or the gap, within bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// One part in so many of that time.
    pub part: u64,
    /// At least, in nanoseconds...
    pub least: u64,
    /// ... unless that would be more than one part in so many of a gap: the slots after the first are ahead, and so can be met
    /// exactly. Those of a window may be due at once, when the answer still has to be passed on...
    pub dearest_part: u64,
    /// ... which counts only down to here: nobody wakes up more exactly.
    pub floor: u64,
    /// At most, in nanoseconds...
    pub most: u64,
    /// ... unless it is less than a thousandth, which costs next to nothing; but then at most this.
    pub longest: u64,
}

impl Reserve {
    /// On one machine, where only wake-ups are late.
    pub const LOCAL: Reserve = Reserve {
        part: 100,
        least: MILLISECOND,
        dearest_part: 20,
        floor: MILLISECOND / 20,
        most: 50 * MILLISECOND,
        longest: 2 * SECOND,
    };
    /// Over a network, where the clocks are known to no more than a round trip.
    pub const REMOTE: Reserve = Reserve {
        part: 50,
        least: 5 * MILLISECOND,
        dearest_part: 2,
        floor: MILLISECOND / 2,
        most: 250 * MILLISECOND,
        longest: 2 * SECOND,
    };

    /// D for this limit, in nanoseconds.
    pub fn margin(self, rate: &Rate) -> u64 {
        match (rate.margin, prescribed(rate)) {
            (0, time) if time < rate.period => self.of(time, self.dearest_part),
            (0, time) => self.of(time, 1),
            (margin, _) => margin,
        }
    }

    /// For a limit that prescribes `time` nanoseconds.
    fn of(self, time: u64, dearest_part: u64) -> u64 {
        let least = self.least.min(time / dearest_part).max(self.floor);
        let cheap = (time / 1000).min(self.longest);
        (time / self.part).min(self.most).max(least).max(cheap)
    }
}

/// One limit, as a store keeps it: the terms hold for slots, and so have the reserve in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The rule.
    pub algorithm: Algorithm,
    /// N.
    pub count: u64,
    /// P in nanoseconds, with the reserve.
    pub period: u64,
    /// B, for the bucket, less the reserve: at least 1. Otherwise 0.
    pub burst: u64,
    /// Whether a new state begins as though all of it had just been used.
    pub starts_empty: bool,
}

impl Quota {
    /// The most that one release may cost.
    pub fn most(&self) -> u64 {
        match self.algorithm {
            Algorithm::Sliding | Algorithm::Fixed => self.count,
            Algorithm::Bucket => self.burst,
            Algorithm::Interval => u64::MAX,
        }
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

/// What the reserve costs one limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The limit.
    pub rate: Rate,
    /// How many in a thousand of what it allows can be reached.
    pub permille: u64,
    /// How late a release may be, in nanoseconds.
    pub late: u64,
    /// The `margin=`, in nanoseconds, with which 950 in a thousand can be reached.
    pub cheaper: u64,
}

/// The most slots that are booked at once are those for so much time...
const SPAN: u64 = 50 * MILLISECOND;

/// ... and no more than this, whatever the rate: a store serves one order at a time.
const MOST: u64 = 1000;

impl Policy {
    /// For these limits, of which there is at least one, with a `reserve` where they do not say.
    pub fn new(rates: &[Rate], reserve: Reserve) -> Self {
        let reserves: Vec<_> = rates.iter().map(|rate| reserve.margin(rate)).collect();
        let texts: Vec<_> = rates.iter().zip(&reserves).map(|(rate, &margin)| text(rate, margin)).collect();
        let quotas: Vec<_> = rates.iter().zip(&reserves).map(|(rate, &margin)| quota(rate, margin)).collect();
        Policy {
            deadline: reserves.iter().copied().min().unwrap_or(0),
            horizon: rates.iter().map(horizon).max().unwrap_or(0),
            span: rates.iter().map(span).min().unwrap_or(1),
            text: texts.join(" "),
            quotas,
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

    /// What the reserve costs each of `rates`, of which this is the policy.
    pub fn reach(&self, rates: &[Rate]) -> impl Iterator<Item = Reach> {
        let reach = |(rate, quota): (&Rate, &Quota)| {
            let share = u128::from(rate.period) * 1000 / u128::from(quota.period.max(1));
            let permille = u64::try_from(share).unwrap_or(1000).min(1000);
            Reach { rate: rate.clone(), permille, late: self.deadline, cheaper: prescribed(rate) / 19 }
        };
        rates.iter().zip(&self.quotas).map(reach)
    }
}

impl Reach {
    /// Whether it is worth telling: less than 95 %.
    pub fn is_low(&self) -> bool {
        self.permille < 950
    }
}

/// With advice, if it is low.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reach { rate, permille, late, cheaper } = self;
        let share = format_args!("{}.{} %", permille / 10, permille % 10);
        if !self.is_low() {
            return write!(f, "{rate}: shared, up to {share} of it can be reached");
        }
        let unit = if *cheaper < 10 * MILLISECOND { MILLISECOND / 1000 } else { MILLISECOND };
        let (late, margin) = (format_duration(*late), format_duration((cheaper / unit).max(1) * unit));
        write!(
            f,
            "{rate}: shared, at most {share} of it can be reached, as each release may be {late} late: "
        )?;
        match prescribed(rate) == rate.period && *cheaper < MILLISECOND {
            true => write!(f, "give the limit over a longer period"),
            false => write!(f, "margin={margin} in all runs reaches 95 %"),
        }
    }
}

/// The time in nanoseconds that is longer by the reserve: the period, or the gap, or what it takes to fill a small bucket.
fn prescribed(rate: &Rate) -> u64 {
    let gap = rate.period / rate.count.max(1);
    match rate.algorithm {
        Algorithm::Interval => gap,
        Algorithm::Bucket => gap.saturating_mul(rate.burst.unwrap_or(rate.count)).min(rate.period),
        Algorithm::Sliding | Algorithm::Fixed => rate.period,
    }
}

/// The limit in words, as far as processes that share it have to agree.
fn text(rate: &Rate, margin: u64) -> String {
    Rate { margin, start: Start::Full, ..rate.clone() }.to_string()
}

/// The terms that slots have to keep so that releases, which may be `late` after them, keep those of `rate`.
fn quota(rate: &Rate, late: u64) -> Quota {
    let &Rate { count, period, algorithm, .. } = rate;
    let (period, late) = (u128::from(period), u128::from(late));
    let accruing = u128::from(count) * late;
    let (period, burst) = match algorithm {
        Algorithm::Sliding | Algorithm::Fixed => (period + late, 0),
        Algorithm::Interval => (period + accruing, 0),
        Algorithm::Bucket => {
            // What accrues while a release may be late is held back. Where the bucket does not hold as much, the first
            // release beyond it has to come later, and so all others.
            let burst = rate.burst.unwrap_or(count).max(1);
            let held_back = accruing.div_ceil(period).min(u128::from(burst) - 1);
            let lengthened = (period + accruing).div_ceil(held_back + 1).max(period);
            (lengthened, u128::from(burst) - held_back)
        }
    };
    let whole = |number| u64::try_from(number).unwrap_or(u64::MAX);
    Quota {
        algorithm,
        count,
        period: whole(period),
        burst: whole(burst),
        starts_empty: rate.start == Start::Empty,
    }
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
            ("10/1ms", ms, 2 * ms, 0),
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
            let rate = format!("{count}/{period}ns,algo=bucket,burst={burst}");
            let rate = self::rate(&rate);
            let quota = quota(&rate, late);
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
    fn the_reserve_is_a_share_of_the_period_within_bounds() {
        let ms = MILLISECOND;
        let table: [(Reserve, &[(u64, u64)]); 2] = [
            (Reserve::LOCAL, &[(20, 1), (300, 3), (30_000, 50), (600_000, 600), (10_000_000, 2000)]),
            (Reserve::REMOTE, &[(10, 5), (300, 6), (60_000, 250), (1_000_000, 1000), (10_000_000, 2000)]),
        ];
        for (reserve, cases) in table {
            for &(period, late) in cases {
                assert_eq!(reserve.of(period * ms, 1), late * ms, "{reserve:?} of {period} ms");
            }
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
    fn what_the_reserve_costs_is_told() {
        let reach = |text: &str, reserve| {
            let rates = [rate(text)];
            let reach = Policy::new(&rates, reserve).reach(&rates).next().unwrap();
            (reach.permille, reach.cheaper)
        };
        let us = MILLISECOND / 1000;
        assert_eq!(reach("10/s", Reserve::LOCAL), (990, 52_631 * us + 578));
        assert_eq!(reach("1000/s,algo=interval", Reserve::LOCAL), (952, 52 * us + 631));
        assert_eq!(reach("1000/s,algo=interval", Reserve::REMOTE), (666, 52 * us + 631));
        assert_eq!(reach("10/s,algo=bucket,burst=1", Reserve::REMOTE).0, 952);
        assert_eq!(reach("10/s,margin=1s", Reserve::LOCAL).0, 500);
    }

    #[test]
    fn what_is_told_of_the_reserve() {
        let told = |text: &str, permille, cheaper| {
            let rate = rate(text);
            Reach { rate, permille, late: MILLISECOND, cheaper }.to_string()
        };
        let table = [
            ("9/s", 950, 0, "9/1s,algo=sliding: shared, up to 95.0 % of it can be reached"),
            (
                "9/s",
                949,
                52 * MILLISECOND + 1,
                "9/1s,algo=sliding: shared, at most 94.9 % of it can be reached, as each release may be 1ms late: \
                 margin=52ms in all runs reaches 95 %",
            ),
            (
                "9/ms",
                500,
                52_631,
                "9/1ms,algo=sliding: shared, at most 50.0 % of it can be reached, as each release may be 1ms late: \
                 give the limit over a longer period",
            ),
            (
                "9/s",
                949,
                9_500_000,
                "9/1s,algo=sliding: shared, at most 94.9 % of it can be reached, as each release may be 1ms late: \
                 margin=9ms500us in all runs reaches 95 %",
            ),
            (
                "9/19ms",
                949,
                MILLISECOND,
                "9/19ms,algo=sliding: shared, at most 94.9 % of it can be reached, as each release may be 1ms late: \
                 margin=1ms in all runs reaches 95 %",
            ),
            (
                "9/s,algo=interval",
                500,
                52_631,
                "9/1s,algo=interval: shared, at most 50.0 % of it can be reached, as each release may be 1ms late: \
                 margin=52us in all runs reaches 95 %",
            ),
        ];
        for (text, permille, cheaper, expected) in table {
            assert_eq!(told(text, permille, cheaper), expected);
        }
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
