//! What a person sees on a terminal: here, a pseudo-terminal.

mod screen;

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGTERM};
use nix::sys::signal::killpg;
use nix::unistd::Pid;

use self::screen::Screen;
use crate::support::{
    Directory, Running, THROTTLE, UNLIMITED, eventually, is_alive, numbers, sh_command, text, throttle,
};

/// Removes the line.
const CLEAR: &str = "\r\x1b[2K\x1b[J";

/// The program with a terminal for its messages, and a file with this number of items as its input.
fn on(screen: &Screen, items: u32, args: &[&str]) -> Running {
    let directory = Directory::new();
    let file = directory.file("items", numbers(items));
    let mut command = Command::new(THROTTLE);
    command.args(args).stdin(File::open(file).unwrap()).stdout(Stdio::null()).stderr(screen.terminal());
    Running::spawn(&mut command)
}

#[test]
fn the_line_says_how_far_what_next_and_until_when() {
    let screen = Screen::new(80);
    let _running = on(&screen, 300, &["-n30", "-p1h", "--progress"]);
    // One hour for each of the other nine 30s.
    let line = screen.wait_for("; ends ");
    let (before, ends) = line.split_once("; ends ").unwrap();
    assert!(before.starts_with("30 of 300 (10 %), next in ") && before.ends_with(": 30/1h"), "{before}");
    let words: Vec<_> = ends.rsplit(' ').collect();
    assert!(words[1].len() == 5 && words[1].as_bytes()[2] == b':' && !words[0].is_empty(), "{line}");
}

#[test]
fn the_end_is_when_the_slowest_limit_lets_it_be() {
    let screen = Screen::new(80);
    // Three days, not the minutes that the first limit would take.
    let _running = on(&screen, 300, &["-r20/1m", "-r10/d,algo=fixed", "--progress"]);
    let line = screen.wait_for("; ends ");
    let ends = line.split_once("; ends 20").unwrap_or_else(|| panic!("{line}")).1;
    assert!(ends.len() > "26-12-20 21:52 ".len(), "{line}");
}

#[test]
fn the_line_fits_whatever_the_width() {
    let screen = Screen::new(40);
    let _running = on(&screen, 300, &["-n30", "-p1h", "--progress"]);
    let line = screen.wait_for("30 of 300, next in ");
    screen.resize(24);
    let line = screen.wait_for_change(&line);
    assert!(line.starts_with("30 of 300, next in 59m") && line.len() < 24, "{line}");
    screen.resize(120);
    screen.wait_for("(10 %)");
    assert!(!screen.raw().contains('\n'), "{}", screen.raw().escape_debug());
    // No colours, with or without NO_COLOR.
    let selects_graphics =
        |code: &str| code.split_once('m').is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    assert!(!screen.raw().split("\x1b[").any(selects_graphics), "{}", screen.raw().escape_debug());
}

#[test]
fn messages_take_the_place_of_the_line_which_goes_at_the_end() {
    let (screen, directory) = (Screen::new(80), Directory::new());
    let go = directory.path().join("go");
    let script = format!("[ $1 != 3 ] || until [ -e {} ]; do sleep 0.01; done; exit $1", go.display());
    let running = on(&screen, 3, &["-n3", "-p1h", "--progress", "--", "sh", "-c", &script, "sh"]);
    screen.wait_for("2 of 3 (66 %), 2 failed");
    directory.file("go", "");
    assert_eq!(running.collect().status.code(), Some(123));
    screen.wait_for("exited with 3");
    let raw = screen.raw();
    let last = format!("{CLEAR}throttle: item 3 '3': exited with 3\r\n");
    assert!(raw.contains(&last), "{}", raw.escape_debug());
    assert_eq!(screen.lines().len(), 3);
}

