//! A batch is one row of the log. The log can be read back, resumed from wherever it broke off, and audited.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde_json::Value;
use throttle::source::Segment;
use throttle::time::Time;

use crate::simulated::commands::{Behaviour, Outcome, run};
use crate::support::{Directory, UNLIMITED, fed, for_each_seed, seeds, text, throttle};

/// One row of the log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Row {
    start: String,
    attempt: u64,
    exit: u64,
    items: Vec<(u64, Vec<u8>)>,
}

const HEADER: &str = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem";

/// The complete rows of a log.
fn rows(log: &[u8]) -> Vec<Row> {
    let whole = log.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let lines = str::from_utf8(&log[..whole]).expect("text").lines();
    lines
        .filter(|line| *line != HEADER)
        .map(|line| if line.starts_with('{') { from_json(line) } else { from_tsv(line) })
        .collect()
}

fn from_tsv(line: &str) -> Row {
    let fields: Vec<_> = line.split('\t').collect();
    assert_eq!(fields[6], "0", "{line}");
    let numbers = fields[0].split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().expect("a number")..=last.parse::<u64>().expect("a number")
    });
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers.len(), fields.len() - 7, "{line}");
    let items = fields[7..].iter().map(|text| unescaped(text));
    Row {
        start: fields[1].to_owned(),
        attempt: fields[4].parse().expect("a number"),
        exit: fields[5].parse().expect("a number"),
        items: numbers.into_iter().zip(items).collect(),
    }
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut item, mut rest) = (Vec::new(), text);
    while let Some((plain, escape)) = rest.split_once('\\') {
        item.extend_from_slice(plain.as_bytes());
        let (byte, length) = match escape.as_bytes()[0] {
            b't' => (b'\t', 1),
            b'n' => (b'\n', 1),
            b'r' => (b'\r', 1),
            b'\\' => (b'\\', 1),
            b'x' => (u8::from_str_radix(&escape[1..3], 16).expect("hexadecimal"), 3),
            b'u' => {
                let end = escape.find('}').expect("its end");
                let code = u32::from_str_radix(&escape[2..end], 16).expect("hexadecimal");
                let control = char::from_u32(code).expect("a control character").to_string();
                item.extend_from_slice(control.as_bytes());
                rest = &escape[end + 1..];
                continue;
            }
            other => panic!("\\{} in {text}", other.escape_ascii()),
        };
        item.push(byte);
        rest = &escape[length..];
    }
    item.extend_from_slice(rest.as_bytes());
    item
}

fn from_json(line: &str) -> Row {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let bytes = |item: &Value| match item {
        Value::String(text) => text.clone().into_bytes(),
        other => other
            .as_array()
            .expect("bytes")
            .iter()
            .map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap())
            .collect(),
    };
    let number = |value: &Value| value.as_u64().expect("a number");
    let items: Vec<_> = match value.get("items") {
        None => vec![(number(&value["seq"]), bytes(&value["item"]))],
        Some(items) => {
            let numbers = value["seqs"].as_array().expect("numbers");
            let items = items.as_array().expect("items");
            assert_eq!(numbers.len(), items.len(), "{line}");
            numbers.iter().map(number).zip(items.iter().map(bytes)).collect()
        }
    };
    assert_eq!((number(&value["seq"]), number(&value["signal"])), (items[0].0, 0), "{line}");
    // A float would round it.
    let start = line.split_once("\"start\":").and_then(|(_, rest)| rest.split_once(',')).expect("a start");
    let (attempt, exit) = (number(&value["attempt"]), number(&value["exit"]));
    Row { start: start.0.to_owned(), attempt, exit, items }
}

/// What ran, as sorted rows.
fn ran(outcome: &Outcome, case: &Case) -> Vec<Row> {
    let row = |ran: &crate::simulated::commands::Ran| Row {
        start: Time(ran.start).to_string(),
        attempt: ran.attempt,
        exit: case.exit(&ran.line, ran.attempt),
        items: ran.items.clone(),
    };
    sorted(outcome.runs.iter().map(row).collect())
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

type Counts = BTreeMap<Vec<u8>, usize>;

fn counts<'a>(items: impl IntoIterator<Item = &'a Vec<u8>>) -> Counts {
    let mut counts = Counts::new();
    items.into_iter().for_each(|item| *counts.entry(item.clone()).or_default() += 1);
    counts
}

