//! Audits of random records, released whether that is allowed or not, compared with the judgement of the model.

use std::collections::BTreeMap;
use std::process::Output;

use serde_json::Value;
use throttle::config::{Rate, format_duration, rounded_duration};
use throttle::rule::Algorithm;
use throttle::time::Time;

use super::case::{Case, Item, for_each_case, is_window};
use super::model::{Charge, allows, grains, level, period};
use crate::support::{OWN_TESTS, sh, text};

/// A case takes about as long as it takes to start the program.
const CASES: u64 = 60;

/// The memory that an audit may use, in KiB.
const MAX_MEMORY: u64 = 200 << 10;

/// The releases under a limit, of all items or of one key, whether they were allowed or not.
#[derive(Default)]
struct Past {
    charges: Vec<Charge>,
}

impl Past {
    /// The cost in the window that ends with a release, and how early the release is; `None` if it is never allowed.
    ///
    /// When it became next in line is unknown: a release that costs more than the burst may have waited since the one
    /// before it, and the first one forever.
    fn judge(&mut self, rate: &Rate, now: u64, cost: u64) -> (u64, Option<u64>) {
        let since = self.charges.last().map(|last| last.at);
        let is_never = is_window(rate) && cost > rate.count;
        let is_allowed = |at: &u64| since.is_none_or(|since| allows(rate, &self.charges, *at, since, cost));
        let early = (now..now + 1_000_000)
            .find(|at| is_never || is_allowed(at))
            .map(|at| at - now)
            .filter(|_| !is_never);
        let level = match since {
            None => grains(rate, rate.burst.unwrap_or(rate.count).max(cost)),
            Some(since) => level(rate, &self.charges, now, since, cost),
        };
        self.charges.push(Charge { at: now, cost, level: level - grains(rate, cost) });
        let in_window = self.charges.iter().filter(|charge| charge.at + period(rate) > now);
        (in_window.map(|charge| charge.cost).sum(), early)
    }

    /// The oldest instant in the window that ends at `now`.
    fn start_of_window(&self, rate: &Rate, now: u64) -> u64 {
        let in_window = self.charges.iter().find(|charge| charge.at + period(rate) > now);
        in_window.map_or(now, |charge| charge.at)
    }
}

/// Items that are released together.
struct Release {
    noun: &'static str,
    number: usize,
    at: u64,
}

/// Judges items that are released together. Each limit charges their sum with `cost=`, otherwise one, and does so for
/// each key. Returns the messages about those that are too early.
fn judge_all(case: &Case, found: &mut [Found], release: &Release, items: &[Item]) -> Vec<String> {
    let mut said = Vec::new();
    for (rate, found) in case.rates.iter().zip(found) {
        let mut charges: Vec<(String, u64)> = vec![(items[0].key(rate), 0)];
        for item in items {
            let (key, cost) = (item.key(rate), item.charge(rate));
            match charges.iter_mut().find(|(other, _)| *other == key) {
                Some((_, sum)) if rate.cost.is_some() => *sum += cost,
                Some((_, sum)) => *sum = cost,
                None if cost > 0 => charges.push((key, cost)),
                None => {}
            }
        }
        let charges = charges.into_iter().filter(|(_, cost)| *cost > 0);
        said.extend(charges.filter_map(|(key, cost)| found.judge(rate, release, &key, cost)));
    }
    said
}

/// The expected numbers of a limit.
#[derive(Default)]
struct Found {
    keys: BTreeMap<String, Past>,
    items: u64,
    violations: u64,
    earliest: u64,
    /// The worst window: its cost, first and last instant, and item number.
    worst: (u64, u64, u64, usize),
    worst_of_keys: BTreeMap<String, u64>,
}

impl Found {
    /// Judges a release. Returns the message if it is too early.
    fn judge(&mut self, rate: &Rate, release: &Release, key: &str, cost: u64) -> Option<String> {
        let Release { noun, number, at } = *release;
        let past = self.keys.entry(key.to_owned()).or_default();
        let (count, early) = past.judge(rate, at, cost);
        self.items += 1;
        if count > self.worst.0 {
            self.worst = (count, past.start_of_window(rate, at), at, number);
        }
        let worst = self.worst_of_keys.entry(key.to_owned()).or_default();
        *worst = count.max(*worst);
        let how = match early {
            Some(0) => return None,
            Some(early) => format!("{} too early", rounded_duration(early)),
            None => "more than is ever allowed".to_owned(),
        };
        self.violations += 1;
        self.earliest = self.earliest.max(early.unwrap_or(0));
        let of = rate.key.as_ref().map_or(String::new(), |_| format!(" for '{key}'"));
        let (at, window) = (Time(at), format_duration(period(rate)));
        Some(format!("{noun} {number} at {at}: {how}, {count} in {window}, limit {rate}{of}"))
    }

