//! What a decision of the library costs, and what it lets through in a window, beside its peers and a bare loop: a
//! mutex around a ring of instants, and around a map of such rings.

mod bare;
mod governor;
mod leaky_bucket;
mod ours;
mod ratelimit;

use std::env;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

const ROUNDS: u32 = 1_000_000;
const SPAN: u32 = 20_000;
const KEYS: u32 = 100_000;
const THREADS: u32 = 8;
const MILLI: Duration = Duration::from_millis(1);

/// A limiter as it is measured. Those that are given the time take no clock into account.
struct Column {
    name: &'static str,
    /// Nanoseconds for one that is admitted at 1000/s, one a millisecond.
    admitted: Option<fn() -> f64>,
    /// The same, if its end is told as well.
    ended: Option<fn() -> f64>,
    /// Nanoseconds for one that is refused.
    refused: Option<fn() -> f64>,
    /// Nanoseconds for one that is admitted, with the clock read.
    clocked: fn() -> f64,
    /// Nanoseconds on the wall for each of those that eight threads are admitted.
    threads: fn() -> f64,
    /// With 100,000 keys: nanoseconds for one, bytes a key when each has been used once, and after all.
    keys: Option<fn() -> [f64; 3]>,
    /// The instants at which 10/100ms lets something through, asked at these.
    through: fn(&[Duration]) -> Vec<Duration>,
}

const COLUMNS: [Column; 5] =
    [ours::COLUMN, governor::COLUMN, ratelimit::COLUMN, leaky_bucket::COLUMN, bare::COLUMN];

fn main() {
    // Each starts with a heap of its own.
    if let Some(keys) = column_in_arguments().and_then(|column| column.keys) {
        let [ns, once, after] = keys();
        return println!("{ns} {once} {after}");
    }
    line("", |column| column.name.to_owned());
    let ns = |measured: Option<fn() -> f64>| {
        measured.map_or("-".to_owned(), |measure| format!("{:.1}", best(measure)))
    };
    line("admitted, ns", |column| ns(column.admitted));
    line("admitted and ended, ns", |column| ns(column.ended));
    line("refused, ns", |column| ns(column.refused));
    line("admitted, clock read, ns", |column| ns(Some(column.clocked)));
    line("8 threads on one limit, wall ns each", |column| ns(Some(column.threads)));
    let keys = COLUMNS.map(|column| column.keys.map(|_| in_child(column.name)));
    for (row, name) in ["ns each", "bytes a key, used once", "bytes a key, after all"].iter().enumerate() {
        let mut keys = keys.iter();
        line(&format!("100,000 keys, {name}"), |_| {
            let found = keys.next().and_then(Option::as_ref);
            found.map_or("-".to_owned(), |found| format!("{:.1}", found[row]))
        });
    }
    let asked = instants();
    line("10/100ms, most in a window", |column| most(&(column.through)(&asked)).to_string());
    println!();
    for algorithm in ["sliding", "bucket", "interval", "fixed"] {
        let measured: [f64; 3] = [ours::admitted, ours::ended, ours::refused]
            .map(|measure: fn(&str) -> f64| best(|| measure(algorithm)));
        let [admitted, ended, refused] = measured;
        println!("ours, {algorithm}: admitted {admitted:.1}, and ended {ended:.1}, refused {refused:.1}");
    }
}

fn line(what: &str, mut cell: impl FnMut(&Column) -> String) {
    let cells = COLUMNS.each_ref().map(|column| format!("{:>13}", cell(column)));
    println!("{what:37}{}", cells.concat());
}

fn column_in_arguments() -> Option<&'static Column> {
    static ALL: [Column; 5] = COLUMNS;
    let name = env::args().find_map(|argument| argument.strip_prefix("keys=").map(ToOwned::to_owned))?;
    ALL.iter().find(|column| column.name == name)
}

/// The least of five runs, number by number.
fn in_child(name: &str) -> Vec<f64> {
    let mut runs: Vec<Vec<f64>> = Vec::new();
    for _ in 0..5 {
        let own = env::current_exe().expect("this program has a path");
        let output = Command::new(own).arg(format!("keys={name}")).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("numbers");
        runs.push(text.split_whitespace().filter_map(|number| number.parse().ok()).collect());
    }
    let least = |column: usize| runs.iter().map(|run| run[column]).fold(f64::INFINITY, f64::min);
    (0..3).map(least).collect()
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..5).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// The nanoseconds of one of `rounds`.
fn each(rounds: u32, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
}

/// The least of many short spans, in which other programs do not interfere.
fn repeat(mut work: impl FnMut()) -> f64 {
    let spans = (0..ROUNDS / SPAN).map(|_| each(SPAN, || (0..SPAN).for_each(|_| work())));
    spans.fold(f64::INFINITY, f64::min)
}

fn by_threads(work: impl Fn() + Sync) -> f64 {
    each(ROUNDS, || {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..ROUNDS / THREADS).for_each(|_| work()));
            }
        });
    })
}

/// Uses each key once, and then any of them, one every five microseconds.
fn by_key(mut ask: impl FnMut(Duration, [u8; 4])) -> [f64; 3] {
    let before = resident();
    let mut now = Duration::ZERO;
    let mut random = Rng::with_seed(1);
    (0..KEYS).for_each(|key| ask(now, key.to_le_bytes()));
    let once = (resident() - before) / f64::from(KEYS);
    let ns = each(ROUNDS, || {
        for _ in 0..ROUNDS {
            now += Duration::from_micros(5);
            ask(now, random.u32(..KEYS).to_le_bytes());
        }
    });
    [ns, once, (resident() - before) / f64::from(KEYS)]
}

/// The resident bytes.
fn resident() -> f64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(f64::NAN) * 4096.0
}

/// Bursts and pauses at random, in whole milliseconds.
fn instants() -> Vec<Duration> {
    let (mut random, mut now) = (Rng::with_seed(1), 0);
    let mut next = || {
        now += match random.u8(..20) {
            0 => random.u64(..300),
            1..=9 => random.u64(..3),
            _ => 0,
        };
        Duration::from_millis(now)
    };
    (0..20_000).map(|_| next()).collect()
}

fn most(through: &[Duration]) -> usize {
    let from = |first: usize| {
        let end = through[first] + 100 * MILLI;
        through[first..].iter().take_while(|at| **at < end).count()
    };
    (0..through.len()).map(from).max().unwrap_or(0)
}
