//! Rates that are found: servers of all kinds, on a virtual clock, and what users see.
//!
//! A server's limit is no secret to the test: it knows how much was possible, and how many attempts were throttled.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "servers and clients are modelled with decimals"
)]

mod servers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use throttle::gate::{Feedback, Gate, Pending, Request, Scope};
use throttle::time::{SECOND, Time, Wall};

use self::servers::{AwsClient, Server};
use crate::support::{fed, seeds, text, throttle};

/// Seconds of a run, of its beginning that does not count, and of the part in which the limit is a quarter.
const LENGTH: u64 = 400;
const WARM_UP: u64 = 60;
const CUT: std::ops::Range<u64> = 150..270;

/// A client: when it may send next, and what it learns.
trait Client {
    fn next(&mut self, now: Time) -> Time;
    fn sent(&mut self, now: Time);
    fn answered(&mut self, started: Time, now: Time, is_throttled: bool);
    /// Its rate a second.
    fn rate(&self) -> f64;
}

/// The gate of `throttle -r 1..1000/s`.
struct Throttle(Gate);

impl Throttle {
    fn new(rate: &str) -> Self {
        Throttle(Gate::new(vec![rate.parse().unwrap()], Time::ZERO, Wall::EPOCH))
    }

    fn request(now: Time) -> Request<'static> {
        Request { eligible_at: now, costs: &[1], keys: &[], waits: true }
    }
}

impl Client for Throttle {
    fn next(&mut self, now: Time) -> Time {
        self.0.opening(Scope::All, &Self::request(now), now).from
    }

    fn sent(&mut self, now: Time) {
        let mut pending = Pending::default();
        assert_eq!(self.0.admit(&mut pending, now, &Self::request(now), 1).unwrap(), 1);
        self.0.commit(&mut pending, now, 1, false, |_, _, _| ());
    }

    fn answered(&mut self, started: Time, now: Time, is_throttled: bool) {
        let feedback = Feedback { started, is_throttled, held_until: Time::ZERO };
        self.0.local_mut().learn(now, &Self::request(now), &feedback);
    }

    fn rate(&self) -> f64 {
        let (_, limit) = self.0.local().limits().next().unwrap();
        limit.learned().next().map_or(1.0, |(_, learned)| learned.rate())
    }
}

/// What became of a run.
struct Outcome {
    /// The part of what the server allowed that was used.
    used: f64,
    /// The part of the attempts that were throttled.
    throttled: f64,
    /// The seconds from the cut of the limit until the rate was below.
    below_after: f64,
}

/// A server, how long its answers take, and how many attempts may be under way.
struct Case {
    kind: usize,
    limit: u64,
    answer: f64,
    at_once: usize,
    is_cut: bool,
}

impl Case {
    fn draw(rng: &mut Rng) -> Self {
        let log = |rng: &mut Rng, low: f64, high: f64| (low.ln() + (high / low).ln() * rng.f64()).exp();
        let (limit, answer) = (log(rng, 1.0, 500.0), log(rng, 0.001, 3.0));
        // As many at once as the limit needs, up to 64; with fewer, that is what limits the run.
        let at_once = (log(rng, 1.0, 65.0) as usize).max((limit * 1.3 * answer).ceil() as usize).min(64);
        let limit = limit.min(at_once as f64 / answer / 1.1).round().max(1.0) as u64;
        Case { kind: rng.usize(0..3), limit, answer, at_once, is_cut: rng.bool() && limit >= 4 }
    }

    fn limit_at(&self, second: u64) -> u64 {
        if self.is_cut && CUT.contains(&second) { self.limit / 4 } else { self.limit }
    }

    /// The seconds in which a client notices a cut. At 1/s, only one attempt in several seconds is too much.
    fn notices_after(&self) -> f64 {
        let of_the_server = if self.limit / 4 > 1 { 10.0 } else { 20.0 };
        of_the_server + 2.0 * 1.2 * self.answer
    }

    /// Runs a client with an endless input.
    fn run(&self, client: &mut dyn Client, rng: &mut Rng) -> Outcome {
        let mut server = Server::draw(self.kind, self.limit, rng);
        let mut under_way = BinaryHeap::new();
        let (mut now, mut sent, mut refused, mut below) = (Time::ZERO, 0u64, 0u64, None);
        loop {
            let next = if under_way.len() < self.at_once { client.next(now).max(now) } else { Time::NEVER };
            match under_way.peek() {
                Some(Reverse((at, started, is_throttled))) if *at <= next => {
                    now = *at;
                    // One in a hundred fails for another reason, which says nothing.
                    if rng.u8(0..100) > 0 {
                        client.answered(*started, now, *is_throttled);
                    }
                    under_way.pop();
                }
                _ => {
                    now = next;
                    let second = now.0 / SECOND;
                    if second >= LENGTH {
                        break;
                    }
                    let is_throttled = !server.admits(now, self.limit_at(second));
                    client.sent(now);
                    sent += u64::from(second >= WARM_UP);
                    refused += u64::from(second >= WARM_UP && is_throttled);
                    if self.is_cut && CUT.contains(&second) && client.rate() <= (self.limit / 4) as f64 {
                        below.get_or_insert(now.0 - CUT.start * SECOND);
                    }
                    let took = (self.answer * (0.8 + 0.4 * rng.f64()) * 1e9) as u64;
                    under_way.push(Reverse((Time(now.0 + took), now, is_throttled)));
                }
            }
        }
        let possible: u64 = (WARM_UP..LENGTH).map(|second| self.limit_at(second)).sum();
        let never = (CUT.end - CUT.start) as f64;
        Outcome {
            used: (sent - refused) as f64 / possible as f64,
            throttled: refused as f64 / sent as f64,
            below_after: below.map_or(never, |nanos| nanos as f64 / 1e9),
        }
    }
}

