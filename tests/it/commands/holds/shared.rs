//! Pauses of shared limits: heard by one of the runs, or set by hand.

use std::thread;
use std::time::Duration;

use crate::store::stores::for_each_state;
use crate::support::{Running, eventually, fed, text, throttle};

fn state(args: &[&str], state: &str) -> String {
    let output = throttle(&[args, &["-s", state]].concat()).output().expect("a run");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The lines about holds.
fn held(status: &str) -> Vec<&str> {
    status.lines().filter(|line| line.starts_with("held: ")).collect()
}

/// Whether `line` starts with `begins` and then says about an hour: one that has just begun, rounded up to a second.
fn is_for_an_hour(line: &str, begins: &str) -> bool {
    line.strip_prefix(begins).is_some_and(|time| time == "1h" || time.starts_with("59m"))
}

const RATE: &str = "-r100/2s,margin=100ms";

/// Everything is held: the run says so, and continues once the hold is lifted. With a server, runs ask only once a
/// second whether all keys are held, so some items go before that.
fn is_held_until_lifted(mut run: Running, name: &str) {
    let mut items = 0;
    eventually("it has heard", || {
        items += 1;
        run.write("2\n");
        thread::sleep(Duration::from_millis(20));
        run.has_told()
    });
    let told = run.error_line();
    assert!(told.starts_with("throttle: the shared limits are held until "), "{told}");
    state(&["--hold=0"], name);
    assert_eq!(text(&run.finish().stdout), "2\n".repeat(items), "{name}");
    assert_eq!(held(&state(&["--status"], name)), [""; 0], "{name}");
}

#[test]
fn what_one_run_hears_silences_the_others() {
    for_each_state(|name| {
        let mut other = Running::fed(&[RATE, "-s", name], "1\n");
        other.line();
        let args = [RATE, "-s", name, "--", "sh", "-c", "echo 3600 >$THROTTLE_HEADERS"];
        let output = throttle(&args).write_stdin("x\n").output().expect("a run");
        let told = text(&output.stderr);
        assert!(
            told.starts_with("throttle: item 1 'x': the server asks for a pause of 1h: all items wait"),
            "{told}"
        );
        let status = state(&["--status"], name);
        assert!(is_for_an_hour(held(&status)[0], "held: everything, for "), "{name}: {status}");
        is_held_until_lifted(other, name);
    });
}

#[test]
fn a_hold_by_hand_holds_all_until_it_is_lifted() {
    for_each_state(|name| {
        for rate in [RATE, "-r100/2s,key=col:1,margin=100ms"] {
            let refusal = throttle(&["--hold=1h", "-s", name]).output().expect("a run");
            assert_eq!(refusal.status.code(), Some(1), "there is none yet");
            assert!(text(&refusal.stderr).contains("there is no state"));
            let mut run = Running::fed(&[rate, "-s", name], "1\n");
            run.line();
            state(&["--hold=1h"], name);
            let status = state(&["--status"], name);
            assert!(is_for_an_hour(held(&status)[0], "held: everything, for "), "{status}");
            is_held_until_lifted(run, name);
            state(&["--reset-state"], name);
        }
    });
}

#[test]
fn a_key_that_is_held_is_so_in_all_runs_and_no_other_key() {
    for_each_state(|name| {
        let rate = "-r100/2s,key=col:1,margin=100ms";
        let script = "case $1 in a*) echo 3600 >$THROTTLE_HEADERS ;; esac";
        fed(&[rate, "-q", "-s", name, "--", "sh", "-c", script, "sh"], "a 1\nb 1\n").success();
        let mut run = Running::fed(&[rate, "-s", name], "a 2\nb 2\n");
        assert_eq!(run.line(), "b 2\n");
        assert!(run.error_line().contains("the shared limits are held until "));
        let status = state(&["--status"], name);
        assert!(is_for_an_hour(held(&status)[0], "held: key 'a', for "), "{status}");
        state(&["--hold=0"], name);
        assert_eq!(run.line(), "a 2\n");
        assert_eq!(held(&state(&["--status"], name)), [""; 0], "{name}");
    });
}

#[test]
fn the_wait_for_a_hold_is_told_as_one() {
    for_each_state(|name| {
        let run = [RATE, "-v", "-s", name];
        fed(&run, "1\n").success();
        state(&["--hold=1h"], name);
        let mut run = Running::fed(&run, "2\n");
        while !run.error_line().contains("the shared limits are held until ") {}
        // It asks once a second whether the hold was lifted.
        thread::sleep(Duration::from_millis(2500));
        state(&["--hold=0"], name);
        assert_eq!(run.line(), "2\n");
        let held = text(&run.finish().stderr);
        assert!(held.contains(" s, once for a hold; at most 1 item in one second\n"), "{name}: {held}");
    });
}

#[test]
fn a_status_is_the_same_of_a_file_and_of_a_server() {
    for_each_state(|name| {
        fed(&["-r5/1h,margin=2s", "-s", name], "1\n2\n3\n").success();
        let status = state(&["--status"], name);
        assert!(
            status.starts_with("5/1h,algo=sliding,margin=2s: 3 used, 2 free, next slot now\n"),
            "{status}"
        );
    });
}
