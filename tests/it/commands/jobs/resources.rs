//! Resources that many commands need, and leave behind.

use std::fs;
use std::process::{Command, Output};

use nix::unistd::Pid;
use predicates::str::{contains, starts_with};

use crate::support::{
    Directory, Running, UNLIMITED, eventually, needs_program, numbers, sh_command, text, throttle, with_mount,
};

/// Items for which there are no descriptors wait until there are.
#[test]
fn no_item_is_lost_for_want_of_descriptors() {
    for args in ["-j50", "-kj50", "-j50 --pipe"] {
        let script =
            format!("ulimit -n 60; exec throttle -r1T/s {args} -- sh -c 'cat; sleep 0.1; echo $1' sh .");
        let mut running = Running::start(&mut sh_command(&script));
        running.write(numbers(200));
        let output = running.finish();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let done = text(&output.stdout).lines().filter(|line| line.starts_with('.')).count();
        assert_eq!((done, text(&output.stderr)), (200, String::new()), "{args}");
    }
}

/// Held outputs keep files open while they wait for an item that backs off, or for one that its key holds up.
#[test]
fn outputs_that_are_held_leave_descriptors_for_the_item_that_they_wait_for() {
    let large = "head -c 70000 /dev/zero | tr '\\0' x; echo; head -c 70000 /dev/zero >&2";
    let fails_first = format!("[ $THROTTLE_SEQ$THROTTLE_ATTEMPT != 11 ] && {{ {large}; }}");
    let ways = [("--retries 1 --backoff 1..1", fails_first.as_str()), ("-r 1/s,key=re:k,only=k", large)];
    for (args, command) in ways {
        for jobs in [1, 9] {
            let script =
                format!("ulimit -n 60; exec throttle -r1T/s -kj{jobs} {args} -- sh -c \"$0\" 2>/dev/null");
            let mut shell = sh_command(&script);
            let mut running = Running::start(shell.arg(command));
            running.write(format!("k\nk\n{}", numbers(38)));
            let output = running.finish();
            assert!(output.status.success(), "{args} -j {jobs}: {:?}", output.status);
            let lines = text(&output.stdout).lines().filter(|line| line.len() == 70_000).count();
            assert_eq!(lines, 40, "{args} -j {jobs}");
        }
    }
}

#[test]
fn a_directory_for_temporary_files_that_is_missing_is_named() {
    for args in [&["-j2"][..], &["--retries=1"]] {
        throttle(&[&[UNLIMITED], args, &["echo"]].concat())
            .env("TMPDIR", Directory::new().path().join("none"))
            .write_stdin("1\n")
            .assert()
            .code(1)
            .stderr(contains("cannot create a"));
    }
}

#[test]
fn an_empty_name_of_the_directory_for_temporary_files_is_none() {
    let run = throttle(&[UNLIMITED, "echo", "{headers}"]).env("TMPDIR", "").write_stdin("1\n").assert();
    run.success().stdout(starts_with("/tmp/throttle-"));
}

#[test]
fn no_directory_is_made_for_no_commands_and_none_is_left() {
    let directory = Directory::new();
    let run = |place: &str, items: &str| {
        let script = "ls -d $TMPDIR/throttle-* | wc -l";
        let mut command = throttle(&[UNLIMITED, "-q", "--retries=1", "--", "sh", "-c", script]);
        command.env("TMPDIR", directory.path().join(place)).write_stdin(items.to_owned()).assert().success()
    };
    run("none", "").stdout("");
    run("", "1\n2\n").stdout("1\n1\n");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Runs a script in an empty file system of 1 MiB, if one can be mounted.
fn in_small_file_system(script: &str) -> Option<Output> {
    with_mount("-o size=1m none /mnt", &format!("cd /mnt; export TMPDIR=/mnt; {script}"))
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn output_for_which_there_is_no_space_is_no_success() {
    let fill = "head -c 2M /dev/zero >fill 2>/dev/null";
    for args in ["-j2", "-k", "-j2 --pipe"] {
        let Some(output) = in_small_file_system(&format!(
            "{fill}; seq 3 | throttle -r1T/s {args} -- sh -c \"echo printed; exit 0\"; echo $?"
        )) else {
            return;
        };
        assert_eq!(text(&output.stdout), "1\n", "{args}");
        let told = "throttle: cannot create a temporary file: set TMPDIR to a directory with free space: No \
                    space left";
        assert!(text(&output.stderr).starts_with(told), "{args}: {}", text(&output.stderr));
        // Here the command itself fills up the space, and ignores the error.
        let directory = Directory::new();
        let log = directory.path().join("log");
        let log = log.display();
        let output = in_small_file_system(&format!(
            "throttle -r1T/s {args} --log {log} -- sh -c \"head -c 2M /dev/zero 2>/dev/null; exit 0\" \
                </proc/version >/dev/null
             echo $?"
        ));
        let output = output.unwrap();
        assert_eq!(text(&output.stdout), "1\n", "{args}");
        let told = "throttle: item 1: the output of its command may be incomplete: set TMPDIR to a \
                    directory with more space";
        assert!(text(&output.stderr).starts_with(told), "{args}: {}", text(&output.stderr));
        let log = std::fs::read_to_string(directory.path().join("log")).expect("a log");
        assert_eq!(log.lines().count(), 1, "only the heading, so that it runs again: {log}");
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn commands_are_run_without_devices() {
    for streams in ["", "2>&-"] {
        let script =
            format!("mount -t tmpfs none /dev; seq 2 | throttle -r1T/s -j2 -k cat - {streams}; echo $?");
        let Some(output) = in_small_file_system(&script.replace("cat -", "sh -c \"cat; echo \\$1\" sh"))
        else {
            return;
        };
        assert_eq!(
            (text(&output.stdout), text(&output.stderr)),
            ("1\n2\n0\n".into(), String::new()),
            "{streams}"
        );
    }
}

fn descriptors(pid: Pid) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn zombies(parent: Pid) -> usize {
    let output = Command::new("ps").args(["-o", "stat=", "--ppid", &parent.to_string()]).output().unwrap();
    text(&output.stdout).lines().filter(|state| state.starts_with('Z')).count()
}

#[test]
fn many_commands_leave_nothing_behind() {
    if needs_program("ps").is_none() || !std::path::Path::new("/proc/self/fd").exists() {
        return;
    }
    let mut running = Running::fed(&[UNLIMITED, "-j50", "echo"], numbers(2000));
    for count in 1..=2000 {
        running.line();
        if count % 400 == 0 {
            let (descriptors, zombies) = (descriptors(running.pid()), zombies(running.pid()));
            // Two files for each command, running or just ended, and our own.
            assert!(descriptors < 200, "{descriptors} descriptors after {count}");
            assert!(zombies <= 50, "{zombies} zombies after {count}");
        }
    }
    eventually("all are reaped", || zombies(running.pid()) == 0);
    assert!(descriptors(running.pid()) < 60);
    assert!(running.finish().status.success());
}
