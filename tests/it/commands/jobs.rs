//! Many commands: in parallel, retried, timed, logged and interrupted.

mod resources;
mod resume;
mod retries;
mod timeouts;

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use predicates::str::contains;

use crate::support::{Directory, Running, UNLIMITED, eventually, fed, is_alive, numbers, text, throttle};

/// Runs `script` for each item, as `$1`, and returns the output.
fn run(args: &[&str], script: &str, items: &str) -> String {
    let output = start(args, script).write_stdin(items).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn start(args: &[&str], script: &str) -> assert_cmd::Command {
    throttle(&[args, &["--", "sh", "-c", script, "sh"]].concat())
}

/// When a command ran, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: u64,
    end: u64,
}

/// Makes commands print when they ran.
fn timed(script: &str) -> String {
    format!("start=$(date +%s%N); {script}; echo \"$start $(date +%s%N)\"")
}

/// The times that [`timed`] commands printed, in order of their starts.
fn stretches(printed: &str) -> Vec<Stretch> {
    let number = |field: &str| field.parse().expect("a number");
    let stretch = |line: &str| {
        let (start, end) = line.split_once(' ').expect("two fields");
        Stretch { start: number(start), end: number(end) }
    };
    let mut stretches: Vec<_> = printed.lines().map(stretch).collect();
    stretches.sort_unstable_by_key(|stretch| stretch.start);
    stretches
}

/// The most commands that ran at once.
fn most_at_once(stretches: &[Stretch]) -> usize {
    let running = |at: u64| stretches.iter().filter(|other| other.start <= at && at < other.end).count();
    stretches.iter().map(|stretch| running(stretch.start)).max().unwrap_or(0)
}

/// A script that waits until the first `count` items have started.
fn together(directory: &Directory, count: u32) -> String {
    let files: Vec<_> = (1..=count).map(|number| format!("-e {number}")).collect();
    let files = files.join(" -a ");
    format!("cd {}; : >$1; until [ {files} ]; do sleep 0.01; done", directory.path().display())
}

#[test]
fn as_many_run_at_once_as_may() {
    for (flag, most) in [("-j8", 8), ("-j3", 3), ("-P3", 3)] {
        let directory = Directory::new();
        let script = timed(&(together(&directory, most) + "; sleep 0.02"));
        let stretches = stretches(&run(&[UNLIMITED, flag], &script, &numbers(12)));
        assert_eq!((stretches.len(), most_at_once(&stretches)), (12, most as usize), "{stretches:?}");
    }
}

#[test]
fn pacing_is_from_start_to_start() {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let stretches = stretches(&run(&["-n2", "-p200ms", "-j9"], &timed("sleep 0.3"), &numbers(6)));
    assert!(u128::from(stretches[5].start) >= started + 400_000_000, "{stretches:?}");
}

#[test]
fn numbers_of_commands_make_sense() {
    throttle(&[UNLIMITED, "-j0", "echo"]).assert().code(2).stderr(contains("a large number such as 100"));
    fed(&[UNLIMITED, "-j1T", "echo"], "1\n").success().stdout("1\n");
}

#[test]
fn output_is_printed_in_order_if_asked_for_also_with_retries() {
    let script = "sleep 0.0$((9 - $1)); echo $1 $THROTTLE_ATTEMPT; test $1 != 2 -o $THROTTLE_ATTEMPT = 2";
    let printed = run(&[UNLIMITED, "-kj9", "--retries=1", "--backoff=0.1..0.2"], script, &numbers(4));
    assert_eq!(printed, "1 1\n2 2\n3 1\n4 1\n");
}

/// The batches first run separately; on a retry, their items could share a batch.
#[test]
fn batches_that_failed_stay_as_they_were() {
    let script = "echo $THROTTLE_ATTEMPT: $* >&2; test $THROTTLE_ATTEMPT = 2";
    let args = [UNLIMITED, "-B3", "-kj4", "--retries=1", "--backoff=0.5..0.6"];
    let mut running = Running::fed(&[&args[..], &["--", "sh", "-c", script, "sh"]].concat(), "1\n2\n");
    std::thread::sleep(Duration::from_millis(200));
    running.write("3\n4\n");
    // Printed at once, not at the end: no earlier output is pending.
    let mut printed: Vec<_> = (0..2).map(|_| running.error_line()).collect();
    printed.extend(text(&running.finish().stderr).lines().map(|line| format!("{line}\n")));
    let again = |line: &String| line.starts_with("2: ");
    let (second, first): (Vec<_>, Vec<_>) = printed.into_iter().partition(again);
    let items = |lines: &[String]| -> Vec<String> { lines.iter().map(|line| line[3..].into()).collect() };
    assert_eq!(items(&first), items(&second));
}

