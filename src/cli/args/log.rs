//! The log of jobs.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use super::choice;
use crate::config::{LogFormat, Resume};

/// A log of the commands that were run, and its use.
#[derive(Args, Debug)]
pub(crate) struct LogArgs {
    /// Note the end of each command in FILE
    ///
    /// A line for each command, tab-separated, with a header: seq, start, wait, runtime, attempt, exit, signal, item. A
    /// batch is one line, with a column for each item. What FILE holds is kept.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Write a new log as tsv (default) or json
    ///
    /// json: an object a line, with the columns of the log as its members; an item that is not UTF-8 is an array of its
    /// bytes. With -B there are items and seqs, lists, in place of item. A log that is there already is continued in
    /// its own format.
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "log",
        hide_short_help = true,
        hide_possible_values = true
    )]
    #[arg(value_parser = choice::<LogFormat>())]
    pub(crate) log_format: Option<LogFormat>,

    /// Do not run again what the log says is done
    ///
    /// Items that the log of --log has with exit 0 are passed over; all others are run. They are known by their
    /// content, so the list may have been edited. Each time that an item was completed counts for one of its kind. With
    /// --resume=new, items that the log has as failed are passed over as well, and only those that it does not have are
    /// run.
    #[arg(long, value_name = "WHICH", requires = "log", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "unfinished", hide_possible_values = true, value_parser = choice::<Resume>())]
    pub(crate) resume: Option<Resume>,
}

impl LogArgs {
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.log.as_deref().is_none_or(|log| log.as_os_str() != "-"),
            "--log - would be standard output, where COMMAND writes: name a file, or ./- for one of that name"
        );
        Ok(())
    }
}