    fn charges(&self) -> impl Iterator<Item = &Charge> {
        self.keys.values().flat_map(|past| &past.charges)
    }

    /// Compares these with the numbers of `--stats=json`.
    #[track_caller]
    fn check(&self, rate: &Rate, told: &Value) {
        assert_eq!(told["limit"], rate.to_string());
        assert_eq!((&told["items"], &told["too_early"]), (&self.items.into(), &self.violations.into()));
        about(&told["seconds_too_early"], Some(float(self.earliest) / 1e9));
        let (count, start, end, number) = self.worst;
        let window = &told["worst_window"];
        assert_eq!((&window["count"], &window["item"]), (&count.into(), &number.into()));
        assert_eq!((&window["first"], &window["last"]), (&stamp(start), &stamp(end)));
        let mean_share = self.mean_share(rate).filter(|_| rate.key.is_none());
        let share = float(count) / float(self.most(rate));
        about(&told["highest_share"], Some(share.max(mean_share.unwrap_or(0.0))));
        about(&told["mean_share"], mean_share);
        let highest = float(count) * 1e9 / float(period(rate));
        let mean = self.mean_rate(rate);
        about(&told["highest_rate"], Some(highest));
        about(&told["mean_rate"], mean);
        if rate.key.is_some() {
            return self.check_keys(told);
        }
        assert!(mean.is_none_or(|mean| mean <= highest * (1.0 + 1e-9)), "{mean:?} above {highest}");
    }

    #[track_caller]
    fn check_keys(&self, told: &Value) {
        assert_eq!(told["keys"], self.keys.len());
        let mut worst: Vec<_> = self.worst_of_keys.iter().map(|(key, count)| (*count, key.clone())).collect();
        worst.sort_by_key(|(count, key)| (std::cmp::Reverse(*count), key.clone()));
        let told = told["worst_keys"].as_array().unwrap();
        let told: Vec<_> = told.iter().map(|key| &key["worst_window"]["count"]).collect();
        assert_eq!(told, worst.iter().map(|(count, _)| *count).take(5).collect::<Vec<_>>());
    }

    fn span(&self) -> u64 {
        let instants = || self.charges().map(|charge| charge.at);
        instants().max().unwrap_or(0) - instants().min().unwrap_or(0)
    }

    /// Of the whole periods from the first release on.
    fn mean_rate(&self, rate: &Rate) -> Option<f64> {
        let first = self.charges().map(|charge| charge.at).min()?;
        let length = self.span() / period(rate) * period(rate);
        let whole = self.charges().filter(|charge| charge.at - first < length);
        let cost = whole.map(|charge| charge.cost).sum();
        (length > 0).then(|| float(cost) * 1e9 / float(length))
    }

    fn dearest(&self) -> Option<u64> {
        self.charges().map(|charge| charge.cost).max()
    }

    /// The most that a limit lets through within one period. An item that costs more than the burst goes whole, later.
    fn most(&self, rate: &Rate) -> u64 {
        let dearest = self.dearest().unwrap_or(1);
        match rate.algorithm {
            Algorithm::Sliding => rate.count,
            Algorithm::Interval => rate.count - 1 + dearest,
            Algorithm::Bucket => burst(rate).max(dearest) + rate.count,
            Algorithm::Fixed | Algorithm::Calendar => 2 * rate.count,
        }
    }

    fn mean_share(&self, rate: &Rate) -> Option<f64> {
        let dearest = self.dearest()?;
        let at_once = match rate.algorithm {
            Algorithm::Sliding | Algorithm::Fixed => rate.count,
            Algorithm::Bucket => burst(rate).max(dearest),
            Algorithm::Interval => dearest,
            Algorithm::Calendar => unreachable!("{OWN_TESTS}"),
        };
        let accrued = float(rate.count) * float(self.span()) / float(period(rate));
        let cost = self.charges().map(|charge| charge.cost).sum();
        Some(float(cost) / (float(at_once) + accrued))
    }
}

