//! A line on stderr that shows how far a long run has come.

use std::cell::{Cell, RefCell};
use std::env;
use std::io::{self, IsTerminal};

use super::{stats, stderr};
use crate::config::When;
use crate::schedule::Stats;
use crate::time::{SECOND, Time};

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What has been done.
    pub stats: Stats,
    /// How many commands are running.
    pub running: u64,
    /// How many bytes of the input are done with.
    pub consumed: u64,
    /// When the next release may be.
    pub next: Option<Time>,
}

/// To the start of the line, which is emptied.
const CLEAR: &str = "\r\x1b[2K";

/// Has the terminal cut off what does not fit into the line, and no longer do so.
const CUT: [&str; 2] = ["\x1b[?7l", "\x1b[?7h"];

/// Shows progress: one line that changes on a terminal, otherwise lines.
pub struct Display {
    can_redraw: bool,
    /// What is on the screen.
    shown: RefCell<Option<String>>,
    /// The size of the input in bytes, if it is known.
    total: Option<u64>,
    drawn_at: Cell<Option<Time>>,
}

impl Display {
    /// What is wanted, as far as stderr can show it.
    pub fn new(when: When, total: Option<u64>) -> Option<Self> {
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let can_redraw = io::stderr().is_terminal() && !is_dumb;
        if when == When::Auto && !can_redraw {
            return None;
        }
        Some(Display { can_redraw, shown: RefCell::new(None), total, drawn_at: Cell::new(None) })
    }

    /// When it is to be shown again. Once a second will do: it must not keep an idle process awake.
    pub fn redraw_at(&self) -> Option<Time> {
        self.drawn_at.get().map_or(Some(Time::ZERO), |at| at.checked_add(SECOND.into()))
    }

    /// Shows it, if it is time. `print` takes a line if it cannot be drawn.
    pub fn redraw(&self, now: Time, progress: &Progress, print: impl FnOnce(&str)) {
        if self.redraw_at().is_none_or(|at| at > now) {
            return;
        }
        self.drawn_at.set(Some(now));
        let line = line(progress, self.total, now);
        if self.can_redraw {
            Self::draw(&line);
            self.shown.replace(Some(line));
        } else {
            print(&line);
        }
    }

    /// Takes the line off the screen while something else is printed.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        let Some(line) = self.shown.take() else { return print() };
        stderr::tell(CLEAR);
        let result = print();
        Self::draw(&line);
        self.shown.replace(Some(line));
        result
    }

    /// Takes it off the screen for good.
    pub fn finish(&self) {
        if self.shown.take().is_some() {
            stderr::tell(CLEAR);
        }
    }

    /// In one write, and with no colours, so `NO_COLOR` is respected in any case.
    fn draw(line: &str) {
        let [cut, no_more] = CUT;
        stderr::show(&format!("{CLEAR}{cut}{line}{no_more}"));
    }
}

fn line(progress: &Progress, total: Option<u64>, now: Time) -> String {
    let Progress { stats, running, consumed, next } = progress;
    let mut parts = vec![format!("{} released", stats.released)];
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    tell(stats.failed, "failed");
    tell(stats.refused, "refused");
    tell(*running, "running");
    parts.extend(stats::rate(stats, now));
    parts.extend(next.filter(|next| *next > now).map(|next| format!("next in {}", seconds(next.since(now)))));
    match total.filter(|total| total > consumed) {
        None => parts.push(format!("{consumed} bytes")),
        Some(total) => {
            parts.push(format!("{consumed} of {total} bytes"));
            // At the pace so far.
            let elapsed = u128::from(now.since(stats.started));
            let left = elapsed * u128::from(total - consumed) / u128::from((*consumed).max(1));
            parts.extend(
                u64::try_from(left)
                    .ok()
                    .filter(|_| *consumed > 0)
                    .map(|left| format!("ETA {}", seconds(left))),
            );
        }
    }
    parts.join(", ")
}

/// Whole seconds, in hours, minutes and seconds.
fn seconds(nanos: u64) -> String {
    let whole = std::time::Duration::from_secs(nanos.div_ceil(SECOND));
    humantime::format_duration(whole).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_there_is_to_tell() {
        let stats = Stats { released: 20, failed: 1, ..Stats::new(Time(0)) };
        let next = Some(Time(70 * SECOND));
        let progress = Progress { stats, running: 2, consumed: 100, next };
        assert_eq!(
            line(&progress, Some(400), Time(10 * SECOND)),
            "20 released, 1 failed, 2 running, 2.0/s, next in 1m, 100 of 400 bytes, ETA 30s"
        );
        let progress = Progress { stats: Stats::new(Time(0)), running: 0, consumed: 0, next: None };
        assert_eq!(line(&progress, None, Time(0)), "0 released, 0 bytes");
    }
}
