//! The reports of a run: messages, progress and statistics.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Which messages go to stderr.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Report {
    /// Errors only.
    Quiet,
    /// Errors, and items that were not released.
    Normal,
    /// Also the limits at the start and a summary at the end.
    Verbose,
}

/// The condition for showing progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// If stderr is a terminal.
    Auto,
    /// Always; without a terminal, as a line now and then.
    Always,
}

/// A format for the statistics of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatsFormat {
    /// One JSON object, at the end.
    Json,
    /// A text file for Prometheus, kept up to date.
    Prometheus(PathBuf),
}

impl StatsFormat {
    /// Reads `json` or `prom:FILE`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &OsStr) -> Result<Self> {
        if text == "json" {
            return Ok(StatsFormat::Json);
        }
        let path = text.as_bytes().strip_prefix(b"prom:");
        let path = path.context("use json or prom:FILE")?;
        ensure!(!path.is_empty(), "prom: needs a file, as in prom:/var/lib/node_exporter/throttle.prom");
        Ok(StatsFormat::Prometheus(PathBuf::from(OsStr::from_bytes(path))))
    }
}
