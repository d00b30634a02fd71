//! Messages on stderr: `throttle: what: why`.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IsTerminal};
use std::time::Duration;

use super::number::{count_of, items};
use super::progress::Display;
use super::stats;
use super::stderr;
use super::{hints, learned};
use crate::config::{Config, Rate, Report, Run};
use crate::exit::{Exit, signal_name};
use crate::inherited::stdin;
use crate::printable::{escaped, escaped_json};
use crate::schedule::{Schedule, Stats, Total};
use crate::store::Reach;
use crate::time::{Time, Wall};
use anyhow::Error;

/// Prints messages up to the level that was asked for. The default prints nothing, not even errors.
#[derive(Default)]
pub struct Reporter {
    /// `None` prints nothing at all.
    level: Option<Report>,
    display: Option<Display>,
    as_json: bool,
    /// The number of failures that were printed, or would have been at another level.
    failures: Cell<u64>,
    /// The number of items whose failure was only counted.
    unnamed: Cell<u64>,
    /// Follows their number: where all failures are listed, or how to have them listed.
    named: String,
    /// A person is watching, and is told why nothing happens.
    is_watched: bool,
    /// The next long wait will be explained.
    explains: Cell<bool>,
    /// `None` unless commands are logged; then, whether this run resumes the log of another.
    resumes: Option<bool>,
    /// The number of items in the input, if they can be counted within this time.
    total: Option<Box<dyn Fn(Duration) -> Option<Total>>>,
    /// The end of the run says how many items are left of the total. Not if it resumes a log: some of the unread ones
    /// may be done already.
    pub(crate) counts_rest: bool,
}

/// The longest that the end of a run waits for its items to be counted, which is slow in a large file.
const COUNTING: Duration = Duration::from_secs(1);

/// The number of failures that are printed. The items of further ones are only counted.
const MAX_FAILURES: u64 = 20;

impl Reporter {
    pub(crate) fn new(level: Report) -> Self {
        let is_watched = level != Report::Quiet && io::stderr().is_terminal();
        Reporter { level: Some(level), is_watched, ..Reporter::default() }
    }

    /// For a run of `config`, which may end with a hint on how to continue, and with statistics as JSON.
    pub(crate) fn of(config: &Config) -> Self {
        let logged = config.command.as_ref().filter(|run| run.log.is_some());
        let named = |run: &Run| match run.failed.as_ref().or(run.log.as_ref()) {
            Some(file) => format!(": see {}", escaped(&file.to_string_lossy())),
            None => ": --failed FILE lists them".to_owned(),
        };
        let named = config.command.as_ref().map_or_else(String::new, |run| named(run));
        let resumes = logged.map(|run| run.resume.is_some());
        let counts_rest = config.queue.until.is_some() && resumes != Some(true);
        Reporter { resumes, counts_rest, named, as_json: config.as_json, ..Reporter::new(config.report) }
    }

    /// Shows progress as well, or else explains the first long wait. Progress is towards a `total`, once that is known.
    pub(crate) fn with_progress(
        self,
        display: Option<Display>,
        total: impl Fn(Duration) -> Option<Total> + 'static,
    ) -> Self {
        let explains = Cell::new(self.is_watched && display.is_none());
        Reporter { display, explains, total: Some(Box::new(total)), ..self }
    }

    /// Explains the first long wait, and has no progress to show.
    pub(crate) fn with_explanation(self) -> Self {
        Reporter { explains: Cell::new(self.is_watched), ..self }
    }

    fn total(&self, within: Duration) -> Option<Total> {
        self.total.as_ref()?(within)
    }

    /// `None` if progress is not shown.
    pub(crate) fn display(&self) -> Option<&Display> {
        self.display.as_ref()
    }

