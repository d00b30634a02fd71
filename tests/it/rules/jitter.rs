//! Random delays: `--jitter`. See `property` for random cases.

use predicates::str::contains;
use throttle::config::Jitter;
use throttle::time::SECOND;

use crate::support::{fed, text, throttle};

/// The instants of a plan, in nanoseconds.
fn plan(args: &[&str], input: &str) -> Vec<u64> {
    let output = throttle(&[&["--dry-run"], args].concat()).write_stdin(input).output().unwrap();
    let instant = |line: &str| line.split('\t').next().unwrap().replace('.', "").parse().unwrap();
    text(&output.stdout).lines().map(instant).collect()
}

#[test]
fn each_release_is_delayed_from_when_it_could_go() {
    let jitter: Jitter = "500ms,seed=7".parse().unwrap();
    let mut next = 0;
    let wanted: Vec<_> = (1..=50)
        .map(|item| {
            let at = next + jitter.delay(item, 1);
            next = at + SECOND;
            at
        })
        .collect();
    let input = "x\n".repeat(50);
    assert_eq!(plan(&["-r1/s", "--jitter=500ms,seed=7"], &input), wanted);
    assert_eq!(plan(&["-r1/s", "--jitter=500ms,seed=7", "--margin=0", "-j4", "--", "echo"], &input), wanted);
    assert_ne!(plan(&["-r1/s", "--jitter=500ms,seed=8"], &input), wanted);
    assert_ne!(plan(&["-r1/s", "--jitter=500ms"], &input), plan(&["-r1/s", "--jitter=500ms"], &input));
    assert_eq!(plan(&["-r1/s", "--jitter=0"], "1\n2\n"), [0, SECOND]);
}

#[test]
fn what_the_limits_do_not_admit_on_arrival_is_refused_without_a_delay() {
    let jitter: Jitter = "1s,seed=1".parse().unwrap();
    let args = ["-r1/s", "--jitter=1s,seed=1", "--on-limit=drop", "--arrivals=col:1"];
    let first = jitter.delay(1, 1);
    // The next ones follow the first in its lane.
    assert_eq!(plan(&args, "0\n0\n0\n0\n"), [first]);
    assert_eq!(plan(&args, "0\n0\n4\n"), [first, 4 * SECOND + jitter.delay(3, 1)]);
    // Both are admitted on arrival, but the second no longer at the end of its delay.
    let args = [&args[..], &["-r9/s,key=col:2"]].concat();
    assert_eq!(plan(&args, "0 a\n0 b\n"), [first.min(jitter.delay(2, 1))]);
}

#[test]
fn an_item_that_is_let_in_late_is_judged_as_of_then() {
    let args = ["-r1/s,key=col:2", "--on-limit=drop", "--arrivals=col:1", "--lookahead=1"];
    // The limit admits another `a` before there is room for it, or not.
    let is_admitted = (1..=8).map(|seed| {
        let text = format!("1s,seed={seed}");
        let jitter: Jitter = text.parse().unwrap();
        let [first, second, third] = [1, 2, 3].map(|item| jitter.delay(item, 1));
        let (room, is_admitted) = (SECOND + second, first < second);
        let args = [&args[..], &["--jitter", &text]].concat();
        let wanted = if is_admitted { vec![first, room, room + third] } else { vec![first, room] };
        assert_eq!(plan(&args, "0 a\n1 b\n1 a\n"), wanted);
        is_admitted
    });
    let is_admitted: Vec<_> = is_admitted.collect();
    assert!(is_admitted.contains(&true) && is_admitted.contains(&false));
}

#[test]
fn the_plan_and_the_run_tell_the_seed() {
    for args in [&["--dry-run"][..], &[]] {
        let args = [args, &["-v", "-r1T/s", "--jitter=1us,seed=5"]].concat();
        let told = contains("throttle: each release is delayed at random: --jitter 1us,seed=5\n");
        fed(&args, "a\n").success().stderr(told);
    }
}

#[test]
fn a_single_release_is_delayed_as_well() {
    let once = ["--once", "-r1/s", "--jitter=1h,seed=1", "--max-wait"];
    throttle(&[&once[..], &["1s"]].concat()).assert().code(75);
    throttle(&["--once", "-r1/s", "--jitter=1ms", "--max-wait=1h", "--", "echo", "x"]).assert().stdout("x\n");
}

#[test]
fn what_makes_no_sense_is_told() {
    let table: [(&[&str], &str); 3] = [
        (&["-s", "./state", "--jitter=1s"], "--jitter cannot be used with shared limits"),
        (&["--audit", "--jitter=1s"], "'--audit' cannot be used with '--jitter <DUR>'"),
        (&["--jitter=1s,x=1"], "write DUR or DUR,seed=N"),
    ];
    for (args, why) in table {
        throttle(&[&["-r1/s"], args].concat()).assert().code(2).stderr(contains(why));
    }
}
