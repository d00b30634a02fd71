//! Tags in front of the lines that commands print.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::Signal;

use crate::support::{
    Directory, Running, THROTTLE, UNLIMITED, eventually, fed, numbers, seeds, sh, text, throttle,
};

/// Prints two lines and an unfinished one, to both outputs.
const PRINT: [&str; 4] = ["--", "sh", "-c", "printf '1\\n\\n3'; printf 'e\\nf' >&2"];

#[test]
fn each_line_of_both_outputs_is_tagged() {
    let table: &[(&[&str], &str, [&str; 2])] = &[
        (&["--tag"], "a b\n", ["a b\t1\na b\t\na b\t3\n", "a b\te\na b\tf\n"]),
        (&["--tag=col:2"], "a b\n", ["b\t1\nb\t\nb\t3\n", "b\te\nb\tf\n"]),
        (&["--tag=col:9"], "a b\n", ["\t1\n\t\n\t3\n", "\te\n\tf\n"]),
        (&["--tag", "-B2"], "a\nb\n", ["a b\t1\na b\t\na b\t3\n", "a b\te\na b\tf\n"]),
        (&["--tag=host", "-B2"], "http://a/\nhttp://b/\n", ["a b\t1\na b\t\na b\t3\n", "a b\te\na b\tf\n"]),
        // As parallel prints it.
        (
            &["--tag"],
            "a\tb\x1b[m\n",
            ["a\tb\x1b[m\t1\na\tb\x1b[m\t\na\tb\x1b[m\t3\n", "a\tb\x1b[m\te\na\tb\x1b[m\tf\n"],
        ),
    ];
    for mode in [&["-j1"][..], &["-j2"], &["-j2", "-u"], &["-j2", "-k"]] {
        for (args, input, [stdout, stderr]) in table {
            let args = [&[UNLIMITED], mode, *args, &PRINT].concat();
            fed(&args, *input).success().stdout(*stdout).stderr(*stderr);
        }
    }
}

#[test]
fn a_tag_needs_a_command_and_a_part_of_the_item() {
    throttle(&[UNLIMITED, "--tag"])
        .assert()
        .code(2)
        .stderr("throttle: --tag is for a command: add one, such as -- echo {}\n");
    throttle(&[UNLIMITED, "--tag=7", "true"]).assert().code(2);
}

#[test]
fn lines_are_printed_as_soon_as_they_are_complete() {
    let script = "printf 'a\\nb'; read -r line; printf \"$line\\n\"";
    let directory = Directory::new();
    let items = directory.file("items", "x\n");
    let items = items.to_str().unwrap();
    let mut running =
        Running::throttle(&[UNLIMITED, "--tag", "-u", "-j2", "-a", items, "--", "sh", "-c", script]);
    assert_eq!(running.line(), "x\ta\n");
    running.write("c\n");
    assert_eq!(running.line(), "x\tbc\n");
    assert!(running.finish().status.success());
}

#[test]
fn what_a_command_leaves_behind_holds_nothing_up() {
    fed(&[UNLIMITED, "--tag", "--", "sh", "-c", "sleep 60 & echo $!"], "x\n").success();
    // Nobody reads from the sleepers, which outlive the run: a write would kill them, but so does the script.
    let script =
        "printf '1\\n2\\n' | throttle -r1T/s --tag -- sh -c '{ sleep 60; } & echo hi; echo $! >>pids'
        kill $(cat pids)";
    let directory = Directory::new();
    directory.sh(script).assert().success().stdout("1\thi\n2\thi\n");
}

/// As without tags.
#[test]
fn commands_that_print_once_the_reader_is_gone_die_of_that() {
    let script = "printf '0\n0.2\n' | {
        timeout 9 throttle -r1T/s -qj2 -u --tag -- sh -c 'sleep $1; exec yes' sh; echo $? >status
    } | head -n1; cat status";
    let directory = Directory::new();
    directory.sh(script).assert().success().stdout("0\ty\n141\n");
}