fn burst(rate: &Rate) -> u64 {
    rate.burst.unwrap_or(rate.count)
}

fn stamp(at: u64) -> Value {
    Time(at).to_string().into()
}

#[track_caller]
fn about(told: &Value, wanted: Option<f64>) {
    match wanted {
        None => assert_eq!(told, &Value::Null),
        Some(wanted) => {
            let told = told.as_f64().expect("a number");
            assert!((told - wanted).abs() <= 1e-9 * wanted.abs(), "{told}, expected {wanted}");
        }
    }
}

#[expect(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

/// Audits the releases in `input` under the limits of a case.
fn audit(case: &Case, more: &str, input: String) -> Output {
    let limits: Vec<_> = case.rates.iter().map(|rate| format!("-r '{rate}'")).collect();
    let limits = limits.join(" ");
    let script = format!("ulimit -v {MAX_MEMORY}; exec throttle --audit {limits} --stats=json {more}");
    sh(&script).write_stdin(input).output().unwrap()
}

/// Checks an audit of items that were released together.
fn check(case: &Case, releases: &[&[Item]], output: &Output) {
    let noun = if releases.iter().any(|items| items.len() > 1) { "release" } else { "item" };
    let mut found: Vec<_> = case.rates.iter().map(|_| Found::default()).collect();
    let (mut wanted, mut too_early) = (Vec::new(), 0);
    for (items, number) in releases.iter().zip(1..) {
        let mut said = judge_all(case, &mut found, &Release { noun, number, at: items[0].arrival }, items);
        too_early += u64::from(!said.is_empty());
        // A release may be too early for several keys.
        said.sort_unstable();
        wanted.extend(said);
    }
    let told = text(&output.stdout);
    let told: Vec<_> = told.lines().take_while(|line| line.starts_with(noun)).collect();
    let mut told_of = told.chunk_by(|a, b| a.split(' ').nth(1) == b.split(' ').nth(1)).map(<[_]>::to_vec);
    let told: Vec<_> = told_of
        .by_ref()
        .flat_map(|mut said| {
            said.sort_unstable();
            said
        })
        .collect();
    assert_eq!(told, wanted);
    assert_eq!(output.status.code(), Some(if too_early > 0 { 75 } else { 0 }));
    let told: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!((&told["read"], &told["too_early"]), (&releases.len().into(), &too_early.into()));
    for ((rate, found), told) in case.rates.iter().zip(&found).zip(told["limits"].as_array().unwrap()) {
        if found.items > 0 {
            found.check(rate, told);
        }
    }
}

#[test]
fn an_audit_finds_what_the_model_finds() {
    for_each_case(CASES, |case| {
        let input = case.items.iter().map(|item| item.line() + "\n").collect();
        let singly: Vec<_> = case.items.chunks(1).collect();
        check(case, &singly, &audit(case, "--arrivals=col:1", input));
    });
}

/// The row of a job log for items whose command started together.
fn row(format: &str, number: usize, items: &[Item]) -> String {
    let start = Time(items[0].arrival);
    let lines: Vec<_> = items.iter().map(Item::line).collect();
    match format {
        "json" if items.len() == 1 => {
            format!("{{\"seq\":{number},\"start\":{start},\"exit\":0,\"item\":\"{}\"}}\n", lines[0])
        }
        "json" => format!("{{\"seq\":{number},\"start\":{start},\"items\":{lines:?},\"seqs\":[]}}\n"),
        _ => format!("{number}\t{start}\t0.0\t0.0\t1\t0\t0\t{}\n", lines.join("\t")),
    }
}

#[test]
fn an_audit_of_batches_finds_what_the_model_finds() {
    for_each_case(CASES, |case| {
        let mut random = case.random.clone();
        let releases: Vec<_> = case.items.chunk_by(|_, _| random.bool()).collect();
        let format = *random.choice(&["tsv", "json"]).expect("a format");
        let header = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n";
        let header = if format == "tsv" { header } else { "" }.to_owned();
        let rows = releases.iter().zip(1..).map(|(items, number)| row(format, number, items));
        check(case, &releases, &audit(case, "", header + &rows.collect::<String>()));
    });
}
