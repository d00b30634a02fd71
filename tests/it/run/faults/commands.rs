//! Commands that end in unusual ways, or leave unusual things behind.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use predicates::str::contains;

use crate::support::{Directory, Running, UNLIMITED, eventually, fed, is_alive, is_stopped, sh, text};

#[test]
fn a_command_may_be_killed_by_any_signal() {
    // The C library reserves 32 and 33.
    for (signal, name) in [("9", "SIGKILL"), ("34", "signal 34"), ("50", "signal 50"), ("64", "signal 64")] {
        let script = format!("kill -{signal} $$");
        fed(&[UNLIMITED, "--", "sh", "-c", &script], "x\n")
            .code(125)
            .stderr(format!("throttle: item 1 'x': was killed by {name}\n"));
    }
}

#[test]
fn a_real_time_signal_is_logged_by_its_number() {
    let script = "echo x | throttle -r1T/s --log log -- sh -c 'kill -34 $$'; tail -n1 log | cut -f6-";
    let directory = Directory::new();
    directory.sh(script).assert().stdout("162\t34\tx\n");
}

#[test]
fn advice_that_is_no_file_is_passed_over() {
    for replace in ["mkfifo \"$THROTTLE_RETRY_AFTER\"", "ln -s /dev/zero \"$THROTTLE_RETRY_AFTER\""] {
        let script = format!("echo $THROTTLE_ATTEMPT; {replace}; exit 1");
        fed(&[UNLIMITED, "--retries=1", "--", "sh", "-c", &script], "x\n").code(123).stdout("1\n2\n");
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn a_command_line_that_is_too_long_is_told_why() {
    let table = [
        (140_000, 0, "not run: it is too long for an argument (the kernel allows 128 KiB)"),
        (120_000, 22, "not run: it is too long together with the environment"),
    ];
    for (length, variables, why) in table {
        // Arguments and environment together may take a quarter of the stack limit.
        let mut command = sh("ulimit -s 8192; throttle -r1T/s -- true");
        for variable in 0..variables {
            command.env(format!("LARGE{variable}"), "x".repeat(90_000));
        }
        let assert = command.write_stdin(format!("{}\n", "x".repeat(length))).assert();
        assert.code(123).stderr(contains(why));
    }
}

#[test]
fn a_closed_stdout_is_an_error_for_commands_too() {
    let told =
        "throttle: cannot write to standard output: it is closed: redirect it to a file, or to /dev/null\n";
    for line in ["echo 1 | throttle -n9 -- echo >&-", "throttle -V >&-", "throttle -h >&-"] {
        sh(line).assert().code(1).stderr(told);
    }
}

#[test]
fn a_command_that_is_stopped_hears_a_signal() {
    for args in [&[UNLIMITED][..], &[UNLIMITED, "--timeout=1h"]] {
        let mut running = Running::throttle(&[args, &["--", "sh", "-c", "echo $$; kill -STOP $$"]].concat());
        running.write("1\n");
        let pid = Pid::from_raw(running.line().trim().parse().unwrap());
        eventually("it is stopped", || is_stopped(pid));
        running.signal(Signal::SIGTERM);
        let output = running.collect();
        assert_eq!(output.status.signal(), Some(Signal::SIGTERM as i32), "{args:?}");
        assert!(!is_alive(pid));
    }
}

#[test]
fn a_reader_of_errors_that_goes_away_ends_nothing() {
    let script =
        "seq 100 | { throttle -r1T/s -j2 -- sh -c 'echo $1; echo $1 >&2' sh; echo $? >&3; } 2>&1 >out | :";
    let directory = Directory::new();
    let output = directory.sh(&format!("{{ {script}; }} 3>&1")).output().unwrap();
    assert_eq!(text(&output.stdout), "0\n");
    assert_eq!(std::fs::read_to_string(directory.path().join("out")).unwrap().lines().count(), 100);
}

#[test]
fn what_a_command_left_behind_does_not_delay_the_next() {
    let script = "[ $THROTTLE_SEQ = 1 ] && { (sleep .2; echo 3600 >$THROTTLE_RETRY_AFTER) & exit 0; }
        [ $THROTTLE_ATTEMPT = 2 ] || { sleep .5; exit 1; }";
    fed(&[UNLIMITED, "--retries=1", "--", "sh", "-c", script], "1\n2\n").success();
}
