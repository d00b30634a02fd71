//! Too few descriptors for even one command, and too little memory for an item.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::Signal::SIGTERM;
use predicates::str::is_match;

use crate::support::{Running, needs_program, sh};

/// Sets the number of descriptors that a running process may have.
fn limit_descriptors(prlimit: &Path, running: &Running, limit: u32) {
    let pid = format!("--pid={}", running.pid());
    let set = Command::new(prlimit).args([pid, format!("--nofile={limit}:")]).status();
    assert!(set.expect("prlimit").success());
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn a_shortage_is_told_once_and_the_run_goes_on_after_it_or_is_ended() {
    let Some(prlimit) = needs_program("prlimit") else { return };
    for is_ended in [false, true] {
        let mut running = Running::fed(&["-n1", "-p50ms", "--pipe", "--", "cat"], "1\n");
        assert_eq!(running.line(), "1\n");
        limit_descriptors(&prlimit, &running, 3);
        running.write("2\n");
        let none_left = io::Error::from(Errno::EMFILE);
        let told = format!("throttle: cannot run cat: {none_left}; retrying for a while\n");
        assert_eq!(running.error_line(), told);
        if is_ended {
            running.signal(SIGTERM);
            let output = running.collect();
            assert_eq!(output.status.signal(), Some(SIGTERM as i32));
        } else {
            limit_descriptors(&prlimit, &running, 100);
            running.ends().success().stdout("2\n").stderr("");
        }
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn an_item_that_memory_cannot_hold_is_an_error() {
    let input = "printf '1\\n2\\n'; head -c 200000000 /dev/zero";
    let throttle = "ulimit -v 100000; exec throttle -r9/s --max-record 1Gi";
    let told = is_match("^throttle: no memory for an item of more than [0-9]+ bytes\n$");
    let run = sh(&format!("({input}) | ({throttle})")).assert();
    run.code(1).stdout("1\n2\n").stderr(told.expect("a regular expression"));
}