/// Runs as many servers as `seeds` says, prints a row for each kind, and returns the means of all.
fn table(name: &str, count: u64, client: impl Fn() -> Box<dyn Client>) -> (f64, f64, usize) {
    let (mut all, mut late) = (Vec::new(), 0);
    for seed in seeds(count) {
        let mut rng = Rng::with_seed(seed);
        let case = Case::draw(&mut rng);
        let outcome = case.run(client().as_mut(), &mut rng);
        late += usize::from(case.is_cut && outcome.below_after > case.notices_after());
        all.push((case.kind, outcome));
    }
    let mean = |kind: Option<usize>, of: fn(&Outcome) -> f64| {
        let some = all.iter().filter(|(other, _)| kind.is_none_or(|kind| kind == *other));
        let (count, sum) = some.fold((0, 0.0), |(count, sum), (_, outcome)| (count + 1, sum + of(outcome)));
        sum / f64::from(count.max(1))
    };
    for (kind, what) in servers::KINDS.iter().enumerate() {
        let used = 100.0 * mean(Some(kind), |outcome| outcome.used);
        let throttled = 100.0 * mean(Some(kind), |outcome| outcome.throttled);
        println!("{name:9} {what:8} {used:5.1} % used, {throttled:5.2} % throttled");
    }
    (mean(None, |outcome| outcome.used), mean(None, |outcome| outcome.throttled), late)
}

#[test]
fn most_of_an_unknown_limit_is_used_and_few_attempts_are_throttled() {
    let count = if cfg!(debug_assertions) { 40 } else { 1000 };
    let (used, throttled, late) = table("throttle", count, || Box::new(Throttle::new("1..1000/s")));
    println!("throttle: {used:.3} used, {throttled:.4} throttled, {late} late after a cut");
    assert!(used >= 0.85 && throttled <= 0.03, "{used}, {throttled}");
    assert_eq!(late, 0);
    let (used, throttled, late) = table("AWS SDKs", count.min(200), || Box::new(AwsClient::default()));
    println!("AWS SDKs: {used:.3} used, {throttled:.4} throttled, {late} late after a cut");
}

/// As `-v` advises: a found rate is written as a given one, evenly spaced.
#[test]
fn what_was_learned_is_what_the_server_bears() {
    let (mut used, mut throttled) = (Vec::new(), Vec::new());
    for seed in seeds(40) {
        let mut rng = Rng::with_seed(seed);
        let case = Case { is_cut: false, ..Case::draw(&mut rng) };
        let mut client = Throttle::new("1..1000/s");
        case.run(&mut client, &mut rng);
        let (_, limit) = client.0.local().limits().next().unwrap();
        let borne = limit.learned().next().unwrap().1.borne().expect("a throttled attempt");
        let tenths = ((borne * 10.0) as u64).max(10);
        let outcome = case.run(&mut Throttle::new(&format!("{tenths}/10s,algo=interval")), &mut rng);
        println!(
            "seed {seed}: {} of {}/s, {:.4} throttled",
            tenths as f64 / 10.0,
            case.limit,
            outcome.throttled
        );
        used.push(outcome.used);
        throttled.push(outcome.throttled);
    }
    let mean = |parts: &[f64]| parts.iter().sum::<f64>() / parts.len() as f64;
    assert!(mean(&used) >= 0.85 && mean(&throttled) <= 0.01, "{}, {}", mean(&used), mean(&throttled));
}

/// Paced by a window, a rate that is found keeps that window.
#[test]
fn no_window_has_more_than_the_highest_rate() {
    for seed in seeds(20) {
        let mut rng = Rng::with_seed(seed);
        let mut client = Throttle::new("1..30/s,algo=sliding");
        let (mut now, mut sent) = (Time::ZERO, Vec::new());
        for _ in 0..2000 {
            now = client.next(now).max(now);
            client.sent(now);
            sent.push(now);
            now = Time(now.0 + rng.u64(0..SECOND / 20));
            if rng.u8(0..40) == 0 {
                client.answered(sent[sent.len() - 1], now, rng.u8(0..3) == 0);
            }
        }
        assert!(sent.windows(31).all(|some| some[30].since(some[0]) >= SECOND), "seed {seed}");
    }
}

