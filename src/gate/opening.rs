//! The answer of a gate.

use crate::rule::{AnyRule, AnyState, Ask};
use crate::time::{SECOND, Time};

/// The stretch of time in which a release is allowed, as long as nothing else is charged: from an instant until the
/// release is refused again.
///
/// It says nothing about `until` and later: ask again. So the latest of several answers is not the answer of all; see
/// `Opening::agreed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The first instant.
    pub from: Time,
    /// The first instant after `from` at which the answer no longer stands; never if it stands for ever.
    pub until: Time,
}

/// The most rounds in which limits are asked until they agree.
const MAX_ROUNDS: usize = 1000;

/// Two years, in nanoseconds. Days, weeks and changes of the clock repeat within this time: limits that have not agreed
/// by then never will.
const PATTERN: u64 = 2 * 366 * 86_400 * SECOND;

#[cfg(test)]
std::thread_local! {
    /// The number of times that limits were asked to agree on an opening.
    pub(crate) static ASKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Opening {
    /// At no instant.
    pub const NEVER: Opening = Opening { from: Time::NEVER, until: Time::NEVER };

    /// Allowed from an instant on, for ever.
    pub fn at(from: Time) -> Self {
        Opening { from, until: Time::NEVER }
    }

    /// The first opening of a rule that is not over by `from`, while releases that cost `running` have not ended. The
    /// ask keeps its `eligible_at`, from which a bucket accrues.
    pub(crate) fn of(rule: &AnyRule, state: &AnyState, ask: Ask, running: u64, from: Time) -> Self {
        let earliest = |ask| match running {
            0 => rule.earliest(state, ask),
            _ => rule.earliest_during(state, ask, running),
        };
        let first = earliest(ask);
        let until = rule.closes(first);
        if until > from {
            return Opening { from: first.max(from), until };
        }
        // A rule that refuses again does not accrue, so `eligible_at` may change.
        let first = earliest(Ask { eligible_at: from, ..ask });
        Opening { from: first, until: rule.closes(first) }
    }

    /// The first opening, from `eligible_at` on, that all agree on; never, if they still disagree after years. Each is
    /// asked from the latest answer on, until that stands.
    pub(super) fn agreed<'a, L: 'a>(
        eligible_at: Time,
        all: &(impl Iterator<Item = L> + Clone),
        ask: impl Fn(L, Time) -> Opening,
    ) -> Self {
        #[cfg(test)]
        ASKED.set(ASKED.get() + 1);
        let mut from = eligible_at;
        for _ in 0..MAX_ROUNDS {
            let mut agreed = Opening::at(from);
            for one in all.clone() {
                let next = ask(one, from);
                if next.from == Time::NEVER {
                    return Opening::NEVER;
                }
                from = next.from;
                agreed = Opening { from, until: agreed.until.min(next.until) };
            }
            if !agreed.is_over(from) {
                return agreed;
            }
        }
        if from.since(eligible_at) > PATTERN {
            return Opening::NEVER;
        }
        // No agreement yet: an opening that ends as it begins makes the caller ask again at that instant.
        Opening { from, until: from }
    }

    /// True if a release at `now` is allowed.
    pub fn allows(self, now: Time) -> bool {
        self.from <= now && !self.is_over(now)
    }

    /// True if the answer no longer stands at `now`.
    pub fn is_over(self, now: Time) -> bool {
        self.until <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Open in the first `open` of each `period` nanoseconds.
    #[derive(Clone, Copy)]
    struct Cycle {
        open: u64,
        period: u64,
    }

    impl Cycle {
        fn ask(self, from: Time) -> Opening {
            let start = from.0 / self.period * self.period;
            let at = if from.0 < start + self.open { from.0 } else { start + self.period };
            let end = at / self.period * self.period + self.open;
            Opening { from: Time(at), until: Time(end) }
        }

        fn is_open(self, at: u64) -> bool {
            at % self.period < self.open
        }
    }

    /// Compared with a search of every instant.
    #[test]
    fn several_agree_at_the_first_instant_at_which_all_are_open() {
        let mut random = fastrand::Rng::with_seed(20);
        for case in 0..300 {
            let mut cycle = || {
                let period = random.u64(2..12);
                Cycle { open: random.u64(1..period), period }
            };
            let cycles: Vec<_> = (0..3).map(|_| cycle()).collect();
            let is_open = |at: &u64| cycles.iter().all(|cycle| cycle.is_open(*at));
            for eligible_at in 0..20 {
                let found = Opening::agreed(Time(eligible_at), &cycles.iter(), |cycle, from| cycle.ask(from));
                match (eligible_at..eligible_at + 2 * 11 * 10 * 9).find(is_open) {
                    Some(at) => {
                        assert_eq!(found.from, Time(at), "case {case}, since {eligible_at}");
                        let Time(until) = found.until;
                        assert!(
                            until > at && (at..until).all(|at| is_open(&at)),
                            "case {case}, since {eligible_at}"
                        );
                    }
                    None => {
                        assert!(!found.allows(Time(eligible_at + 5000)), "case {case}, since {eligible_at}");
                    }
                }
            }
        }
    }

    /// One opens as the other closes.
    #[test]
    fn what_never_agrees_is_never_once_that_is_known() {
        let ask = |late: &u64, from: Time, half: u64| {
            let cycle = Cycle { open: half, period: 2 * half };
            let Opening { from, until } = cycle.ask(Time(from.0 + late * half));
            Opening { from: Time(from.0 - late * half), until: Time(until.0 - late * half) }
        };
        let of_days = Opening::agreed(Time(5), &[0, 1].iter(), |late, from| ask(late, from, 43_200 * SECOND));
        assert_eq!(of_days, Opening::NEVER);
        let of_seconds = Opening::agreed(Time(5), &[0, 1].iter(), |late, from| ask(late, from, SECOND));
        assert!(
            of_seconds.is_over(of_seconds.from) && of_seconds.from > Time(900 * SECOND),
            "{of_seconds:?}"
        );
    }

    #[test]
    fn one_that_never_opens_and_none_at_all() {
        let ask = |opening: &Opening, from: Time| Opening { from: from.max(opening.from), ..*opening };
        let all = [Opening::at(Time(5)), Opening::NEVER];
        assert_eq!(Opening::agreed(Time(3), &all.iter(), ask), Opening::NEVER);
        assert_eq!(Opening::agreed(Time(3), &all[..1].iter(), ask), Opening::at(Time(5)));
        assert_eq!(Opening::agreed(Time(3), &all[..0].iter(), ask), Opening::at(Time(3)));
    }
}