#[test]
fn output_that_waits_for_its_turn_is_not_lost_when_the_run_ends_early() {
    let directory = Directory::new();
    let script = format!("echo $1; : >{}/$1; test $1 != 1", directory.path().display());
    let args = [UNLIMITED, "-kj2", "--retries=1", "--backoff=1h..2h"];
    let running = Running::fed(&[&args[..], &["--", "sh", "-c", &script, "sh"]].concat(), "1\n2\n3\n");
    eventually("two have printed", || ["1", "2"].iter().all(|name| directory.path().join(name).exists()));
    running.signal(Signal::SIGTERM);
    assert!(text(&running.collect().stdout).starts_with("1\n2\n"));
}

/// Large enough to be interleaved if it were written as it comes.
#[test]
fn outputs_of_several_megabytes_are_whole() {
    let script = "yes $1 | head -c 2000000; yes $1 | head -c 200000 >&2";
    let output = start(&[UNLIMITED, "-j4"], script).write_stdin("a\nb\nc\nd\n").output().unwrap();
    for (printed, length) in [(output.stdout, 2_000_000), (output.stderr, 200_000)] {
        let changes = printed.chunks(2).collect::<Vec<_>>();
        let changes = changes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!((printed.len(), changes), (4 * length, 3));
    }
}

#[test]
fn outputs_may_mix() {
    let directory = Directory::new();
    let script = format!("echo a$1; {}; echo b$1", together(&directory, 2));
    let printed = run(&[UNLIMITED, "-uj2"], &script, "1\n2\n");
    assert!(printed.starts_with("a1\na2\n") || printed.starts_with("a2\na1\n"), "{printed}");
}

#[test]
fn a_finished_command_is_heard_of_though_no_further_item_comes() {
    for args in [&["-j2"][..], &["-kj2"], &["-j2", "--retries=1"], &["-uj2"]] {
        let mut running = Running::fed(&[&[UNLIMITED], args, &["echo"]].concat(), "1\n");
        assert_eq!(running.line(), "1\n", "{args:?}");
    }
}

#[test]
fn a_limit_can_count_from_the_end_of_commands() {
    let stretches = stretches(&run(&["-r2/200ms,from=exit", "-j9"], &timed("sleep 0.1"), &numbers(6)));
    assert!(stretches.len() == 6 && most_at_once(&stretches) <= 2, "{stretches:?}");
    let mut ends: Vec<_> = stretches.iter().map(|stretch| stretch.end).collect();
    ends.sort_unstable();
    for (end, next) in ends.iter().zip(&stretches[2..]) {
        assert!(next.start >= end + 200_000_000, "{stretches:?}");
    }
}

#[test]
fn with_keys_each_counts_from_the_ends_of_its_own() {
    let printed =
        run(&["-r1/50ms,key=col:1,from=exit", "-j9"], "echo $1; sleep 0.05", "a 1\na 2\nb 1\na 3\n");
    let of = |key| printed.lines().filter(|line| line.starts_with(key)).collect::<Vec<_>>();
    assert_eq!((of("a"), of("b")), (vec!["a 1", "a 2", "a 3"], vec!["b 1"]));
}

/// The item that is running would be an error under the new limits.
#[test]
fn limits_may_change_while_commands_run() {
    let directory = Directory::new();
    let limits = directory.file("limits", "9/s");
    let from = format!("-r@{}", limits.display());
    let mut running = Running::fed(&[&from, "-uj2", "--", "sh", "-c", "echo $1; sleep 0.5", "sh"], "1\n");
    running.line();
    fs::write(&limits, "9/s,key=col:1,cost=col:2").unwrap();
    assert!(running.finish().status.success());
}

#[test]
fn some_rules_cannot_count_from_the_end() {
    for algorithm in ["bucket", "fixed"] {
        let rate = format!("1/s,from=exit,algo={algorithm}");
        throttle(&["-r", &rate, "echo"]).assert().code(2).stderr(contains("frees its place before"));
    }
    throttle(&["-r1/s,from=exit"])
        .assert()
        .code(2)
        .stderr(contains("from=exit and N/running are for a command"));
}

#[test]
fn items_can_be_piped_into_commands() {
    let large = format!("{}\n", "x".repeat(1 << 20));
    let table: &[(&[&str], &str, &str, &str)] = &[
        (&[], "cat; echo .", "1\n2\n", "1\n.\n2\n.\n"),
        (&["-B2"], "cat; echo .", "1\n2\n3\n", "1\n2\n.\n3\n.\n"),
        (&["-B2", "-d,"], "cat; echo .", "1,2,3", "1,2,.\n3.\n"),
        (&["-kj2"], "wc -c", &large.repeat(2), "1048577\n1048577\n"),
        (&[], "echo unread", &large, "unread\n"),
    ];
    for (args, script, items, printed) in table {
        let args = [&[UNLIMITED, "--pipe"], *args].concat();
        assert_eq!(run(&args, script, items), *printed, "{args:?}");
    }
}

