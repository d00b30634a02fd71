//! The ticks of an axis, labelled in familiar units.

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

const SECOND: f64 = 1e9;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Units of time in nanoseconds, each with the possible distances of ticks in that unit.
const UNITS: [(f64, &str, &[f64]); 7] = [
    (1.0, "ns", &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]),
    (1e3, "\u{b5}s", &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]),
    (1e6, "ms", &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]),
    (SECOND, "s", &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0]),
    (MINUTE, "min", &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0]),
    (HOUR, "h", &[1.0, 2.0, 3.0, 6.0, 12.0]),
    (DAY, "d", &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 1e4, 2e4, 5e4, 1e5, 5e5]),
];

/// Ticks of times from 0 to `span` nanoseconds, at most `most` after the first.
pub(super) fn times(span: f64, most: usize) -> Vec<Tick> {
    let steps =
        UNITS.into_iter().flat_map(|(unit, name, counts)| counts.iter().map(move |n| (n * unit, unit, name)));
    let fitting = steps.clone().find(|(step, ..)| span / step <= float(most));
    let Some((step, unit, name)) = fitting.or(steps.last()) else { return Vec::new() };
    multiples(step, span).map(|at| Tick { at, label: format!("{} {name}", at / unit) }).collect()
}

/// Ticks of counts from 0 to `top`, at most `most` after the first.
pub(super) fn counts(top: f64, most: usize) -> Vec<Tick> {
    let steps = (0..39).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
    let Some(step) = steps.into_iter().find(|step| top / step <= float(most)) else { return Vec::new() };
    multiples(step, top).map(|at| Tick { at, label: short(at) }).collect()
}

/// A count with at most a few digits: `1500`, `20k`, `1.5M`.
pub(super) fn short(count: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units
        .into_iter()
        .find(|(unit, _)| count >= unit * 10.0 || (count >= *unit && count % (unit / 10.0) == 0.0))
    {
        Some((unit, name)) => format!("{}{name}", (count / unit * 100.0).round() / 100.0),
        None => format!("{count}"),
    }
}

fn multiples(step: f64, end: f64) -> impl Iterator<Item = f64> {
    (0u32..).map(move |number| f64::from(number) * step).take_while(move |at| *at <= end * (1.0 + 1e-9))
}

pub(super) fn float(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn times_are_in_the_unit_that_a_person_uses() {
        assert_eq!(labels(times(SECOND, 5)), ["0 ms", "200 ms", "400 ms", "600 ms", "800 ms", "1000 ms"]);
        assert_eq!(labels(times(10.0 * SECOND, 5)), ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]);
        assert_eq!(labels(times(90.0 * MINUTE, 4)), ["0 min", "30 min", "60 min", "90 min"]);
        assert_eq!(labels(times(3.0 * DAY, 4)), ["0 d", "1 d", "2 d", "3 d"]);
        assert_eq!(labels(times(1.0, 4)), ["0 ns", "1 ns"]);
        assert_eq!(labels(times(200_000.0 * DAY, 4)), ["0 d", "50000 d", "100000 d", "150000 d", "200000 d"]);
    }

    #[test]
    fn counts_are_round() {
        assert_eq!(labels(counts(11.0, 5)), ["0", "5", "10"]);
        assert_eq!(labels(counts(30_000.0, 3)), ["0", "10k", "20k", "30k"]);
        assert_eq!(labels(counts(1.0, 5)), ["0", "1"]);
        assert_eq!([1500.0, 12_345.0, 1_500_000.0].map(short), ["1.5k", "12.35k", "1.5M"]);
    }
}
