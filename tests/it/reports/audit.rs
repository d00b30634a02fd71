//! No window is exceeded at the instants when items really leave: start(k+N) ≥ end(k) + P, also on a busy machine, when
//! the program is stopped now and then, and with a slow reader.

mod trace;

use std::fs;
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use throttle::rule::Algorithm;
use throttle::time::SECOND;

use self::trace::{Span, Traced, started, written};
use crate::simulated::MILLI;
use crate::support::{
    Directory, OWN_TESTS, Running, THROTTLE, is_alive, needs_program, of_any_period, text, throttle,
};

/// Two busy loops that run until this is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let busy = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || while !is_over.load(Relaxed) {})
        };
        Load { loops: vec![busy(), busy()], is_over }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.loops.drain(..).for_each(|busy| _ = busy.join());
    }
}

/// At least `wait` nanoseconds pass between a release and the one `distance` later.
struct Promise {
    distance: usize,
    wait: u64,
}

impl Promise {
    #[track_caller]
    fn check(&self, releases: &[Span]) {
        let later = releases.iter().skip(self.distance);
        for (k, (early, late)) in releases.iter().zip(later).enumerate() {
            let free = early.end + self.wait;
            assert!(free <= late.start, "{k} + {}: {} ns early", self.distance, free - late.start);
        }
    }
}

/// A second judge: the program itself, with `--audit`, given the starts of the releases and then their ends.
#[track_caller]
fn audit(limit: &[&str], releases: &[Span]) {
    for instant in [|release: &Span| release.start, |release: &Span| release.end] {
        let stamps = releases.iter().map(instant).map(|at| format!("{}.{:09}\n", at / SECOND, at % SECOND));
        let stamps = stamps.collect::<Vec<_>>().concat();
        // The trace may list the calls of several threads out of order.
        let audit = throttle(limit).args(["--audit", "--unsorted=1s"]).write_stdin(stamps).output().unwrap();
        assert_eq!(audit.status.code(), Some(0), "{}{}", text(&audit.stdout), text(&audit.stderr));
        let all = format!("0 of {} items too early", releases.len());
        assert!(text(&audit.stdout).contains(&all), "{}", text(&audit.stdout));
    }
}

/// The size of a line.
const SIZE: u64 = 8;

fn lines(count: u64) -> Vec<u8> {
    (0..count).flat_map(|number| format!("{number:07}\n").into_bytes()).collect()
}

/// Writes `input` in random pieces with random pauses, and stops the program now and then until it ends.
fn feed_and_stop(traced: &mut Traced, input: &[u8]) {
    let mut random = Rng::with_seed(7);
    let mut rest = input;
    while !rest.is_empty() {
        let length = rest.len().min(random.usize(1..=input.len() / 10));
        traced.running.write(&rest[..length]);
        rest = &rest[length..];
        pause(&mut random);
        if random.bool() {
            traced.stopped(|_| pause(&mut random));
        }
    }
    traced.running.close_stdin();
    while is_alive(traced.running.pid()) {
        pause(&mut random);
        traced.stopped(|_| pause(&mut random));
    }
}

fn pause(random: &mut Rng) {
    thread::sleep(Duration::from_millis(random.u64(0..=60)));
}

/// Releases `per_period` per 200 ms, for three and a half windows.
#[track_caller]
fn no_window_is_exceeded(per_period: u64) {
    let (limit, count) = (format!("-r{per_period}/200ms"), per_period * 7 / 2);
    let Some(mut traced) = Traced::start(&[&limit]) else { return };
    let _load = Load::start();
    feed_and_stop(&mut traced, &lines(count));
    let releases = written(&traced.finish(), SIZE);
    assert_eq!(releases.len() as u64, count);
    let distance = usize::try_from(per_period).unwrap();
    Promise { distance, wait: 200 * MILLI }.check(&releases);
    audit(&[&limit], &releases);
}

#[test]
fn no_window_is_exceeded_at_50_per_second() {
    no_window_is_exceeded(10);
}

#[test]
fn no_window_is_exceeded_at_1000_per_second() {
    no_window_is_exceeded(200);
}

#[test]
fn no_window_is_exceeded_at_100_000_per_second() {
    no_window_is_exceeded(20_000);
}

/// Most writes here block until the reader makes room: a pipe may hold a megabyte.
#[test]
fn no_window_is_exceeded_however_slow_the_reader() {
    const COUNT: usize = 90_000;
    let Some((reader, mut traced)) = Traced::start_unread(&["-r20000/200ms"]) else { return };
    let lines = (0..COUNT).map(|number| format!("{number:031}\n")).collect::<Vec<_>>().concat();
    let _load = Load::start();
    let reading = thread::spawn(|| read_slowly(reader));
    traced.running.write(&lines);
    let releases = written(&traced.finish(), 32);
    assert!(reading.join().unwrap() == lines.as_bytes());
    let slow = releases.iter().filter(|release| release.end - release.start > 5 * MILLI).count();
    assert!(slow > 1000, "the reader held up only {slow} writes");
    Promise { distance: 20_000, wait: 200 * MILLI }.check(&releases);
    audit(&["-r20000/200ms"], &releases);
}

