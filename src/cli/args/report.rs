//! The reports of a run.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::choice;
use crate::config::{LogFormat, Report, Resume, StatsFormat, When};

/// Extensions of picture formats that are not written.
const PICTURES: [&str; 11] = ["png", "jpg", "jpeg", "gif", "webp", "pdf", "ps", "eps", "bmp", "tif", "tiff"];

/// The log of commands and how it is used, messages, statistics and plots.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown)]
pub(crate) struct ReportArgs {
    /// Print each command before it runs
    ///
    /// On standard error, quoted so that bash would run the same.
    #[arg(short, long, hide_short_help = true, help_heading = "Commands")]
    pub(crate) trace: bool,

    /// Record each command in FILE when it ends
    ///
    /// A line for each command, tab-separated, with a header: seq, start, wait, runtime, attempt, exit, signal, item. A
    /// batch is one line, with a column for each item. An existing FILE is appended to.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Write a new log as tsv (default) or json
    ///
    /// json: one object per line, with the columns of the log as its members; an item that is not UTF-8 is an array of
    /// its bytes. With -B, the lists items and seqs replace item. Without this option, an existing log is continued in
    /// its own format; to ask for another is an error.
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "log",
        hide_short_help = true,
        hide_possible_values = true
    )]
    #[arg(value_parser = choice(&[("tsv", LogFormat::Tsv), ("json", LogFormat::Json)]))]
    pub(crate) log_format: Option<LogFormat>,

    /// Skip items that the log has as done
    ///
    /// Items that the log of --log has with exit 0 are skipped; all others are run. Items are compared by content, so
    /// the input may be edited; each completion counts for one equal item. With --resume=new, items that the log has as
    /// failed are skipped as well, and only those not in the log are run.
    #[arg(long, value_name = "WHICH", requires = "log", num_args = 0..=1, require_equals = true)]
    #[arg(value_parser = choice(&[("unfinished", Resume::Unfinished), ("new", Resume::New)]))]
    #[arg(default_missing_value = "unfinished", hide_possible_values = true)]
    pub(crate) resume: Option<Resume>,

    /// Write the items that failed to FILE, as a next input
    ///
    /// Each with its delimiter, as soon as it has failed for good: after its retries, or when the run ends before them.
    /// FILE is emptied at the start. Items that were not released are not in it; for these, see --resume.
    #[arg(long, value_name = "FILE")]
    pub(crate) failed: Option<PathBuf>,

    /// Print the limits at the start, a summary at the end
    ///
    /// On standard error, like all messages.
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print errors only
    ///
    /// Leaves out warnings, which items failed, and what was left when the run ends early; the exit status is the same.
    /// Errors of throttle itself are printed, and so are items that could not be given to COMMAND.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show progress on a terminal
    ///
    /// Items done, failed and running, the recent rate, when the next may go and which limit it waits for, and when the
    /// last may go under the limits. Updated once a second. If standard error is not a
    /// terminal, a line is added every 10 seconds to that of the session, if there is one. --progress=always prints
    /// lines on standard error wherever that is.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    #[arg(value_parser = choice(&[("auto", When::Auto), ("always", When::Always)]))]
    #[arg(hide_possible_values = true)]
    pub(crate) progress: Option<When>,

    /// Report statistics: json at the end, or prom:FILE
    ///
    /// json: as one JSON object on standard error, at the end, as the last line.
    ///
    /// prom:FILE: as metrics for Prometheus, in FILE, which is replaced at the start, once a second and at the end. The
    /// textfile collector of node_exporter reads the files in its directory whose names end in .prom. Both may be
    /// given.
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    #[arg(value_parser = OsStringValueParser::new().try_map(|text| StatsFormat::parse(&text)))]
    pub(crate) stats: Vec<StatsFormat>,

    /// Draw the releases over time to FILE, as SVG
    ///
    /// At the end: what was released against what each limit allowed, and what was in each window against the limit;
    /// for limits with keys, the busiest keys. With -, drawn in characters to the width of the terminal, on standard
    /// error; for an audit, on standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "reset_state", hide_short_help = true)]
    pub(crate) plot: Option<PathBuf>,
}

impl ReportArgs {
    pub(crate) fn level(&self) -> Report {
        match (self.verbose, self.quiet) {
            (true, _) => Report::Verbose,
            (_, true) => Report::Quiet,
            _ => Report::Normal,
        }
    }

    /// The file for the plot. Its name must not have the extension of another format.
    pub(crate) fn plot(&self) -> Result<Option<PathBuf>> {
        let Some(path) = &self.plot else { return Ok(None) };
        let format = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        ensure!(
            !PICTURES.contains(&format.as_str()),
            "--plot writes SVG, and {} would be taken for {}: name it {}",
            path.display(),
            format.to_ascii_uppercase(),
            path.with_extension("svg").display()
        );
        Ok(Some(path.clone()))
    }

    /// The file for metrics. Not with an option that only `computes`: its numbers would pass for those of real
    /// releases.
    pub(crate) fn metrics(&self, computes: Option<&str>) -> Result<Option<PathBuf>> {
        let mut files = self.stats.iter().filter_map(|stats| match stats {
            StatsFormat::Json => None,
            StatsFormat::Prometheus(file) => Some(file.clone()),
        });
        let (file, other) = (files.next(), files.next());
        ensure!(other.is_none(), "--stats=prom: may be given only once");
        if let Some(option) = computes.filter(|_| file.is_some()) {
            bail!("{option} releases nothing that Prometheus could count: use --stats=json");
        }
        Ok(file)
    }
}
