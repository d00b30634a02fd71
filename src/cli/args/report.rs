//! The reports of a run.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::{FOR_COMMANDS, FOR_RUNS, choice};
use crate::config::{LogFormat, Report, Resume, StatsFormat, When};

/// Extensions of picture formats that are not written.
const PICTURES: [&str; 11] = ["png", "jpg", "jpeg", "gif", "webp", "pdf", "ps", "eps", "bmp", "tif", "tiff"];

/// The log of commands and how it is used, messages, statistics and plots.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Print each command before it runs
    #[arg(short, long, hide_short_help = true, help_heading = "Commands", group = FOR_COMMANDS)]
    pub(crate) trace: bool,

    /// Record each command in FILE when it ends
    ///
    /// The columns, separated by tabs, are: seq, start, wait, runtime, attempt, exit, signal, item. An existing FILE is
    /// continued.
    #[arg(long, value_name = "FILE", group = FOR_COMMANDS)]
    pub(crate) log: Option<PathBuf>,

    /// Write a new log as tsv (default) or json
    #[arg(long, value_name = "FORMAT", group = FOR_COMMANDS)]
    #[arg(hide_short_help = true)]
    #[arg(value_parser = choice(&[("tsv", LogFormat::Tsv), ("json", LogFormat::Json)]))]
    pub(crate) log_format: Option<LogFormat>,

    /// Skip items that the log shows as completed
    ///
    /// Completed is what has exit 0; all other items are run. Items are compared by content. With --resume=new, failed
    /// items are skipped, too.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, group = FOR_COMMANDS)]
    #[arg(value_parser = choice(&[("unfinished", Resume::Unfinished), ("new", Resume::New)]))]
    #[arg(default_missing_value = "unfinished")]
    pub(crate) resume: Option<Resume>,

    /// Write failed items to FILE, as the next input
    #[arg(long, value_name = "FILE", group = FOR_COMMANDS)]
    pub(crate) failed: Option<PathBuf>,

    /// Print the limits first, a summary at the end
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show progress on a terminal
    ///
    /// With --progress=always, also where standard error is no terminal.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    #[arg(value_parser = choice(&[("auto", When::Auto), ("always", When::Always)]))]
    #[arg(group = FOR_RUNS)]
    pub(crate) progress: Option<When>,

    /// Report statistics: json at the end, or prom:FILE
    ///
    /// json: one object, the last line on standard error. prom:FILE: metrics for Prometheus, replaced once a second.
    /// Both may be given.
    #[arg(long, value_name = "FORMAT", hide_short_help = true, group = FOR_RUNS)]
    #[arg(value_parser = OsStringValueParser::new().try_map(|text| StatsFormat::parse(&text)))]
    pub(crate) stats: Vec<StatsFormat>,

    /// Draw the releases over time to FILE, as SVG
    ///
    /// With -, drawn in characters, to the width of the terminal.
    #[arg(long, value_name = "FILE", conflicts_with = "reset_state", hide_short_help = true)]
    #[arg(group = FOR_RUNS)]
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
