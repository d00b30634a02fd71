//! Random headers, compared with a model that parses nothing: it knows what was meant when they were written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use throttle::sink::parse_headers;
use throttle::time::SECOND;

use crate::support::seeds;

/// The names of a quota's fields, and the ways to write an instant for it.
const QUOTAS: [(&str, &str, &[Writing]); 12] = [
    ("RateLimit-Remaining", "RateLimit-Reset", &[delay, epoch]),
    ("X-RateLimit-Remaining", "X-RateLimit-Reset", &[delay, epoch, http_date, rfc3339]),
    ("X-RateLimit-Remaining", "X-RateLimit-Reset-After", &[delay]),
    ("X-RateLimit-Remaining", "X-RateLimit-Retry-After", &[epoch]),
    ("X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", &[epoch]),
    ("x-app-limit-24hour-remaining", "x-app-limit-24hour-reset", &[epoch]),
    ("X-Rate-Limit-Requests-Left", "X-Rate-Limit-Time-Reset-Ms", &[millis]),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", &[go_duration]),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", &[go_duration]),
    ("X-RateLimit-Requests-Remaining", "X-RateLimit-Requests-Reset", &[epoch_millis]),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset", &[rfc3339]),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset", &[rfc3339]),
];

/// The names under which a server asks for a wait, and the ways to write it.
const RETRY_AFTER: [(&str, Writing); 4] = [
    ("Retry-After", delay),
    ("Retry-After", http_date),
    ("Retry-After", rfc3339),
    ("retry-after-ms", millis),
];

/// Writes a wait of this many seconds from an instant in seconds since 1970.
type Writing = fn(u64, u64) -> String;

fn delay(wait: u64, _: u64) -> String {
    wait.to_string()
}

fn millis(wait: u64, _: u64) -> String {
    format!("{wait}000")
}

fn epoch(wait: u64, now: u64) -> String {
    (now + wait).to_string()
}

fn epoch_millis(wait: u64, now: u64) -> String {
    format!("{}000", now + wait)
}

fn http_date(wait: u64, now: u64) -> String {
    httpdate::fmt_http_date(at(now + wait))
}

fn rfc3339(wait: u64, now: u64) -> String {
    jiff::Timestamp::from_second((now + wait).cast_signed()).expect("an instant").to_string()
}

