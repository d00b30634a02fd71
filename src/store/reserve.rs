//! The reserve for releases that are later than their slots.

use crate::config::Rate;
use crate::time::SECOND;

pub(super) const MILLISECOND: u64 = SECOND / 1000;

/// Finds how late a release may follow its slot, if no `margin=` sets it: a share of the time that the limit
/// prescribes, within bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// The share: the prescribed time is divided by this.
    pub part: u64,
    /// The least, in nanoseconds.
    pub least: u64,
    /// `least` is at most the prescribed time divided by this.
    pub dearest_part: u64,
    /// The least in any case: no wake-up is more exact.
    pub floor: u64,
    /// The least for a window that is longer: its slots may be due at once, when the answer still has to be passed on.
    pub window_floor: u64,
    /// The most, in nanoseconds, unless a thousandth of the time is more, which costs next to nothing.
    pub most: u64,
    /// The most in any case.
    pub longest: u64,
}

impl Reserve {
    /// On one machine, where only wake-ups are late.
    pub const LOCAL: Reserve = Reserve {
        part: 100,
        least: MILLISECOND,
        dearest_part: 20,
        floor: MILLISECOND / 20,
        window_floor: MILLISECOND / 5,
        most: 50 * MILLISECOND,
        longest: 2 * SECOND,
    };
    /// Over a network, where clocks are known only to within a round trip.
    pub const REMOTE: Reserve = Reserve {
        part: 50,
        least: 5 * MILLISECOND,
        dearest_part: 2,
        floor: MILLISECOND / 2,
        window_floor: MILLISECOND,
        most: 250 * MILLISECOND,
        longest: 2 * SECOND,
    };

    /// D for this limit, in nanoseconds.
    pub fn margin(self, rate: &Rate) -> u64 {
        if rate.margin > 0 {
            return rate.margin;
        }
        let time = prescribed(rate);
        let floor = if time < rate.period { self.floor } else { self.window_floor.min(time).max(self.floor) };
        let least = self.least.min(time / self.dearest_part).max(floor);
        let cheap = (time / 1000).min(self.longest);
        (time / self.part).min(self.most).max(least).max(cheap)
    }
}

/// The time, in nanoseconds, that the reserve makes longer.
pub(super) fn prescribed(rate: &Rate) -> u64 {
    rate.algorithm.spec().prescribed(&rate.terms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_share_of_what_is_prescribed_within_bounds() {
        let us = MILLISECOND / 1000;
        let table: [(Reserve, &[(&str, u64)]); 2] = [
            (
                Reserve::LOCAL,
                &[
                    ("1/20ms", 1000),
                    ("1/10ms", 500),
                    ("1/1ms", 200),
                    ("1/300ms", 3000),
                    ("1/30s", 50_000),
                    ("1/10m", 600_000),
                    ("1/10000s", 2_000_000),
                    ("1/100us", 100),
                    ("1/1ns", 50),
                    ("100/s,algo=interval", 500),
                    ("10000/s,algo=interval", 50),
                    ("100/s,algo=bucket,burst=2", 1000),
                    ("100/s,margin=7us", 7),
                ],
            ),
            (
                Reserve::REMOTE,
                &[
                    ("1/10ms", 5000),
                    ("1/1ms", 1000),
                    ("1/100us", 500),
                    ("1/300ms", 6000),
                    ("1/1m", 250_000),
                    ("1/1000s", 1_000_000),
                    ("1/10000s", 2_000_000),
                    ("250/s,algo=interval", 2000),
                    ("1000/s,algo=interval", 500),
                    ("2000/s,algo=interval", 500),
                ],
            ),
        ];
        for (reserve, cases) in table {
            for &(text, late) in cases {
                let rate = text.parse::<Rate>().unwrap();
                assert_eq!(reserve.margin(&rate), late * us, "{reserve:?} of {text}");
            }
        }
    }
}
