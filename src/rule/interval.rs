//! The minimum gap, also known as pacing, or as GCRA (ITU-T I.371) with no tolerance.

use super::{Ask, Extra, Rule, Spec, Terms, Usage};
use crate::time::Time;

/// Consecutive releases at least `period/count` apart, for each unit of cost.
///
/// The gap is measured from when the last release really happened: lost time is never made up.
#[derive(Clone, Debug)]
pub struct Interval {
    terms: Terms,
    /// The gap after a cost of 1, the usual one.
    shortest: u64,
}

impl Interval {
    /// The nanoseconds that must pass after a release of this cost.
    fn gap(&self, cost: u64) -> u128 {
        if cost == 1 { self.shortest.into() } else { self.terms.gap(cost) }
    }

    /// The end of the gap after the last release.
    fn next(&self, last: &Usage) -> Time {
        match (self.terms.count, last.cost) {
            (_, 0) => Time::ZERO,
            (0, _) => Time::NEVER,
            (_, cost) => last.at.after(self.gap(cost)),
        }
    }

    /// The cost that the last release still owes at `now`, if a later one may leave before it.
    fn owed(&self, last: &Usage, now: Time) -> u64 {
        if self.terms.late == 0 {
            return 0;
        }
        let accrued = u128::from(now.since(last.at)) * u128::from(self.terms.count);
        let accrued = accrued / u128::from(self.terms.period);
        last.cost.saturating_sub(u64::try_from(accrued).unwrap_or(u64::MAX))
    }
}

impl Rule for Interval {
    const SPEC: Spec = Spec {
        name: "interval",
        help: "At least P/N between one release and the next. Even pacing, with\n\
               no burst at all: throttle -A interval -r 10/m",
        takes: &[Extra::FromExit],
        accrues: true,
        burst: |_| 1,
        max_per_window: |terms| terms.count,
        check: |_| Ok(()),
    };

    /// The last release.
    type State = Usage;

    fn new(terms: Terms) -> Self {
        Interval { terms, shortest: terms.period.div_ceil(terms.count.max(1)) }
    }

    fn earliest(&self, last: &Usage, ask: Ask) -> Time {
        match self.terms.count {
            0 => Time::NEVER,
            _ => self.next(last).max(ask.eligible_at),
        }
    }

    /// The gap begins when a release ends.
    fn earliest_during(&self, _last: &Usage, _ask: Ask, _running: u64) -> Time {
        Time::NEVER
    }

    fn available(&self, last: &Usage, now: Time, ask: Ask, pending: u64) -> u64 {
        u64::from(pending == 0 && self.earliest(last, ask) <= now)
    }

    fn last_of(&self, last: &Usage, ask: Ask, count: u64) -> Time {
        let Some(gaps) = count.checked_sub(1) else { return ask.eligible_at };
        self.earliest(last, ask).after(self.gap(ask.cost).saturating_mul(gaps.into()))
    }

    fn commit(&self, last: &mut Usage, now: Time, ask: Ask) {
        *last = Usage { at: now, cost: ask.cost.max(self.owed(last, now)) };
    }

    fn overrun(&self, last: &mut Usage, at: Time, ask: Ask) {
        if self.next(last) < at.after(self.gap(ask.cost)) {
            self.commit(last, at, ask);
        }
    }

    fn idle_at(&self, last: &Usage) -> Time {
        self.next(last)
    }

    fn exhaust(&self, last: &mut Usage, at: Time) {
        self.overrun(last, at, Ask { eligible_at: at, cost: 1 });
    }

    /// As if a whole count of releases had been made at once.
    fn quarantine(&self, last: &mut Usage, at: Time) {
        self.overrun(last, at, Ask { eligible_at: at, cost: self.terms.count.max(1) });
    }

    /// A release that is known may hold up others for longer than one of cost 1 that is later.
    fn recede(&self, last: &mut Usage, at: Time) {
        if last.at > at {
            *last = Usage::default();
        }
        self.exhaust(last, at);
    }

    fn restart(&self, last: &mut Usage) {
        last.at = Time::ZERO;
    }

    fn carry_over(&self, last: &mut Usage, _: &Self, _: Time, forgotten: Option<Time>) {
        if let Some(at) = forgotten.filter(|_| last.cost == 0) {
            *last = Usage { at, cost: 1 };
        }
    }

