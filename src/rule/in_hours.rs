//! Limits that count always but are asked only in their hours.

use super::{AnyRule, AnyState, Ask};
use crate::time::{Civil, Hours, Time, Wall};

/// Hours of the week, on the time line of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InHours {
    hours: Hours,
    wall: Wall,
}

impl InHours {
    /// The hours `during` which a limit is asked, if not always, as `wall` shows them.
    pub fn of(during: Option<&Hours>, wall: Wall) -> Option<Self> {
        during.map(|hours| InHours { hours: hours.clone(), wall })
    }

    /// True if the limit is asked at `at`.
    pub fn contain(&self, at: Time) -> bool {
        self.hours.contain(self.wall.nanos(at))
    }

    /// The first instant from `at` on that is inside the hours, or outside them, as `inside` says.
    pub fn first(&self, at: Time, inside: bool) -> Time {
        let first = self.hours.first(self.wall.nanos(at), inside);
        self.wall.when(first).unwrap_or(Time::NEVER)
    }

    /// The first instant from `at` on at which a release is outside the hours even if it is `late` and the wall clock
    /// is set by as much, either way.
    fn first_free(&self, at: Time, late: u64) -> Time {
        let late = i128::from(late);
        let mut from = self.wall.nanos(at) - late;
        // The hours are the same each week, so if none of its gaps is long enough, none ever is.
        let last = from + i128::from(Civil::Week.longest());
        while from <= last {
            let free = self.hours.first(from, false);
            let next = self.hours.first(free, true);
            if next > free + 3 * late {
                return self.wall.when(free + late).unwrap_or(Time::NEVER);
            }
            from = next;
        }
        Time::NEVER
    }
}

/// A rule that may be asked only in some hours.
#[derive(Clone, Debug)]
pub struct RuleInHours {
    /// The rule in those hours, and for all that does not depend on them.
    pub rule: AnyRule,
    /// The hours, if it is not always asked.
    pub hours: Option<InHours>,
    /// The most that a release may cost while the limit is asked; one that costs more waits until the hours end.
    pub max_cost: u64,
    /// As [`Terms::late`](super::Terms::late): a release outside the hours must be outside them even if it is late.
    pub late: u64,
}

impl RuleInHours {
    /// True unless it is outside its hours.
    pub fn is_asked(&self, at: Time) -> bool {
        self.hours.as_ref().is_none_or(|hours| hours.contain(at))
    }

    /// The first instant, at or after `ask.since`, at which a release is allowed.
    pub fn earliest(&self, state: &AnyState, ask: Ask) -> Time {
        let free = self.hours.as_ref().map(|hours| hours.first_free(ask.eligible_at, self.late));
        match free {
            Some(free) if ask.cost > self.max_cost => free,
            Some(free) => self.rule.earliest(state, ask).min(free),
            None => self.rule.earliest(state, ask),
        }
    }

    /// As [`AnyRule::commit`]. Outside the hours, nothing is owed.
    pub fn commit(&self, state: &mut AnyState, now: Time, ask: Ask) {
        self.rule.commit(state, now, ask);
        self.waive_debt(state, now);
    }

    /// As [`AnyRule::overrun`]. Outside the hours, nothing is owed.
    pub fn overrun(&self, state: &mut AnyState, at: Time, ask: Ask) {
        self.rule.overrun(state, at, ask);
        self.waive_debt(state, at);
    }

    fn waive_debt(&self, state: &mut AnyState, at: Time) {
        if !self.is_asked(at) {
            self.rule.waive_debt(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::for_each_seed;
    use crate::rule::{Algorithm, Terms};
    use crate::time::{SECOND, Zone};

    const MINUTE: u64 = 60 * SECOND;

    /// Instants are minutes.
    fn in_hours(week: &str, terms: Terms, late: u64) -> RuleInHours {
        let hours = Hours { week: week.parse().unwrap(), zone: Zone::utc() };
        RuleInHours {
            rule: AnyRule::new(Algorithm::Bucket, terms),
            hours: InHours::of(Some(&hours), Wall::EPOCH),
            max_cost: terms.burst,
            late: late * MINUTE,
        }
    }

    fn ask(minute: u64, cost: u64) -> Ask {
        Ask { eligible_at: Time(minute * MINUTE), cost }
    }

    /// A release may be late, and the clock set by as much. Where no gap is long enough for that, none is.
    #[test]
    fn what_is_outside_the_hours_is_so_even_if_it_is_late() {
        for_each_seed(200, |random| {
            let mut ends: Vec<_> = (0..4).map(|_| random.u64(0..1440)).collect();
            ends.sort_unstable();
            ends.dedup();
            let [a, b, c, d] = ends[..] else { return };
            let time = |minute: u64| format!("{:02}:{:02}", minute / 60, minute % 60);
            let week = format!("{}-{}+{}-{}", time(a), time(b), time(c), time(d));
            let late = if random.bool() { random.u64(0..90) } else { (c - b) / 3 };
            let rule = in_hours(&week, Terms::new(0, MINUTE, 0), late);
            let at = random.u64(1440..2 * 1440);
            let is_free = |minute: &u64| {
                (minute - late..=minute + 2 * late)
                    .all(|minute| !(a..b).contains(&(minute % 1440)) && !(c..d).contains(&(minute % 1440)))
            };
            let expected =
                (at..at + 2 * 1440).find(is_free).map_or(Time::NEVER, |free| ask(free, 1).eligible_at);
            let found = rule.earliest(&rule.rule.unused(), ask(at, 1));
            assert_eq!(found, expected, "{week}, {late} late, from {}", time(at - 1440));
        });
    }

    /// One a minute, up to two at once.
    #[test]
    fn nothing_is_owed_for_what_was_released_outside_the_hours() {
        let rule = in_hours("10:00-12:00", Terms::new(1, MINUTE, 2), 0);
        let (morning, ten, noon) = (599, 600, 720);
        let charged = |charge: &dyn Fn(&mut AnyState)| {
            let mut state = rule.rule.unused();
            charge(&mut state);
            rule.earliest(&state, ask(ten, 1)).0 / MINUTE
        };
        let at = |minute| Time(minute * MINUTE);
        assert_eq!(charged(&|state| rule.commit(state, at(morning), ask(morning, 9))), ten);
        assert_eq!(charged(&|state| rule.overrun(state, at(morning), ask(morning, 9))), ten);
        assert_eq!(charged(&|state| rule.commit(state, at(ten), ask(ten, 9))), ten + 8);
        assert_eq!(charged(&|state| rule.overrun(state, at(ten), ask(ten, 9))), ten + 8);
        let mut state = rule.rule.unused();
        rule.commit(&mut state, at(morning), ask(morning, 1));
        assert_eq!(rule.earliest(&state, ask(ten, 2)), at(ten), "no more is charged than was released");
        // What costs more than may go at once waits for the end of the hours.
        let costs = [1, 2, 3].map(|cost| rule.earliest(&rule.rule.unused(), ask(ten, cost)));
        assert_eq!(costs, [ten, ten, noon].map(at));
    }
}
