//! The sliding window log: an exact record of the releases of the last period.

use super::release_log::ReleaseLog;
use super::{Ask, Extra, Rule, Spec, Terms, Usage};
use crate::time::Time;

/// At most `count` in any half-open window of length `period`.
///
/// A release made exactly `period` ago is outside the window.
#[derive(Clone, Debug)]
pub struct Sliding {
    count: u64,
    period: u64,
    /// The cost of releases that may share a run although they were made at different instants; they count as made at
    /// the last of these.
    grain: u64,
}

impl Sliding {
    fn is_over(&self, run: &Usage, now: Time) -> bool {
        now.since(run.at) >= self.period
    }

    /// Merges the runs that are older than the last `count` releases, which decide on the next one. There are older
    /// ones in the window only if releases exceeded the limit: it was not asked, or an audit is judging it. They stay
    /// in the log as they may matter again once the count is raised.
    fn merge_excess(&self, log: &mut ReleaseLog) {
        let used = log.used();
        while log.len() > 1
            && let Some(oldest) = log.oldest().filter(|run| used - run.cost >= self.count)
        {
            log.pop_oldest();
            log.add_to_oldest(oldest.cost);
        }
    }
}

impl Rule for Sliding {
    const SPEC: Spec = Spec {
        name: "sliding",
        help: "At most N in any window of length P. The default: it satisfies\n\
               servers with fixed windows, too. Starts with N at once.",
        takes: &[Extra::FromExit],
        accrues: false,
        burst: |terms| terms.count,
        max_per_window: |terms| terms.count,
        check: |_| Ok(()),
    };

    type State = ReleaseLog;

    fn new(terms: Terms) -> Self {
        let grain = terms.count.div_ceil(terms.instants).max(1);
        Sliding { count: terms.count, period: terms.period, grain }
    }

    fn earliest(&self, log: &ReleaseLog, ask: Ask) -> Time {
        if ask.cost > self.count {
            return Time::NEVER;
        }
        // A release of this cost fits once enough of the oldest have left the window.
        let mut excess = log.used().saturating_sub(self.count - ask.cost);
        if excess == 0 {
            return ask.eligible_at;
        }
        let last = log.iter().find(|run| {
            excess = excess.saturating_sub(run.cost);
            excess == 0
        });
        let at = last.map_or(ask.eligible_at, |run| run.at.after(self.period));
        at.max(ask.eligible_at)
    }

    fn available(&self, log: &ReleaseLog, now: Time, ask: Ask, pending: u64) -> u64 {
        let free =
            self.count.saturating_sub(log.used_without(|run| self.is_over(run, now))).saturating_sub(pending);
        if ask.cost == 1 { free } else { free / ask.cost }
    }

    fn is_plenty(&self, log: &ReleaseLog, cost: u64, pending: u64) -> bool {
        self.count.saturating_sub(log.used()).saturating_sub(pending) >= cost
    }

    /// Once the limit is used up, each release goes one period after the release `count` before it.
    fn last_of(&self, log: &ReleaseLog, ask: Ask, count: u64) -> Time {
        let Some(last) = count.checked_sub(1) else { return ask.eligible_at };
        let together = self.count / ask.cost;
        if together == 0 {
            return Time::NEVER;
        }
        let cost = (last % together + 1) * ask.cost;
        self.earliest(log, Ask { cost, ..ask }).after(u128::from(last / together) * u128::from(self.period))
    }

    fn commit(&self, log: &mut ReleaseLog, now: Time, ask: Ask) {
        // With many keys, looking at the oldest run is slow, so expire only when the log would have to grow.
        if log.is_full() {
            self.expire(log, now);
        }
        let newest = log.newest();
        // What is reported late may be older than what counts as used since a loss.
        let now = now.max(newest.at);
        let Some(used) = log.used().checked_add(ask.cost) else {
            // Only releases that the limit was not asked about can make the sum overflow. Counting all of it as of now
            // is strict enough.
            *log = ReleaseLog::of(now, u64::MAX);
            return;
        };
        if newest.cost >= self.grain && newest.at != now {
            log.push(Usage { at: now, cost: ask.cost });
        } else {
            log.replace_newest(Usage { at: now, cost: newest.cost + ask.cost });
        }
        if used > self.count {
            self.merge_excess(log);
        }
    }

