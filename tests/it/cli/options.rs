//! The command line: messages about mistakes, and where options end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use predicates::prelude::*;
use predicates::str::{contains, ends_with, starts_with};

use crate::support::{
    Directory, Running, THROTTLE, UNLIMITED, drain, fed, narrow_pipe, set_nonblocking, sh, text, throttle,
};

/// Each mistake, and the part of the message that says how to fix it.
#[test]
fn a_usage_mistake_is_told_in_one_line_that_mends_it() {
    let table: &[(&[&str], &str)] = &[
        (&[], "-n 10 -p 1m"),
        (&["-r", "10"], "try 10/s"),
        (&["-r", "10/"], "try 10/s"),
        (&["-n", "0"], "the minimum is 1"),
        (&["-n", "1", "-p", "0"], "the minimum is 1ns"),
        (&["-r", "0/s"], "the minimum is 1"),
        (&["-r", "1/0s"], "the minimum is 1ns"),
        (&["-p", "1e400"], "500ms, 2s"),
        (&["-p", "600y"], "the maximum is 584 years"),
        (&["-p", "584y", "--margin", "584y"], "584 years"),
        (&["-p", "-5"], "500ms, 2s"),
        (&["-n", "18446744073709551616"], "the maximum is 2^64-1"),
        (&["-n", "99999999T"], "the maximum is 2^64-1"),
        (&["-n", "-5"], "such as 100, 1k"),
        (&["-n", "1.5"], "use -n 3 -p 2s or -r 1.5/s"),
        (&["-r", "10 req/s"], "try 10/s"),
        (&["-n", "5x"], "use k, M, G or T"),
        (&["-n"], "a value is required for '--count <N>'"),
        (&["-p"], "a value is required for '--period <DUR>'"),
        (&["-r"], "a value is required for '--rate <RATE>'"),
        (&["-n1", "-d"], "a value is required for '--delimiter <D>'"),
        (&["-n1", "--arrivals", "col:1"], "--dry-run"),
        (&["-n1", "--dry-run", "--arrivals", "first"], "such as col:1"),
        (&["-n1", "--dry-run", "--arrivals", "col:0"], "counted from 1"),
        (&["-n1", "--nonsense"], "try 'throttle --help'"),
        (&["-n1", "-y"], "try 'throttle --help'"),
        (&["-n1", "--cuont", "1"], "--count"),
        (&["-n1", "-A", "leaky"], "sliding, bucket, interval, fixed"),
        (&["-r", "1/s,algo=leaky"], "sliding, bucket, interval, fixed"),
        (&["-r", "1/s,start=half"], "full or empty"),
        (&["-r", "1/s,colour=red"], "algo=, burst=, margin=, start="),
        (&["-r", "1/s,burst=5"], "add algo=bucket"),
        (&["-r", "1/fortnight"], "'fortnight' is not a period such as s, 2m or 500ms"),
        (&["-n1", "-b", "5"], "add -A bucket"),
        (&["-r", "1/s,algo=sliding", "-A", "bucket", "-b", "5"], "give a limit algo=bucket"),
        (&["-n1", "-A", "bucket", "-b", "-1"], "such as 100, 1k"),
        (&["-n1", "-s", "unix:///socket?name="], "missing: add ?name=NAME"),
        (&["-n1", "-s", "rediss+sentinel://host/name"], "write rediss+sentinel://HOST/MASTER/NAME"),
        (&["-n1", "--audit", "--arrivals", "col:1,foo=3"], "'foo=3': there may be one selector, one tz="),
        (&["-n1", "--json"], "for a run, write --stats json"),
        (&["-n1", "-0", "-d", "x"], "'--delimiter <D>'"),
        (&["-n1", "-d", ""], "such as ','"),
        (&["-n1", "-d", "\\q"], "use \\n \\t"),
        (&["-n1", "-v", "-q"], "'--quiet'"),
        (&["-n1", "-B", "0"], "at least 1"),
        (&["-n1", "-I", "@"], "add one, such as -- echo"),
        (&["-n1", "-I", "", "echo"], "such as {}"),
        (&["-n1", "--max-record", "big"], "such as 100, 1k"),
        (&["-n1", "-F", ""], "'\\0' is NUL"),
        (&["-n1", "-s", "@"], "a file name is needed"),
        (&["-p", "1.3333333333333333333333333333333333333333s"], "too many digits"),
        (&["-n1", "--halt", "soon,fail=101%", "true"], "the maximum is 100%"),
        (&["--once", "--hold", "1s"], "'--hold <DUR>'"),
        (&["--status", "--audit"], "'--audit'"),
        (&["-n1", "--audit", "--on-bad", "skip"], "'--on-bad <WHAT>'"),
    ];
    for (args, mend) in table {
        fed(args, "1\n2\n").code(2).stdout("").stderr(one_line(mend));
    }
}

#[test]
fn an_argument_that_is_not_utf8_is_named() {
    let mut run = throttle(&["-n1", "-d"]);
    run.arg(OsStr::from_bytes(b"\xff")).assert().code(2).stderr(one_line(r"$'\xff' is not UTF-8"));
}

