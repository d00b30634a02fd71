//! Requests of commands keep the limits of a server that counts them as they arrive.

mod server;

use std::ops::RangeInclusive;

use fastrand::Rng;
#[cfg(feature = "sqlite")]
use predicates::str::starts_with;
use throttle::time::SECOND;

use crate::simulated::commands::Behaviour;
use crate::simulated::{MILLI, Simulation, block};
#[cfg(feature = "sqlite")]
use crate::support::Directory;
use crate::support::{for_each_seed, text, throttle};

/// The limits of a run, as `-v` prints them.
fn limits(args: &[&str]) -> String {
    let output = throttle(&[&["-v"], args].concat()).write_stdin("").output().unwrap();
    let told = text(&output.stderr);
    let limits = told.lines().filter_map(|line| line.strip_prefix("throttle: limit "));
    limits.collect::<Vec<_>>().join(" ")
}

#[test]
fn windows_of_commands_have_a_margin_and_nothing_else_has_one() {
    let command = ["--", "true"];
    let with = [
        ("-r10/s", "10/1s,algo=sliding,margin=20ms"),
        ("-r100/m", "100/1m,algo=sliding,margin=50ms"),
        ("-r1/20ms", "1/20ms,algo=sliding,margin=400us"),
        ("-r1/49ns", "1/49ns,algo=sliding"),
        ("-r9/s,algo=fixed", "9/1s,algo=fixed,margin=20ms"),
        ("-r9/d,algo=calendar,tz=UTC", "9/1day,algo=calendar,margin=50ms,tz=UTC"),
        ("-r9/s,algo=bucket", "9/1s,algo=bucket,burst=9"),
        ("-r9/s,algo=interval", "9/1s,algo=interval"),
        ("-r9/s,from=exit", "9/1s,algo=sliding,from=exit"),
        ("-r9/s,from=exit,margin=1ms", "9/1s,algo=sliding,margin=1ms,from=exit"),
        ("-r9/s,margin=0", "9/1s,algo=sliding"),
        ("-r9/s,margin=1ms", "9/1s,algo=sliding,margin=1ms"),
        ("-r0/s,during=Mon,tz=UTC", "0/1s,algo=sliding,during=Mon,tz=UTC"),
        ("-r9/running", "9/running"),
    ];
    for (limit, printed) in with {
        assert_eq!(limits(&[&[limit][..], &command].concat()), printed, "{limit}");
        let (bare, _) = limit.split_once("margin").unwrap_or((limit, ""));
        let without = limits(&[&["--margin=0", bare.trim_end_matches(',')][..], &command].concat());
        assert!(!without.contains("margin"), "{without}");
    }
    for args in [
        &["-r9/s"][..],
        &["-r9/s", "--dry-run"],
        &["-r9/s", "--audit", "--arrivals=col:1"],
        &["-r9/s", "--once", "--jitter=1ns"],
    ] {
        assert_eq!(limits(args), "9/1s,algo=sliding", "{args:?}");
    }
    for args in
        [&["-r9/s", "--dry-run", "--", "true"][..], &["-r9/s", "--once", "--jitter=1ns", "--", "true"]]
    {
        assert_eq!(limits(args), "9/1s,algo=sliding,margin=20ms", "{args:?}");
    }
}

/// The slots of a shared limit have a reserve of their own, which is the same for all who share it.
#[test]
#[cfg(feature = "sqlite")]
fn runs_with_and_without_a_command_share_limits() {
    let directory = Directory::new();
    let state = directory.path().join("state").display().to_string();
    let shared = ["-s", &state, "-r9/s"];
    for more in [&["--", "true"][..], &[], &["--once", "--", "true"], &["--margin=0", "--", "true"]] {
        assert_eq!(limits(&[&shared, more].concat()), "9/1s,algo=sliding", "{more:?}");
    }
    throttle(&["-s", &state, "--status"]).assert().stdout(starts_with("9/1s,algo=sliding,margin=10ms: "));
}

#[test]
fn limits_that_change_have_the_margin_too() {
    let run = Simulation::new(&["-r1/1s", "-j9", "--", "simulated"])
        .relimited(2 * SECOND, &["1/2s", "9/1s,margin=0"]);
    let outcome = run.run_commands(vec![block(0, &["a", "b", "c", "d"])], |_, _| behaviour(0));
    let starts: Vec<_> = outcome.runs.iter().map(|run| run.start / MILLI).collect();
    assert_eq!(starts, [0, 1020, 3060, 5100]);
}