/// Whatever the terminal makes of a line that has become too long, and whoever writes in between.
#[test]
fn a_window_that_gets_narrower_has_no_remains_of_the_line() {
    let screen = Screen::new(80);
    let running = on(&screen, 300, &["-n30", "-p1h", "--progress"]);
    let line = screen.wait_for("; ends ");
    screen.resize(24);
    let line = screen.wait_for_change(&line);
    assert_eq!(screen.lines(), [line]);
    running.signal(SIGTERM);
    screen.wait_for_lines(&["throttle: ended by SIGTERM: 30 items released, 270 read and not released"]);
}

#[test]
fn items_on_the_same_terminal_do_not_run_into_the_line() {
    let table: [(&[&str], &[&str]); 3] = [
        (&[], &["1", "2", "3"]),
        (&["-d\\n"], &["1", "2", "3"]),
        // Items that do not end a line get a line of their own.
        (&["-d;"], &["1;", "2;", "3"]),
    ];
    for (args, expected) in table {
        let screen = Screen::new(80);
        let directory = Directory::new();
        let delimiter = if args == ["-d;"] { ";" } else { "\n" };
        let file = directory.file("items", ["1", "2", "3"].join(delimiter));
        let mut command = Command::new(THROTTLE);
        command.args(["-n1", "-p600ms", "--progress"]).args(args).stdin(File::open(file).unwrap());
        command.stdout(screen.terminal()).stderr(screen.terminal());
        let running = Running::spawn(&mut command);
        eventually("the line is there", || screen.raw().contains(" of 3 ("));
        assert!(running.collect().status.success());
        screen.wait_for_lines(expected);
    }
}

/// Items that have failed or still run were released, but are not done.
#[test]
fn what_was_released_is_not_what_is_done() {
    let screen = Screen::new(80);
    let args = ["-r9/s", "-j9", "--retries=1", "--backoff=1h", "--progress", "--", "sh", "-c"];
    let running = on(&screen, 3, &[&args[..], &["[ $1 = 1 ] || [ $1 = 2 ] && exec sleep 30", "sh"]].concat());
    screen.wait_for("0 of 3 (0 %), 2 running, next in ");
    running.signal(SIGTERM);
}

#[test]
fn the_end_by_a_signal_is_told_in_one_line() {
    let screen = Screen::new(80);
    let running = on(&screen, 9, &["-n3", "-p1h", "-q", "--progress", "--", "sh", "-c", "[ $1 != 2 ]", "sh"]);
    screen.wait_for("3 of 9 (33 %), 1 failed");
    running.signal(SIGTERM);
    screen.wait_for_lines(&[]);
    drop(running);
    let screen = Screen::new(80);
    let running = on(&screen, 9, &["-n3", "-p1h", "--", "sh", "-c", "[ $1 != 2 ]", "sh"]);
    screen.wait_for("--progress shows more");
    running.signal(SIGTERM);
    screen.wait_for("ended by SIGTERM: 3 items released, 1 failed, 6 read and not released");
}

/// A line every ten seconds: not before, and again at the end.
#[test]
fn with_messages_in_a_file_progress_is_lines_on_the_terminal() {
    let screen = Screen::new(80);
    let directory = Directory::new();
    let (items, log) = (directory.file("items", numbers(9)), directory.path().join("log"));
    let mut command = Command::new(THROTTLE);
    command.args(["-r1/h", "--max-wait=1d", "-v", "--progress", "-a"]).arg(&items);
    let running = controlled(&screen, &mut command, File::create(&log).unwrap());
    let start = Instant::now();
    let lines =
        |count| eventually("lines", || screen.raw().matches("throttle: 1 of 9 (11 %)").count() == count);
    lines(1);
    assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
    running.signal(SIGTERM);
    assert!(running.collect().stderr.is_empty());
    lines(2);
    assert!(std::fs::read_to_string(log).unwrap().contains("ended by SIGTERM"));
}

