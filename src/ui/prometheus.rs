//! Statistics in the text format of Prometheus: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::{Display, Write};

use crate::exit::Exit;
use crate::gate::Availability;
use crate::schedule::{LimitMetrics, LimitStats, Metrics, Stats};
use crate::time::{SECOND, Time, Wall};

/// The default algorithm, as printed.
const DEFAULT: &str = ",algo=sliding";

/// All metrics. `run` distinguishes the run from others on the same machine; `exit` is given once it is over.
pub(crate) fn text(run: &str, metrics: &Metrics, wall: Wall, exit: Option<Exit>) -> String {
    let mut page = String::new();
    let run = label("run", run);
    of_run(&mut page, &run, metrics, wall, exit);
    of_limits(&mut page, &run, &metrics.limits);
    page
}

fn of_run(page: &mut String, run: &str, metrics: &Metrics, wall: Wall, exit: Option<Exit>) {
    let Metrics { stats, running, next, .. } = metrics;
    let Stats { times, read, released, refused, skipped, retried, failed, bytes, .. } = stats;
    let mut metric = |name, help, value: Option<&dyn Display>| {
        family(page, name, help, value.map(|value| (run, value)));
    };
    metric("throttle_read_total", "Items read.", Some(read));
    metric("throttle_released_total", "Items released, not counting retries.", Some(released));
    metric("throttle_refused_total", "Items discarded by --on-limit.", Some(refused));
    metric("throttle_skipped_total", "Items passed over by --resume.", Some(skipped));
    metric("throttle_retried_total", "Retries of items.", Some(retried));
    metric("throttle_failed_total", "Items that failed after all their retries.", Some(failed));
    metric("throttle_bytes_total", "Bytes of the items that are done.", Some(bytes));
    let help = "Seconds that items waited although the output could have taken them.";
    metric("throttle_waiting_seconds_total", help, Some(&exact(times.waited)));
    let help = "Items that wait for their release or another attempt.";
    metric("throttle_waiting_items", help, Some(&stats.left()));
    metric("throttle_running_commands", "Commands that are running.", Some(running));
    let next = next.map(|next| timestamp(wall.shows(next)));
    let help = "When the next release may be, in seconds since 1970; absent while none waits for an instant.";
    metric("throttle_next_release_timestamp_seconds", help, next.as_ref().map(|next| next as _));
    let started = timestamp(wall.shows(times.started));
    metric("throttle_start_time_seconds", "When the run started, in seconds since 1970.", Some(&started));
    let status = exit.map(Exit::status);
    let help = "The exit status, once the run is over; absent while it runs.";
    metric("throttle_exit_status", help, status.as_ref().map(|status| status as _));
}

fn of_limits(page: &mut String, run: &str, limits: &[LimitMetrics]) {
    let labels = labels(run, limits);
    let mut metric = |name, help, value: &dyn Fn(&LimitMetrics) -> Option<String>| {
        let samples =
            labels.iter().zip(limits).filter_map(|(labels, limit)| Some((&**labels, value(limit)?)));
        family(page, name, help, samples);
    };
    let mut counter = |name, help, value: fn(&LimitStats) -> u64| {
        metric(name, help, &|limit| Some(value(&limit.stats).to_string()));
    };
    let help = "Releases that the limit was charged for, retries included; a batch is one.";
    counter("throttle_limit_released_total", help, |limit| limit.releases);
    counter("throttle_limit_cost_total", "What these releases cost.", |limit| limit.cost);
    let help = "Items discarded by --on-limit because of the limit.";
    counter("throttle_limit_refused_total", help, |limit| limit.refused);
    let help = "Retries of items that the limit was charged for.";
    counter("throttle_limit_retried_total", help, |limit| limit.retried);
    let help = "Items that the limit was charged for and that failed after all their retries.";
    counter("throttle_limit_failed_total", help, |limit| limit.failed);
    let help = "How often the next release waited for this limit, of all limits.";
    counter("throttle_limit_waits_total", help, |limit| limit.waits);
    let help = "Seconds that the next release waited for this limit, of all limits.";
    metric("throttle_limit_waiting_seconds_total", help, &|limit| Some(exact(limit.stats.waited)));
    let help =
        "How much the limit allows at once now; absent outside its hours, for limits by key and shared ones.";
    metric("throttle_limit_available", help, &|limit| match limit.standing? {
        Availability::Common { available } => Some(available.to_string()),
        Availability::Keyed { .. } => None,
    });
    let help = "The rate a second that is found, for a limit LOW..HIGH without a key.";
    metric("throttle_limit_found_rate", help, &|limit| {
        let found = limit.found?;
        Some(format!("{}.{:03}", found / 1000, found % 1000))
    });
    let help = "Keys that the limit remembers; absent for limits without a key.";
    metric("throttle_limit_keys", help, &|limit| match limit.standing? {
        Availability::Keyed { keys } => Some(keys.to_string()),
        Availability::Common { .. } => None,
    });
}

/// The labels of each limit. Limits with the same name are numbered.
fn labels(run: &str, limits: &[LimitMetrics]) -> Vec<String> {
    let typed = |limit: &LimitMetrics| limit.stats.rate.to_string().replacen(DEFAULT, "", 1);
    let names: Vec<_> = limits.iter().map(typed).collect();
    let labels = |(at, name): (usize, &String)| {
        let labels = format!("{run},{}", label("limit", name));
        let number = |names: &[String]| names.iter().filter(|other| *other == name).count();
        match number(&names) {
            1 => labels,
            _ => format!("{labels},index=\"{}\"", number(&names[..=at])),
        }
    };
    names.iter().enumerate().map(labels).collect()
}

