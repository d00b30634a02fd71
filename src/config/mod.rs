//! The meaning of the command line: comparable, printable, and with nothing of the parser in it.

mod amount;
mod arrivals;
mod cleaning;
mod command;
mod delimiter;
mod duration;
mod fraction;
mod instant;
mod limits;
mod named;
mod nearest;
mod once;
mod placeholders;
mod plan;
mod quantity;
mod queue;
mod rate;
mod rate_text;
mod report;
mod selector;
mod server;
mod state;
mod template;

use std::path::PathBuf;

pub use amount::{Amount, parse_limit_count, parse_limit_period};
pub use arrivals::Arrivals;
pub use cleaning::Cleaning;
pub use command::{Backoff, Feed, Halt, HaltOn, LogFormat, Output, Resume, Retry, Run, Share};
pub use delimiter::parse_delimiter;
pub use duration::{clamped_duration, format_duration, parse_duration, parse_seconds, rounded_duration};
pub use instant::{Until, parse_instant, parse_timestamp};
pub(crate) use limits::check_auditable;
pub use limits::{LimitOptions, Source};
pub(crate) use named::named;
pub use once::Once;
pub use plan::Plan;
pub use quantity::{parse_count, parse_size};
pub use queue::{BatchSize, Jitter, OnLimit, QueueOptions};
pub use rate::{CountFrom, Defaults, Rate, keys};
pub use rate_text::RateText;
pub use report::{Report, StatsFormat, When};
pub use selector::Selector;
pub(crate) use selector::compile;
pub use server::{Address, Server};
pub use state::{Shared, State, VARIABLE, check_shareable};
pub use template::{Piece, Template};

use crate::time::Time;

/// A whole run, as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The limits on releases, which may be in files.
    pub limits: LimitOptions,
    /// Where limits are kept that are shared with other runs.
    pub shared: Option<Shared>,
    /// The way in which items wait.
    pub queue: QueueOptions,
    /// Where items come from.
    pub input: InputOptions,
    /// The command that is run with the items of each release, or would be; without it, they go to stdout.
    pub command: Option<Box<Run>>,
    /// What is done with the input.
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
        let placeholder = self.command.as_ref().filter(|run| run.stdin != Feed::Items);
        let placeholder = placeholder.and_then(|run| placeholders::warning(&run.template));
        self.limits.warnings().map(str::to_owned).chain(state).chain(placeholder)
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

/// The fate of an item without a cost, or with one that no limit ever admits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBad {
    /// It ends the input.
    #[default]
    Fail,
    /// It is reported like an item that failed, and not released.
    Skip,
}

/// What is done with the input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Releases it as the limits admit it.
    Run,
    /// Releases nothing: prints when each item would have been released.
    DryRun {
        /// Where a record says when it arrived. Without it, all arrive at 0.
        arrivals: Option<Arrivals>,
        /// The wall clock at its start, since 1970. Without it, arrivals tell, or it is now.
        at: Option<Time>,
    },
    /// Releases once, and becomes a command.
    Once(Once),
    /// Releases nothing: judges when records say that they were released.
    Audit(Arrivals),
}
