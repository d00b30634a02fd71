//! The instant since which a limit's history is complete.

use crate::time::Time;

/// Tracks up to which instant a limit may have forgotten past releases.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    first: Option<Time>,
    last: Time,
    /// The last instant whose releases may have been forgotten under earlier terms.
    gap: Option<Time>,
}

impl Memory {
    pub(super) fn note(&mut self, at: Time) {
        self.first.get_or_insert(at);
        self.last = at;
    }

    /// Ends terms under which each release was remembered for `span` nanoseconds. Returns the last instant whose
    /// releases may have been forgotten at `now`.
    pub(super) fn change_terms(&mut self, now: Time, span: Option<u64>) -> Option<Time> {
        let horizon = span.and_then(|span| now.0.checked_sub(span)).map(Time);
        let has_begun = |horizon: &Time| self.first.is_some_and(|first| first <= *horizon);
        let forgotten = horizon.filter(has_begun).map(|horizon| horizon.min(self.last));
        self.gap = forgotten.max(self.gap);
        self.gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_no_later_than_the_last_release() {
        let mut memory = Memory::default();
        assert_eq!(memory.change_terms(Time(50), Some(10)), None);
        [3, 9].into_iter().for_each(|at| memory.note(Time(at)));
        let forgotten = [12, 13, 14, 50].map(|now| memory.clone().change_terms(Time(now), Some(10)));
        assert_eq!(forgotten, [None, Some(3), Some(4), Some(9)].map(|at| at.map(Time)));
        assert_eq!([None, Some(51)].map(|span| memory.change_terms(Time(50), span)), [None, None]);
    }

    #[test]
    fn longer_terms_bring_nothing_back() {
        let mut memory = Memory::default();
        (0..20).for_each(|at| memory.note(Time(at)));
        assert_eq!(memory.change_terms(Time(20), Some(2)), Some(Time(18)));
        assert_eq!(memory.change_terms(Time(21), Some(10)), Some(Time(18)));
        assert_eq!(memory.change_terms(Time(21), Some(1)), Some(Time(19)));
    }
}
