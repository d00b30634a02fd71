//! What users of xargs, parallel and pv type by habit and expect of items and commands.

use std::os::unix::fs::PermissionsExt;
use std::{env, fs};

use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use crate::support::{Directory, THROTTLE, UNLIMITED, fed, sh, text, throttle};

#[test]
fn options_of_other_programs_name_ours() {
    let table: &[(&[&str], &str)] = &[
        (&["--delay", "1", "echo"], "--delay is an option of parallel: use -n 1 -p 1\n"),
        (
            &["-L", "10"],
            "-L is an option of pv and xargs: use -r 10/s,cost=bytes,algo=bucket for bytes, or -A interval -r \
             10/s for items; as",
        ),
        (&["-L1k"], "use -r 1Ki/s,cost=bytes,algo=bucket for bytes, or -A interval -r 1Ki/s for items\n"),
        (&["--joblog", "jobs.log", "echo"], "use --log jobs.log"),
        (&["--bar", "echo"], "use --progress"),
        (&["--eta", "echo"], "use --progress"),
        (&["--tagstring", "x", "echo"], "use --tag, or --tag=SEL"),
        (&["-S", "host", "echo"], "-S is an option of parallel: commands run on this machine"),
        (&["--wait=5", "curl"], "--wait is an option of wget: use -r 1/5,from=exit"),
        (&["--colsep", ",", "echo"], "use -F S, and {col:N} in COMMAND"),
        (&["--header", ":", "echo"], "use --csv, and {col:NAME} in COMMAND for the field NAME"),
        (&["--max-procs=4", "echo"], "use -j 4"),
        (&["--process-slot-var=SLOT", "echo"], "as $THROTTLE_SLOT"),
        (&["--retry-delay", "5", "echo"], "use --retries N --backoff 5\n"),
        (&["--max-time=30", "echo"], "use --timeout 30,"),
        (&["echo", ":::", "a", "b"], "items come from stdin"),
        (&["-L1", "echo"], "as with xargs, -B 1\n"),
        (&["--sleep", "1"], "there is no option --sleep; try 'throttle --help'"),
        (&["--dryrun"], "is it --dry-run?"),
        (&["--cuont", "1"], "there is no option --cuont: is it --count?"),
        (&["--st", "x"], "--st is ambiguous: --state, --store-timeout, --status, --stats"),
    ];
    for (args, told) in table {
        let assert = fed(&[&["-n1"], *args].concat(), "x\n").code(2).stdout("");
        assert.stderr(contains(*told).and(contains("to pass").not()).and(contains("\n").count(1)));
    }
}

