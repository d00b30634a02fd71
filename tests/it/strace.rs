//! System calls that fail or do half the work, as they may at any time but hardly ever do.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::libc::O_NONBLOCK;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use predicates::str::starts_with;

use crate::support::{
    Directory, HANG, Running, THROTTLE, UNLIMITED, eventually, needs_program, noise, pipe, set_nonblocking,
};

/// A run from one file to another under strace, which tampers only with calls on those files.
struct Tampered {
    directory: Directory,
    strace: PathBuf,
}

impl Tampered {
    fn new(input: &[u8]) -> Option<Self> {
        let strace = needs_strace()?;
        let directory = Directory::new();
        directory.file("input", input);
        directory.file("output", "");
        Some(Tampered { directory, strace })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, calls: &str, injection: &str) -> assert_cmd::assert::Assert {
        let mut command = assert_cmd::Command::new("sh");
        command.args(["-c", "exec \"$@\" < input > output", "sh"]).current_dir(self.directory.path());
        command.arg(&self.strace).args(["-f", "-o", "trace", "-P"]).arg(self.path("input"));
        command.arg("-P").arg(self.path("output")).args(["-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={injection}"), THROTTLE, UNLIMITED]);
        command.timeout(HANG).assert()
    }

    fn has_injected(&self) -> bool {
        fs::read_to_string(self.path("trace")).unwrap().contains("(INJECTED)")
    }
}

/// strace, if it may trace here: some sandboxes forbid it.
pub(crate) fn needs_strace() -> Option<PathBuf> {
    let strace = needs_program("strace")?;
    let works =
        Command::new(&strace).args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success());
    if !works {
        assert!(std::env::var_os("CI").is_none(), "strace may not trace here, and is required under CI");
        eprintln!("skipped: strace may not trace here");
    }
    works.then_some(strace)
}

#[test]
fn calls_that_are_interrupted_or_would_block_lose_nothing() {
    let input = noise(5, 600_000);
    for call in ["read", "write"] {
        for error in ["EINTR", "EAGAIN"] {
            for when in ["1", "1+2", "1..5", "2+3"] {
                let Some(tampered) = Tampered::new(&input) else { return };
                let injection = format!("{call}:error={error}:when={when}");
                tampered.run("read,write", &injection).success().stderr("");
                assert!(tampered.has_injected(), "{injection}");
                assert!(fs::read(tampered.path("output")).unwrap() == input, "{injection}");
            }
        }
    }
}

/// A sandbox may forbid what it does not know.
#[test]
fn calls_that_are_always_refused_have_a_substitute() {
    let Some(strace) = needs_strace() else { return };
    let runs: [&[&str]; 3] = [&["-n2", "-p10ms"], &[UNLIMITED, "echo"], &[UNLIMITED, "-j2", "-k", "echo"]];
    for (call, error) in [("ppoll", "ENOSYS"), ("ppoll", "EPERM"), ("waitid", "ENOSYS"), ("waitid", "EPERM")]
    {
        for args in runs {
            let mut command = assert_cmd::Command::new(&strace);
            command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:error={error}"), THROTTLE]).args(args);
            command.write_stdin("1\n2\n3\n").timeout(HANG).assert().success().stdout("1\n2\n3\n").stderr("");
        }
    }
}

#[test]
fn a_write_that_fails_is_an_error_after_what_was_written() {
    // Each error comes at the second write; what the first one wrote is reported as released.
    let table = [("ENOSPC", "No space left on device"), ("EIO", "I/O error"), ("EFBIG", "File too large")];
    let input = b"a line\n".repeat(40_000);
    for (error, why) in table {
        let Some(tampered) = Tampered::new(&input) else { return };
        let told = format!("throttle: cannot write to standard output: {why}\nthrottle: ended early: ");
        tampered.run("write", &format!("write:error={error}:when=2+")).code(1).stderr(starts_with(told));
        let output = fs::read(tampered.path("output")).unwrap();
        assert!(!output.is_empty() && input.starts_with(&output));
    }
}

#[test]
fn a_read_that_fails_is_an_error_after_what_was_read() {
    let input = b"a line\n".repeat(40_000);
    let Some(tampered) = Tampered::new(&input) else { return };
    tampered
        .run("read", "read:error=EIO:when=2+")
        .code(1)
        .stderr(starts_with("throttle: cannot read the input: "));
    let output = fs::read(tampered.path("output")).unwrap();
    assert!(!output.is_empty() && input.starts_with(&output) && output.ends_with(b"\n"));
}

