//! Commands whose end stops the run.

use predicates::prelude::*;
use predicates::str::contains;

use crate::support::{Directory, UNLIMITED, fed, text, throttle};

#[test]
fn a_run_ends_when_so_many_have_ended_in_such_a_way() {
    // Whether each item fails, in order; the number of items run; the exit status.
    for (halt, items, run, status) in [
        ("soon,success=1", "1 1 0 0 0", 3, 0),
        ("soon,success=2", "1 0 1 0 1", 4, 0),
        ("soon,success=3", "1 0 1 0 1", 5, 123),
        ("soon,done=2", "0 0 0", 2, 0),
        ("soon,done=2", "0 1 0", 2, 123),
        ("soon,done=60%", "0 0 0 0 0", 3, 0),
        ("soon,fail=2", "0 1 0 1 0", 4, 123),
        // A percentage of all items; counted against those that have ended, it would be reached sooner.
        ("soon,fail=60%", "1 1 1 0 0", 3, 123),
        ("soon,fail=80%", "1 1 1 0 0", 5, 123),
        ("soon,fail=50%", "1 0", 1, 123),
    ] {
        let args = ["-r1/20ms", "--halt", halt, "--", "sh", "-c", "echo $1; exit $1", "sh"];
        let directory = Directory::new();
        let list = directory.file("items", items.replace(' ', "\n"));
        let output = throttle(&args).pipe_stdin(list).unwrap().output().unwrap();
        assert_eq!(text(&output.stdout).lines().count(), run, "{halt} {items}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{halt} {items}");
    }
}

#[test]
fn the_first_that_succeeds_ends_the_others() {
    let script = "case $1 in fast) echo fast;; *) sleep 60; echo $1;; esac";
    fed(&[UNLIMITED, "-j3", "--halt=now,success=1", "--", "sh", "-c", script, "sh"], "slow\nfast\nslower\n")
        .success()
        .stdout("fast\n")
        .stderr(contains("1 item succeeded: --halt ends the run"))
        .stderr(contains("killed").not());
}

#[test]
fn what_failed_is_left_alone_if_only_new_items_are_wanted() {
    for format in ["tsv", "json"] {
        let directory = Directory::new();
        let run = |resume: &str, input: &str| {
            let format = format!("--log-format={format}");
            let args = [UNLIMITED, "-q", "--retries=1", "--log=log", &format, resume];
            let args: Vec<_> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
            let command = ["--", "sh", "-c", "test $THROTTLE_ATTEMPT = 1 && echo $1; test $1 != bad", "sh"];
            let mut run = directory.throttle(&[&args[..], &command].concat());
            text(&run.write_stdin(input.to_owned()).output().unwrap().stdout)
        };
        assert_eq!(run("", "good\nbad\n"), "good\nbad\n");
        assert_eq!(run("--resume", "good\nbad\n"), "bad\n");
        assert_eq!(run("--resume=unfinished", "good\nbad\n"), "bad\n");
        assert_eq!(run("--resume=new", "good\nbad\nnew\nbad\n"), "new\nbad\n", "{format}");
        assert_eq!(run("--resume=new", "good\nbad\nnew\nbad\n"), "");
    }
}

#[test]
fn a_dry_run_leaves_out_what_the_log_has_and_leaves_the_log_alone() {
    let directory = Directory::new();
    let log = directory.path().join("log");
    let run = |args: &[&str]| {
        let args = [&[UNLIMITED, "-q", "--log=log"], args, &["--", "test", "{}", "!=", "bad"]].concat();
        let output = directory.throttle(&args).write_stdin("good\nbad\nnew\n").output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    let line = |item| format!("0.000000000\ttest {item} '!=' bad\n");
    let all = ["good", "bad", "new"].map(line).concat();
    assert_eq!(run(&["--dry-run", "--resume"]), all);
    assert!(!log.exists());
    run(&[]);
    // A torn last line.
    let written = std::fs::read_to_string(&log).unwrap();
    let torn = written.trim_end();
    std::fs::write(&log, torn).unwrap();
    assert_eq!(run(&["--dry-run"]), all);
    assert_eq!(run(&["--dry-run", "--resume"]), ["bad", "new"].map(line).concat());
    assert_eq!(run(&["--dry-run", "--resume=new"]), line("new"));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), torn);
    std::fs::write(&log, "something else").unwrap();
    assert_eq!(
        run(&["--dry-run", "--resume"]),
        "throttle: log is not a log of throttle: name another file\n"
    );
}
