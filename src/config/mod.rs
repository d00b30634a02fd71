//! The meaning of the command line: comparable, printable, and with nothing of the parser in it.

mod amount;
mod arrivals;
mod command;
mod delimiter;
mod duration;
mod fraction;
mod instant;
mod jitter;
mod limit_count;
mod limits;
mod named;
mod nearest;
mod plan;
mod quantity;
mod rate;
mod rate_text;
mod selector;
mod server;
mod state;
mod stats;
mod template;
mod until;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

pub use amount::{Amount, parse_limit_period};
pub use arrivals::Arrivals;
pub use command::{Backoff, Feed, Halt, HaltOn, LogFormat, Once, Output, Resume, Retry, Run, Share, Tag};
pub use delimiter::parse_delimiter;
pub use duration::{format_duration, parse_duration, parse_seconds, rounded_duration};
pub use instant::parse_instant;
pub use jitter::Jitter;
pub use limit_count::parse_limit_count;
pub use limits::{LimitOptions, Source};
pub use named::Named;
pub use plan::Plan;
pub use quantity::{parse_count, parse_size};
pub use rate::{CountFrom, Defaults, Rate, Start, keys};
pub use rate_text::RateText;
pub use selector::Selector;
pub(crate) use selector::compile;
pub use server::{Address, Server};
pub use state::{Shared, State, VARIABLE, check_shareable};
pub use stats::StatsFormat;
pub use template::{Piece, Template};
pub use until::Until;

use crate::time::Time;

/// A whole run, as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The limits on releases, which may be in files.
    pub limits: LimitOptions,
    /// Where limits are kept that are shared with other runs.
    pub shared: Option<Shared>,
    /// The fate of an item that cannot go at once.
    pub on_limit: OnLimit,
    /// The order, number and time in which items wait.
    pub queue: QueueOptions,
    /// Where items come from.
    pub input: InputOptions,
    /// The number of items in one release.
    pub batch: BatchSize,
    /// The effect of a release.
    pub action: Verb,
    /// The amount of messages on stderr.
    pub report: Report,
    /// Shows progress on stderr; without it, none.
    pub progress: Option<When>,
    /// Prints the numbers at the end as JSON.
    pub as_json: bool,
    /// Where the numbers are kept up to date for Prometheus.
    pub metrics: Option<PathBuf>,
    /// Where releases are drawn at the end; `-` is the terminal.
    pub plot: Option<PathBuf>,
}

impl Config {
    /// Warnings of what the user may not have meant.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let state = self.shared.as_ref().and_then(|shared| shared.state.warning());
        self.limits.warnings().map(str::to_owned).chain(state)
    }

    /// The command that is run for each release, or would be.
    pub fn command(&self) -> Option<&Run> {
        match &self.action {
            Verb::Run(run) => Some(run),
            Verb::DryRun { run, .. } => run.as_deref(),
            Verb::Pass | Verb::Once(_) | Verb::Audit(_) => None,
        }
    }
}

/// An operation on the state of shared limits, instead of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Upkeep {
    /// Forgets it, so that the next run begins a new one.
    Reset(Shared),
    /// Prints how much of it is used.
    Status(Shared),
    /// Holds it for this number of nanoseconds.
    Hold(Shared, u64),
    /// Prints the names of the states that there are.
    List,
}

/// Where items come from, and where one ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputOptions {
    /// Read instead of stdin.
    pub file: Option<PathBuf>,
    /// Ends each record. Not empty.
    pub delimiter: Vec<u8>,
    /// Separates the fields of a record; without it, runs of blanks do.
    pub separator: Option<Vec<u8>>,
    /// The longest record allowed, in bytes without its delimiter.
    pub max_record: usize,
    /// Blanks and blank items that are left out.
    pub cleaning: Cleaning,
    /// The fate of an item that cannot be charged.
    pub on_bad: OnBad,
}

/// Parts of the input that are left out before anything else is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaning {
    /// White space around items.
    pub trim: bool,
    /// Items that are empty, or nothing but white space.
    pub skip_blank: bool,
}

/// The fate of an item without a cost, or with one that no limit ever admits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBad {
    /// It ends the input.
    #[default]
    Fail,
    /// It is reported like an item that failed, and not released.
    Skip,
}

impl Named for OnBad {
    const NAMES: &'static [(&'static str, Self)] = &[("fail", OnBad::Fail), ("skip", OnBad::Skip)];
}

/// The fate of an item that cannot go at the instant of its arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLimit {
    /// It waits: shaping.
    #[default]
    Wait,
    /// It is discarded: policing.
    Drop,
    /// It waits, but is discarded for a newer one.
    Latest,
    /// It ends the run.
    Fail,
}

impl OnLimit {
    /// An item goes at its arrival or not at all.
    pub(crate) fn never_waits(self) -> bool {
        matches!(self, OnLimit::Drop | OnLimit::Fail)
    }
}

impl Named for OnLimit {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("wait", OnLimit::Wait),
        ("drop", OnLimit::Drop),
        ("latest", OnLimit::Latest),
        ("fail", OnLimit::Fail),
    ];
}

/// The order, number and time in which items wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// In the order of the input, whatever their keys.
    pub in_order: bool,
    /// The most items that wait in lanes; then reading stops.
    pub lookahead: NonZeroU64,
    /// The longest wait, in nanoseconds: of each item with [`OnLimit::Drop`] or [`OnLimit::Fail`], otherwise of the run
    /// for its next release.
    pub max_wait: Option<u64>,
    /// A random delay of each release.
    pub jitter: Option<Jitter>,
    /// After this, nothing is released.
    pub until: Option<Until>,
}

/// The number of items in one release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSize {
    /// At most this number.
    pub items: NonZeroU64,
    /// Nanoseconds from its first item's arrival that a batch which is not full waits for more. Without it, a batch is
    /// formed of what has arrived by the instant of its release.
    pub linger: Option<u64>,
}

impl BatchSize {
    /// Each item on its own.
    pub const SINGLE: BatchSize = BatchSize { items: NonZeroU64::MIN, linger: None };
}

impl FromStr for BatchSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (items, linger) = match text.split_once(',') {
            Some((items, linger)) => (items, Some(parse_duration(linger)?)),
            None => (text, None),
        };
        let items = NonZeroU64::new(parse_count(items)?).context("a batch holds at least 1 item")?;
        Ok(BatchSize { items, linger })
    }
}

/// The effect of a release.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Writes the items to stdout.
    Pass,
    /// Runs a command with the items.
    Run(Box<Run>),
    /// Releases nothing: prints when each item would have been released.
    DryRun {
        /// Where a record says when it arrived. Without it, all arrive at 0.
        arrivals: Option<Arrivals>,
        /// The wall clock at its start, since 1970. Without it, arrivals tell, or it is now.
        at: Option<Time>,
        /// The command that would be run, if any.
        run: Option<Box<Run>>,
    },
    /// Releases once, and becomes a command.
    Once(Once),
    /// Releases nothing: judges when records say that they were released.
    Audit(Arrivals),
}

/// The amount of messages on stderr.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// Errors only.
    Quiet,
    /// Errors, and items that were not released.
    Normal,
    /// The limits at the start and a summary at the end as well.
    Verbose,
}

/// The condition for showing progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// If stderr is a terminal.
    Auto,
    /// In any case; where there is no terminal, a line now and then.
    Always,
}

impl Named for When {
    const NAMES: &'static [(&'static str, Self)] = &[("auto", When::Auto), ("always", When::Always)];
}