/// Reads at most 2 MB a second.
fn read_slowly(mut from: PipeReader) -> Vec<u8> {
    let (mut all, mut chunk) = (Vec::new(), vec![0; 20_000]);
    while let read @ 1.. = from.read(&mut chunk).unwrap() {
        all.extend_from_slice(&chunk[..read]);
        thread::sleep(Duration::from_millis(10));
    }
    all
}

#[test]
fn no_window_is_exceeded_by_commands() {
    for jobs in ["-j1", "-j3"] {
        let Some(mut traced) = Traced::start(&["-r10/200ms", jobs, "--", "true"]) else { return };
        let _load = Load::start();
        feed_and_stop(&mut traced, &lines(35));
        let starts = started(&traced.finish());
        assert_eq!(starts.len(), 35);
        Promise { distance: 10, wait: 200 * MILLI }.check(&starts);
        audit(&["-r10/200ms"], &starts);
    }
}

/// What each algorithm guarantees at 10 per 200 ms about the time between releases, in a run of `count`.
fn promises(algorithm: Algorithm, count: usize) -> Vec<Promise> {
    let (distance, wait) = (10, 200 * MILLI);
    match algorithm {
        Algorithm::Sliding => vec![Promise { distance, wait }],
        Algorithm::Interval => vec![Promise { distance: 1, wait: wait / 10 }],
        // Releases 20 apart touch three windows; the middle one lies wholly between them.
        Algorithm::Fixed => vec![Promise { distance: 2 * distance, wait }],
        // Whatever exceeds the burst has to accrue.
        Algorithm::Bucket => (distance..count)
            .map(|distance| Promise { distance, wait: (distance as u64 - 9) * wait / 10 })
            .collect(),
        Algorithm::Calendar => unreachable!("{OWN_TESTS}"),
    }
}

#[test]
fn there_is_no_burst_to_catch_up_after_having_been_stopped() {
    let algorithms = of_any_period().into_iter().map(|name| name.parse().expect("a name"));
    let stopped = algorithms.map(|algorithm| thread::spawn(move || is_stopped_for_seconds(algorithm)));
    let stopped: Vec<_> = stopped.collect();
    stopped.into_iter().for_each(|stopped| stopped.join().unwrap());
}

fn is_stopped_for_seconds(algorithm: Algorithm) {
    const STOP: Duration = Duration::from_secs(2);
    let releases = loop {
        let Some(mut traced) = Traced::start(&["-r10/200ms", "-A", &algorithm.to_string()]) else { return };
        traced.running.write(lines(40));
        thread::sleep(Duration::from_millis(500));
        traced.stopped(|running| {
            running.write(lines(40));
            thread::sleep(STOP);
        });
        let releases = written(&traced.finish(), SIZE);
        assert_eq!(releases.len(), 80);
        // The program may have been stopped within a write; or not at all, if strace itself was delayed.
        if releases.windows(2).any(|pair| pair[1].start - pair[0].start > SECOND) {
            break releases;
        }
    };
    promises(algorithm, 80).iter().for_each(|promise| promise.check(&releases));
    // The program's own windows start when a write has returned, which may be neither of the instants judged here.
    if algorithm != Algorithm::Fixed {
        audit(&["-r10/200ms", "-A", &algorithm.to_string()], &releases);
    }
}

/// A wall clock that moves an hour forward, or back, each time it is read.
#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    let Some(faketime) = needs_program("faketime") else { return };
    for (jump, direction) in [("+0 i3600", 1.0), ("+0 i-3600", -1.0)] {
        let directory = Directory::new();
        let log = directory.path().join("log");
        let mut command = Command::new(&faketime);
        command.args(["--exclude-monotonic", "-f", jump, THROTTLE, "-r1/200ms", "--log"]);
        let begun = Instant::now();
        let mut running = Running::start(command.arg(&log).arg("true"));
        running.write(lines(4));
        assert!(running.finish().status.success());
        assert!(begun.elapsed() >= Duration::from_millis(600));
        // The program did see the jumps: it logs starts by that clock.
        let starts = wall_clock_starts(&log);
        assert!(starts.windows(2).all(|pair| (pair[1] - pair[0]) * direction > 3000.0), "{starts:?}");
    }
}

fn wall_clock_starts(log: &Path) -> Vec<f64> {
    let log = fs::read_to_string(log).unwrap();
    let starts = log.lines().skip(1).map(|line| line.split('\t').nth(1).unwrap().parse().unwrap());
    starts.collect()
}
