//! Which outputs of commands are printed, and where.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Directory, Running, UNLIMITED, eventually, fed, sh, text, throttle};

/// Prints the attempt on both outputs, and succeeds only on the third.
const THIRD: &str =
    "echo out $1 $THROTTLE_ATTEMPT; echo error $1 $THROTTLE_ATTEMPT >&2; test $THROTTLE_ATTEMPT = 3";

#[test]
fn of_several_attempts_the_output_of_the_last_one_is_printed_and_the_errors_of_all() {
    for mode in [&["-j2"][..], &["-j2", "-k"], &["-j2", "-k", "--tag"]] {
        for (retries, attempts) in [("--retries=1", 2), ("--retries=2", 3), ("--retries=5", 3)] {
            let args = [&[UNLIMITED, "-q", retries], mode, &["--", "sh", "-c", THIRD, "sh"]].concat();
            let output = throttle(&args).write_stdin("x\n").output().unwrap();
            let tag = if mode.contains(&"--tag") { "x\t" } else { "" };
            assert_eq!(text(&output.stdout), format!("{tag}out x {attempts}\n"), "{args:?}");
            let errors = (1..=attempts).map(|attempt| format!("{tag}error x {attempt}\n"));
            assert_eq!(text(&output.stderr), errors.collect::<Vec<_>>().concat(), "{args:?}");
            assert_eq!(output.status.code(), Some(if attempts == 3 { 0 } else { 123 }));
        }
    }
}

#[test]
fn in_order_an_output_waits_for_earlier_items_that_wait_in_their_lanes() {
    // The last one overtakes the second, unless the machine is very slow.
    fed(&["-r", "1/500ms,key=col:1", "-j3", "-k", "--", "echo"], "a 1\na 2\nb 3\n").stdout("a 1\na 2\nb 3\n");
}

#[test]
fn the_output_of_an_attempt_that_none_follows_is_printed_at_the_end() {
    for mode in ["-j2", "-kj2"] {
        let directory = Directory::new();
        let mark = directory.path().join("mark");
        let script = format!("echo out; echo error >&2; : >{}; exit 1", mark.display());
        let args = [UNLIMITED, mode, "--retries=1", "--backoff=1h..2h", "--", "sh", "-c", &script];
        let mut running = Running::fed(&args, "x\n");
        if mode == "-j2" {
            assert_eq!(running.error_line(), "error\n");
        }
        eventually("it has printed", || mark.exists());
        running.signal(Signal::SIGTERM);
        assert_eq!(text(&running.collect().stdout), "out\n", "{mode}");
    }
}

#[test]
fn a_large_output_of_a_failed_attempt_is_given_up_with_its_file() {
    let script = "ulimit -n 60; seq 30 | throttle -r1T/s -kj9 --retries=1 -- \
        sh -c 'seq 20000; test $THROTTLE_ATTEMPT = 2' | wc -l";
    assert_eq!(text(&sh(script).output().unwrap().stdout).trim(), "600000");
}

#[test]
fn written_directly_all_attempts_are_seen() {
    for mode in [&["-j1"][..], &["-j2", "-u"]] {
        let args = [&[UNLIMITED, "-q", "--retries=2"], mode, &["--", "sh", "-c", THIRD, "sh"]].concat();
        fed(&args, "x\n").success().stdout("out x 1\nout x 2\nout x 3\n");
    }
}

#[test]
fn a_hyphen_is_standard_input_and_no_log() {
    fed(&[UNLIMITED, "-a", "-", "echo"], "x\n").success().stdout("x\n");
    let refused = fed(&[UNLIMITED, "--log", "-", "echo"], "x\n").code(2);
    refused.stderr(
        "throttle: --log - would be standard output, where COMMAND writes: name a file (./- for one named \
         -)\n",
    );
}

#[test]
fn an_input_that_is_the_output_is_refused_as_cat_does() {
    let directory = Directory::new();
    for (script, is_refused) in [
        ("throttle -r1T/s <f >>f", true),
        ("throttle -r1T/s -a f >>f", true),
        ("throttle -r1T/s --dry-run <f >>f", true),
        ("throttle -r1T/s <f 1<>f", false),
        ("{ read -r line; read -r line; throttle -r1T/s; } <f >>f", false),
        ("throttle -r1T/s <f >>g", false),
        ("throttle -r1T/s echo <f >>g", false),
    ] {
        directory.file("f", "a\nb\n");
        let output = directory.sh(script).output().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(is_refused)), "{script}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).contains("the input is also the output"), is_refused, "{script}");
        assert_eq!(std::fs::read_to_string(directory.path().join("f")).unwrap(), "a\nb\n", "{script}");
    }
}

/// A log would be read as it grows, for ever; the others would replace the input.
#[test]
fn a_file_is_not_written_that_is_the_input_or_another_output() {
    let directory = Directory::new();
    let log = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n";
    for (args, told) in [
        ("-a f --log f true", "--log would write to the input, f"),
        ("--log ./f true <f", "--log would write to the input, ./f"),
        ("-a f --plot f", "--plot would write to the input, f"),
        ("-a f --dry-run --plot f", "--plot would write to the input, f"),
        ("-a f --audit --plot f", "--plot would write to the input, f"),
        ("-a f --stats prom:f", "--stats prom: would write to the input, f"),
        ("-a f --log g --stats prom:./g true", "--stats prom: would overwrite ./g of another option"),
        ("-a f --log f --resume --dry-run true", ""),
    ] {
        directory.file("f", log);
        let output = directory.sh(&format!("throttle -r1T/s {args}")).output().unwrap();
        let told =
            if told.is_empty() { String::new() } else { format!("throttle: {told}: name another file\n") };
        assert_eq!(text(&output.stderr), told, "{args}");
        assert_eq!(std::fs::read_to_string(directory.path().join("f")).unwrap(), log, "{args}");
        assert!(!directory.path().join("g").exists(), "{args}");
    }
}

