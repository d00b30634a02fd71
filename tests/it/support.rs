//! What all tests need: the program, in a shell or between pipes, and guards against hangs.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use assert_cmd::assert::{Assert, OutputAssertExt};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throttle::rule::{Algorithm, Extra};

pub(crate) use crate::random::{for_each_seed, seeds};

/// The program under test.
pub(crate) const THROTTLE: &str = env!("CARGO_BIN_EXE_throttle");

/// A limit that holds nothing up.
pub(crate) const UNLIMITED: &str = "-r1T/s";

/// Only a hang takes this long, however busy the machine is.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// Runs the program to its end.
pub(crate) fn throttle(args: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(THROTTLE);
    command.args(args).timeout(HANG);
    command
}

/// Runs the program to its end with this input.
pub(crate) fn fed(args: &[&str], input: impl Into<Vec<u8>>) -> Assert {
    throttle(args).write_stdin(input).assert()
}

/// Runs a shell script in which `throttle` is the program under test.
pub(crate) fn sh(script: &str) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::from_std(sh_command(script));
    command.timeout(HANG);
    command
}

/// A shell script in which `throttle` is the program under test.
pub(crate) fn sh_command(script: &str) -> Command {
    let ours = Path::new(THROTTLE).parent().expect("a directory");
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([ours.to_owned()].into_iter().chain(env::split_paths(&inherited)));
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PATH", path.expect("a path"));
    command
}

/// Runs a script with a file system in memory, mounted as `place` says, if one can be.
pub(crate) fn with_mount(place: &str, script: &str) -> Option<Output> {
    let unshare = |script: &str| {
        let mut command = sh_command("exec unshare -rm sh -c \"$1\"");
        command.args(["sh", script]).stdin(Stdio::null()).output().expect("sh")
    };
    let mount = format!("mount -t tmpfs {place}");
    if needs_program("unshare").is_none() || !unshare(&mount).status.success() {
        eprintln!("skipped: no file systems can be mounted here");
        return None;
    }
    Some(unshare(&format!("{mount}; {script}")))
}

/// The processor time of the program and its commands, in user mode.
pub(crate) fn cpu_time(args: &[&str], input: &str) -> Duration {
    let mut command = sh_command("throttle \"$@\" >/dev/null && times");
    command.arg("sh").args(args);
    let output =
        assert_cmd::Command::from_std(command).timeout(HANG).write_stdin(input).output().expect("sh");
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    // The last line is about the shell's children: `1m2.34s 0m0.12s`, user and system.
    let told = text(&output.stdout);
    let user = told.lines().last().and_then(|line| line.split(' ').next()?.strip_suffix('s'));
    let (minutes, seconds) = user.and_then(|user| user.split_once('m')).expect("what `times` prints");
    let minutes: f64 = minutes.parse().expect("minutes");
    Duration::from_secs_f64(minutes * 60.0 + seconds.parse::<f64>().expect("seconds"))
}

/// The path of a program, if there is one. A test that needs it may be skipped, but not under CI on Linux.
pub(crate) fn needs_program(name: &str) -> Option<PathBuf> {
    let inherited = env::var_os("PATH").unwrap_or_default();
    // Servers are installed where only root looks for programs.
    let directories = env::split_paths(&inherited).chain([PathBuf::from("/usr/sbin")]);
    let found = directories.map(|directory| directory.join(name)).find(|path| path.is_file());
    if found.is_none() {
        let is_required = cfg!(target_os = "linux") && env::var_os("CI").is_some();
        assert!(!is_required, "{name} is missing, and required under CI");
        eprintln!("skipped: {name} is missing");
    }
    found
}

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "still not: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The parent of the directories of tests. Shell scripts and `LD_PRELOAD` split their paths at spaces, so it is not in
/// a clone whose path has any, or anything else that a shell might read in its own way.
fn scratch() -> &'static Path {
    let path = env!("CARGO_TARGET_TMPDIR");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    Path::new(if path.bytes().all(is_plain) { path } else { "/tmp" })
}

