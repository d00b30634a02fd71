//! The manual pages fit on a terminal of 80 columns, and all texts for users stay short.

use std::path::Path;
use std::process::Command;

use crate::support::{needs_program, text, throttle};

const README: &str = include_str!("../../../README.md");

const PAGES: [&str; 4] = ["throttle.1", "throttle-state.7", "throttle-reports.7", "throttle-cookbook.7"];

#[test]
fn the_pages_are_printed_without_a_warning() {
    let Some(man) = needs_program("man") else { return };
    let mut lines = 0;
    for page in PAGES {
        let mut command = Command::new(&man);
        command.args(["--warnings", "--local-file"]).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
        let output =
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("man").join(page)).output().unwrap();
        assert_eq!((text(&output.stderr).as_str(), output.status.success()), ("", true), "{page}");
        let printed = text(&output.stdout);
        let wide = printed.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{page}");
        assert!(printed.lines().next().is_some_and(|line| line.starts_with("THROTTLE")), "{page}");
        lines += printed.lines().count();
    }
    assert!(lines <= 1500, "the pages have {lines} lines: nobody reads more than 1500");
}

#[test]
fn the_long_help_and_the_readme_are_short() {
    let help = text(&throttle(&["--help"]).output().unwrap().stdout);
    for (name, text, most) in [("--help", help.as_str(), 330), ("README.md", README, 150)] {
        let lines = text.lines().count();
        assert!(lines <= most, "{name} has {lines} lines: leave details to the manual, at most {most}");
    }
}
