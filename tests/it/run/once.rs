//! A single release, for scripts.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use predicates::str::{contains, starts_with};

use crate::support::{
    Directory, Running, THROTTLE, narrow_pipe, needs_program, pipe, sh_command, text, throttle,
};

#[test]
fn it_becomes_the_command_with_our_descriptors_and_its_status() {
    let script = "cat; echo \"$0 $1\"; echo $$ >&2; exit 7";
    let mut command = sh_command("echo $$; exec throttle --once -q -r 1/s -- sh -c \"$1\" {} x{}");
    let output = assert_cmd::Command::from_std({
        command.args(["sh", script]);
        command
    })
    .write_stdin("a\nb\n")
    .output()
    .unwrap();
    let pid = text(&output.stderr);
    assert_eq!(text(&output.stdout), format!("{pid}a\nb\n{{}} x{{}}\n"));
    assert_eq!(output.status.code(), Some(7));
    throttle(&["--once", "-r1/s", "--", "sh", "-c", "kill -9 $$"]).assert().interrupted();
}

#[test]
fn without_a_command_it_only_waits() {
    throttle(&["--once", "-q", "-r1/s"]).assert().success().stdout("").stderr("");
    let started = Instant::now();
    throttle(&["--once", "-r1/200ms,start=empty"]).assert().success();
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_cost_that_is_never_admitted_is_told_before_the_wait() {
    let directory = Directory::new();
    let state = format!("-s{}", directory.path().join("state").display());
    let once = |cost: &str| throttle(&["--once", &state, "-r2/s,algo=bucket,burst=5", cost]).assert();
    once("-c4").success().stderr("");
    let told = "throttle: a cost of 5 is more than the limit 2/1s,algo=bucket,burst=5,cost=5 ever admits if shared, 4 \
                (a higher burst would)\n";
    once("-c5").code(1).stderr(told);
    once("-c6").code(2);
    let state = format!("-s{}", directory.path().join("sliding").display());
    throttle(&["--once", &state, "-r6/m,margin=50ms"]).assert().success();
    let told =
        "throttle: a cost of 7 is more than the limit 6/1m,algo=sliding,margin=50ms,cost=7 ever admits\n";
    throttle(&["--once", &state, "-c7"]).assert().code(1).stderr(told);
}

/// A script that calls it in place of sleep would have no limit at all.
#[test]
fn a_release_that_never_waits_as_nothing_is_shared_warns() {
    let told = "throttle: --once does not wait here, as no run knows of another: to share the limit, add -s \
                NAME\n";
    for args in [&["-r9/s"][..], &["-n1"], &["-r9/s,algo=bucket,burst=4", "-c4"]] {
        throttle(&[&["--once"], args].concat()).assert().success().stderr(told);
        throttle(&[&["--once", "-q"], args].concat()).assert().success().stderr("");
    }
    // These may wait, though not now.
    let directory = Directory::new();
    directory.file("limits", "9/s\n");
    for args in [
        &["-r99/s,start=empty"][..],
        &["-r9/s", "-r0/s,during=Sat@00:00-00:01,tz=UTC", "--max-wait=1w"],
        &["-r9/d,algo=calendar,tz=UTC"],
        &["-r9/s,algo=bucket,burst=4", "-c5"],
        &["-r@limits"],
        &["-r9/s", "--jitter=1ms"],
    ] {
        directory.throttle(&[&["--once"], args].concat()).assert().success().stderr("");
    }
    if cfg!(feature = "sqlite") {
        directory.throttle(&["--once", "-s./state", "-r9/s"]).assert().success().stderr("");
    }
}

#[test]
fn what_cannot_be_run_is_told_by_the_status() {
    for (command, status) in [("no-such-command-here", 127), (".", 126)] {
        throttle(&["--once", "-q", "-r1/s", "--", command])
            .env("PATH", "/usr/bin:/bin")
            .assert()
            .code(status)
            .stderr(starts_with(format!("throttle: cannot run {command}: ")));
    }
    // Nobody reads the message.
    let (reader, writer) = pipe();
    drop(reader);
    let mut command = Command::new(THROTTLE);
    command.args(["--once", "-r1/s", "--", "./no-such-command-here"]).stderr(writer);
    assert_eq!(Running::spawn(&mut command).wait().code(), Some(127));
}

#[test]
fn a_command_finds_signals_and_descriptors_as_we_did() {
    if needs_program("setsid").is_none() || !cfg!(target_os = "linux") {
        return;
    }
    let show = "sh -c 'grep -E \"Sig(Blk|Ign)\" /proc/self/status; ls /proc/self/fd'";
    for before in [":", "trap '' PIPE URG INT USR1 CHLD", "exec <&-", "exec 7<&0"] {
        let directory = Directory::new();
        let run =
            |with: &str| text(&directory.sh(&format!("{before}; {with} {show}")).output().unwrap().stdout);
        let found = run("exec");
        assert!(found.contains("SigIgn"), "{found}");
        assert_eq!(run("exec throttle --once -r 1/s --"), found, "{before}");
        if cfg!(feature = "sqlite") {
            assert_eq!(run("exec throttle --once -s ./state -r 9/s --"), found, "{before}");
        }
    }
}

/// Refused attempts use nothing up, however many there are.
#[test]
fn asking_again_and_again_is_served_when_it_is_time() {
    if !cfg!(feature = "sqlite") {
        return;
    }
    let directory = Directory::new();
    let ask = || {
        let args = ["--once", "-s./state", "-r1/500ms", "--max-wait", "0", "-q"];
        directory.throttle(&args).output().unwrap().status.code()
    };
    let (begin, mut starts) = (Instant::now(), Vec::new());
    while starts.len() < 2 {
        let before = Instant::now();
        assert!(before - begin < Duration::from_secs(60), "served {} times", starts.len());
        if ask() == Some(0) {
            starts.push((before, Instant::now()));
        }
    }
    assert!(starts[1].1 - starts[0].0 >= Duration::from_millis(500));
}

#[test]
fn max_wait_gives_up_as_soon_as_it_is_known_to_be_too_long() {
    let started = Instant::now();
    for wait in ["0", "1h", "23h"] {
        throttle(&["--once", "-r1/d,start=empty", "--max-wait", wait, "--", "echo"])
            .assert()
            .code(75)
            .stdout("")
            .stderr(contains("longer than --max-wait"));
    }
    // It gives up at once; this only rules out a wait of hours.
    assert!(started.elapsed() < Duration::from_secs(3600));
    throttle(&["--once", "-q", "-r1/d,start=empty", "--max-wait", "0"]).assert().code(75).stderr("");
    throttle(&["--once", "-r1/d", "--max-wait", "0", "--", "echo", "x"]).assert().success().stdout("x\n");
    throttle(&["--once", "-r1/100ms,start=empty", "--max-wait", "1h"]).assert().success();
}

#[test]
fn a_signal_ends_the_wait() {
    let mut running = Running::throttle(&["--once", "-r1/h,start=empty", "--", "echo"]);
    std::thread::sleep(Duration::from_millis(50));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait().signal(), Some(Signal::SIGTERM as i32));
}