fn go_duration(wait: u64, _: u64) -> String {
    match (wait / 3600, wait / 60 % 60, wait % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// The lines of a response, and the wait that it asks for, in seconds.
struct Response {
    lines: Vec<String>,
    wait: Option<u64>,
}

impl Response {
    /// `ours` is the time on our clock.
    fn new(random: &mut Rng, ours: u64) -> Self {
        // The server's clock differs, but only if it sends its time.
        let tells = random.bool();
        let now = if tells { ours + random.u64(..5000) - 2500 } else { ours };
        let (mut lines, mut waits) = (Vec::new(), Vec::new());
        for (remaining, reset, writings) in QUOTAS {
            // Two quotas with the same field for what remains could contradict each other.
            let is_taken = lines.iter().any(|line: &String| line.starts_with(remaining));
            if is_taken || random.u8(..4) > 0 {
                continue;
            }
            let (left, wait) = (random.u64(..2), random.u64(..100_000));
            lines.push(format!("{remaining}: {left}"));
            lines.push(format!("{reset}: {}", random.choice(writings).expect("one")(wait, now)));
            waits.extend((left == 0).then_some(wait));
        }
        if random.u8(..3) == 0 {
            let (line, wait) = structured(random);
            lines.extend(line);
            waits.extend(wait);
        }
        let mut wait = waits.into_iter().max().filter(|wait| *wait > 0);
        if random.u8(..4) == 0 {
            let retry_after = random.u64(..9000);
            let (name, writing) = *random.choice(&RETRY_AFTER).expect("one");
            lines.push(format!("{name}: {}", writing(retry_after, now)));
            wait = Some(retry_after);
        }
        if tells {
            let age = if random.bool() { random.u64(..1000) } else { 0 };
            lines.push(format!("Date: {}", httpdate::fmt_http_date(at(now - age))));
            lines.extend((age > 0).then(|| format!("Age: {age}")));
        }
        (0..random.usize(..5)).for_each(|_| lines.push(noise(random)));
        random.shuffle(&mut lines);
        lines.iter_mut().for_each(|line| vary(random, line));
        Response { lines, wait }
    }

    fn text(&self, random: &mut Rng) -> String {
        let end = if random.bool() { "\r\n" } else { "\n" };
        let status = random.choice(["HTTP/1.1 200 OK", "HTTP/2 429 ", "HTTP/1.0 302 Found"]).expect("one");
        let lines: Vec<_> = self.lines.iter().map(|line| format!("{line}{end}")).collect();
        let content = if random.bool() {
            ""
        } else {
            "retry-after: 1\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 5\n"
        };
        format!("{status}{end}{}{end}{content}", lines.concat())
    }
}

/// A `RateLimit` field with some policies, some of them used up.
fn structured(random: &mut Rng) -> (Vec<String>, Option<u64>) {
    let (mut members, mut policies, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..random.u64(1..4) {
        let name =
            format!("\"p{number}{}\"", random.choice(["", ",", ";r=0;t=5", "\\\"", " a"]).expect("one"));
        let (left, wait, window) = (random.u64(..2), random.u64(..1000), random.u64(..1000));
        let says_when = random.bool();
        let when = if says_when { format!(";t={wait}") } else { String::new() };
        members.push(match random.bool() {
            true => format!("{name};r={left}{when}"),
            false => format!("{name}{when} ; pk=:AA==: ;r={left}"),
        });
        policies.push(format!("{name};q=100;w={window}"));
        waits.extend((left == 0).then_some(if says_when { wait } else { window }));
    }
    let lines = match random.bool() {
        true => vec![format!("RateLimit: {}", members.join(", "))],
        false => members.iter().map(|member| format!("RateLimit: {member}")).collect(),
    };
    ([lines, vec![format!("RateLimit-Policy: {}", policies.join(","))]].concat(), waits.into_iter().max())
}

/// A line that means nothing here.
fn noise(random: &mut Rng) -> String {
    match random.u8(..6) {
        0 => "x-ratelimit-limit: 0".to_owned(),
        1 => format!("x-{}: {}", "long".repeat(random.usize(..20_000)), "0;t=1".repeat(9)),
        2 => "\0\0: \u{fffd}".to_owned(),
        3 => "no field at all".to_owned(),
        4 => "x-retry-after: 1".to_owned(),
        _ => ":".to_owned(),
    }
}

/// Writes the same line in another form.
fn vary(random: &mut Rng, line: &mut String) {
    if let Some((name, value)) = line.clone().split_once(": ") {
        let name = if random.bool() { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
        *line = format!("{name}:{}{value}", " ".repeat(random.usize(..3)));
    }
}

#[test]
fn headers_mean_what_they_were_written_to_mean() {
    for seed in seeds(400) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let now = random.u64(1_000_010_000..2_000_000_000);
        let responses: Vec<_> = (0..random.u64(1..4)).map(|_| Response::new(&mut random, now)).collect();
        let text: String = responses.iter().map(|response| response.text(&mut random)).collect();
        let wait = responses.last().and_then(|response| response.wait).map(|seconds| seconds * SECOND);
        assert_eq!(parse_headers(&text, at(now)).unwrap_or_default(), wait, "at {now}: {text}");
    }
}

#[test]
fn nothing_that_may_be_in_the_file_is_too_much() {
    for seed in seeds(300) {
        let mut random = Rng::with_seed(seed);
        let now = at(1_700_000_000);
        let words = [
            "HTTP/1.1 ",
            "\n",
            "\r\n",
            ":",
            "ratelimit",
            ";r=0",
            ";t=",
            "\"",
            "\\",
            ",",
            "0",
            "9",
            "\0",
            "retry-after: ",
        ];
        let text: String = (0..random.usize(..60)).map(|_| *random.choice(&words).expect("one")).collect();
        println!("seed {seed}: {text:?}");
        let _ = parse_headers(&text, now);
    }
}