#[test]
fn a_mistake_in_the_input_is_an_error_of_its_own() {
    let table: &[(&[&str], &str, &str)] = &[
        (&["--dry-run", "--arrivals", "col:1"], "2 a\n1 b\n", "sort the input by col:1"),
        (&["--dry-run", "--arrivals", "col:1"], "2 a\nx\n", "item 2: col:1 is 'x'"),
        (&["--dry-run", "--arrivals", "col:2"], "a 2\n1\n", "item 2: has no col:2"),
        (&["--dry-run", "--arrivals", "col:1"], "2 a\n\u{1b}[31m\n", "\\x1b[31m"),
        (&["-a", "/nonexistent/items"], "", "/nonexistent/items"),
        (&["-a", "/tmp"], "", "cannot read /tmp: is a directory"),
    ];
    for (args, input, mend) in table {
        fed(&[&["-n1"], *args].concat(), *input).code(1).stderr(one_line(mend));
    }
}

fn one_line(mend: &str) -> impl Predicate<str> + use<> {
    starts_with("throttle: ").and(contains(mend)).and(ends_with("\n")).and(contains("\n").count(1))
}

#[test]
fn what_was_read_before_a_mistake_is_released() {
    let output =
        throttle(&["-n1", "--dry-run", "--arrivals", "col:1"]).write_stdin("2\n1\n").output().unwrap();
    assert_eq!(text(&output.stdout), "2.000000000\t2\n");
}

#[test]
fn short_help_is_short() {
    let output = throttle(&["-h"]).output().unwrap();
    let help = text(&output.stdout);
    assert!(output.status.success());
    assert!(help.lines().count() <= 60, "{} lines", help.lines().count());
    assert!(help.lines().all(|line| line.chars().count() <= 100));
    assert!(help.contains("Usage: throttle [OPTIONS] [--] [COMMAND [ARG]...]"));
}

