//! The sliding window log: an exact record of what was released in the last period.

use std::collections::VecDeque;

use super::{Ask, Limiter, Terms, Verdict};
use crate::time::Time;

/// At most `count` in any half-open window of length `period`.
///
/// The history is a ring of runs `(instant, cost)`. Releases made at one instant share a run, so a burst
/// takes one entry, and a large `count` reserves nothing in advance. A release made exactly `period` ago is
/// outside the window.
#[derive(Clone, Debug)]
pub struct Sliding {
    count: u64,
    period: u64,
    /// The sum of the costs of all runs.
    used: u64,
    /// The newest run; there is none if its cost is 0.
    newest: Run,
    /// The runs before it, oldest first. A limit of 1 a period never has any, so with a million keys the
    /// indirection saves more than it costs.
    #[expect(clippy::box_collection)]
    older: Option<Box<VecDeque<Run>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    at: Time,
    cost: u64,
}

impl Sliding {
    /// With no history.
    pub fn new(terms: Terms) -> Self {
        Sliding { count: terms.count, period: terms.period, used: 0, newest: Run::default(), older: None }
    }

    /// All runs, oldest first.
    fn runs(&self) -> impl Iterator<Item = &Run> {
        let newest = Some(&self.newest).filter(|run| run.cost > 0);
        self.older.iter().flat_map(|older| older.iter()).chain(newest)
    }

    fn is_over(&self, run: &Run, now: Time) -> bool {
        now.since(run.at) >= self.period
    }

    fn forget_until(&mut self, now: Time) {
        let period = self.period;
        let is_over = |run: &Run| now.since(run.at) >= period;
        if let Some(runs) = self.older.as_deref_mut() {
            while let Some(run) = runs.front().filter(|run| is_over(run)) {
                self.used -= run.cost;
                runs.pop_front();
            }
        }
        if is_over(&self.newest) {
            self.used -= self.newest.cost;
            self.newest.cost = 0;
        }
    }
}

impl Limiter for Sliding {
    fn earliest(&self, ask: &Ask) -> Verdict {
        if ask.cost > self.count {
            return Verdict::Never;
        }
        // Room has to be made by letting the oldest releases leave the window, up to this one.
        let mut excess = self.used.saturating_sub(self.count - ask.cost);
        if excess == 0 {
            return Verdict::At(ask.since);
        }
        let last = self.runs().find(|run| {
            excess = excess.saturating_sub(run.cost);
            excess == 0
        });
        let at = last.map_or(Verdict::At(ask.since), |run| Verdict::after(run.at, self.period));
        at.max(Verdict::At(ask.since))
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        let over = self.runs().take_while(|run| self.is_over(run, now));
        let used = self.used - over.map(|run| run.cost).sum::<u64>();
        self.count.saturating_sub(used) / ask.cost
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        self.forget_until(now);
        // What was released is known to fit; the bound only keeps the sum of the runs within a u64.
        let cost = ask.cost.min(u64::MAX - self.used);
        self.used += cost;
        if self.newest.cost > 0 && self.newest.at != now {
            self.older.get_or_insert_default().push_back(self.newest);
            self.newest.cost = 0;
        }
        self.newest = Run { at: now, cost: self.newest.cost + cost };
    }

    fn settled(&self) -> Verdict {
        match self.newest.cost {
            0 => Verdict::At(Time::ZERO),
            _ => Verdict::after(self.newest.at, self.period),
        }
    }

    fn drain(&mut self, at: Time) {
        let cost = self.count.saturating_sub(self.used);
        if cost > 0 {
            self.commit(at, &Ask { since: at, cost, key: b"" });
        }
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        self.forget_until(now);
        (self.count, self.period) = (terms.count, terms.period);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, one, releases, terms};
    use super::*;

    #[test]
    fn exactly_one_period_after_the_nth_last_is_allowed() {
        let mut limiter = Sliding::new(terms(2, 10));
        assert_eq!(instants(&mut limiter, &[0, 3, 3, 3, 13]), [0, 3, 10, 13, 20]);
    }

    #[test]
    fn idling_earns_no_burst() {
        let mut limiter = Sliding::new(terms(2, 10));
        assert_eq!(instants(&mut limiter, &[0, 100, 100, 100, 100]), [0, 100, 100, 110, 110]);
    }

    #[test]
    fn a_late_release_counts_from_when_it_happened() {
        let mut limiter = Sliding::new(terms(1, 10));
        limiter.commit(Time(7), &one(0));
        assert_eq!(instants(&mut limiter, &[8]), [17]);
    }

    #[test]
    fn costs_wait_for_enough_of_the_oldest_to_leave() {
        let mut limiter = Sliding::new(terms(10, 100));
        let items = [(0, 4), (1, 4), (2, 3), (2, 10), (2, 11), (3, 1)];
        assert_eq!(releases(&mut limiter, &items), [Some(0), Some(1), Some(100), Some(200), None, Some(300)]);
    }

    #[test]
    fn drained_is_silent_for_one_period() {
        let mut limiter = Sliding::new(terms(3, 10));
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[6, 6, 6, 6]), [15, 15, 15, 25]);
    }

    #[test]
    fn drained_when_nothing_is_left_it_is_as_before() {
        let mut limiter = Sliding::new(terms(1, 10));
        limiter.commit(Time(3), &one(3));
        limiter.drain(Time(5));
        assert_eq!(limiter.settled(), Verdict::At(Time(13)));
    }

    #[test]
    fn a_burst_takes_one_entry_and_a_huge_count_none() {
        let mut limiter = Sliding::new(terms(u64::MAX, 10));
        for _ in 0..1000 {
            limiter.commit(Time(3), &one(0));
        }
        assert_eq!((limiter.runs().count(), limiter.used), (1, 1000));
        assert!(limiter.older.is_none());
        assert_eq!(limiter.room(Time(3), &one(0)), u64::MAX - 1000);
    }

    #[test]
    fn past_the_end_of_time_is_never() {
        let mut limiter = Sliding::new(terms(1, u64::MAX));
        assert_eq!(releases(&mut limiter, &[(1, 1), (2, 1)]), [Some(1), None]);
    }

    #[test]
    fn other_terms_keep_the_history() {
        let mut raised = Sliding::new(terms(2, 10));
        assert_eq!(instants(&mut raised, &[0, 0]), [0, 0]);
        raised.retune(Time(1), terms(3, 10));
        assert_eq!(instants(&mut raised, &[1, 1]), [1, 10]);
        let mut lowered = Sliding::new(terms(2, 10));
        assert_eq!(instants(&mut lowered, &[0, 1]), [0, 1]);
        lowered.retune(Time(2), terms(1, 20));
        assert_eq!(instants(&mut lowered, &[2]), [21]);
    }

    #[test]
    fn settled_once_the_newest_has_left_the_window() {
        let mut limiter = Sliding::new(terms(2, 10));
        assert_eq!(limiter.settled(), Verdict::At(Time(0)));
        instants(&mut limiter, &[0, 4]);
        assert_eq!(limiter.settled(), Verdict::At(Time(14)));
    }

    #[test]
    fn what_has_left_the_window_takes_no_memory_and_does_not_return() {
        let mut limiter = Sliding::new(terms(2, 10));
        assert_eq!(limiter.runs().count(), 0);
        instants(&mut limiter, &[0; 100]);
        assert!(limiter.runs().count() <= 2);
        limiter.retune(Time(1000), terms(2, 10_000));
        assert_eq!(limiter.earliest(&one(1000)), Verdict::At(Time(1000)));
    }
}
