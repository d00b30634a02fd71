//! Calendar windows: quotas that reset at midnight, on Monday, on the first of a month.

use std::ops::Range;

use anyhow::{Result, bail, ensure};

use super::{Ask, Extra, Rule, Spec, Terms};
use crate::time::{Civil, Time, Wall, Zone};

/// At most `count` in each civil period of a zone.
///
/// Around a boundary, up to `2·count` may go in less than one period. Nothing is released within the margin of a
/// boundary.
#[derive(Clone, Debug)]
pub struct Calendar {
    count: u64,
    civil: Civil,
    zone: Zone,
    margin: i128,
    late: i128,
    wall: Wall,
}

/// The last period in which something was released; all is 0 if there was none. Instants are those that the wall
/// clock shows, so they stay right when it is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct LastPeriod {
    start: Time,
    end: Time,
    used: u64,
    /// When the last of it was released.
    last: Time,
    /// The end of the earlier periods in which something was released; how much is no longer known.
    forgotten: Time,
}

impl LastPeriod {
    /// The end of all periods in which something was released.
    fn last_end(&self) -> Time {
        self.forgotten.max(self.end)
    }
}

/// The most periods that are stepped through to find the last of many releases.
const MAX_PERIODS: u64 = 4096;

impl Calendar {
    /// The period around an instant of the wall clock.
    fn around(&self, state: &LastPeriod, at: i128) -> Range<i128> {
        let known = state.start.0.into()..state.end.0.into();
        // The start of a period that began before 1970 was clamped.
        let is_known = state.start > Time::ZERO && known.contains(&at);
        if is_known { known } else { self.civil.around(self.zone, at) }
    }

    fn used(state: &LastPeriod, period: &Range<i128>) -> u64 {
        if Time::clamped(period.start) == state.start { state.used } else { 0 }
    }

    /// The time on the wall clock at `at`, but none before the last period: a clock that was set back does not reopen
    /// one.
    fn shown(&self, state: &LastPeriod, at: Time) -> i128 {
        self.wall.nanos(at).max(state.start.0.into())
    }

    /// The first stretch, on the wall clock, in which a release of this cost is allowed. It must be in its period even
    /// if it is late.
    fn opening(&self, state: &LastPeriod, at: i128, cost: u64) -> Option<Range<i128>> {
        let mut at = at;
        if 2 * self.margin + self.late >= self.civil.longest().into() {
            return None;
        }
        while cost <= self.count && at <= u64::MAX.into() {
            let period = self.around(state, at);
            let (start, end) = (at.max(period.start + self.margin), period.end - self.margin - self.late);
            if start < end && Self::used(state, &period) <= self.count - cost {
                return Some(start..end);
            }
            at = period.end;
        }
        None
    }

    /// The instant at which the wall clock shows this.
    fn when(&self, shown: Option<i128>) -> Time {
        shown.and_then(|shown| self.wall.when(shown)).unwrap_or(Time::NEVER)
    }

    /// The period around `at`, with `used` of its quota used.
    fn state_at(&self, at: i128, used: u64) -> LastPeriod {
        let Range { start, end } = self.civil.around(self.zone, at);
        let [start, end, last] = [start, end, at].map(Time::clamped);
        LastPeriod { start, end, used, last, forgotten: Time::ZERO }
    }
}

fn check(terms: &Terms) -> Result<()> {
    let Some(civil) = Civil::new(terms.period) else {
        bail!(
            "algo=calendar takes the periods d, w, month, year, and those from 1s to 12h that divide a day \
             evenly"
        );
    };
    ensure!(
        terms.margin < civil.longest().div_ceil(2),
        "the margin leaves nothing of a period: it must be less than half as long"
    );
    Ok(())
}

impl Rule for Calendar {
    const SPEC: Spec = Spec {
        name: "calendar",
        help: "At most N in each day, week, month or year of a zone (tz=). For\n\
               quotas that reset at midnight: -r 10k/d,algo=calendar",
        takes: &[Extra::Zone],
        accrues: false,
        burst: |terms| terms.count,
        max_per_window: |terms| terms.count,
        check,
    };

