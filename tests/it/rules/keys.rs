//! Many keys in little memory and little time, with generous bounds, even for a debug build.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::support::{Running, THROTTLE, eventually, text, throttle};

/// A memory figure of a process, in KiB.
fn memory(running: &Running, which: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(which)).expect("a line");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
fn many_keys_take_little_memory_and_give_it_back() {
    let keys: Vec<_> = (0..200_000).map(|key| format!("{key:020}\n")).collect();
    let mut start = Command::new(THROTTLE);
    start.args(["-n1", "-p3s", "-K", "col:1", "-v"]).stdout(Stdio::null());
    let mut running = Running::spawn(start.stdin(Stdio::piped()).stderr(Stdio::piped()));
    running.write(keys.concat());
    eventually("all are released", || {
        running.signal(Signal::SIGUSR1);
        running.error_line().contains("200000 of 200000 items released")
    });
    let most = memory(&running, "VmHWM");
    assert!(most < 64 << 10, "{most} KiB at most");
    eventually("memory is given back", || memory(&running, "VmRSS") < 20 << 10);
    assert!(running.finish().status.success());
}

#[test]
fn many_lanes_wait_without_slowing_each_other() {
    let items: Vec<_> = (0..9_000).map(|item| format!("{} {item}\n", item % 3000)).collect();
    let limits = ["-r1/s,key=col:1", "-r1k/s", "--lookahead=9k", "--dry-run"];
    let output = throttle(&limits).write_stdin(items.concat()).output().unwrap();
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().last(), Some("8.000000000\t2999 8999"));
    assert_eq!(printed.lines().count(), 9_000);
}