/// The items that are not in `done`, with their counts.
fn without(items: &[Vec<u8>], done: &Counts) -> Counts {
    let mut left = counts(items);
    for (item, count) in done {
        left.entry(item.clone()).and_modify(|left| *left = left.saturating_sub(*count));
    }
    left.retain(|_, count| *count > 0);
    left
}

/// What `--resume` must not run again; with `new`, what `--resume=new` must not.
fn known(rows: &[Row], new: bool) -> Counts {
    let items = rows.iter().filter(|row| new || row.exit == 0).flat_map(|row| &row.items);
    if new {
        counts(items.collect::<BTreeSet<_>>().iter().map(|(_, item)| item))
    } else {
        counts(items.map(|(_, item)| item))
    }
}

/// A random input, and how its commands behave.
struct Case {
    random: Rng,
    seed: u64,
    format: &'static str,
    delimiter: u8,
    fails: u8,
    log: PathBuf,
}

impl Case {
    fn new(seed: u64, log: PathBuf) -> Self {
        let mut random = Rng::with_seed(seed);
        let format = if random.bool() { "tsv" } else { "json" };
        let delimiter = if random.bool() { 0 } else { b'\n' };
        let fails = random.choice([0, 20, 60]).expect("a share");
        Case { random, seed, format, delimiter, fails, log }
    }

    fn item(&mut self) -> Vec<u8> {
        let other = if self.delimiter == 0 { "\n" } else { "\0" };
        let pieces: [&[u8]; 12] = [
            b"a",
            b"b",
            b"\t",
            other.as_bytes(),
            b"\r",
            b"\\",
            b"\\t",
            b"x41",
            b"\xff",
            b"\x1b",
            b" ",
            "é".as_bytes(),
        ];
        let length = self.random.usize(0..4);
        (0..length).flat_map(|_| *self.random.choice(&pieces).expect("a piece")).copied().collect()
    }

    fn items(&mut self) -> Vec<Vec<u8>> {
        (0..self.random.usize(1..30)).map(|_| self.item()).collect()
    }

    fn exit(&self, line: &str, attempt: u64) -> u64 {
        let mut random = Rng::with_seed(self.seed ^ attempt);
        let draws = line.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        random.seed(self.seed ^ attempt << 40 ^ draws);
        u64::from(random.u8(0..100) < self.fails)
    }

    fn run(&mut self, items: &[Vec<u8>], resume: &[&str]) -> Outcome {
        // The old log may still be locked by a child that another test is just forking.
        let next = self.log.with_extension(format!("{}", self.random.u64(..)));
        let _ = fs::copy(&self.log, &next);
        self.log = next;
        let random = &mut self.random;
        let mut args: Vec<String> = vec![
            format!("-B{}{}", random.u8(1..6), ["", ",30ns", ",0s"][random.usize(..3)]),
            format!("-j{}", random.u8(1..4)),
            format!("--retries={}", random.u8(0..3)),
            "--backoff=0s..40ns".to_owned(),
            format!("--log={}", self.log.display()),
        ];
        let limits = ["1T/s", "2/20ns,key=re:^(.?)", "9/30ns,cost=bytes,algo=bucket", "1/9ns,key=bytes"];
        args.push(format!("-r{}", limits[random.usize(..limits.len())]));
        if self.delimiter == 0 {
            args.push("-0".to_owned());
        }
        let is_there = fs::metadata(&self.log).is_ok_and(|log| log.len() > 0);
        if !is_there {
            args.push(format!("--log-format={}", self.format));
        }
        let (mut at, mut blocks) = (0, Vec::new());
        let mut together = Rng::with_seed(random.u64(..));
        for items in items.chunk_by(|_, _| together.bool()) {
            at += random.u64(0..30);
            let bytes: Vec<u8> =
                items.iter().flat_map(|item| [item, &[self.delimiter][..]].concat()).collect();
            blocks.push(Segment::of(bytes, items.len() as u64, Time(at)));
        }
        let lasts = random.u64(..);
        let args: Vec<_> = args.iter().map(String::as_str).chain(resume.iter().copied()).collect();
        run(&args, blocks, |line, attempt| Behaviour {
            duration: Rng::with_seed(lasts ^ attempt ^ line.len() as u64).u64(0..60),
            code: i32::from(self.exit(line, attempt) > 0),
            http: None,
            retry_after: None,
        })
    }

    /// The rows of the log.
    fn rows(&self) -> Vec<Row> {
        rows(&fs::read(&self.log).expect("a log"))
    }
}