    fn expire(&self, log: &mut ReleaseLog, now: Time) {
        log.expire(|run| self.is_over(run, now));
    }

    fn idle_at(&self, log: &ReleaseLog) -> Time {
        match log.newest() {
            Usage { cost: 0, .. } => Time::ZERO,
            newest => newest.at.after(self.period),
        }
    }

    fn exhaust(&self, log: &mut ReleaseLog, at: Time) {
        // Whatever was released before leaves the window no later than this. Under other terms, more than the count may
        // have been released.
        self.expire(log, at);
        let used = log.used().max(self.count);
        *log = ReleaseLog::of(at, used);
    }

    /// A run counts as made at its last instant, or somewhat later once it was kept: those at the first instant after
    /// `at`, and the next one, may have begun before. Beyond the count, the first run is also what was before the runs,
    /// so all of it counts as used.
    fn recede(&self, log: &mut ReleaseLog, at: Time) {
        let mut runs: Vec<_> = log.iter().collect();
        let known = runs.partition_point(|run| run.at <= at);
        let unknown = match runs.get(known) {
            Some(_) if log.used() > self.count => self.count,
            Some(first) if self.grain > 1 => {
                let same = runs[known..].partition_point(|run| run.at == first.at);
                runs[known..].iter().take(same + 1).map(|run| run.cost).sum()
            }
            _ => 0,
        };
        runs.truncate(known);
        runs.extend(Some(Usage { at, cost: unknown }).filter(|run| run.cost > 0));
        *log = runs.into_iter().collect();
    }

    fn restart(&self, log: &mut ReleaseLog) {
        *log = ReleaseLog::of(Time::ZERO, log.used());
    }

    fn memory(&self) -> Option<u64> {
        Some(self.period)
    }

