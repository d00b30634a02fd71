//! Readers that stall: a release counts from the end of its write, and the limit holds from then on, shared or not.
//!
//! strace stamps the start and the end of each write, and stops the process to do so. The start it sees is therefore no
//! earlier than the last look at the clock, and the end no later than the next one.

#[cfg(feature = "sqlite")]
mod late;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::strace::needs_strace;
use crate::support::{Directory, Running, THROTTLE, pipe};

/// A run whose reader stalls.
#[derive(Clone, Copy)]
struct Case {
    args: &'static [&'static str],
    /// N, and P in milliseconds.
    limit: (usize, u64),
    items: usize,
    /// The length of an item.
    bytes: usize,
    /// How long nothing is read at first, and after each chunk.
    stall: (Duration, Duration),
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The pipe holds up to 1 MiB, so either more than that is under way, or an item is larger: its write begins in its
/// slot and ends when it is read.
const CASES: [Case; 4] = [
    Case { args: &["-r1/300ms"], limit: (1, 300), items: 4, bytes: 1_500_000, stall: (ms(700), ms(0)) },
    Case { args: &["-r20/300ms"], limit: (20, 300), items: 80, bytes: 60_000, stall: (ms(800), ms(0)) },
    Case { args: &["-r50/200ms"], limit: (50, 200), items: 150, bytes: 30_000, stall: (ms(0), ms(20)) },
    Case {
        args: &["-r100/s,algo=interval"],
        limit: (1, 10),
        items: 60,
        bytes: 100_000,
        stall: (ms(300), ms(10)),
    },
];

impl Case {
    /// Runs it, with the limits kept in `state` if that is given.
    fn run(&self, strace: &Path, state: Option<&str>) {
        let directory = Directory::new();
        let trace = directory.path().join("trace");
        let item = [vec![b'x'; self.bytes - 1], b"\n".to_vec()].concat();
        let input = directory.file("input", item.repeat(self.items));
        let (mut reader, writer) = pipe();
        let mut command = Command::new(strace);
        command.args(["-f", "-ttt", "-T", "-s0", "-e", "trace=write,writev", "-o"]).arg(&trace);
        command
            .args([THROTTLE, "-q"])
            .args(self.args)
            .args(state.map(|state| ["-s", state]).into_iter().flatten());
        let input = fs::File::open(input).expect("the input");
        let mut running = Running::spawn(command.stdin(input).stdout(writer));
        drop(command);
        thread::sleep(self.stall.0);
        let mut chunk = vec![0; 1 << 16];
        let mut read = 0;
        while let length @ 1.. = reader.read(&mut chunk).expect("the output") {
            read += length;
            thread::sleep(self.stall.1);
        }
        assert!(running.wait().success());
        assert_eq!(read, self.items * self.bytes);
        self.check(&fs::read_to_string(trace).expect("a trace"), state);
    }

    fn check(&self, trace: &str, state: Option<&str>) {
        let releases = releases(&writes(trace), self.bytes);
        assert_eq!(releases.len(), self.items, "{:?}", self.args);
        let (count, period) = self.limit;
        let apart =
            releases.iter().zip(&releases[count..]).map(|(first, next)| next.0.saturating_sub(first.1));
        let closest = apart.min().expect("more than the limit");
        // Stamps are truncated to the microsecond.
        assert!(closest + 2 >= period * 1000, "{:?} {state:?}: {closest} us", self.args);
    }
}

/// A write to standard output: its start and its end in microseconds, and the number of bytes.
type Stamped = (u64, u64, usize);

/// The writes in a trace, of lines such as `12 1.000000 write(1, ""..., 8) = 8 <0.000011>`, or in two halves if
/// something else happened in between.
fn writes(trace: &str) -> Vec<Stamped> {
    let mut begun = None;
    let mut writes = Vec::new();
    for line in trace.lines() {
        let mut words = line.split_whitespace();
        let thread = words.next();
        let Some(stamp) = words.next().and_then(micros) else { continue };
        if line.contains(" write(1, ") {
            begun = Some((thread, stamp));
        }
        let is_end = line.contains(" write(1, ") || line.contains("<... write resumed>");
        let Some((taken, lasted)) = line.rsplit_once(" = ").and_then(|(_, end)| end.split_once(" <")) else {
            continue;
        };
        if let Some((_, start)) = begun.take_if(|(begun, _)| is_end && *begun == thread) {
            let lasted = if line.contains("resumed") {
                0
            } else {
                micros(lasted.trim_end_matches('>')).expect("a time")
            };
            let taken = match taken.split_whitespace().next() {
                // A signal interrupted it; what is left of it follows.
                Some("-1" | "?") => 0,
                bytes => bytes.and_then(|bytes| bytes.parse().ok()).expect("a number of bytes"),
            };
            writes.push((start, stamp + lasted, taken));
        }
    }
    writes
}

/// Parses seconds with six decimals.
fn micros(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 1_000_000 + part.parse::<u64>().ok()?)
}

/// When each item began to leave and when it had left.
fn releases(writes: &[Stamped], bytes: usize) -> Vec<(u64, u64)> {
    let (mut releases, mut position, mut start) = (Vec::new(), 0, 0);
    for &(began, ended, mut taken) in writes {
        while taken > 0 {
            let piece = taken.min(bytes - position);
            start = if position == 0 { began } else { start };
            position = (position + piece) % bytes;
            taken -= piece;
            if position == 0 {
                releases.push((start, ended));
            }
        }
    }
    releases
}

fn check_all(state: impl Fn(usize) -> Option<String>) {
    let Some(strace) = needs_strace() else { return };
    thread::scope(|scope| {
        for (number, case) in CASES.iter().enumerate() {
            let (strace, state) = (strace.as_path(), state(number));
            scope.spawn(move || case.run(strace, state.as_deref()));
        }
    });
}

#[test]
fn a_limit_of_ones_own() {
    check_all(|_| None);
}

#[cfg(feature = "sqlite")]
#[test]
fn a_limit_in_a_file() {
    let directory = Directory::new();
    check_all(|number| Some(directory.path().join(number.to_string()).display().to_string()));
}

#[cfg(feature = "redis")]
#[test]
fn a_limit_on_a_server() {
    let Some(server) = crate::store::redis::server::RedisServer::start() else { return };
    check_all(|number| Some(server.url(&number.to_string())));
}