/// Its last message waits for a reader for up to a second; only then would the command start.
#[test]
fn a_signal_that_comes_after_the_wait_is_not_lost() {
    loop {
        let (_reader, writer) = narrow_pipe(1);
        let mut command = Command::new(THROTTLE);
        command.args(["--once", "-t", "-r1/s", "--", "echo", "x"]).stderr(writer).stdout(Stdio::piped());
        let mut running = Running::spawn(&mut command);
        let started = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        running.signal(Signal::SIGTERM);
        if started.elapsed() < Duration::from_millis(800) {
            assert_eq!(running.wait().signal(), Some(Signal::SIGTERM as i32));
            return;
        }
    }
}

#[test]
fn whatever_is_about_items_or_many_commands_is_refused_by_name() {
    for (args, told) in [
        (&["--dry-run"][..], "--once reads no items: leave out --dry-run"),
        (&["-B2"], "leave out -B"),
        (&["-a", "x"], "leave out -a"),
        (&["-K", "host"], "leave out -K"),
        (&["-c", "bytes"], "leave out -c SEL, or give a number"),
        (&["--on-limit=fail"], "use --max-wait 0"),
        (&["--audit"], "leave out --audit"),
        (&["-j2"], "--once releases once and becomes COMMAND: leave out -j"),
        (&["-k"], "leave out -k"),
        (&["--retries=1"], "leave out --retries, or pipe in one item instead of --once"),
        (&["--max-hold=1s"], "leave out --max-hold"),
        (&["--log=x"], "leave out --log"),
        (&["-r1/s,from=exit"], "leave out from=exit"),
        (&["-r1/s,local"], ",local would never limit it: leave it out"),
        (&["--status"], "--once"),
    ] {
        let args = [&["--once", "-r1/s"], args, &["--", "true"]].concat();
        throttle(&args).assert().code(2).stderr(contains(told));
    }
    throttle(&["--once", "-r1/s,key=host"]).assert().code(2).stderr(contains("leave out key="));
    throttle(&["--once", "-r5/s", "-c6"]).assert().code(2).stderr(contains("ever admits"));
    // With limits from a file, the fault is in the file.
    let directory = Directory::new();
    directory.file("limits", "1/s,key=host\n");
    directory.throttle(&["--once", "-r@limits"]).assert().code(1);
}

