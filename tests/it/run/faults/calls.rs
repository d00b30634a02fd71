//! Each system call of a run fails once, in turn: no fault may make the run hang, lose anything silently or end with a
//! wrong status.
//!
//! By default only a few calls of each kind fail; with `THROTTLE_FAULTS=all`, every one does.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use crate::strace::needs_strace;
use crate::support::{Directory, HANG, THROTTLE, text};

/// System calls, and errors that they may return at any time. No `mmap`: without memory for the heap, std aborts.
const FAULTS: [(&str, &[&str]); 29] = [
    ("clock_nanosleep", &["EINTR"]),
    ("clone", &["EAGAIN"]),
    ("clone3", &["EAGAIN"]),
    ("dup", &["EMFILE"]),
    ("dup3", &["EMFILE"]),
    ("fallocate", &["ENOSPC"]),
    ("fcntl", &["EINVAL", "EMFILE"]),
    ("fdatasync", &["EIO"]),
    ("flock", &["ENOLCK", "EINTR"]),
    ("fstat", &["EIO"]),
    ("fsync", &["EIO"]),
    ("ftruncate", &["EIO"]),
    ("lseek", &["EIO"]),
    ("mkdir", &["EACCES"]),
    ("newfstatat", &["EIO"]),
    ("openat", &["EMFILE", "ENOSPC"]),
    ("pipe2", &["EMFILE"]),
    ("poll", &["ENOMEM", "EINTR"]),
    ("ppoll", &["ENOMEM", "EINTR"]),
    ("pread64", &["EIO"]),
    ("pwrite64", &["ENOSPC"]),
    ("read", &["EIO"]),
    ("socketpair", &["EMFILE"]),
    ("statx", &["EIO"]),
    ("unlink", &["EIO"]),
    ("vfork", &["EAGAIN"]),
    ("wait4", &["EINTR"]),
    ("waitid", &["EINTR"]),
    ("write", &["EIO", "ENOSPC"]),
];

/// The exit statuses of a run that could not do everything.
const FAILURES: [i32; 8] = [1, 65, 69, 75, 78, 123, 126, 127];

const INPUT: &str = "1\n2\n3\n4\n";

/// A run, and what shows that it did everything.
struct Run {
    args: &'static [&'static str],
    /// Its standard output.
    output: &'static str,
    /// The number of lines in its log.
    log_lines: usize,
}

struct Traced {
    strace: PathBuf,
    directory: Directory,
}

impl Traced {
    fn run(&self, run: &Run, expressions: &[String]) -> std::process::Output {
        let mut command = assert_cmd::Command::new(&self.strace);
        command.args(["-f", "--seccomp-bpf", "-qq", "-o", "trace"]).current_dir(self.directory.path());
        expressions.iter().for_each(|expression| _ = command.args(["-e", expression]));
        command.arg(THROTTLE).args(run.args).write_stdin(INPUT).timeout(HANG);
        command.output().expect("it does not hang")
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn a_filter_survives_any_call_that_fails() {
    survives(&Run { args: &["-n2", "-p10ms"], output: INPUT, log_lines: 0 });
}

#[test]
fn commands_survive_any_call_that_fails() {
    survives(&Run { args: &["-r1T/s", "-j2", "-k", "--", "echo"], output: INPUT, log_lines: 0 });
}

#[test]
fn a_log_survives_any_call_that_fails() {
    survives(&Run { args: &["-r1T/s", "--log", "log", "--", "true"], output: "", log_lines: 5 });
}

#[test]
fn a_state_survives_any_call_that_fails() {
    survives(&Run { args: &["-r1000/s", "-s", "./state"], output: INPUT, log_lines: 0 });
}

fn survives(run: &Run) {
    let Some(strace) = needs_strace() else { return };
    let counts = calls(&Traced { strace: strace.clone(), directory: Directory::new() }, run);
    let mut tried = 0;
    for (call, errors) in FAULTS {
        let Some(&(loaders, last)) = counts.get(call) else { continue };
        for error in errors {
            for when in chosen(loaders, last) {
                let traced = Traced { strace: strace.clone(), directory: Directory::new() };
                let fault = format!("{call}:error={error}:when={when}");
                check(&traced, run, &fault);
                tried += 1;
            }
        }
    }
    println!("{tried} faults");
    assert!(tried > 10);
}

/// The numbers of the calls that fail, each in its own run. Calls are counted per thread.
///
/// The loader makes the first calls of the main thread.
fn chosen(loaders: usize, last: usize) -> impl Iterator<Item = usize> {
    let is_wide = env::var("THROTTLE_FAULTS").is_ok_and(|which| which == "all");
    let most = if is_wide { last } else { loaders + 2 };
    (1..=last).filter(move |&when| when <= 2 || (loaders < when && when <= most))
}

fn check(traced: &Traced, run: &Run, fault: &str) {
    let call = fault.split(':').next().expect("a call");
    let output = traced.run(run, &[format!("trace={call}"), format!("inject={fault}")]);
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    let log = traced.file("log");
    let what = format!("{fault} {:?}: {} {printed:?} {told:?} {log:?}", run.args, output.status);
    match output.status.code() {
        Some(0) => {
            assert_eq!(printed, run.output, "{what}");
            assert_eq!(log.lines().count(), run.log_lines, "{what}");
        }
        // A call that a signal interrupts is made again.
        Some(status) if FAILURES.contains(&status) && !fault.contains("error=EINTR") => {
            // The output of one command may be lost, with a message, while others go on.
            let is_part = run.args.contains(&"--") && printed.lines().all(|line| run.output.contains(line));
            assert!(run.output.starts_with(&printed) || is_part, "{what}");
            assert!(!told.is_empty() || call == "write", "{what}");
        }
        _ => panic!("{what}"),
    }
}

/// For each kind of call, the number that the loader makes and the most that any thread makes.
fn calls(traced: &Traced, run: &Run) -> BTreeMap<String, (usize, usize)> {
    let output = traced.run(run, &[]);
    assert!(output.status.success(), "{output:?}");
    let trace = traced.file("trace");
    let mut threads: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut has_started = false;
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((call, arguments)) = call.trim_start().split_once('(') else { continue };
        let count = threads.entry(thread).or_default().entry(call).or_default();
        *count += 1;
        let (before, most) = counts.entry(call.to_owned()).or_default();
        *most = (*most).max(*count);
        if !has_started {
            *before = *count;
        }
        // The first that the program does is to look whether stdin is open.
        has_started |= call == "fcntl" && arguments.starts_with("0, F_GETFD");
    }
    assert!(has_started, "{trace}");
    counts
}
