//! Many commands in the simulated world: when each starts depends on when and how others end.

use std::ops::Range;

use fastrand::Rng;
use throttle::config::Jitter;
use throttle::exit::Exit;

use crate::simulated::commands::{Behaviour, Outcome, Ran, of_commands, run};
use crate::simulated::{MILLI, block};
use crate::support::seeds;

/// Succeeds after this number of milliseconds.
fn ok(millis: u64) -> Behaviour {
    ends(millis, 0)
}

/// Exits with this code after this number of milliseconds.
fn ends(millis: u64, code: i32) -> Behaviour {
    Behaviour { duration: millis * MILLI, code, http: None, retry_after: None }
}

/// Each line with the start of its command, in milliseconds.
fn starts(outcome: &Outcome) -> Vec<(&str, u64)> {
    outcome.runs.iter().map(|run| (run.line.as_str(), run.start / MILLI)).collect()
}

#[test]
fn a_command_starts_when_one_of_those_at_once_has_ended() {
    let outcome = run(&["-r1T/s", "-j2"], vec![block(0, &["a", "b", "c", "d"])], |line, _| match line {
        "a" => ok(30),
        _ => ok(20),
    });
    assert_eq!(starts(&outcome), [("a", 0), ("b", 0), ("c", 20), ("d", 30)]);
}

#[test]
fn a_limit_counts_from_the_end_of_commands() {
    let lines = ["a", "b", "c", "d", "e"];
    let overlapping = run(&["-r2/10ms,from=exit", "-j9"], vec![block(0, &lines)], |_, _| ok(5));
    assert_eq!(starts(&overlapping), [("a", 0), ("b", 0), ("c", 15), ("d", 15), ("e", 30)]);
    let serial = run(&["-r1/10ms,from=exit,algo=interval", "-j9"], vec![block(0, &lines)], |_, _| ok(5));
    assert_eq!(starts(&serial), [("a", 0), ("b", 15), ("c", 30), ("d", 45), ("e", 60)]);
}

#[test]
fn with_keys_each_counts_from_the_ends_of_its_own() {
    let lines = ["a 1", "a 2", "b 1", "a 3"];
    let outcome = run(&["-r1/10ms,key=col:1,from=exit", "-j9"], vec![block(0, &lines)], |_, _| ok(5));
    assert_eq!(starts(&outcome), [("a 1", 0), ("b 1", 0), ("a 2", 15), ("a 3", 30)]);
}

#[test]
fn while_a_server_asks_to_wait_nothing_of_that_lane_is_released() {
    let asks = |line: &str, attempt| match (line, attempt) {
        ("a", 1) => Behaviour { retry_after: Some(100 * MILLI), ..ends(5, 1) },
        _ => ok(5),
    };
    let outcome = run(&["-n1", "-p10ms", "-j9", "--retries=1"], vec![block(0, &["a", "b", "c"])], asks);
    assert_eq!(starts(&outcome), [("a", 0), ("a", 105), ("b", 115), ("c", 125)]);
    let keyed = ["-r1/10ms,key=col:1", "-j9", "--retries=1"];
    let outcome = run(&keyed, vec![block(0, &["a", "a2", "b"])], asks);
    assert_eq!(starts(&outcome), [("a", 0), ("a2", 0), ("b", 0), ("a", 105)]);
}

#[test]
fn an_item_that_backs_off_comes_back_before_all_that_is_behind_it() {
    let fails = |line: &str, attempt| ends(5, i32::from(line == "a" && attempt == 1));
    let lines: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].into();
    let args = ["-n1", "-p10ms", "-j9", "--retries=1", "--backoff=30ms..30ms"];
    let outcome = run(&args, vec![block(0, &lines)], fails);
    // Its backoff ends at 35, and its turn is at 40.
    let expected =
        [("a", 0), ("b", 10), ("c", 20), ("d", 30), ("a", 40), ("e", 50), ("f", 60), ("g", 70), ("h", 80)];
    assert_eq!(starts(&outcome), expected);
    let outcome = run(&[&args[..], &["--in-order"]].concat(), vec![block(0, &["a", "b", "c"])], fails);
    assert_eq!(starts(&outcome), [("a", 0), ("a", 35), ("b", 45), ("c", 55)]);
}

#[test]
fn an_item_that_backs_off_holds_up_those_of_its_own_key_no_more_than_any_other() {
    let fails = |line: &str, attempt| ends(5, i32::from(line == "a 1" && attempt == 1));
    let args = ["-r1/10ms,key=col:1", "-j9", "--retries=1", "--backoff=30ms..30ms"];
    let outcome = run(&args, vec![block(0, &["a 1", "a 2", "b 1", "b 2"])], fails);
    let expected = [("a 1", 0), ("b 1", 0), ("a 2", 10), ("b 2", 10), ("a 1", 35)];
    assert_eq!(starts(&outcome), expected);
}

