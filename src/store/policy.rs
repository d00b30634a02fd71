//! The limits as a store keeps them, with the reserve for late wake-ups.

use anyhow::{Result, ensure};

use super::reserve::{MILLISECOND, Reserve};
use crate::config::{Defaults, Rate, RateText, Selector, format_duration};
use crate::gate::BookingTerms;
use crate::rule::{Algorithm, AnyRule, InHours, RuleInHours, Terms};
use crate::time::{Civil, Hours, SECOND, Wall};

/// One limit as a store keeps it: its terms are those for slots, with the reserve included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The rule.
    pub algorithm: Algorithm,
    /// Its numbers, without a wall clock. The reserve makes the period longer and the burst smaller, but at least 1 if
    /// the rule has a burst.
    pub terms: Terms,
    /// The hours in which it is asked, if not always.
    pub during: Option<Box<Hours>>,
    /// A new state begins as if all of it had just been used.
    pub starts_empty: bool,
}

impl Quota {
    /// A quota that is always asked and starts full.
    pub fn new(algorithm: Algorithm, terms: Terms) -> Self {
        Quota { algorithm, terms, during: None, starts_empty: false }
    }

    /// The most that one release may cost.
    pub fn most(&self) -> u64 {
        if self.during.is_some() { u64::MAX } else { self.max_cost() }
    }

    /// The most that one release may cost while the limit is asked.
    fn max_cost(&self) -> u64 {
        self.algorithm.spec().max_slot_cost(&self.terms)
    }

    /// The rule for booking slots that are valid for `late` nanoseconds, by this wall clock.
    pub fn rule(&self, wall: Wall, late: u64) -> RuleInHours {
        let rule = AnyRule::new(self.algorithm, Terms { wall, late, ..self.terms });
        let hours = InHours::of(self.during.as_deref(), wall);
        RuleInHours { rule, hours, max_cost: self.max_cost(), late }
    }

    /// As [`Spec::burst`](crate::rule::Spec::burst).
    pub fn at_once(&self) -> u64 {
        (self.algorithm.spec().burst)(&self.terms)
    }

    /// The number released in a second, on average.
    pub fn in_second(&self) -> u64 {
        in_time(SECOND, self.terms.count, self.terms.period)
    }
}

/// All limits of a run, as a store keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The limits, in their order. At least one.
    pub quotas: Vec<Quota>,
    /// D: the nanoseconds for which a slot is valid.
    pub validity: u64,
    /// The most nanoseconds that slots are given out ahead.
    pub horizon: u64,
    /// The most slots that one order may ask for.
    pub span: u64,
    /// The limits, with their margins.
    pub rates: Vec<Rate>,
    /// The limits in words. Processes that share a state must agree on them.
    pub text: String,
}

/// An order is for at most the slots of this number of nanoseconds.
const SPAN: u64 = 50 * MILLISECOND;

/// The most slots of an order, whatever the rate: a store serves one order at a time.
const MAX_SLOTS: u64 = 1000;

impl Policy {
    /// The policy for these limits, of which there is at least one. The `reserve` sets the margins that they do not.
    pub fn new(rates: &[Rate], reserve: Reserve) -> Self {
        let rates: Vec<_> =
            rates.iter().map(|rate| Rate { margin: reserve.margin(rate), ..rate.clone() }).collect();
        Policy {
            validity: rates.iter().map(|rate| rate.margin).min().unwrap_or(0),
            horizon: rates.iter().map(horizon).max().unwrap_or(0),
            span: bounding(&rates).into_iter().map(span).min().unwrap_or(MAX_SLOTS),
            text: rates.iter().map(text).collect::<Vec<_>>().join(" "),
            quotas: rates.iter().map(quota).collect(),
            rates,
        }
    }

    /// The policy that a [`text`](Self::text) stands for. All margins are given, so no reserve adds any.
    ///
    /// # Errors
    /// It is not the text of a policy.
    pub fn of(text: &str) -> Result<Self> {
        Ok(Policy::new(&Policy::rates(text)?, Reserve::LOCAL))
    }

    /// The terms of its slots, after this number of changes of the limits.
    pub fn booking_terms(&self, changes: u64) -> BookingTerms {
        BookingTerms {
            span: self.span,
            longest_span: self.longest_span(),
            most: self.quotas.iter().map(Quota::most).collect(),
            validity: self.validity,
            changes,
            ..BookingTerms::default()
        }
    }

    /// The rules for booking slots, by this wall clock.
    pub fn rules(&self, wall: Wall) -> Box<[RuleInHours]> {
        self.quotas.iter().map(|quota| quota.rule(wall, self.validity)).collect()
    }

    /// Checks that slots are possible at all.
    ///
    /// # Errors
    /// Civil periods are shorter than the time to be kept free at their ends.
    pub fn check(&self) -> Result<()> {
        for quota in self.of_calendar() {
            let free = quota.terms.margin.saturating_mul(2).saturating_add(self.validity);
            ensure!(
                Civil::new(quota.terms.period).is_none_or(|civil| free < civil.longest()),
                "'{}' leaves nothing of a period: slots keep {} from its start and {} from its end: make \
                 the period longer, or margin= shorter if it is given",
                self.text,
                format_duration(quota.terms.margin),
                format_duration(free - quota.terms.margin)
            );
        }
        Ok(())
    }

