//! Workers: commands that stay, and answer each item with a line.

use std::collections::BTreeMap;
use std::fs;

use fastrand::Rng;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use predicates::str::contains;

use crate::support::{
    Directory, Running, UNLIMITED, eventually, fed, for_each_seed, is_alive, text, throttle,
};

/// Answers each item with the item in angle brackets.
const ECHO: &str = "while IFS= read -r x; do echo \"<$x>\"; done";

/// Does what each item says: its first word is what to do, the second an exit status or a number of milliseconds.
const OBEY: &str = r#"
while IFS= read -r line; do
    set -- $line
    case $1 in
    ok) printf '0\tdone %s\n' "$line" ;;
    fail) printf '%s\tfailed %s\n' "$2" "$line" ;;
    wait) printf '75\twait=0.05\tlater %s\n' "$line" ;;
    slow) sleep 0.0"$2"; printf '0\tdone %s\n' "$line" ;;
    end) exit "$2" ;;
    kill) kill -9 $$ ;;
    hang) exec sleep 60 ;;
    esac
done"#;

fn worker<'a>(args: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&[UNLIMITED], args, &["--", "sh", "-c", script]].concat()
}

#[test]
fn an_answer_is_the_output_of_its_item() {
    let table: &[(&[&str], &str, &str)] = &[
        (&["--worker"], "a\n\nb", "<a>\n<>\n<b>\n"),
        (&["--worker", "-k", "-j2", "--tag"], "a\nb\n", "a\t<a>\nb\t<b>\n"),
        (&["--worker", "--csv=noheader"], "\"a,b\",c\n", "<\"a,b\",c>\n"),
        (&["--worker=line"], "7\tx\n", "<7\tx>\n"),
    ];
    for (args, input, output) in table {
        fed(&worker(args, ECHO), *input).success().stdout(*output).stderr("");
    }
    // Items that end otherwise reach the worker as they are; a last one that does not end gets its end.
    fed(&worker(&["--worker", "-0"], "head -c4 | tr '\\n\\0' '+-'; echo"), "a\nb").success().stdout("a+b-\n");
}

#[test]
fn a_worker_is_started_once() {
    let script = "echo started >&2; while read -r x; do echo \"$x\"; done";
    fed(&worker(&["--worker"], script), "1\n2\n3\n").success().stdout("1\n2\n3\n").stderr("started\n");
    // No more of them than items, nor than -j.
    fed(&worker(&["--worker", "-j9"], script), "").success().stderr("");
}

#[test]
fn large_items_and_answers_pass_whole() {
    let item = "x".repeat(300_000);
    let output = fed(&worker(&["--worker"], ECHO), format!("{item}\n{item}"));
    output.success().stdout(format!("<{item}>\n<{item}>\n"));
    // It prints more than a pipe holds before it has read all.
    let script = "head -c 200000 /dev/zero | tr '\\0' y; read -r x; echo; cat >/dev/null";
    let output = fed(&worker(&["--worker"], script), format!("{item}\n")).success();
    assert_eq!(output.get_output().stdout.len(), 200_001);
}

#[test]
fn an_answer_that_comes_before_the_worker_has_read_all_is_noticed() {
    let worker = "head -c 1 >/dev/null; echo early; head -c 200000 >/dev/null; cat";
    let output =
        fed(&[UNLIMITED, "--worker", "--", "sh", "-c", worker], format!("{}\n", "x".repeat(200_000)));
    output.success().stdout("early\n");
}

/// The arguments, the script, the input, the exit status and what is told.
type Fault<'a> = (&'a [&'a str], &'a str, &'a str, i32, &'a str);

