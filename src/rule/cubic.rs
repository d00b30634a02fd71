//! A rate that is found: CUBIC, as TCP uses it (RFC 9438) and the AWS SDKs do for the rate of requests, changed where a
//! rate is low.
//!
//! From the lowest rate on, it doubles in each second until the first attempt that is throttled (slow start). Then it
//! falls to β = 0.7 of the rate at which that attempt was made, W, and grows as
//!
//! ```text
//! W · (1 + (1 − β) · (x − 1)³)
//! ```
//!
//! where x grows by 1 in each time K: so it is back at W after K, slowly near W, and then looks for more, ever faster.
//! RFC 9438 has K = ∛(W · (1 − β) / C) with C = 0.4, for which a rate of 1/s would be exceeded by half in a second.
//! Here, with the present rate in place of W, K is at least the time of 30 attempts, so that throttled ones stay
//! rare at any rate, and of four answers, as what is tried shows only then.
//!
//! Before the first attempt that is served, those that are throttled tell nothing of the rate, as what was used earlier
//! may still count: it is the lowest one again.
//!
//! Attempts that started before the last fall are of that round, and say nothing more; nor does another one within a
//! second, as a server that counts by the second may refuse all until that is over. If less than β of the attempts of
//! a round were served, the rate falls to that part. Time in which the rate is not used does not count, so it does not
//! grow (RFC 9438, section 5.8).
//!
//! The rate is a number with decimals, as it is only an estimate. The instants that follow from it are computed by a
//! [`Rule`](super::Rule), in integers.

use crate::time::Time;

/// What is left of the rate after a throttled attempt.
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// The least K, in attempts and in answers.
const ATTEMPTS: f64 = 30.0;
const ANSWERS: f64 = 4.0;

/// The least number of seconds between two falls.
const ROUND: f64 = 1.0;

/// The least number of attempts of a round that tell which part was served, and the least such part that is believed.
const TELLING: f64 = 4.0;
const LEAST_PART: f64 = 0.25;

/// A rate between two bounds. Times are in seconds, rates per second.
#[derive(Clone, Debug)]
pub struct Cubic {
    low: f64,
    high: f64,
    rate: f64,
    /// W, once an attempt was throttled.
    peak: Option<f64>,
    /// x; without W, the seconds for which the rate was used.
    grown: f64,
    /// The last release, and the last fall.
    last: Option<Time>,
    fell: Option<Time>,
    /// The usual time to an answer.
    answer: f64,
    /// The attempts of this round that were served, and all of them.
    served: f64,
    answered: f64,
    /// An attempt was served.
    is_open: bool,
}

impl Cubic {
    /// A rate of at least `low` and at most `high` a second.
    pub fn new(low: f64, high: f64) -> Self {
        Cubic {
            low,
            high,
            rate: low,
            peak: None,
            grown: 0.0,
            last: None,
            fell: None,
            answer: 0.0,
            served: 0.0,
            answered: 0.0,
            is_open: false,
        }
    }

    /// Goes on between other bounds: at the same rate, if they allow it.
    pub fn bound(&mut self, low: f64, high: f64) {
        (self.low, self.high) = (low, high);
        if let Some(peak) = self.peak {
            // It may have grown far beyond the bound that held it back.
            self.grown = 1.0 + ((self.rate / peak - 1.0) / (1.0 - BETA)).cbrt();
        } else {
            // No two numbers are further apart.
            let doublings = (1..2100).take_while(|&doublings| low * 2f64.powi(doublings) <= self.rate);
            let doublings = doublings.last().unwrap_or(0);
            self.grown = f64::from(doublings) + (self.rate / (low * 2f64.powi(doublings)) - 1.0).max(0.0);
        }
        self.rate = self.rate_at(self.grown);
    }

    /// The rate.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The lowest rate.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The rate at which an attempt was last throttled, if one was.
    pub fn peak(&self) -> Option<f64> {
        self.peak
    }

    /// The last release, if there was one.
    pub fn last(&self) -> Option<Time> {
        self.last
    }

    /// Notes a release at `now`. If it `was_held`, this rate held it back until then, so the time since the last one
    /// counts.
    pub fn released(&mut self, now: Time, was_held: bool) {
        let last = self.last.replace(now).filter(|_| was_held);
        self.grown += last.map_or(0.0, |last| seconds(last, now)) / self.k();
        self.rate = self.rate_at(self.grown);
    }

