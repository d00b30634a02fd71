//! The log of a run, and resuming where the run ended.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use predicates::str::contains;

use crate::support::{Directory, Running, THROTTLE, UNLIMITED, eventually, fed, numbers, text, throttle};

/// Runs `script` for each item with the log `log`, and returns the output.
fn logged(log: &Path, args: &[&str], script: &str, items: &str) -> String {
    let log = log.to_str().unwrap();
    let command = ["--log", log, "--", "sh", "-c", script, "sh"];
    let output = throttle(&[&[UNLIMITED], args, &command].concat()).write_stdin(items).output().unwrap();
    text(&output.stdout)
}

fn log_in(directory: &Directory) -> PathBuf {
    directory.path().join("log")
}

/// The rows of a log without its header and its times. The items of a batch are one field.
fn entries(log: &Path) -> Vec<[String; 5]> {
    let log = fs::read_to_string(log).unwrap();
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("seq\tstart\twait\truntime\tattempt\texit\tsignal\titem"));
    let entry = |line: &str| {
        let fields: Vec<_> = line.splitn(8, '\t').collect();
        assert_eq!(fields.len(), 8, "{line}");
        fields[1..4].iter().for_each(|seconds| assert!(seconds.parse::<f64>().unwrap() >= 0.0, "{line}"));
        [fields[0], fields[4], fields[5], fields[6], fields[7]].map(str::to_owned)
    };
    lines.map(entry).collect()
}

#[test]
fn each_attempt_is_a_line() {
    let directory = Directory::new();
    let log = log_in(&directory);
    let script = "case $1 in kill) kill -9 $$;; esac; exit $(($1 - $THROTTLE_ATTEMPT))";
    logged(&log, &["--retries=1", "--backoff=1,2=0..0"], script, "1\n2\n4\nkill\n");
    logged(&log, &[], "exit 0", "a\tb\\\x1b\n");
    let expected = [
        ["1", "1", "0", "0", "1"],
        ["2", "1", "1", "0", "2"],
        ["2", "2", "0", "0", "2"],
        ["3", "1", "3", "0", "4"],
        ["4", "1", "137", "9", "kill"],
        ["1", "1", "0", "0", "a\\tb\\\\\\u{1b}"],
    ];
    assert_eq!(entries(&log), expected);
}

/// The items in a log.
fn items(log: &Path) -> Vec<String> {
    let split = |items: String| items.split('\t').map(str::to_owned).collect::<Vec<_>>();
    entries(log).into_iter().flat_map(|[.., items]| split(items)).collect()
}

#[test]
fn the_log_can_be_read_while_it_grows() {
    let directory = Directory::new();
    let log = log_in(&directory);
    let mut running = Running::throttle(&[UNLIMITED, "--log", log.to_str().unwrap(), "true"]);
    for count in 1..4 {
        running.write("1\n");
        eventually("it is noted", || {
            fs::read_to_string(&log).is_ok_and(|log| log.lines().count() == count + 1)
        });
        assert_eq!(entries(&log).len(), count);
    }
}

#[test]
fn what_is_completed_is_not_run_again() {
    let directory = Directory::new();
    let log = log_in(&directory);
    let script = "echo $1; test $1 != b";
    assert_eq!(logged(&log, &[], script, "a\nb\nc\na\n"), "a\nb\nc\na\n");
    let table = [
        // The same list, another order, more duplicates, an item without delimiter.
        ("a\nb\nc\na\n", "b\n"),
        ("c\nb\na\na\n", "b\n"),
        ("a\na\na\nc\nc", "a\nc\n"),
    ];
    let noted = fs::read(&log).unwrap();
    for (items, printed) in table {
        for args in [&["--resume"][..], &["--resume", "-kj4"]] {
            fs::write(&log, &noted).unwrap();
            assert_eq!(logged(&log, args, script, items), printed, "{args:?}");
        }
    }
}

#[test]
fn a_torn_last_line_counts_for_nothing() {
    let directory = Directory::new();
    let log = log_in(&directory);
    logged(&log, &[], "exit 0", "a\n");
    let torn = "2\t0.000\t0.000\t0.000\t1\t0\t0\tb";
    OpenOptions::new().append(true).open(&log).unwrap().write_all(torn.as_bytes()).unwrap();
    assert_eq!(logged(&log, &["--resume"], "echo $1", "a\nb\nbc\n"), "b\nbc\n");
    assert_eq!(items(&log), ["a", "b", "bc"]);
}

#[test]
fn a_log_is_for_one_run_at_a_time() {
    let directory = Directory::new();
    let log = log_in(&directory);
    let log = log.to_str().unwrap();
    let mut running = Running::fed(&[UNLIMITED, "--log", log, "echo"], "1\n");
    running.line();
    fed(&[UNLIMITED, "--log", log, "echo"], "2\n")
        .code(1)
        .stdout("")
        .stderr(contains("in use by another run"));
}

