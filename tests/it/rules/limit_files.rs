//! Limits that change while they are in force.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, starts_with};
use throttle::exit::Exit;

use crate::simulated::{Outcome, Simulation, block};
use crate::support::{Directory, HANG, Running, eventually, fed, numbers, text, throttle};

/// A run under limits from a file.
struct Live {
    running: Running,
    directory: Directory,
    started: Instant,
}

impl Live {
    fn new(limits: &str) -> Self {
        Live::with(limits, &[])
    }

    /// Starts with the items 1 to 9 as input.
    fn with(limits: &str, args: &[&str]) -> Self {
        let directory = Directory::new();
        let file = at(&directory.file("limits", limits));
        let started = Instant::now();
        let running = Running::fed(&[&["-v", "-r", &file], args].concat(), numbers(9));
        Live { running, directory, started }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("limits")
    }

    /// Rewrites the file in place.
    fn rewrite(&self, limits: &str) {
        fs::write(self.file(), limits).expect("a file");
    }

    /// Puts another file in its place.
    fn replace(&self, limits: &str) {
        let other = self.directory.file("limits.new", limits);
        fs::rename(other, self.file()).expect("a file");
    }

    /// The next line that is released.
    fn line(&mut self) -> String {
        self.running.line()
    }

    /// Waits until the run reports `what`.
    #[track_caller]
    fn told(&mut self, what: &str) {
        let mut line = String::new();
        eventually(what, || {
            line = self.running.error_line();
            line.contains(what)
        });
    }

    #[track_caller]
    fn is_not_before(&self, milliseconds: u64) {
        let elapsed = self.started.elapsed();
        assert!(elapsed >= Duration::from_millis(milliseconds), "{elapsed:?}");
    }
}

fn at(file: &Path) -> String {
    format!("@{}", file.display())
}

/// All ways to write a file.
const WRITES: [fn(&Live, &str); 2] = [Live::rewrite, Live::replace];

#[test]
fn a_raised_limit_ends_an_hours_wait() {
    for write in WRITES {
        let mut live = Live::new("# one at a time\n1/h\n");
        assert_eq!(live.line(), "1\n");
        write(&live, "9/h # and more\n");
        live.running.ends().success().stdout(numbers(9).split_off(2));
        // The change is noticed at once, or within a second at the latest.
        assert!(live.started.elapsed() < HANG);
    }
}

#[test]
fn a_raised_limit_does_not_forget_the_last_window() {
    let mut live = Live::new("2/400ms");
    assert_eq!(live.line() + &live.line(), "1\n2\n");
    live.rewrite("3/400ms");
    assert_eq!(live.line(), "3\n");
    assert_eq!(live.line(), "4\n");
    live.is_not_before(400);
}

#[test]
fn a_lowered_limit_takes_effect_at_once() {
    let mut live = Live::new("1/200ms");
    assert_eq!(live.line(), "1\n");
    live.replace("1/h");
    live.told("limit 1/1h");
    live.rewrite("1/200ms");
    // At most one item was released in between.
    assert_eq!(live.line(), "2\n");
    assert_eq!(live.line(), "3\n");
    live.is_not_before(400);
}

#[test]
fn a_count_of_zero_pauses() {
    for write in WRITES {
        let mut live = Live::new("1/100ms");
        assert_eq!(live.line(), "1\n");
        write(&live, "0/s\n");
        live.told("limit 0/1s");
        write(&live, "1/1ms\n");
        live.running.ends().success().stdout(numbers(9).split_off(2));
    }
}

#[test]
fn a_pause_does_not_forget_the_last_window() {
    let mut live = Live::new("2/800ms");
    assert_eq!(live.line() + &live.line(), "1\n2\n");
    live.rewrite("0/s");
    live.told("limit 0/1s");
    live.replace("2/800ms");
    assert_eq!(live.line(), "3\n");
    live.is_not_before(800);
}

#[test]
fn a_run_may_start_with_a_pause() {
    let mut live = Live::new("0/s");
    live.told("limit 0/1s");
    live.rewrite("1/1ms");
    assert_eq!(text(&live.running.finish().stdout), numbers(9));
}