/// The number of requests that a server with a limit of `count` in any `period` refuses.
fn refused(count: usize, period: u64, mut arrivals: Vec<u64>) -> usize {
    arrivals.sort_unstable();
    let mut admitted: Vec<u64> = Vec::new();
    for at in &arrivals {
        let is_full = admitted.len() >= count && at - admitted[admitted.len() - count] < period;
        if !is_full {
            admitted.push(*at);
        }
    }
    arrivals.len() - admitted.len()
}

/// The instants at which requests reach a server, each after a `latency` that is within its command's time.
fn arrivals(random: &mut Rng, args: &[&str], slowness: u64, latencies: &[u64]) -> Vec<u64> {
    let args = [args, &["--", "simulated"]].concat();
    let run = Simulation::new(&args).late(random.u64(..), 3 * MILLI).slow(random.u64(..), slowness);
    let lines: Vec<_> = (0..latencies.len()).map(|number| number.to_string()).collect();
    let latency = |line: &str| latencies[line.parse::<usize>().unwrap()];
    let outcome = run.run_commands(vec![block(0, &lines)], |line, _| behaviour(latency(line) + MILLI));
    outcome.runs.iter().map(|run| random.u64(run.start..=run.started) + latency(&run.line)).collect()
}

fn behaviour(duration: u64) -> Behaviour {
    Behaviour { duration, code: 0, http: None, retry_after: None }
}

fn draw(random: &mut Rng, requests: usize, range: RangeInclusive<u64>) -> Vec<u64> {
    (0..requests).map(|_| random.u64(range.clone())).collect()
}

/// Without the margin, the same requests are refused.
#[test]
fn at_random_none_is_refused_whose_latency_varies_by_no_more_than_the_margin() {
    let mut refused_without = 0;
    for_each_seed(60, |random| {
        let (count, period) = (random.usize(1..20), random.u64(50..100_000) * MILLI);
        let margin = (period / 50).min(50 * MILLI);
        let least = random.u64(0..SECOND);
        let latencies = draw(random, 5 * count, least..=least + margin);
        let (limit, jobs) = (format!("-r{count}/{period}ns"), format!("-j{}", random.u32(1..50)));
        let mut refused = |more: &[&str]| {
            let args = [&[limit.as_str(), &jobs], more].concat();
            refused(count, period, arrivals(random, &args, MILLI, &latencies))
        };
        assert_eq!(refused(&[]), 0, "{limit} {jobs}");
        refused_without += refused(&["--margin=0"]);
    });
    assert!(refused_without > 0);
}

/// It counts in periods of the calendar. What leaves in one also arrives in it.
#[test]
fn at_random_none_is_refused_that_arrives_within_the_margin_of_a_boundary() {
    for_each_seed(60, |random| {
        let (count, period) = (random.usize(1..20), random.choice([1, 2, 10, 60, 3600]).unwrap() * SECOND);
        let margin = (period / 50).min(50 * MILLI);
        let latencies = draw(random, 5 * count, 0..=margin);
        let limit = format!("-r{count}/{period}ns,algo=calendar,tz=UTC");
        let arrivals = arrivals(random, &[&limit], 0, &latencies);
        let together = |at: &u64| arrivals.iter().filter(|other| *other / period == at / period).count();
        assert!(arrivals.iter().all(|at| together(at) <= count), "{limit}: {arrivals:?}");
    });
}

/// A latency of 5 to 40 ms varies by 35 ms: more than the 20 ms of margin that a second has, less than the 50 ms that a
/// minute has.
#[test]
fn what_varies_by_more_than_the_margin_needs_a_larger_one_or_the_end_of_commands() {
    let random = &mut Rng::with_seed(7);
    let latencies = draw(random, 1000, 5 * MILLI..=40 * MILLI);
    for (limit, count, period) in [("5/s", 5, SECOND), ("20/s", 20, SECOND), ("100/m", 100, 60 * SECOND)] {
        for jobs in ["-j1", "-j1M"] {
            let mut refused = |option: &str| {
                let limit = format!("-r{limit}{option}");
                refused(count, period, arrivals(random, &[&limit, jobs], 0, &latencies))
            };
            let (none, default) = (refused(",margin=0"), refused(""));
            eprintln!("{limit} {jobs}: of 1000, {none} are refused without a margin, {default} by default");
            assert!(default < none, "{limit} {jobs}: {none}, {default}");
            assert!(default == 0 || period == SECOND, "{limit} {jobs}: {default}");
            assert_eq!((refused(",margin=35ms"), refused(",from=exit")), (0, 0), "{limit} {jobs}");
        }
    }
}