/// The items of first attempts.
fn begun(outcome: &Outcome) -> Counts {
    let first = outcome.runs.iter().filter(|ran| ran.attempt == 1);
    counts(first.flat_map(|ran| &ran.items).map(|(_, item)| item))
}

/// The log as older versions wrote it, with one row per item.
fn item_by_item(log: &[u8]) -> Vec<u8> {
    let lines = log.split_inclusive(|&byte| byte == b'\n');
    // The last line may be torn.
    let older = |line: &[u8]| match str::from_utf8(line) {
        Ok(line) if line.ends_with('\n') && line.trim_end() != HEADER => rows_of(line.trim_end_matches('\n')),
        _ => line.to_vec(),
    };
    lines.flat_map(older).collect()
}

fn rows_of(line: &str) -> Vec<u8> {
    if line.starts_with('{') {
        let Row { start, attempt, exit, items } = from_json(line);
        let rows = items.iter().map(|(seq, item)| {
            let item = str::from_utf8(item).map_or_else(|_| Value::from(&item[..]), Value::from);
            format!(
                "{{\"seq\":{seq},\"start\":{start},\"attempt\":{attempt},\"exit\":{exit},\
                 \"signal\":0,\"item\":{item}}}\n"
            )
        });
        return rows.collect::<String>().into_bytes();
    }
    let fields: Vec<_> = line.split('\t').collect();
    let middle = fields[1..7].join("\t");
    let numbers = from_tsv(line).items.into_iter().map(|(number, _)| number);
    let rows = numbers.zip(&fields[7..]).map(|(number, item)| format!("{number}\t{middle}\t{item}\n"));
    rows.collect::<String>().into_bytes()
}

#[test]
fn property_a_log_of_batches_says_what_ran_and_is_resumed_exactly_wherever_it_broke_off() {
    let directory = Directory::new();
    for seed in seeds(25) {
        println!("seed {seed}");
        let mut case = Case::new(seed, directory.path().join(format!("log{seed}")));
        let mut items = case.items();
        let first = case.run(&items, &[]);
        assert_eq!(begun(&first), counts(&items));
        assert_eq!(sorted(case.rows()), ran(&first, &case));

        // The machine crashed, at a random byte of the log.
        let log = fs::read(&case.log).expect("a log");
        let cut = if case.random.bool() { log.len() } else { case.random.usize(..=log.len()) };
        fs::write(&case.log, &log[..cut]).expect("a file");
        let kept = rows(&log[..cut]);
        // The list has been edited.
        case.random.shuffle(&mut items);
        items.truncate(case.random.usize(1..=items.len()));
        let more = case.items();
        items.extend(more.into_iter().take(case.random.usize(..5)));
        let new = case.random.bool();
        let left = without(&items, &known(&kept, new));
        if case.random.bool() {
            // Rows of older versions count as well.
            fs::write(&case.log, item_by_item(&log[..cut])).expect("a file");
        }
        let before = case.rows().len();
        let second = case.run(&items, &[if new { "--resume=new" } else { "--resume" }]);
        assert_eq!(begun(&second), left, "{new}");
        let after = case.rows();
        assert_eq!(sorted(after[before..].to_vec()), ran(&second, &case));

        // Only items that have failed for good are run again.
        let third = case.run(&items, &["--resume"]);
        assert_eq!(begun(&third), without(&items, &known(&after, false)));
    }
}

/// Runs a batch that completes and one that fails. Returns the log.
fn logged(directory: &Directory, args: &[&str]) -> PathBuf {
    let log = directory.path().join("log");
    let command = ["--log", log.to_str().unwrap(), "--", "sh", "-c", "test \"$1\" != d", "sh"];
    throttle(&[&["-d,", "-j1"], args, &command].concat()).write_stdin("a\tx,b\nx,c,d,,f,").output().unwrap();
    log
}

fn read(log: &Path) -> String {
    text(&fs::read(log).unwrap())
}

#[test]
fn a_batch_is_a_row_with_its_items_in_columns() {
    let directory = Directory::new();
    let log = logged(&directory, &[UNLIMITED, "-B3"]);
    let told = read(&log);
    let fields: Vec<Vec<_>> = told.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert_eq!((fields[0][0], fields[0][5]), ("1-3", "0"));
    assert_eq!(fields[0][7..], ["a\\tx", "b\\nx", "c"]);
    assert_eq!((fields[1][0], fields[1][5]), ("4-6", "1"));
    assert_eq!(fields[1][7..], ["d", "", "f"]);
    let command = ["--log", log.to_str().unwrap(), "--resume", "--", "sh", "-c", "echo $#: $*", "sh"];
    fed(&[&["-B2", "-d,", UNLIMITED], &command[..]].concat(), "a\tx,b\nx,c,d,,f,c")
        .success()
        .stdout("2: d\n2: f c\n");
}