/// It is not known when a pause ends.
#[test]
fn a_pause_ends_the_run_after_the_longest_wait() {
    for on_limit in ["wait", "latest"] {
        let live = Live::with("0/s", &["--max-wait=300ms", "--on-limit", on_limit]);
        let started = live.started;
        let told = contains("there is no release within --max-wait");
        live.running.ends().code(75).stdout("").stderr(told);
        assert!(started.elapsed() >= Duration::from_millis(300));
    }
    // What waits for other reasons has not waited for the end of the pause.
    let mut live = Live::with("1/700ms\n9/s,key=col:1", &["--max-wait=1s"]);
    assert_eq!(live.line() + &live.line(), "1\n2\n");
    let before = Instant::now();
    live.rewrite("0/s");
    assert_eq!(live.running.finish().status.code(), Some(75));
    assert!(before.elapsed() >= Duration::from_secs(1), "{:?}", before.elapsed());
    let mut live = Live::with("1/1ms", &["--max-wait=1h"]);
    live.rewrite("0/s");
    live.told("limit 0/1s");
    live.rewrite("1/1ms");
    assert!(live.running.finish().status.success());
    let told = contains("item 1 '1' came during a pause by the limit 0/1s");
    Live::with("0/s", &["--on-limit=fail"]).running.ends().stderr(told);
}

/// Its writer may never come.
#[test]
fn a_pipe_in_place_of_a_file_changes_nothing() {
    let mut live = Live::new("1/h");
    assert_eq!(live.line(), "1\n");
    let pipe = live.directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    fs::rename(pipe, live.file()).expect("its place");
    live.told("it is no longer a file");
    live.replace("1/1ms");
    assert_eq!(text(&live.running.finish().stdout), numbers(9).split_off(2));
}

/// As after `cp -p` or `rsync -t`.
#[test]
fn a_file_of_the_same_size_and_time_is_read_again() {
    let mut live = Live::new("1/h");
    assert_eq!(live.line(), "1\n");
    // A file that is new is read twice.
    thread::sleep(Duration::from_millis(600));
    let time = fs::metadata(live.file()).and_then(|data| data.modified()).expect("a time");
    live.rewrite("9/s");
    fs::File::options()
        .append(true)
        .open(live.file())
        .and_then(|file| file.set_modified(time))
        .expect("ours");
    assert_eq!(text(&live.running.finish().stdout), numbers(9).split_off(2));
}

#[test]
fn a_broken_file_changes_nothing_and_is_told_once() {
    for (broken, why) in [
        ("1/ms\n\n10\n", "line 3: '10': a rate needs a period: try 10/s"),
        ("# all gone\n", "contains no RATE: to pause, write 0/s"),
        ("1/s,colour=red\n", "line 1: '1/s,colour=red': 'colour=red': unknown option"),
    ] {
        let mut live = Live::with("1/h", &[]);
        assert_eq!(live.line(), "1\n");
        live.replace(broken);
        live.told(why);
        // The same file again, which need not be reported.
        live.replace(broken);
        live.replace("9/h");
        assert_eq!(live.line(), "2\n");
        live.running.ends().stderr(starts_with("throttle: limit 9/1h").and(contains(why).not()));
    }
}

/// As at the start of a run.
#[test]
fn what_makes_no_sense_in_a_run_is_refused_at_any_time() {
    let once = ["--once", "--", "echo", "1"];
    for (args, refused, why) in [
        (&[][..], "9/h\n4/running", "4/running is for a command"),
        (&[], "9/h,from=exit", "9/1h,algo=sliding,from=exit is for a command"),
        (&once, "4/running", "--once cannot see the end of COMMAND"),
        (&once, "9/h,key=col:1", "--once reads no items"),
    ] {
        let mut live = Live::with("1/h,start=empty", args);
        live.told("limit 1/1h");
        live.replace(refused);
        let warning = live.running.error_line();
        assert!(warning.contains(why) && warning.ends_with(": the old limits stay in force\n"), "{warning}");
        live.rewrite("9/h");
        assert_eq!(live.line(), "1\n");
    }
}

#[test]
fn a_warning_names_the_file_and_says_that_the_old_limits_stay() {
    let mut live = Live::with("1/h", &[]);
    live.told("limit 1/1h");
    live.replace("nonsense");
    let warning = live.running.error_line();
    assert!(warning.contains("limits: line 1: "), "{warning}");
    assert!(warning.ends_with(": the old limits stay in force\n"), "{warning}");
}

#[test]
fn a_file_that_goes_away_changes_nothing() {
    let mut live = Live::new("1/h");
    assert_eq!(live.line(), "1\n");
    fs::remove_file(live.file()).expect("a file");
    live.told("cannot read");
    live.rewrite("9/h");
    assert_eq!(text(&live.running.finish().stdout), numbers(9).split_off(2));
}