/// Limits and outputs would be gone, and a log among outputs could not be resumed.
#[test]
fn a_file_is_not_written_that_has_the_limits_or_takes_outputs() {
    let directory = Directory::new();
    let file = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    for (args, told) in [
        ("-r@limits --stats prom:limits", "--stats prom: would overwrite limits, where limits are kept"),
        ("-r@limits --stats prom:./same", "--stats prom: would overwrite ./same, where limits are kept"),
        ("-r9/s -s ./limits --plot limits", "--plot would overwrite limits, where limits are kept"),
        ("-r9/s --log out echo >out", "--log would write to out, where outputs go"),
        ("-r9/s --stats prom:out >out", "--stats prom: would write to out, where outputs go"),
        ("-r9/s --plot out >out", "--plot would write to out, where outputs go"),
        ("-r9/s --plot out true >out", ""),
        ("-r9/s --log out echo >>out", "--log would write to out, where outputs go"),
        ("-r9/s --log out echo 2>out", "--log would write to out, where outputs go"),
        ("-r@limits --log log --stats prom:out echo >/dev/null 2>&1", ""),
    ] {
        directory.file("limits", "9/s\n");
        let script = format!("ln -f limits same; rm -f out; throttle {args}");
        let output = directory.sh(&script).write_stdin("x\n").output().unwrap();
        assert_eq!(output.status.success(), told.is_empty(), "{args}");
        let told =
            if told.is_empty() { String::new() } else { format!("throttle: {told}: name another file\n") };
        if args.contains("out") {
            assert!(file("out").contains(&told) || text(&output.stderr).contains(&told), "{args}");
        } else {
            assert_eq!(text(&output.stderr), told, "{args}");
        }
        assert_eq!(file("limits"), "9/s\n", "{args}");
    }
}

#[test]
fn a_plot_is_not_written_under_the_name_of_another_format() {
    let directory = Directory::new();
    let run = |name: &str| {
        let args = [UNLIMITED, "--plot", name];
        directory.throttle(&args).write_stdin("x\n").output().unwrap().status.code()
    };
    assert_eq!(["run.png", "run.PDF"].map(run), [2, 2].map(Some));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(["run.svg", "run"].map(run), [0, 0].map(Some));
}

#[test]
fn a_plot_is_begun_only_if_nothing_else_is_wrong() {
    let directory = Directory::new();
    directory.file("limits", "1/s\n");
    for (args, code) in [
        (["-r@limits", "-q"], 2),
        (["-r1/s", "-c2"], 2),
        (["-r1/s", "-anosuch"], 1),
        (["-r@nosuch", "-q"], 1),
    ] {
        let args = [&args[..], &["--plot", "run.svg"]].concat();
        directory.throttle(&args).write_stdin("x\n").assert().code(code).stdout("");
    }
    assert!(!directory.path().join("run.svg").exists());
    // A dry run reads the limits once.
    let dry_run = ["-r@limits", "--dry-run", "--plot", "run.svg"];
    directory.throttle(&dry_run).write_stdin("x\n").assert().success();
}

#[test]
fn blank_is_whatever_is_white_space() {
    fed(&[UNLIMITED, "--skip-blank"], "a\n\x0b\x0c \t\r\n\x0c\nb\n").success().stdout("a\nb\n");
}

/// The first command ends only after the second has, and after a process that the second left behind has printed more.
#[test]
fn what_a_command_leaves_behind_does_not_add_to_its_output() {
    let directory = Directory::new();
    let leave = "(until [ -e third ]; do sleep 0.01; done; echo more; : >more) & head -c 100000 /dev/zero";
    let script = format!(
        "cd $0; case $1 in 1) until [ -e more ]; do sleep 0.01; done;; 2) {leave};; 3) : >third;; esac"
    );
    let args = [UNLIMITED, "-kj2", "--", "sh", "-c", &script, directory.path().to_str().unwrap()];
    let output = throttle(&args).write_stdin("1\n2\n3\n").output().unwrap();
    assert_eq!(output.stdout.len(), 100_000);
}

/// The second command ends only after a process that the first left behind has printed more.
#[test]
fn what_a_command_leaves_behind_does_not_add_to_the_output_of_the_next() {
    let directory = Directory::new();
    let leave = "(until [ -e second ]; do sleep 0.01; done; echo more; echo more >&2; : >more) & echo one";
    let follow = ": >second; until [ -e more ]; do sleep 0.01; done; echo two";
    let script = format!("cd $0; case $1 in 1) {leave};; 2) {follow};; *) echo $1;; esac");
    let args =
        [UNLIMITED, "-j2", "-r1/running", "--", "sh", "-c", &script, directory.path().to_str().unwrap()];
    fed(&args, "1\n2\n3\n4\n").success().stdout("one\ntwo\n3\n4\n").stderr("");
}