    fn carry_over(&self, log: &mut ReleaseLog, new: &Self, now: Time, forgotten: Option<Time>) {
        self.expire(log, now);
        let unknown = new.count.saturating_sub(log.used());
        if let Some(at) = forgotten.filter(|at| unknown > 0 && now.since(*at) < new.period) {
            let mut runs: Vec<_> = log.iter().collect();
            runs.insert(runs.partition_point(|run| run.at <= at), Usage { at, cost: unknown });
            *log = runs.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Stateful, one, terms};
    use super::*;

    #[test]
    fn exactly_one_period_after_the_nth_last_is_allowed() {
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(limiter.instants(&[0, 3, 3, 3, 13]), [0, 3, 10, 13, 20]);
    }

    #[test]
    fn idling_earns_no_burst() {
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(limiter.instants(&[0, 100, 100, 100, 100]), [0, 100, 100, 110, 110]);
    }

    #[test]
    fn a_late_release_counts_from_when_it_happened() {
        let mut limiter = Stateful::new(Sliding::new(terms(1, 10)));
        limiter.commit(7, one(0));
        assert_eq!(limiter.instants(&[8]), [17]);
        // Since a loss, all counts as used at a later instant than that of what is reported.
        limiter.exhaust(30);
        limiter.commit(20, one(0));
        assert_eq!(limiter.idle_at(), Time(40));
    }

    #[test]
    fn costs_wait_for_enough_of_the_oldest_to_leave() {
        let mut limiter = Stateful::new(Sliding::new(terms(10, 100)));
        let items = [(0, 4), (1, 4), (2, 3), (2, 10), (2, 11), (3, 1)];
        assert_eq!(limiter.releases(&items), [Some(0), Some(1), Some(100), Some(200), None, Some(300)]);
    }

    #[test]
    fn exhausted_it_has_not_used_less_than_before() {
        let mut limiter = Stateful::new(Sliding::new(terms(3, 10)));
        limiter.instants(&[5, 5, 5]);
        limiter.retune(6, terms(1, 10));
        limiter.exhaust(6);
        limiter.retune(7, terms(3, 10));
        assert_eq!(limiter.instants(&[7]), [16]);
    }

    #[test]
    fn exhausted_is_silent_for_one_period() {
        let mut limiter = Stateful::new(Sliding::new(terms(3, 10)));
        limiter.exhaust(5);
        assert_eq!(limiter.instants(&[6, 6, 6, 6]), [15, 15, 15, 25]);
    }

    #[test]
    fn exhausted_it_is_used_up_whatever_was_before() {
        let mut limiter = Stateful::new(Sliding::new(terms(1, 10)));
        limiter.commit(3, one(3));
        limiter.exhaust(5);
        assert_eq!(limiter.idle_at(), Time(15));
        // What is over by then is not counted, whatever the count becomes.
        limiter.exhaust(20);
        limiter.retune(21, terms(2, 10));
        assert_eq!(limiter.instants(&[21, 21]), [21, 30]);
    }

    #[test]
    fn a_burst_takes_one_entry_and_a_huge_count_none() {
        let mut limiter = Stateful::new(Sliding::new(terms(u64::MAX, 10)));
        for _ in 0..1000 {
            limiter.commit(3, one(0));
        }
        assert_eq!((limiter.state.len(), limiter.state.used()), (1, 1000));
        assert_eq!(limiter.rule.available(&limiter.state, Time(3), one(0), 0), u64::MAX - 1000);
    }

    #[test]
    fn what_is_not_known_counts_between_what_is() {
        let mut limiter = Stateful::new(Sliding::new(terms(9, 10)));
        limiter.instants(&[3, 8]);
        limiter.retune_after(Some(5), 9, terms(3, 20));
        assert_eq!(limiter.instants(&[9, 9, 9, 9]), [23, 25, 28, 43]);
        assert_eq!(ReleaseLog::try_from(String::from(limiter.state.clone())), Ok(limiter.state));
    }

    /// Compared with all releases, whatever was merged, rounded and taken back.
    #[test]
    fn what_is_kept_is_never_laxer_than_what_was_released() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..60 {
            let (count, period) = (random.u64(1000..9000), 1 << random.u32(10..42));
            let rule = Sliding::new(Terms { instants: 1024, ..terms(count, period) });
            let (mut log, mut released, mut now) =
                (ReleaseLog::default(), Vec::<Usage>::new(), Time(1 << 60));
            let mut most = 0;
            for _ in 0..3000 {
                if random.u8(..20) == 0 {
                    most = random.choice([1, 9, period / 2000, period / 300]).expect("one");
                }
                now = now.after(random.u64(..=most));
                let ask = Ask { eligible_at: now, cost: random.u64(1..9) };
                let earliest = rule.earliest(&log, ask);
                // The one that has to leave the window first.
                let mut left = released.iter().map(|run| run.cost).sum::<u64>();
                let last = released.iter().find(|run| {
                    let fits = left + ask.cost <= count;
                    left -= run.cost;
                    !fits && left + ask.cost <= count
                });
                assert!(
                    last.is_none_or(|run| earliest >= run.at.after(period)),
                    "{earliest}, not after {last:?}"
                );
                if random.u8(..9) > 0 {
                    now = earliest;
                    rule.commit(&mut log, now, ask);
                    released.push(Usage { at: now, cost: ask.cost });
                }
                let is_receding = random.u8(..50) == 0;
                if is_receding || random.u8(..9) == 0 {
                    log = String::from(log).try_into().expect("a log");
                }
                if is_receding {
                    let back = released.len().saturating_sub(random.usize(..20));
                    let at = released.get(back).map_or(now, |run| run.at);
                    rule.recede(&mut log, at);
                    released.retain(|run| run.at <= at);
                }
                released.retain(|run| run.at.after(period) > now);
            }
        }
    }

    #[test]
    fn past_the_end_of_time_is_never() {
        let mut limiter = Stateful::new(Sliding::new(terms(1, u64::MAX)));
        assert_eq!(limiter.releases(&[(1, 1), (2, 1)]), [Some(1), None]);
    }

    #[test]
    fn other_terms_keep_the_history() {
        let mut raised = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(raised.instants(&[0, 0]), [0, 0]);
        raised.retune(1, terms(3, 10));
        assert_eq!(raised.instants(&[1, 1]), [1, 10]);
        let mut lowered = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(lowered.instants(&[0, 1]), [0, 1]);
        lowered.retune(2, terms(1, 20));
        assert_eq!(lowered.instants(&[2]), [21]);
    }