#[test]
fn workers_that_fail_are_named() {
    let table: &[Fault] = &[
        (
            &["--worker"],
            "read x; exit 3",
            "a\nb\nc\nd\n",
            3,
            "item 1 'a': exited with 3\nitem 2 'b': exited with 3\nitem 3 'c': exited with 3\n3 workers in a row \
             ended before their first answer; worker 1 exited with 3: try one alone: echo item | sh -c \
             'read x; exit 3'\nended early: 1 item read and not released\n",
        ),
        (
            &["--worker"],
            "read x; echo $x; read x; exit 0",
            "a\nb\n",
            123,
            "worker 1 exited with 0 without an answer to item 2\nitem 2 'b': exited with 1\n",
        ),
        (&["--worker"], "read x; echo $x; read x; exit 4", "a\n", 0, "worker 1 exited with 4\n"),
        (
            &["--worker"],
            "read x; echo $x; echo $x; cat",
            "a\n",
            1,
            "worker 1 printed 'a' without an item: it must print one line for each item, and nothing else, to its \
             standard output\n",
        ),
        (
            &["--worker=status"],
            "read x; echo ok; cat",
            "a\n",
            1,
            "worker 1 answered 'ok': with --worker=status, begin with an exit status and a tab\nitem 1 'a': \
             exited with 1\n",
        ),
        (
            &["--worker=status"],
            "while read x; do printf '75\\twait=soon\\t%s\\r\\n' $x; done",
            "a\nb\n",
            123,
            "worker 1 answered 'wait=soon': a wait is a duration, seconds or an HTTP date, so it sets no hold\n\
             item 1 'a': exited with 75\nitem 2 'b': exited with 75\n",
        ),
        (&["--worker=status"], "while read x; do printf '0\\r\\n'; done", "a\nb\n", 0, ""),
        (
            &["--worker", "--timeout=0.2"],
            "sleep 60",
            "a\n",
            125,
            "item 1 'a': ran longer than --timeout and was ended\n",
        ),
        (
            &["--worker=status"],
            OBEY,
            "ok 1\nkill\nok 2\nend 7\nfail 22\nok 3\n",
            125,
            "item 2 'kill': was killed by SIGKILL\nitem 4 'end 7': exited with 7\nitem 5 'fail 22': exited with 22\n",
        ),
        (&["--worker=status"], OBEY, "fail 255\nok 1\n", 124, ""),
        (&["--worker", "-j8"], "exit 255", "1\n2\n3\n4\n5\n6\n7\n8\n", 124, ""),
    ];
    for (args, script, input, status, told) in table {
        let output = fed(&worker(args, script), *input).code(*status);
        let stderr = text(&output.get_output().stderr);
        let lines: Vec<_> = stderr.lines().map(|line| line.trim_start_matches("throttle: ")).collect();
        assert!(lines == told.lines().collect::<Vec<_>>() || told.is_empty(), "{args:?} {script}: {stderr}");
    }
    // It may end before it can be given anything.
    let told = contains("worker 1 exited with 4: try one alone");
    fed(&worker(&["--worker"], "exit 4"), "a\nb\nc\nd\n").code(4).stderr(told);
    let told = contains("cannot run /no/such");
    fed(&[UNLIMITED, "--worker", "--", "/no/such"], "a\n").code(127).stderr(told);
}

#[test]
fn an_answer_that_never_ends_is_an_error() {
    let told = contains("worker 1 has printed more than 64 MiB without a newline");
    fed(&worker(&["--worker"], "read x; yes | tr -d '\\n'"), "a\n").code(1).stderr(told);
}