/// Adds a metric with its samples, if there are any. Writing to a string cannot fail.
fn family<'a, V: Display>(
    page: &mut String,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (&'a str, V)>,
) {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return;
    }
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(page, "{name}{{{labels}}} {value}");
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

/// Nanoseconds as seconds, with all digits.
fn exact(nanos: u64) -> String {
    let text = Time(nanos).to_string();
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An instant to the millisecond: finer ones would change with every reading of the clocks. Rounded up, so never too
/// early.
fn timestamp(shown: Time) -> String {
    exact(shown.0.checked_next_multiple_of(SECOND / 1000).unwrap_or(shown.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;
    use crate::schedule::Times;

    fn limit(text: &str) -> LimitMetrics {
        let rate = text.parse::<Rate>().unwrap();
        LimitMetrics { stats: LimitStats { rate, ..LimitStats::default() }, standing: None, found: None }
    }

    fn metrics(limits: Vec<LimitMetrics>) -> Metrics {
        let times = Times { waited: SECOND / 4, ..Times::default() };
        let stats = Stats { read: 9, released: 7, settled: 7, times, ..Stats::default() };
        Metrics { stats, running: 2, next: None, limits }
    }

    fn lines(metrics: &Metrics, exit: Option<Exit>) -> Vec<String> {
        let wall = Wall::new(Time(5 * SECOND), Time(1000 * SECOND + 1));
        let text = text("mail", metrics, wall, exit);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn sample<'a>(lines: &'a [String], name: &str) -> Vec<&'a str> {
        let found = lines.iter().filter_map(|line| line.strip_prefix(name));
        found.filter(|rest| rest.starts_with('{')).collect()
    }

    #[test]
    fn a_run_that_goes_on() {
        let lines = lines(&Metrics { next: Some(Time(6 * SECOND)), ..metrics(vec![]) }, None);
        let expected = [
            ("throttle_read_total", "{run=\"mail\"} 9"),
            ("throttle_released_total", "{run=\"mail\"} 7"),
            ("throttle_waiting_seconds_total", "{run=\"mail\"} 0.25"),
            ("throttle_waiting_items", "{run=\"mail\"} 2"),
            ("throttle_running_commands", "{run=\"mail\"} 2"),
            ("throttle_next_release_timestamp_seconds", "{run=\"mail\"} 1001.001"),
            ("throttle_start_time_seconds", "{run=\"mail\"} 995.001"),
        ];
        for (name, value) in expected {
            assert_eq!(sample(&lines, name), [value], "{name}");
        }
        assert!(sample(&lines, "throttle_exit_status").is_empty());
    }

    #[test]
    fn a_run_that_is_over_has_a_status() {
        let lines = lines(&metrics(vec![]), Some(Exit::Signal(15)));
        assert_eq!(sample(&lines, "throttle_exit_status"), ["{run=\"mail\"} 143"]);
        assert!(sample(&lines, "throttle_next_release_timestamp_seconds").is_empty());
    }

    #[test]
    fn limits_are_told_apart() {
        let limits = ["10/m", "10/m,algo=bucket", "10/m", r#"1/s,key=re:"\d"#].map(limit).into();
        let lines = lines(&metrics(limits), None);
        let expected = [
            r#"{run="mail",limit="10/1m",index="1"} 0"#,
            r#"{run="mail",limit="10/1m,algo=bucket,burst=10"} 0"#,
            r#"{run="mail",limit="10/1m",index="2"} 0"#,
            r#"{run="mail",limit="1/1s,key=re:\"\\d"} 0"#,
        ];
        assert_eq!(sample(&lines, "throttle_limit_released_total"), expected);
    }

    /// The limits differ, as one was rounded, but print alike.
    #[test]
    fn limits_that_are_told_alike_are_numbered() {
        let limits = ["33.333333333333336/s", "34/1s20ms"].map(limit).into();
        let lines = lines(&metrics(limits), None);
        let expected = [1, 2].map(|index| format!(r#"{{run="mail",limit="34/1s20ms",index="{index}"}} 0"#));
        assert_eq!(sample(&lines, "throttle_limit_released_total"), expected);
    }

    #[test]
    fn a_limit_in_numbers() {
        let mut limit = limit("10/m");
        (limit.stats.releases, limit.stats.cost) = (3, 12);
        limit.stats.waited = 61 * SECOND;
        limit.standing = Some(Availability::Common { available: 4 });
        let lines = lines(&metrics(vec![limit]), None);
        let expected = [
            ("throttle_limit_released_total", "3"),
            ("throttle_limit_cost_total", "12"),
            ("throttle_limit_waiting_seconds_total", "61"),
            ("throttle_limit_available", "4"),
        ];
        for (name, value) in expected {
            assert_eq!(sample(&lines, name), [format!("{{run=\"mail\",limit=\"10/1m\"}} {value}")]);
        }
        assert!(sample(&lines, "throttle_limit_keys").is_empty());
    }

    #[test]
    fn keys_are_counted_and_not_named() {
        let mut limit = limit("10/m,key=col:1");
        let standing = Availability::Keyed { keys: 1_000_000 };
        limit.standing = Some(standing);
        let lines = lines(&metrics(vec![limit]), None);
        let labels = "{run=\"mail\",limit=\"10/1m,key=col:1\"}";
        assert_eq!(sample(&lines, "throttle_limit_keys"), [format!("{labels} 1000000")]);
        assert!(sample(&lines, "throttle_limit_available").is_empty());
    }
}