    /// As if the latest release had cost as much as the dearest.
    fn note_evicted(&self, evicted: &mut Usage, last: &Usage) {
        *evicted = Usage { at: evicted.at.max(last.at), cost: evicted.cost.max(last.cost) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Stateful, terms};
    use super::*;

    #[test]
    fn the_first_is_immediate_and_the_rest_keep_the_gap() {
        let mut limiter = Stateful::new(Interval::new(terms(2, 20)));
        assert_eq!(limiter.instants(&[3, 3, 14, 50, 51]), [3, 13, 23, 50, 60]);
    }

    #[test]
    fn the_gap_is_rounded_up() {
        let mut limiter = Stateful::new(Interval::new(terms(3, 10)));
        assert_eq!(limiter.instants(&[0, 0, 0]), [0, 4, 8]);
    }

    #[test]
    fn a_dear_release_makes_the_next_wait_longer() {
        let mut limiter = Stateful::new(Interval::new(terms(1, 10)));
        assert_eq!(limiter.releases(&[(0, 5), (0, 1), (0, 1)]), [0, 50, 60].map(Some));
    }

    #[test]
    fn what_is_known_when_later_releases_are_forgotten_holds_up_others_as_before() {
        let mut limiter = Stateful::new(Interval::new(terms(1, 10)));
        limiter.releases(&[(30, 4)]);
        limiter.rule.recede(&mut limiter.state, Time(35));
        assert_eq!(limiter.idle_at(), Time(70));
        limiter.rule.recede(&mut limiter.state, Time(25));
        assert_eq!(limiter.idle_at(), Time(35));
    }

    #[test]
    fn exhausted_waits_one_gap() {
        let mut limiter = Stateful::new(Interval::new(terms(1, 10)));
        limiter.exhaust(5);
        assert_eq!(limiter.instants(&[5, 5]), [15, 25]);
        limiter.releases(&[(35, 4)]);
        limiter.exhaust(40);
        assert_eq!(limiter.idle_at(), Time(75));
    }

    #[test]
    fn in_quarantine_a_whole_count_was_used() {
        for (count, idle_at) in [(1, 15), (3, 35), (0, 15)] {
            let mut limiter = Stateful::new(Interval::new(terms(count, 30)));
            limiter.rule.quarantine(&mut limiter.state, Time(5));
            limiter.retune(6, terms(1, 10));
            assert_eq!(limiter.idle_at(), Time(idle_at));
        }
    }

    #[test]
    fn of_those_evicted_the_latest_counts_as_the_dearest() {
        let (rule, mut evicted) = (Interval::new(terms(1, 10)), Usage::default());
        for (at, cost) in [(3, 2), (7, 1), (5, 4)] {
            rule.note_evicted(&mut evicted, &Usage { at: Time(at), cost });
        }
        assert_eq!(evicted, Usage { at: Time(7), cost: 4 });
    }

    /// Without a limit's hours, none would be before the gap of another has ended.
    #[test]
    fn each_slot_keeps_its_gap_as_it_may_be_used_after_later_ones() {
        let idle_at = |late, costs: &[(u64, u64)]| {
            let mut limiter = Stateful::new(Interval::new(Terms { late, ..terms(2, 10) }));
            costs.iter().for_each(|&(at, cost)| limiter.commit(at, Ask { eligible_at: Time(at), cost }));
            limiter.idle_at().0
        };
        for (costs, slots, releases) in [
            (&[(0, 6), (0, 1)][..], 30, 5),
            (&[(0, 6), (10, 1)], 30, 15),
            (&[(0, 6), (11, 1)], 31, 16),
            (&[(0, 6), (10, 1), (20, 1)], 30, 25),
            (&[(0, 6), (29, 2)], 39, 39),
            (&[(0, 6), (30, 1)], 35, 35),
        ] {
            assert_eq!((idle_at(1, costs), idle_at(0, costs)), (slots, releases), "{costs:?}");
        }
    }

    #[test]
    fn past_the_end_of_time_is_never() {
        let mut limiter = Stateful::new(Interval::new(terms(1, u64::MAX)));
        assert_eq!(limiter.releases(&[(1, 1), (1, 1)]), [Some(1), None]);
    }

    #[test]
    fn other_terms_measure_from_the_last_release() {
        let mut limiter = Stateful::new(Interval::new(terms(1, 10)));
        assert_eq!(limiter.instants(&[0]), [0]);
        limiter.retune(3, terms(1, 100));
        assert_eq!(limiter.idle_at(), Time(100));
        limiter.retune(5, terms(2, 10));
        assert_eq!(limiter.instants(&[5]), [5]);
        limiter.retune_after(Some(5), 5, terms(1, 10));
        assert_eq!(limiter.idle_at(), Time(15));
        let mut unused = Stateful::new(Interval::new(terms(1, 10)));
        unused.retune_after(Some(3), 5, terms(1, 10));
        assert_eq!(unused.idle_at(), Time(13));
    }

    #[test]
    fn the_last_of_many_is_known_without_releasing_them() {
        let mut limiter = Stateful::new(Interval::new(terms(20, 60)));
        assert_eq!(limiter.last_of(0, 1, 100), Some(297));
        limiter.releases(&[(10, 4)]);
        for count in 0..60 {
            (1..=20).for_each(|cost| _ = limiter.last_of(15, cost, count));
        }
    }

    #[test]
    fn a_count_of_0_releases_nothing_even_at_first() {
        assert_eq!(Stateful::new(Interval::new(terms(0, 10))).releases(&[(4, 1)]), [None]);
    }
}