#[test]
fn several_files_and_plain_rates_are_kept_together() {
    let other = Directory::new();
    let second = other.file("second", "1/h,key=col:1\n1T/s\n");
    let mut live = Live::with("1/h", &["-r", "3/h", "-r", &at(&second)]);
    assert_eq!(live.line(), "1\n");
    live.rewrite("2/h");
    assert_eq!(live.line(), "2\n");
    live.replace("9/h");
    assert_eq!(live.line(), "3\n");
    live.told("limit 9/1h");
    fs::write(&second, "1/ms").expect("a file");
    live.told("limit 1/1ms");
    // The plain rate has not changed.
    live.running.write("10\n");
    live.rewrite("0/s");
    live.told("limit 0/1s");
    live.running.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(text(&live.running.collect().stdout), "");
}

#[test]
fn a_file_has_to_hold_limits_at_the_start() {
    let directory = Directory::new();
    let table = [
        (at(&directory.file("empty", "# nothing\n")), "contains no RATE"),
        (at(&directory.path().join("missing")), "missing: No such file"),
        (at(&directory.file("broken", "1/s\n10\n")), "broken: line 2: '10': a rate needs a period"),
    ];
    for (file, why) in table {
        let assert = fed(&["-r", &file], "1\n").code(1).stdout("");
        let told = text(&assert.get_output().stderr);
        assert!(told.starts_with("throttle: ") && told.contains(why), "{told}");
        assert_eq!(told.lines().count(), 1);
    }
    throttle(&["-r", "@"]).assert().code(2);
}

mod simulated {
    //! Changes of limits, to the nanosecond.

    use super::*;

    /// The release instants of this number of items, which arrive at 0.
    fn instants(items: usize, simulation: Simulation) -> Vec<u64> {
        let lines: Vec<_> = (0..items).map(|item| format!("{} {item}", ["a", "b"][item % 2])).collect();
        let Outcome { releases, exit, .. } = simulation.run(vec![block(0, &lines)]);
        assert_eq!(exit, Exit::Done);
        releases.iter().map(|release| release.start).collect()
    }

    /// The limits before a change, its instant, the limits after it, and the release instants.
    #[test]
    fn history_is_kept() {
        let table: &[(&[&str], u64, &[&str], &[u64])] = &[
            // Raised and lowered.
            (&["2/10ns"], 4, &["3/10ns"], &[0, 0, 4, 10, 10, 14]),
            (&["3/10ns"], 4, &["1/10ns"], &[0, 0, 0, 10, 20, 30]),
            (&["2/10ns"], 4, &["2/20ns"], &[0, 0, 20, 20, 40]),
            (&["2/20ns"], 15, &["2/10ns"], &[0, 0, 15, 15, 25]),
            // A longer period counts unknown times as used: here until 4, and then until 3.
            (&["2/2ns"], 6, &["8/6ns"], &[0, 0, 2, 2, 4, 4, 10, 10, 10]),
            (&["1/1ns,algo=fixed"], 4, &["9/6ns,algo=fixed"], &[0, 1, 2, 3, 9, 9]),
            // It is known that nothing was released before the first two, or after them.
            (&["2/2ns"], 1, &["8/6ns"], &[0, 0, 1, 1, 1, 1, 1, 1, 6, 6]),
            // An added limit knows what the existing ones know.
            (&["1/10ns"], 10, &["1/10ns", "1/30ns"], &[0, 30, 60]),
            // The other algorithms.
            (&["1/10ns,algo=interval"], 4, &["1/6ns,algo=interval"], &[0, 6, 12]),
            (&["1/10ns,algo=interval"], 4, &["1/30ns,algo=interval"], &[0, 30, 60]),
            (&["2/10ns,algo=fixed"], 4, &["3/10ns,algo=fixed"], &[0, 0, 4, 10, 10, 10]),
            (&["2/10ns,algo=bucket"], 4, &["2/4ns,algo=bucket"], &[0, 0, 5, 7, 9]),
            // An unchanged limit is recognised in any position; a changed one continues the nearest.
            (&["1/10ns", "9/ns"], 4, &["8/ns", "1/10ns"], &[0, 10, 20]),
            (&["9/3ns", "2/10ns"], 4, &["3/10ns", "8/3ns"], &[0, 0, 4, 10, 10, 14]),
            // A new limit starts as its options say.
            (&["1/10ns"], 4, &["1/10ns", "1/7ns,start=empty"], &[0, 11, 21]),
            // Another algorithm, key or cost starts over.
            (&["1/10ns"], 4, &["1/10ns,algo=fixed"], &[0, 4, 14]),
            // Each key has its own window: a and b take turns.
            (&["1/10ns,key=col:1"], 4, &["2/10ns,key=col:1"], &[0, 0, 4, 4, 10, 10]),
            (&["1/10ns"], 4, &["1/10ns,key=col:1"], &[0, 4, 4, 14, 14]),
        ];
        for (before, at, after, wanted) in table {
            let args: Vec<_> = before.iter().flat_map(|rate| ["-r", rate]).collect();
            let simulation = Simulation::new(&args).relimited(*at, after);
            assert_eq!(instants(wanted.len(), simulation), *wanted, "{before:?}, from {at} on {after:?}");
        }
    }