#[test]
fn items_of_a_batch_that_do_not_follow_one_another_keep_their_numbers() {
    let directory = Directory::new();
    let log = directory.path().join("log");
    let args = ["-B9", "-r1T/s,key=col:1", "-j1", "--log", log.to_str().unwrap(), "--", "true"];
    fed(&args, "a\nb\na\na\nb\n").success();
    let told = read(&log);
    let numbers: Vec<_> = told.lines().skip(1).map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(numbers, ["1,3-4", "2,5"]);
}

#[test]
fn in_json_a_run_with_batches_always_has_lists() {
    let directory = Directory::new();
    let log = logged(&directory, &[UNLIMITED, "--log-format=json", "--in-order", "-B5"]);
    let rows: Vec<Value> = read(&log).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        rows.iter().map(|row| (&row["seq"], row["items"].to_string(), row["seqs"].to_string())).collect();
    assert_eq!(told[0], (&1.into(), r#"["a\tx","b\nx","c","d",""]"#.into(), "[1,2,3,4,5]".into()));
    assert_eq!(told[1], (&6.into(), r#"["f"]"#.into(), "[6]".into()));
    assert!(rows.iter().all(|row| row.get("item").is_none()));
}

#[test]
fn a_row_is_audited_as_one_release_of_what_it_was_charged() {
    let directory = Directory::new();
    let log = logged(&directory, &["-r6/h,cost=bytes,algo=bucket,burst=20", "-r2/h", "-B3"]);
    let audit = |rate: &str| {
        let output = throttle(&["--audit", "-r", rate, "-a", log.to_str().unwrap()]).output().unwrap();
        (output.status.code().unwrap(), text(&output.stdout))
    };
    assert!(audit("2/h").1.starts_with("limit 2/1h,algo=sliding: 0 of 2 releases too early\n"));
    let (status, told) = audit("1/h");
    assert_eq!(status, 75);
    assert!(told.starts_with("release 2 at "), "{told}");
    // Including a delimiter each, but for the last: 4 + 4 + 2 and 2 + 1 + 1.
    assert_eq!((audit("14/h,cost=bytes").0, audit("13/h,cost=bytes").0), (0, 75));
    // A limit that the run did not have may find several keys in a batch; it counts the batch for each.
    assert_eq!((audit("1/h,key=re:[a-f]").0, audit("1/h,key=re:[cd]").0), (0, 75));
    assert_eq!((audit("1/h,key=re:x,only=x").0, audit("1/h,cost=1,key=re:x,only=x").0), (0, 75));
}

/// A log does not say whether its last item had a delimiter; in doubt, the run kept its limit.
#[test]
fn property_a_log_is_charged_the_bytes_that_were_released() {
    for_each_seed(8, |random| {
        let directory = Directory::new();
        let items: Vec<_> = (0..random.usize(1..12)).map(|_| "x".repeat(random.usize(2..9))).collect();
        let has_delimiter = random.bool();
        let input = items.join("\n") + if has_delimiter { "\n" } else { "" };
        let (attempts, log) = (random.usize(1..=2), directory.path().join("log"));
        let (batch, script) =
            (format!("-B{}", random.u8(1..=4)), format!("[ $THROTTLE_ATTEMPT = {attempts} ]"));
        let format = if random.bool() { "--log-format=json" } else { "--log-format=tsv" };
        let job =
            [&batch, format, "-j3", "--retries=1", "--backoff=1ms..1ms", "--log", log.to_str().unwrap()];
        fed(&[&job[..], &["-r1T/s", "--", "sh", "-c", &script, "sh"]].concat(), &*input).success();
        let audit = |bytes| {
            let limit = format!("-r{bytes}/1000h,cost=bytes");
            throttle(&["--audit", "-q", &limit, "-a", log.to_str().unwrap()]).output().unwrap().status.code()
        };
        let released = input.len() * attempts;
        // The last delimiter is in doubt, in each attempt.
        let doubtful = if has_delimiter { attempts } else { 0 };
        let found = [0, doubtful, doubtful + 1].map(|less| audit(released - less));
        assert_eq!(found, [Some(0), Some(0), Some(75)], "{input:?}");
    });
}
