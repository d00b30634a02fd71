//! What is told of a run.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::choice;
use crate::config::{LogFormat, Report, Resume, StatsFormat, When};

/// Formats that a name may promise, and that are not drawn.
const PICTURES: [&str; 11] = ["png", "jpg", "jpeg", "gif", "webp", "pdf", "ps", "eps", "bmp", "tif", "tiff"];

/// A log of the commands that were run and its use, messages, numbers and drawings.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown)]
pub(crate) struct ReportArgs {
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
    #[arg(value_parser = choice(&[("tsv", LogFormat::Tsv), ("json", LogFormat::Json)]))]
    pub(crate) log_format: Option<LogFormat>,

    /// Do not run again what the log says is done
    ///
    /// Items that the log of --log has with exit 0 are passed over; all others are run. They are known by their
    /// content, so the list may have been edited. Each time that an item was completed counts for one of its kind. With
    /// --resume=new, items that the log has as failed are passed over as well, and only those that it does not have are
    /// run.
    #[arg(long, value_name = "WHICH", requires = "log", num_args = 0..=1, require_equals = true)]
    #[arg(value_parser = choice(&[("unfinished", Resume::Unfinished), ("new", Resume::New)]))]
    #[arg(default_missing_value = "unfinished", hide_possible_values = true)]
    pub(crate) resume: Option<Resume>,

    /// Print the limits at the start, a summary at the end
    ///
    /// On standard error, as all messages.
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print errors only
    ///
    /// Leaves out warnings, which items failed, and what was left when the run ends early; the exit status stays the
    /// same. Errors of throttle itself are printed, and so are items that could not be given to COMMAND.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show how far the run has come, on a terminal
    ///
    /// Items done, failed and running, the recent rate, when the next may go and which limit it waits for, and when the
    /// last may go under the limits. With --progress=always also where standard error is no terminal, as lines. Drawn
    /// once a second.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    #[arg(value_parser = choice(&[("auto", When::Auto), ("always", When::Always)]))]
    #[arg(hide_possible_values = true)]
    pub(crate) progress: Option<When>,

    /// Report numbers: json at the end, or prom:FILE
    ///
    /// json: as one JSON object on standard error, at the end, as the last line.
    ///
    /// prom:FILE: as metrics for Prometheus, in FILE, which is replaced at the start, once a second and at the end. The
    /// textfile collector of node_exporter reads files in its directory whose names end in .prom. Both may be given.
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    #[arg(value_parser = OsStringValueParser::new().try_map(|text| StatsFormat::parse(&text)))]
    pub(crate) stats: Vec<StatsFormat>,

    /// Draw the releases over time to FILE, as SVG
    ///
    /// At the end: what was released against what each limit allowed, and what was in each window against the limit; of
    /// limits with keys, the busiest keys. With -, in characters to the width of the terminal, on standard error; of an
    /// audit, on standard output.
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

    /// The file for a drawing, whose name must not promise another format.
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

    /// The file for metrics. What an option only `computes` must not pass for what was released.
    pub(crate) fn metrics(&self, computes: Option<&str>) -> Result<Option<PathBuf>> {
        let mut files = self.stats.iter().filter_map(|stats| match stats {
            StatsFormat::Json => None,
            StatsFormat::Prometheus(file) => Some(file.clone()),
        });
        let (file, other) = (files.next(), files.next());
        ensure!(other.is_none(), "--stats=prom: may be given once");
        if let Some(option) = computes.filter(|_| file.is_some()) {
            bail!("{option} releases nothing that Prometheus could count: use --stats=json");
        }
        Ok(file)
    }
}
