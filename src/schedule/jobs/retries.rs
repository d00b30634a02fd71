//! Items whose command failed and is retried.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::config::{Backoff, Retry};
use crate::exit::{End, JobEnd};
use crate::schedule::Failed;
use crate::source::Segment;
use crate::time::Time;

/// The rules for retries, and the items waiting for one.
#[derive(Default)]
pub(crate) struct Retries {
    pub(crate) rules: Retry,
    jitter: Rng,
    /// Items that wait for their next attempt, by its earliest instant and the first item.
    pub(crate) backing_off: BTreeMap<(Time, u64), Vec<Segment>>,
    has_overlooked: bool,
    /// The last failure of each attempt that is to be retried, by the first item.
    pub(crate) failed_so_far: BTreeMap<u64, Failed>,
}

impl Retries {
    /// Retries under these rules; `seed` is for the jitter of backoffs.
    pub(super) fn new(rules: Retry, seed: u64) -> Self {
        Retries { rules, jitter: Rng::with_seed(seed), ..Retries::default() }
    }

    /// The nanoseconds to wait before another attempt; `None` if the `number`th one, which has failed, was the last.
    pub(crate) fn delay(&mut self, ended: &JobEnd, number: u64) -> Option<u64> {
        if number > self.rules.times || !self.is_worth_a_retry(ended) {
            return None;
        }
        let backoff = self.rules.backoff.as_ref();
        let jitter = backoff.map_or(0, |backoff| backoff_after(number, backoff, &mut self.jitter));
        Some(self.hold(ended).unwrap_or(jitter))
    }

    /// The pause that a server asks for, in nanoseconds, up to `--max-hold`.
    pub(crate) fn hold(&self, ended: &JobEnd) -> Option<u64> {
        ended.retry_after.map(|asked| asked.min(self.rules.max_hold))
    }

    fn is_worth_a_retry(&self, JobEnd { end, http, .. }: &JobEnd) -> bool {
        let on = self.rules.backoff.as_ref().map_or(&[][..], |backoff| &backoff.on);
        // 255 means stop, unless it is to be retried.
        if on.is_empty() {
            *end != End::Exited(255)
        } else {
            on.iter().any(|on| on.includes(end.code(), *http))
        }
    }

    /// The HTTP status of a command that succeeded, the first time that it is one to be retried: a sign that failures
    /// do not fail the command.
    pub(crate) fn overlooked(&mut self, ended: &JobEnd) -> Option<u16> {
        let on = self.rules.backoff.as_ref().map_or(&[][..], |backoff| &backoff.on);
        let is_listed = |http: &u16| on.iter().any(|on| on.includes_http(*http));
        let http = ended.http.filter(is_listed).filter(|_| !self.has_overlooked);
        self.has_overlooked |= http.is_some();
        http
    }

    /// The end of the first backoff; `None` if nothing backs off.
    pub(crate) fn backoff_until(&self) -> Option<Time> {
        self.backing_off.keys().next().map(|(until, _)| *until)
    }

    /// The number of input bytes before the first item that backs off; `None` if nothing backs off.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.backing_off.values().flatten().map(Segment::offset).min()
    }

    /// Takes out items whose backoff is over by `now`.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Vec<Segment>> {
        Some(self.backing_off.first_entry().filter(|entry| entry.key().0 <= now)?.remove())
    }
}

/// Exponential backoff with full jitter (Brooker, "Exponential Backoff And Jitter", 2015), but never below `least`.
fn backoff_after(attempt: u64, backoff: &Backoff, jitter: &mut Rng) -> u64 {
    let doublings = u32::try_from(attempt).unwrap_or(u32::MAX);
    let doubled = 2u64.checked_pow(doublings).and_then(|factor| backoff.least.checked_mul(factor));
    let most = doubled.filter(|_| backoff.least > 0).unwrap_or(backoff.most).min(backoff.most);
    jitter.u64(backoff.least..=most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retries(times: u64, backoff: Option<&str>) -> Retries {
        let backoff = backoff.map(|text| text.parse().unwrap());
        Retries::new(Retry { times, backoff, ..Retry::default() }, 7)
    }

    fn ended(end: End) -> JobEnd {
        JobEnd::new(1, end)
    }

    #[test]
    fn what_is_tried_again() {
        let table = [
            (0, None, End::Exited(1), 1, false),
            (2, None, End::Exited(1), 2, true),
            (2, None, End::Exited(1), 3, false),
            (2, None, End::Exited(255), 1, false),
            (2, None, End::Killed(9), 1, true),
            (2, Some("22=1..2"), End::Exited(22), 1, true),
            (2, Some("22=1..2"), End::Exited(1), 1, false),
            (2, Some("22=1..2"), End::Killed(9), 1, false),
            (2, Some("exit:137=1..2"), End::Killed(9), 1, true),
            (2, Some("exit:255=1..2"), End::Exited(255), 1, true),
            (2, Some("1..2"), End::Exited(255), 1, false),
            (2, Some("1..2"), End::Killed(15), 1, true),
        ];
        for (times, backoff, end, attempt, is_again) in table {
            let after = retries(times, backoff).delay(&ended(end), attempt);
            assert_eq!(after.is_some(), is_again, "{times} {backoff:?} {end:?} {attempt}");
        }
    }

    #[test]
    fn backoffs_double_with_full_jitter_between_their_bounds() {
        let backoff: Backoff = "1..10".parse().unwrap();
        let second = crate::time::SECOND;
        for seed in 0..1000 {
            for (attempt, most) in [(1, 2), (2, 4), (3, 8), (4, 10), (80, 10)] {
                let wait = backoff_after(attempt, &backoff, &mut Rng::with_seed(seed));
                assert!((second..=most * second).contains(&wait), "seed {seed}: {wait} after {attempt}");
            }
        }
    }

    #[test]
    fn backoffs_from_nothing_have_their_upper_bound_at_once() {
        let backoff: Backoff = "0..10".parse().unwrap();
        let waits = (0..100).map(|seed| backoff_after(1, &backoff, &mut Rng::with_seed(seed)));
        assert!(waits.max() > Some(5 * crate::time::SECOND));
    }

    #[test]
    fn what_a_command_asks_for_comes_first() {
        let ended = JobEnd { retry_after: Some(7), ..ended(End::Exited(1)) };
        assert_eq!(retries(1, Some("1..2")).delay(&ended, 1), Some(7));
    }
}
