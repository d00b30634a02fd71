//! The sliding window log: an exact record of what was released in the last period.

use std::collections::VecDeque;

use super::{Ask, Limiter, Verdict};
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
    /// The sum of the costs in `ring`.
    used: u64,
    ring: VecDeque<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    at: Time,
    cost: u64,
}

impl Sliding {
    /// `count` per `period` nanoseconds.
    pub fn new(count: u64, period: u64) -> Self {
        Sliding { count, period, used: 0, ring: VecDeque::new() }
    }

    fn is_over(&self, run: &Run, now: Time) -> bool {
        now.since(run.at) >= self.period
    }

    fn forget_until(&mut self, now: Time) {
        while let Some(run) = self.ring.front().filter(|run| self.is_over(run, now)) {
            self.used -= run.cost;
            self.ring.pop_front();
        }
    }
}

impl Limiter for Sliding {
    fn earliest(&self, ask: &Ask) -> Verdict {
        if ask.cost > self.count {
            return Verdict::Never;
        }
        // Room has to be made by letting the oldest releases leave the window.
        let mut used = self.used;
        let mut at = Verdict::At(ask.since);
        for run in &self.ring {
            if used <= self.count - ask.cost {
                break;
            }
            used -= run.cost;
            at = at.max(Verdict::after(run.at, self.period));
        }
        at
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        let over = self.ring.iter().take_while(|run| self.is_over(run, now));
        let used = self.used - over.map(|run| run.cost).sum::<u64>();
        self.count.saturating_sub(used) / ask.cost
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        self.forget_until(now);
        self.used = self.used.saturating_add(ask.cost);
        match self.ring.back_mut() {
            Some(last) if last.at == now => last.cost = last.cost.saturating_add(ask.cost),
            _ => self.ring.push_back(Run { at: now, cost: ask.cost }),
        }
    }

    fn drain(&mut self, at: Time) {
        let cost = self.count.saturating_sub(self.used);
        if cost > 0 {
            self.commit(at, &Ask { since: at, cost });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, releases};
    use super::*;

    #[test]
    fn exactly_one_period_after_the_nth_last_is_allowed() {
        let mut limiter = Sliding::new(2, 10);
        assert_eq!(instants(&mut limiter, &[0, 3, 3, 3, 13]), [0, 3, 10, 13, 20]);
    }

    #[test]
    fn idling_earns_no_burst() {
        let mut limiter = Sliding::new(2, 10);
        assert_eq!(instants(&mut limiter, &[0, 100, 100, 100, 100]), [0, 100, 100, 110, 110]);
    }

    #[test]
    fn a_late_release_counts_from_when_it_happened() {
        let mut limiter = Sliding::new(1, 10);
        limiter.commit(Time(7), &Ask { since: Time(0), cost: 1 });
        assert_eq!(instants(&mut limiter, &[8]), [17]);
    }

    #[test]
    fn costs_wait_for_enough_of_the_oldest_to_leave() {
        let mut limiter = Sliding::new(10, 100);
        let items = [(0, 4), (1, 4), (2, 3), (2, 10), (2, 11), (3, 1)];
        assert_eq!(releases(&mut limiter, &items), [Some(0), Some(1), Some(100), Some(200), None, Some(300)]);
    }

    #[test]
    fn drained_is_silent_for_one_period() {
        let mut limiter = Sliding::new(3, 10);
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[6, 6, 6, 6]), [15, 15, 15, 25]);
    }

    #[test]
    fn a_burst_takes_one_entry_and_a_huge_count_none() {
        let mut limiter = Sliding::new(u64::MAX, 10);
        let ask = Ask { since: Time(0), cost: 1 };
        for _ in 0..1000 {
            limiter.commit(Time(3), &ask);
        }
        assert_eq!((limiter.ring.len(), limiter.used), (1, 1000));
        assert!(limiter.ring.capacity() < 10);
        assert_eq!(limiter.room(Time(3), &ask), u64::MAX - 1000);
    }

    #[test]
    fn past_the_end_of_time_is_never() {
        let mut limiter = Sliding::new(1, u64::MAX);
        assert_eq!(releases(&mut limiter, &[(1, 1), (2, 1)]), [Some(1), None]);
    }
}
