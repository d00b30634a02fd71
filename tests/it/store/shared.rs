//! Limits that several runs share, in a file.

mod crowd;
mod delays;
mod given_back;
mod seen;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use predicates::prelude::*;
use predicates::str::contains;

use crate::support::{Directory, Running, cpu_time, eventually, fed, needs_program, numbers, sh, throttle};

/// The path of a state that does not exist yet, in a directory of its own.
fn state() -> (Directory, String) {
    let directory = Directory::new();
    let state = directory.path().join("state").display().to_string();
    (directory, state)
}

#[test]
fn what_one_run_has_used_the_next_one_waits_for() {
    let (_directory, state) = state();
    let args = ["-r3/1500ms", "-s", &state];
    let start = Instant::now();
    fed(&args, numbers(3)).success().stdout(numbers(3));
    fed(&args, numbers(1)).success().stdout(numbers(1));
    assert!(start.elapsed() >= Duration::from_millis(1500));
}

/// Runs that share a state may differ in their own limits.
#[test]
fn limits_of_a_run_alone_apply_beside_the_shared_ones() {
    let (_directory, state) = state();
    let start = Instant::now();
    let paced = ["-s", &state, "-r1/200ms,local", "-r100/s"];
    fed(&paced, numbers(3)).success().stdout(numbers(3));
    assert!(start.elapsed() >= Duration::from_millis(400));
    let one_by_one = ["-s", &state, "-r100/s", "-r1/running", "-j3", "--", "echo"];
    fed(&one_by_one, numbers(3)).success().stdout(numbers(3));
    // Without a shared one, those of the state hold.
    let stored = ["-v", "-s", &state, "-r1/running", "--", "echo"];
    let output = fed(&stored, "1\n").success();
    output.stderr(contains("limit 100/1s,algo=sliding").and(contains("limit 1/running")));
    let missing = format!("{state}2");
    let alone = ["-s", &missing, "-r1/running", "--", "echo"];
    fed(&alone, "1\n").code(1).stderr(contains("no limit given to share"));
}

/// It waits for the end of the hours of each limit, when those of the other begin.
#[test]
fn an_item_that_costs_too_much_at_all_hours_ends_the_run() {
    let (_directory, state) = state();
    let by_day = "-r6/s,cost=col:1,during=06:00-18:00,tz=UTC";
    let by_night = "-r7/s,cost=col:1,during=18:00-06:00,tz=UTC";
    let told = contains("later than any clock can show");
    fed(&[by_day, by_night, "-s", &state], "8 a\n1 b\n").code(1).stderr(told);
}