/// strace cannot shorten a write, only claim that it was short. A non-blocking pipe does shorten writes if it is read
/// only when it is full, and the trace proves it.
#[test]
fn short_writes_lose_nothing() {
    let Some(strace) = needs_strace() else { return };
    let directory = Directory::new();
    let input = noise(6, 3_000_000);
    let file = File::open(directory.file("input", &input)).unwrap();
    let trace = directory.path().join("trace");
    let (reader, writer) = pipe();
    set_nonblocking(&writer);
    let mut command = Command::new(strace);
    command.arg("-f").arg("-o").arg(&trace).args(["-e", "trace=write", THROTTLE, UNLIMITED]);
    let mut running = Running::spawn(command.stdin(file).stdout(writer));
    // It holds the writing end.
    drop(command);
    assert!(read_when_full(reader, &trace) == input);
    assert!(running.wait().success());
}

/// Just before the second read, another reader of a non-blocking pipe takes what was there.
#[test]
fn input_that_another_reader_has_taken_holds_nothing_up() {
    let Some(strace) = needs_strace() else { return };
    let directory = Directory::new();
    let path = directory.path().join("items");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let open = || File::options().read(true).write(true).custom_flags(O_NONBLOCK).open(&path).unwrap();
    let mut pipe = open();
    pipe.write_all(b"1\n2\n").unwrap();
    let mut command = Command::new(strace);
    command.args(["-f", "-o", "/dev/null", "-P"]).arg(&path).args(["-e", "trace=read"]);
    command.args(["-e", "inject=read:delay_enter=300000:when=2", THROTTLE, "-r1/500ms"]);
    let mut running = Running::spawn(command.stdin(open()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!(running.line(), "1\n");
    pipe.write_all(b"3\n").unwrap();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(pipe.read(&mut [0; 9]).expect("it was not read yet"), 2);
    assert_eq!(running.line(), "2\n");
}

/// The signal comes as early as possible: right after the first read.
#[test]
fn a_signal_at_the_start_leaves_a_seekable_stdin_where_it_was() {
    let Some(strace) = needs_strace() else { return };
    let directory = Directory::new();
    let path = directory.file("items", "1\n2\n3\n");
    let pid = directory.path().join("pid");
    let mut file = File::open(&path).unwrap();
    let mut command = Command::new(strace);
    command.args(["-f", "-o", "trace", "-P"]).arg(&path).args(["-e", "trace=read"]);
    command.args([
        "-e",
        "inject=read:delay_exit=300000:when=1",
        "sh",
        "-c",
        "echo $$ >pid; exec \"$@\"",
        "sh",
    ]);
    command.args([THROTTLE, "-r1/h,start=empty"]).current_dir(directory.path());
    let mut running = Running::spawn(command.stdin(file.try_clone().unwrap()).stderr(Stdio::null()));
    let trace = || fs::read_to_string(directory.path().join("trace")).unwrap_or_default();
    eventually("it has read", || trace().contains("read("));
    let pid = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    running.wait();
    assert_eq!(file.stream_position().unwrap(), 0);
}

/// Reads a little each time there was no room, until a write was short; then reads the rest.
fn read_when_full(mut from: impl Read, trace: &Path) -> Vec<u8> {
    let (mut all, mut chunk, mut before) = (Vec::new(), vec![0; 20_000], 0);
    while let (0, blocked) = short_writes(trace) {
        if blocked > before {
            let read = from.read(&mut chunk).unwrap();
            all.extend_from_slice(&chunk[..read]);
            before = blocked;
        }
        thread::sleep(Duration::from_millis(10));
    }
    from.read_to_end(&mut all).unwrap();
    all
}

/// The number of short writes to stdout, and of those that failed with EAGAIN: `1234 write(1, "..."..., 600) = 500`.
fn short_writes(trace: &Path) -> (usize, usize) {
    let trace = fs::read_to_string(trace).unwrap_or_default();
    let writes = trace.lines().filter(|line| line.contains("write(1, "));
    let ends = writes.filter_map(|line| line.rsplit_once(", ")?.1.split_once(") = "));
    let (mut short, mut blocked) = (0, 0);
    for (asked, written) in ends {
        blocked += usize::from(written.starts_with("-1 EAGAIN"));
        let both = asked.parse::<u64>().ok().zip(written.trim().parse::<u64>().ok());
        short += usize::from(both.is_some_and(|(asked, written)| written < asked));
    }
    (short, blocked)
}
