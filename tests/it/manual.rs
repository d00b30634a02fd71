//! The manual pages fit on a terminal of 80 columns, and the first of them is short.

use std::path::Path;
use std::process::Command;

use crate::support::{needs_program, text};

const PAGES: [&str; 4] = ["throttle.1", "throttle-state.7", "throttle-reports.7", "throttle-cookbook.7"];

#[test]
fn the_pages_are_printed_without_a_warning() {
    let Some(man) = needs_program("man") else { return };
    for page in PAGES {
        let mut command = Command::new(&man);
        command.args(["--warnings", "--local-file"]).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
        let output =
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("man").join(page)).output().unwrap();
        assert_eq!((text(&output.stderr).as_str(), output.status.success()), ("", true), "{page}");
        let printed = text(&output.stdout);
        let wide = printed.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{page}");
        // Anything longer belongs on another page.
        assert!(page != "throttle.1" || printed.lines().count() < 700, "{}", printed.lines().count());
        assert!(printed.lines().next().is_some_and(|line| line.starts_with("THROTTLE")), "{page}");
    }
}
