//! Batches that are sized to fit what takes them.

use std::time::Duration;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::support::{
    Directory, UNLIMITED, cpu_time, fed, needs_program, numbers, seeds, sh, text, throttle,
};

/// 90 items of 4000 bytes: a command line holds 32 of them.
fn long_items() -> String {
    format!("{}\n", "x".repeat(3999)).repeat(90)
}

#[test]
fn a_batch_is_charged_for_what_left_in_it() {
    // Everything is within the limit; otherwise it would take an hour.
    let args = ["-B100", "-r400k/1h,cost=bytes", "--", "sh", "-c", "echo $#", "sh"];
    let output = throttle(&args).write_stdin(long_items()).output().unwrap();
    // A batch takes what has arrived, up to the length of a command line.
    let sizes: Vec<u64> = text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(sizes.iter().sum::<u64>(), 90);
    assert!(sizes.iter().all(|&size| size <= 32), "{sizes:?}");
}

#[test]
fn a_batch_that_failed_is_named_by_its_first_item() {
    // One batch is items 1, 3 and 4, the other item 2.
    let told = "throttle: item 1 'a 1' and 2 more: exited with 1\nthrottle: item 2 'b': exited with 1\n";
    fed(&["-r1T/s,key=col:1", "-B9,1h", "false"], "a 1\nb\na 2\na 3\n").code(123).stderr(told);
}

#[test]
fn property_a_command_gets_as_many_arguments_as_from_xargs() {
    if needs_program("xargs").is_none() {
        return;
    }
    let directory = Directory::new();
    for seed in seeds(3) {
        let mut random = fastrand::Rng::with_seed(seed);
        let longest = [3, 30, 3000][random.usize(..3)];
        let mut input = String::new();
        while input.len() < 200_000 {
            input.push_str(&"x".repeat(random.usize(1..=longest)));
            input.push('\n');
        }
        directory.file("items", &input);
        let more = "y".repeat(random.usize(..1000));
        let script = format!(
            "throttle {UNLIMITED} -B1M sh -c 'echo $#' sh {more} <items >ours
            xargs -d '\\n' sh -c 'echo $#' sh {more} <items | diff ours - && wc -l <ours"
        );
        let output = directory.sh(&script).output().unwrap();
        assert!(output.status.success(), "seed {seed}: {}", text(&output.stdout));
        assert!(text(&output.stdout).trim().parse::<u64>().unwrap() >= 2, "seed {seed}");
    }
}

#[test]
fn a_dry_run_of_a_command_has_the_capacity_of_the_command() {
    let dry_run = |limit: &str| {
        let args = ["--dry-run", "-B100", "-r", limit, "--", "true"];
        let output = throttle(&args).write_stdin(long_items()).output().unwrap();
        let printed = text(&output.stdout);
        let release = |line: &str| {
            let (instant, command) = line.split_once('\t').unwrap();
            (instant.to_owned(), command.split(' ').count() - 1)
        };
        printed.lines().map(release).collect::<Vec<_>>()
    };
    let at = |instant: &str, items| (instant.to_owned(), items);
    let (zero, one, two) = ("0.000000000", "1.020000000", "2.040000000");
    assert_eq!(dry_run("400k/3s,cost=bytes"), [at(zero, 32), at(zero, 32), at(zero, 26)]);
    assert_eq!(dry_run("1/s"), [at(zero, 32), at(one, 32), at(two, 26)]);
}

#[test]
fn a_dry_run_whose_reader_goes_away_counts_the_items_it_printed() {
    let script = "seq 1000000 | { throttle --dry-run -n 1M -v; echo $? >status; } 2>told |
        (sleep .3; head -c 300000 >/dev/null)
        cat status; tail -1 told";
    let directory = crate::support::Directory::new();
    let output = directory.sh(script).output().unwrap();
    let told = text(&output.stdout);
    assert!(told.starts_with("141\n"), "{told}");
    let released: u64 = told.lines().nth(1).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    // Each line has 12 characters for the instant: 16 to 20 bytes. The pipe holds no more than 1 MiB.
    assert!((300_000 / 20..(300_000 + (1 << 21)) / 14).contains(&released), "{told}");
}