#[test]
fn long_help_explains_every_flag() {
    let output = throttle(&["--help"]).output().unwrap();
    let help = text(&output.stdout);
    let flags =
        ["--count", "--period", "--rate", "--algorithm", "--burst", "--margin", "--arg-file", "--null"]
            .into_iter()
            .chain([
                "--delimiter",
                "--max-record",
                "-I",
                "--batch",
                "--dry-run",
                "--arrivals",
                "--verbose",
                "--quiet",
            ]);
    for flag in flags {
        assert!(help.contains(flag), "{flag}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100));
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn help_that_cannot_be_printed_is_an_error() {
    sh("throttle --help > /dev/full").assert().code(1).stderr(one_line("cannot write"));
}

#[test]
fn options_end_at_the_first_operand() {
    let table: &[(&str, &str)] = &[
        ("throttle -n9 echo -n -- x", "-- x i"),
        ("throttle -n9 -- echo -p x", "-p x i\n"),
        ("throttle -n9 echo --dry-run", "--dry-run i\n"),
        ("throttle -n9 -I % -- echo --I={} %", "--I={} i\n"),
    ];
    for (script, printed) in table {
        sh(script).write_stdin("i\n").assert().success().stdout(*printed).stderr("");
    }
}

#[test]
fn a_limit_may_be_said_in_several_ways() {
    let table: &[&[&str]] = &[
        &["-n2", "-p1m"],
        &["--count=2", "--period=60"],
        &["-r", "2/m"],
        &["-r2/60s"],
        &["-r", "9/s", "-r", "2/1m"],
        &["-n2", "-p1m", "-r9/s"],
        &["-n2", "-p59s", "--margin", "1s"],
        &["-r2/59s,margin=1s"],
    ];
    for limit in table {
        fed(&[*limit, &["--dry-run"]].concat(), "a\nb\nc\n")
            .success()
            .stdout("0.000000000\ta\n0.000000000\tb\n60.000000000\tc\n");
    }
}

#[test]
fn a_dry_run_says_what_the_algorithms_do() {
    // The release instants, in tenths of a second, of five items that arrive together, at 2 per second.
    let table: &[(&[&str], [u32; 5])] = &[
        (&["-n2"], [0, 0, 10, 10, 20]),
        (&["-n2", "-A", "bucket"], [0, 0, 5, 10, 15]),
        (&["-n2", "-A", "bucket", "-b", "1"], [0, 5, 10, 15, 20]),
        (&["-n2", "-A", "interval"], [0, 5, 10, 15, 20]),
        (&["-n2", "-A", "fixed"], [0, 0, 10, 10, 20]),
        (&["-r2/s,start=empty"], [10, 10, 20, 20, 30]),
        (&["-n2", "-B2"], [0, 0, 0, 0, 10]),
    ];
    for (args, tenths) in table {
        let printed = tenths.map(|tenth| format!("{}.{}00000000\tx\n", tenth / 10, tenth % 10)).concat();
        fed(&[*args, &["--dry-run"]].concat(), "x\n".repeat(5)).stdout(printed);
    }
}

/// Both on the command line and in a file.
#[test]
fn a_rate_with_many_decimals_is_rounded_down_and_verbose_says_so() {
    let directory = Directory::new();
    let file = format!("@{}", directory.file("limits", "0.7692307692307693/s").display());
    for rate in ["0.7692307692307693/s", &file] {
        let run = |more: &[&str]| {
            throttle(&[&["-r", rate, "--dry-run"], more].concat()).write_stdin("a\nb\n").output().unwrap()
        };
        let output = run(&["-v"]);
        assert_eq!(text(&output.stdout), "0.000000000\ta\n1.300000000\tb\n");
        let told = "throttle: 0.7692307692307693/s is rounded down to 1/1s300ms\n\
                    throttle: limit 1/1s300ms,algo=sliding\n";
        assert!(text(&output.stderr).starts_with(told), "{}", text(&output.stderr));
        assert_eq!(text(&run(&[]).stderr), "");
    }
}

#[test]
fn verbose_tells_the_limits_and_a_summary() {
    fed(&[UNLIMITED, "-r", "100/2m,algo=interval", "-v"], "a\n").success().stdout("a\n").stderr(
        contains("throttle: limit 100/2m,algo=interval\n")
            .and(contains("throttle: 1 of 1 item released (2 bytes) in ")),
    );
}

#[test]
fn a_dry_run_tells_by_the_wall_when_it_ends() {
    let items = "1\n2\n3\n";
    let dated = "1700000000\n1700000000\n1700000000\n";
    let ends = |args: &[&str], items: &str| {
        let args = [&["-r1/h", "--dry-run", "-v"], args].concat();
        let output = throttle(&args).env("TZ", "UTC").write_stdin(items).output().unwrap();
        assert!(output.status.success());
        assert!(text(&output.stderr).contains("throttle: 3 of 3 items would be released ("));
        let plan = text(&output.stderr).lines().find(|line| line.contains(" items, ")).unwrap().to_owned();
        plan.split_once(", ends ").map(|(_, at)| at.to_owned())
    };
    let table: [(&[&str], &str, Option<&str>); 7] = [
        (&["--at", "2026-11-21T09:10Z"], items, Some("11:10 UTC")),
        (&["--at", "2026-11-21T23:10+01:00"], items, Some("Sun 00:10 UTC")),
        (&["--at=2026-11-21 09:10"], items, Some("11:10 UTC")),
        (&["--at=2026-11-21T09:10[America/New_York]"], items, Some("16:10 UTC")),
        (&["--at", "2026-11-21T09:10Z", "--arrivals", "col:1"], items, Some("11:10 UTC")),
        (&["--arrivals", "col:1"], items, None),
        (&["--arrivals", "col:1"], dated, Some("Wed 00:13 UTC")),
    ];
    for (args, items, expected) in table {
        assert_eq!(ends(args, items).as_deref(), expected, "{args:?}");
    }
}

#[test]
fn a_dry_run_ends_at_a_time_of_day_of_its_own_clock() {
    let table: [(&[&str], &str, usize); 4] = [
        (&["--at=2027-01-01T00:00Z", "--until=06:00,tz=UTC"], "", 7),
        (&["--at=2026-03-01T00:30Z", "--until=06:00,tz=UTC"], "", 6),
        (&["--at=2026-03-28T22:00Z", "--until=Sun 06:00,tz=Europe/Berlin"], "", 7),
        (&["--arrivals=col:1", "--until=06:00,tz=UTC"], "2026-03-01T01:00:00Z\n", 6),
    ];
    for (args, item, count) in table {
        let items = if item.is_empty() { "x\n" } else { item }.repeat(30);
        let mut run = throttle(&["-r1/h,margin=0", "--dry-run"]);
        let run = run.args(args).write_stdin(items).assert().code(75);
        assert_eq!(text(&run.get_output().stdout).lines().count(), count, "{args:?}");
    }
}

#[test]
fn a_time_for_the_wall_is_refused_where_it_cannot_be() {
    let at = "--at=2026-11-21";
    let table: [(&[&str], i32, &str); 5] = [
        (&["--audit", "--arrivals=now", at], 2, "--arrivals now is the present time: leave out --at"),
        (&["--audit", at], 1, "the time stamps give the date and the time: leave out --at"),
        (&["--dry-run", "--at=noon"], 2, "write 09:00, 'Mon 09:00', 2026-11-21,"),
        (&[at], 2, "--dry-run"),
        (&["--dry-run", "--arrivals=col:1", at], 1, "--arrivals give the date and the time: leave out --at"),
    ];
    for (args, code, told) in table {
        fed(&[&["-r1/s"], args].concat(), "1700000000\n").code(code).stderr(contains(told));
    }
}

#[test]
fn a_page_is_written_whole_to_a_pipe_that_would_block() {
    let (reader, writer) = narrow_pipe(4096);
    set_nonblocking(&writer);
    let mut command = Command::new(THROTTLE);
    let mut running = Running::spawn(command.args(["--generate", "man"]).stdout(writer));
    // It holds the writing end.
    drop(command);
    thread::sleep(Duration::from_millis(50));
    let page = drain(reader).join().unwrap();
    assert!(running.wait().success());
    assert!(page.len() > 4096 && page.ends_with(b"\n"), "{} bytes", page.len());
}
