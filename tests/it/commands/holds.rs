//! Pauses that servers ask for: the headers, and which items wait how long.

mod headers;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod shared;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::http::serve;
use crate::simulated::commands::{Behaviour, Ran, run};
use crate::simulated::{MILLI, block};
use crate::support::{Directory, UNLIMITED, fed, needs_program, seeds, text, throttle};

/// Lines with some keys, each with its arrival and the behaviour of its command.
struct Case {
    max_hold: u64,
    lines: Vec<(u64, String, Behaviour)>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut at = 0;
        let lines = (0..random.u64(1..60)).map(|number| {
            at += random.u64(0..30) * MILLI;
            let asked = random.u64(0..400) * MILLI + 7;
            let behaviour = Behaviour {
                duration: random.u64(1..100) * MILLI + number + 11,
                code: i32::from(random.u8(..4) == 0),
                http: None,
                retry_after: (random.u8(..3) == 0).then_some(asked),
            };
            (at, format!("{} {number}", random.u8(..3)), behaviour)
        });
        Case { lines: lines.collect(), max_hold: random.u64(1..400) * MILLI }
    }

    /// When each command starts: at its arrival, but not before its predecessor in the lane and not during a known
    /// pause.
    fn expected(&self, by_key: bool) -> Vec<(u64, String)> {
        let mut starts: Vec<(u64, String)> = Vec::new();
        // For each lane: when each pause is heard of and when it ends; and the last start.
        let mut lanes: BTreeMap<&str, (Vec<(u64, u64)>, u64)> = BTreeMap::new();
        for (arrival, line, behaviour) in &self.lines {
            let lane = if by_key { &line[..1] } else { "" };
            let (pauses, last) = lanes.entry(lane).or_default();
            let mut start = (*arrival).max(*last);
            while let Some((_, over)) = pauses.iter().find(|(heard, over)| *heard <= start && start < *over) {
                start = *over;
            }
            *last = start;
            let end = start + behaviour.duration;
            pauses.extend(behaviour.retry_after.map(|asked| (end, end + asked.min(self.max_hold))));
            starts.push((start, line.clone()));
        }
        starts.sort();
        starts
    }

    fn found(&self, options: &str) -> Vec<(u64, String)> {
        let max_hold = format!("--max-hold={}ns", self.max_hold);
        let blocks = self.lines.iter().map(|(at, line, _)| block(*at, &[line])).collect();
        let args: Vec<_> = [options, "-j999", &max_hold].into();
        let outcome = run(&args, blocks, |line, _| {
            let known = self.lines.iter().find(|(_, other, _)| other == line);
            known.expect("a line").2
        });
        let mut starts: Vec<_> =
            outcome.runs.into_iter().map(|Ran { start, line, .. }| (start, line)).collect();
        starts.sort();
        starts
    }
}

/// Whether or not a command fails, and even if nothing waits when it asks for a pause.
#[test]
fn what_is_held_goes_exactly_when_its_pauses_are_over_and_nothing_else_waits() {
    for seed in seeds(50) {
        let case = Case::new(seed);
        for (options, by_key) in [("-r1T/s", false), ("-r1T/s,key=col:1", true)] {
            println!("seed {seed} {options}");
            assert_eq!(case.found(options), case.expected(by_key));
        }
    }
}

/// A server whose every answer says that the quota is used up for 0.3 s. Reports when requests arrive.
fn exhausted_server(header: &'static str) -> (String, Receiver<Instant>) {
    let (tell, told) = mpsc::channel();
    let port = serve(move |stream| {
        let _ = tell.send(Instant::now());
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{header}\r\nContent-Length: 5\r\n\r\ndone\n");
    });
    (format!("http://127.0.0.1:{port}/"), told)
}

/// Runs the line exactly as in the cookbook.
#[test]
fn the_recipe_heeds_what_a_server_says_with_success() {
    if needs_program("curl").is_none() {
        return;
    }
    let recipe = "throttle -r 5000/h -- curl -fsS -D {headers} {} <urls";
    let cookbook = include_str!("../../../man/throttle-cookbook.7").replace(r"\-", "-");
    assert!(cookbook.contains(recipe), "{cookbook}");
    let (url, told) = exhausted_server("X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset-After: 0.3");
    let home = Directory::new();
    home.file("urls", format!("{url}1\n{url}2\n"));
    let mut command = home.sh(recipe);
    let output = command.env("HOME", home.path()).env("no_proxy", "*").assert();
    output.stdout("done\ndone\n").stderr("");
    let times: Vec<_> = told.try_iter().collect();
    assert_eq!(times.len(), 2);
    assert!(times[1].duration_since(times[0]) >= Duration::from_millis(300), "{times:?}");
}