/// At 12 ms, the limit would let one of both go.
#[test]
fn a_batch_is_tried_again_as_a_whole() {
    let fails = |line: &str, attempt| match (line, attempt) {
        ("1 a\n1 b", 1) => ends(12, 1),
        _ => ok(1),
    };
    let args = ["-r3/10ms,cost=col:1", "-B2", "-j9", "--retries=1"];
    let outcome = run(&args, vec![block(0, &["1 a", "1 b"]), block(4 * MILLI, &["1 c", "1 d"])], fails);
    assert_eq!(starts(&outcome), [("1 a\n1 b", 0), ("1 c", 4), ("1 d", 10), ("1 a\n1 b", 14)]);
}

/// Too few wait behind it to fill it, as when it left first.
#[test]
fn a_batch_that_is_tried_again_waits_for_no_others() {
    let arrivals = [(0, "a"), (1, "b"), (2, "b"), (4, "c"), (50, "d")];
    let arrivals = arrivals.map(|(at, line)| block(at * MILLI, &[line])).into();
    let args = ["-r1k/s,key=col:1", "-B3,30ms", "-j9", "--retries=1", "--in-order"];
    let outcome = run(&args, arrivals, |line, attempt| ends(4, i32::from(line == "a" && attempt == 1)));
    assert_eq!(starts(&outcome)[..3], [("a", 1), ("b\nb", 4), ("a", 5)]);
}

/// The last item of each arrives when it leaves, and so does that of the other.
#[test]
fn a_batch_that_is_tried_again_goes_back_into_one_lane() {
    let arrivals = vec![block(0, &["a 1", "b 1"]), block(5 * MILLI, &["a 2", "b 2"])];
    let args = ["-r1k/s,key=col:1", "-B2,10ms", "-j9", "--retries=1"];
    let outcome = run(&args, arrivals, |_, attempt| ends(1, i32::from(attempt == 1)));
    let (a, b) = ("a 1\na 2", "b 1\nb 2");
    assert_eq!(starts(&outcome), [(a, 5), (b, 5), (a, 6), (b, 6)]);
}

/// Not the rest of the delay of the item that it moves ahead of.
#[test]
fn an_attempt_has_a_random_delay_of_its_own() {
    let jitter: Jitter = "50ms,seed=1".parse().unwrap();
    let fails = |line: &str, attempt| ends(0, i32::from(line == "a" && attempt == 1));
    let args = ["-r1k/ms", "-j9", "--retries=1", "--backoff=1ms..1ms", "--jitter=50ms,seed=1"];
    let outcome = run(&args, vec![block(0, &["a", "b"])], fails);
    let first = jitter.delay(1, 1);
    let again = first + MILLI + jitter.delay(1, 2);
    let starts: Vec<_> = outcome.runs.iter().map(|run| (run.line.as_str(), run.start)).collect();
    assert_eq!(starts, [("a", first), ("a", again), ("b", again + jitter.delay(2, 1))]);
}

/// Even in input order, as the item that backs off for longer is behind it.
#[test]
fn an_item_that_backs_off_is_not_held_up_by_another_behind_it() {
    let behave = |line: &str, attempt| match (line, attempt) {
        ("a", 1) => ends(10, 1),
        ("b", 1) => ends(300, 1),
        _ => ok(1),
    };
    let args = ["-r1k/s", "-j9", "--in-order", "--retries=1", "--backoff=0.5..0.5"];
    let outcome = run(&args, vec![block(0, &["a", "b"])], behave);
    assert_eq!(starts(&outcome), [("a", 0), ("b", 0), ("a", 510), ("b", 800)]);
}

#[test]
fn halting_starts_nothing_more() {
    let fails = |line: &str, _| ends(5, i32::from(line == "x"));
    let table = [
        ("soon,fail=1", "a x a a", 2),
        ("soon,fail=2", "a x a x a", 4),
        // The percentage is of all items, not of those that have ended.
        ("soon,fail=50%", "x a x a a", 5),
        ("soon,fail=40%", "x a x a a", 3),
        ("soon,fail=50%", "x x a a", 2),
    ];
    for (halt, lines, started) in table {
        let lines: Vec<_> = lines.split(' ').collect();
        let outcome = run(&["-n1", "-p10ms", "-j2", "--halt", halt], vec![block(0, &lines)], fails);
        assert_eq!((outcome.runs.len(), outcome.exit), (started, Exit::CommandFailed), "{halt} {lines:?}");
        assert_eq!(outcome.stats.left(), (lines.len() - started) as u64);
    }
}