/// Each round is killed at a random moment; the last one runs to the end.
#[test]
fn a_run_that_is_killed_again_and_again_completes_every_item() {
    let directory = Directory::new();
    let list = directory.file("items", numbers(150));
    let script = "printf '%s\\n' $* >> done";
    let resume = |batch: &str| {
        let mut start = Command::new(THROTTLE);
        start.args([UNLIMITED, "-j4", batch, "--log", "log", "--resume", "-a"]).arg(&list);
        start.args(["--", "sh", "-c", script, "sh"]).current_dir(directory.path());
        Running::spawn(start.stdin(Stdio::null()).stdout(Stdio::null()))
    };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..10 {
        let mut running = resume(["-B1", "-B4"][random.usize(..2)]);
        thread::sleep(Duration::from_millis(random.u64(1..80)));
        running.signal(Signal::SIGKILL);
        running.wait();
    }
    assert!(resume("-B1").wait().success());
    let done = fs::read_to_string(directory.path().join("done")).unwrap();
    assert_eq!(done.lines().collect::<BTreeSet<_>>().len(), 150);
    let noted = items(&log_in(&directory));
    assert_eq!((noted.len(), noted.iter().collect::<BTreeSet<_>>().len()), (150, 150));
}

#[test]
fn the_numbers_at_the_end_add_up() {
    let directory = Directory::new();
    directory.file("items", "0\n1\n0\n2\n0\n");
    let script = "printf '0\\n7\\n' | throttle -r1T/s --log log -- true &&
        throttle -r1T/s --log log --resume --retries 1 --stats json -j2 -- sh -c 'exit $1' sh < items";
    let output = directory.sh(script).output().unwrap();
    let told: serde_json::Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    let numbers = ["read", "released", "refused", "skipped", "retried", "failed", "left", "bytes", "exit"];
    let numbers = numbers.map(|name| told[name].as_u64().expect(name));
    assert_eq!(numbers, [5, 4, 0, 1, 2, 2, 0, 8, 123]);
    assert!(told["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn progress_is_shown_where_it_is_wanted() {
    let mut running = Running::fed(&["-n1", "-p1h", "--progress=always", "echo"], "1\n2\n");
    running.close_stdin();
    eventually("it is shown", || running.error_line().contains("throttle: 1 of 2 (50 %)"));
    for flag in ["--progress", "-j2"] {
        fed(&["-n1", "-p1.1s", flag, "echo"], "1\n2\n").success().stdout("1\n2\n").stderr("");
    }
}

#[test]
fn where_progress_is_in_lines_the_last_is_of_the_end() {
    let run = |args: &[&str]| {
        let args = [&["--progress=always"], args].concat();
        text(&throttle(&args).write_stdin("1\n2\n3\n").output().unwrap().stderr)
    };
    let told = run(&["-n2", "-p3s", "--", "sh", "-c", "[ $1 != 2 ]", "sh"]);
    assert!(told.contains("throttle: 2 of 3 (66 %), 1 failed, next in "), "{told}");
    assert!(told.ends_with("\nthrottle: 3 of 3 (100 %), 1 failed\n"), "{told}");
    // A run that is over before the first line needs no last one.
    assert_eq!(run(&[UNLIMITED]), "");
}

#[test]
fn a_log_of_json_lines_is_resumed_and_audited_like_any_other() {
    let directory = Directory::new();
    let log = log_in(&directory);
    let script = "[ $1 = b ] && exit 1; echo $1";
    assert_eq!(logged(&log, &["--log-format=json"], script, "a\nb\nc\td\n"), "a\nc d\n");
    let lines = fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (&line["seq"], &line["exit"], &line["item"])).collect();
    assert_eq!(told[1], (&2.into(), &1.into(), &"b".into()));
    assert_eq!(told[2], (&3.into(), &0.into(), &"c\td".into()));
    // Keeps the format of the log.
    assert_eq!(logged(&log, &["--resume"], "echo $1", "a\nb\nc\td\n"), "b\n");
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 4);
    let audit = ["-r1/h,key=col:1", "--audit", "-q", "-a", log.to_str().unwrap()];
    throttle(&audit).assert().code(75);
    throttle(&["-r2/h,key=col:1", "--audit", "-a", log.to_str().unwrap()]).assert().success();
    let other = ["-r1/s", "--log", log.to_str().unwrap(), "--log-format=tsv", "true"];
    let error = throttle(&other).output().unwrap();
    assert!(String::from_utf8_lossy(&error.stderr).contains("has another format"));
}
