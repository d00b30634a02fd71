//! Whatever goes in comes out: every byte, at once, and nothing else.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use predicates::str::{contains, starts_with};

use crate::support::{
    Directory, Running, THROTTLE, UNLIMITED, fed, noise, numbers, pipe, set_nonblocking, sh, text, throttle,
};

#[test]
fn bytes_pass_untouched() {
    let noise = noise(1, 3 << 20);
    let table: &[(&[&str], &[u8])] = &[
        (&[], b""),
        (&[], b"\n"),
        (&[], b"a"),
        (&[], b"a\nb\n"),
        (&[], b"a\nb"),
        (&[], b"a\r\nb\r\n\r\n"),
        (&[], b"\n\n\na\n\n"),
        (&[], b"\xff\xfe\x00\x80\n\x00\n"),
        (&[], &noise),
        (&["-0"], &noise),
        (&["-0"], b"a\0b\nc\0\0d"),
        (&["-d,"], b"a,b,,\n"),
        (&["-d--"], b"a-b--c---d--"),
        (&["-d\\r\\n"], b"a\r\nb\nc\rd\r\r\n"),
        (&["-d\\x00\\001"], &noise),
        (&["-B7"], &noise),
        (&["-B1000,1ms"], &noise),
        (&["-A", "bucket"], &noise),
        (&["-A", "interval"], &noise),
        (&["-A", "fixed"], &noise),
    ];
    for (args, bytes) in table {
        let output = throttle(&[&[UNLIMITED], *args].concat()).write_stdin(*bytes).output().unwrap();
        // Not assert_eq: nobody wants to see 3 MB of noise.
        assert!(output.stdout == *bytes, "{args:?} altered {} bytes", bytes.len());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    }
}

#[test]
fn a_last_item_without_delimiter_that_overtakes_others_stays_an_item() {
    let table: [(&[&str], &str, &str); 7] = [
        (&[], "a 1\na 2\nb 3", "a 1\nb 3\na 2\n"),
        (&["-d--"], "a 1--a 2--b 3", "a 1--b 3--a 2--"),
        // The last item ends in a delimiter together with the one before it.
        (&["-d\n\n"], "a 1\n\na 2\n\nb 3\n\n\n", "a 1\n\nb 3\n\n\n\n\na 2\n\n"),
        (
            &["-d..", "--dry-run"],
            "a 1..a 2..b 3...",
            "0.000000000\ta 1..0.000000000\tb 3..0.000000000\t...0.010000000\ta 2..",
        ),
        (&["--csv"], "k,n\na,1\na,2\nb,3", "k,n\na,1\nb,3\na,2\n"),
        (&["--dry-run"], "a 1\na 2\nb 3", "0.000000000\ta 1\n0.000000000\tb 3\n0.010000000\ta 2\n"),
        (
            &["--dry-run", "-0", "--", "echo"],
            "a 1\0b 3",
            "0.000000000\techo 'a 1'\n0.000000000\techo 'b 3'\n",
        ),
    ];
    for (args, input, output) in table {
        // By the real clock, the next item of a key must not be due before the other key is looked at.
        let period = if args.contains(&"--dry-run") { "-p10ms" } else { "-p500ms" };
        fed(&[&["-n1", period, "-Kcol:1", "--margin=0"][..], args].concat(), input).success().stdout(output);
    }
    let unsorted = ["-n2", "-p5s", "--dry-run", "--arrivals=col:1", "--unsorted=1"];
    fed(&unsorted, "0 a\n0 b\n2 c\n1 d")
        .success()
        .stdout("0.000000000\t0 a\n0.000000000\t0 b\n5.000000000\t1 d\n5.000000000\t2 c\n");
}