#[test]
fn each_key_has_a_rate_of_its_own() {
    let mut gate = Gate::new(vec!["1..100/s,key=col:1".parse().unwrap()], Time::ZERO, Wall::EPOCH);
    let keys: Vec<Vec<_>> = [b"a", b"b"].iter().map(|key| vec![key[..].into()]).collect();
    let mut now = Time::ZERO;
    for _ in 0..40 {
        for keys in &keys {
            let request = Request { eligible_at: now, costs: &[1], keys, waits: true };
            let at = gate.opening(Scope::All, &request, now).from;
            let mut pending = Pending::default();
            if at <= now && gate.admit(&mut pending, now, &request, 1).is_ok() {
                gate.commit(&mut pending, now, 1, false, |_, _, _| ());
                let is_throttled = keys[0].as_slice() == b"a";
                let feedback = Feedback { started: now, is_throttled, held_until: Time::ZERO };
                gate.local_mut().learn(Time(now.0 + 1), &request, &feedback);
            }
        }
        now = Time(now.0 + SECOND / 10);
    }
    let (_, limit) = gate.local().limits().next().unwrap();
    let mut rates: Vec<_> = limit.learned().map(|(key, learned)| (key.to_vec(), learned.rate())).collect();
    rates.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(rates[0].1 < 2.0 && rates[1].1 > 4.0, "{rates:?}");
}

#[test]
fn what_was_learned_is_told_of_the_keys_that_were_asked_for_most_first() {
    let input = "c 1\na 1\nb 1\nb 2\na 2\nb 3\nd 1\nd 75\ne 75\n";
    let shell = "case $1 in *75) exit 75;; esac";
    let output =
        fed(&["-v", "-r", "500..900/s,key=col:1", "--stats", "json", "--", "sh", "-c", shell, "x"], input)
            .code(123);
    let stderr = text(&output.get_output().stderr);
    let told: Vec<_> = stderr.lines().filter(|line| line.contains("learned ")).collect();
    let prefixes = [
        "no limit for 'b': 3 requests, none throttled",
        "no limit for 'a': 2",
        "500/s for 'd': 2 requests, 1 throttled; next time: -r 500/s,algo=interval,key=col:1,only=d",
        "no limit for 'c': 1",
        "nothing for 'e': 1 request, all throttled",
    ];
    assert_eq!(told.len(), prefixes.len(), "{stderr}");
    for (told, prefix) in told.iter().zip(prefixes) {
        assert!(told.starts_with(&format!("throttle: learned {prefix}")), "{told}");
    }
    let json: serde_json::Value =
        stderr.lines().find_map(|line| serde_json::from_str(line).ok()).expect("JSON");
    let keys = json["limits"][0]["learned"].as_array().expect("keys").iter();
    let of = |key: &serde_json::Value| {
        let count = |name: &str| key[name].as_u64().expect("a number");
        (key["key"].as_str().expect("a key").to_owned(), count("attempts"), count("throttled"))
    };
    let expected = [("b", 3, 0), ("a", 2, 0), ("d", 2, 1), ("c", 1, 0), ("e", 1, 1)];
    assert_eq!(
        keys.map(of).collect::<Vec<_>>(),
        expected.map(|(key, tried, late)| (key.to_owned(), tried, late))
    );
}

#[test]
fn a_range_that_makes_no_sense_is_refused() {
    let table: &[(&[&str], &str)] = &[
        (&["-r", "1..100", "--", "true"], "a rate needs a period"),
        (&["-r", "1-100/s", "--", "true"], "for a rate that is to be found, write 1..100/s"),
        (
            &["-r", "100..1/s", "--", "true"],
            "the range is reversed or empty: put the lower rate first, as in 1..100/s",
        ),
        (&["-r", "0..100/s", "--", "true"], "the lowest rate must be more than 0: that is where it begins"),
        (&["-r", "1..2/0s", "--", "true"], "a period of 0 is no limit: the minimum is 1ns"),
        (&["-r", "1..2..3/s", "--", "true"], "the rates to search have two bounds, as in 1..100/s"),
        (&["-r", "1..100/s"], "LOW..HIGH, from=exit and N/running are for a command"),
        (&["-r", "1..100/s", "--worker", "--", "cat"], "plain answers are successes: write --worker=status"),
        (&["-r", "1..5/running", "--", "true"], "only a rate can be found: write the number of commands"),
        (&["-r", "1..5/s,algo=fixed", "--", "true"], "is paced by interval or sliding: leave out algo=fixed"),
        (
            &["-s", "x", "-r", "1..5/s", "--", "true"],
            "what one run finds, others do not know: add ,local, or write one rate",
        ),
        (&["--once", "-s", "x", "-r", "9/s", "-r", "1..5/s,local", "--", "true"], "a single release"),
    ];
    for (args, why) in table {
        let output = throttle(args).assert().code(2);
        let stderr = text(&output.get_output().stderr);
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
}
