//! The line on stderr that shows the progress of a long run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::learned;
use super::line::{Progress, Recent, cut, last, line};
use super::terminal::Terminal;
use super::{stderr, terminal};
use crate::config::When;
use crate::schedule::{Schedule, Total};
use crate::time::{SECOND, Time, Wall};

/// Goes to the start of the line and clears it and everything below: in a window that was made narrower, the line
/// continues there. In two steps, as tmux would otherwise keep the first row of the screen.
const CLEAR: &str = "\r\x1b[2K\x1b[J";

/// Turn line wrapping off and on, so that a terminal that was made narrower cuts the line off.
const CUT: [&str; 2] = ["\x1b[?7l", "\x1b[?7h"];

/// Nanoseconds from the start of the run to the first line: a shorter run needs none.
const FIRST: u64 = SECOND / 4;

/// Nanoseconds from one redraw to the next. Redrawing must not keep an idle process awake.
const EVERY: u64 = SECOND;

/// The same for lines to a terminal that stay, as messages go elsewhere.
const SELDOM: u64 = 10 * SECOND;

/// Nanoseconds: a line shown for less than this between two releases is not worth the time.
const FLASH: u64 = SECOND / 500;

/// The number of redraws over which the rate is measured.
const RECENT: usize = 60;

/// Shows progress: on a terminal one line that is redrawn; elsewhere a new line each time, or now and then on the
/// terminal of the session.
#[derive(Default)]
pub(crate) struct Display {
    can_redraw: bool,
    /// Where lines go that stay, instead of to standard error.
    terminal: Option<Terminal>,
    /// `None` unless items are written where progress is shown; then, whether they end lines.
    mixing: Option<bool>,
    /// The line on the screen.
    shown: RefCell<Option<String>>,
    /// The line that was there before items were written.
    hidden: RefCell<Option<String>>,
    /// Items have been written, and the last line has not ended.
    is_in_line: Cell<bool>,
    redraw_at: Cell<Time>,
    /// A line was printed that is not redrawn, so another says how the run ended.
    needs_last: Cell<bool>,
    /// The time of the first line has come.
    has_begun: Cell<bool>,
    /// The totals at each of the last redraws, newest last. Until it is full, the rate is that since the start.
    history: RefCell<VecDeque<Recent>>,
}

impl Display {
    /// `None` if there is no terminal to show progress on and it is not shown always. `mixing` is given if items are
    /// written there as well; it says whether they end lines.
    pub(crate) fn new(when: When, mixing: Option<bool>) -> Option<Self> {
        let can_redraw = terminal::can_redraw();
        let terminal = match when {
            When::Auto if !can_redraw => Some(Terminal::open()?),
            _ => None,
        };
        Some(Display { can_redraw, terminal, mixing, ..Display::default() })
    }

    pub(crate) fn redraw_at(&self) -> Time {
        self.redraw_at.get()
    }

    /// Has the line redrawn at the next opportunity: others may have written to the terminal.
    pub(crate) fn invalidate(&self) {
        self.redraw_at.set(Time::ZERO);
    }

    /// Shows the progress of a waiting run, if a redraw is due.
    pub(super) fn show(
        &self,
        schedule: &Schedule,
        now: Time,
        total: impl FnOnce() -> Option<Total>,
        wall: impl FnOnce() -> Wall,
    ) {
        if self.redraw_at() <= now {
            self.redraw(now, &progress(schedule, now, total(), wall()));
        }
        let is_next_near = || schedule.next_release().is_some_and(|next| next.since(now) <= FLASH);
        if self.hidden.borrow().is_some() && schedule.running() == 0 && !is_next_near() {
            // No items will be written for a while.
            self.hidden.take().into_iter().for_each(|line| self.draw(&line));
        }
    }

    fn redraw(&self, now: Time, progress: &Progress) {
        let (first, every) = if self.terminal.is_some() { (SELDOM, SELDOM) } else { (FIRST, EVERY) };
        if !self.has_begun.replace(true) && progress.stats.elapsed(now) < first {
            return self.redraw_at.set(now.saturating_add(first));
        }
        self.redraw_at.set(now.saturating_add(every));
        let recent = self.recent(Recent::of(progress, now));
        if self.can_redraw {
            self.draw(&line(progress, recent, now, room()));
        } else {
            self.needs_last.set(true);
            self.add(&line(progress, recent, now, usize::MAX));
        }
    }

    /// Adds the `latest` totals, and returns the difference from the oldest that are kept.
    fn recent(&self, latest: Recent) -> Recent {
        let mut history = self.history.borrow_mut();
        history.push_back(latest);
        let first = if history.len() > RECENT { history.pop_front() } else { None };
        let first = first.unwrap_or_default();
        Recent { items: latest.items - first.items, nanos: latest.nanos.saturating_sub(first.nanos) }
    }

    /// Removes the line from the screen while something else is printed.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        let Some(line) = self.shown.take() else { return print() };
        clear();
        let result = print();
        self.draw(&line);
        result
    }

    /// Removes the line from the screen, if items are about to be written there.
    pub(crate) fn hide(&self) {
        let Some(ends_line) = self.mixing else { return };
        if let Some(line) = self.shown.take() {
            clear();
            self.hidden.replace(Some(line));
        }
        self.is_in_line.set(self.can_redraw && !ends_line);
    }

    /// Removes the line from the screen for good; where lines stay, adds the last.
    pub(super) fn finish(&self, schedule: &Schedule, now: Time, total: impl FnOnce() -> Option<Total>) {
        if self.shown.take().is_some() {
            clear();
        }
        if self.needs_last.take() {
            let progress = progress(schedule, now, total(), Wall::EPOCH);
            let recent = self.recent(Recent::of(&progress, now));
            self.add(&last(&progress, recent));
        }
    }

    /// Shows a line that stays.
    fn add(&self, line: &str) {
        match &self.terminal {
            Some(terminal) => terminal.show(&stderr::message(&line)),
            None => stderr::show(&stderr::message(&line)),
        }
    }

    /// In one write. There are no colours, so `NO_COLOR` is respected.
    fn draw(&self, line: &str) {
        if !terminal::is_foreground() {
            // The shell has overwritten the line since.
            self.shown.take();
            return;
        }
        let [cut_off, no_more] = CUT;
        let start = if self.is_in_line.take() { "\r\n" } else { CLEAR };
        // The cursor stays at the start of the line, so it is still there when the terminal gets narrower.
        stderr::show(&format!("{start}{cut_off}{}{no_more}\r", cut(line, room())));
        self.shown.replace(Some(line.to_owned()));
        self.hidden.take();
    }
}

fn progress(schedule: &Schedule, now: Time, total: Option<Total>, wall: Wall) -> Progress {
    let (stats, running) = (schedule.stats(), schedule.running() as u64);
    Progress { stats, running, forecast: schedule.forecast(now, total), wall, found: learned::now(schedule) }
}

/// The last column of the terminal stays empty, or the cursor would move to the next line.
fn room() -> usize {
    terminal::width().saturating_sub(1)
}

fn clear() {
    if terminal::is_foreground() {
        stderr::print(CLEAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_late() {
        let display = Display::new(When::Always, None).unwrap();
        for second in 1..=100 {
            let recent = display.recent(Recent { items: second * second, nanos: second * SECOND });
            let first = second.saturating_sub(60);
            let expected = (second * second - first * first, (second - first) * SECOND);
            assert_eq!((recent.items, recent.nanos), expected, "{second}");
        }
    }
}