    /// On the heap, as few limits with many keys go by the calendar.
    type State = Box<LastPeriod>;

    fn new(terms: Terms) -> Self {
        Calendar {
            count: terms.count,
            civil: Civil::new(terms.period).unwrap_or(Civil::Part(terms.period)),
            zone: terms.zone.unwrap_or_else(Zone::utc),
            margin: terms.margin.into(),
            late: terms.late.into(),
            wall: terms.wall,
        }
    }

    fn earliest(&self, state: &Box<LastPeriod>, ask: Ask) -> Time {
        let opening = self.opening(state, self.shown(state, ask.eligible_at), ask.cost);
        self.when(opening.map(|opening| opening.start))
    }

    fn available(&self, state: &Box<LastPeriod>, now: Time, ask: Ask, pending: u64) -> u64 {
        if self.earliest(state, Ask { eligible_at: now, cost: 1 }) > now {
            return 0;
        }
        let used = Self::used(state, &self.around(state, self.wall.nanos(now)));
        self.count.saturating_sub(used).saturating_sub(pending) / ask.cost
    }

    /// Exact up to `MAX_PERIODS` periods, approximate beyond.
    fn last_of(&self, state: &Box<LastPeriod>, ask: Ask, count: u64) -> Time {
        let (mut state, mut ask, mut left) = (state.clone(), ask, count);
        for _ in 0..MAX_PERIODS {
            if left == 0 {
                return ask.eligible_at;
            }
            let Some(at) = self.earliest(&state, ask).known() else { return Time::NEVER };
            let together = self.available(&state, at, ask, 0).min(left);
            self.commit(&mut state, at, Ask { cost: ask.cost.saturating_mul(together), ..ask });
            (left, ask.eligible_at) = (left - together, at);
        }
        let periods = left.div_ceil(self.count / ask.cost);
        ask.eligible_at.after(u128::from(periods) * u128::from(self.civil.longest()))
    }

    fn commit(&self, state: &mut Box<LastPeriod>, now: Time, ask: Ask) {
        let at = self.shown(state, now);
        let used = Self::used(state, &self.around(state, at)).saturating_add(ask.cost);
        let next = || LastPeriod { forgotten: state.last_end(), ..self.state_at(at, used) };
        let last = state.last.max(Time::clamped(at));
        **state = if used > ask.cost { LastPeriod { used, last, ..**state } } else { next() };
    }

    fn idle_at(&self, state: &Box<LastPeriod>) -> Time {
        match state.used {
            0 => Time::ZERO,
            _ => self.when(Some(state.end.0.into())),
        }
    }

    fn exhaust(&self, state: &mut Box<LastPeriod>, at: Time) {
        let shown = self.shown(state, at);
        let used = Self::used(state, &self.around(state, shown));
        let forgotten = if used > 0 { state.forgotten } else { state.last_end() };
        **state = LastPeriod { forgotten, ..self.state_at(shown, used.max(self.count)) };
    }

    /// A period that has begun does not begin again.
    fn recede(&self, _: &mut Box<LastPeriod>, _: Time) {}

    /// The wall clock does not restart.
    fn restart(&self, _: &mut Box<LastPeriod>) {}

    /// Under other terms, the current period may also include releases from before the last one, which are not known;
    /// and under the same, others that are not. Then all of it counts as used, whatever the new count.
    fn carry_over(&self, state: &mut Box<LastPeriod>, new: &Self, now: Time, unknown: Option<Time>) {
        let is_same = (self.civil, self.zone) == (new.civil, new.zone);
        // A clock that was set back does not reopen what is over.
        let last = state.last;
        let known = i128::from(last.0).max(i128::from(state.forgotten.0) - 1);
        let latest = now.max(unknown.unwrap_or_default());
        let period = LastPeriod { last, ..new.state_at(new.wall.nanos(latest).max(known), u64::MAX) };
        let is_in_it = |at| Time::clamped(new.wall.nanos(at)) >= period.start;
        let is_unknown = unknown.is_some_and(|at| !is_same || is_in_it(at));
        if is_same && state.forgotten <= state.end && !is_unknown {
            return;
        }
        let is_within = state.end > period.start;
        let forgotten = if is_within { state.forgotten } else { state.last_end() };
        **state = match is_within {
            _ if forgotten > period.start || is_unknown => LastPeriod { forgotten, ..period },
            true => LastPeriod { used: state.used, forgotten, ..period },
            false if forgotten == Time::ZERO => LastPeriod::default(),
            // A clock that is set back later does not reopen it.
            false => LastPeriod { last, forgotten, ..new.state_at(known, u64::MAX) },
        };
    }