#[test]
fn runs_at_the_same_time_share() {
    let (_directory, state) = state();
    let start = Instant::now();
    for running in [(); 4].map(|()| Running::fed(&["-r4/500ms", "-s", &state], numbers(3))) {
        running.ends().success().stdout(numbers(3));
    }
    // Twelve, four at a time.
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn the_wait_for_an_answer_is_none_for_the_limit() {
    let (_directory, state) = state();
    let args = ["-v", "-r3/h", "--max-wait=1m", "-s", &state];
    fed(&args, numbers(3)).success().stderr(contains("waited").and(contains("for 3/1h").not()));
    fed(&args, numbers(1)).code(75);
    let (_directory, state) = self::state();
    let args = ["-r3/h", "--on-limit=fail", "--max-wait=0", "-s", &state];
    fed(&args, numbers(4)).code(75).stdout(numbers(3));
}

/// A slot for a short gap is over before its answer can come, unless it is booked ahead.
#[test]
fn gaps_that_are_shorter_than_a_booking_are_met() {
    for rate in ["1/100us", "1/1ns", "10000/s,algo=interval"] {
        let (_directory, state) = state();
        let told = contains("of it can be reached").count(1);
        fed(&["-r", rate, "-s", &state], numbers(9)).success().stdout(numbers(9)).stderr(told);
    }
}

/// Commands are releases like any other.
#[test]
fn commands_share_as_well() {
    let (_directory, state) = state();
    let start = Instant::now();
    for _ in 0..2 {
        fed(&["-r2/700ms", "-s", &state, "--", "echo"], numbers(2)).success().stdout(numbers(2));
    }
    assert!(start.elapsed() >= Duration::from_millis(700));
}

/// It takes longer to write the file for its input than a slot is good, so it starts in a later one.
#[test]
fn a_command_that_takes_long_to_prepare_starts_all_the_same() {
    let (_directory, state) = state();
    let item = "x".repeat(8 << 20);
    let args = ["-s", &state, "-r20/s,margin=1ms", "--pipe", "--", "wc", "-c"];
    fed(&args, format!("{item}\n{item}\n")).success().stdout("8388609\n8388609\n");
}

#[test]
fn a_name_stands_for_a_file_that_is_ours_alone() {
    use std::os::unix::fs::PermissionsExt;

    let directory = Directory::new();
    let run = |args: &[&str]| {
        let mut command = throttle(args);
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", directory.path()).write_stdin("1\n");
        command.assert()
    };
    run(&["-r1/h", "-s", "jobs"]).success();
    let mode =
        |path: &str| fs::metadata(directory.path().join(path)).expect(path).permissions().mode() & 0o777;
    assert_eq!((mode("throttle"), mode("throttle/jobs")), (0o700, 0o600));
    run(&["--reset-state", "-s", "jobs"]).success();
    run(&["-r2/h", "-s", "jobs"]).success();
    run(&["-r3/h", "-s", "jobs"]).code(65);
}

#[test]
fn slots_for_many_keys_are_booked_in_linear_time() {
    let directory = Directory::new();
    let timed = |items: u32| {
        let state = directory.path().join(items.to_string());
        // The margin keeps slots good for long enough, even on a slow machine.
        let args = ["-s", state.to_str().unwrap(), "--lookahead=9k", "-r1/h,margin=20s,key=col:1"];
        cpu_time(&args, &numbers(items))
    };
    let (few, many) = (timed(400), timed(1600));
    assert!(many < few * 8 + Duration::from_millis(200), "{few:?} and {many:?}");
}

#[test]
fn batches_share_what_their_items_cost() {
    let (_directory, state) = state();
    let args = ["-r9/1s,margin=500ms,cost=col:1", "-B3", "-s", &state, "--", "echo"];
    let start = Instant::now();
    fed(&args, "4\n4\n4\n1\n").success().stdout("4 4\n4 1\n");
    fed(&args, "5\n").success().stdout("5\n");
    assert!(start.elapsed() >= Duration::from_secs(2));
}

/// Nothing is released that could not be recorded.
#[test]
fn a_full_disk_ends_the_run() {
    let (_directory, state) = state();
    fed(&["-r9/h", "-s", &state], "1\n").success();
    let script = format!("trap '' XFSZ; ulimit -f 0; echo 2 | throttle -r9/h -s {state} 2>&1");
    sh(&script).assert().code(1).stdout(contains(format!("{state}: cannot")));
    fed(&["-r9/h", "-s", &state], "3\n").success().stdout("3\n").stderr("");
}

/// Creating or removing a state locks its directory: here, for longer than anybody waits.
#[test]
fn a_run_that_waits_for_the_directory_of_its_state_can_be_stopped() {
    let (directory, state) = state();
    let locked = File::open(directory.path()).expect("a directory");
    locked.lock().expect("nobody else has it");
    for args in [&["-r1/h", "-s", &state][..], &["--once", "-r1/h", "-s", &state]] {
        let mut run = Running::fed(args, "1\n");
        thread::sleep(Duration::from_millis(100));
        run.signal(Signal::SIGTERM);
        assert_eq!(run.wait().signal(), Some(Signal::SIGTERM as i32), "{args:?}");
    }
}

/// The signal is not handled yet.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn usr1_does_not_end_a_run_that_waits_for_the_directory_of_its_state() {
    let (directory, state) = state();
    let locked = File::open(directory.path()).expect("a directory");
    locked.lock().expect("nobody else has it");
    let mut run = Running::fed(&["-r1/h", "-s", &state], "1\n");
    let is_directory = |fd: fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|to| to == directory.path());
    eventually("it waits for the directory", || {
        let fds = fs::read_dir(format!("/proc/{}/fd", run.pid())).expect("it is running");
        fds.flatten().any(is_directory)
    });
    run.signal(Signal::SIGUSR1);
    drop(locked);
    assert_eq!(run.line(), "1\n");
    assert!(run.finish().status.success());
}

/// The bytes of a state once there is no log beside it: a run that is delayed at its end leaves the log to the next
/// one.
fn closed(state: &str) -> Vec<u8> {
    while fs::exists(format!("{state}-wal")).expect("a directory") {
        throttle(&["-s", state, "--status"]).assert().success();
    }
    fs::read(state).expect("a state")
}

