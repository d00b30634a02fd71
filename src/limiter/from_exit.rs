//! Counting from the end of a command instead of its start.

use super::{Ask, Limiter, Terms, Verdict};
use crate::time::Time;

/// A release occupies its place from its start until it is finished, and counts as made at that instant.
///
/// So under a sliding window, no more than `count` are running or ended less than `period` ago. Under a minimum gap,
/// one starts no sooner than the gap after the end of the one before, and they never overlap.
#[derive(Clone, Debug)]
pub struct FromExit<L> {
    inner: L,
    /// The sum of the costs of what is running.
    held: u64,
    /// Whether nothing may start while anything runs.
    is_serial: bool,
}

impl<L: Limiter> FromExit<L> {
    /// As `inner`, with what runs added to every ask.
    pub fn overlapping(inner: L) -> Self {
        FromExit { inner, held: 0, is_serial: false }
    }

    /// As `inner`, but for one at a time.
    pub fn serial(inner: L) -> Self {
        FromExit { inner, held: 0, is_serial: true }
    }
}

impl<L: Limiter> Limiter for FromExit<L> {
    /// Never means: not before something has finished.
    fn earliest(&self, ask: &Ask) -> Verdict {
        match ask.cost.checked_add(self.held) {
            _ if self.is_serial && self.held > 0 => Verdict::Never,
            Some(cost) => self.inner.earliest(&Ask { cost, ..*ask }),
            None => Verdict::Never,
        }
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        u64::from(self.earliest(ask).allows(now))
    }

    fn commit(&mut self, _: Time, ask: &Ask) {
        self.held = self.held.saturating_add(ask.cost);
    }

    fn finish(&mut self, now: Time, ask: &Ask) {
        self.held = self.held.saturating_sub(ask.cost);
        self.inner.commit(now, ask);
    }

    fn settled(&self) -> Verdict {
        if self.held > 0 { Verdict::Never } else { self.inner.settled() }
    }

    fn drain(&mut self, at: Time) {
        self.inner.drain(at);
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        self.inner.retune(now, terms);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{one, terms};
    use super::super::{Interval, Sliding};
    use super::*;

    #[test]
    fn what_runs_keeps_its_place_and_then_for_a_period() {
        let mut limiter = FromExit::overlapping(Sliding::new(terms(2, 10)));
        limiter.commit(Time(0), &one(0));
        limiter.commit(Time(1), &one(1));
        assert_eq!(limiter.earliest(&one(50)), Verdict::Never);
        assert_eq!(limiter.settled(), Verdict::Never);
        limiter.finish(Time(60), &one(0));
        assert_eq!(limiter.earliest(&one(61)), Verdict::At(Time(70)));
        limiter.finish(Time(65), &one(0));
        assert_eq!(limiter.earliest(&one(66)), Verdict::At(Time(70)));
        assert_eq!(limiter.settled(), Verdict::At(Time(75)));
    }

    #[test]
    fn a_gap_from_end_to_start_leaves_no_overlap() {
        let mut limiter = FromExit::serial(Interval::new(terms(1, 10)));
        limiter.commit(Time(0), &one(0));
        assert_eq!(limiter.earliest(&one(50)), Verdict::Never);
        limiter.finish(Time(60), &one(0));
        assert_eq!(limiter.earliest(&one(60)), Verdict::At(Time(70)));
    }

    #[test]
    fn one_at_a_time_is_let_in_while_there_is_room() {
        let mut limiter = FromExit::overlapping(Sliding::new(terms(2, 10)));
        let rooms = [(); 3].map(|()| {
            let room = limiter.room(Time(0), &one(0));
            limiter.commit(Time(0), &one(0));
            room
        });
        assert_eq!(rooms, [1, 1, 0]);
    }

    #[test]
    fn the_rule_beneath_is_drained_and_has_its_terms_changed() {
        let mut limiter = FromExit::overlapping(Sliding::new(terms(1, 10)));
        limiter.drain(Time(5));
        assert_eq!(limiter.earliest(&one(5)), Verdict::At(Time(15)));
        limiter.retune(Time(6), terms(1, 20));
        assert_eq!(limiter.earliest(&one(6)), Verdict::At(Time(25)));
    }
}