#[test]
fn placeholders_of_parallel_are_told() {
    let directory = Directory::new();
    let told = |args: &[&str], printed: &'static str, told: &'static str| {
        let args = [&[UNLIMITED], args].concat();
        directory.throttle(&args).write_stdin("a.d/b.png\n").assert().success().stdout(printed).stderr(told);
    };
    told(
        &["--", "echo", "{}", "{.}.jpg"],
        "a.d/b.png {.}.jpg\n",
        "throttle: {.} is passed on unchanged: for that part of a name, use a shell, as in -- sh -c 'echo \
         \"${1%.*}\"' sh\n",
    );
    told(
        &["--", "echo", "{1}"],
        "{1} a.d/b.png\n",
        "throttle: {1} is passed on unchanged: for a field of the item, write {col:1}\n",
    );
    told(
        &["--", "echo", "$THROTTLE_SEQ"],
        "$THROTTLE_SEQ a.d/b.png\n",
        "throttle: $THROTTLE_SEQ is passed on unchanged: a shell expands it, as in -- sh -c 'echo \
         \"$THROTTLE_SEQ\"' sh\n",
    );
    told(&["--", "sh", "-c", "echo $THROTTLE_SEQ", "sh"], "1\n", "");
    told(&["--", "env", "sh", "-c", "echo>$THROTTLE_HEADERS", "sh"], "", "");
    told(
        &["--", "echo", "x{%}"],
        "x{%} a.d/b.png\n",
        "throttle: {%} is passed on unchanged: for the job slot, use a shell, as in -- sh -c 'echo \
         \"$THROTTLE_SLOT\"' sh\n",
    );
    told(&["-q", "--", "echo", "{/}"], "{/} a.d/b.png\n", "");
    told(
        &["--retries=1", "--backoff=429", "--", "echo"],
        "a.d/b.png\n",
        "throttle: --backoff 429 waits for 429 s: for the HTTP status, write --backoff 429=1s..5m\n",
    );
    told(&["--retries=1", "--backoff=420", "--", "echo"], "a.d/b.png\n", "");
    told(&["--pipe", "--", "echo", "{//}"], "{//}\n", "");
    for place in ["{}", "{col:1}"] {
        let told = format!(
            "throttle: {place} is passed on unchanged: with --pipe, COMMAND gets its items on standard input\n"
        );
        let mut run = throttle(&[UNLIMITED, "--pipe", "--", "echo", "x", place]);
        run.write_stdin("a\n").assert().success().stdout(format!("x {place}\n")).stderr(told);
    }
    told(&["--pipe", "--", "xargs", "-I{}", "echo", "{}"], "a.d/b.png\n", "");
    told(&["--", "echo", "x{1}", "{1,2}", "{/x}"], "x{1} {1,2} {/x} a.d/b.png\n", "");
    // The suggestions work.
    for (part, printed) in [
        ("${1%.*}", "a.d/b\n"),
        ("${1##*/}", "b.png\n"),
        (r#"$(dirname "$1")"#, "a.d\n"),
        (r#"$(basename "$1" .png)"#, "b\n"),
    ] {
        told(&["--", "sh", "-c", &format!("echo \"{part}\""), "sh"], printed, "");
    }
}

#[test]
fn a_mistyped_selector_in_braces_is_told() {
    for (arg, why) in [
        ("{col:0}", "{col:0} is passed on unchanged: a column is a number, counted from 1, as in col:1\n"),
        ("x{#:4}", "{#:4} is passed on unchanged: write {#:04} for at least 4 digits, and so on up to 020\n"),
        ("x/{col:-1}/y", "{col:-1} is passed on unchanged: a column is a number"),
        ("{re:a{1}(}", "{re:a{1}(} is passed on unchanged: 'a{1}(' is not a regular expression"),
    ] {
        let mut run = throttle(&[UNLIMITED, "--", "echo", arg]);
        run.write_stdin("i\n").assert().success().stdout(format!("{arg} i\n")).stderr(contains(why));
    }
    for arg in ["${col:0:1}", "{col:0", "{re:(", "{column:1}"] {
        let mut run = throttle(&[UNLIMITED, "--", "echo", arg]);
        run.write_stdin("i\n").assert().success().stdout(format!("{arg} i\n")).stderr("");
    }
}

#[test]
fn a_commands_own_arguments_are_not_looked_at() {
    let script = "throttle -n9 -- echo ::: --delay";
    sh(script).write_stdin("i\n").assert().success().stdout("::: --delay i\n").stderr("");
}

#[test]
fn long_options_may_be_cut_short() {
    let args = ["--cou", "1", "--algo", "interval", "--dry"];
    fed(&args, "a\nb\n").success().stdout("0.000000000\ta\n1.000000000\tb\n");
}

#[test]
fn a_count_beside_a_rate_has_to_say_its_period() {
    let told = |args: &[&str], told: &'static str| {
        fed(args, "x\n").code(2).stdout("").stderr(contains(told));
    };
    told(&["-r", "9/s", "-n1", "echo"], "if you mean that, add -p 1s; a command gets one item anyway");
    told(&["-r", "9/s", "-n", "5", "echo"], "use -B 5");
    fed(&["-r9/s", "-n5", "-p1s", "echo"], "x\n").success().stdout("x\n");
}

#[test]
fn a_file_where_a_command_should_be_is_taken_for_items() {
    let directory = Directory::new();
    let file = directory.file("urls.txt", "x\n");
    let told = "urls.txt is a file and cannot be run: to read items from it, use <urls.txt or -a urls.txt";
    let here = |command: &str| directory.sh(&format!("throttle {UNLIMITED} {command}"));
    here("urls.txt").assert().code(2).stderr(contains(told));
    here("./urls.txt").assert().code(2).stderr(contains("to run it, chmod +x ./urls.txt"));
    // An operand after -- is meant to be a command.
    here("-- ./urls.txt").write_stdin("x\n").assert().code(126);
    // An operand that does not exist fails when it is run, as usual.
    here("./absent.txt").write_stdin("x\n").assert().code(127);
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("it is ours");
    here("./urls.txt").write_stdin("").assert().success();
    // A command of the same name takes precedence.
    directory.file("true", "x\n");
    here("true").write_stdin("").assert().success();
}

#[test]
fn a_state_named_like_a_size_is_told() {
    let directory = Directory::new();
    let mut run = throttle(&[UNLIMITED, "-s", "10"]);
    let run = run.env("HOME", directory.path()).env_remove("XDG_STATE_HOME").write_stdin("x\n");
    run.assert().success().stderr(contains("-s 10 shares the limits").and(contains("as in pv")));
}

#[test]
fn a_home_that_is_not_there_is_not_made() {
    let directory = Directory::new();
    let home = directory.path().join("absent");
    let mut run = throttle(&[UNLIMITED, "-s", "name"]);
    let run = run.env("HOME", &home).env_remove("XDG_STATE_HOME").write_stdin("x\n");
    run.assert().code(78).stdout("");
    assert!(!home.exists());
}

/// As cron runs it: a minimal PATH, a HOME, no terminal.
#[test]
fn a_crontab_needs_only_paths_and_a_home() {
    let directory = Directory::new();
    let items = directory.file("items", "a\nb\n");
    let script = format!(
        "cd / && exec setsid -w env -i HOME={} SHELL=/bin/sh LOGNAME=u '{THROTTLE}' -s api -r 1T/s -a {} -- \
         /bin/echo </dev/null",
        directory.path().display(),
        items.display()
    );
    sh(&script).assert().success().stdout("a\nb\n").stderr("");
    assert!(directory.path().join(".local/state/throttle/api").exists());
}

#[test]
fn a_trace_shows_each_command_as_one_would_type_it() {
    let args = [UNLIMITED, "-t", "--", "printf", "%s|", "{}", "-{}"];
    let traced = "printf '%s|' 'it'\\''s' '-it'\\''s'\nprintf '%s|' $'\\x1b' $'-\\x1b'\n";
    fed(&args, "it's\n\x1b\n").success().stderr(traced);
    fed(&[UNLIMITED, "-t"], "x\n").code(2).stderr(contains("-t is for a command"));
}

#[test]
fn items_in_messages_are_quoted_as_in_a_trace() {
    let args = [UNLIMITED, "-q", "--on-bad=fail", "-c.n"];
    fed(&args, "it's \"x\"\n").code(1).stderr("throttle: item 1: not JSON: 'it'\\''s \"x\"'\n");
    let told = "throttle: item 1 'it'\\''s \"x\"': exited with 1\nthrottle: item 2 $'a\\tb': exited with 1\n";
    fed(&[UNLIMITED, "false"], "it's \"x\"\na\tb\n").code(123).stderr(told);
}

#[test]
fn each_attempt_is_traced() {
    let args = [UNLIMITED, "-t", "-q", "--retries", "2", "--", "false"];
    fed(&args, "x\n").code(123).stderr("false x\n".repeat(3));
}

#[test]
fn what_is_traced_can_be_run_by_a_shell() {
    let item = "a b'c\"d$e`f\\g\té";
    let traced = throttle(&[UNLIMITED, "-t", "--", "printf", "%s"]).write_stdin(item).output().unwrap();
    let mut shell = assert_cmd::Command::new("bash");
    shell.args(["-c", &text(&traced.stderr)]).assert().success().stdout(item);
}

#[test]
fn a_dry_run_with_a_command_prints_its_command_lines() {
    let dry_run = |args: &[&str], input: &str, printed: &'static str| {
        fed(&[&["--dry-run"], args].concat(), input).success().stdout(printed);
    };
    dry_run(
        &["-n1", "--", "curl", "-o", "{}", "x/{}"],
        "a\nb c\n",
        "0.000000000\tcurl -o a x/a\n1.020000000\tcurl -o 'b c' 'x/b c'\n",
    );
    dry_run(&["-n2", "echo"], "a\nb\n", "0.000000000\techo a\n0.000000000\techo b\n");
    dry_run(&["-n1", "-B2", "echo"], "a\nb\nc\n", "0.000000000\techo a b\n1.020000000\techo c\n");
    dry_run(&["-n1", "-0", "echo"], "a\0b\0", "0.000000000\techo a\n1.020000000\techo b\n");
    dry_run(&["-n1", "--pipe", "cat"], "a\n", "0.000000000\ta\n");
}

