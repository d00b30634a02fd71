//! Random cases: limits, modes and arrivals, small enough for ties and the edges of windows to be common.

use fastrand::Rng;
use throttle::config::{Config, Rate};
use throttle::rule::Algorithm;
use throttle::source::Segment;
use throttle::{cli, time::Time};

use crate::random::Told;
use crate::simulated::block;
use crate::support::{of_any_period, seeds};

/// The selectors for an item's arrival, cost and keys.
const ARRIVAL: &str = "col:1";
const COST: &str = "col:2";
const MAX_WAIT: &str = "--max-wait=";
const JITTER: &str = "--jitter=";
const UNTIL: &str = "--until=";
pub(super) const KEYS: [&str; 2] = ["col:3", "col:4"];

/// A command line and its input.
pub(super) struct Case {
    pub(super) args: Vec<String>,
    pub(super) config: Config,
    pub(super) rates: Vec<Rate>,
    pub(super) items: Vec<Item>,
    /// Whether every instant is a whole number, so that nothing is rounded.
    pub(super) is_even: bool,
    pub(super) random: Rng,
}

/// A record of the input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) number: usize,
    pub(super) arrival: u64,
    pub(super) cost: u64,
    pub(super) keys: [char; 2],
}

impl Item {
    pub(super) fn line(&self) -> String {
        let Item { number, arrival, cost, keys: [one, two] } = self;
        format!("{} {cost} {one} {two} {number}", Time(*arrival))
    }

    /// The cost that a limit charges for it; 0 if the limit does not apply.
    pub(super) fn charge(&self, rate: &Rate) -> u64 {
        let applies = rate.only.as_ref().is_none_or(|only| *only == self.key(rate));
        match &rate.cost {
            _ if !applies => 0,
            None => 1,
            Some(selector) if selector.to_string() == COST => self.cost,
            Some(constant) => constant.to_string().parse().expect("a constant"),
        }
    }

    /// The key that a limit charges it to.
    pub(super) fn key(&self, rate: &Rate) -> String {
        let selector = rate.key.as_ref().map(ToString::to_string);
        let column = KEYS.iter().position(|key| selector.as_deref() == Some(key));
        column.map_or(String::new(), |column| self.keys[column].to_string())
    }

    /// Whether it costs more than some limit ever admits.
    pub(super) fn is_too_dear(&self, rates: &[Rate]) -> bool {
        rates.iter().any(|rate| is_window(rate) && self.charge(rate) > rate.count)
    }
}

/// Whether an item that costs more than N never goes.
pub(super) fn is_window(rate: &Rate) -> bool {
    matches!(rate.algorithm, Algorithm::Sliding | Algorithm::Fixed)
}

impl Case {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let is_even = random.bool();
        let limits = times(&mut random, 1, 4, |random| rate(random, is_even));
        let args =
            [limits.into_iter().flat_map(|rate| ["-r".to_owned(), rate]).collect(), modes(&mut random)];
        let args = args.concat();
        let config = parse(&args);
        let rates = config.limits.given().expect("limits");
        let items = items(&mut random, &rates);
        Case { args, config, rates, items, is_even, random }
    }

    /// The name of an item's lane.
    pub(super) fn lane(&self, item: &Item) -> Vec<String> {
        if self.config.queue.in_order { Vec::new() } else { self.keys(item) }
    }

    /// The item's key for each limit.
    pub(super) fn keys(&self, item: &Item) -> Vec<String> {
        self.rates.iter().map(|rate| item.key(rate)).collect()
    }

    /// The items, one per block.
    pub(super) fn singly(&self) -> Vec<Segment> {
        self.items.iter().map(|item| block(item.arrival, &[item.line()])).collect()
    }

    /// The items in blocks: those that arrive together in blocks of random length.
    pub(super) fn in_blocks(&self) -> Vec<Segment> {
        let mut random = self.random.clone();
        let together = self.items.chunk_by(|a, b| a.arrival == b.arrival && random.u8(0..6) > 0);
        let lines = |items: &[Item]| items.iter().map(Item::line).collect::<Vec<_>>();
        together.map(|items| block(items[0].arrival, &lines(items))).collect()
    }

    /// The item of a line.
    pub(super) fn item(&self, line: &str) -> &Item {
        let number: usize = line.rsplit(' ').next().expect("a field").parse().expect("a number");
        let item = &self.items[number];
        assert_eq!(item.line(), line);
        item
    }

    /// The same case on a time line that is `scale` times as long.
    pub(super) fn stretched(&self, scale: u64) -> Case {
        let mut limits = self.rates.clone();
        for rate in &mut limits {
            rate.period *= scale;
            rate.margin *= scale;
        }
        let mut args: Vec<_> = limits.iter().flat_map(|rate| ["-r".to_owned(), rate.to_string()]).collect();
        args.extend(self.args.iter().skip(args.len()).map(|arg| stretched(arg, scale)));
        let config = parse(&args);
        let rates = config.limits.given().expect("limits");
        let stretch = |item: &Item| Item { arrival: item.arrival * scale, ..item.clone() };
        let items = self.items.iter().map(stretch).collect();
        Case { args, config, rates, items, random: self.random.clone(), ..*self }
    }

    /// A script that repeats the case.
    fn script(&self) -> String {
        let input: String = self.items.iter().map(|item| item.line() + "\n").collect();
        format!("throttle --dry-run --arrivals {ARRIVAL} {} <<'.'\n{input}.", self.args.join(" "))
    }
}

