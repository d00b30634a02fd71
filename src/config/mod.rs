//! The meaning of the command line, as values that can be compared and printed, independent of the parser.

mod amount;
mod arrivals;
mod cleaning;
#[cfg(feature = "cli")]
mod command;
mod delimiter;
mod duration;
mod fraction;
mod instant;
mod limits;
mod named;
mod nearest;
#[cfg(feature = "cli")]
mod once;
#[cfg(feature = "cli")]
mod placeholders;
mod quantity;
#[cfg(feature = "cli")]
mod queue;
mod rate;
mod rate_text;
mod remark;
mod report;
mod script;
mod selector;
mod separator;
#[cfg(feature = "cli")]
mod server;
#[cfg(feature = "cli")]
mod state;
mod table;
mod template;

use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

#[cfg(feature = "cli")]
pub use self::{
    command::{Answers, Backoff, Feed, Halt, HaltOn, LogFormat, Output, Resume, Retry, RetryOn, Run, Share},
    once::Once,
    queue::{BatchSize, Jitter, OnLimit, QueueOptions},
    server::{Address, Server},
    state::{Shared, State, VARIABLE, check_shareable, check_shared},
};
pub use amount::parse_limit_period;
pub use arrivals::Arrivals;
pub use cleaning::Cleaning;
pub use delimiter::parse_delimiter;
pub(crate) use delimiter::unescape_byte;
pub use duration::{clamped_duration, format_duration, parse_duration, parse_seconds, rounded_duration};
pub use fraction::exact;
pub use instant::{Until, parse_instant, parse_timestamp};
pub(crate) use limits::check_auditable;
pub use limits::{LimitOptions, LimitSource, parse_limits};
pub(crate) use named::named;
#[cfg(feature = "cli")]
pub(crate) use placeholders::members;
pub use quantity::{parse_count, parse_size};
pub use rate::{CountFrom, Defaults, Rate, key_indices, keys};
pub use rate_text::{RateText, parse_limit_count};
pub use remark::Remark;
pub use report::{Report, StatsFormat, When};
pub(crate) use script::as_script;
pub use selector::Selector;
pub(crate) use selector::{compile, lacking};
pub use separator::Separator;
pub(crate) use table::Header;
pub use table::Table;
pub use template::{HEADERS, Piece, Template};

use crate::time::Time;

/// The options of a whole run.
#[cfg(feature = "cli")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The limits on releases, which may be in files.
    pub limits: LimitOptions,
    /// Where the limits shared with other runs are kept.
    pub shared: Option<Shared>,
    /// The options for waiting items.
    pub queue: QueueOptions,
    /// Where items come from.
    pub input: InputOptions,
    /// The command that is, or would be, run with the items of each release; without one, they go to stdout.
    pub command: Option<Box<Run>>,
    /// The action to take on the input.
    pub action: Verb,
    /// Which messages go to stderr.
    pub report: Report,
    /// The condition for showing progress on stderr; `None` for never.
    pub progress: Option<When>,
    /// True if the statistics are printed as JSON at the end.
    pub as_json: bool,
    /// The file in which statistics are kept up to date for Prometheus.
    pub metrics: Option<PathBuf>,
    /// Where to draw the releases at the end; `-` is the terminal.
    pub plot: Option<PathBuf>,
    /// Warnings about what was typed.
    pub hints: Vec<String>,
}