    #[test]
    fn what_was_released_beyond_the_count_matters_once_that_is_raised() {
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        (0..5).for_each(|at| limiter.commit(at, one(at)));
        assert_eq!(limiter.state.len(), 2);
        limiter.retune(5, terms(4, 10));
        assert_eq!(limiter.instants(&[5; 4]), [13, 13, 13, 14]);
    }

    #[test]
    fn costs_of_more_than_can_be_counted_leave_no_release_out() {
        let mut limiter = Stateful::new(Sliding::new(terms(4, 10)));
        for (at, cost) in [(0, u64::MAX), (3, 4)] {
            limiter.commit(at, Ask { cost, ..one(at) });
        }
        assert_eq!(limiter.instants(&[10]), [13]);
    }

    /// It is as strict as if nothing had been released later, and no stricter unless more was released than the count.
    #[test]
    fn what_is_later_can_be_forgotten() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let terms = Terms { instants: random.u64(1..9), ..terms(random.u64(1..9), random.u64(1..40)) };
            let (rule, at) = (Sliding::new(terms), Time(random.u64(0..60)));
            let [mut log, mut known] = [ReleaseLog::default(), ReleaseLog::default()];
            let (mut now, mut used) = (0, 0);
            for _ in 0..random.u64(0..20) {
                now += random.u64(0..6);
                let ask = Ask { eligible_at: Time(now), cost: random.u64(1..=terms.count) };
                rule.commit(&mut log, Time(now), ask);
                used += ask.cost;
                if now <= at.0 {
                    Sliding::new(Terms { instants: u64::MAX, ..terms }).commit(&mut known, Time(now), ask);
                }
            }
            rule.recede(&mut log, at);
            // By then, these may have been forgotten.
            [&mut log, &mut known].into_iter().for_each(|log| rule.expire(log, Time(now)));
            let is_exact = used <= terms.count && rule.grain == 1;
            for cost in 1..=terms.count {
                let ask = Ask { eligible_at: at.max(known.newest().at), cost };
                let [found, exact] = [&log, &known].map(|log| rule.earliest(log, ask));
                assert!(found >= exact && (found == exact || !is_exact), "{log:?}, not {known:?}");
            }
            assert!(log.iter().all(|run| run.at <= at && run.cost > 0));
            assert_eq!(log.used(), log.iter().map(|run| run.cost).sum::<u64>());
        }
    }

    #[test]
    fn idle_once_the_newest_has_left_the_window() {
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(limiter.idle_at(), Time(0));
        limiter.instants(&[0, 4]);
        assert_eq!(limiter.idle_at(), Time(14));
    }

    #[test]
    fn the_last_of_many_is_known_without_releasing_them() {
        let mut limiter = Stateful::new(Sliding::new(terms(20, 60)));
        assert_eq!(limiter.last_of(0, 1, 100), Some(240));
        limiter.releases(&[(0, 7), (10, 9)]);
        for count in 0..60 {
            (1..=20).for_each(|cost| _ = limiter.last_of(15, cost, count));
        }
        assert_eq!(limiter.last_of(15, 21, 1), None);
    }

    #[test]
    fn a_longer_period_takes_what_is_not_known_as_used() {
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(limiter.instants(&[0, 1, 12]), [0, 1, 12]);
        limiter.retune_after(Some(5), 15, terms(4, 30));
        assert_eq!(limiter.instants(&[15; 4]), [35, 35, 35, 42]);
        limiter.retune_after(Some(13), 43, terms(5, 30));
        assert_eq!(limiter.instants(&[43]), [43]);
        // What is over by the old terms is among what is not known.
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        limiter.instants(&[0, 1, 12]);
        limiter.retune_after(Some(5), 15, terms(3, 30));
        assert_eq!(limiter.instants(&[15; 3]), [35, 35, 42]);
    }

    #[test]
    fn what_has_left_the_window_takes_no_memory() {
        let mut limiter = Stateful::new(Sliding::new(terms(2, 10)));
        assert_eq!(limiter.state.len(), 0);
        limiter.instants(&[0; 100]);
        assert!(limiter.state.len() <= 5);
    }
}
