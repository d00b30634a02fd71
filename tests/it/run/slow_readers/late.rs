//! A release that was late is known to the others that share its limit.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::SystemTime;

use super::{micros, ms, writes};
use crate::strace::needs_strace;
use crate::support::{Directory, Running, THROTTLE, drain, eventually, pipe};

/// The reader of one of two processes stalls. The other process learns of it before its next slot, and keeps away from
/// the end of the write.
#[test]
fn what_is_late_keeps_others_away() {
    let Some(strace) = needs_strace() else { return };
    eventually("others are kept away", || keeps_others_away(&strace));
}

/// A run ends without having told of what was late if that takes longer than a second.
fn keeps_others_away(strace: &Path) -> bool {
    let directory = Directory::new();
    let state = directory.path().join("state").display().to_string();
    let trace = directory.path().join("trace");
    let args = ["-r1/1s", "-s", &state];
    let (reader, writer) = pipe();
    let mut late = Command::new(THROTTLE);
    let mut late = Running::spawn(late.args(args).stdin(Stdio::piped()).stdout(writer));
    late.write("x".repeat(1_500_000) + "\n");
    late.close_stdin();
    thread::sleep(ms(200));
    let mut traced = Command::new(strace);
    traced
        .args(["-f", "-ttt", "-T", "-s0", "-e", "trace=write,fcntl", "-o"])
        .arg(&trace)
        .arg(THROTTLE)
        .args(args);
    let mut other = Running::spawn(traced.stdin(Stdio::piped()).stdout(Stdio::piped()));
    other.write("1\n2\n3\n4\n");
    other.close_stdin();
    // The other process has had two slots, and holds one that is due half a second later.
    thread::sleep(ms(2300));
    let before = now();
    drain(reader);
    assert!(late.wait().success());
    let over = now();
    assert!(other.finish().status.success());
    let trace = fs::read_to_string(trace).expect("a trace");
    let next = writes(&trace).iter().map(|(start, ..)| *start).find(|start| *start > over);
    let next = next.expect("one that was released after it");
    // If the item was about to be released just then, it was not known to be too close.
    let has_asked = bookings(&trace).any(|asked| over < asked && asked < next);
    has_asked && next >= before + 1_000_000
}

/// The instants, in microseconds, at which a state in a file was asked: each booking has SQLite lock its reserved byte.
fn bookings(trace: &str) -> impl Iterator<Item = u64> {
    let locks = trace.lines().filter(|line| line.contains("F_WRLCK, l_whence=SEEK_SET, l_start=1073741825,"));
    locks.filter_map(|line| micros(line.split_whitespace().nth(1)?))
}

/// The time in microseconds, as strace stamps it.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    now.as_micros().try_into().expect("not that late")
}