    /// The end of the period minus the margin. Without a margin, a release that is allowed in one period is also
    /// allowed in the next.
    fn closes(&self, at: Time) -> Time {
        let end = |at| self.civil.around(self.zone, at).end - self.margin;
        self.when((self.margin > 0 && at < Time::NEVER).then(|| end(self.wall.nanos(at))))
    }

    fn note_evicted(&self, evicted: &mut Box<LastPeriod>, state: &Box<LastPeriod>) {
        evicted.forgotten = evicted.forgotten.max(state.last_end());
    }

    fn note_forgotten(&self, state: &mut Box<LastPeriod>, evicted: &Box<LastPeriod>) {
        state.forgotten = state.forgotten.max(evicted.forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Stateful, one};
    use super::*;
    use crate::time::SECOND;

    const HOUR: u64 = 3600 * SECOND;
    const DAY: u64 = 24 * HOUR;

    fn terms(count: u64, period: u64, zone: &str) -> Terms {
        Terms { zone: Some(zone.parse().unwrap()), ..Terms::new(count, period, count) }
    }

    fn utc(count: u64, period: u64) -> Stateful<Calendar> {
        Stateful::new(Calendar::new(terms(count, period, "UTC")))
    }

    #[test]
    fn a_quota_starts_anew_at_midnight() {
        let mut limiter = utc(2, DAY);
        assert_eq!(limiter.instants(&[5, 6, 7, 2 * DAY - 1, 2 * DAY - 1]), [5, 6, DAY, 2 * DAY - 1, 2 * DAY]);
    }

    #[test]
    fn a_day_may_have_other_than_24_hours() {
        // 2026-03-29 has 23 hours in Berlin, 2026-10-25 has 25.
        for (midnight, hours) in [(1_774_738_800 * SECOND, 23), (1_792_879_200 * SECOND, 25)] {
            let mut limiter = Stateful::new(Calendar::new(terms(1, DAY, "Europe/Berlin")));
            let next = midnight + hours * HOUR;
            assert_eq!(
                limiter.instants(&[midnight - 1, midnight - 1, midnight, next]),
                [midnight - 1, midnight, next, next + DAY]
            );
            let mut parts = Stateful::new(Calendar::new(terms(1, 12 * HOUR, "Europe/Berlin")));
            let last = midnight + 12 * HOUR;
            let then = if hours == 25 { [last + 12 * HOUR, next] } else { [next, next + 12 * HOUR] };
            assert_eq!(parts.instants(&[midnight; 4]), [midnight, last, then[0], then[1]]);
        }
    }

    #[test]
    fn nothing_is_released_within_the_margin_of_a_boundary() {
        let rule = Calendar::new(Terms { margin: HOUR, ..terms(2, DAY, "UTC") });
        let mut limiter = Stateful::new(rule);
        let at = limiter.instants(&[0, DAY - HOUR, DAY - HOUR, DAY + 2 * HOUR, 2 * DAY - HOUR - 1]);
        assert_eq!(at, [HOUR, DAY + HOUR, DAY + HOUR, 2 * DAY + HOUR, 2 * DAY + HOUR]);
        assert_eq!([0, DAY].map(|at| limiter.rule.closes(Time(at))), [DAY - HOUR, 2 * DAY - HOUR].map(Time));
        assert_eq!(limiter.rule.closes(Time::NEVER), Time::NEVER);
        assert_eq!(utc(2, DAY).rule.closes(Time(0)), Time::NEVER);
        // A week that began before 1970.
        let week = Calendar::new(Terms { margin: HOUR, ..terms(2, 7 * DAY, "UTC") });
        assert_eq!(Stateful::new(week).instants(&[0, 1, 2]), [0, 1, 4 * DAY + HOUR]);
        // With a margin of 14 days at both ends, nothing is left of the 28 days of February 1970.
        let month = Calendar::new(Terms { margin: 14 * DAY, ..terms(1, 2_630_016 * SECOND, "UTC") });
        assert_eq!(Stateful::new(month).instants(&[DAY * 20, DAY * 20]), [DAY * (59 + 14), DAY * (90 + 14)]);
    }

    #[test]
    fn exhausted_is_silent_until_the_period_ends() {
        let mut limiter = utc(2, 7 * DAY);
        limiter.exhaust(5);
        // 1970-01-05 was a Monday.
        assert_eq!(limiter.instants(&[6]), [4 * DAY]);
        assert_eq!(limiter.idle_at(), Time(11 * DAY));
    }

    fn set(limiter: &mut Stateful<Calendar>, now: u64, shown: u64) {
        let rule = &limiter.rule;
        let wall = Wall::new(Time(now), Time(shown));
        let terms = Terms { wall, margin: 0, ..terms(rule.count, DAY, "UTC") };
        limiter.retune(now, terms);
    }

    #[test]
    fn a_clock_that_is_set_back_never_opens_a_period_again() {
        let mut limiter = utc(2, DAY);
        assert_eq!(limiter.instants(&[DAY - 2, DAY - 2, DAY + 5]), [DAY - 2, DAY - 2, DAY + 5]);
        // Set back an hour, it shows the day before, whose quota is used up; the present day goes on once it is shown
        // again.
        set(&mut limiter, DAY + 10, DAY - HOUR);
        assert_eq!(limiter.instants(&[DAY + 10, DAY + 10]), [DAY + 10 + HOUR, 2 * DAY + 10 + HOUR]);
        // A day ahead.
        let now = 2 * DAY + 20 + HOUR;
        set(&mut limiter, now, 3 * DAY - 5);
        assert_eq!(limiter.instants(&[now; 4]), [now, now + 5, now + 5, now + 5 + DAY]);
    }

    #[test]
    fn other_terms_keep_what_is_used() {
        let mut limiter = utc(3, DAY);
        limiter.instants(&[5, 6]);
        limiter.retune(7, terms(4, DAY, "UTC"));
        assert_eq!(limiter.instants(&[7, 8, 9]), [7, 8, DAY]);
        // What was used the day before counts for the week, too, but is no longer known.
        limiter.retune_after(Some(DAY), DAY + 1, terms(9, 7 * DAY, "UTC"));
        assert_eq!(limiter.instants(&[DAY + 2]), [4 * DAY]);
        limiter.retune(4 * DAY + 1, terms(9, DAY, "UTC"));
        assert_eq!(limiter.instants(&[5 * DAY]), [5 * DAY]);
    }

    /// 1970-01-01 was a Thursday.
    #[test]
    fn what_is_forgotten_of_a_longer_period_counts_as_used() {
        let week = |count| terms(count, 7 * DAY, "UTC");
        let used = |used: &[u64]| {
            let mut limiter = utc(3, DAY);
            limiter.instants(used);
            limiter
        };
        // What was released in the first period of all is known.
        let mut first = used(&[DAY + 5, DAY + 6]);
        first.retune(DAY + 7, week(4));
        assert_eq!(first.instants(&[DAY + 7; 3]), [DAY + 7, DAY + 7, 4 * DAY]);
        // On Friday, what was released on Thursday is no longer known; nor on Saturday, before any release, Friday's.
        for (released, now) in [(&[5, DAY][..], DAY + 1), (&[DAY], 2 * DAY)] {
            let mut second = used(released);
            second.retune(now, terms(3, 6 * HOUR, "UTC"));
            second.retune(now + 1, week(3));
            second.retune(now + 2, week(1000));
            assert_eq!(second.instants(&[now + 3]), [4 * DAY], "{released:?}");
        }
        // Those of another week do not matter.
        let mut third = used(&[DAY, 5 * DAY]);
        third.retune(5 * DAY, week(2));
        assert_eq!(third.instants(&[5 * DAY; 2]), [5 * DAY, 11 * DAY]);
        // What others may have released counts only if it may have been in the new period.
        let day = terms(4, DAY, "UTC");
        for (new, unknown, next) in [(week(4), 1, 4 * DAY), (day, 1, DAY + 2), (day, 0, 2 * DAY)] {
            let mut fourth = used(&[]);
            fourth.state.forgotten = Time(DAY);
            fourth.retune_after(Some(DAY - unknown), DAY + 1, new);
            assert_eq!(fourth.instants(&[DAY + 2]), [next]);
        }
    }

    #[test]
    fn exhausted_it_forgets_no_earlier_period() {
        for (released, expected) in [(&[][..], [DAY + 7, DAY + 7, 4 * DAY]), (&[5], [4 * DAY; 3])] {
            let mut limiter = utc(2, DAY);
            limiter.instants(released);
            limiter.exhaust(DAY + 5);
            limiter.exhaust(DAY + 6);
            limiter.retune(DAY + 7, terms(4, 7 * DAY, "UTC"));
            assert_eq!(limiter.instants(&[DAY + 7; 3]), expected);
        }
    }

    #[test]
    fn what_may_have_been_released_after_a_change_counts_in_its_period() {
        let [old, new] =
            [(5, 3), (5, 2)].map(|(count, period)| Calendar::new(terms(count, period * SECOND, "UTC")));
        let mut state = Box::default();
        old.carry_over(&mut state, &new, Time(SECOND), Some(Time(2 * SECOND + 1)));
        assert_eq!(new.earliest(&state, one(3 * SECOND)), Time(4 * SECOND));
    }

    /// Nobody tells a shared limit that a clock was set.
    #[test]
    fn other_terms_do_not_reopen_a_period_that_is_over() {
        for (period, next) in [(DAY, [2 * DAY, 3 * DAY - 7]), (12 * HOUR, [2 * DAY + 12 * HOUR - 7; 2])] {
            let mut limiter = utc(2, DAY);
            limiter.instants(&[5, 6]);
            limiter.retune(2 * DAY, terms(3, period, "UTC"));
            let wall = Wall::new(Time(2 * DAY), Time(7));
            limiter.rule = Calendar::new(Terms { wall, ..terms(3, period, "UTC") });
            assert_eq!(limiter.instants(&[2 * DAY, 2 * DAY]), next);
        }
    }

    #[test]
    fn exhausted_it_has_not_used_less_than_before() {
        let mut limiter = utc(3, DAY);
        limiter.instants(&[5, 5, 5]);
        limiter.retune(6, terms(1, DAY, "UTC"));
        limiter.exhaust(6);
        limiter.retune(7, terms(3, DAY, "UTC"));
        assert_eq!(limiter.instants(&[7]), [DAY]);
    }

    #[test]
    fn the_last_of_many_is_known_without_releasing_them() {
        let mut limiter = utc(20, 6 * HOUR);
        assert_eq!(limiter.last_of(0, 1, 100), Some(DAY));
        limiter.releases(&[(0, 7), (10, 9)]);
        for count in 0..60 {
            (1..=20).for_each(|cost| _ = limiter.last_of(15, cost, count));
        }
        assert_eq!(limiter.last_of(15, 21, 1), None);
        let far = Ask { cost: 3, ..one(15) };
        let far = limiter.rule.last_of(&limiter.state, far, 6 * 10_000 + 3);
        assert_eq!(far, Time(10_001 * 6 * HOUR));
    }

    #[test]
    fn slots_end_as_long_before_a_boundary_as_their_releases_may_be_late() {
        let rule = Calendar::new(Terms { margin: 10, late: 5, ..terms(2, DAY, "UTC") });
        let mut limiter = Stateful::new(rule);
        let late_slots = limiter.instants(&[0, DAY - 16, DAY - 16, 2 * DAY - 15]);
        assert_eq!(late_slots, [10, DAY - 16, DAY + 10, 2 * DAY + 10]);
        assert_eq!(limiter.idle_at(), Time(3 * DAY));
    }
}