/// One command fails once the other runs. The other runs until the failure is known, or until it is ended.
#[test]
fn failures_end_the_run_if_asked_to() {
    let fail = "until [ -e runs ]; do sleep 0.01; done; echo $$ >failed; exit 3";
    let go_on =
        "echo $1; : >runs; until [ -s failed ] && ! kill -0 $(cat failed) 2>/dev/null; do sleep 0.01; done";
    let script = format!(
        "cd $0; case $1 in fail) {fail};; soon) {go_on};; *) echo $1; : >runs; exec sleep 1000;; esac"
    );
    for (halt, items, status, printed) in [
        ("soon,fail=1", "soon\nfail\nnever\n", 123, "soon\n"),
        ("now,fail=1", "now\nfail\nnever\n", 125, "now\n"),
    ] {
        let directory = Directory::new();
        let args = [UNLIMITED, "-j2", "--halt", halt, "--", "sh", "-c", &script];
        let mut run = throttle(&args);
        let assert = run.arg(directory.path()).write_stdin(items).assert().code(status).stdout(printed);
        // Its message follows that of the failed item.
        let told = text(&assert.get_output().stderr);
        let before = told.split_once("--halt ends the run").expect(&told).0;
        assert!(before.rsplit('\n').nth(1).is_some_and(|line| line.ends_with("exited with 3")), "{told}");
    }
}

#[test]
fn commands_know_their_number_attempt_and_slot() {
    let directory = Directory::new();
    let two = together(&directory, 2);
    let script =
        format!("echo $THROTTLE_SEQ $THROTTLE_ATTEMPT $THROTTLE_SLOT; {two}; test $THROTTLE_ATTEMPT = 2");
    let printed = run(&[UNLIMITED, "-uj2", "--retries=1"], &script, "1\n2\n3\n");
    let mut slots = HashMap::<_, usize>::new();
    for line in printed.lines() {
        let (item, slot) = line.rsplit_once(' ').unwrap();
        *slots.entry(slot.to_owned()).or_default() += 1;
        assert!(["1 1", "1 2", "2 1", "2 2", "3 1", "3 2"].contains(&item));
    }
    let mut slots: Vec<_> = slots.into_keys().collect();
    slots.sort();
    assert_eq!((printed.lines().count(), slots), (6, vec!["1".to_owned(), "2".to_owned()]));
}

#[test]
fn a_signal_reaches_all_commands_and_the_second_kills_them() {
    let gentle = "echo heard; exit 0";
    let table = [
        (gentle, false, Signal::SIGTERM),
        ("echo heard", true, Signal::SIGTERM),
        (gentle, false, Signal::SIGUSR2),
    ];
    for (trap, is_stubborn, signal) in table {
        let script = format!("trap '{trap}' TERM; echo $$; while :; do sleep 0.02; done");
        let mut running = Running::fed(&[UNLIMITED, "-uj3", "-d,", "--", "sh", "-c", &script], "1,2,3,4,5,");
        let pids: Vec<_> = (0..3).map(|_| Pid::from_raw(running.line().trim().parse().unwrap())).collect();
        running.signal(signal);
        assert_eq!([running.line(), running.line(), running.line()], ["heard\n"; 3]);
        if is_stubborn {
            assert!(pids.iter().all(|&pid| is_alive(pid)));
            running.signal(Signal::SIGTERM);
        }
        let output = running.collect();
        assert!(text(&output.stderr).ends_with(", 2 read and not released\n"));
        assert_eq!(text(&output.stdout), "");
        assert!(!pids.iter().any(|&pid| is_alive(pid)));
    }
}

/// Commands still print after the signal that is passed on to them. The output has nowhere to go, and they end.
#[test]
fn a_reader_that_is_stuck_does_not_hold_up_the_end() {
    let script = "trap 'sleep $1; yes | head -c 1000000; echo ended >>$0; exit 0' TERM
        echo up >>$0; while :; do sleep 0.02; done";
    let directory = Directory::new();
    let file = directory.path().join("told");
    let command = ["--", "sh", "-c", script, file.to_str().unwrap()];
    let modes = [&["-j2"][..], &["-j2", "-u", "--tag"]];
    let mut runs = modes.map(|mode| Running::throttle(&[&[UNLIMITED], mode, &command].concat()));
    runs.iter_mut().for_each(|running| running.write("0\n0.2\n"));
    let told = || fs::read_to_string(&file).unwrap_or_default();
    eventually("all listen", || told() == "up\n".repeat(4));
    runs.iter().for_each(|running| running.signal(Signal::SIGTERM));
    for running in &mut runs {
        running.wait();
    }
    assert_eq!(told(), "up\n".repeat(4) + &"ended\n".repeat(4));
}
