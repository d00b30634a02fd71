//! What is told of a run.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::choice;
use crate::config::{Report, StatsFormat, When};

/// Formats that a name may promise, and that are not drawn.
const PICTURES: [&str; 11] = ["png", "jpg", "jpeg", "gif", "webp", "pdf", "ps", "eps", "bmp", "tif", "tiff"];

/// Messages, numbers and drawings.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown)]
pub(crate) struct ReportArgs {
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
    #[arg(value_parser = choice::<When>(), hide_possible_values = true)]
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