#[test]
fn nothing_is_drawn_in_the_background() {
    let screen = Screen::new(80);
    let directory = Directory::new();
    let file = directory.file("items", numbers(2));
    let script = "set -m; throttle -n1 -p1s --progress <\"$1\" & wait; echo over >&2";
    let mut command = sh_command(script);
    command.arg("sh").arg(file);
    let mut running = controlled_by(&screen, &mut command);
    screen.wait_for("over");
    running.wait();
    assert!(!screen.raw().contains(" of "), "{}", screen.raw().escape_debug());
}

/// Starts a command with a controlling terminal, which is its standard input and error.
fn controlled_by(screen: &Screen, command: &mut Command) -> Running {
    controlled(screen, command, screen.terminal())
}

/// The same, with another standard error.
fn controlled(screen: &Screen, command: &mut Command, stderr: impl Into<Stdio>) -> Running {
    let prepare = || {
        // SAFETY: these calls are allowed between fork and exec, and the default action runs none of our code.
        #[expect(unsafe_code)]
        let result = unsafe {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::setsid().min(libc::ioctl(0, libc::TIOCSCTTY as _, 0))
        };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    command.stdin(screen.terminal()).stdout(Stdio::null()).stderr(stderr);
    // SAFETY: see there.
    #[expect(unsafe_code)]
    unsafe {
        command.pre_exec(prepare);
    }
    Running::spawn(command)
}

/// Ctrl-C reaches commands directly. The end of one may be noticed before our own signal is reported.
#[test]
fn what_ctrl_c_ends_has_not_failed_and_nothing_follows_it() {
    let directory = Directory::new();
    let file = directory.file("items", "1\n2\n3\n");
    let script = "echo here >&2; exec sleep 1000";
    for args in [&["-j1"][..], &["-j2"], &["-j1", "--retries=2"]].into_iter().cycle().take(24) {
        let screen = Screen::new(100);
        let mut command = Command::new(THROTTLE);
        command.args([UNLIMITED, "-u", "-a"]).arg(&file).args(args).args(["--", "sh", "-c", script]);
        let mut running = controlled_by(&screen, &mut command);
        let started = if args == ["-j2"] { 2 } else { 1 };
        eventually("the commands run", || screen.raw().matches("here").count() == started);
        killpg(running.pid(), SIGINT).expect("it leads a group");
        running.wait();
        let items = if started == 1 { "item" } else { "items" };
        let (early, left) = (started, 3 - started);
        screen.wait_for(&format!(
            "ended by SIGINT: {started} {items} released, {early} ended early, {left} read and not released"
        ));
        assert_eq!(screen.raw().matches("here").count(), started, "{args:?}");
    }
}

/// So it has a process group, although its terminal's Ctrl-C no longer reaches it directly.
#[test]
fn what_a_halt_ends_leaves_nothing_running() {
    let directory = Directory::new();
    let (file, started) = (directory.file("items", "1\n2\n"), directory.path().join("started"));
    let script = "[ $1 = 1 ] || { sleep 1000 & echo $! >$2; wait; }; until [ -s $2 ]; do sleep .01; done";
    let screen = Screen::new(100);
    let mut command = Command::new(THROTTLE);
    command.args([UNLIMITED, "-j2", "--halt=now,success=1", "-a"]).arg(file);
    command.args(["--", "sh", "-c", script, "sh", "{}"]).arg(&started);
    let mut running = controlled_by(&screen, &mut command);
    running.wait();
    let pid = std::fs::read_to_string(started).unwrap().trim().parse().map(Pid::from_raw).unwrap();
    eventually("what the command had started is gone", || !is_alive(pid));
}

#[test]
fn ctrl_c_is_told_though_it_ends_the_reader_of_the_output_as_well() {
    for _ in 0..12 {
        let screen = Screen::new(100);
        let mut command = sh_command("{ printf '1\\n2\\n'; sleep 1000; } | throttle -n1 -p1h | cat >&2");
        let mut running = controlled_by(&screen, &mut command);
        screen.wait_for("1");
        killpg(running.pid(), SIGINT).expect("it leads a group");
        running.wait();
        screen.wait_for("ended by SIGINT: 1 item released, 1 read and not released");
    }
}

/// Nor is the end of an input that Ctrl-C has cut off the end of a batch.
#[test]
fn ctrl_c_releases_nothing_though_it_ends_the_input_as_well() {
    for _ in 0..12 {
        let screen = Screen::new(100);
        let script = "{ printf '1\\n2\\n'; sleep 1000; } | throttle -r1T/s -B9,1h -- echo started >&2";
        let mut running = controlled_by(&screen, &mut sh_command(script));
        screen.wait_for(": a batch");
        killpg(running.pid(), SIGINT).expect("it leads a group");
        running.wait();
        screen.wait_for("ended by SIGINT: 0 items released, 2 read and not released");
        assert!(!screen.raw().contains("started"), "{}", screen.raw());
    }
}

#[test]
fn the_first_long_wait_is_explained() {
    let screen = Screen::new(100);
    let table: [(&[&str], &str); 3] = [
        (&["-r1/h"], " for the limit 1/1h (--progress shows more)"),
        (&["-r1/h,start=empty"], " for the limit 1/1h (--progress shows more)"),
        (&["-r9/s", "--retries=1", "--backoff=1h..1h", "--", "false"], ": backoff (--progress shows more)"),
    ];
    for (args, expected) in table {
        let screen = Screen::new(100);
        let mut running = on(&screen, 2, args);
        let line = screen.wait_for("--progress shows more");
        assert!(line.starts_with("throttle: waiting until ") && line.ends_with(expected), "{line}");
        running.signal(SIGTERM);
        running.wait();
        assert_eq!(screen.raw().matches("waiting until").count(), 1);
    }
    let mut running = on(&screen, 2, &["-r1/s"]);
    running.wait();
    assert_eq!(screen.raw(), "");
}

#[test]
fn the_wait_for_a_single_release_is_explained() {
    let directory = Directory::new();
    let state = directory.path().join("state");
    let args = ["--once", "-s", state.to_str().unwrap(), "-r1/h"];
    throttle(&args).assert().success();
    let table =
        [(&args[..], ": the shared limit"), (&["--once", "-r1/h,start=empty"], " for the limit 1/1h")];
    for (args, expected) in table {
        let screen = Screen::new(100);
        let mut running = on(&screen, 0, args);
        let line = screen.wait_for("throttle: waiting until ");
        assert!(line.ends_with(expected) && !line.contains("--progress"), "{line}");
        running.signal(SIGTERM);
        running.wait();
    }
}

#[test]
fn a_pause_is_explained() {
    let directory = Directory::new();
    let limits = directory.file("limits", "0/s\n");
    let screen = Screen::new(100);
    let _running = on(&screen, 2, &["-r", &format!("@{}", limits.display())]);
    let line = screen.wait_for("--progress shows more");
    assert!(line.starts_with("throttle: paused by the limit 0/1s until it changes"), "{line}");
}

#[test]
fn items_that_are_typed_are_asked_for() {
    let screen = Screen::new(80);
    let mut command = Command::new(THROTTLE);
    command.arg("-r1/s").stdin(screen.terminal()).stdout(Stdio::null()).stderr(screen.terminal());
    let _running = Running::spawn(&mut command);
    assert_eq!(screen.wait_for("Ctrl-D"), "throttle: reading items from the terminal; end with Ctrl-D");
}

#[test]
fn a_dry_run_ends_with_a_plan_in_words() {
    let screen = Screen::new(80);
    let mut running = on(&screen, 1000, &["-r100/h", "--dry-run"]);
    running.wait();
    let line = screen.wait_for(", ends ");
    assert!(line.starts_with("throttle: 1000 items, 9 h 0 min, ends "), "{line}");
    let output =
        Command::new("sh").args(["-c", "seq 3 | \"$0\" -r1/s --dry-run", THROTTLE]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
}

/// The statistics of a run that was stopped from before its only release was due until after that.
fn stopped_in_its_wait() -> serde_json::Value {
    let screen = Screen::new(80);
    let running = on(&screen, 4, &["-n2", "-p2s", "--progress", "--stats=json"]);
    screen.wait_for("2 of 4");
    running.stop();
    std::thread::sleep(Duration::from_millis(2500));
    running.signal(SIGCONT);
    running.collect();
    serde_json::from_str(&screen.wait_for("\"exit\":")).unwrap()
}

#[test]
fn time_that_a_run_was_stopped_is_left_out() {
    // On a busy machine it may go on, and end, before it knows that it was stopped.
    let told = loop {
        let told = stopped_in_its_wait();
        if told["stopped_seconds"] != 0.0 {
            break told;
        }
    };
    let number = |name: &str| told[name].as_f64().expect(name);
    // Only the part of the stop after the release was due is counted.
    assert!((0.5..number("seconds")).contains(&number("stopped_seconds")), "{told}");
    assert!(number("waited_seconds") > 0.9 && number("highest_rate") >= 2.0, "{told}");
    let limit = &told["limits"][0];
    assert_eq!((&limit["limit"], &limit["waits"]), (&"2/2s,algo=sliding".into(), &1.into()));
    assert_eq!((&limit["releases"], &limit["cost"]), (&told["released"], &told["released"]));
    assert_eq!(limit["waited_seconds"], told["waited_seconds"]);
}

/// The numbers of a run of one release per `period` that is stopped for a second after each of some releases.
fn stopped_after(releases: u8, period: &str, more: &[&str]) -> serde_json::Value {
    let mut running = Running::fed(&[&["-n1", "-p", period, "--stats=json"], more].concat(), "1\n2\n3\n");
    running.close_stdin();
    for release in 1..=releases {
        assert_eq!(running.line(), format!("{release}\n"));
        // It waits again.
        std::thread::sleep(Duration::from_millis(100));
        running.stop();
        std::thread::sleep(Duration::from_secs(1));
        running.signal(SIGCONT);
    }
    let stderr = text(&running.finish().stderr);
    serde_json::from_str(stderr.lines().last().unwrap()).unwrap()
}

/// The rest of the time is enough for what the limit demands.
#[test]
fn a_stop_counts_once_and_only_if_it_makes_a_release_late() {
    for (releases, period, more, least) in
        [(2, "500ms", &[][..], 1.0), (1, "1500ms", &["--progress=always"], 3.0)]
    {
        let told = stopped_after(releases, period, more);
        let number = |name: &str| told[name].as_f64().expect(name);
        assert!(number("seconds") - number("stopped_seconds") >= least, "{told}");
    }
}

/// A selector that would set a title, ring the bell, and reverse the text that follows.
const ORDERS: &str = ".a\x1b]0;title\x07\u{202e}b";

#[test]
fn a_limit_gives_no_orders_to_the_terminal() {
    let screen = Screen::new(200);
    let limit = format!("-r30/1h,key={ORDERS}");
    let _running = on(&screen, 300, &[&limit, "--progress", "-v"]);
    screen.wait_for(r"per .a\u{1b}]0;title\u{7}\u{202e}b");
    assert!(!screen.raw().contains("\x1b]") && !screen.raw().contains('\u{202e}'));
}

#[test]
fn what_is_printed_of_limits_gives_no_orders() {
    let limit = format!("-r1/1h,key={ORDERS}");
    let runs: [&[&str]; 3] = [
        &["--audit", "--arrivals=col:1", "--stats=json"],
        &["--dry-run", "--plot=-", "--stats=json", "-v"],
        &["--dry-run", "-t", "--", "echo", ORDERS],
    ];
    for args in runs {
        let output = throttle(&[&[limit.as_str()], args].concat()).write_stdin("1\n1\n").output().unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(told.contains("]0;title"), "{told}");
        assert!(!told.contains(['\x1b', '\x07', '\u{202e}']), "{}", told.escape_debug());
    }
}