#[test]
fn what_makes_no_sense_with_workers_is_refused() {
    let table: &[(&[&str], &str)] = &[
        (&["--worker", "--", "echo", "{}"], "a worker gets its items on standard input: remove {}"),
        (&["--worker", "--", "echo", "{col:2}"], "a worker gets its items on standard input: remove {col:2}"),
        (&["--worker", "--", "curl", "-D{headers}"], "a worker has no file of headers: remove {headers}"),
        (&["--worker", "--pipe", "--", "cat"], "cannot be used with"),
        (&["--worker", "-B2", "--", "cat"], "cannot be used with"),
        (&["--worker", "-I@", "--", "cat"], "cannot be used with"),
        (&["--worker", "-u", "--", "cat"], "cannot be used with"),
        (&["--worker"], "--worker is for a command"),
        (&["--worker=json", "--", "cat"], "[possible values: line, status]"),
    ];
    for (args, why) in table {
        let output = throttle(&[&[UNLIMITED], *args].concat()).assert().code(2);
        let stderr = text(&output.get_output().stderr);
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
}

#[test]
fn a_worker_that_buffers_its_answers_is_noticed() {
    let output = fed(&worker(&["--worker"], "read x; sleep 5.5; echo $x"), "a\n").success().stdout("a\n");
    output.stderr(
        "throttle: no worker has answered yet: does it buffer its output? Use python3 -u, stdbuf -oL, or flush \
         after each line\n",
    );
}

#[test]
fn a_worker_that_reads_no_more_does_not_keep_the_run() {
    let closes = "read x; exec <&-; echo $x; exec sleep 60";
    let told = "throttle: worker 1 was killed by SIGTERM\n".repeat(2);
    fed(&worker(&["--worker", "--timeout", "2"], closes), "1\n2\n").success().stdout("1\n2\n").stderr(told);
    let mut running = Running::fed(&worker(&["--worker"], closes), "1\n2\n");
    assert_eq!(running.line(), "1\n");
    let told = "throttle: worker 1 has closed its standard input and has not ended: it gets no more items\n";
    assert_eq!(running.error_line(), told);
    running.signal(Signal::SIGTERM);
}

/// It ends if it waits for another item; otherwise, a message says why nothing more comes.
#[test]
fn a_worker_that_has_closed_its_output_gets_no_more_items() {
    let reads_on = "read x; exec >/dev/null; while read x; do :; done; exit 0";
    let told = "throttle: worker 1 exited with 0 without an answer to item 1\n\
                throttle: item 1 '1': exited with 1\n";
    fed(&worker(&["--worker"], reads_on), "1\n").code(123).stdout("").stderr(told);
    let stays = "read x; echo $x; exec >/dev/null; exec sleep 60";
    fed(&worker(&["--worker", "--timeout=1s", "-q"], stays), "1\n2\n").stdout(contains("1\n"));
    let mut running = Running::fed(&worker(&["--worker"], stays), "1\n2\n");
    let told = "throttle: worker 1 has closed its standard output and has not ended: it gets no more items\n";
    assert_eq!(running.error_line(), told);
    running.signal(Signal::SIGTERM);
}

#[test]
fn a_worker_that_closes_its_output_first_gets_all_of_its_item() {
    let directory = Directory::new();
    let path = directory.path().join("length");
    let args = ["-r1T/s", "--worker", "--", "sh", "-c", "exec >/dev/null; wc -c >$0", path.to_str().unwrap()];
    fed(&args, "x".repeat(1_000_000) + "\n").code(123).stdout("");
    assert_eq!(fs::read_to_string(path).unwrap().trim(), "1000001");
}

#[test]
fn a_worker_that_prints_all_the_time_is_told_of_once() {
    let output = fed(&worker(&["--worker"], "exec yes"), "1\n2\n").code(1);
    let stderr = text(&output.get_output().stderr);
    assert!(stderr.contains("printed 'y' without an item") && !stderr.contains("64 MiB"), "{stderr}");
}

/// The limit holds at the writes to workers; with `from=exit`, at their answers.
#[test]
fn limits_hold_for_the_items_of_workers() {
    let stamp = "while read -r x; do sleep 0.05; date +%s.%N; done";
    for (rate, gap) in [("1/100ms", 0.1), ("1/100ms,from=exit", 0.15)] {
        let args = ["-r", rate, "--margin=0", "--worker", "-j2", "--", "sh", "-c", stamp];
        let output = fed(&args, "1\n2\n3\n4\n").success();
        let stamps: Vec<f64> =
            text(&output.get_output().stdout).lines().map(|line| line.parse().unwrap()).collect();
        let whole = stamps[3] - stamps[0];
        // The first answer may come late, but no more than the item's own time.
        assert!(whole > 3.0 * gap - 0.1, "{rate}: {stamps:?}");
    }
}

#[test]
fn a_signal_ends_workers_and_a_second_one_kills_them() {
    let script = "trap '' TERM; echo $$ >&2; read x; sleep 60 & wait; sleep 60";
    let mut running = Running::fed(&worker(&["--worker"], script), "a\n");
    let pid = Pid::from_raw(running.error_line().trim().parse().unwrap());
    running.signal(Signal::SIGTERM);
    eventually("told", || running.has_told());
    running.signal(Signal::SIGTERM);
    running.wait();
    eventually("killed", || !is_alive(pid));
}

#[test]
fn idle_workers_end_with_the_run() {
    let script = "echo $$ >&2; while read -r x; do echo \"$x\"; done";
    let mut running = Running::fed(&worker(&["--worker"], script), "a\n");
    assert_eq!(running.line(), "a\n");
    let pid = Pid::from_raw(running.error_line().trim().parse().unwrap());
    running.signal(Signal::SIGINT);
    running.wait();
    assert!(!is_alive(pid));
}

/// An item and what becomes of it.
struct Item {
    line: String,
    /// Its exit status, or that of the worker that it ends.
    status: i32,
    answer: Option<String>,
}

fn item(number: usize, ends_left: &mut usize, rng: &mut Rng) -> Item {
    let done = |line: String| Item { status: 0, answer: Some(format!("done {line}")), line };
    let status = rng.i32(1..100);
    match rng.u8(0..12) {
        0 | 1 => {
            let line = format!("fail {status} {number}");
            Item { status, answer: Some(format!("failed {line}")), line }
        }
        2 if *ends_left > 0 => {
            *ends_left -= 1;
            let status = rng.i32(0..100);
            Item { line: format!("end {status} {number}"), status: status.max(1), answer: None }
        }
        3 if *ends_left > 0 => {
            *ends_left -= 1;
            Item { line: format!("kill 9 {number}"), status: 137, answer: None }
        }
        4 => done(format!("slow {} {number}", rng.u8(1..4))),
        _ => done(format!("ok {status} {number}")),
    }
}

/// Any mix of answers, failures and ends, in parallel: each item has its own answer and its own line in the log.
#[test]
fn each_item_ends_with_its_own_answer() {
    for_each_seed(if cfg!(debug_assertions) { 12 } else { 60 }, |rng| {
        // Three workers that end in a row would end the run.
        let mut ends_left = 2;
        let items: Vec<_> = (0..rng.usize(1..30)).map(|number| item(number, &mut ends_left, rng)).collect();
        let (jobs, keeps_order) = (format!("-j{}", rng.u8(1..5)), rng.bool());
        let directory = Directory::new();
        let log = directory.path().join("log");
        let mut args = vec!["--worker=status", &*jobs, "--log", log.to_str().unwrap()];
        args.extend(keeps_order.then_some("-k"));
        let input: String = items.iter().flat_map(|item| [&item.line, "\n"]).collect();
        let output = throttle(&worker(&args, OBEY)).write_stdin(input.clone()).output().unwrap();
        let stderr = text(&output.stderr);
        let case = format!("{args:?}\n{input}\n{stderr}");
        let mut answers: Vec<_> = items.iter().filter_map(|item| item.answer.clone()).collect();
        let mut printed: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        if !keeps_order {
            answers.sort();
            printed.sort();
        }
        assert_eq!(printed, answers, "{case}");
        let exit = match items.iter().map(|item| item.status).max() {
            _ if items.iter().any(|item| item.status == 137) => 125,
            Some(1..) => 123,
            _ => 0,
        };
        assert_eq!(output.status.code(), Some(exit), "{case}");
        let logged = fs::read_to_string(&log).unwrap();
        let logged: BTreeMap<_, _> = logged.lines().skip(1).map(logged_end).collect();
        let expected: BTreeMap<_, _> = items.iter().map(|item| (item.line.clone(), item.status)).collect();
        assert_eq!(logged, expected, "{case}");
    });
}

/// The item and the exit status in a line of the log.
fn logged_end(line: &str) -> (String, i32) {
    let columns: Vec<_> = line.split('\t').collect();
    let [.., exit, signal, item] = columns[..] else { panic!("{line}") };
    let (exit, signal): (i32, i32) = (exit.parse().unwrap(), signal.parse().unwrap());
    (item.to_owned(), if signal > 0 { 128 + signal } else { exit })
}
