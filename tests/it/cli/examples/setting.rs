//! A directory to run examples in, with their inputs and stand-ins for the programs they call.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Directory, Running, THROTTLE};

/// The inputs of the examples. With two items each, few have to wait.
const INPUTS: [(&str, &str); 10] = [
    ("urls", "https://a.example/1\nhttps://b.example/2\n"),
    ("log", "app 0.5 one\napp 9 two\n"),
    ("ids", "4711\n4712\n"),
    ("mails", "one\ntwo\n"),
    ("calls", "1 GET /user\n5 POST /repos/o/r/issues\n"),
    ("requests.jsonl", "{\"tokens\":1200,\"prompt\":\"a\"}\n{\"tokens\":1300,\"prompt\":\"b\"}\n"),
    (
        "access.log",
        "::1 - - [21/Nov/2026:22:13:05 +0000] \"GET /\" 200\n::1 - - [21/Nov/2026:22:13:06 +0000] \"GET /\" 200\n",
    ),
    ("limits.conf", "# As agreed\n10/s\n"),
    ("poll.urls", "https://a.example/1\n"),
    ("night.urls", "https://a.example/1\nhttps://b.example/2\n"),
];

/// Records its arguments, and its input if it reads any.
const STAND_IN: &str = r#"#!/bin/sh
name=${0##*/}
printf '%s %s\n' "$name" "$*" >>"$CALLS"
case "$name $*" in
nc*|*--data-binary*) cat >>"$CALLS" ;;
*-sSI*) echo HTTP/1.1 200 OK ;;
tail*) cat "$2" ;;
inotifywait*) echo src/ MODIFY main.c ;;
my-tool*) printf 'one\ntwo\n' ;;
esac
"#;

/// Programs that may be missing, or that would wait or contact a server.
const PROGRAMS: [&str; 6] = ["curl", "inotifywait", "make", "my-tool", "nc", "tail"];

/// The user's own programs.
const OWN: [&str; 3] = ["ask", "call", "send"];

/// The stand-ins, shared by all examples.
pub(super) struct Programs(Directory);

impl Programs {
    pub(super) fn new() -> Self {
        let programs = Programs(Directory::new());
        programs.write("stand-in", STAND_IN);
        programs
    }

    /// Uses another process: a child started while this one has a file open for writing inherits the descriptor for a
    /// moment, and a file that is open for writing cannot be executed.
    fn write(&self, name: &str, script: &str) {
        let path = self.0.path().join(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"printf %s "$1" >"$2" && chmod +x "$2""#, "sh", script]).arg(path);
        assert!(shell.status().expect("a shell").success());
    }

    fn link(&self, name: &str, link: &Path) {
        symlink(self.0.path().join(name), link).expect("a link");
    }
}

/// A home directory to run examples in.
pub(super) struct Setting {
    home: Directory,
}

impl Setting {
    pub(super) fn new(programs: &Programs) -> Self {
        let home = Directory::new();
        let path = home.path();
        INPUTS.iter().for_each(|(name, content)| drop(home.file(name, content)));
        for directory in ["bin", "src", ".cargo/bin", "node_exporter"] {
            fs::create_dir_all(path.join(directory)).expect("a directory");
        }
        PROGRAMS.iter().for_each(|name| programs.link("stand-in", &path.join("bin").join(name)));
        OWN.iter().for_each(|name| programs.link("stand-in", &path.join(name)));
        for name in ["bin/throttle", ".cargo/bin/throttle"] {
            symlink(THROTTLE, path.join(name)).expect("a link");
        }
        Setting { home }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn file(&self, name: &str, content: &str) {
        self.home.file(name, content);
    }

    /// The contents of a file, if it exists.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read(self.path().join(name)).ok().map(|content| crate::support::text(&content))
    }

    /// The items in an example's input file.
    pub(super) fn items(&self, name: &str) -> Vec<String> {
        let content = self.read(name).unwrap_or_else(|| panic!("there is no {name}"));
        content.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Runs a script, with system paths moved into this directory.
    pub(super) fn run(&self, script: &str) -> Output {
        let home = self.path().display();
        let script = script.replace("/var/lib/node_exporter/", &format!("{home}/node_exporter/"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(self.path()).env_clear();
        command.env("HOME", self.path()).env("CALLS", self.path().join("noted"));
        command.env("PATH", format!("{home}/bin:/usr/local/bin:/usr/bin:/bin"));
        command.env("PASSWORD", super::PASSWORD).stdin(Stdio::null());
        Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).collect()
    }

    /// The calls of the stand-ins, in order.
    pub(super) fn calls(&self) -> String {
        self.read("noted").unwrap_or_default()
    }
}
