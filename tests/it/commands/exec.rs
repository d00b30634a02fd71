//! Running a command for each item.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use crate::support::{
    Directory, Running, UNLIMITED, eventually, fed, needs_program, sh, sh_command, text, throttle,
};

/// A command that obeys the item: it exits with the status, or dies of the signal, that the item names.
const OBEY: [&str; 5] = ["--", "sh", "-c", "case $1 in *[A-Z]*) kill -$1 $$;; *) exit $1;; esac", "sh"];

#[test]
fn the_exit_status_tells_the_worst_that_happened() {
    // Items, the exit status, and the number of commands run.
    let table: &[(&[&str], i32, &str)] = &[
        (&[], 0, "0 of 0"),
        (&["0", "0"], 0, "2 of 2"),
        (&["1"], 123, "1 of 1"),
        (&["0", "125", "0"], 123, "3 of 3"),
        (&["126"], 123, "1 of 1"),
        (&["254", "0"], 123, "2 of 2"),
        (&["255", "0", "0"], 124, "1 of 3"),
        (&["1", "255", "0"], 124, "2 of 3"),
        (&["KILL", "0", "1"], 125, "3 of 3"),
        (&["1", "TERM", "0"], 125, "3 of 3"),
        (&["ALRM", "255", "0"], 125, "2 of 3"),
    ];
    for (items, status, released) in table {
        let input: String = items.iter().flat_map(|item| [item, "\n"]).collect();
        fed(&[&[UNLIMITED, "-v"], &OBEY[..]].concat(), input)
            .code(*status)
            .stderr(contains(format!("throttle: {released} item")));
    }
}

#[test]
fn failed_items_are_counted() {
    fed(&[&[UNLIMITED, "-v"], &OBEY[..]].concat(), "0\n1\nTERM\n0\n3\n")
        .code(125)
        .stderr(contains(", 3 failed\n"));
}

#[test]
fn a_command_that_cannot_be_run_ends_the_run() {
    let directory = Directory::new();
    let plain = directory.file("plain", "#!/bin/sh\n");
    fs::set_permissions(&plain, PermissionsExt::from_mode(0o644)).unwrap();
    let table = [
        (plain.to_str().unwrap(), plain.to_str().unwrap(), 126),
        (".", ".", 126),
        ("no-such-command-here", "no-such-command-here", 127),
        ("./nor/here", "./nor/here", 127),
        ("", "''", 127),
        ("./nor/{}", "./nor/a", 127),
    ];
    for (command, name, status) in table {
        throttle(&[UNLIMITED, "--", command])
            // A directory in PATH that may not be searched would turn "not found" into "cannot be run".
            .env("PATH", "/usr/bin:/bin")
            .write_stdin("a\nb\n")
            .assert()
            .code(status)
            .stdout("")
            .stderr(starts_with(format!("throttle: cannot run {name}: ")));
    }
}

#[test]
fn an_empty_input_runs_nothing() {
    fed(&["-n1", "--", "no-such-command-here"], "").success().stdout("");
}