/// A directory that is removed at the end of a test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("it-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = scratch().join(name);
        fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        path
    }

    /// [Runs the program](throttle) in it.
    pub(crate) fn throttle(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = throttle(args);
        command.current_dir(&self.0);
        command
    }

    /// [Runs a shell script](sh) in it.
    pub(crate) fn sh(&self, script: &str) -> assert_cmd::Command {
        let mut command = sh(script);
        command.current_dir(&self.0);
        command
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process whose streams are pipes to the test. It does not outlive the test.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// The program under test.
    pub(crate) fn throttle(args: &[&str]) -> Self {
        Running::start(Command::new(THROTTLE).args(args))
    }

    /// The program under test, with this on its standard input, which stays open.
    pub(crate) fn fed(args: &[&str], input: impl AsRef<[u8]>) -> Self {
        let mut running = Running::throttle(args);
        running.write(input);
        running
    }

    /// Any program.
    pub(crate) fn start(command: &mut Command) -> Self {
        Running::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Any program, with the streams that the command says.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Running { child: command.spawn().expect("a process") }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is running");
    }

    /// Stops it, and waits until it has stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        eventually("it is stopped", || is_stopped(self.pid()));
    }

    /// Writes to its standard input, which stays open.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.child.stdin.as_mut().expect("open").write_all(bytes.as_ref()).expect("it reads");
    }

    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.child.stdout = None;
    }

    /// The next line on its standard output.
    pub(crate) fn line(&mut self) -> String {
        read_line(self.child.stdout.as_mut().expect("open"))
    }

    /// Whether there is something to read on its standard output.
    pub(crate) fn is_readable(&self) -> bool {
        is_readable(self.child.stdout.as_ref().expect("open").as_fd(), Duration::ZERO)
    }

    /// Whether there is something to read on its standard error.
    pub(crate) fn has_told(&self) -> bool {
        is_readable(self.child.stderr.as_ref().expect("open").as_fd(), Duration::ZERO)
    }

    /// Waits until this number of bytes can be read on its standard output and error, together.
    pub(crate) fn has_printed(&self, bytes: usize) {
        let streams =
            [self.child.stdout.as_ref().map(AsFd::as_fd), self.child.stderr.as_ref().map(AsFd::as_fd)];
        eventually("it has printed", || streams.into_iter().flatten().map(unread).sum::<usize>() >= bytes);
    }

    /// The next line on its standard error.
    pub(crate) fn error_line(&mut self) -> String {
        read_line(self.child.stderr.as_mut().expect("open"))
    }

    /// Writes `chunk` to it over and over until it takes no more. Returns the number of bytes that it took.
    pub(crate) fn fill(&mut self, chunk: &[u8]) -> usize {
        let stdin = self.child.stdin.as_mut().expect("open");
        set_nonblocking(&mut *stdin);
        let (mut taken, mut last) = (0, Instant::now());
        // A pause this long proves nothing, but a wrong guess only makes the test less strict.
        while last.elapsed() < Duration::from_millis(400) {
            match stdin.write(&chunk[taken % chunk.len()..]) {
                Ok(written) => (taken, last) = (taken + written, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("cannot write after {taken} bytes: {error}"),
            }
            assert!(taken < 1 << 30, "it takes no end of input");
        }
        taken
    }

    /// Closes its input and waits for its end. Returns the output that was not read yet.
    pub(crate) fn finish(mut self) -> Output {
        self.close_stdin();
        self.collect()
    }

    /// As [`finish`](Self::finish), with its input left open: it ends for another reason.
    pub(crate) fn collect(mut self) -> Output {
        let stdout = self.child.stdout.take().map(drain);
        let stderr = self.child.stderr.take().map(drain);
        let status = self.wait();
        let all = |reader: Option<JoinHandle<Vec<u8>>>| {
            reader.map(|reader| reader.join().expect("read")).unwrap_or_default()
        };
        Output { status, stdout: all(stdout), stderr: all(stderr) }
    }

    /// As [`finish`](Self::finish), to be judged.
    pub(crate) fn ends(self) -> Assert {
        self.finish().assert()
    }

    /// Waits for its end without reading what it writes.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process has ended", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end, on a thread.
pub(crate) fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).expect("readable");
        all
    })
}