#[test]
fn a_pause_is_told_and_is_no_longer_than_it_may_be() {
    let script = "echo 'x-ratelimit-remaining: 0\nx-ratelimit-reset: 90000' >$THROTTLE_HEADERS";
    let run = |args: &[&str]| {
        let args = [args, &[UNLIMITED, "--", "sh", "-c", script]].concat();
        let output = throttle(&args).write_stdin("a 1\n").output().expect("a run");
        assert_eq!(output.status.code(), Some(0));
        text(&output.stderr)
    };
    let told = run(&[]);
    let expected = "throttle: item 1 'a 1': the server asks for a pause of 1day1h, --max-hold allows 1h: all \
        items wait \
                    until ";
    assert!(told.starts_with(expected), "{told}");
    let told = run(&["--max-hold=2d", "-Kcol:1"]);
    let expected =
        "throttle: item 1 'a 1': the server asks for a pause of 1day1h: all items with its keys wait until ";
    assert!(told.starts_with(expected), "{told}");
    let told = run(&["--max-hold=1.5s"]);
    assert!(told.contains("--max-hold allows 1.5s: "), "{told}");
    assert_eq!(run(&["--max-hold=0"]), "");
    assert_eq!(run(&["-q"]), "");
}

#[test]
fn what_cannot_be_read_of_a_server_is_told_once() {
    let run = |said: &str| {
        let script = format!("printf '{said}' >$THROTTLE_HEADERS");
        let command = [UNLIMITED, "--", "sh", "-c", &script];
        text(&throttle(&command).write_stdin("a\nb\n").output().expect("a run").stderr)
    };
    let told = |said: &str| {
        let needs = "$THROTTLE_HEADERS needs HTTP headers, seconds or an HTTP date";
        format!("throttle: item 1 'a': {needs}, so {said} sets no hold\n")
    };
    assert_eq!(run("junk\\n"), told("'junk'"));
    assert_eq!(run("HTTP/2 429\\r\\nRetry-After: 1m\\r\\n\\r\\n"), told("'Retry-After: 1m'"));
    assert_eq!(run("HTTP/2 200\\r\\nserver: x\\r\\n\\r\\n"), "");
    assert_eq!(run(""), "");
}

/// What is written under either name counts once.
#[test]
fn the_file_of_headers_has_two_names() {
    let script = "test \"$THROTTLE_HEADERS\" = \"$THROTTLE_RETRY_AFTER\" && echo 0.2 >$THROTTLE_RETRY_AFTER \
        && date +%s%N";
    let output =
        throttle(&[UNLIMITED, "--", "sh", "-c", script]).write_stdin("1\n2\n").output().expect("a run");
    let times: Vec<u64> = text(&output.stdout).lines().map(|line| line.parse().expect("a time")).collect();
    assert!(times.len() == 2 && times[1] - times[0] >= 199 * MILLI, "{times:?}");
}

/// If no file can be written, commands run but cannot ask for a pause.
#[test]
fn commands_run_where_there_is_no_room_for_files() {
    let args = [UNLIMITED, "--", "sh", "-c", "echo $THROTTLE_HEADERS"];
    let output = throttle(&args).env("TMPDIR", "/dev/null/x").write_stdin("1\n").output().expect("a run");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("/dev/null\n", Some(0)));
}

#[test]
fn the_log_counts_a_hold_as_a_wait() {
    let directory = Directory::new();
    let log = directory.path().join("log");
    let script = "[ $1 = 2 ] || echo .3 > $THROTTLE_HEADERS";
    let log_option = format!("--log={}", log.display());
    fed(&[UNLIMITED, &log_option, "--", "sh", "-c", script, "sh"], "1\n2\n").success();
    let rows = std::fs::read_to_string(log).expect("a log");
    let wait = rows.lines().last().and_then(|row| row.split('\t').nth(2)).expect("a column");
    assert!(wait.parse::<f64>().is_ok_and(|wait| wait >= 0.3), "{rows}");
}