#[test]
fn help_comes_by_topic() {
    throttle(&["help"]).assert().success().stdout(contains("throttle help rates"));
    throttle(&["help", "rates"]).assert().success().stdout(contains("A RATE is N/PERIOD"));
    throttle(&["help", "algo"]).assert().success().stdout(contains("sliding    At most N"));
    throttle(&["--help", "exit"]).assert().success().stdout(contains("outranks"));
    throttle(&["help", "rats"]).assert().code(2).stderr(contains("the topics are rates, algorithms"));
}

#[test]
fn a_command_named_help_can_be_run() {
    let directory = Directory::new();
    let command = directory.file("help", "#!/bin/sh\necho \"$@\"\n");
    fs::set_permissions(&command, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([directory.path().to_owned()].into_iter().chain(env::split_paths(&inherited)));
    let mut run = throttle(&[UNLIMITED, "--", "help", "rates"]);
    run.env("PATH", path.unwrap()).write_stdin("x\n").assert().success().stdout("rates x\n");
}

#[test]
fn topics_and_short_help_name_options_that_there_are() {
    let long = text(&throttle(&["--help"]).output().unwrap().stdout);
    for topic in throttle::cli::topics() {
        let help = text(&throttle(&["help", topic]).output().unwrap().stdout);
        let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        for option in words.filter(|word| word.starts_with("--") && word.len() > 2) {
            let is_known = [" ", "\n", "["].iter().any(|end| long.contains(&format!("{option}{end}")));
            assert!(is_known || option == "--line-buffered", "help {topic}: {option}");
        }
    }
}

#[test]
fn the_short_help_fits_on_a_screen_and_has_the_options_of_the_readme() {
    let help = text(&throttle(&["-h"]).output().unwrap().stdout);
    assert!(help.lines().count() < 50 && help.lines().all(|line| line.len() <= 80), "{help}");
    let readme = include_str!("../../../README.md");
    let runs = readme.lines().filter(|line| line.starts_with("    "));
    for run in runs.filter_map(|line| line.split_once("throttle ").map(|(_, run)| run)) {
        // Words after these belong to the command or to another program.
        let ours = run.split([' ', '=']).take_while(|word| !["--", "|", "#", ";"].contains(word));
        for option in ours.filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{option} in: {run}");
        }
    }
}