/// Random limits, lines and commands.
struct Case {
    random: Rng,
    count: u64,
    period: u64,
    jobs: u64,
    retries: u64,
    /// The most by which it wakes late, and the most that a start takes.
    delays: [u64; 2],
    lines: Vec<String>,
    /// When each line arrives.
    arrivals: Vec<u64>,
    /// When the limit changes, and to what count.
    changes: Vec<(u64, u64)>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let lines: Vec<_> =
            (0..random.u64(1..40)).map(|number| format!("{} {number}", random.u64(0..4))).collect();
        let mut at = 0;
        let mut next = || {
            at += random.u64(0..20) * MILLI;
            at
        };
        let arrivals = lines.iter().map(|_| next()).collect();
        let mut up_to = |range: Range<u64>| random.u64(range);
        let (count, period, jobs, retries) = (up_to(1..5), up_to(1..50), up_to(1..8), up_to(0..4));
        let delays = random.choice([[0, 0], [5 * MILLI, 9 * MILLI]]).expect("one");
        let changes = Vec::new();
        Case { random, count, period, jobs, retries, delays, lines, arrivals, changes }
    }

    /// Runs it under a limit with these options, and with `more` arguments.
    fn run(&mut self, options: &str, more: &[&str]) -> Outcome {
        let rate = format!("-r{}/{}ms{options}", self.count, self.period);
        let (jobs, retries) = (format!("-j{}", self.jobs), format!("--retries={}", self.retries));
        let arriving = self.arrivals.iter().zip(&self.lines);
        let blocks = arriving.map(|(at, line)| block(*at, &[line])).collect();
        let (seed, [late, slow]) = (self.random.u64(..), self.delays);
        let args = [&[&rate, &jobs, &retries, "--backoff=1ms..30ms"], more].concat();
        let mut run = of_commands(&args).late(seed, late).slow(!seed, slow);
        for (at, count) in &self.changes {
            run = run.relimited(*at, &[&format!("{count}/{}ms{options}", self.period)]);
        }
        run.run_commands(blocks, |line, attempt| {
            let number: u64 = line.rsplit(' ').next().expect("a number").parse().expect("a number");
            let mut random = Rng::with_seed(seed ^ number << 8 ^ attempt);
            ends(random.u64(0..40), i32::from(random.u8(0..3) == 0))
        })
    }

    /// What holds in every case: each line runs until it succeeds or its retries are used up, never too many run at
    /// once, and attempts follow one another.
    fn check(&self, outcome: &Outcome) {
        for line in &self.lines {
            let runs: Vec<_> = outcome.runs.iter().filter(|run| run.line == *line).collect();
            assert!((1..=self.retries + 1).contains(&(runs.len() as u64)), "{line}: {runs:?}");
            assert!(runs.windows(2).all(|pair| pair[1].start >= pair[0].end + MILLI), "{line}: {runs:?}");
            assert!(runs.iter().zip(1..).all(|(run, attempt)| run.attempt == attempt));
        }
        for run in &outcome.runs {
            let at_once = |other: &&Ran| other.start <= run.start && run.start < other.end;
            assert!(outcome.runs.iter().filter(at_once).count() as u64 <= self.jobs, "{run:?}");
        }
        let stats = outcome.stats;
        assert_eq!((stats.released, stats.left()), (self.lines.len() as u64, 0));
        assert_eq!(stats.released + stats.retried, outcome.runs.len() as u64);
    }

    /// The runs of lines that share a limit.
    fn groups<'a>(outcome: &'a Outcome, options: &str) -> Vec<Vec<&'a Ran>> {
        let is_keyed = options.contains("key=");
        let of =
            |key: char| outcome.runs.iter().filter(|run| !is_keyed || run.line.starts_with(key)).collect();
        "0123".chars().map(of).collect()
    }
}

fn for_each_case(options: &str, check: impl Fn(&Case, &[&Ran])) {
    for seed in seeds(100) {
        println!("seed {seed}, {options}");
        let mut case = Case::new(seed);
        let outcome = case.run(options, &[]);
        case.check(&outcome);
        Case::groups(&outcome, options).iter().for_each(|runs| check(&case, runs));
    }
}

