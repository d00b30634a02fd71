//! Files of limits that are pipes, and unusable places for a state.

use std::fs;
use std::thread;
use std::time::Duration;

use predicates::str::contains;

use crate::support::{Directory, Running, eventually, numbers, sh_command, text, throttle, with_mount};

#[test]
fn a_pipe_with_limits_is_read_once_and_not_watched() {
    let directory = Directory::new();
    directory.file("limits", "1T/s\n");
    let script = "mkfifo pipe; echo 1000/s > pipe & exec throttle -v -r@pipe -r@limits -r1T/s";
    let mut running = Running::start(sh_command(script).current_dir(directory.path()));
    assert_eq!(running.error_line(), "throttle: limit 1000/1s,algo=sliding\n");
    running.write("1\n");
    assert_eq!(running.line(), "1\n");
    // The pipe is checked within a second.
    thread::sleep(Duration::from_millis(1100));
    fs::write(directory.path().join("limits"), "1G/s\n").unwrap();
    let mut told = String::new();
    eventually("the other file is read again", || {
        told += &running.error_line();
        told.contains("1000000000/1s")
    });
    running.write(numbers(3));
    let output = running.finish();
    told += &text(&output.stderr);
    assert!(output.status.success() && !told.contains("the old limits stay"), "{told}");
    assert_eq!(told.matches("limit 1000/1s,algo=sliding").count(), 1, "{told}");
}

#[test]
fn a_state_without_a_place_is_told_with_what_to_do() {
    let long = "x".repeat(300);
    let table = [
        (
            "name",
            None,
            "throttle: there is no place for the state 'name': set HOME or XDG_STATE_HOME, or use a path\n",
        ),
        (
            "name",
            Some("/nowhere/at/all"),
            "throttle: there is no place for the state 'name': HOME is /nowhere/at/all, which does not exist\n",
        ),
        (
            &long,
            Some("/"),
            "throttle: a state name may have at most 200 bytes, and this one has 300: use a shorter one\n",
        ),
    ];
    for (name, home, told) in table {
        let mut command = throttle(&["-s", name, "-r1/s"]);
        command.env_remove("XDG_STATE_HOME").env_remove("STATE_DIRECTORY").env_remove("HOME");
        home.into_iter().for_each(|home| _ = command.env("HOME", home));
        command.write_stdin("1\n").assert().code(78).stderr(told);
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn a_state_in_a_read_only_file_system_cannot_be_created() {
    let Some(output) = with_mount("-o ro none /mnt", "echo | throttle -r9/s -s /mnt/state") else { return };
    let told = "throttle: /mnt/state: cannot create it: Read-only file system (os error 30)\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(78), told.to_owned()));
}

/// The log holds what was booked before, and would grow beyond that limit.
#[test]
fn a_state_whose_log_may_not_grow_any_more_is_used_all_the_same() {
    let script = "ulimit -f 80; throttle -r1000/s,algo=interval -s ./state";
    let directory = Directory::new();
    for _ in 0..2 {
        directory.sh(script).write_stdin(numbers(200)).assert().success().stdout(numbers(200)).stderr("");
    }
}

#[test]
fn a_state_that_may_not_grow_is_told() {
    let told = "/state: cannot write to it: the disk is full or fails, or a quota or 'ulimit -f' is used up";
    let script = "ulimit -f 12; throttle -r9/s -s ./state";
    Directory::new().sh(script).write_stdin("1\n").assert().code(1).stderr(contains(told));
}
