//! `--max-wait` and `--until`. See `property` for random cases.

use std::fs;

use assert_cmd::assert::OutputAssertExt;
use predicates::str::{contains, starts_with};
use throttle::exit::Exit;
use throttle::time::SECOND;

use crate::simulated::block;
use crate::simulated::commands::{Behaviour, Outcome, run};
use crate::strace::needs_strace;
use crate::support::{Directory, HANG, Running, THROTTLE, UNLIMITED, fed, text, throttle};

fn takes(seconds: u64) -> Behaviour {
    Behaviour { duration: seconds * SECOND, code: 0, http: None, retry_after: None }
}

fn starts(outcome: &Outcome) -> Vec<(&str, u64)> {
    outcome.runs.iter().map(|run| (run.line.as_str(), run.start / SECOND)).collect()
}

#[test]
fn a_run_ends_as_soon_as_the_next_release_is_further_away() {
    let lines = "1\n2\n3\n";
    let plan = |args: &[&str]| fed(&[&["--dry-run"], args].concat(), lines);
    let two = "0.000000000\t1\n10.000000000\t2\n";
    plan(&["-r1/10s", "--max-wait=10s"]).success();
    plan(&["-r1/10s", "-r2/h", "--max-wait=10s"]).code(75).stdout(two).stderr(
        "throttle: the next release is 59m50s away: longer than --max-wait\n\
         throttle: ended early: 1 item read and not released\n",
    );
    // The item that can go sooner goes first, even if it is read later.
    let keyed = ["--dry-run", "-r1/h,key=col:1", "--max-wait=1m", "--arrivals=col:2"];
    fed(&keyed, "a 0\na 0\nb 0\nc 1\n").code(75).stdout("0.000000000\ta 0\n0.000000000\tb 0\n");
}

#[test]
fn the_end_of_a_command_that_may_let_something_go_is_waited_for() {
    let lines = ["a", "b"];
    let args = ["-r1/5s,from=exit", "-j2", "--max-wait=5s"];
    let outcome = run(&args, vec![block(0, &lines)], |_, _| takes(60));
    assert_eq!((starts(&outcome), outcome.exit), (vec![("a", 0), ("b", 65)], Exit::Done));
    let late = ["-r1/5s,from=exit", "-j2", "--max-wait=4s"];
    let outcome = run(&late, vec![block(0, &lines)], |_, _| takes(60));
    assert_eq!((starts(&outcome), outcome.exit), (vec![("a", 0)], Exit::Refused));
}

#[test]
fn what_waits_for_commands_is_dropped_in_time_as_well() {
    let lines = ["a", "b", "c"];
    let args = ["-r1T/s", "--on-limit=drop", "--max-wait=5s"];
    let outcome = run(&args, vec![block(0, &lines)], |line, _| takes(if line == "a" { 5 } else { 6 }));
    assert_eq!(starts(&outcome), [("a", 0), ("b", 5)]);
    assert_eq!((outcome.stats.refused, outcome.exit), (1, Exit::Done));
    let args = ["-r1T/s", "--on-limit=fail", "--max-wait=4s"];
    let outcome = run(&args, vec![block(0, &lines)], |_, _| takes(5));
    assert_eq!((starts(&outcome), outcome.exit), (vec![("a", 0)], Exit::Refused));
}

#[test]
fn an_item_that_waits_in_vain_is_told_with_its_limit() {
    fed(&["--dry-run", "-r1/h", "--on-limit=fail", "--max-wait=1m"], "x\ny\n")
        .code(75)
        .stdout("0.000000000\tx\n")
        .stderr(starts_with(
            "throttle: item 2 'y': not released within --max-wait: it waits for the limit 1/1h,algo=sliding\n",
        ));
}

#[test]
fn nothing_starts_after_the_end_and_what_runs_ends() {
    let lines = ["a", "b", "c", "d"];
    let args = ["-r1/2s", "-j9", "--until=4s"];
    let outcome = run(&args, vec![block(0, &lines)], |_, _| takes(60));
    assert_eq!((starts(&outcome), outcome.exit), (vec![("a", 0), ("b", 2), ("c", 4)], Exit::Refused));
    assert_eq!((outcome.stats.left(), outcome.runs[2].end), (1, 64 * SECOND));
    // All items have been started.
    let outcome = run(&args, vec![block(0, &lines[..3])], |_, _| takes(60));
    assert_eq!(outcome.exit, Exit::Done);
    // An item that is to be retried is left.
    let fails = |_: &str, _| Behaviour { code: 1, ..takes(1) };
    let args = ["-r1T/s", "--retries=9", "--backoff=5s..5s", "--until=3s"];
    assert_eq!(run(&args, vec![block(0, &["a"])], fails).exit, Exit::Refused);
}