#[test]
fn only_the_item_that_no_argument_can_hold_fails() {
    let long = "x".repeat(200_000);
    let told = contains("item 3 $'b\\x00b': not run: it contains a NUL byte").and(contains("item 1 'xxx"));
    let run = fed(&[UNLIMITED, "-B9", "--", "echo"], format!("{long}\na\nb\0b\nc\nd\n"));
    run.code(123).stdout("a c d\n").stderr(told);
}

#[test]
fn a_batch_that_is_too_long_beside_the_environment_is_made_smaller() {
    // The stack limit bounds arguments and environment together: here to 256 KiB, half of which is taken.
    let script = "ulimit -s 1024 && export BIG=$(head -c 120000 /dev/zero | tr '\\0' x) &&
        BIG2=$BIG && export BIG2 && seq 100000 200000 | throttle -r1T/s -B100000 -- sh -c 'echo $#' sh";
    let output = sh(script).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let printed = text(&output.stdout);
    let counts: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 100_001);
    assert!(counts.iter().all(|&count| count > 0));
}

/// The processor time per item does not grow with the batch: four times as many take about four times as long, where a
/// quadratic algorithm takes sixteen times as long.
#[test]
fn batches_are_formed_in_linear_time() {
    let retried = "[ $THROTTLE_ATTEMPT = 2 ]";
    let sum = "-r1T/s,cost=col:1,key=col:2";
    let ways: [&[&str]; 6] = [
        &["-B1M,1h", "--dry-run", sum],
        &["-B1M", UNLIMITED, "--pipe", "--", "true"],
        &["-B1M", sum, "--pipe", "--", "true"],
        &["-B1M", UNLIMITED, "--", "true"],
        &["-B1M", UNLIMITED, "--retries=1", "--pipe", "--", "sh", "-c", retried],
        &["-B1M,1h", UNLIMITED, "--retries=1", "--in-order", "--pipe", "--", "sh", "-c", retried],
    ];
    for way in ways {
        let timed = |items: u32| cpu_time(way, &numbers(items).replace('\n', " k\n"));
        let (few, many) = (timed(8000), timed(32_000));
        assert!(many < few * 8 + Duration::from_millis(200), "{way:?}: {few:?} and {many:?}");
    }
}

#[test]
fn shared_batches_are_composed_in_linear_time() {
    let directory = Directory::new();
    let state = directory.path().join("state");
    // The margin keeps a slot good for long enough, even on a slow machine.
    let args =
        ["-s", state.to_str().unwrap(), "-B1M", "-r1T/s,cost=bytes,margin=20s", "--pipe", "--", "true"];
    let timed = |items| cpu_time(&args, &numbers(items));
    let is_linear = || timed(32_000) < timed(8000) * 8 + Duration::from_millis(200);
    // If a batch's slot has passed by the time it is formed, the batch is formed again.
    assert!((0..3).any(|_| is_linear()));
}

#[test]
fn an_output_that_may_still_be_written_to_is_not_used_for_another_command() {
    let script = "seq 3 | throttle -n1 -p200ms -j2 -k -- sh -c '
        if [ $1 = 1 ]; then (sleep .3; echo LATE1) & fi; sleep .0$1; echo out $1' sh";
    let output = sh(script).output().unwrap();
    let printed = text(&output.stdout);
    // If the late line is in time, it is printed with the output of the first command.
    assert_eq!(printed.replace("LATE1\n", ""), "out 1\nout 2\nout 3\n");
    let late = printed.find("LATE1");
    assert!(late.is_none_or(|late| late < printed.find("out 2").expect("printed")), "{printed}");
}

#[test]
fn items_whose_failure_is_not_named_are_counted_not_their_batches() {
    let output = throttle(&["-r1T/s", "-B5", "--", "false"]).write_stdin(numbers(109)).output().unwrap();
    let told = text(&output.stderr);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(123), 21), "{told}");
    assert_eq!(lines[19], "throttle: item 96 '96' and 4 more: exited with 1");
    assert_eq!(lines[20], "throttle: 9 more failed: --failed FILE lists them");
}
