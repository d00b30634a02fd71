//! Signals, and readers that go away: also in an hour's wait, and in a write that never returns.

mod receivers;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1};
use nix::unistd::Pid;

use crate::support::{
    Directory, Running, THROTTLE, UNLIMITED, eventually, is_alive, is_ignored, keeps_its_pace_after_a_stop,
    needs_program, numbers, sh, sh_command, text, throttle,
};

/// One item per hour: the first has left, and the others wait.
fn in_an_hours_wait(args: &[&str]) -> Running {
    let mut running = Running::fed(&[&["-n1", "-p1h"], args].concat(), "1\n2\n3\n");
    assert_eq!(running.line(), "1\n");
    running
}

/// The end of a run after `signal`, which must not have taken an hour.
fn end_by(running: Running, signal: Signal) -> Output {
    running.signal(signal);
    running.collect()
}

fn assert_killed_by(signal: Signal, output: &Output) {
    assert_eq!(output.status.signal(), Some(signal as i32), "{output:?}");
}

#[test]
fn a_signal_ends_an_hours_wait_and_the_shell_sees_it() {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, Signal::SIGUSR2, Signal::SIGALRM] {
        if is_ignored(signal) {
            eprintln!("skipped: {signal} is ignored by whoever started this test");
            continue;
        }
        let output = end_by(in_an_hours_wait(&[]), signal);
        assert_killed_by(signal, &output);
        let message = format!("throttle: ended by {signal}: 1 item released, 2 read and not released\n");
        assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), message));
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn an_hours_wait_wakes_up_seldom() {
    let directory = Directory::new();
    let limits = format!("-r@{}", directory.file("limits", "9/s\n").display());
    // Side by side, as most of the time is spent waiting.
    thread::scope(|scope| {
        // A file of limits is checked five times a second.
        let table = [(vec![], 3), (vec![limits.as_str()], 7), (vec!["--", "cat"], 3), (vec!["-B2,1h"], 3)];
        for (args, most) in table {
            scope.spawn(move || {
                let running = Running::fed(&[&["-n1", "-p1h"], args.as_slice()].concat(), "1\n2\n3\n");
                // There are more while it starts and releases the first item.
                eventually(&format!("at most {most} wake-ups in a second {args:?}"), || {
                    let before = wake_ups(running.pid());
                    thread::sleep(Duration::from_secs(1));
                    wake_ups(running.pid()) - before <= most
                });
            });
        }
    });
}

/// The number of times that the threads of a process have gone to sleep.
fn wake_ups(pid: Pid) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it is running");
    let statuses = threads.map(|thread| fs::read_to_string(thread.expect("a thread").path().join("status")));
    let counts = statuses.map(|status| {
        let status = status.expect("a status");
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    });
    counts.sum()
}

/// Not INT: a shell makes background processes ignore it.
#[test]
fn a_shell_sees_128_and_the_number() {
    let script =
        "yes | throttle -n1 -p1h > out & while ! test -s out; do sleep 0.01; done; kill -TERM $!; wait $!";
    Directory::new().sh(script).assert().code(143);
}

/// The first command fails by itself, the second is ended.
#[test]
fn commands_that_a_signal_ends_are_not_among_the_failed() {
    let mut running = Running::throttle(&[UNLIMITED, "--", "sh", "-c", "eval \"$1\"", "sh"]);
    running.write("exit 1\necho; exec sleep 60\nx\n");
    assert_eq!(running.line(), "\n");
    let output = end_by(running, SIGTERM);
    assert_killed_by(SIGTERM, &output);
    let told = "2 items released, 1 failed, 1 ended early, 1 read and not released\n";
    assert!(text(&output.stderr).ends_with(told), "{output:?}");
}

#[test]
fn a_signal_ends_a_run_that_waits_for_input() {
    let mut running = Running::fed(&[UNLIMITED], "1\n");
    assert_eq!(running.line(), "1\n");
    let output = end_by(running, SIGTERM);
    assert_killed_by(SIGTERM, &output);
    assert_eq!(
        text(&output.stderr),
        "throttle: ended by SIGTERM: 1 item released, 0 read and not released\n"
    );
}