#[test]
fn a_state_is_for_the_same_limits_until_it_is_reset() {
    let (_directory, state) = state();
    fed(&["-r1/h", "-s", &state], "1\n").success();
    let before = closed(&state);
    let other = || fed(&["-r2/h", "-s", &state], "1\n");
    let why = contains("this state has other limits: '1/1h,").and(contains("not '2/1h,"));
    other().code(65).stdout("").stderr(why.and(contains(format!("throttle --set-limits -s {state}"))));
    assert!(fs::read(&state).expect("a state") == before, "it was changed");
    throttle(&["--reset-state", "-s", &state]).assert().success().stdout("").stderr("");
    let again = throttle(&["--reset-state", "-s", &state]).assert().success();
    again.stdout("").stderr(format!("throttle: there is no state {state}: nothing is reset\n"));
    other().success();
}

#[test]
fn a_damaged_state_is_left_as_it_is_until_it_is_reset() {
    let (_directory, state) = state();
    let run = || fed(&["-r1/h", "-s", &state], "1\n");
    run().success();
    let mut damaged = closed(&state);
    damaged.iter_mut().skip(120).for_each(|byte| *byte ^= 0x55);
    fs::write(&state, &damaged).expect("writable");
    run().code(65).stdout("").stderr(contains(format!("{state}: this state is damaged")));
    assert!(fs::read(&state).expect("a state") == damaged, "it was changed");
    throttle(&["--reset-state", "-s", &state]).assert().success();
    run().success();
}

#[test]
fn a_state_that_others_can_get_at_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let (_directory, state) = state();
    let run = || fed(&["-r1/h", "-s", &state], "1\n");
    run().success();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o644)).expect("ours");
    run().code(78).stdout("").stderr(contains("other users have access to it: chmod go= it"));
}

/// During a run there is a message, and nothing is released for a period.
#[test]
fn a_state_that_is_taken_away_is_followed_by_silence() {
    let (_directory, state) = state();
    let mut running = Running::fed(&["-r1/300ms", "-s", &state], "1\n");
    assert_eq!(running.line(), "1\n");
    fs::remove_file(&state).expect("it is there");
    let removed = Instant::now();
    running.write("2\n");
    let (told, why) = (running.error_line(), "was removed, replaced or reset during the run");
    assert!(told.contains(&format!("{why}: nothing is released until ")), "{told}");
    assert_eq!(running.line(), "2\n");
    // A window, after the second for which slots may have been booked ahead.
    assert!(removed.elapsed() >= Duration::from_millis(1300));
    assert!(running.finish().status.success());
}

/// A process that keeps a state locked.
fn holder(state: &str) -> Option<Running> {
    let flock = needs_program("flock")?;
    let mut command = Command::new(flock);
    // It reports when it has the lock.
    let holder = Running::start(command.args(["--no-fork", state, "sh", "-c", "echo locked; exec sleep 60"]));
    let mut holder = holder;
    assert_eq!(holder.line(), "locked\n");
    Some(holder)
}

#[test]
fn the_environment_may_name_a_file_that_holds_the_state() {
    let (directory, state) = state();
    let variable = format!("@{}", directory.file("name", format!("{state}\n")).display());
    throttle(&["-r9/s", "--", "sh", "-c", "echo $THROTTLE_STATE", "sh"])
        .env("THROTTLE_STATE", &variable)
        .write_stdin("1\n")
        .assert()
        .success()
        .stdout(format!("{variable}\n"));
    assert!(fs::exists(&state).unwrap());
}

#[test]
fn a_killed_process_leaves_no_lock_behind() {
    let (_directory, state) = state();
    let mut running = Running::fed(&["-r10/s", "-s", &state], "1\n");
    assert_eq!(running.line(), "1\n");
    let Some(holder) = holder(&state) else { return };
    let released = thread::spawn(move || {
        running.write("2\n");
        assert_eq!(running.line(), "2\n");
        Instant::now()
    });
    thread::sleep(Duration::from_millis(200));
    let killed = Instant::now();
    holder.signal(Signal::SIGKILL);
    assert!(released.join().expect("released") >= killed);
}

#[test]
fn a_lock_that_is_kept_ends_the_run_and_who_keeps_it_is_told() {
    let (_directory, state) = state();
    fed(&["-r1/h", "-s", &state], "1\n").success();
    let Some(holder) = holder(&state) else { return };
    holder.stop();
    let why = format!("locked for more than 10 s by process {}, which is stopped", holder.pid());
    let waits = contains("which is stopped").and(contains("; waiting for it\n"));
    fed(&["-r1/h", "-s", &state], "1\n").code(69).stdout("").stderr(waits.and(contains(why)));
    assert!(Path::new(&state).exists());
}