#[test]
fn starts_keep_to_the_limit_retries_included() {
    for options in ["", ",key=col:1"] {
        for_each_case(options, |case, runs| {
            let count = usize::try_from(case.count).unwrap();
            let pairs = runs.iter().zip(runs.iter().skip(count));
            pairs.for_each(|(a, b)| assert!(b.start >= a.started + case.period * MILLI, "{a:?} {b:?}"));
        });
    }
}

/// At each start, the commands that run or ended less than a period ago keep to the limit, including the new one.
#[test]
fn ends_keep_to_the_limit_retries_included() {
    for options in [",from=exit", ",from=exit,key=col:1"] {
        for_each_case(options, |case, runs| {
            for (at, run) in runs.iter().enumerate() {
                let is_held = |other: &&&Ran| other.end + case.period * MILLI > run.start;
                let held = runs[..at].iter().filter(is_held).count() as u64;
                assert!(held < case.count, "{held} before {run:?}");
            }
        });
    }
}

/// The simulated outputs check that nothing is started that is too far ahead.
#[test]
fn all_of_it_runs_although_outputs_wait_for_their_turn_and_limits_change() {
    // In the last one, a retry is back in its lane before older items whose charges a change of limits has changed.
    for seed in seeds(300).chain([707_934]) {
        let mut case = Case::new(seed);
        let random = &mut case.random;
        let mut at = 0;
        for _ in 0..random.u8(0..4) {
            at += random.u64(0..300) * MILLI;
            // A pause is over at the latest after all others.
            let count = random.u64(0..5);
            case.changes.extend([(at, count), (at + random.u64(1..100) * MILLI, count + 1)]);
            at = case.changes.last().expect("one").0;
        }
        let random = &mut case.random;
        let options =
            *random.choice(&["", ",key=col:1", ",key=col:1,from=exit", ",algo=interval"]).expect("one");
        let order = *random.choice(&[&[][..], &["--in-order"]]).expect("one");
        println!("seed {seed}, {options}, {order:?}, {:?}", case.changes);
        let outcome = case.run(options, &[&["-k"], order].concat());
        case.check(&outcome);
    }
}

/// All of it has arrived, so a batch lingers for nothing: more can join it, or none can be read.
#[test]
fn no_batch_lingers_while_the_input_has_items() {
    for seed in seeds(400) {
        let mut case = Case::new(seed);
        case.arrivals.fill(0);
        let mut pick = |few: &[&str]| (*case.random.choice(few).expect("one")).to_owned();
        let keyed = ["", ",key=col:1", ",key=col:1,from=exit", ",key=col:1,algo=bucket", ",key=col:1,cost=1"];
        let options = pick(&keyed);
        let more = [
            pick(&["-B2,1h", "-B3,1h", "-B5,1h"]),
            pick(&["--lookahead=1", "--lookahead=4", "--lookahead=6"]),
            pick(&["-r1k/s", "-r3/20ms,from=exit", "-r1/running,key=col:1", "-r9/30ms,cost=col:1"]),
            pick(&["-k", "--in-order", "--on-bad=skip", "--pipe"]),
        ];
        println!("seed {seed}, {options}, {more:?}");
        let outcome = case.run(&options, &more.each_ref().map(String::as_str));
        let last = outcome.runs.iter().map(|run| run.start).max();
        assert!(last.unwrap_or(0) < 3_000_000 * MILLI, "{last:?}");
    }
}

/// Whatever is ahead of it: a line that backs off and keeps its place, or other lines.
#[test]
fn a_run_that_is_to_fail_does_so_at_the_first_deadline_that_is_missed() {
    for seed in seeds(200) {
        let mut case = Case { delays: [0, 0], ..Case::new(seed) };
        let wait = case.random.u64(0..40);
        let options = ["", ",key=col:1"][case.random.usize(..2)];
        let order = [&[][..], &["--in-order"]][case.random.usize(..2)];
        println!("seed {seed}, {options}, {order:?}, wait {wait}");
        let fails = ["--on-limit=fail", &format!("--max-wait={wait}ms")];
        let outcome = case.run(options, &[&fails, order].concat());
        let start = |line: &String| outcome.runs.iter().find(|run| run.line == *line).map(|run| run.start);
        let deadlines = case.lines.iter().zip(&case.arrivals).map(|(line, at)| (line, at + wait * MILLI));
        let missed = deadlines.filter(|(line, by)| start(line).is_none_or(|at| at > *by)).map(|(_, by)| by);
        let first = missed.min().unwrap_or(u64::MAX);
        assert_eq!(outcome.exit == Exit::Refused, first < u64::MAX, "{first}");
        outcome.runs.iter().for_each(|run| assert!(run.start <= first, "{first}: {run:?}"));
    }
}
