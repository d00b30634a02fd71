//! What becomes of items whose commands fail: retries by what a service says, and the list of what failed.

use std::fs;
use std::io::Write;
use std::time::SystemTime;

use fastrand::Rng;
use nix::sys::signal::Signal;
use predicates::str::contains;
use throttle::sink::{parse_headers, parse_status};
use throttle::time::SECOND;

use crate::http::serve;
use crate::random::Told;
use crate::simulated::block;
use crate::simulated::commands::{Behaviour, run};
use crate::support::{Directory, Running, UNLIMITED, fed, needs_program, seeds, text, throttle};

/// An attempt: the exit status of its command, and the answer that it got, if any.
#[derive(Debug)]
struct Attempt {
    exit: i32,
    answer: Option<Answer>,
}

/// An answer of a server, after others that redirect.
#[derive(Debug)]
struct Answer {
    http: u16,
    retry_after: Option<u64>,
    headers: String,
}

const EXITS: [i32; 6] = [0, 1, 7, 22, 137, 255];
const STATUSES: [u16; 8] = [200, 204, 301, 404, 429, 500, 503, 599];

/// What may be retried, and whether that includes an exit status and an HTTP status.
type Code = (&'static str, fn(i32, Option<u16>) -> bool);
const CODES: [Code; 9] = [
    ("1", |exit, _| exit == 1),
    ("7", |exit, _| exit == 7),
    ("22", |exit, _| exit == 22),
    ("exit:137", |exit, _| exit == 137),
    ("exit:255", |exit, _| exit == 255),
    ("429", |_, http| http == Some(429)),
    ("404", |_, http| http == Some(404)),
    ("5xx", |_, http| matches!(http, Some(500..=599))),
    ("4xx", |_, http| matches!(http, Some(400..=499))),
];

impl Attempt {
    fn new(random: &mut Rng) -> Self {
        let exit = if random.u8(..4) > 0 { random.choice(EXITS).unwrap() } else { 22 };
        Attempt { exit, answer: (random.u8(..4) > 0).then(|| Answer::new(random)) }
    }
}

impl Answer {
    fn new(random: &mut Rng) -> Self {
        let mut answer = Answer { http: 0, retry_after: None, headers: String::new() };
        for _ in 0..random.u8(1..4) {
            answer.http = random.choice(STATUSES).unwrap();
            answer.retry_after = (random.u8(..3) == 0).then(|| random.u64(0..20));
            let version = random.choice(["1.1", "2", "1.0"]).unwrap();
            let reason = random.choice(["", " ", " Some Reason 418"]).unwrap();
            let status = format!("HTTP/{version} {}{reason}\r\n", answer.http);
            let location = random.choice(["", "Location: /429\r\n"]).unwrap();
            let after = answer.retry_after.map(|seconds| format!("Retry-After: {seconds}\r\n"));
            answer.headers += &[&status, location, &after.unwrap_or_default(), "\r\n"].concat();
        }
        answer
    }
}

/// The options of a run.
#[derive(Debug)]
struct Rules {
    retries: usize,
    codes: Vec<usize>,
    least: u64,
    most: u64,
    max_hold: u64,
}

impl Rules {
    fn new(random: &mut Rng) -> Self {
        let (least, more) = (random.u64(0..4), random.u64(0..30));
        let codes = (0..CODES.len()).filter(|_| random.u8(..3) == 0).collect();
        let (retries, max_hold) = (random.usize(0..6), random.u64(0..20));
        Rules { retries, codes, least, most: least + more, max_hold }
    }

    fn args(&self) -> [String; 3] {
        let codes: Vec<_> = self.codes.iter().map(|code| CODES[*code].0).collect();
        let equals = if codes.is_empty() { "" } else { "=" };
        [
            format!("--retries={}", self.retries),
            format!("--backoff={}{equals}{}s..{}s", codes.join(","), self.least, self.most),
            format!("--max-hold={}s", self.max_hold),
        ]
    }

    /// The least and the most seconds until the next attempt, after this one, counted from 1; `None` if it is the last.
    fn wait(&self, attempt: &Attempt, number: usize) -> Option<(u64, u64)> {
        let http = attempt.answer.as_ref().map(|answer| answer.http);
        let is_listed = match self.codes.is_empty() {
            true => attempt.exit != 255,
            false => self.codes.iter().any(|code| CODES[*code].1(attempt.exit, http)),
        };
        if attempt.exit == 0 || !is_listed || number > self.retries {
            return None;
        }
        let asked = attempt.answer.as_ref().and_then(|answer| answer.retry_after);
        let bound = if self.least == 0 { self.most } else { self.most.min(self.least << number) };
        Some(asked.map_or((self.least, bound), |asked| (asked.min(self.max_hold), asked.min(self.max_hold))))
    }
}

#[test]
fn at_random_what_is_tried_again_and_when_follows_from_exit_and_http_statuses() {
    let mut retried = [0; 2];
    for seed in seeds(400) {
        let mut random = Rng::with_seed(seed);
        let rules = Rules::new(&mut random);
        let attempts: Vec<_> = (0..=rules.retries).map(|_| Attempt::new(&mut random)).collect();
        let _told = Told { seed, case: || format!("{rules:?}\n{attempts:?}") };
        let behave = |_: &str, number: u64| {
            let Attempt { exit, answer } = &attempts[usize::try_from(number).unwrap() - 1];
            let said = answer.as_ref().map_or("", |answer| &answer.headers);
            let retry_after = parse_headers(said, SystemTime::now()).unwrap();
            Behaviour { duration: SECOND, code: *exit, http: parse_status(said), retry_after }
        };
        let args = rules.args();
        let args = [&[UNLIMITED], &args.each_ref().map(String::as_str)[..]].concat();
        let outcome = run(&args, vec![block(0, &["item"])], behave);
        let mut runs = outcome.runs.windows(2);
        for (attempt, number) in attempts.iter().zip(1..) {
            let waited = runs.next().map(|pair| pair[1].start - pair[0].end);
            let range = rules.wait(attempt, number);
            assert_eq!(waited.is_some(), range.is_some(), "after attempt {number}");
            let Some((waited, (least, most))) = waited.zip(range) else { break };
            assert!((least * SECOND..=most * SECOND).contains(&waited), "{waited} after attempt {number}");
            retried[usize::from(attempt.answer.is_some() && !rules.codes.is_empty())] += 1;
        }
    }
    assert!(retried.iter().all(|count| *count > 0) || std::env::var_os("THROTTLE_CASES").is_some());
}

/// The answers of a server to its requests, by path: curl exits with 22 for both.
#[test]
fn an_http_status_tells_what_is_worth_a_retry() {
    if needs_program("curl").is_none() {
        return;
    }
    let mut answers = ["404 Not Found", "503 Unavailable", "200 OK"].into_iter();
    let port = serve(move |stream| {
        let answer = answers.next().unwrap_or("500 Too Many Requests Of The Test");
        let _ = write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let directory = Directory::new();
    let failed = directory.path().join("failed").display().to_string();
    let args = [UNLIMITED, "--retries=3", "--backoff=429,5xx=1ms", "--failed", &failed, "--"];
    let curl = ["curl", "-q", "-fsS", "--noproxy", "*", "-D", "{headers}", "{}"];
    let (gone, away) = (format!("http://127.0.0.1:{port}/gone"), format!("http://127.0.0.1:{port}/away"));
    let mut run = throttle(&[&args[..], &curl].concat());
    let told = run.write_stdin(format!("{gone}\n{away}\n")).assert().code(123);
    told.stderr(contains(format!("item 1 '{gone}': exited with 22\n")));
    assert_eq!(fs::read_to_string(failed).unwrap(), format!("{gone}\n"));
}

#[test]
fn the_file_of_headers_has_a_place_in_the_command() {
    let told = |args: &[&str], script: &str, stderr: &str| {
        let args =
            [&[UNLIMITED, "--retries=1"], args, &["--", "sh", "-c", script, "sh", "{headers}"]].concat();
        let output = throttle(&args).write_stdin("a\nb\n").output().unwrap();
        assert_eq!(text(&output.stderr), stderr, "{args:?}");
        text(&output.stdout)
    };
    // Without a place for the item, that goes to the end.
    let same = r#"test "$1" = "$THROTTLE_HEADERS" && echo "$2""#;
    assert_eq!(told(&[], same, ""), "a\nb\n");
    assert_eq!(told(&["--pipe"], r#"test "$1" = "$THROTTLE_HEADERS" && cat"#, ""), "a\nb\n");
    assert_eq!(told(&["-B2"], r#"echo "$2" "$3""#, ""), "a b\n");
    assert_eq!(told(&["--dry-run"], "x", "").lines().next(), Some("0.000000000\tsh -c x sh '{headers}' a"));
    let overlooked = "throttle: item 1: HTTP 503 is not retried, as the command exited with 0: make it fail, as with \
                      curl -f\n";
    assert_eq!(told(&["--backoff=5xx=1ms"], r#"echo HTTP/2 503 >"$1""#, overlooked), "");
    // What -t prints is what runs.
    let args = [UNLIMITED, "-t", "--", "echo", "{headers}"];
    let output = throttle(&args).write_stdin("a\n").output().unwrap();
    assert_eq!(text(&output.stderr), format!("echo {}", text(&output.stdout)));
}

#[test]
fn what_makes_no_sense_is_refused_or_warned_about() {
    let backoff = |codes: &'static str| vec!["-n1", "--retries=1", "--backoff", codes, "true"];
    let table: [(Vec<&str>, &str); 9] = [
        (backoff("137=1s"), "137 is no HTTP status: for the exit status, write exit:137"),
        (backoff("429,255=1s"), "255 is no HTTP status: for the exit status, write exit:255"),
        (backoff("1xx=1s"), "the classes of HTTP statuses are 2xx to 5xx"),
        (backoff("exit:0=1s"), "exit statuses are 1 to 255"),
        (backoff("600=1s"), "exit statuses from 1 to 99, HTTP statuses from 200 to 599"),
        (backoff("5x=1s"), "or as 5xx, or exit:N, as in 7,429,5xx=1s..5m"),
        (vec!["-n1", "--failed", "-", "true"], "--failed - would be standard output, where COMMAND writes"),
        (vec!["-n1", "--failed", "f"], "--failed is for a command: add one"),
        (vec!["-n1", "--once", "curl", "-D", "{headers}"], "nothing would read {headers}: pipe in one item"),
    ];
    for (args, why) in table {
        fed(&args, "").code(2).stderr(contains(why));
    }
    for (file, status, why) in [
        ("/dev/null", 1, "--failed needs a regular file, which /dev/null is not: name another"),
        ("/nowhere/f", 1, "--failed cannot write to /nowhere/f"),
    ] {
        let run = &mut throttle(&["-n1", "--failed", file, "true"]);
        run.write_stdin("").assert().code(status).stderr(contains(why));
    }
    let directory = Directory::new();
    let items = directory.file("items", "a\n");
    let args = ["-n1", "--failed", items.to_str().unwrap(), "-a", items.to_str().unwrap(), "true"];
    throttle(&args).assert().code(1).stderr(contains("--failed would write to the input"));
    let backoff = &["-n1", "--retries=1", "--backoff=5xx,7=1s", "--"][..];
    let range = &["-r1..9/s", "--"][..];
    for (options, command, told) in [
        (
            backoff,
            &["curl"][..],
            "--backoff never sees an HTTP status, as COMMAND passes on none: add -D {headers}\n",
        ),
        (backoff, &["/bin/wget"], "add -S -o {headers}\n"),
        (backoff, &["curl", "-D", "{headers}"], ""),
        (backoff, &["./call"], ""),
        (
            range,
            &["curl"],
            "LOW..HIGH never sees an HTTP status, as COMMAND passes on none: add -D {headers}\n",
        ),
        (range, &["curl", "-D", "{headers}"], ""),
        (&["-r1..9/s", "--retries=1", "--backoff=exit:22=1s", "--"], &["curl"], ""),
    ] {
        let args = [&["--dry-run"], options, command].concat();
        let output = throttle(&args).write_stdin("a\n").output().unwrap();
        let stderr = text(&output.stderr);
        assert!(stderr.ends_with(told) && stderr.is_empty() == told.is_empty(), "{args:?}: {stderr}");
    }
}

/// Each item is the exit status of its command; a batch has that of its largest.
#[test]
fn at_random_exactly_what_failed_is_listed_as_a_next_input() {
    for seed in seeds(20) {
        let mut random = Rng::with_seed(seed);
        let (flag, delimiter) = random.choice([("-d\\n", "\n"), ("-0", "\0"), ("-d;;", ";;")]).unwrap();
        let items: Vec<_> = (0..random.usize(1..25)).map(|_| random.choice([0, 0, 1, 3]).unwrap()).collect();
        let size = random.usize(1..5);
        // A batch is complete, as the input ends long before it would be closed.
        let (batch, jobs) = (format!("-B{size},1h"), format!("-j{}", random.u8(1..5)));
        let _told = Told { seed, case: || format!("{flag} {batch} {jobs} {items:?}") };
        let directory = Directory::new();
        let file = directory.file("failed", "old\n");
        let script = r#"test "$THROTTLE_ATTEMPT" = 2 && for one do case $one in 1*) exit 0; esac; done
            for one do case $one in 0*) ;; *) exit 9; esac; done"#;
        let args = [UNLIMITED, flag, &batch, &jobs, "--retries=1", "--backoff=9=1ms", "-q"];
        let lasting = ["--failed", file.to_str().unwrap(), "--", "sh", "-c", script, "sh"];
        let records: Vec<_> = items.iter().zip(0..).map(|(status, at)| format!("{status} {at}")).collect();
        throttle(&[&args[..], &lasting].concat()).write_stdin(records.join(delimiter)).output().unwrap();
        let has = |batch: &&[String], status: &str| batch.iter().any(|item| item.starts_with(status));
        let batches = records.chunks(size).filter(|batch| has(batch, "3") && !has(batch, "1"));
        let mut expected: Vec<_> = batches.flatten().collect();
        let listed = fs::read_to_string(file).unwrap();
        let mut listed: Vec<_> = listed.split_terminator(delimiter).map(str::to_owned).collect();
        listed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn on_an_interrupt_what_has_failed_by_then_is_listed() {
    let directory = Directory::new();
    let file = directory.path().join("failed");
    let script = "case $1 in bad) exit 1;; again) exit 7;; esac; echo $1; exec sleep 1000";
    let args = ["-uj3", UNLIMITED, "--retries=1", "--backoff=7=1h", "--failed", file.to_str().unwrap()];
    let mut running = Running::throttle(&[&args[..], &["--", "sh", "-c", script, "sh"]].concat());
    running.write("bad\nagain\nlong\n");
    assert_eq!(running.line(), "long\n");
    crate::support::eventually("the first failure is listed", || {
        fs::read(&file).is_ok_and(|list| !list.is_empty())
    });
    running.signal(Signal::SIGINT);
    running.collect();
    let listed = fs::read_to_string(file).unwrap();
    let mut lines: Vec<_> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["again", "bad", "long"]);
}

#[test]
fn bad_items_that_are_skipped_are_listed_and_a_message_says_where_more_are() {
    let directory = Directory::new();
    let file = directory.path().join("failed").display().to_string();
    let args = [UNLIMITED, "-c", "col:1", "--on-bad=skip", "--failed", &file, "--", "true"];
    fed(&args, "1 a\nb\n2 c\nd").code(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "b\nd\n");
    let many = "x\n".repeat(25);
    let log = directory.path().join("log").display().to_string();
    for (args, told) in [
        (&["--failed", &file][..], format!("5 more failed: see {file}\n")),
        (&["--log", &log], format!("5 more failed: see {log}\n")),
        (&[], "5 more failed: --failed FILE lists them\n".to_owned()),
    ] {
        let args = [&[UNLIMITED, "-j5"], args, &["--", "false"]].concat();
        let output = throttle(&args).write_stdin(many.as_str()).output().unwrap();
        assert!(text(&output.stderr).contains(&told), "{}", text(&output.stderr));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), many);
}