#[test]
fn a_line_that_never_ends_takes_bounded_memory() {
    let script = "ulimit -v 40000
        echo x | throttle -r1T/s --tag -- sh -c 'head -c 50000000 /dev/zero' | tr -d '\\0' | sort | uniq -c";
    let output = sh(script).output().unwrap();
    // 47 pieces of 1 MiB, and the rest.
    assert_eq!(text(&output.stdout).trim(), "48 x", "{}", text(&output.stderr));
}

/// Random output of a command. The last line may be unfinished.
fn content(random: &mut Rng) -> Vec<u8> {
    let mut lines = Vec::new();
    for _ in 0..random.usize(..20) {
        lines.extend(std::iter::repeat_n(random.u8(b'a'..=b'z'), random.usize(..60)));
        lines.push(b'\n');
    }
    lines.truncate(lines.len() - random.usize(..=lines.len().min(3)));
    lines
}

#[test]
fn property_lines_are_those_of_their_commands_in_order() {
    for (seed, mode) in seeds(4).zip([&["-u"][..], &[], &["-k"], &["-u"]].into_iter().cycle()) {
        let (mut random, directory) = (Rng::with_seed(seed), Directory::new());
        let names: Vec<_> = (0..6).map(|number| format!("f{number}")).collect();
        let printed: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), content(&mut random))).collect();
        printed.iter().for_each(|(name, content)| drop(directory.file(name, content)));
        // Both outputs at the same time, in pieces that end anywhere.
        let args = [&[UNLIMITED, "--tag", "-j6"], mode, &["--", "sh", "-c"]].concat();
        let script = "dd bs=7 status=none if=\"$1\" >&2 & dd bs=5 status=none if=\"$1\"; wait";
        let args = [&args[..], &[script, "sh"]].concat();
        let input = names.iter().flat_map(|name| [name, "\n"]).collect::<String>();
        let output = directory.throttle(&args).write_stdin(input).output().unwrap();
        assert!(output.status.success(), "seed {seed}");
        for stream in [&output.stdout, &output.stderr] {
            let shown = text(stream);
            let mut by_tag: BTreeMap<_, Vec<u8>> =
                names.iter().map(|name| (name.clone(), Vec::new())).collect();
            for line in shown.lines() {
                let (tag, line) = line.split_once('\t').unwrap_or_else(|| panic!("seed {seed}: {line}"));
                by_tag.get_mut(tag).unwrap().extend([line.as_bytes(), b"\n"].concat());
            }
            for (name, content) in &printed {
                let is_open = content.last().is_some_and(|&last| last != b'\n');
                let whole = [&content[..], if is_open { b"\n" } else { b"" }].concat();
                assert_eq!(text(&by_tag[name]), text(&whole), "seed {seed}: {name}");
            }
            let tags: Vec<_> = shown.lines().filter_map(|line| line.split('\t').next()).collect();
            assert!(mode != ["-k"] || tags.is_sorted(), "seed {seed}: {tags:?}");
        }
    }
}

/// Commands that print without pause until the last item has been run, or a signal comes.
#[test]
fn commands_that_print_all_the_time_hold_up_neither_items_nor_ends_nor_signals() {
    let directory = Directory::new();
    let script = "cd $0; case $1 in yes) exec yes;; *) : >$1;; esac";
    let path = directory.path().to_str().unwrap();
    let mut command = Command::new(THROTTLE);
    command.args([UNLIMITED, "--lookahead=2", "-j4", "--tag", "-u", "--", "sh", "-c", script, path]);
    let mut running =
        Running::spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()));
    running.write("yes\nyes\nyes\n");
    thread::sleep(Duration::from_millis(100));
    // Each runs when the previous one has ended, the last two before there is more to read.
    running.write(numbers(6));
    eventually("the last item is run", || directory.path().join("6").exists());
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait().signal(), Some(Signal::SIGTERM as i32));
}
