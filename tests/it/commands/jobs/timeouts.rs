//! Commands that run too long.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal::SIGUSR1;
use nix::unistd::Pid;

use super::start;
use crate::strace::needs_strace;
use crate::support::{Directory, Running, THROTTLE, UNLIMITED, eventually, is_alive, sh, text};

#[test]
fn a_command_that_runs_too_long_is_ended_with_what_it_started() {
    // Nobody ignores TERM, the command does, its child does, or it exits on it; the seconds of grace, and the end.
    let table = [
        ("echo $$; exec sleep 1000", 0, "143\t15"),
        ("trap '' TERM; echo $$; exec sleep 1000", 2, "137\t9"),
        ("(trap '' TERM; exec sleep 1000) & echo $!; wait", 0, "143\t15"),
        ("trap 'exit 0' TERM; echo $$; sleep 1000 & wait", 0, "143\t15"),
    ];
    for (script, grace, end) in table {
        let directory = Directory::new();
        let log = directory.path().join("log");
        let options = [UNLIMITED, "--timeout=300ms", "--log", log.to_str().unwrap()];
        let started = Instant::now();
        let output = start(&options, script).write_stdin("1\n").output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{script}");
        assert!(text(&output.stderr).contains("item 1 '1': ran longer than --timeout"));
        // On a busy machine it may have been ended before it started.
        if let Ok(pid) = text(&output.stdout).trim().parse() {
            assert!(started.elapsed() >= Duration::from_millis(300) + Duration::from_secs(grace));
            eventually("it is gone", || !is_alive(Pid::from_raw(pid)));
            let log = fs::read_to_string(log).unwrap();
            assert!(log.ends_with(&format!("\t1\t{end}\t1\n")), "{script}: {log}");
        }
    }
}

#[test]
fn neither_output_nor_input_without_pause_keeps_a_command_from_being_ended() {
    let table = [
        "echo 1 | timeout -k0 60 throttle -r1T/s --tag --timeout=300ms -- yes >/dev/null",
        "yes 1000 | timeout -k0 60 throttle -r1/h --on-limit=drop --halt=now,fail=1 --timeout=300ms sleep",
    ];
    for script in table {
        let output = sh(script).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{script}");
        assert!(text(&output.stderr).contains("item 1 '1"), "{script}");
    }
}

/// One command prints more than is read; the other ends while that output is being written.
#[test]
fn a_command_that_has_ended_in_time_did_not_run_too_long_though_nobody_noticed() {
    loop {
        let directory = Directory::new();
        let script = "cd $0; if [ $1 = 1 ]; then head -c 200000 /dev/zero; else sleep 0.1; : >ended; fi";
        let path = directory.path().to_str().unwrap();
        let args = [UNLIMITED, "-j2", "--timeout=500ms", "--", "sh", "-c", script, path];
        let mut running = Running::throttle(&args);
        let started = Instant::now();
        running.write("1\n2\n");
        running.close_stdin();
        eventually("it has ended", || directory.path().join("ended").exists());
        if started.elapsed() > Duration::from_millis(300) {
            // The machine is too busy to tell.
            continue;
        }
        thread::sleep(Duration::from_millis(600).saturating_sub(started.elapsed()));
        let output = running.collect();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(output.stdout.len(), 200_000);
        return;
    }
}

/// One command, or worker, prints more than is read; another runs too long while that is being written, and prints a
/// part of its answer.
#[test]
fn a_stalled_reader_keeps_no_command_from_being_ended_or_a_report_from_being_made() {
    let command = "cd $0; if [ $1 = 1 ]; then head -c 200000 /dev/zero; exit; fi";
    let worker = "cd $0; read item; if [ $item = 1 ]; then head -c 200000 /dev/zero; echo; cat; exit; fi";
    for (option, script, length) in [("-k", command, 200_007), ("--worker", worker, 200_001)] {
        let child = "(trap '' TERM; exec sleep 100) & echo $! >child";
        let script =
            format!("{script}; trap 'printf \"ed \"; : >ended' TERM; printf part; {child}; wait; wait");
        let directory = Directory::new();
        let path = directory.path().to_str().unwrap();
        let args = [UNLIMITED, "-j2", option, "--timeout=2s", "--", "sh", "-c", &script, path];
        let mut running = Running::throttle(&args);
        running.write("1\n2\n");
        eventually("it was ended", || directory.path().join("ended").exists());
        let child = fs::read_to_string(directory.path().join("child")).unwrap().trim().parse().unwrap();
        eventually("it was killed", || !is_alive(Pid::from_raw(child)));
        running.signal(SIGUSR1);
        // On a slow machine, the other was ended before the first was printed.
        assert!((0..3).any(|_| running.error_line().contains("2 items released")), "{option}");
        running.close_stdin();
        let output = running.collect();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), length), "{option}");
    }
}

/// Creating each of the two files for its output takes long, as if the process were stopped meanwhile.
#[test]
fn the_time_of_a_command_begins_once_it_has_started() {
    let Some(strace) = needs_strace() else { return };
    let directory = Directory::new();
    let mut command = Command::new(strace);
    command.args(["-f", "-o", "/dev/null", "-e", "inject=openat:delay_enter=800ms", "-P"]);
    command.arg(directory.path()).env("TMPDIR", directory.path());
    command.args([THROTTLE, UNLIMITED, "-j2", "--timeout=1500ms", "--", "true"]);
    let started = Instant::now();
    let mut running = Running::start(&mut command);
    running.write("1\n");
    running.ends().success();
    assert!(started.elapsed() >= Duration::from_millis(1600), "it was delayed");
}
