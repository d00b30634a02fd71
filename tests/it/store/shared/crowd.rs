//! Many processes that are stopped and killed at any time.

use std::fs::File;
use std::io::PipeWriter;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::Signal;

use super::seen::{Watch, is_exceeded};
use super::state;
use crate::support::{Running, THROTTLE, fed, numbers, pipe};

const COUNT: usize = 600;
const PERIOD: Duration = Duration::from_secs(1);

/// With a long deadline: only a process stopped for longer than that, between its last look at the clock and the
/// release, will be late without noticing.
const RATE: &str = "-r600/s,margin=200ms";

/// As many as fit into the time of a test run; `THROTTLE_KILLS` sets another number.
fn kills() -> u32 {
    std::env::var("THROTTLE_KILLS").map_or(300, |number| number.parse().expect("a number"))
}

/// Stops a process for a while, but not for long if it might be about to release something.
fn stop(running: &Running, random: &mut Rng) {
    running.stop();
    let longest = if is_waiting(running) { 400 } else { 50 };
    thread::sleep(Duration::from_millis(random.u64(0..longest)));
    running.signal(Signal::SIGCONT);
}

/// True if it is known to be in a system call that is no write.
#[cfg(target_os = "linux")]
fn is_waiting(running: &Running) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{}/syscall", running.pid())).unwrap_or_default();
    let call: Option<nix::libc::c_long> = call.split(' ').next().and_then(|number| number.parse().ok());
    call.is_some_and(|number| number >= 0 && number != nix::libc::SYS_write)
}

#[cfg(not(target_os = "linux"))]
fn is_waiting(_: &Running) -> bool {
    false
}

/// A process that shares the limit.
fn start(state: &str, stdin: impl Into<Stdio>, writer: &PipeWriter) -> Running {
    let mut command = Command::new(THROTTLE);
    let stdout = writer.try_clone().expect("a descriptor");
    Running::spawn(command.args([RATE, "-q", "-s", state]).stdin(stdin).stdout(stdout))
}

/// A short life that ends with a kill.
fn live(random: &mut Rng, state: &str, writer: &PipeWriter) {
    let mut running = start(state, Stdio::piped(), writer);
    running.write("1\n");
    thread::sleep(Duration::from_millis(random.u64(0..80)));
    if random.u8(0..8) == 0 {
        stop(&running, random);
    }
    die(running);
}

fn die(mut running: Running) {
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait().signal(), Some(Signal::SIGKILL as i32), "it had ended before");
}

/// Killed processes leave slots behind that nobody uses. Others live on, and use all that they can get.
#[test]
fn no_window_is_exceeded_by_processes_that_are_stopped_and_killed() {
    let (directory, state) = state();
    let items = directory.file("items", numbers(100_000));
    let (reader, writer) = pipe();
    let watch = Watch::start(reader);
    let survivor = |_| start(&state, File::open(&items).expect("items"), &writer);
    let survivors: Vec<_> = (0..4).map(survivor).collect();
    let lives = AtomicU32::new(0);
    thread::scope(|scope| {
        for seed in 1..=8 {
            let (lives, state, writer) = (&lives, &state, &writer);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed);
                while lives.fetch_add(1, Relaxed) < kills() {
                    live(&mut random, state, writer);
                }
            });
        }
        let mut random = Rng::with_seed(0);
        while lives.load(Relaxed) < kills() {
            stop(random.choice(&survivors).expect("one"), &mut random);
            thread::sleep(Duration::from_millis(random.u64(0..400)));
        }
    });
    survivors.into_iter().for_each(die);
    drop(writer);
    let seen = watch.finish();
    assert!(seen.len() > COUNT, "only {} releases", seen.len());
    assert!(!is_exceeded(&seen, COUNT, PERIOD), "{seen:?}");
    // The state is still good.
    fed(&[RATE, "-q", "-s", &state], numbers(5)).success().stdout(numbers(5)).stderr("");
}