    /// What tells keys apart, if each has its own slots.
    pub fn key(&self) -> Option<&Selector> {
        self.rates.iter().find(|rate| rate.is_by_key()).and_then(|rate| rate.key.as_ref())
    }

    /// True if a limit goes by the calendar or by hours.
    pub fn goes_by_wall(&self) -> bool {
        self.quotas.iter().any(|quota| quota.terms.zone.is_some())
    }

    /// The limits that count by periods of the calendar.
    pub fn of_calendar(&self) -> impl Iterator<Item = &Quota> {
        self.quotas.iter().filter(|quota| quota.algorithm.spec().is_civil())
    }

    /// The limits that a [`text`](Self::text) stands for, each with its margin.
    ///
    /// # Errors
    /// It is not the text of a policy.
    pub fn rates(text: &str) -> Result<Vec<Rate>> {
        let rate = |text| RateText::parse_pausing(text)?.resolve(&Defaults::default());
        text.split_whitespace().map(rate).collect()
    }

    /// The most slots of an order while others book, too, so that all processes get the same.
    pub fn few(&self) -> u64 {
        self.span.div_ceil(8)
    }

    /// The most slots of an order if answers take long: a quarter of the smallest count.
    fn longest_span(&self) -> u64 {
        bounding(&self.rates).into_iter().map(|rate| quarter(rate.count)).min().unwrap_or(MAX_SLOTS)
    }

    /// The most slots of an order under the limit with this index, if it is not asked about all items at all times.
    pub fn most_at_once(&self, limit: usize) -> Option<u64> {
        let rate = self.rates.get(limit).filter(|rate| rate.count > 0 && !is_general(rate));
        rate.map(|rate| quarter(rate.count))
    }
}

/// The limit in words, as far as processes that share it must agree.
fn text(rate: &Rate) -> String {
    Rate { starts_empty: false, ..rate.clone() }.to_string()
}

/// The terms that slots must keep so that releases, which may be late by the margin, keep those of `rate`.
fn quota(rate: &Rate) -> Quota {
    let terms = Terms { margin: rate.margin, ..rate.terms() };
    let terms = rate.algorithm.spec().slot_terms(&terms, rate.margin);
    Quota {
        during: rate.during.clone(),
        starts_empty: rate.starts_empty,
        ..Quota::new(rate.algorithm, terms)
    }
}

/// A few periods: enough to serve a waiting fleet in order, but few enough that the bookings of dead processes expire
/// soon. After a loss of the state, this much may have been booked without anyone knowing.
fn horizon(rate: &Rate) -> u64 {
    rate.period.saturating_mul(5).clamp(SECOND, 3600 * SECOND)
}

/// The limits that bound all orders: those that are asked about all items at all times, or else all of them. The others
/// bound an order when it is booked.
fn bounding(rates: &[Rate]) -> Vec<&Rate> {
    let limits = rates.iter().filter(|rate| rate.count > 0);
    let general: Vec<_> = limits.clone().filter(|rate| is_general(rate)).collect();
    if general.is_empty() { limits.collect() } else { general }
}

fn is_general(rate: &Rate) -> bool {
    rate.during.is_none() && rate.only.is_none()
}

fn quarter(count: u64) -> u64 {
    (count / 4).clamp(1, MAX_SLOTS)
}

fn span(rate: &Rate) -> u64 {
    in_time(SPAN, rate.count, rate.period).min(rate.count / 4).clamp(1, MAX_SLOTS)
}

