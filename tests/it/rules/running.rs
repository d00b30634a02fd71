//! The number of commands that run at once: `N/running`.

use fastrand::Rng;
use predicates::prelude::*;
use predicates::str::contains;
use throttle::exit::Exit;

use crate::simulated::commands::{Behaviour, Outcome, of_commands, run};
use crate::simulated::{MILLI, block};
use crate::support::{Directory, Running, eventually, fed, seeds, throttle};

fn takes(millis: u64) -> Behaviour {
    Behaviour { duration: millis * MILLI, code: 0, http: None, retry_after: None }
}

fn starts(outcome: &Outcome) -> Vec<(String, u64)> {
    outcome.runs.iter().map(|run| (run.line.clone(), run.start / MILLI)).collect()
}

/// The expected starts, found millisecond by millisecond. A line is its key and the duration of its command.
fn expected(case: &Case) -> Vec<(String, u64)> {
    let mut waiting: Vec<_> = case.lines.iter().collect();
    let mut started: Vec<(&Line, u64)> = Vec::new();
    let mut now = 0;
    while !waiting.is_empty() {
        let running: Vec<_> = started.iter().filter(|(line, at)| at + line.millis > now).collect();
        let of_key = |key| running.iter().filter(|(line, _)| line.key == key).count() as u64;
        let recent = started.iter().filter(|(_, at)| at + case.period > now).count() as u64;
        let may_start = |line: &Line| {
            of_key(line.key) < case.per_key && (running.len() as u64) < case.all && recent < case.count
        };
        // Items of a key keep their order.
        let first = |at: &usize| !waiting[..*at].iter().any(|other| other.key == waiting[*at].key);
        let next = (0..waiting.len()).filter(first).find(|&at| may_start(waiting[at]));
        match next.filter(|_| running.len() < case.jobs) {
            Some(at) => started.push((waiting.remove(at), now)),
            None => now += 1,
        }
    }
    started.iter().map(|(line, at)| (line.text(), *at)).collect()
}

struct Line {
    number: u64,
    key: u64,
    millis: u64,
}

impl Line {
    fn text(&self) -> String {
        format!("{} {} {}", self.key, self.millis, self.number)
    }
}

struct Case {
    per_key: u64,
    all: u64,
    count: u64,
    period: u64,
    jobs: usize,
    /// Hours that never end.
    during: [&'static str; 2],
    lines: Vec<Line>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let lines = (0..random.u64(1..30))
            .map(|number| Line { number, key: random.u64(0..4), millis: random.u64(1..20) })
            .collect();
        Case {
            per_key: random.u64(1..4),
            all: random.u64(1..6),
            count: random.u64(1..6),
            period: random.u64(1..10),
            jobs: random.usize(1..9),
            during: [(); 2].map(|()| random.choice(["", ",during=00:00-12:00,tz=UTC"]).expect("hours")),
            lines,
        }
    }
}

#[test]
fn at_random_each_command_starts_at_the_first_instant_at_which_few_enough_run() {
    for seed in seeds(200) {
        let case = Case::new(seed);
        let args = [
            format!("-r{}/running,key=col:1{}", case.per_key, case.during[0]),
            format!("-r{}/running{}", case.all, case.during[1]),
            format!("-r{}/{}ms", case.count, case.period),
            format!("-j{}", case.jobs),
        ];
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let lines: Vec<_> = case.lines.iter().map(Line::text).collect();
        let outcome = run(&args, vec![block(0, &lines)], |line, _| {
            takes(line.split(' ').nth(1).unwrap().parse().unwrap())
        });
        assert_eq!(starts(&outcome), expected(&case), "THROTTLE_SEED={seed} {args:?} {lines:?}");
        assert_eq!(outcome.exit, Exit::Done);
    }
}

#[test]
fn what_costs_more_takes_more_places() {
    let lines = ["2 a", "1 b", "2 c"];
    let outcome = run(&["-r3/running,cost=col:1", "-j9"], vec![block(0, &lines)], |_, _| takes(5));
    let wanted = [("2 a", 0), ("1 b", 0), ("2 c", 5)];
    assert_eq!(starts(&outcome), wanted.map(|(line, at)| (line.to_owned(), at)));
}

#[test]
fn what_comes_while_too_much_runs_is_dropped() {
    let blocks = [(0, "a"), (3, "b"), (6, "c")].map(|(at, line)| block(at * MILLI, &[line]));
    let outcome = run(&["-r1/running", "-j9", "--on-limit=drop"], blocks.into(), |_, _| takes(5));
    assert_eq!((outcome.runs.len(), outcome.stats.refused), (2, 1));
}

/// Commands that already run are counted, whichever limits are in force.
#[test]
fn a_file_changes_how_many_run() {
    let directory = Directory::new();
    let limits = directory.file("limits", "1/running\n");
    let limit = format!("-r@{}", limits.display());
    let script = "touch \"$0\"; while [ ! -e stop ]; do sleep 0.01; done";
    let wait = format!("cd {}; {script}", directory.path().display());
    let mut throttle = Running::fed(&[&limit, "-j9", "--", "sh", "-c", &wait], "1\n2\n3\n4\n5\n6\n");
    throttle.close_stdin();
    let running = |count| {
        (1..=6).filter(|number: &u32| directory.path().join(number.to_string()).exists()).count() == count
    };
    let steps = [
        ("1/running\n", 1),
        ("3/running\n", 3),
        ("3/running\n9/ms\n", 3),
        // It has no history to continue.
        ("9/ms\n4/running,cost=1\n", 4),
        ("5/running\n", 5),
    ];
    for (text, count) in steps {
        directory.file("limits", text);
        eventually(text, || running(count));
    }
    directory.file("stop", "");
    assert!(throttle.wait().success());
    assert!(running(6));
}