fn parse(args: &[String]) -> Config {
    let args = ["throttle"].into_iter().chain(args.iter().map(String::as_str));
    cli::parse(args.map(Into::into)).expect("a command line")
}

/// Stretches the durations in `-B N,DUR`, `--max-wait`, `--jitter` and `--until`.
fn stretched(arg: &str, scale: u64) -> String {
    for flag in [MAX_WAIT, UNTIL, JITTER] {
        if let Some(nanos) = arg.strip_prefix(flag).and_then(|nanos| nanos.strip_suffix("ns")) {
            return format!("{flag}{}ns", nanos.parse::<u64>().expect("nanoseconds") * scale);
        }
    }
    match arg.strip_prefix("-B").and_then(|batch| batch.strip_suffix("ns")?.split_once(',')) {
        Some((items, linger)) => {
            format!("-B{items},{}ns", linger.parse::<u64>().expect("nanoseconds") * scale)
        }
        None => arg.to_owned(),
    }
}

/// Makes between `least` and `most` values.
fn times<T>(random: &mut Rng, least: u8, most: u8, mut make: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..random.u8(least..=most)).map(|_| make(random)).collect()
}

fn chance(random: &mut Rng, percent: u8) -> bool {
    random.u8(0..100) < percent
}

fn rate(random: &mut Rng, is_even: bool) -> String {
    let count = random.u64(1..=5);
    let step = if is_even { count } else { 1 };
    let algorithm = random.choice(of_any_period()).expect("an algorithm");
    let mut rate = format!("{count}/{}ns,algo={algorithm}", step * random.u64(1..=12));
    let mut add = |random: &mut Rng, percent, option: String| {
        if chance(random, percent) {
            rate.push_str(&option);
        }
    };
    let burst = format!(",burst={}", random.u8(0..=6));
    add(random, if algorithm == "bucket" { 50 } else { 0 }, burst);
    let margin = format!(",margin={}ns", step * random.u64(1..=3));
    add(random, 15, margin);
    add(random, 15, ",start=empty".to_owned());
    let cost = if chance(random, 70) { COST.to_owned() } else { random.u64(0..=count).to_string() };
    add(random, 50, format!(",cost={cost}"));
    let key = KEYS[usize::from(chance(random, 20))];
    let only = if chance(random, 25) { ",only=a" } else { "" };
    add(random, 50, format!(",key={key}{only}"));
    rate
}

fn modes(random: &mut Rng) -> Vec<String> {
    let mut modes = Vec::new();
    let mode = random.choice(["wait", "wait", "wait", "drop", "latest", "fail"]).expect("a mode");
    modes.push(format!("--on-limit={mode}"));
    if chance(random, 25) {
        modes.push("--in-order".to_owned());
    }
    let mut linger = 0;
    match (random.u8(0..10), random.u64(1..=4)) {
        (0..2, items) => modes.push(format!("-B{items}")),
        (2..4, items) => {
            linger = random.u8(1..=10);
            modes.push(format!("-B{items},{linger}ns"));
        }
        _ => {}
    }
    if chance(random, 25) {
        modes.push(format!("{MAX_WAIT}{}ns", linger + random.u8(0..=15)));
    }
    if chance(random, 15) {
        modes.push(format!("{JITTER}{}ns,seed={}", random.u8(0..=12), random.u8(..)));
    }
    if chance(random, 10) {
        modes.push(format!("{UNTIL}{}ns", random.u8(0..=80)));
    }
    if chance(random, 30) {
        modes.push(format!("--lookahead={}", random.u8(1..=4)));
    }
    modes
}

fn items(random: &mut Rng, rates: &[Rate]) -> Vec<Item> {
    let most = rates.iter().filter(|rate| is_window(rate) && rate.cost.is_some());
    let most = most.map(|rate| rate.count).min().unwrap_or(8);
    let keys = &['a', 'b', 'c', 'd'][..random.usize(1..=4)];
    let (mut arrival, mut number) = (random.u64(0..5), 0);
    times(random, 1, 40, |random| {
        let is_dearer = chance(random, 1);
        let cost = if is_dearer { most + 1 } else { random.u64(0..=most) };
        let keys = [(); 2].map(|()| random.choice(keys).copied().expect("a key"));
        let item = Item { number, arrival, cost, keys };
        number += 1;
        arrival += gap(random, rates);
        item
    })
}

/// The time to the next arrival: often 0, and often one that leads to the edge of a window.
fn gap(random: &mut Rng, rates: &[Rate]) -> u64 {
    let rate = random.choice(rates).expect("a limit");
    match random.u8(0..20) {
        0..9 => 0,
        9..15 => random.u64(1..=3),
        15..19 => rate.period + rate.margin + random.u64(0..=2) - 1,
        _ => 60,
    }
}

/// Checks this number of cases, and says how to repeat one that fails.
///
/// `THROTTLE_SEED` is the first seed, `THROTTLE_CASES` the number of cases.
pub(super) fn for_each_case(count: u64, check: impl Fn(&Case)) {
    for seed in seeds(count) {
        let case = Case::new(seed);
        let _told = Told { seed, case: || format!("the case is\n{}", case.script()) };
        check(&case);
    }
}
