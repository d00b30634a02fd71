//! `--plot`: releases drawn over time.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use predicates::str::contains;

use crate::support::{Directory, Running, THROTTLE, fed, narrow_pipe, numbers, sh, text, throttle};

#[test]
fn an_audit_is_drawn_with_its_violations_in_a_file_of_bounded_size() {
    let directory = Directory::new();
    let plot = directory.path().join("plot.svg");
    let draw = |limit: &str, input: &str| {
        let args = ["--audit", "-q", "-r", limit, "--plot", plot.to_str().unwrap()];
        throttle(&args).write_stdin(input).output().unwrap();
        fs::read_to_string(&plot).unwrap()
    };
    let stamps =
        |count: u32| (0..count).map(|n| format!("{}.{:03} <a>\n", n / 100, n % 100 * 10)).collect::<Vec<_>>();
    let svg = draw("100/s", &stamps(50_000).concat());
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.len() < 60_000 && !svg.contains("<circle") && !svg.contains("script"), "{} bytes", svg.len());
    for part in ["100/1s,algo=sliding", "prefers-color-scheme:dark", ">0 s<", ">8 min<", ">40k<"] {
        assert!(svg.contains(part) || part == ">0 s<" && svg.contains(">0 min<"), "no {part}");
    }
    let svg = draw("99/s,key=col:2", &stamps(300).concat());
    assert!(svg.contains("class=\"early\"") && svg.contains(">&lt;a&gt;</text>"), "{svg}");
    assert!(draw("1/s", "").ends_with("</svg>\n"));
}

#[test]
fn what_is_too_early_is_marked_below_the_characters() {
    let args = ["--audit", "-r1/s", "--plot=-"];
    let output = throttle(&args).write_stdin("0\n0.2\n1\n3\n").output().unwrap();
    let drawn = text(&output.stdout);
    let marks = drawn.lines().find_map(|line| line.trim_start().strip_prefix("early"));
    assert_eq!(marks.unwrap_or_default().split_whitespace().collect::<Vec<_>>(), ["!", "!"], "{drawn}");
}

/// Both keys have releases at the same times.
#[test]
fn keys_whose_lines_overlap_are_told_apart_by_their_widths() {
    let directory = Directory::new();
    let plot = directory.path().join("plot.svg");
    let args = ["-r1/s,key=col:2", "--audit", "-q", "--plot", plot.to_str().unwrap()];
    fed(&args, "0 a\n0 b\n1 a\n1 b\n").success();
    let svg = fs::read_to_string(&plot).unwrap();
    let path = |class: &str| {
        let drawn = svg.split(class).nth(1).expect(class);
        drawn.split("d=\"").nth(1).and_then(|path| path.split('"').next()).expect(class).to_owned()
    };
    let [wide, narrow] = ["class=\"line s0 w1\"", "class=\"line s1 w0\""];
    // The legend comes first.
    assert_eq!([svg.matches(wide).count(), svg.matches(narrow).count()], [3, 3], "{svg}");
    assert_ne!(path(wide), path(narrow));
    assert!(svg.rfind(wide) < svg.rfind(narrow), "the narrow one is on top");
}

#[test]
fn a_dry_run_is_drawn_in_characters() {
    let args = ["-r4/s", "--dry-run", "--arrivals=col:1", "--plot=-"];
    let output = throttle(&args).write_stdin("0\n0\n1.5\n1.5\n1.5\n1.5\n1.5\n3\n").output().unwrap();
    let drawn = text(&output.stderr);
    let lines: Vec<_> = drawn.lines().collect();
    assert_eq!(lines[0], "4/1s,algo=sliding: in the last 1s, at most 4 allowed");
    assert_eq!(lines.len(), 10);
    assert!(lines[1].starts_with("       4 ---") && lines[1].contains('\u{2588}'), "{drawn}");
    assert!(
        lines[9].trim_start().starts_with("0 ")
            && (lines[9].ends_with("3000 ms") || lines[9].ends_with("3 s")),
        "{drawn}"
    );
    assert!(drawn.lines().all(|line| line.chars().count() <= 80));
    assert_eq!(text(&output.stdout).lines().count(), 8);
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_released() {
    for mode in [&[][..], &["--dry-run"], &["--audit"]] {
        for file in ["/nowhere/plot.svg", "/"] {
            let output = throttle(mode).args(["-r9/s", "--plot", file]).write_stdin("1\n").output().unwrap();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{mode:?} {file}");
            assert!(text(&output.stderr).starts_with(&format!("throttle: cannot write {file}: ")));
        }
    }
}

#[test]
fn a_fifo_that_nobody_reads_is_told() {
    let directory = Directory::new();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for mode in [&[][..], &["--dry-run"], &["--audit"]] {
        let mut run = throttle(mode);
        run.args(["-r9/s", "--plot", fifo.to_str().unwrap()]).timeout(Duration::from_secs(20));
        run.write_stdin("1\n").assert().code(1).stderr(contains("cannot write "));
    }
    let script = "exec 3<>fifo; throttle -q -r9/s --audit --plot fifo && head -c 4 <&3";
    directory.sh(script).write_stdin("1\n").assert().success().stdout("<svg");
}

#[test]
fn a_run_is_drawn_as_it_was() {
    let directory = Directory::new();
    let plot = directory.path().join("plot.svg");
    let file = directory.file("limits", "9/s\n");
    let args = ["-r3/100ms", "--plot", plot.to_str().unwrap()];
    fed(&args, numbers(8)).success().stdout(numbers(8));
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("in the last 100ms: at most 3 allowed") && !svg.contains("<circle"), "{svg}");
    fs::remove_file(&plot).unwrap();
    throttle(&args).args(["-B2", "true"]).write_stdin(numbers(8)).assert().success();
    // Four commands with two items each.
    assert!(fs::read_to_string(&plot).unwrap().contains(">4</text>"));
    let output = throttle(&args).arg(format!("-r@{}", file.display())).write_stdin("").output().unwrap();
    assert!(text(&output.stderr).contains("--plot needs limits that cannot change"));
    let args = ["-r9/s", "--plot", "/nonexistent/plot.svg"];
    let output = throttle(&args).write_stdin("").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write /nonexistent/plot.svg"));
}

