//! Commands that fail, or take too long.

use anyhow::{Result, ensure};
use clap::Args;

use crate::config::{Backoff, Halt, Retry, parse_count, parse_duration};

/// When commands have failed, and what follows from that.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown)]
pub(super) struct FailureArgs {
    /// End a command that runs longer than DUR
    ///
    /// It, and what it started, get TERM, and KILL if it is still there 2 seconds later. It counts as killed.
    #[arg(long, value_name = "DUR", value_parser = parse_timeout)]
    pub(super) timeout: Option<u64>,

    /// Try a failed item up to N times more
    ///
    /// Every attempt waits for the limits like a new item, and is charged to them. A command can say how long to wait
    /// before the next one: see --max-hold.
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    pub(super) retries: Option<u64>,

    /// Wait before a retry: 1s..5m, or 22,75=1s..5m
    ///
    /// [CODES=]MIN..MAX, or one time for a wait that stays the same.
    /// The wait is a random time between MIN and twice MIN, then four times MIN, and so on up to MAX.
    /// Other items go on meanwhile; then the item is next in line. With --in-order it keeps its place, and the others
    /// wait. A time that a command puts into $THROTTLE_HEADERS holds up everything with the same keys. With CODES, only
    /// commands that exit with one of these are tried again, and none that was killed. Without --backoff, a retry goes
    /// when the limits admit it.
    #[arg(long, value_name = "WAIT", requires = "retries")]
    pub(super) backoff: Option<Backoff>,

    /// Hold for at most DUR when a server asks for a pause [default: 1h]
    ///
    /// COMMAND tells in the file named by $THROTTLE_HEADERS what the server has said, as from curl -D
    /// "$THROTTLE_HEADERS", also when it succeeds. Retry-After, or else a quota of which nothing is left, holds up
    /// everything with the same keys until there is more. A server that asks for more than DUR is asked again after
    /// DUR.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    pub(super) max_hold: Option<u64>,

    /// When to end the run: soon,fail=10%, now,success=1
    ///
    /// soon: no more commands are started. now: running ones get TERM, too. fail=N: when N items have failed, after all
    /// their retries. fail=N%: when N of a hundred have: of all items once the input has been read to its end, before
    /// that of those that are done with, if these are three or more. success= and done= count items that succeeded, or
    /// ended in any way. After success=, the status is 0.
    #[arg(long, value_name = "WHEN")]
    pub(super) halt: Option<Halt>,
}

impl FailureArgs {
    pub(super) fn retry(self) -> Retry {
        let max_hold = self.max_hold.unwrap_or(Retry::default().max_hold);
        Retry { times: self.retries.unwrap_or(0), backoff: self.backoff, max_hold }
    }
}

fn parse_timeout(text: &str) -> Result<u64> {
    let timeout = parse_duration(text)?;
    ensure!(timeout > 0, "a timeout of 0 would end every command: leave it out for none");
    Ok(timeout)
}