    /// Notes at `now` the answer to an attempt that was made at `started`. Returns whether the rate has fallen.
    pub fn answered(&mut self, started: Time, now: Time, is_throttled: bool) -> bool {
        let took = seconds(started, now);
        self.answer += (took - self.answer) / if self.answer > 0.0 { 8.0 } else { 1.0 };
        self.is_open |= !is_throttled;
        if self.fell.is_some_and(|fell| started <= fell) {
            return false;
        }
        self.answered += 1.0;
        self.served += f64::from(!is_throttled);
        if !is_throttled || self.fell.is_some_and(|fell| seconds(fell, now) < ROUND) {
            return false;
        }
        if self.is_open {
            let since = self.last.map_or(0.0, |last| seconds(started, last));
            let made_at = self.rate_at((self.grown - since / self.k()).max(0.0));
            let part = self.served / self.answered;
            let part = if self.answered >= TELLING { part.clamp(LEAST_PART, BETA) } else { BETA };
            self.peak = Some(made_at * (part / BETA));
        }
        (self.grown, self.served, self.answered, self.fell) = (0.0, 0.0, 0.0, Some(now));
        self.rate = self.rate_at(0.0);
        true
    }

    /// The time in which what has grown increases by 1.
    fn k(&self) -> f64 {
        if self.peak.is_none() {
            return 1.0;
        }
        (self.rate * (1.0 - BETA) / C).cbrt().max(ATTEMPTS / self.rate).max(ANSWERS * self.answer)
    }

    fn rate_at(&self, grown: f64) -> f64 {
        let rate = match self.peak {
            // From one doubling to the next on a straight line: a power of two would need the system's libm.
            None => self.low * 2f64.powi(whole(grown)) * (1.0 + grown.fract()),
            Some(peak) => peak * (1.0 + (1.0 - BETA) * (grown - 1.0).powi(3)),
        };
        rate.clamp(self.low, self.high)
    }
}

/// Saturates, far above any rate.
#[expect(clippy::cast_possible_truncation)]
fn whole(grown: f64) -> i32 {
    grown as i32
}

