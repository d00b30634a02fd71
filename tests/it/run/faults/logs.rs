//! Job logs on full disks, and files that are no job log.

use std::fs::{self, File};

use predicates::str::contains;

use crate::support::{Directory, UNLIMITED, fed, numbers};

#[test]
fn a_full_disk_leaves_whole_lines() {
    let directory = Directory::new();
    // When a file may not grow, a write takes the part of a line that fits, as on a full disk.
    let script = "trap - XFSZ; ulimit -f 1; throttle -r1T/s -j8 --log log -- true";
    let told = contains("throttle: cannot write to the log: File too large").count(1);
    directory.sh(script).write_stdin(numbers(200)).assert().code(1).stderr(told);
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(log.len() > 400 && log.ends_with('\n'), "{log}");
    log.lines().for_each(|line| assert_eq!(line.split('\t').count(), 8, "{line}"));
}

#[test]
fn a_large_file_that_is_no_log_is_told_at_once() {
    let directory = Directory::new();
    let path = directory.path().join("large");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    fed(&[UNLIMITED, "--log", path.to_str().unwrap(), "--", "true"], "1\n")
        .code(1)
        .stderr(format!("throttle: {} is not a log of throttle: name another file\n", path.display()));
    assert_eq!(path.metadata().unwrap().len(), 1 << 30);
}

#[test]
fn a_log_is_a_regular_file() {
    let script =
        "mkfifo fifo; for log in /dev/null fifo; do echo 1 | throttle -r1T/s --log $log -- true; done";
    let told = "is not a regular file, so --resume could not read it: name another file\n";
    let told = format!("throttle: /dev/null {told}throttle: fifo {told}");
    Directory::new().sh(script).assert().code(1).stderr(told);
}
