//! Forecasts the last release under the limits as they stand.

use std::borrow::Cow;

use super::pending::Admitted;
use super::{Limit, LocalLimits, Pending, Request};
use crate::rule::Ask;
use crate::time::Time;

/// The most steps of the trial on a copy; for the rest, each limit is asked alone.
const MAX_STEPS: usize = 1024;

/// The instant of the last of `count` releases, each of which costs `costs` under the common limits, and whether it is
/// exact. No release is before `eligible_at`.
///
/// A single limit knows the answer. Several interact, so the releases are tried out on a copy; if there are too many
/// for that, the answer may be early.
pub fn last_release(limits: &[Cow<Limit>], eligible_at: Time, costs: &[u64], count: u64) -> (Time, bool) {
    let charging = limits.iter().zip(costs).filter(|(limit, cost)| **cost > 0 && limit.is_common());
    let (limits, costs): (Vec<_>, Vec<_>) =
        charging.map(|(limit, &cost)| (Limit::clone(limit), cost)).unzip();
    let mut limits = LocalLimits::of(limits);
    let (mut eligible_at, mut left, mut charges) = (eligible_at, count, Pending::default());
    for _ in 0..MAX_STEPS {
        if costs.len() < 2 || left == 0 {
            break;
        }
        let request = Request { eligible_at, costs: &costs, keys: &[], waits: true };
        let Some(at) = limits.opening(&request, eligible_at).from.known() else {
            return (Time::NEVER, true);
        };
        let Ok(count) = limits.available(&mut charges, at, &request, left) else { break };
        charges.add(Admitted { eligible_at, count, taken: None });
        charges.take_all(count, |_, count, row| {
            limits.commit(row, (eligible_at, count), at, true, |_, _| ());
        });
        left -= count;
        eligible_at = at;
    }
    let asks = limits.limits().map(|(_, limit)| limit).zip(&costs);
    let last = asks.map(|(limit, &cost)| limit.last_of(&[], Ask { eligible_at, cost }, left));
    (last.fold(eligible_at, Time::max), costs.len() < 2 || left == 0)
}

#[cfg(test)]
mod tests {
    use super::super::Gate;
    use super::*;
    use crate::config::{Defaults, Rate, RateText};
    use crate::time::{SECOND, Wall};

    fn last(rates: Vec<Rate>, count: u64) -> (Time, bool) {
        let (costs, gate) = (vec![1; rates.len()], Gate::new(rates, Time::ZERO, Wall::EPOCH));
        last_release(&gate.foreseen(Time::ZERO), Time::ZERO, &costs, count)
    }

    #[test]
    fn the_last_release_under_the_limits() {
        let table: [(&[&str], u64, u64); 13] = [
            (&["20/1m"], 100, 240),
            (&["20/1m"], 0, 0),
            (&["20/1m,start=empty"], 100, 300),
            (&["20/1m,algo=fixed"], 100, 240),
            (&["20/1m,algo=bucket"], 100, 240),
            (&["20/1m,algo=bucket,burst=1"], 100, 297),
            (&["20/1m,algo=interval"], 100, 297),
            (&["20/1m", "100/h"], 100, 240),
            // After two hours, the last hundred take 4 minutes.
            (&["20/1m", "100/h"], 300, 2 * 3600 + 240),
            (&["1/s,algo=interval", "20/1m"], 41, 120),
            (&["1/s,algo=interval", "1k/h"], 3000, 2 * 3600 + 999),
            (&["1/s,algo=interval", "1k/h", "2k/h"], 3000, 2 * 3600 + 999),
            (&[], 100, 0),
        ];
        for (texts, count, seconds) in table {
            let rates = texts.iter().map(|text| text.parse::<Rate>().unwrap()).collect();
            let is_exact = texts.len() < 2 || count < 3000;
            assert_eq!(last(rates, count), (Time(seconds * SECOND), is_exact), "{count} under {texts:?}");
        }
    }

    #[test]
    fn a_pause_never_ends_by_itself() {
        let rates = vec![RateText::parse_pausing("0/s").unwrap().resolve(&Defaults::default()).unwrap()];
        assert_eq!(last(rates, 9), (Time::NEVER, true));
    }
}