#[test]
fn lines_from_windows_are_told_once_and_may_be_trimmed() {
    let told = "throttle: item 2 ends in a carriage return, which COMMAND gets: add --trim, or filter with tr \
        -d '\\r'\n";
    let echo = [UNLIMITED, "echo"];
    fed(&echo, "a\nb\r\nc\r\n").success().stdout("a\nb\r\nc\r\n").stderr(told);
    fed(&[UNLIMITED, "--trim", "echo"], "a\r\n").success().stdout("a\n").stderr("");
    // There is no warning if the items are not arguments.
    fed(&[UNLIMITED], "a\r\n").success().stdout("a\r\n").stderr("");
    fed(&[UNLIMITED, "--pipe", "cat"], "a\r\n").success().stderr("");
    // Nor if no argument ends so.
    for (selector, input, output) in
        [("{.a}", "{\"a\":1}\r\n", "1\n"), ("{#}", "x\r\n", "1\n"), ("{col:1}", "a b\r\n", "a\n")]
    {
        fed(&[UNLIMITED, "echo", selector], input).success().stdout(output).stderr("");
    }
    let last = fed(&[UNLIMITED, "-F,", "echo", "{col:2}"], "x,b\r\n").success();
    last.stdout("b\r\n").stderr(told.replace("item 2", "item 1"));
}

#[test]
fn text_from_windows_that_is_not_plain_utf_8_is_told_once_and_passes_as_it_is() {
    let told = "throttle: item 1 begins with a byte order mark, which becomes part of it: remove it with \
                tail -c +4\n";
    let marked = "\u{feff}a\n\u{feff}b\n";
    fed(&[UNLIMITED, "echo"], marked).success().stdout(marked).stderr(told);
    fed(&["-r9/s,key=col:1"], marked).success().stdout(marked).stderr(told);
    fed(&["-r9/s,cost=col:1"], "\u{feff}1\n").code(1).stderr(starts_with(told));
    let utf_16 = b"\xff\xfea\0\n\0".as_slice();
    let told = "throttle: the items are in UTF-16: convert them with iconv -f UTF-16 -t UTF-8\n";
    fed(&["-r9/s,key=col:1"], utf_16).success().stdout(utf_16).stderr(told);
    // There is no warning if the items are not matched for keys.
    for input in [marked.as_bytes(), utf_16] {
        fed(&[UNLIMITED], input).success().stdout(input).stderr("");
        fed(&[UNLIMITED, "--pipe", "cat"], input).success().stderr("");
    }
    fed(&["-q", UNLIMITED, "echo"], marked).success().stderr("");
}

