//! The command line. Only this module knows clap.

mod args;
mod meaning;

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;

pub use self::args::Cli;
use crate::config::Config;

/// Why there is nothing to run.
#[derive(Debug)]
pub enum Usage {
    /// Help or the version was asked for: the text.
    Asked(String),
    /// A mistake, in one line that says how to mend it.
    Wrong(String),
}

/// Reads a command line; the first of `args` is the name of the program.
///
/// # Errors
/// A mistake in it, or no error at all but a wish for help.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Config, Usage> {
    let cli = Cli::try_parse_from(args).map_err(|error| usage(&error))?;
    cli.config().map_err(|error| Usage::Wrong(format!("{error:#}")))
}

/// What clap has to say, in one line if it is a mistake.
fn usage(error: &clap::Error) -> Usage {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Usage::Asked(text);
    }
    // Paragraphs: what is wrong, and perhaps a tip.
    let told = text.split("\n\n").filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let told = told.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let told = told.collect::<Vec<_>>().join("; ");
    Usage::Wrong(format!("{}; try 'throttle --help'", told.strip_prefix("error: ").unwrap_or(&told)))
}
