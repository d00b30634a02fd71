//! Readers of commands' output that stall, and a signal meanwhile: nothing counts as done that was not printed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::assert_killed_by;
use crate::support::{
    Directory, Running, THROTTLE, UNLIMITED, eventually, is_ignored, numbers, pipe, seeds, text,
};

/// The default capacity of a pipe.
const PIPE: usize = 64 << 10;

/// The items that a log records as done.
fn done(log: &Path) -> BTreeSet<u32> {
    let log = fs::read_to_string(log).unwrap_or_default();
    let fields = log.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let completed = fields.filter(|fields| fields[5..7] == ["0", "0"]);
    completed
        .flat_map(|fields| fields[7..].iter().map(|item| item.parse().expect("a number")).collect::<Vec<_>>())
        .collect()
}

#[test]
fn output_that_a_signal_cuts_off_is_told_and_not_done_in_the_log() {
    let print = "head -c 300000 /dev/zero; printf x; exit 0";
    let fail_once = format!("[ $THROTTLE_ATTEMPT = 1 ] && exit 1; {print}");
    let table: [(&[&str], &str, &str); 6] = [
        (&["-j2"], print, "1\n"),
        (&["-j2", "-k"], print, "1\n"),
        (&["-j2", "-B2"], print, "1\n2\n"),
        (&["-j2", "-k", "-B2", "--retries=1", "--backoff=0..0"], &fail_once, "1\n2\n"),
        // Later output is not printed behind a piece of another.
        (&["-j2", "-k", "--timeout=9"], print, "1\n2\n"),
        (&["-j2", "--stats=json"], "head -c 300000 /dev/zero >&2", "1\n"),
    ];
    let signals = [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    for ((args, script, items), signal) in table.into_iter().zip(signals.cycle()) {
        let directory = Directory::new();
        let log = ["--log", "log", "--", "sh", "-c", script, "sh"];
        let mut start = Command::new(THROTTLE);
        start.arg(UNLIMITED).args(args).args(log).current_dir(directory.path());
        let mut running = Running::start(&mut start);
        running.write(items);
        running.close_stdin();
        // Pieces of an output may not share a page of the pipe.
        running.has_printed(PIPE / 2);
        running.signal(signal);
        // Nothing is read meanwhile, or the reader would have gone on just in time.
        running.wait();
        let output = running.collect();
        assert_killed_by(signal, &output);
        assert!(!output.stdout.ends_with(b"x"));
        assert_eq!(done(&directory.path().join("log")), BTreeSet::new(), "{args:?}");
        if !script.contains(">&2") {
            assert!((PIPE / 2..=PIPE).contains(&output.stdout.len()), "{}", output.stdout.len());
            assert!(text(&output.stderr).contains("is missing or incomplete\n"), "{output:?}");
            let again = [&[UNLIMITED, "--resume"], args, &log].concat();
            let again = directory.throttle(&again).write_stdin(items).output().unwrap();
            assert!(again.status.success() && again.stdout.len() > 300_000, "{args:?}");
        }
    }
}

#[test]
fn what_is_held_for_its_turn_is_not_done_yet() {
    let directory = Directory::new();
    let mut start = Command::new(THROTTLE);
    start.args([UNLIMITED, "-kj3", "--log", "log", "--", "sh", "-c"]);
    start.args(["[ $1 = 2 ] || : >$1; [ $1 != 2 ] || while ! [ -e go ]; do sleep 0.02; done; echo $1", "sh"]);
    let mut running = Running::start(start.current_dir(directory.path()));
    running.write("1\n2\n3\n");
    let log = directory.path().join("log");
    eventually("the first is printed", || done(&log).contains(&1));
    eventually("the last has ended", || directory.path().join("3").exists());
    thread::sleep(Duration::from_millis(100));
    assert_eq!(done(&log), [1].into());
    directory.file("go", "");
    let output = running.finish();
    assert_eq!((text(&output.stdout), done(&log)), ("1\n2\n3\n".into(), [1, 2, 3].into()));
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn what_a_full_disk_does_not_take_is_not_done() {
    for args in ["-j2", "-kj2", "-B2 -j2"] {
        let directory = Directory::new();
        let script = format!("printf '1\\n2\\n' | throttle -r1T/s {args} --log log -- echo >/dev/full");
        directory.sh(&script).assert().code(1);
        assert_eq!(done(&directory.path().join("log")), BTreeSet::new(), "{args}");
    }
}

/// A slow reader does not make a start look later than it was.
#[test]
fn the_log_has_the_starts_as_they_were_however_long_printing_takes() {
    let directory = Directory::new();
    let mut start = Command::new(THROTTLE);
    start.args([UNLIMITED, "-j2", "--log", "log", "--", "sh", "-c"]);
    start.args(["date +%s.%N >>started; [ $1 = 2 ] && exit 0; head -c 300000 /dev/zero", "sh"]);
    let mut running = Running::start(start.current_dir(directory.path()));
    running.write("1\n");
    thread::sleep(Duration::from_millis(600));
    assert_eq!(running.finish().stdout.len(), 300_000);
    let read = |name| fs::read_to_string(directory.path().join(name)).unwrap();
    let started: f64 = read("started").trim().parse().unwrap();
    let log = read("log");
    let noted: f64 = log.lines().nth(1).unwrap().split('\t').nth(1).unwrap().parse().unwrap();
    // The command records its start once it runs.
    assert!(noted <= started, "{noted} {started}");
}

/// A run that is interrupted at some moment.
struct Case {
    args: Vec<&'static str>,
    items: u32,
    size: usize,
    on_stderr: bool,
    is_again: bool,
    signal: Signal,
    at: Duration,
}

impl Case {
    fn random(random: &mut Rng) -> Self {
        let ways: [&[&str]; 6] =
            [&["-j1"], &["-j3"], &["-j3", "-k"], &["-u"], &["-j2", "-k", "-B2"], &["-j4", "-n2", "-p100ms"]];
        let mut args = random.choice(ways).expect("some").to_vec();
        let is_again = random.bool();
        if is_again {
            args.extend(["--retries=2", "--backoff=0..0.05"]);
        }
        let mut signals = vec![SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGKILL];
        signals.retain(|&signal| !is_ignored(signal));
        Case {
            args,
            items: random.u32(1..8),
            size: *random.choice(&[10, 20_000, PIPE, 150_000]).expect("some"),
            on_stderr: random.u8(..4) == 0,
            is_again,
            signal: random.choice(signals).expect("some"),
            at: Duration::from_millis(random.u64(..600)),
        }
    }

    /// Prints a block for each item. If there is a second attempt, the first prints only a piece of a block.
    fn script(&self) -> String {
        let fail = "[ $THROTTLE_ATTEMPT = 1 ] && { printf \"(piece\"; exit 3; };";
        let fail = if self.is_again { fail } else { "" };
        let print = format!(
            "sleep 0.0$((i % 4)); printf \"<$i:\"; head -c {} /dev/zero | tr '\\0' x; printf \">\"",
            self.size
        );
        let to = if self.on_stderr { ">&2" } else { "" };
        format!("{{ {fail} for i; do {print}; done; }} {to}")
    }

    /// What an item prints.
    fn block(&self, item: u32) -> String {
        format!("<{item}:{}>", "x".repeat(self.size))
    }

    /// The items that were printed completely.
    fn printed(&self, output: &str) -> BTreeSet<u32> {
        (1..=self.items).filter(|&item| output.contains(&self.block(item))).collect()
    }

    /// Starts the run, and a reader of its output.
    fn start(
        &self,
        directory: &Directory,
        reader: impl FnOnce(PipeReader) -> String + Send + 'static,
    ) -> Run {
        let items: PathBuf = directory.file("items", numbers(self.items));
        let (read, write) = pipe();
        let mut start = Command::new(THROTTLE);
        start.args(["-q", "-a"]).arg(items).args(&self.args);
        if !self.args.contains(&"-n2") {
            start.arg(UNLIMITED);
        }
        start.args(["--log", "log", "--resume", "--", "sh", "-c", &self.script(), "sh"]);
        start.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if self.on_stderr {
            start.stderr(write)
        } else {
            start.stdout(write)
        };
        Run { running: Running::spawn(&mut start), reader: thread::spawn(move || reader(read)) }
    }
}

struct Run {
    running: Running,
    reader: JoinHandle<String>,
}

impl Run {
    /// The exit status of the run, and the output that was read.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.running.wait();
        (status, self.reader.join().expect("read"))
    }
}

/// Reads, with pauses until all is over.
fn read_slowly(mut from: PipeReader, mut random: Rng, is_over: &AtomicBool) -> String {
    let (mut all, mut buffer) = (Vec::new(), vec![0; PIPE]);
    // With the last one, nothing more is read until the run is over.
    let pace = *random.choice(&[1, 100, u64::MAX]).expect("some");
    loop {
        let mut pauses = random.u64(..pace);
        while pauses > 0 && !is_over.load(SeqCst) {
            pauses -= 1;
            thread::sleep(Duration::from_millis(1));
        }
        match from.read(&mut buffer).expect("readable") {
            0 => return String::from_utf8(all).expect("text"),
            length => all.extend_from_slice(&buffer[..length]),
        }
    }
}

fn read_all(mut from: PipeReader) -> String {
    let mut all = String::new();
    from.read_to_string(&mut all).expect("text");
    all
}

#[test]
fn at_whatever_moment_a_run_is_interrupted_what_was_not_printed_is_not_done() {
    // Side by side, as most of the time is spent waiting.
    thread::scope(|scope| {
        for seed in seeds(8) {
            scope.spawn(move || check(seed));
        }
    });
}

fn check(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let case = Case::random(&mut random);
    let directory = Directory::new();
    let log = directory.path().join("log");
    let is_over = Arc::new(AtomicBool::new(false));
    let slowly = {
        let is_over = Arc::clone(&is_over);
        move |from| read_slowly(from, random, &is_over)
    };
    let mut run = case.start(&directory, slowly);
    thread::sleep(case.at);
    run.running.signal(case.signal);
    run.running.wait();
    let noted = done(&log);
    is_over.store(true, SeqCst);
    let (status, output) = run.end();
    let printed = case.printed(&output);
    let told = format!("seed {seed}: {status}, printed {printed:?}, done {noted:?}, {:?}", case.args);
    println!("{told}");
    let all: BTreeSet<_> = (1..=case.items).collect();
    assert!(noted.is_subset(&printed), "{told}");
    match status.signal() {
        None => assert!(status.success() && noted == all, "{told}"),
        signal => assert_eq!(signal, Some(case.signal as i32), "{told}"),
    }
    let (status, output) = case.start(&directory, read_all).end();
    assert!(status.success(), "{told}, then {status}");
    assert_eq!(case.printed(&output), all.difference(&noted).copied().collect(), "{told}");
    assert_eq!(done(&log), all, "{told}");
}