/// What was read of it is lost, if it came from a pipe.
#[test]
fn an_item_of_which_a_part_was_read_is_told_of() {
    let mut running = Running::fed(&[UNLIMITED], "1\n2");
    assert_eq!(running.line(), "1\n");
    let told = "throttle: ended by SIGTERM: 1 item released, 1 read and not released\n";
    assert_eq!(text(&end_by(running, SIGTERM).stderr), told);
    for (args, items) in [(&["-d\\n"][..], "1\n2"), (&["-0"], "a\0b"), (&["--csv"], "n\n1\n\"2\n2")] {
        let args = [&[UNLIMITED], args, &["--", "sh", "-c", "exit 255"]].concat();
        let ended = throttle(&args).write_stdin(items).output().unwrap();
        assert!(text(&ended.stderr).ends_with("ended early: 1 item read and not released\n"), "{items}");
    }
}

#[test]
fn the_quiet_end_without_a_word() {
    let output = end_by(in_an_hours_wait(&["-q"]), SIGTERM);
    assert_killed_by(SIGTERM, &output);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn hup_stays_ignored_under_nohup() {
    let mut running = Running::start(&mut sh_command("trap '' HUP; exec throttle -n1 -p1h"));
    running.write("1\n2\n");
    assert_eq!(running.line(), "1\n");
    running.signal(SIGHUP);
    running.signal(SIGUSR1);
    assert!(running.error_line().starts_with("throttle: 1 of 2 items released"));
    assert_killed_by(SIGTERM, &end_by(running, SIGTERM));
}

#[test]
fn usr1_prints_statistics_and_changes_nothing_else() {
    let started = Instant::now();
    let mut running = Running::fed(&["-n1", "-p300ms"], "1\n2\n3\n");
    assert_eq!(running.line(), "1\n");
    running.signal(SIGUSR1);
    assert!(running.error_line().contains(" of 3 items released ("));
    // The current wait is included.
    assert!(running.error_line().starts_with("throttle: waited "));
    running.ends().success().stdout("2\n3\n").stderr("");
    assert!(started.elapsed() >= Duration::from_millis(600));
}

/// The run is in a write that does not end.
#[test]
fn usr1_is_answered_and_metrics_are_written_while_nobody_reads() {
    let directory = Directory::new();
    let metrics = directory.path().join("throttle.prom");
    let mut running = Running::throttle(&[UNLIMITED, "--stats", &format!("prom:{}", metrics.display())]);
    let chunk = numbers(9999);
    let taken = running.fill(chunk.as_bytes());
    let before = fs::read(&metrics).expect("metrics");
    eventually("the metrics are written", || fs::read(&metrics).expect("metrics") != before);
    let mut printed = String::new();
    for _ in 0..500 {
        running.signal(SIGUSR1);
        eventually("it has answered", || running.has_told());
        assert!(running.error_line().contains(" items released ("));
        printed += &running.line();
    }
    let output = running.finish();
    printed += &text(&output.stdout);
    let items = chunk.repeat(taken.div_ceil(chunk.len()));
    assert!(output.status.success() && printed == items[..taken]);
}

#[test]
fn many_signals_that_change_nothing_lose_nothing() {
    let mut running = Running::throttle(&["-n1", "-p20ms"]);
    let items = numbers(20);
    running.write(&items);
    let mut printed = running.line();
    running.close_stdin();
    while printed.len() < items.len() {
        running.signal(SIGUSR1);
        printed += &running.line();
    }
    assert_eq!(printed, items);
    assert!(running.finish().status.success());
}

/// A command that says when it is ready, and when it has cleaned up.
const TIDY: &str = "trap 'sleep 0.2; echo tidied up; exit 0' TERM; echo $$; while :; do sleep 0.02; done";

#[test]
fn the_first_signal_is_passed_on_as_term_and_the_command_waited_for() {
    for signal in [SIGTERM, SIGINT].into_iter().filter(|&signal| !is_ignored(signal)) {
        let mut running = Running::fed(&[UNLIMITED, "--", "sh", "-c", TIDY], "1\n2\n");
        let pid = pid_in(&running.line());
        let output = end_by(running, signal);
        assert_killed_by(signal, &output);
        assert_eq!(text(&output.stdout), "tidied up\n");
        assert!(text(&output.stderr).ends_with(": 1 item released, 1 read and not released\n"));
        assert!(!is_alive(pid));
    }
}

#[test]
fn the_second_signal_kills_a_command_that_does_not_heed_the_first() {
    let stubborn = "trap '' TERM; echo $$; exec sleep 1000";
    let mut running = Running::fed(&[UNLIMITED, "--", "sh", "-c", stubborn], "1\n");
    let pid = pid_in(&running.line());
    running.signal(SIGTERM);
    // The command is waited for as long as there is no second signal.
    std::thread::sleep(Duration::from_millis(200));
    assert!(is_alive(pid));
    let output = end_by(running, SIGTERM);
    assert_killed_by(SIGTERM, &output);
    assert!(!is_alive(pid));
}

/// Without a terminal, that is: on a terminal, Ctrl-C reaches all of them.
#[test]
fn signals_reach_what_a_command_has_started() {
    let Some(setsid) = needs_program("setsid") else { return };
    let stubborn = r#"trap "echo told" TERM; sh -c 'trap "" TERM; echo $$; exec sleep 1000' & wait; wait"#;
    let gentle = "sleep 1000 & echo $!; wait";
    let table = [(gentle, SIGTERM, false), (gentle, SIGQUIT, false), (stubborn, SIGTERM, true)];
    for (command, signal, is_stubborn) in table.into_iter().filter(|(_, signal, _)| !is_ignored(*signal)) {
        let mut start = Command::new(&setsid);
        let mut running = Running::start(start.args([THROTTLE, UNLIMITED, "--", "sh", "-c", command]));
        running.write("1\n");
        let pid = pid_in(&running.line());
        let mut first = signal;
        if is_stubborn {
            let other = [SIGINT, SIGHUP].into_iter().find(|&signal| !is_ignored(signal));
            first = other.expect("one of both is heeded");
            running.signal(first);
            assert_eq!(running.line(), "told\n");
        }
        assert_killed_by(first, &end_by(running, signal));
        eventually("what the command had started is gone", || !is_alive(pid));
    }
}

fn pid_in(line: &str) -> Pid {
    Pid::from_raw(line.trim().parse().expect("a number"))
}

#[test]
fn a_reader_that_goes_away_ends_an_hours_wait_quietly() {
    let mut running = in_an_hours_wait(&[]);
    running.close_stdout();
    let output = running.collect();
    assert_killed_by(SIGPIPE, &output);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_reader_that_goes_away_ends_a_wait_for_input_quietly() {
    let mut running = Running::fed(&[UNLIMITED], "1\n");
    assert_eq!(running.line(), "1\n");
    running.close_stdout();
    // Its input is open, but nothing comes.
    assert_eq!(running.wait().signal(), Some(SIGPIPE as i32));
}

#[test]
fn head_ends_an_endless_run() {
    for limit in [UNLIMITED, "-r1/h"] {
        sh(&format!("yes | throttle {limit} | head -n1")).assert().success().stdout("y\n").stderr("");
    }
}

#[test]
fn a_signal_ends_a_write_to_a_pipe_that_nobody_reads() {
    for args in [&[UNLIMITED][..], &[UNLIMITED, "-B100"], &["-A", "bucket", UNLIMITED]] {
        let mut running = Running::throttle(args);
        let lines = numbers(9000);
        // By now it handles signals.
        running.write("begun\n");
        assert_eq!(running.line(), "begun\n");
        running.fill(lines.as_bytes());
        let output = end_by(running, SIGTERM);
        assert_killed_by(SIGTERM, &output);
        assert!(lines.repeat(99).as_bytes().starts_with(&output.stdout), "{args:?}");
        assert!(text(&output.stderr).contains("read and not released"));
    }
}

#[test]
fn a_signal_that_changes_nothing_does_not_break_a_blocked_write() {
    let mut running = Running::throttle(&[UNLIMITED]);
    let lines = numbers(9000);
    running.write("begun\n");
    assert_eq!(running.line(), "begun\n");
    let taken = running.fill(lines.as_bytes());
    for _ in 0..10 {
        // Signals that come while another one is pending are lost. The line may come only after the write.
        running.signal(SIGUSR1);
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = running.finish();
    assert!(output.status.success());
    assert!(output.stdout == lines.repeat(99).as_bytes()[..taken]);
}

#[test]
fn a_run_that_is_killed_while_stopped_ends() {
    let running = in_an_hours_wait(&[]);
    running.signal(Signal::SIGSTOP);
    running.signal(SIGTERM);
    running.signal(Signal::SIGCONT);
    assert_killed_by(SIGTERM, &running.collect());
}

#[test]
fn time_spent_stopped_is_not_made_up_for() {
    keeps_its_pace_after_a_stop(&["-n1", "-p200ms"]);
}

#[test]
fn an_orphan_is_not_left_by_a_reader_that_goes_away() {
    let mut running = Running::fed(&[UNLIMITED, "--", "sh", "-c", "echo $$; exec sleep 0.3"], "1\n2\n");
    let pid = pid_in(&running.line());
    running.close_stdout();
    running.wait();
    assert!(!is_alive(pid));
}