/// While it runs, a command keeps the input from being read.
#[test]
fn what_has_arrived_unread_by_the_end_is_left() {
    let blocks = |second| vec![block(0, &["a"]), block(second * SECOND, &["b"])];
    let args = ["-r1T/s", "--until=4s"];
    for (second, exit) in [(2, Exit::Refused), (5, Exit::Done)] {
        let outcome = run(&args, blocks(second), |_, _| takes(60));
        assert_eq!((starts(&outcome), outcome.exit), (vec![("a", 0)], exit), "{second}");
    }
}

#[test]
fn an_item_of_which_a_part_has_arrived_is_left() {
    for (arrived, status, told) in [
        ("a\npar", 75, "throttle: --until has passed\nthrottle: ended early: 1 item read and not released\n"),
        ("a\n", 0, ""),
    ] {
        let mut running = Running::throttle(&[UNLIMITED, "--until=2s"]);
        running.write(arrived);
        // The input does not end.
        running.wait();
        running.collect().assert().code(status).stdout("a\n").stderr(told);
    }
}

#[test]
fn an_end_by_the_clock() {
    let plan =
        |until: &str| fed(&["--dry-run", "-r1/h", "--at=2026-01-01T00:00Z", "--until", until], "1\n2\n3\n");
    plan("2026-01-01T01:59:59Z").code(75).stdout("0.000000000\t1\n3600.000000000\t2\n");
    plan("2026-01-01T02:00Z").success();
    plan("2025-01-01").code(75).stdout("");
    let undated = ["--dry-run", "--arrivals=col:1", "-r1/s", "--until=2026-01-01"];
    fed(&undated, "1\n").code(1).stderr(contains("add --at TIME"));
}

#[test]
fn a_run_that_was_ended_goes_on_with_its_log() {
    let directory = Directory::new();
    let items = "x\n".repeat(2000);
    directory.file("items", &items);
    let run = |more: &[&str]| {
        let mut command = std::process::Command::new(THROTTLE);
        command.args(["-a", "items", "--log=log"]).args(more).args(["--", "echo"]);
        command.current_dir(directory.path()).output().unwrap()
    };
    let first = run(&["-r2/h", "--max-wait=9m"]);
    assert_eq!((text(&first.stdout), first.status.code()), ("x\nx\n".to_owned(), Some(75)));
    assert!(text(&first.stderr).ends_with("throttle: to continue, run the same command with --resume\n"));
    let second = run(&["-r1/h", "--max-wait=9m", "--resume"]);
    assert_eq!((text(&second.stdout), second.status.code()), ("x\n".to_owned(), Some(75)));
    fs::remove_file(directory.path().join("log")).unwrap();
    let last = run(&["-r1/h", "--until=2025-01-01"]);
    assert_eq!((text(&last.stdout), last.status.code()), (String::new(), Some(75)));
    assert_eq!(
        text(&last.stderr),
        "throttle: --until has passed\nthrottle: ended early: 2000 items not released\n\
         throttle: to continue, run the same command with --resume\n"
    );
}

#[test]
fn the_items_of_a_file_are_counted_before_it_is_told_how_many_are_left() {
    let Some(strace) = needs_strace() else { return };
    let directory = Directory::new();
    directory.file("items", "x\n".repeat(2000));
    let mut command = assert_cmd::Command::new(strace);
    command.args(["-f", "-qq", "-o", "trace", "-e", "trace=pread64", "-P"]);
    command.arg(directory.path().join("items")).args(["-e", "inject=pread64:delay_enter=200000:when=1"]);
    command.args([THROTTLE, "-a", "items", "-r1/h", "--until=2025-01-01"]).current_dir(directory.path());
    command
        .timeout(HANG)
        .assert()
        .code(75)
        .stderr("throttle: --until has passed\nthrottle: ended early: 2000 items not released\n");
    assert!(fs::read_to_string(directory.path().join("trace")).unwrap().contains("(DELAYED)"));
}

#[test]
fn what_makes_no_sense_is_told() {
    let table: [(&[&str], &str); 4] = [
        (&["--audit", "--max-wait=1s"], "'--audit' cannot be used with '--max-wait <DUR>'"),
        (&["--audit", "--until=1s"], "'--audit' cannot be used with '--until <DUR|TIME>'"),
        (&["-B9,2s", "--on-limit=drop", "--max-wait=1s"], "--max-wait 1s is over before a batch is complete"),
        (&["--until=17:60"], "'17:60' is not a time from 1970 to 2554: write 09:00, 'Mon 09:00'"),
    ];
    for (args, why) in table {
        throttle(&[&["-r1/s"], args].concat()).assert().code(2).stderr(contains(why));
    }
}
