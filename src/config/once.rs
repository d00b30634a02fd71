//! `--once`: a single release.

use std::ffi::OsString;

use anyhow::{Result, ensure};

use super::rate::{CountFrom, Rate};
use super::{Config, Verb};

/// A single release, and what follows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Once {
    /// The command and its arguments; empty if there is none.
    pub command: Vec<OsString>,
    /// True if it is printed before it runs.
    pub trace: bool,
    /// The cost of the release under each limit without a `cost=`.
    pub cost: Option<u64>,
    /// The longest wait, in nanoseconds.
    pub max_wait: Option<u64>,
}

impl Once {
    /// Warns of a single release that never waits, as no run knows of another.
    pub(super) fn warning(Config { limits, shared, queue, action, .. }: &Config) -> Option<String> {
        let is_alone = matches!(action, Verb::Once(_)) && shared.is_none() && queue.jitter.is_none();
        let may_wait = |rate: &Rate| {
            rate.starts_empty
                || rate.goes_by_wall()
                || rate.depends_on_eligibility(rate.common_cost().unwrap_or(1))
        };
        let rates = limits.given().ok().filter(|_| is_alone && limits.files().next().is_none())?;
        (!rates.iter().any(may_wait)).then(|| {
            "--once does not wait here, as no run knows of another: to share the limit, add -s NAME"
                .to_owned()
        })
    }

    /// Checks that a limit needs neither an item, to take a key or cost from, nor the end of a command.
    ///
    /// # Errors
    /// It does, and why.
    pub(crate) fn check(rate: &Rate) -> Result<()> {
        ensure!(rate.key.is_none(), "--once reads no items, so there are no keys: leave out key= of {rate}");
        ensure!(
            rate.cost.is_none() || rate.common_cost().is_some(),
            "--once reads no items: use a number as cost= of {rate}"
        );
        let part = if rate.from == CountFrom::Exit { "from=exit of " } else { "" };
        ensure!(!rate.counts_exits(), "--once cannot see the end of COMMAND: leave out {part}{rate}");
        ensure!(
            rate.least.is_none(),
            "--once is a single release, which finds no rate: write one rate for {rate}"
        );
        ensure!(!rate.local, "--once is a single release, so {rate} would never limit it: leave it out");
        rate.check_cost()
    }
}