#[expect(clippy::cast_precision_loss)]
fn seconds(from: Time, to: Time) -> f64 {
    to.since(from) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    /// A rate of which an attempt was served.
    fn open(low: f64, high: f64) -> Cubic {
        Cubic { is_open: true, ..Cubic::new(low, high) }
    }

    /// Releases one item after the other, for so many seconds.
    fn run(cubic: &mut Cubic, from: &mut u64, seconds: u64) {
        (0..10 * seconds).for_each(|_| {
            *from += SECOND / 10;
            cubic.released(Time(*from), true);
        });
    }

    #[test]
    fn under_other_bounds_it_goes_on_from_where_it_is() {
        let mut cubic = open(1.0, 100.0);
        let mut now = 0;
        cubic.released(Time(0), true);
        run(&mut cubic, &mut now, 4);
        for (low, high, rate) in [(3.0, 50.0, 16.0), (0.1, 12.0, 12.0), (20.0, 50.0, 20.0), (5.0, 90.0, 20.0)]
        {
            cubic.bound(low, high);
            assert!(is_near(cubic.rate(), rate), "{} from {low} to {high}", cubic.rate());
        }
        run(&mut cubic, &mut now, 1);
        assert!(is_near(cubic.rate(), 40.0), "{}", cubic.rate());
        assert!(cubic.answered(Time(now), Time(now + 1), true));
        let fallen = cubic.rate();
        cubic.bound(1.0, 1000.0);
        assert!(is_near(cubic.rate(), fallen) && cubic.peak().is_some());
        cubic.bound(1.0, 30.0);
        run(&mut cubic, &mut now, 600);
        cubic.bound(1.0, 1000.0);
        assert!(is_near(cubic.rate(), 30.0), "{}", cubic.rate());
        cubic.bound(90.0, 1000.0);
        cubic.bound(1.0, 1000.0);
        assert!(is_near(cubic.rate(), 90.0), "{}", cubic.rate());
    }

    #[test]
    fn it_doubles_in_each_second_until_an_attempt_is_throttled() {
        let (mut cubic, mut now) = (Cubic::new(1.0, 100.0), 0);
        cubic.released(Time(0), true);
        run(&mut cubic, &mut now, 3);
        assert!(is_near(cubic.rate(), 8.0));
        run(&mut cubic, &mut now, 9);
        assert!(is_near(cubic.rate(), 100.0));
    }

    /// What was used earlier may still count.
    #[test]
    fn before_one_is_served_attempts_that_are_throttled_tell_nothing() {
        let (mut cubic, mut now) = (Cubic::new(1.0, 100.0), 0);
        cubic.released(Time(0), true);
        for _ in 0..3 {
            run(&mut cubic, &mut now, 2);
            assert!(is_near(cubic.rate(), 4.0));
            assert!(cubic.answered(Time(now), Time(now), true));
            assert!(is_near(cubic.rate(), 1.0) && cubic.peak().is_none());
        }
        assert!(!cubic.answered(Time(now), Time(now), false));
        run(&mut cubic, &mut now, 5);
        assert!(is_near(cubic.rate(), 32.0));
        assert!(cubic.answered(Time(now), Time(now), true));
        assert!(is_near(cubic.rate(), 0.7 * 32.0));
    }

    #[test]
    fn it_falls_once_a_round_from_the_rate_of_the_attempt_and_is_back_after_k() {
        let (mut cubic, mut now) = (open(1.0, 1000.0), 0);
        cubic.released(Time(0), true);
        run(&mut cubic, &mut now, 5);
        // It was made two seconds ago.
        assert!(cubic.answered(Time(3 * SECOND), Time(now), true));
        assert!(is_near(cubic.rate(), 0.7 * 8.0));
        assert!(!cubic.answered(Time(4 * SECOND), Time(now + 3 * SECOND), true));
        assert!(!cubic.answered(Time(now), Time(now + 3 * SECOND), true));
        assert!(!cubic.answered(Time(now + 1), Time(now + SECOND / 2), true));
        // Four answers of about two seconds.
        let k = 4.0 * cubic.answer;
        run(&mut cubic, &mut now, 4);
        assert!(is_near(cubic.rate(), 8.0 * (1.0 + 0.3 * (4.0 / k - 1.0).powi(3))));
        run(&mut cubic, &mut now, 10);
        assert!(cubic.rate() > 8.0);
    }

    #[test]
    fn it_falls_to_the_part_that_was_served_if_that_is_less() {
        let (mut cubic, mut now) = (open(1.0, 1000.0), 0);
        cubic.released(Time(0), true);
        run(&mut cubic, &mut now, 5);
        assert!(cubic.answered(Time(now), Time(now), true));
        let fallen = cubic.clone();
        // The number served, that of all attempts, and the part that this tells.
        for (served, all, part) in
            [(1, 3, BETA), (1, 4, 0.25), (4, 10, 0.4), (6, 10, 0.6), (8, 10, BETA), (0, 10, LEAST_PART)]
        {
            let mut cubic = fallen.clone();
            for attempt in 1..all {
                assert!(!cubic.answered(Time(now + attempt), Time(now + attempt + 1), attempt > served));
            }
            assert!(cubic.answered(Time(now + all), Time(now + SECOND), true));
            assert!(is_near(cubic.rate(), 0.7 * 32.0 * part), "{served} of {all}: {}", cubic.rate());
        }
    }

    /// Two seconds, of a K of eight.
    #[test]
    fn an_attempt_was_made_at_the_rate_of_then() {
        for (grown, made_at) in [(1.5, 100.0 * (1.0 + 0.3 * 0.25f64.powi(3))), (0.1, 70.0)] {
            let (last, peak) = (Some(Time(9 * SECOND)), Some(100.0));
            let mut cubic = Cubic { rate: 100.0, peak, grown, last, answer: 2.0, ..open(1.0, 1e9) };
            assert!(cubic.answered(Time(7 * SECOND), Time(9 * SECOND), true));
            assert!(cubic.peak.is_some_and(|peak| is_near(peak, made_at)), "{:?}", cubic.peak);
        }
    }

    #[test]
    fn k_is_the_longest_of_three_times() {
        for (rate, answer, k) in [(10_000.0, 1.0, 7500f64.cbrt()), (10_000.0, 9.0, 36.0), (1.0, 1.0, 30.0)] {
            let cubic = Cubic { rate, answer, peak: Some(rate), ..Cubic::new(1.0, 1e9) };
            assert!(is_near(cubic.k(), k), "{rate}: {}", cubic.k());
        }
    }

    #[test]
    fn the_usual_answer_follows_the_last_ones_slowly() {
        let mut cubic = Cubic::new(1.0, 100.0);
        let usual = [1, 9, 2, 10].map(|seconds| {
            cubic.answered(Time(0), Time(seconds * SECOND), false);
            cubic.answer
        });
        assert!(
            usual.iter().zip([1.0, 2.0, 2.0, 3.0]).all(|(found, usual)| is_near(*found, usual)),
            "{usual:?}"
        );
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let mut cubic = Cubic::new(1.0, 100.0);
        (0..100).for_each(|second| cubic.released(Time(second * SECOND), false));
        assert!(is_near(cubic.rate(), 1.0));
        // An answer without a throttle says nothing.
        assert!(!cubic.answered(Time(0), Time(SECOND), false));
    }

    #[test]
    fn it_stays_between_its_bounds() {
        let mut cubic = Cubic::new(5.0, 9.0);
        for second in 0..1000 {
            let now = Time(second * 2 * SECOND);
            cubic.released(now, true);
            cubic.answered(now, Time(now.0 + 1), second % 3 == 0);
            assert!((5.0..=9.0).contains(&cubic.rate()));
        }
    }
}
