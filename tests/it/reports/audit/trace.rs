//! When releases really happened, as seen by the kernel: on entry to the system call and on exit from it.
//!
//! The program reads the clock before the entry and after the exit, so what it guarantees for the instants it reads
//! holds for these all the more.

use std::collections::HashMap;
use std::fs;
use std::io::PipeReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::strace::needs_strace;
use crate::support::{Directory, Running, THROTTLE, drain, eventually, pipe};

/// From entry to exit, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The program under strace. With -D it is our child, rather than strace's, so signals reach it.
pub(super) struct Traced {
    pub(super) running: Running,
    directory: Directory,
}

impl Traced {
    /// Starts it with a thread that reads its standard output to the end.
    pub(super) fn start(args: &[&str]) -> Option<Self> {
        let (reader, traced) = Self::start_unread(args)?;
        drain(reader);
        Some(traced)
    }

    pub(super) fn start_unread(args: &[&str]) -> Option<(PipeReader, Self)> {
        let strace = needs_strace()?;
        let directory = Directory::new();
        let (reader, writer) = pipe();
        let mut command = Command::new(strace);
        command.args(["-D", "-f", "--seccomp-bpf", "--relative-timestamps=ns", "--syscall-times=ns"]);
        command.args(["-s0", "-e", "trace=write,clone,clone3,fork,vfork", "-o"]);
        command.arg(directory.path().join("trace")).arg(THROTTLE).args(args);
        command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::null());
        Some((reader, Traced { running: Running::spawn(&mut command), directory }))
    }

    /// Stops the program, does something meanwhile, and lets the program continue.
    pub(super) fn stopped<T>(&mut self, meanwhile: impl FnOnce(&mut Running) -> T) -> T {
        self.running.signal(Signal::SIGSTOP);
        let done = meanwhile(&mut self.running);
        self.running.signal(Signal::SIGCONT);
        done
    }

    /// Waits for the end and returns the system calls.
    pub(super) fn finish(mut self) -> Vec<Call> {
        self.running.close_stdin();
        assert!(self.running.wait().success());
        let trace = self.directory.path().join("trace");
        let end = format!("{} ", self.running.pid());
        let is_last = |line: &str| line.starts_with(&end) && line.ends_with("+++ exited with 0 +++");
        eventually("the trace is complete", || read(&trace).lines().any(is_last));
        calls(&read(&trace))
    }
}

fn read(trace: &PathBuf) -> String {
    fs::read_to_string(trace).unwrap_or_default()
}

/// A system call that succeeded.
pub(super) struct Call {
    /// As it was called: `write(1, ""..., 80`.
    text: String,
    result: u64,
    span: Span,
}

/// The span of each record of `size` bytes on standard output: from the write of its first byte to that of its last.
pub(super) fn written(calls: &[Call], size: u64) -> Vec<Span> {
    let (mut records, mut bytes, mut start) = (Vec::new(), 0, None);
    for call in calls.iter().filter(|call| call.text.starts_with("write(1,")) {
        let whole = bytes / size;
        bytes += call.result;
        for _ in whole..bytes / size {
            let start = start.take().unwrap_or(call.span.start);
            records.push(Span { start, ..call.span });
        }
        if !bytes.is_multiple_of(size) {
            start.get_or_insert(call.span.start);
        }
    }
    records
}

/// The starts of commands.
pub(super) fn started(calls: &[Call]) -> Vec<Span> {
    let starts = calls.iter().filter(|call| call.text.contains("fork") || call.text.contains("CLONE_VFORK"));
    starts.map(|call| call.span).collect()
}

/// Parses lines such as these, with the time since the previous line:
///
/// ```text
/// 7 0.000690300 write(1, ""..., 8) = 8 <0.001325397>
/// 7 0.100051993 clone3({flags=CLONE_VM|CLONE_VFORK}, 88 <unfinished ...>
/// 7 0.009588239 <... clone3 resumed>) = 9 <0.009853343>
/// ```
fn calls(trace: &str) -> Vec<Call> {
    let (mut now, mut unfinished) = (0, HashMap::new());
    trace.lines().filter_map(|line| call(line, &mut now, &mut unfinished)).collect()
}

fn call<'a>(line: &'a str, now: &mut u64, unfinished: &mut HashMap<&'a str, (u64, &'a str)>) -> Option<Call> {
    let (process, line) = line.split_once(' ')?;
    let (since, line) = line.trim_start().split_once(' ')?;
    *now += nanoseconds(since);
    if let Some(text) = line.strip_suffix(" <unfinished ...>") {
        unfinished.insert(process, (*now, text));
        return None;
    }
    let (call, outcome) = line.rsplit_once(" = ")?;
    let (result, took) = outcome.split_once(" <")?;
    let is_resumed = call.starts_with("<... ");
    let (start, text) = if is_resumed { unfinished.remove(process)? } else { (*now, call) };
    let span = Span { start, end: start + nanoseconds(took.trim_end_matches('>')) };
    // A failed call has a result of -1, or ? if it is restarted.
    Some(Call { text: text.to_owned(), result: result.parse().ok()?, span })
}

/// Parses seconds with nine decimals.
fn nanoseconds(seconds: &str) -> u64 {
    seconds.replace('.', "").parse().expect("nine decimals")
}