#[test]
fn white_space_may_be_trimmed() {
    let trimmed = |args: &[&str], input: &str, output: &'static str| {
        fed(&[&["--trim"], args].concat(), input).success().stdout(output);
    };
    trimmed(&[UNLIMITED], " a b \r\n\t\nc  ", "a b\n\nc");
    // An item of only white space is still an item.
    trimmed(&[UNLIMITED], "a\n  ", "a\n\n");
    trimmed(&[UNLIMITED], "\x0b a\x0c\n", "a\n");
    trimmed(&[UNLIMITED, "--", "printf", "[%s]"], " a \n  ", "[a][]");
    trimmed(&["-n9", "-F,", "--dry-run", "--arrivals=col:2"], "a,1\r\n", "1.000000000\ta,1\n");
    trimmed(&["-r1/s,key=re:.*", "--dry-run"], "a\n a\n", "0.000000000\ta\n1.000000000\ta\n");
    // The end of an item is not taken for the beginning of its delimiter.
    for batch in ["-B1", "-B9"] {
        trimmed(&[UNLIMITED, "-d--", batch, "--", "printf", "[%s]"], " a- --b --", "[a-][b]");
    }
    trimmed(&["-r1/s,key=col:1", "-d--", "--dry-run"], "a- --", "0.000000000\ta---");
}

#[test]
fn blank_items_may_be_skipped() {
    let skipped = |args: &[&str], input: &str, output: &'static str| {
        fed(&[&["--skip-blank"], args].concat(), input).success().stdout(output);
    };
    skipped(&["-n1", "--dry-run"], "a\n\n \t\r\nb\n", "0.000000000\ta\n1.000000000\tb\n");
    skipped(&[UNLIMITED], "\n a\n\n  ", " a\n");
    skipped(&[UNLIMITED, "--", "sh", "-c", "echo $THROTTLE_SEQ $1", "sh"], "a\n\nb\n", "1 a\n3 b\n");
    skipped(
        &["-n9", "--dry-run", "--arrivals", "col:1"],
        "1 a\n\n2 b\n",
        "1.000000000\t1 a\n2.000000000\t2 b\n",
    );
    // Items keep their numbers, in a dry run too.
    let dry_run = ["-n9", "--dry-run", "--arrivals", "col:1", "-d,"];
    skipped(
        &[&dry_run[..], &["--", "echo", "{#}"]].concat(),
        " ,1 a,,2 b,",
        "1.000000000\techo 2\n2.000000000\techo 4\n",
    );
    fed(&[UNLIMITED, "--skip-blank", "-v"], "\na\n\n").success().stderr(contains("1 of 1 item released"));
}

#[test]
fn white_space_that_was_trimmed_costs_nothing() {
    let args = ["-r8/s,cost=bytes", "--trim", "--dry-run"];
    fed(&args, "  abc\nabc\n").success().stdout("0.000000000\tabc\n0.000000000\tabc\n");
}

#[test]
fn bad_items_end_the_run_or_are_skipped() {
    let input = "{\"n\": 1}\nbad\n{\"n\": 2}\n";
    let run = |args: &[&str]| fed(&[&["-r9/s,cost=.n"], args].concat(), input);
    let bad = "throttle: item 2: not JSON: 'bad'";
    run(&[])
        .code(1)
        .stdout("{\"n\": 1}\n")
        .stderr(format!("{bad}\nthrottle: ended early: 2 items read and not released\n"));
    run(&["--on-bad", "fail"]).code(1).stdout("{\"n\": 1}\n");
    let rest = "{\"n\": 1}\n{\"n\": 2}\n";
    run(&["--on-bad", "skip"]).code(1).stdout(rest).stderr(format!("{bad}; skipped\n"));
    run(&["--on-bad", "skip", "-q"]).code(1).stdout(rest).stderr("");
    run(&["--on-bad", "skip", "-v"])
        .code(1)
        .stderr(contains("2 of 3 items released").and(contains("1 failed")));
    // The exit status of a command ranks higher, and bad items count as failures.
    run(&["--on-bad", "skip", "false"]).code(123);
    run(&["--on-bad", "skip", "--halt", "soon,fail=1", "echo"])
        .code(1)
        .stderr(contains("1 item failed: --halt"));
}

#[test]
fn a_bad_item_behind_the_last_one_that_is_refused_is_told() {
    let args = ["-r4/m,start=empty,cost=col:1", "--on-bad=skip", "--on-limit=drop"];
    for more in [&["-B2"][..], &["-B2,1ms"], &["--max-wait=1ms"]] {
        let run = fed(&[&args, more].concat(), "1\n5\n").code(1);
        run.stderr(contains("item 2: its cost of 5").and(contains("not released").not()));
    }
}

#[test]
fn a_limit_that_no_item_matched_is_told() {
    let args = ["-r9/s,key=col:1,only=a", "-r9/s,key=col:1,only=b"];
    let told = "throttle: no item matched the limit 9/1s,algo=sliding,key=col:1,only=b\n";
    fed(&args, "a\nc\n").success().stdout("a\nc\n").stderr(told);
    fed(&args, "a\nb\n").success().stderr("");
    fed(&args, "").success().stderr("");
}