/// A key that is seen once has steps of a nanosecond; the other makes the run last a year.
#[test]
fn memory_is_bounded_however_the_keys_are_spread_over_time() {
    let directory = Directory::new();
    let plot = directory.path().join("plot.svg");
    let input = "0 once\n".to_owned() + "1 twice\n1.1 twice\n30000000 twice\n";
    for mode in ["--audit", "--dry-run --arrivals=col:1"] {
        let limit = "-r1/s,key=col:2";
        let script = format!("ulimit -v 200000; throttle {limit} {mode} --plot {}", plot.display());
        let output = sh(&script).write_stdin(input.clone()).output().unwrap();
        let status = if mode == "--audit" { 75 } else { 0 };
        assert_eq!(output.status.code(), Some(status), "{mode}: {}", text(&output.stderr));
        let svg = fs::read_to_string(&plot).unwrap();
        assert!(svg.ends_with("</svg>\n") && svg.len() < 100_000, "{mode}: {} bytes", svg.len());
    }
    let script = format!("ulimit -v 200000; throttle -r1/300ms,key=col:1 --plot {}", plot.display());
    sh(&script).write_stdin("a\na\na\nb\n").assert().success();
    assert!(fs::metadata(&plot).unwrap().len() < 100_000);
}

#[test]
fn a_run_that_is_drawn_shows_its_commands_as_any_other() {
    let directory = Directory::new();
    let plot = directory.path().join("plot.svg");
    let args = ["-r9/s", "-t", "--plot", plot.to_str().unwrap(), "true"];
    fed(&args, "a b\nc\n").success().stderr("true 'a b'\ntrue c\n");
}

/// A full disk is no reason to be silent about the run.
#[test]
fn the_numbers_come_after_the_drawing_even_if_that_failed() {
    for (plot, status) in [("-", 0), ("/dev/full", 1)] {
        for mode in [&[][..], &["--dry-run"], &["true"]] {
            let args = ["-r9/s", "--stats=json", "--plot", plot];
            let output = throttle(&args).args(mode).write_stdin("1\n").output().unwrap();
            let stderr = text(&output.stderr);
            let numbers: serde_json::Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
            assert_eq!((numbers["exit"].as_i64(), &numbers["read"]), (Some(status), &1.into()), "{stderr}");
            assert_eq!(output.status.code().map(i64::from), Some(status), "{stderr}");
            assert!(stderr.lines().count() > 1, "{mode:?}: {stderr}");
        }
    }
}

/// A run draws on standard error, an audit on standard output.
#[test]
fn a_drawing_that_nobody_reads_keeps_neither_a_signal_nor_the_readers_end_out() {
    for mode in ["run", "audit"] {
        for signal in [Signal::SIGTERM, Signal::SIGPIPE] {
            if mode == "run" && signal == Signal::SIGPIPE {
                // Messages that nobody reads are no reason to end.
                continue;
            }
            // Leaves room for what an audit says first.
            let (reader, writer) = narrow_pipe(if mode == "run" { 100 } else { 300 });
            let mut command = Command::new(THROTTLE);
            command.args(["-r9T/s", "--plot=-", "-a"]).arg("items").stdin(Stdio::null());
            match mode {
                "run" => command.stdout(Stdio::null()).stderr(writer),
                _ => command.arg("--audit").stdout(writer).stderr(Stdio::piped()),
            };
            let directory = Directory::new();
            directory.file("items", "1\n2\n");
            let mut running = Running::spawn(command.current_dir(directory.path()));
            drop(command);
            thread::sleep(Duration::from_millis(100));
            if signal == Signal::SIGPIPE {
                drop(reader);
            } else {
                running.signal(signal);
            }
            assert_eq!(running.wait().signal(), Some(signal as i32), "{mode}");
        }
    }
}