    /// The limits, a pause from 4 to 8, the limits after it, and the release instants.
    #[test]
    fn a_pause_keeps_what_it_pauses() {
        let table: &[(&[&str], &[&str], &[&str], &[u64])] = &[
            (&["2/10ns"], &["0/ns"], &["2/10ns"], &[0, 0, 10, 10, 20]),
            (&["2/10ns"], &["0/ns"], &["3/11ns"], &[0, 0, 8, 11, 11]),
            (&["2/1ns"], &["0/ns"], &["9/7ns"], &[0, 0, 1, 1, 2, 2, 3, 3, 10]),
            (&["1/10ns,algo=interval"], &["0/h,algo=interval"], &["1/10ns,algo=interval"], &[0, 10, 20]),
            (&["2/10ns,algo=fixed"], &["0/h,algo=fixed"], &["3/10ns,algo=fixed"], &[0, 0, 8, 10]),
            (&["2/10ns,algo=bucket"], &["0/h,algo=bucket"], &["2/10ns,algo=bucket"], &[0, 0, 8, 10, 15]),
            // A pause of everything pauses limits of any kind.
            (&["9/20ns", "2/10ns"], &["0/s"], &["2/10ns", "9/20ns"], &[0, 0, 10, 10, 20, 20, 30, 30, 40]),
            (&["1/10ns,key=col:1"], &["0/s"], &["1/10ns,key=col:1"], &[0, 0, 10, 10]),
            (&["2/10ns,cost=2"], &["0/s,key=col:1"], &["2/10ns,cost=2"], &[0, 10, 20]),
            // If only some items are paused, the others go on.
            (&["1/10ns,key=col:1"], &["0/s,key=col:1,only=a"], &["1/10ns,key=col:1"], &[0, 0, 4, 8]),
        ];
        for (before, pause, after, wanted) in table {
            let args: Vec<_> = before.iter().flat_map(|rate| ["-r", rate]).collect();
            let simulation = Simulation::new(&args).relimited(4, pause).relimited(8, after);
            assert_eq!(instants(wanted.len(), simulation), *wanted, "{before:?}, {pause:?}, {after:?}");
        }
    }

    #[test]
    fn changes_follow_one_another() {
        let simulation = Simulation::new(&["-r1/10ns"])
            .relimited(3, &["2/10ns"])
            .relimited(5, &["1/100ns"])
            .relimited(50, &["4/10ns"]);
        assert_eq!(instants(7, simulation), [0, 3, 50, 50, 50, 50, 60]);
    }

    #[test]
    fn the_order_of_a_key_outlasts_a_change_of_keys() {
        let lines = ["a 1", "a 2", "b 3", "a 4", "b 5"];
        let simulation = Simulation::new(&["-r1/10ns,key=col:1"]).relimited(4, &["1/10ns,key=col:2"]);
        let Outcome { releases, stats, .. } = simulation.run(vec![block(0, &lines)]);
        let lines: Vec<_> = releases.iter().flat_map(|release| &release.lines).collect();
        assert_eq!(lines, ["a 1", "b 3", "a 2", "a 4", "b 5"]);
        assert_eq!((stats.read, stats.released), (5, 5));
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/zero")]
fn what_is_too_long_for_a_list_of_limits_is_not_read_to_its_end() {
    fed(&["-r@/dev/zero"], "").code(1).stderr(contains("cannot read /dev/zero: it is longer than 1 MiB"));
}