/// The part of `count` per `period` nanoseconds that accrues in this number of nanoseconds.
fn in_time(nanos: u64, count: u64, period: u64) -> u64 {
    u64::try_from(u128::from(count) * u128::from(nanos) / u128::from(period)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse::<Rate>().unwrap()
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
        // Rate, D, then P and B as slots must keep them.
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
            // No wake-up is more exact than that.
            ("10000/s,algo=interval", ms / 20, 1500 * ms, 0),
            ("10/s,algo=bucket", 10 * ms, 1000 * ms, 9),
            ("1000/s,algo=bucket,burst=50", ms, 1000 * ms, 49),
            ("1000/s,algo=bucket,burst=50,margin=10ms", 10 * ms, 1000 * ms, 40),
            ("10/s,algo=bucket,burst=100", 10 * ms, 1000 * ms, 99),
            // One of the ten to be held back is missing.
            ("1000/s,algo=bucket,burst=10,margin=10ms", 10 * ms, 1100 * ms, 1),
            ("10/s,algo=bucket,burst=1", ms, 1010 * ms, 1),
        ];
        for (rate, validity, period, burst) in table {
            let policy = policy(&[rate]);
            let quota = &policy.quotas[0];
            assert_eq!(
                (policy.validity, quota.terms.period, quota.terms.burst),
                (validity, period, burst),
                "{rate}"
            );
        }
    }

    /// For a bucket: with any number of releases in a row, as close as slots allow, the limit holds even if the first
    /// is late and the last is not.
    #[test]
    fn a_bucket_of_slots_keeps_the_bucket_of_releases() {
        for (count, period, burst, late) in
            [(10, 1000, 10, 10), (1000, 1000, 50, 10), (7, 100, 1, 3), (3, 100, 2, 99)]
        {
            let rate = rate(&format!("{count}/{period}ns,algo=bucket,burst={burst},margin={late}ns"));
            let quota = quota(&rate);
            for row in 1..200u64 {
                // In units of 1/count nanoseconds.
                let apart = row.saturating_sub(quota.terms.burst) * quota.terms.period;
                let needed = row.saturating_sub(burst) * period;
                assert!(row <= burst || apart >= needed + late * count, "{rate:?}: {row}");
            }
        }
    }

    #[test]
    fn a_period_of_which_nothing_is_left_is_refused() {
        let check = |rate| policy(&[rate]).check().map_err(|error| error.to_string());
        assert_eq!(check("9/s,algo=calendar,margin=300ms,tz=UTC"), Ok(()));
        let error = check("9/s,algo=calendar,margin=400ms,tz=UTC").unwrap_err();
        assert!(error.contains("400ms from its start and 800ms from its end"), "{error}");
    }

    #[test]
    fn a_pause_does_not_make_orders_smaller() {
        let pause = "0/s,during=09:00-17:00,tz=UTC";
        let pausing =
            |text: &str| RateText::parse_pausing(text).unwrap().resolve(&Defaults::default()).unwrap();
        let both = [pausing(pause), pausing("10000/s")];
        let span = |rates: &[Rate]| {
            let policy = Policy::new(rates, Reserve::LOCAL);
            (policy.span, policy.longest_span())
        };
        assert_eq!(span(&both), span(&both[1..]));
        assert_eq!(span(&both[..1]), (MAX_SLOTS, MAX_SLOTS));
    }

    /// Otherwise a distant server would keep a rate low at times at which nothing asks for that.
    #[test]
    fn what_is_not_always_asked_bounds_only_what_it_is_asked_about() {
        for partial in ["40/s,during=09:00-17:00,tz=UTC", "40/s,key=col:1,only=a"] {
            let both = policy(&[partial, "400/s"]);
            assert_eq!((both.span, both.longest_span()), (20, 100), "{partial}");
            assert_eq!([0, 1].map(|limit| both.most_at_once(limit)), [Some(10), None]);
            let alone = policy(&[partial]);
            assert_eq!((alone.span, alone.longest_span()), (2, 10), "{partial}");
        }
    }

    #[test]
    fn a_policy_is_the_same_for_all_who_mean_the_same() {
        assert_eq!(policy(&["10/s"]).text, policy(&["10/1000ms,margin=10ms,start=empty"]).text);
        assert_ne!(policy(&["10/s"]).text, policy(&["10/s,margin=20ms"]).text);
        let both = policy(&["10/s", "600/m"]);
        assert_eq!((both.validity, both.horizon, both.span), (10 * MILLISECOND, 300 * SECOND, 1));
        assert_eq!(both.text, "10/1s,algo=sliding,margin=10ms 600/1m,algo=sliding,margin=60ms");
    }

    #[test]
    fn no_more_than_a_quarter_and_50_ms_worth_is_booked_at_once() {
        let table = [("1/s", 1), ("10/s", 1), ("100/s", 5), ("100/200ms", 25), ("1M/s", 1000), ("8/ms", 2)];
        for (rate, span) in table {
            assert_eq!(policy(&[rate]).span, span, "{rate}");
        }
        assert_eq!(policy(&["100/s", "1M/s"]).span, 5);
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
        assert_eq!(rates.map(|rate| policy(&[rate]).quotas[0].at_once()), [10, 10, 1, 4]);
        assert_eq!(most("10/s,during=Mon,tz=UTC"), u64::MAX, "it may wait until the hours end");
    }

    #[test]
    fn the_key_is_that_of_the_limits_that_have_one() {
        let key = |texts: &[&str]| policy(texts).key().map(ToString::to_string);
        assert_eq!(key(&["10/s", "9/s,key=col:2"]).as_deref(), Some("col:2"));
        assert_eq!(key(&["10/s", "9/s,key=col:2,only=a"]), None);
    }

    #[test]
    fn from_afar_a_quarter_of_the_least_count_is_booked_at_once() {
        let longest = |texts: &[&str]| policy(texts).longest_span();
        assert_eq!((longest(&["100/s", "40/m"]), longest(&["1/s"]), longest(&["1M/s"])), (10, 1, 1000));
    }

    #[test]
    fn a_state_begins_empty_if_that_is_asked_for() {
        let starts_empty = |rate| policy(&[rate]).quotas[0].starts_empty;
        assert_eq!(["10/s", "10/s,start=empty"].map(starts_empty), [false, true]);
    }
}
