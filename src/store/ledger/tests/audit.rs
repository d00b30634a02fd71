//! Checks releases against a limit. Knows nothing about how slots are booked.

use crate::config::Rate;

use crate::rule::Algorithm;

#[derive(Clone, Copy, Debug)]
pub(super) struct Release {
    pub(super) at: u64,
    pub(super) cost: u64,
}

/// True if `releases`, in order of time, keep to `rate`. `windows` are the starts of the windows of a fixed limit.
pub(super) fn is_kept(rate: &Rate, releases: &[Release], windows: &[u64]) -> bool {
    let spans =
        || (0..releases.len()).flat_map(|first| (first..releases.len()).map(move |last| first..=last));
    let length = |span: &[Release]| span[span.len() - 1].at - span[0].at;
    match rate.algorithm {
        Algorithm::Sliding => {
            let mut spans = spans().map(|span| &releases[span]);
            spans.all(|span| length(span) >= rate.period || sum(span) <= rate.count)
        }
        Algorithm::Bucket => spans().map(|span| &releases[span]).all(|span| {
            let beyond = sum(span).saturating_sub(rate.burst.unwrap_or(rate.count));
            beyond * rate.period <= length(span) * rate.count
        }),
        Algorithm::Interval => releases
            .windows(2)
            .all(|pair| (pair[1].at - pair[0].at) * rate.count >= pair[0].cost * rate.period),
        Algorithm::Calendar => unreachable!("has tests of its own"),
        Algorithm::Fixed => {
            let ends = windows.iter().skip(1).chain([&u64::MAX]);
            windows.iter().zip(ends).all(|(&start, &end)| {
                let inside: Vec<_> =
                    releases.iter().filter(|release| (start..end).contains(&release.at)).copied().collect();
                end - start >= rate.period && sum(&inside) <= rate.count
            })
        }
    }
}

fn sum(releases: &[Release]) -> u64 {
    releases.iter().map(|release| release.cost).sum()
}