#[test]
fn what_makes_no_sense_is_told() {
    let table: [(&[&str], &str); 9] = [
        (&["-r4/running"], "N/running are for a command: add one, such as -- curl"),
        (
            &["-r4/running", "--once", "--", "echo"],
            "--once cannot see the end of COMMAND: leave out 4/running",
        ),
        (
            &["-r4/running", "-s", "./state", "--set-limits"],
            "4/running is of each run alone, so no state keeps it: leave it out\n",
        ),
        (
            &["-r4/s,from=exit", "-s", "./state", "--", "echo"],
            "how long commands run: add ,local to limit this run alone, or leave out from=exit or -s\n",
        ),
        (&["-r4/running,margin=1s", "--", "echo"], "N/running is a number of commands, not a rate"),
        (&["-r4/running,algo=bucket", "--", "echo"], "it takes cost=, key=, only=, during= and tz="),
        (&["-r1.5/running", "--", "echo"], "whole number"),
        (&["-r0/running", "--", "echo"], "a count of 0 would release nothing"),
        (&["-r1/runs", "--", "echo"], "not a period"),
    ];
    for (args, why) in table {
        throttle(args).assert().code(2).stderr(contains(why));
    }
    let directory = Directory::new();
    let limit = format!("-r@{}", directory.file("limits", "4/running\n").display());
    throttle(&[&limit]).assert().code(1).stderr(contains("4/running is for a command"));
}

#[test]
fn a_plan_and_an_audit_pass_it_over() {
    let limits = ["-r1/s", "-r2/running,key=col:1"];
    let plan = ["--dry-run", "-j9", "--", "echo"];
    let wanted = "0.000000000\techo a\n1.020000000\techo b\n";
    fed(&[&limits[..], &plan[..]].concat(), "a\nb\n").success().stdout(wanted);
    let audit = ["--audit", "--arrivals=col:1"];
    fed(&[&limits[..], &audit].concat(), "0 a\n1 b\n").success().stdout(contains("running").not());
    fed(&["--audit", "-r2/running"], "0 a\n").code(2);
}

/// Limits that change while commands run, each per key or for all, and with retries.
#[test]
fn at_random_no_more_run_than_the_limits_in_force_allow() {
    for seed in seeds(200) {
        let mut random = Rng::with_seed(seed);
        let mut list = || {
            let limits = (0..random.u8(1..3)).map(|_| {
                let key =
                    random.choice(["", ",key=col:1", ",key=col:2", ",key=col:1,only=0"]).expect("a key");
                let hours = random.choice(["", ",during=00:00-12:00,tz=UTC"]).expect("hours");
                (random.u64(1..4), key, hours)
            });
            limits.collect::<Vec<_>>()
        };
        let lists: Vec<_> = (0..4).map(|_| list()).collect();
        let texts = lists.iter().map(|list| {
            list.iter().map(|(count, key, hours)| format!("{count}/running{key}{hours}")).collect::<Vec<_>>()
        });
        let texts: Vec<_> = texts.collect();
        let lines: Vec<_> = (0..random.u64(1..30))
            .map(|number| format!("{} {} {} {number}", random.u64(0..3), random.u64(0..2), random.u64(1..20)))
            .collect();
        let mut args: Vec<_> = texts[0].iter().flat_map(|text| ["-r", text]).collect();
        args.extend(["-j9", "--retries=1", "--backoff=0.003..0.01"]);
        let mut changes = vec![0];
        let simulation = texts[1..].iter().fold(of_commands(&args), |simulation, list| {
            changes.push(changes[changes.len() - 1] + random.u64(0..30) * MILLI + 1);
            let list: Vec<_> = list.iter().map(String::as_str).collect();
            simulation.relimited(changes[changes.len() - 1], &list)
        });
        let fails = |line: &str| line.len().is_multiple_of(2);
        let outcome = simulation.run_commands(vec![block(0, &lines)], |line, attempt| Behaviour {
            code: i32::from(attempt == 1 && fails(line)),
            ..takes(line.split(' ').nth(2).unwrap().parse().unwrap())
        });
        let told = || format!("THROTTLE_SEED={seed} {texts:?} {changes:?} {:?}", outcome.runs);
        assert_eq!(outcome.exit, Exit::Done, "{}", told());
        let attempts = lines.iter().map(|line| 1 + usize::from(fails(line)));
        assert_eq!(outcome.runs.len(), attempts.sum::<usize>(), "{}", told());
        for (at, run) in outcome.runs.iter().enumerate() {
            let list = changes.iter().rposition(|change| *change <= run.start).expect("a list");
            let running = || outcome.runs[..at].iter().filter(|other| other.end > run.start);
            for (count, key, _) in &lists[list] {
                let of = |line: &str| match *key {
                    "" => String::new(),
                    ",key=col:2" => line.split(' ').nth(1).unwrap().to_owned(),
                    _ => line.split(' ').next().unwrap().to_owned(),
                };
                let is_meant = !key.contains("only") || of(&run.line) == "0";
                let alike = running().filter(|other| of(&other.line) == of(&run.line)).count() as u64;
                assert!(!is_meant || alike < *count, "{} {}", run.line, told());
            }
        }
    }
}