    /// Prints something else, with the progress line out of the way.
    pub(crate) fn make_way<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.display {
            Some(display) => display.suspend(print),
            None => print(),
        }
    }

    /// Prints a line, if the level asked for is at least `level`.
    fn say(&self, level: Report, text: &dyn fmt::Display) {
        if self.level >= Some(level) {
            self.make_way(|| stderr::print(&stderr::message(text)));
        }
    }

    /// An error, with its causes on one line.
    pub(crate) fn error(&self, error: &Error) {
        self.say(Report::Quiet, &format_args!("{error:#}"));
    }

    /// Prints an error that leaves something to be reported. Returns what it ends the run with.
    pub(crate) fn end_by(&self, error: &Error) -> Exit {
        self.error(error);
        Exit::Error
    }

    /// Something that the user might not expect; not printed with `-q`.
    pub(crate) fn notice(&self, text: &dyn fmt::Display) {
        self.say(Report::Normal, text);
    }

    /// Something to print with `-v` only.
    pub(crate) fn detail(&self, text: &dyn fmt::Display) {
        self.say(Report::Verbose, text);
    }

    /// A command that is about to run, as it would be typed.
    pub(crate) fn trace(&self, line: &str) {
        if self.level.is_some() {
            self.make_way(|| stderr::print(&format!("{line}\n")));
        }
    }

    /// A failure of `items` items. After the first [`MAX_FAILURES`], they are only counted.
    pub(super) fn say_failed(&self, level: Report, items: u64, text: &str) {
        if self.failures.get() == MAX_FAILURES {
            return self.unnamed.set(self.unnamed.get() + items);
        }
        self.failures.set(self.failures.get() + 1);
        self.say(level, &text);
    }

    /// Shows the progress of a waiting run, or why nothing happens.
    pub(crate) fn show(&self, schedule: &Schedule, now: Time, wall: impl FnOnce() -> Wall) {
        if let Some(display) = &self.display {
            display.show(schedule, now, || self.total(Duration::ZERO), wall);
        } else if self.explains.get()
            && hints::is_long(now, schedule.next_release())
            && let Some(text) = hints::explanation(&schedule.forecast(now, None), wall(), now)
        {
            self.explains.set(false);
            let more = if self.total.is_some() { " (--progress shows more)" } else { "" };
            self.notice(&format_args!("{text}{more}"));
        }
    }

    /// Says so if items are read from a terminal.
    pub(crate) fn reads_terminal(&self) {
        if stdin().is_terminal() {
            self.notice(&"reading items from the terminal; end with Ctrl-D");
        }
    }

    /// What was remarked on the limits, and with `-v` the limits.
    pub(crate) fn limits(&self, limits: &[Rate]) {
        for rate in limits {
            rate.remarks.iter().for_each(|remark| self.say(remark.level(), remark));
            self.detail(&format_args!("limit {rate}"));
        }
    }

    /// Reports what sharing costs a limit, if that is much or with `-v`.
    pub(crate) fn reach(&self, reach: &Reach) {
        if reach.is_low() { self.notice(reach) } else { self.detail(reach) }
    }

    /// The items that are left when a run ends before its input does.
    fn left(&self, exit: Exit, stats: &Stats) {
        let retrying = stats::counted(stats.retrying, "not tried again");
        if exit == Exit::READER_GONE {
            // A reader that went away wanted no more.
        } else if let Exit::Signal(number) = exit {
            let (name, released) = (signal_name(number), items(stats.released));
            let (failed, refused) = (stats::failures(stats), stats::counted(stats.refused, "refused"));
            let left = stats.unreleased();
            self.notice(&format_args!(
                "ended by {name}: {released} released{failed}{refused}, {left} read and not released{retrying}"
            ));
        } else if self.counts_rest
            && exit == Exit::Refused
            && let Some(total) = self.total(COUNTING)
        {
            let left = items(stats.unreleased() + total.items.saturating_sub(stats.read));
            self.notice(&format_args!("ended early: {left} not released{retrying}"));
        } else if stats.left() > 0 {
            let left = items(stats.unreleased());
            self.notice(&format_args!("ended early: {left} read and not released{retrying}"));
        }
    }

    /// The messages at the end of a run, with statistics in words if asked for.
    pub(crate) fn summary(&self, schedule: &Schedule, now: Time, exit: Exit) {
        let stats = schedule.stats();
        let total = || self.total(Duration::ZERO);
        self.display.iter().for_each(|display| display.finish(schedule, now, total));
        if self.unnamed.get() > 0 {
            self.notice(&format_args!("{} more failed{}", self.unnamed.get(), self.named));
        }
        // A reader that went away wanted no more.
        if stats.unprinted > 0 && exit != Exit::READER_GONE {
            let commands = count_of(stats.unprinted, "command");
            self.notice(&format_args!("the output of {commands} is missing or incomplete"));
        }
        self.left(exit, &stats);
        let next_step = self.resumes.and_then(|resumes| hints::next_step(resumes, exit, &stats));
        next_step.iter().for_each(|text| self.notice(text));
        self.say_statistics(Report::Verbose, schedule, now, "released");
    }

    /// The messages at the end of a dry run. The summary, with `-v` or if a person is watching, has the time of the end
    /// if `wall` is given.
    pub(crate) fn dry_summary(&self, schedule: &Schedule, now: Time, exit: Exit, wall: Option<Wall>) {
        let stats = schedule.stats();
        self.left(exit, &stats);
        if self.level == Some(Report::Verbose) || self.is_watched {
            self.notice(&hints::plan(&stats, wall));
        }
        self.say_statistics(Report::Verbose, schedule, now, "would be released");
    }

    /// The statistics as JSON, if asked for: nothing may be printed after them.
    pub(crate) fn json(&self, schedule: &Schedule, now: Time, exit: Exit) {
        if self.as_json {
            stderr::print(&format!("{}\n", escaped_json(&stats::json(schedule, now, exit))));
        }
    }

    /// The statistics so far, on request.
    pub(crate) fn statistics(&self, schedule: &Schedule, now: Time) {
        self.say_statistics(Report::Quiet, schedule, now, "released");
    }

    fn say_statistics(&self, level: Report, schedule: &Schedule, now: Time, releases: &str) {
        let stats = schedule.stats();
        self.say(level, &stats::line(&stats, now, releases));
        stats::waits(&stats, schedule.limit_stats()).iter().for_each(|text| self.say(level, text));
        learned::lines(schedule).iter().for_each(|text| self.say(level, text));
    }
}