#[cfg(feature = "sqlite")]
#[test]
fn runs_that_share_a_limit_get_as_many_releases_as_it_allows() {
    let directory = Directory::new();
    let once = |cost: &str| {
        let mut command = std::process::Command::new(THROTTLE);
        let args = ["--once", "-q", "-s", "./state", "-r5/h", "--max-wait=0", "-c", cost, "--", "echo"];
        command.args(args).current_dir(directory.path()).stdout(Stdio::null());
        command
    };
    let mut all: Vec<_> = (0..9).map(|_| once("1").spawn().unwrap()).collect();
    let statuses: Vec<_> = all.iter_mut().map(|child| child.wait().unwrap().code()).collect();
    let count = |status| statuses.iter().filter(|&&found| found == Some(status)).count();
    assert_eq!((count(0), count(75)), (5, 4), "{statuses:?}");
    // The cost of a release is not part of the limit, and refused runs charge nothing.
    let directory = Directory::new();
    let run = |cost: &str| {
        let args = ["--once", "-q", "-s", "./state", "-r5/h", "--max-wait=0", "-c", cost];
        directory.throttle(&args).assert().get_output().status.code()
    };
    assert_eq!(["3", "3", "2", "1"].map(run), [0, 75, 0, 75].map(Some));
}

#[cfg(feature = "sqlite")]
#[test]
fn the_next_one_waits_until_the_limit_admits_it() {
    let directory = Directory::new();
    let run =
        || directory.throttle(&["--once", "-s", "./state", "-r1/300ms", "--", "true"]).assert().success();
    let started = Instant::now();
    (0..3).for_each(|_| _ = run());
    assert!(started.elapsed() >= Duration::from_millis(600), "{:?}", started.elapsed());
}

/// If the reader of messages were waited for after booking, every slot would be too late.
#[cfg(feature = "sqlite")]
#[test]
fn a_reader_of_messages_that_is_stuck_costs_no_more_than_a_slot() {
    let directory = Directory::new();
    let (_reader, writer) = narrow_pipe(1);
    let mut command = Command::new(THROTTLE);
    command.args(["--once", "-t", "-s", "./state", "-r1/100ms", "--", "echo", "x"]);
    command.current_dir(directory.path()).stderr(writer).stdout(Stdio::piped());
    assert_eq!(text(&Running::spawn(&mut command).finish().stdout), "x\n");
}
