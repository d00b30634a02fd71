//! What is told on stderr: `throttle: what: why`.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::Error;
use nix::sys::signal::Signal;

use crate::exit::Exit;
use crate::spec::{Rate, Report};
use crate::stats::{Stats, items};
use crate::time::Time;

/// Tells the user what is worth telling, at the level that was asked for.
pub struct Reporter(Option<Report>);

impl Reporter {
    /// Tells as much as `level` says.
    pub fn new(level: Report) -> Self {
        Reporter(Some(level))
    }

    /// Tells nothing at all, not even errors.
    pub fn silent() -> Self {
        Reporter(None)
    }

    /// An error, with its causes in one line.
    pub fn error(&self, error: &Error) {
        if self.0.is_some() {
            say(&format_args!("{error:#}"));
        }
    }

    /// Something that was not done as one might expect; not told with `-q`.
    pub fn notice(&self, text: &dyn Display) {
        if matches!(self.0, Some(Report::Normal | Report::Verbose)) {
            say(text);
        }
    }

    /// The limits, at the start of a run, with `-v`.
    pub fn limits(&self, limits: &[Rate]) {
        if self.0 == Some(Report::Verbose) {
            limits.iter().for_each(|rate| say(&format_args!("limit {rate}")));
        }
    }

    /// What was read in vain, when a run ends before its input does.
    pub fn left(&self, exit: Exit, stats: &Stats) {
        if let Exit::Signal(number) = exit
            && exit.is_abrupt()
        {
            let name = Signal::try_from(number).map_or("a signal", Signal::as_str);
            self.notice(&format_args!("ended by {name}: {} read and not released", items(stats.left())));
        } else if exit.is_abrupt() && stats.left() > 0 {
            self.notice(&format_args!("ended early: {} read and not released", items(stats.left())));
        }
    }

    /// What was done, at the end of a run, with `-v`.
    pub fn summary(&self, stats: &Stats, now: Time) {
        if self.0 == Some(Report::Verbose) {
            self.statistics(stats, now);
        }
    }

    /// What was done so far, on request.
    pub fn statistics(&self, stats: &Stats, now: Time) {
        if self.0.is_some() {
            say(&stats.line(now));
        }
    }
}

/// One line, in one write. A stderr that cannot be written to is nothing to stop for.
fn say(text: &dyn Display) {
    let _ = io::stderr().write_all(format!("throttle: {}\n", escaped(&text.to_string())).as_bytes());
}

/// Names of files and commands, and items, may hold what a terminal would take for orders.
fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_passes() {
        assert_eq!(escaped("a\x1b[2J\nb\u{9b}\u{e9}"), "a\\u{1b}[2J\\nb\\u{9b}\u{e9}");
    }
}