#[cfg(feature = "cli")]
impl Config {
    /// Warnings about what the user may not have meant, except with limits.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let state = self.shared.as_ref().and_then(|shared| shared.state.warning());
        let are_many = self.queue.batch.items.get() > 1;
        let of_command = self.command.iter().flat_map(move |run| {
            let [first, second] = match run.stdin {
                Feed::Items => [placeholders::pipe_warning(&run.template), None],
                _ => [script::warning(&run.template, are_many), placeholders::warning(&run.template)],
            };
            let backoff = run.retry.backoff.as_ref().and_then(Backoff::warning);
            let headers = placeholders::headers_warning(run, self.limits.has_range());
            [first, second, headers, backoff].into_iter().flatten()
        });
        self.hints.iter().cloned().chain(state).chain(of_command).chain(Once::warning(self))
    }

    /// What selects parts of items, for these limits and for everything else.
    pub(crate) fn selectors<'a>(&'a self, rates: &'a [Rate]) -> impl Iterator<Item = &'a Selector> {
        let command = self.command.iter().flat_map(|run| iter::once(&run.template).chain(&run.tag));
        let command = command.flat_map(Template::selectors);
        let arrivals = match &self.action {
            Verb::DryRun { arrivals, .. } => arrivals.as_ref(),
            Verb::Audit { arrivals, .. } => Some(arrivals),
            Verb::Run | Verb::Once(_) => None,
        };
        let stamp = arrivals.and_then(|arrivals| arrivals.selector.as_ref());
        rates.iter().flat_map(Rate::selectors).chain(command).chain(stamp)
    }

    /// The files that are written, with the option that names each.
    pub fn written(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let run = self.command.as_ref().filter(|_| matches!(self.action, Verb::Run));
        let (log, failed) =
            (run.and_then(|run| run.log.as_deref()), run.and_then(|run| run.failed.as_deref()));
        let plot = self.plot.as_deref().filter(|path| *path != Path::new("-"));
        let metrics = self.metrics.as_deref();
        let files = [("--log", log), ("--failed", failed), ("--plot", plot), ("--stats prom:", metrics)];
        files.into_iter().filter_map(|(option, path)| Some((option, path?)))
    }
}

/// An operation on the state of shared limits, instead of a run.
#[cfg(feature = "cli")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Upkeep {
    /// Forgets the state: the next run begins a new one.
    Reset(Shared),
    /// Replaces the limits by these, or begins the state with them.
    SetLimits(Shared, Vec<Rate>),
    /// Prints how much of the limits is used, as JSON if true.
    Status(Shared, bool),
    /// Holds releases for this number of nanoseconds.
    Hold(Shared, u64),
    /// Prints the names of all states, as JSON if true.
    List(bool),
}

/// Where items come from, and where each one ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputOptions {
    /// The file to read instead of stdin.
    pub file: Option<PathBuf>,
    /// Ends each record. Not empty.
    pub delimiter: Vec<u8>,
    /// Separates the fields of a record; without it, runs of blanks do.
    pub separator: Option<Separator>,
    /// The longest record allowed, in bytes, without its delimiter.
    pub max_record: usize,
    /// White space and blank items to leave out.
    pub cleaning: Cleaning,
    /// The treatment of a bad item.
    pub on_bad: OnBad,
}

impl InputOptions {
    /// The table that items are records of.
    pub(crate) fn table(&self) -> Option<&Table> {
        self.separator.as_ref()?.table().map(AsRef::as_ref)
    }

    /// The bytes of the input that a header took up, as far as it has been read.
    pub(crate) fn head_length(&self) -> u64 {
        let header = self.table().and_then(Table::header);
        header.map_or(0, |header| (header.skipped + header.bytes.len()) as u64)
    }

    /// Checks that a selector can select something, as far as is known.
    ///
    /// # Errors
    /// It names a column, and there is no header with that name, or it is not the only one of its name.
    pub(crate) fn check(&self, selector: &Selector) -> Result<()> {
        if !matches!(selector, Selector::Named(_)) {
            return Ok(());
        }
        let Some(table) = self.table() else {
            bail!("{selector} is a name in a header: add --csv, or write col:N")
        };
        ensure!(table.has_header(), "{selector} needs a header: with --csv=noheader, write col:N");
        table.header().map_or(Ok(()), |header| header.check(selector))
    }
}

/// The treatment of an item without a valid cost, one that is never admitted, or one without a part for the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBad {
    /// It ends the input.
    #[default]
    Fail,
    /// It is reported like an item that failed, and not released.
    Skip,
}

/// The action to take on the input.
#[cfg(feature = "cli")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Releases items as the limits admit them.
    Run,
    /// Releases nothing: prints when each item would have been released.
    DryRun {
        /// Where the arrival of a record is; without it, all arrive at 0.
        arrivals: Option<Arrivals>,
        /// The time on the wall clock at the start, since 1970. Without it, arrivals say, or else it is now.
        at: Option<Time>,
    },
    /// Makes one release, and becomes a command.
    Once(Once),
    /// Releases nothing: judges the instants at which records say they were released.
    Audit {
        /// Where the instants are.
        arrivals: Arrivals,
        /// The time on the wall clock at 0, since 1970, if instants do not count from 1970.
        at: Option<Time>,
    },
}