#[test]
fn a_file_that_is_named_passes_as_well() {
    let directory = Directory::new();
    let file = directory.file("items", "a\nb");
    throttle(&[UNLIMITED, "-a", file.to_str().unwrap()]).assert().success().stdout("a\nb");
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn an_output_that_takes_nothing_is_an_error() {
    let table = [
        ("throttle -n1 > /dev/full", "cannot write to standard output: No space left on device"),
        ("throttle -n1 >&-", "cannot write to standard output: it is closed"),
        ("throttle -n1 --dry-run >&-", "cannot write to standard output: it is closed"),
        ("throttle -n1 1</dev/null", "cannot write to standard output: "),
    ];
    for (script, message) in table {
        sh(script).write_stdin("a\n").assert().code(1).stderr(starts_with(format!("throttle: {message}")));
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn a_full_disk_is_told_with_what_was_not_released() {
    sh("throttle -n9 > /dev/full")
        .write_stdin("a\nb\n")
        .assert()
        .code(1)
        .stderr(contains("2 items read and not released"));
}

#[test]
fn an_input_that_gives_nothing_is_an_error() {
    let table = [
        ("throttle -n1 <&-", "standard input is closed"),
        ("throttle -n1 < .", "cannot read the input: "),
        ("throttle -n1 0> /dev/null", "cannot read the input: "),
    ];
    for (script, message) in table {
        sh(script).assert().code(1).stdout("").stderr(contains(message));
    }
}

#[test]
fn a_closed_stderr_is_nothing_to_stop_for() {
    sh("throttle -v -r 1T/s 2>&-").write_stdin("a\nb\n").assert().success().stdout("a\nb\n");
}

/// With a slow reader, most writes to such a pipe are short or fail with EAGAIN.
#[test]
fn a_non_blocking_stdout_gets_every_byte() {
    let directory = Directory::new();
    let bytes = noise(2, 1 << 20);
    let file = File::open(directory.file("items", &bytes)).unwrap();
    let (mut reader, writer) = pipe();
    set_nonblocking(&writer);
    let mut running = Running::spawn(Command::new(THROTTLE).arg(UNLIMITED).stdin(file).stdout(writer));
    let (mut all, mut chunk) = (Vec::new(), [0; 5000]);
    while let read @ 1.. = reader.read(&mut chunk).unwrap() {
        all.extend_from_slice(&chunk[..read]);
        thread::sleep(Duration::from_micros(500));
    }
    assert!(running.wait().success());
    assert!(all == bytes);
}

#[test]
fn a_non_blocking_stdin_gives_every_byte() {
    let bytes = noise(3, 300_000);
    let (reader, mut writer) = pipe();
    set_nonblocking(&reader);
    let mut command = Command::new(THROTTLE);
    let running = Running::spawn(command.arg(UNLIMITED).stdin(reader).stdout(Stdio::piped()));
    // It holds the reading end too, which would keep the pipe from breaking.
    drop(command);
    for chunk in bytes.chunks(100_000) {
        // Long enough for a read to find nothing.
        thread::sleep(Duration::from_millis(20));
        writer.write_all(chunk).unwrap();
    }
    drop(writer);
    let output = running.finish();
    assert!(output.status.success());
    assert!(output.stdout == bytes);
}

#[test]
fn a_record_that_is_too_long_is_an_error_after_all_before_it_is_released() {
    let message = "throttle: item 3, at byte 9, is longer than 4 bytes: raise --max-record";
    fed(&[UNLIMITED, "--max-record", "4"], "abcd\nabc\nabcde\nx\n")
        .code(1)
        .stdout("abcd\nabc\n")
        .stderr(starts_with(message));
}

#[test]
fn what_stands_before_a_record_that_is_too_long_is_paced_nevertheless() {
    let started = Instant::now();
    fed(&["-n1", "-p250ms", "--max-record", "4"], "a\nb\nabcdefg").code(1).stdout("a\nb\n");
    assert!(started.elapsed() >= Duration::from_millis(250));
}

#[test]
fn a_long_record_passes() {
    let mut record = noise(4, 20 << 20);
    record.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    record.extend_from_slice(b"\nshort\n");
    let output = throttle(&[UNLIMITED]).write_stdin(record.clone()).output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == record);
}

#[test]
fn each_item_is_visible_as_soon_as_it_is_admitted() {
    for args in [&[UNLIMITED][..], &[UNLIMITED, "-B5"], &[UNLIMITED, "-B5,1ms"], &[UNLIMITED, "--", "echo"]] {
        let mut running = Running::throttle(args);
        for item in ["one\n", "two\n", "three\n"] {
            running.write(item);
            assert_eq!(running.line(), item, "{args:?}");
        }
        // Its input has been open all the time.
        assert!(running.finish().status.success());
    }
}

#[test]
fn an_item_is_visible_before_the_next_ones_turn_comes() {
    let mut running = Running::fed(&["-n1", "-p1h"], "one\ntwo\n");
    assert_eq!(running.line(), "one\n");
}

/// POSIX: a utility leaves the offset of a file it reads just after what it has processed.
#[test]
fn a_seekable_stdin_is_left_just_after_the_last_item_released() {
    let directory = Directory::new();
    let items = numbers(50_000);
    let mut file = File::open(directory.file("items", &items)).unwrap();
    file.seek(SeekFrom::Start(2)).unwrap();
    let mut command = Command::new(THROTTLE);
    command.args(["-n2", "-p1h"]).stdin(file.try_clone().unwrap());
    let mut running = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!(running.line() + &running.line(), "2\n3\n");
    running.signal(Signal::SIGTERM);
    assert!(text(&running.collect().stderr).contains("read and not released"));
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert!(rest == items[6..], "it begins with {:?}", rest.get(..20));
}

#[test]
fn a_command_that_stops_the_run_leaves_the_rest_of_a_seekable_stdin() {
    let directory = Directory::new();
    directory.file("items", "0\n255\n3\n4\n");
    directory.sh("(throttle -n9 -- sh -c 'exit {}' 2> /dev/null; cat) < items").assert().stdout("3\n4\n");
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn a_run_that_fails_leaves_what_it_has_not_released_of_a_seekable_stdin() {
    let directory = Directory::new();
    directory.file("items", "1\n2\n3\n");
    for (args, rest) in
        [("--stats prom:missing/x.prom", "1\n2\n3\n"), ("--until 0.1s --plot /dev/full", "2\n3\n")]
    {
        let script = format!("(throttle -n1 -p1h {args} >/dev/null 2>&1; echo $?; cat) < items");
        directory.sh(&script).assert().stdout(format!("1\n{rest}"));
    }
}

#[test]
fn memory_is_bounded_when_nobody_reads() {
    let lines = b"a line of no great length\n".repeat(4000);
    let blank = vec![b'\n'; 100_000];
    let table: &[(&[&str], &[u8])] = &[
        (&[UNLIMITED], &lines),
        (&[UNLIMITED], &blank),
        (&["-n1", "-p1h"], &lines),
        (&["-n1", "-p1h"], &blank),
        (&["-n1", "-p1h", "-B1000"], &blank),
        (&["-n1", "-p1h", "--", "true"], &lines),
    ];
    for (args, chunk) in table {
        let mut running = Running::throttle(args);
        let taken = running.fill(chunk);
        assert!(taken < 4 << 20, "{args:?} took {taken} bytes");
        if let Some(kib) = peak_memory(&running) {
            assert!(kib < 32 << 10, "{args:?} uses {kib} KiB after {taken} bytes");
        }
    }
}

/// The peak in KiB, where there is a /proc.
fn peak_memory(running: &Running) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn memory_is_bounded_when_endless_input_flows() {
    let zeros = File::open("/dev/zero").unwrap();
    let mut command = Command::new(THROTTLE);
    command.args([UNLIMITED, "-0"]).stdin(zeros).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running::spawn(&mut command);
    thread::sleep(Duration::from_millis(300));
    assert!(peak_memory(&running).is_none_or(|kib| kib < 32 << 10));
    running.signal(Signal::SIGTERM);
    running.wait();
}