#[test]
fn an_input_that_was_empty_from_the_start_is_told() {
    let directory = Directory::new();
    directory.file("empty", "");
    let table = [
        ("echo </dev/null", "throttle: no items on standard input\n"),
        ("echo <empty", "throttle: no items on standard input\n"),
        ("-q echo </dev/null", ""),
        // With a named file, or when only passing items on, users see for themselves.
        ("-a empty echo", ""),
        ("</dev/null", ""),
    ];
    for (args, told) in table {
        directory.sh(&format!("throttle -n9 {args}")).assert().success().stdout("").stderr(told);
    }
    // Finding nothing may take a while.
    let metrics = directory.path().join("metrics");
    let running = Running::throttle(&["-n9", &format!("--stats=prom:{}", metrics.display()), "echo"]);
    eventually("it has looked at its input", || metrics.exists());
    running.ends().success().stdout("").stderr("");
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_sh() {
    let directory = Directory::new();
    let script = directory.file("script", "echo \"<$1>\"; cat\n");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let script = script.to_str().unwrap();
    let table: [(&[&str], _); 4] = [
        (&[], "<a b>\n"),
        (&["-j2", "--tag"], "a b\t<a b>\n"),
        (&["--timeout=9"], "<a b>\n"),
        (&["--pipe"], "<>\na b\n"),
    ];
    for (args, printed) in table {
        fed(&[&[UNLIMITED], args, &["--", script]].concat(), "a b\n").success().stdout(printed).stderr("");
    }
    fed(&["--once", "-q", UNLIMITED, "--", script, "a b"], "c\n").success().stdout("<a b>\nc\n").stderr("");
}

#[test]
fn a_missing_interpreter_is_told_from_a_missing_script() {
    let directory = Directory::new();
    let script = directory.file("script", "#!/nonexistent/sh\n");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it is ours");
    for option in ["-j1", "--timeout=9"] {
        let run = fed(&[UNLIMITED, option, "--", script.to_str().unwrap()], "a\n");
        let why = "script: the interpreter that it names in its first line is missing\n";
        run.code(127).stderr(contains(why));
    }
}

/// Runs a shell script with directories first in `PATH`, each with a file `prog` of this content and mode. The script
/// finds the directories in its arguments.
fn with_programs(programs: &[(&str, u32)], script: &str) -> (Option<i32>, String, String) {
    let directory = Directory::new();
    let directories = programs.iter().enumerate().map(|(at, (content, mode))| {
        let place = directory.path().join(at.to_string());
        fs::create_dir(&place).expect("a directory");
        let program = place.join("prog");
        fs::write(&program, content).expect("a file");
        fs::set_permissions(&program, PermissionsExt::from_mode(*mode)).expect("it is ours");
        place
    });
    let directories: Vec<_> = directories.collect();
    let path = std::env::join_paths(&directories).expect("no colons").into_string().expect("UTF-8");
    let mut command = sh_command(&format!("PATH={path}:$PATH; {script}"));
    let output = command.arg("sh").args(&directories).output().expect("sh");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A program is looked up once, and runs as execvp(3) would have found it for each command.
#[test]
fn the_program_is_the_first_in_path_that_can_be_run() {
    let (first, second) = ("#!/bin/sh\necho first $1\n", "#!/bin/sh\necho second $1\n");
    let run = format!("printf '%s\\n' a b c | throttle {UNLIMITED} prog");
    let table: [(&[_], _); 6] = [
        (&[(first, 0o755), (second, 0o755)], "first"),
        (&[(first, 0o644), (second, 0o755)], "second"),
        (&[("#!/no/such/interpreter\n", 0o755), (second, 0o755)], "second"),
        (&[("#!/no/such/interpreter\n", 0o755), (first, 0o644), (second, 0o755)], "second"),
        // Without #!, sh runs it.
        (&[("echo first $1\n", 0o755), (second, 0o755)], "first"),
        (&[(first, 0o644), ("echo second $1\n", 0o755)], "second"),
    ];
    for (programs, printed) in table {
        let printed = ["a", "b", "c"].map(|item| format!("{printed} {item}\n")).concat();
        for options in ["", "-j2 -k", "--timeout=9"] {
            let script = run.replace("prog", &format!("{options} prog"));
            assert_eq!(with_programs(programs, &script), (Some(0), printed.clone(), String::new()));
        }
    }
    let told = "throttle: cannot run prog: Permission denied (os error 13)\nthrottle: ended early: 3 items read and \
                not released\n";
    assert_eq!(with_programs(&[(first, 0o644)], &run), (Some(126), String::new(), told.to_owned()));
    let (code, _, told) = with_programs(&[("#!/no/such/interpreter\n", 0o755)], &run);
    assert!(
        code == Some(127)
            && told.starts_with(
                "throttle: cannot run prog: the interpreter that it names in its first line is missing"
            ),
        "{told}"
    );
}

#[test]
fn a_program_that_moves_is_found_again() {
    let (moving, other) = ("#!/bin/sh\nrm $0; echo first $1\n", "#!/bin/sh\necho second $1\n");
    let run = format!("printf '%s\\n' a b c | throttle {UNLIMITED} prog");
    let (code, printed, told) = with_programs(&[(moving, 0o755), (other, 0o755)], &run);
    assert_eq!((code, &*printed, &*told), (Some(0), "first a\nsecond b\nsecond c\n", ""));
    let (code, printed, _) = with_programs(&[(moving, 0o755)], &run);
    assert_eq!((code, &*printed), (Some(127), "first a\n"));
}

#[test]
fn a_program_in_path_is_called_by_its_name() {
    let link = "ln -s \"$(command -v sh)\" \"$1/named\"";
    let script = format!("{link}; echo /no/such/script | throttle {UNLIMITED} named");
    let (_, _, told) = with_programs(&[("", 0o644)], &script);
    assert!(told.starts_with("named: "), "{told}");
    // By its path, if it is a script.
    let script = format!("echo x | throttle {UNLIMITED} prog | grep -cFx \"$1/prog\"");
    assert_eq!(with_programs(&[("#!/bin/sh\necho $0\n", 0o755)], &script).1, "1\n");
}

#[test]
fn items_become_arguments() {
    let items = "a b\n$HOME\n*\n\n'\"\\\n;ls\n-n\n";
    let table: &[(&[&str], &str)] = &[
        // The arguments are in brackets: no shell has seen them.
        (&["printf", "[%s]"], "[a b][$HOME][*][]['\"\\][;ls][-n]"),
        (&["printf", "[%s]", "{}", "x"], "[a b][x][$HOME][x][*][x][][x]['\"\\][x][;ls][x][-n][x]"),
        (&["printf", "[%s]", "<{}{}>"], "[<a ba b>][<$HOME$HOME>][<**>][<>][<'\"\\'\"\\>][<;ls;ls>][<-n-n>]"),
    ];
    for (command, printed) in table {
        fed(&[&[UNLIMITED, "--"], *command].concat(), items).success().stdout(*printed);
    }
}

#[test]
fn arguments_need_not_be_text() {
    let output =
        throttle(&[UNLIMITED, "printf", "%s"]).write_stdin(&b"\xff\xfe\r\n\x1b[m"[..]).output().unwrap();
    assert_eq!(output.stdout, b"\xff\xfe\r\x1b[m");
}

#[test]
fn another_placeholder_may_stand_for_the_item() {
    fed(&[UNLIMITED, "-I", "@@", "echo", "{}", "x@@y"], "1\n2\n").stdout("{} x1y\n{} x2y\n");
}

#[test]
fn a_placeholder_may_be_the_command() {
    fed(&[UNLIMITED, "{}", "x"], "echo\n").stdout("x\n");
}

#[test]
fn a_batch_becomes_several_arguments() {
    let table: &[(&[&str], &str)] = &[
        (&["-B2", "echo"], "1 2\n3 4\n5\n"),
        (&["-B2,1h", "echo"], "1 2\n3 4\n5\n"),
        (&["-B3", "echo", "a{}", "b"], "a1 a2 a3 b\na4 a5 b\n"),
        (&["-B10", "-d,", "echo"], "1\n2\n3\n4\n5\n\n"),
    ];
    for (args, printed) in table {
        fed(&[&[UNLIMITED], *args].concat(), "1\n2\n3\n4\n5\n").stdout(*printed);
    }
}

#[test]
fn an_item_that_no_argument_can_hold_is_reported_and_the_run_goes_on() {
    let long = "x".repeat(200_000);
    fed(&[UNLIMITED, "-d,", "echo"], format!("a,b\0c,d,{long},e")).code(123).stdout("a\nd\ne\n").stderr(
        contains("throttle: item 2 $'b\\x00c': not run: it contains a NUL byte")
            .and(contains("xxx'...: not run: it is too long")),
    );
}

#[test]
fn an_item_that_was_not_run_is_an_error_for_the_quiet_too() {
    fed(&[UNLIMITED, "-q", "-d,", "echo"], "\0,b")
        .code(123)
        .stdout("b\n")
        .stderr(contains("item 1 $'\\x00': not run"));
}

#[test]
fn a_batch_stays_under_the_kernels_limit() {
    let items = format!("{}\n", "x".repeat(1000)).repeat(5000);
    let output = throttle(&[UNLIMITED, "-B5000", "echo"]).write_stdin(items.clone()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).replace(' ', "\n") == items);
}

#[test]
fn commands_read_from_dev_null() {
    fed(&[UNLIMITED, "--", "sh", "-c", "cat; echo $0"], "1\n2\n").stdout("1\n2\n");
}

#[test]
fn with_a_file_of_items_commands_keep_our_stdin() {
    let directory = Directory::new();
    let items = directory.file("items", "1\n2\n");
    fed(
        &[UNLIMITED, "-a", items.to_str().unwrap(), "--", "sh", "-c", "read line; echo $0 $line"],
        "from stdin\nand on\n",
    )
    .stdout("1 from stdin\n2 and on\n");
}

#[test]
fn commands_run_one_after_the_other() {
    fed(&[UNLIMITED, "--", "sh", "-c", "echo begin {}; sleep 0.05; echo end {}"], "1\n2\n3\n")
        .stdout("begin 1\nend 1\nbegin 2\nend 2\nbegin 3\nend 3\n");
}

#[test]
fn commands_are_paced() {
    let started = Instant::now();
    fed(&["-n2", "-p200ms", "echo"], "1\n2\n3\n4\n5\n").stdout("1\n2\n3\n4\n5\n");
    assert!(started.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_run_waits_for_its_last_command() {
    fed(&[UNLIMITED, "--", "sh", "-c", "sleep 0.2; exit 7"], "1").code(123);
}

/// What a command inherits must not depend on whether xargs or throttle starts it.
#[test]
fn commands_inherit_what_they_inherit_from_xargs() {
    if needs_program("xargs").is_none() || !std::path::Path::new("/proc/self/fd").exists() {
        return;
    }
    let looks = [
        ("/proc/self/fd", "ls"),
        // The last digits hold 28 signals; some higher ones are libc's own.
        ("/proc/self/status", r"sed -nE 's/^(Sig(Blk|Ign|Cgt)).*(.{7})$/\1 \3/p'"),
        ("A=1", "sh -c 'env | grep -v ^THROTTLE_ | sort'"),
        ("x", "sh -c umask"),
        ("x", "pwd -P"),
    ];
    let starts = ["", "trap '' INT PIPE;", "trap '' HUP TERM;", "exec 7</dev/null;"];
    for (item, command) in looks {
        for start in starts {
            let ran_by = |runner: &str| {
                // The shell keeps the last argument in the variable `_`, which would differ.
                let script = format!("{start} echo {item} | env -u _ {runner} {command}");
                text(&sh(&script).output().unwrap().stdout)
            };
            let wanted = ran_by("xargs -n1");
            assert!(!wanted.is_empty(), "{command}");
            assert_eq!(ran_by("throttle -n1"), wanted, "{start} {command}");
        }
    }
}

/// Some supervisors leave it ignored, and then the kernel does not report how commands end.
#[test]
fn an_ignored_sigchld_does_no_harm() {
    if needs_program("bash").is_some() {
        sh("bash -c \"trap '' CHLD; exec throttle -r 1T/s -- sh -c 'exit {}'\"")
            .write_stdin("0\n3\n255\n0\n")
            .assert()
            .code(124);
    }
}

/// Children that a shell started before it became throttle are not counted or waited for.
#[test]
fn children_that_are_not_ours_do_no_harm() {
    let directory = Directory::new();
    directory.file("items", "1\n2\n");
    let script = "(sleep 0.1; exit 255) & exec throttle -r 1T/s -- sh -c 'sleep 0.3; echo {}' < items";
    directory.sh(script).assert().success().stdout("1\n2\n");
}

#[test]
fn a_reader_that_goes_away_ends_a_run_of_commands() {
    let mut running = Running::fed(&["-n1", "-p1h", "echo"], "1\n2\n");
    assert_eq!(running.line(), "1\n");
    running.close_stdout();
    running.wait();
}

#[test]
fn commands_that_die_of_a_missing_reader_are_not_told_nor_followed_by_others() {
    let script = "seq 9 | throttle -r1T/s -- sh -c 'echo >>started; exec yes' | head -n1; wc -l <started";
    for _ in 0..20 {
        let directory = Directory::new();
        directory.sh(script).assert().success().stdout("y\n1\n").stderr("");
    }
}

/// However the system starts them: with a signal ignored that is not ignored by us, it does so in another way.
#[test]
fn commands_get_our_environment_but_for_the_variables_that_are_theirs() {
    for ignored in ["", "trap '' URG; "] {
        let script = format!(
            "{ignored}echo item | THROTTLE_SEQ=x THROTTLE_SEQUEL=y A=b=c throttle -r1T/s -- sh -c \
             'echo $THROTTLE_SEQ $THROTTLE_SEQUEL $A $1 $#; env | grep -c ^THROTTLE_SEQ=' sh"
        );
        sh(&script).assert().success().stdout("1 y b=c item 1\n1\n").stderr("");
        // Workers have one of them.
        let script = format!(
            "{ignored}echo item | THROTTLE_SEQ=x THROTTLE_HEADERS=y A=b=c throttle -r1T/s --worker -- sh -c \
             'read item; echo $item $A; env | grep -E \"^THROTTLE_(SEQ|SLOT|HEADERS)=\" >&2'"
        );
        sh(&script).assert().success().stdout("item b=c\n").stderr("THROTTLE_SLOT=1\n");
    }
}
