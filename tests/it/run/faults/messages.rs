//! Messages for a stderr that takes no more: a full pipe that nobody reads.

use std::fs::{self, File};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal::{SIGTERM, SIGUSR1};

use crate::strace::needs_strace;
use crate::support::{Directory, Running, THROTTLE, UNLIMITED, drain, numbers, pipe, set_nonblocking, text};

/// A full pipe, in mode `flags`, and the number of bytes in it.
fn full_pipe(flags: OFlag) -> (PipeReader, PipeWriter, usize) {
    let (reader, mut writer) = pipe();
    set_nonblocking(&writer);
    let mut held = 0;
    loop {
        match writer.write(&[b'.'; 4096]) {
            Ok(written) => held += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl(&writer, FcntlArg::F_SETFL(flags)).expect("a descriptor");
    (reader, writer, held)
}

fn start(args: &[&str], stderr: PipeWriter) -> Running {
    let mut command = Command::new(THROTTLE);
    Running::spawn(command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr))
}

#[test]
fn a_stuck_stderr_holds_up_neither_items_nor_signals() {
    let (_reader, writer, _) = full_pipe(OFlag::empty());
    let mut running = start(&["-n1", "-p200ms"], writer);
    running.write("1\n2\n3\n");
    for line in ["1\n", "2\n", "3\n"] {
        assert_eq!(running.line(), line);
        running.signal(SIGUSR1);
    }
    thread::sleep(Duration::from_millis(50));
    running.signal(SIGTERM);
    assert_eq!(running.wait().signal(), Some(SIGTERM as i32));
}

#[test]
fn a_stuck_stderr_does_not_keep_a_run_from_its_end() {
    for args in [["-v"].as_slice(), &["--stats", "json"], &["--progress=always"], &["-v", "--", "echo"]] {
        let (_reader, writer, _) = full_pipe(OFlag::empty());
        let mut running = start(&[&[UNLIMITED], args].concat(), writer);
        running.write(numbers(3));
        let output = running.finish();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), numbers(3)), "{args:?}");
    }
}

/// On a busy machine a write may take long to start: here, longer than the program waits for one that is stuck.
#[test]
fn a_message_is_not_lost_because_its_write_begins_late() {
    let Some(strace) = needs_strace() else { return };
    let directory = Directory::new();
    let told = directory.path().join("told");
    let mut command = Command::new(strace);
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "inject=write:delay_enter=200000", "-P"]);
    command.arg(&told).args([THROTTLE, "-n1", "-p1h"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::spawn(command.stderr(File::create(&told).unwrap()));
    running.write("1\n2\n");
    assert_eq!(running.line(), "1\n");
    running.signal(SIGTERM);
    assert_eq!(running.wait().signal(), Some(SIGTERM as i32));
    let told = fs::read_to_string(told).unwrap();
    assert_eq!(told, "throttle: ended by SIGTERM: 1 item released, 1 read and not released\n");
}

#[test]
fn a_usage_error_on_a_stuck_stderr_ends() {
    let (_reader, writer, _) = full_pipe(OFlag::empty());
    assert_eq!(start(&["--no-such-option"], writer).wait().code(), Some(2));
}

#[test]
fn a_stderr_that_is_full_for_a_moment_loses_nothing() {
    for flags in [OFlag::O_NONBLOCK, OFlag::empty()] {
        let (mut reader, writer, held) = full_pipe(flags);
        let mut running = start(&["-v", UNLIMITED], writer);
        running.write(numbers(3));
        // By now the first message waits to be written.
        assert_eq!(running.line(), "1\n");
        reader.read_exact(&mut vec![0; held]).expect("it is full");
        let told = drain(reader);
        assert!(running.finish().status.success());
        let told = text(&told.join().expect("read"));
        assert!(told.starts_with("throttle: limit 1000000000000/1s"), "{told}");
        assert!(told.contains("\nthrottle: 3 of 3 items released"), "{told}");
    }
}
