//! What holds in every case: no limit is exceeded, as measured by the instants before and after each release, and
//! nothing is lost, duplicated, early or out of order.

use std::collections::BTreeMap;

use throttle::config::{OnLimit, Rate, Until};

use throttle::exit::Exit;
use throttle::rule::Algorithm;

use super::case::{Case, Item};
use crate::simulated::{Outcome, Release};
use crate::support::OWN_TESTS;

pub(super) fn check(case: &Case, outcome: &Outcome) {
    let released: Vec<_> = outcome.releases.iter().flat_map(|release| items(case, release)).collect();
    nothing_is_lost_or_doubled(case, outcome, &released);
    order_is_kept(case, &released);
    for release in &outcome.releases {
        no_item_is_early(case, release);
        nothing_starts_after_the_end(case, release);
        a_batch_is_no_larger_than_allowed_and_of_one_kind(case, release);
    }
    for rate in &case.rates {
        for (key, charges) in charges(case, rate, &outcome.releases) {
            assert!(is_kept(rate, &charges), "{rate} is exceeded for '{key}': {charges:?}");
        }
    }
}

fn items<'a>(case: &'a Case, release: &Release) -> Vec<&'a Item> {
    release.lines.iter().map(|line| case.item(line)).collect()
}

fn nothing_is_lost_or_doubled(case: &Case, outcome: &Outcome, released: &[&Item]) {
    let mut numbers: Vec<_> = released.iter().map(|item| item.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), released.len(), "released twice");
    assert_eq!(outcome.stats.released, released.len() as u64);
    let good = case.items.iter().take_while(|item| !item.is_too_dear(&case.rates));
    let good: Vec<_> = good.collect();
    let is_read_whole = outcome.exit != Exit::Refused && case.config.queue.until.is_none();
    if is_read_whole {
        assert_eq!(outcome.stats.released + outcome.stats.refused, good.len() as u64, "lost");
        assert_eq!(outcome.exit == Exit::Error, good.len() < case.items.len());
    }
    match case.config.queue.on_limit {
        OnLimit::Wait | OnLimit::Fail => assert_eq!(outcome.stats.refused, 0),
        OnLimit::Latest if !is_read_whole => {}
        OnLimit::Latest => the_newest_of_each_lane_is_released(case, &good, released),
        OnLimit::Drop => {}
    }
}

fn the_newest_of_each_lane_is_released(case: &Case, read: &[&Item], released: &[&Item]) {
    let newest: BTreeMap<_, _> = read.iter().map(|item| (case.lane(item), item.number)).collect();
    for number in newest.values() {
        assert!(released.iter().any(|item| item.number == *number), "item {number} is the newest, and lost");
    }
}

fn order_is_kept(case: &Case, released: &[&Item]) {
    let mut last = BTreeMap::new();
    for item in released {
        let before = last.insert(case.lane(item), item.number);
        assert!(before < Some(item.number), "item {} came after {before:?}", item.number);
    }
}

fn no_item_is_early(case: &Case, release: &Release) {
    assert!(items(case, release).iter().all(|item| item.arrival <= release.start), "{release:?} is early");
}

fn nothing_starts_after_the_end(case: &Case, release: &Release) {
    if let Some(Until::After(nanos)) = case.config.queue.until {
        assert!(release.start <= case.items[0].arrival + nanos, "{release:?} is too late");
    }
}

fn a_batch_is_no_larger_than_allowed_and_of_one_kind(case: &Case, release: &Release) {
    let items = items(case, release);
    assert!(items.len() as u64 <= case.config.queue.batch.items.get());
    assert!(items.iter().all(|item| case.keys(item) == case.keys(items[0])));
}

/// A cost that was charged to a limit for a key, and when.
#[derive(Debug)]
struct Charge {
    start: u64,
    end: u64,
    cost: u64,
}

fn charges(case: &Case, rate: &Rate, releases: &[Release]) -> BTreeMap<String, Vec<Charge>> {
    let mut charges: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for release in releases {
        let items = items(case, release);
        let costs = items.iter().map(|item| item.charge(rate));
        let cost = if rate.cost.is_some() { costs.sum() } else { costs.take(1).sum() };
        if cost > 0 {
            let Release { start, end, .. } = *release;
            let of_key = charges.entry(items[0].key(rate)).or_insert_with(|| before(case, rate));
            of_key.push(Charge { start, end, cost });
        }
    }
    charges
}

/// The charges that stand for `start=empty`.
fn before(case: &Case, rate: &Rate) -> Vec<Charge> {
    let at = case.items[0].arrival;
    let cost = match rate.algorithm {
        Algorithm::Interval => 1,
        _ => rate.burst.unwrap_or(rate.count),
    };
    let empty = Charge { start: at, end: at, cost };
    if rate.starts_empty { vec![empty] } else { Vec::new() }
}

/// Whether charges keep to their limit.
fn is_kept(rate: &Rate, charges: &[Charge]) -> bool {
    let period = rate.period + rate.margin;
    match rate.algorithm {
        Algorithm::Sliding => (0..charges.len()).all(|last| {
            // In the window of length P that ends as the last one starts.
            let window = charges[..=last].iter().filter(|charge| charge.end + period > charges[last].start);
            sum(window) <= rate.count
        }),
        Algorithm::Interval => charges.windows(2).all(|pair| {
            let gap = pair[1].start.saturating_sub(pair[0].end);
            gap * rate.count >= pair[0].cost * period
        }),
        Algorithm::Calendar => unreachable!("{OWN_TESTS}"),
        Algorithm::Fixed => own_windows(charges, period).iter().all(|window| sum(*window) <= rate.count),
        Algorithm::Bucket => (0..charges.len()).all(|first| {
            let burst = rate.burst.unwrap_or(rate.count).max(charges[first].cost);
            (first..charges.len()).all(|last| {
                // Cost beyond the burst has had the time to accrue.
                let beyond = sum(&charges[first..=last]).saturating_sub(burst);
                let nanos = charges[last].start.saturating_sub(charges[first].end);
                beyond * period <= nanos * rate.count
            })
        }),
    }
}

fn sum<'a>(charges: impl IntoIterator<Item = &'a Charge>) -> u64 {
    charges.into_iter().map(|charge| charge.cost).sum()
}

/// Splits charges into windows, each starting at the first release after the previous one has ended.
fn own_windows(charges: &[Charge], period: u64) -> Vec<&[Charge]> {
    let mut windows = Vec::new();
    let mut rest = charges;
    while let Some(first) = rest.first() {
        let length = rest.iter().take_while(|charge| charge.end < first.end + period).count();
        let (window, later) = rest.split_at(length);
        windows.push(window);
        rest = later;
    }
    windows
}