/// Reads a line byte by byte, which leaves the rest to the next reader.
fn read_line(from: &mut (impl Read + AsFd)) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        assert!(is_readable(from.as_fd(), HANG), "no whole line came, only '{}'", line.escape_ascii());
        let mut byte = [0];
        match from.read(&mut byte).expect("readable") {
            0 => panic!("the end came after '{}'", line.escape_ascii()),
            _ => line.push(byte[0]),
        }
    }
    String::from_utf8(line).expect("text")
}

fn is_readable(fd: BorrowedFd, timeout: Duration) -> bool {
    let timeout = PollTimeout::try_from(timeout).expect("not long");
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    loop {
        match poll(&mut fds, timeout) {
            // A child that belongs to another test has ended.
            Err(Errno::EINTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

/// The number of bytes that a pipe holds.
fn unread(pipe: BorrowedFd) -> usize {
    let mut bytes: i32 = 0;
    // SAFETY: it writes a number, for which there is room.
    #[expect(unsafe_code)]
    let result = unsafe { nix::libc::ioctl(pipe.as_raw_fd(), nix::libc::FIONREAD, &raw mut bytes) };
    assert_eq!(result, 0, "a pipe");
    usize::try_from(bytes).expect("a number of bytes")
}

/// Whether the tests were started with a signal ignored, as by nohup. The program then ignores it too.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal as u32 - 1) != 0
}

/// A pipe with two blocking ends.
pub(crate) fn pipe() -> (PipeReader, PipeWriter) {
    io::pipe().expect("a pipe")
}

/// A pipe with room for this number of bytes until it is read, on Linux.
pub(crate) fn narrow_pipe(room: usize) -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe();
    #[cfg(target_os = "linux")]
    let size = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).expect("a pipe");
    #[cfg(not(target_os = "linux"))]
    let size = 4096;
    let size = usize::try_from(size).expect("a size");
    writer.write_all(&vec![b'x'; size - room]).expect("there is room");
    (reader, writer)
}

/// Makes `fd` non-blocking, for everything that shares its open file description.
pub(crate) fn set_nonblocking(fd: impl AsFd) {
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a descriptor");
}

/// Whether a process is running, and not just waiting to be reaped.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let gone = kill(pid, None) == Err(Errno::ESRCH);
    !gone && state(pid) != Some('Z')
}

/// Whether a process that nobody traces is stopped.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    state(pid).expect("a process") == 'T'
}

/// The state of a process, in the letter that ps has for it.
fn state(pid: Pid) -> Option<char> {
    if cfg!(target_os = "linux") {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        return stat.rsplit_once(") ")?.1.chars().next();
    }
    let ps = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().ok()?;
    text(&ps.stdout).chars().next()
}

/// For comparisons.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The numbers from 1 to `last`, a line each.
pub(crate) fn numbers(last: u32) -> String {
    (1..=last).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat()
}

/// `count` pseudorandom bytes.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u8(..)).collect()
}

/// Stops a run of one line per 200 ms for longer than that, and checks that it does not catch up.
pub(crate) fn keeps_its_pace_after_a_stop(args: &[&str]) {
    loop {
        let mut running = Running::fed(args, "1\n2\n3\n4\n");
        assert_eq!(running.line(), "1\n");
        running.stop();
        thread::sleep(Duration::from_millis(700));
        if running.is_readable() {
            // It was stopped too late.
            continue;
        }
        let goes_on = Instant::now();
        running.signal(Signal::SIGCONT);
        assert_eq!(running.line() + &running.line() + &running.line(), "2\n3\n4\n");
        assert!(goes_on.elapsed() >= Duration::from_millis(400));
        return;
    }
}

/// Why an algorithm is not among those of [`of_any_period`].
pub(crate) const OWN_TESTS: &str = "what goes by the calendar has tests of its own";

/// The algorithms that accept any period. Calendar rules have their own tests.
pub(crate) fn of_any_period() -> Vec<&'static str> {
    let spec = Algorithm::ALL.map(Algorithm::spec).into_iter().filter(|spec| !spec.takes(Extra::Zone));
    spec.map(|spec| spec.name).collect()
}
