//! The cost of the reserve in throughput, and the words for it.

use std::fmt;

use super::policy::{Policy, Quota};
use super::reserve::{MILLISECOND, Reserve, prescribed};
use crate::config::{Rate, format_duration};
use crate::time::SECOND;

/// The cost of the reserve for one limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The limit.
    pub rate: Rate,
    /// The share of its rate that can be reached, in thousandths.
    pub permille: u64,
    /// The nanoseconds by which a release may be late.
    pub late: u64,
    /// The `margin=`, in nanoseconds, with which 95 % can be reached.
    pub cheaper: u64,
    /// No shorter margin is possible, as the server is too far away.
    pub is_distant: bool,
}

impl Policy {
    /// The cost of the reserve for each of `rates`, of which this is the policy.
    pub fn reach(&self, rates: &[Rate]) -> impl Iterator<Item = Reach> {
        let reach = |(rate, quota): (&Rate, &Quota)| {
            // Slots are never closer than releases.
            let share = u128::from(rate.period) * 1000 / u128::from(quota.terms.period);
            let permille = u64::try_from(share).unwrap_or(1000);
            let (late, cheaper) = (self.validity, prescribed(rate) / 19);
            Reach { rate: rate.clone(), permille, late, cheaper, is_distant: false }
        };
        rates.iter().zip(&self.quotas).map(reach)
    }
}

impl Reach {
    /// True if it is worth reporting: less than 95 % can be reached.
    pub fn is_low(&self) -> bool {
        self.permille < 950
    }

    fn advice(&self) -> String {
        // With a shorter margin, more slots would be lost to late wake-ups than it saves.
        let is_of_gaps = prescribed(&self.rate) < self.rate.period;
        let least = if is_of_gaps { Reserve::LOCAL.floor } else { MILLISECOND };
        let accrues = self.rate.algorithm.spec().accrues;
        if self.is_distant {
            let period = format_duration((20 * self.late).next_multiple_of(SECOND / 10));
            return format!(
                "give the limit{} over {period} or more",
                if accrues { " with algo=sliding," } else { "" }
            );
        }
        if self.cheaper < least {
            let advice = if accrues {
                "give the limit with algo=sliding, over 100ms or more"
            } else {
                "give the limit over a longer period"
            };
            return advice.to_owned();
        }
        let unit = if self.cheaper < 10 * MILLISECOND { MILLISECOND / 1000 } else { MILLISECOND };
        let margin = (self.cheaper / unit).max(1) * unit;
        format!("margin={} in all runs reaches 95 %", format_duration(margin))
    }
}

/// Shows advice if it is low.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reach { rate, permille, late, .. } = self;
        let share = format_args!("{}.{} %", permille / 10, permille % 10);
        if !self.is_low() {
            return write!(f, "{rate}: shared, up to {share} of it can be reached");
        }
        let (late, advice) = (format_duration(*late), self.advice());
        write!(
            f,
            "{rate}: shared, at most {share} of it can be reached, as each release may be {late} late: {advice}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse::<Rate>().unwrap()
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
        let us = MILLISECOND / 1000;
        let high = "shared, up to 95.0 % of it can be reached";
        let low = "shared, at most 94.9 % of it can be reached, as each release may be 1ms late";
        let half = "shared, at most 50.0 % of it can be reached, as each release may be 1ms late";
        let sliding = "give the limit with algo=sliding, over 100ms or more";
        let table = [
            ("9/s", 950, 0, high.to_owned()),
            ("9/s", 949, 52_631 * us, format!("{low}: margin=52ms in all runs reaches 95 %")),
            ("9/s", 949, 9500 * us, format!("{low}: margin=9ms500us in all runs reaches 95 %")),
            ("9/s", 949, MILLISECOND, format!("{low}: margin=1ms in all runs reaches 95 %")),
            ("9/s", 949, 10 * MILLISECOND + us, format!("{low}: margin=10ms in all runs reaches 95 %")),
            ("9/ms", 500, 52 * us, format!("{half}: give the limit over a longer period")),
            ("9/s,algo=interval", 500, 52_631, format!("{half}: margin=52us in all runs reaches 95 %")),
            ("9/s,algo=interval", 500, 49_999, format!("{half}: {sliding}")),
            ("9/ms,algo=interval", 500, 5848, format!("{half}: {sliding}")),
        ];
        for (text, permille, cheaper, expected) in table {
            let rate = rate(text);
            let expected = format!("{rate}: {expected}");
            let told = Reach { rate, permille, late: MILLISECOND, cheaper, is_distant: false }.to_string();
            assert_eq!(told, expected, "{text}, {cheaper}");
        }
        for (text, advice) in [
            ("9/s", "give the limit over 1s300ms or more"),
            ("9/s,algo=interval", "give the limit with algo=sliding, over 1s300ms or more"),
        ] {
            let (rate, late) = (rate(text), 63_700 * us);
            let told = Reach { rate, permille: 940, late, cheaper: 52 * MILLISECOND, is_distant: true };
            assert!(told.to_string().ends_with(&format!("63ms700us late: {advice}")), "{told}");
        }
    }
}
