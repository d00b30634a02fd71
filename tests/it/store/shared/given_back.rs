//! The slots of runs that end while they wait.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal::{self, SIGHUP, SIGTERM};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use throttle::config::parse_duration;

use super::state;
use crate::support::{Directory, Running, eventually, fed, is_ignored, text, throttle};

/// So long that the time a test takes does not matter, and with a margin that makes no run miss its slot.
const LIMIT: &str = "-r1/10m,margin=5s";

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// The time from now to the next slot that nobody has.
fn next_slot(state: &str) -> Duration {
    let status = text(&throttle(&["-s", state, "--status"]).output().expect("a status").stdout);
    let next = status.lines().next().and_then(|line| line.split_once("next slot in "));
    next.map_or(Duration::ZERO, |(_, next)| Duration::from_nanos(parse_duration(next).expect("a duration")))
}

/// A state with one slot used just now.
fn used() -> (Directory, String) {
    let (directory, state) = state();
    fed(&[LIMIT, "-s", &state], "1\n").success();
    (directory, state)
}

/// A run that waits for the next slot, which it has booked.
fn waiting(state: &str) -> Running {
    let running = Running::fed(&[LIMIT, "-s", state], "2\n3\n");
    eventually("it has booked a slot", || next_slot(state) > minutes(15));
    running
}

fn end(running: Running, signal: Signal) {
    running.signal(signal);
    assert_eq!(running.collect().stdout, b"");
}

/// The runs wait for the same instant, one after the other.
#[test]
fn a_run_that_is_interrupted_gives_back_the_slot_that_it_waits_for() {
    let (_directory, state) = used();
    for signal in [SIGTERM, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)) {
        end(waiting(&state), signal);
        assert!(next_slot(&state) <= minutes(11), "after {signal}");
    }
}

#[test]
fn a_run_without_a_reader_gives_back_its_slot() {
    let (_directory, state) = used();
    let mut running = waiting(&state);
    running.close_stdout();
    running.wait();
    assert!(next_slot(&state) <= minutes(11));
}

#[test]
fn a_run_that_is_halted_gives_back_its_slot() {
    let (directory, state) = state();
    let fifo = directory.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a pipe");
    let script = format!("read line < '{}'; exit 1", fifo.display());
    let args = [LIMIT, "-s", &state, "-j2", "--halt", "soon,fail=1", "--", "sh", "-c", &script];
    let mut running = Running::fed(&args, "1\n2\n");
    eventually("it has booked a slot for the second item", || next_slot(&state) > minutes(15));
    OpenOptions::new().write(true).open(&fifo).expect("it is read").write_all(b"go on\n").expect("written");
    running.wait();
    assert!(next_slot(&state) <= minutes(11));
}

/// The next release comes a period after the previous one, and no earlier.
#[test]
fn a_slot_that_was_given_back_is_as_far_from_the_one_before() {
    let (_directory, state) = state();
    let args = ["-r1/1s,margin=500ms", "-s", &state];
    let mut first = Running::throttle(&args);
    let start = Instant::now();
    first.write("1\n2\n");
    assert_eq!(first.line(), "1\n");
    let mut second = Running::fed(&args, "3\n");
    first.signal(SIGTERM);
    assert_eq!(second.line(), "3\n");
    assert!(start.elapsed() >= Duration::from_secs(1));
}
