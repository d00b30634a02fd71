//! The command line as it is typed. Only this module knows clap.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Parser, error::ErrorKind};

use crate::spec::{
    self, Action, Algorithm, Batch, Defaults, Input, Rate, RateText, Report, Selector, Spec, parse_count,
    parse_duration, parse_size,
};
use crate::time::SECOND;

const EXAMPLES: &str = "\
Examples:
  cat jobs | throttle -n 10 -p 1m -- curl -fsS    10 requests in any minute
  tail -F log | throttle -r 100/s | nc host 514   at most 100 lines a second";

/// Pass items from stdin on to stdout, or run COMMAND for each, no faster than the limits allow
///
/// Reads items (lines, by default) from standard input, holds each until every limit admits it, and writes it
/// to standard output or, given a COMMAND, runs that with the item as its last argument. By default, in any
/// window of length P no more than N items leave: never early, no burst after idling, no drift.
#[derive(Parser, Debug)]
#[expect(clippy::struct_excessive_bools)]
#[command(
    name = "throttle",
    version,
    after_help = EXAMPLES,
    override_usage = "throttle [OPTIONS] [--] [COMMAND [ARG]...]",
    max_term_width = 100
)]
pub struct Cli {
    /// Release at most N items per period [1]
    ///
    /// N may carry a unit: 1k, 2M, 4Ki. Default: 1.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    #[arg(allow_negative_numbers = true)]
    count: Option<u64>,

    /// Length of the period: 500ms, 1m30s, seconds [1s]
    ///
    /// As in 500ms, 2s, 1m30s, 1h or 1d; a bare number is seconds and may have decimals. Default: 1s.
    #[arg(short, long, value_name = "DUR", value_parser = parse_duration, help_heading = "Limits")]
    #[arg(allow_negative_numbers = true)]
    period: Option<u64>,

    /// A limit in one word: 10/s, 100/2m, 5000/h,algo=bucket,burst=50
    ///
    /// N/[M]UNIT, then options: algo=NAME, burst=N, margin=DUR, start=full|empty. May be given several times,
    /// and together with -n and -p: an item is released when all limits admit it.
    #[arg(short, long, value_name = "RATE", help_heading = "Limits")]
    rate: Vec<RateText>,

    /// sliding (default), bucket, interval or fixed
    ///
    /// sliding: at most N in any window of length P. bucket: bursts up to the burst, then N per P. interval: at
    /// least P/N from one to the next. fixed: at most N in each of its own windows, up to 2N across a boundary.
    /// For every limit that has no algo= of its own.
    #[arg(short = 'A', long, value_name = "NAME", help_heading = "Limits")]
    algorithm: Option<Algorithm>,

    /// How much a bucket holds [N]
    ///
    /// For every bucket that has no burst= of its own. Default: its N.
    #[arg(short, long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    burst: Option<u64>,

    /// Lengthen every period by DUR, for jitter on the way
    ///
    /// What leaves here evenly arrives unevenly; a margin a little larger than the jitter keeps a strict
    /// receiver content. For every limit that has no margin= of its own.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, help_heading = "Limits")]
    margin: Option<u64>,

    /// Read items from FILE and leave stdin to the command
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    arg_file: Option<PathBuf>,

    /// Items end at NUL, as from find -print0
    #[arg(short = '0', long, conflicts_with = "delimiter", help_heading = "Input")]
    null: bool,

    /// Items end at D [\n]
    ///
    /// One or more bytes, with C escapes such as \t, \0 or \x1e. Default: newline.
    #[arg(short, long, value_name = "D", value_parser = parse_delimiter, help_heading = "Input")]
    delimiter: Option<Delimiter>,

    /// Longest item allowed [64Mi]
    ///
    /// In bytes, without its delimiter; a longer one is an error. Default: 64Mi.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true, help_heading = "Input")]
    max_record: Option<u64>,

    /// What stands for the item in COMMAND [{}]
    ///
    /// It is replaced wherever it occurs in COMMAND and ARGs; if it does nowhere, the item is appended.
    #[arg(short = 'I', value_name = "STR", help_heading = "Commands")]
    placeholder: Option<OsString>,

    /// Up to N items to a release; wait DUR for them
    ///
    /// A release of several items counts as one. Without DUR it takes what has arrived when its turn comes. With
    /// DUR it waits until there are N, DUR has passed since the first of them, or the input ends.
    #[arg(short = 'B', long, value_name = "N[,DUR]", help_heading = "Commands")]
    batch: Option<Batch>,

    /// Print when each item would be released, at once
    ///
    /// Prints INSTANT<TAB>ITEM for each: the instant of its release in seconds, computed without waiting.
    #[arg(long, help_heading = "Control")]
    dry_run: bool,

    /// With --dry-run: items say when they arrive, as in col:1
    ///
    /// SEL selects the part of an item that is its arrival in seconds, with up to 9 decimals; seconds since 1970
    /// serve too. Arrivals must not decrease. Without it, all items arrive at 0.
    #[arg(long, value_name = "SEL", requires = "dry_run", help_heading = "Control")]
    arrivals: Option<Selector>,

    /// Tell the limits at the start and a summary at the end
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Reports")]
    verbose: bool,

    /// Tell of errors only
    #[arg(short, long, help_heading = "Reports")]
    quiet: bool,

    /// Run for each item, without a shell
    #[arg(value_name = "COMMAND", trailing_var_arg = true, hide = true)]
    command: Vec<OsString>,
}

/// `-d`: a list of bytes, which clap would take for a list of values.
type Delimiter = Box<[u8]>;

fn parse_delimiter(text: &str) -> Result<Delimiter> {
    spec::parse_delimiter(text).map(Vec::into_boxed_slice)
}

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
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Spec, Usage> {
    let cli = Cli::try_parse_from(args).map_err(|error| usage(&error))?;
    cli.spec().map_err(|error| Usage::Wrong(format!("{error:#}")))
}

impl Cli {
    fn spec(self) -> Result<Spec> {
        let limits = self.limits()?;
        let input = self.input()?;
        let batch = self.batch.unwrap_or(Batch::SINGLE);
        let report = match (self.verbose, self.quiet) {
            (true, _) => Report::Verbose,
            (_, true) => Report::Quiet,
            _ => Report::Normal,
        };
        let action = self.action()?;
        Ok(Spec { limits, input, batch, action, report })
    }

    fn limits(&self) -> Result<Vec<Rate>> {
        let defaults = Defaults {
            algorithm: self.algorithm.unwrap_or_default(),
            burst: self.burst,
            margin: self.margin.unwrap_or(0),
        };
        let mut limits = Vec::new();
        if self.count.is_some() || self.period.is_some() {
            limits.push(
                RateText::new(self.count.unwrap_or(1), self.period.unwrap_or(SECOND))?.resolve(&defaults)?,
            );
        }
        for rate in &self.rate {
            limits.push(rate.resolve(&defaults)?);
        }
        ensure!(!limits.is_empty(), "no limit given: add one, such as -n 10 -p 1m or -r 10/s");
        let has_bucket = limits.iter().any(|rate| rate.algorithm == Algorithm::Bucket);
        ensure!(self.burst.is_none() || has_bucket, "--burst is for the token bucket: add -A bucket");
        Ok(limits)
    }

    fn input(&self) -> Result<Input> {
        let delimiter = match &self.delimiter {
            Some(delimiter) => delimiter.to_vec(),
            None if self.null => vec![0],
            None => vec![b'\n'],
        };
        let max_record = usize::try_from(self.max_record.unwrap_or(64 << 20))?;
        Ok(Input { file: self.arg_file.clone(), delimiter, max_record })
    }

    fn action(self) -> Result<Action> {
        if self.dry_run {
            return Ok(Action::DryRun { arrivals: self.arrivals });
        }
        if self.command.is_empty() {
            ensure!(self.placeholder.is_none(), "-I is for a command: add one, such as -- echo {{}}");
            return Ok(Action::Pass);
        }
        let placeholder = self.placeholder.unwrap_or_else(|| "{}".into());
        ensure!(!placeholder.is_empty(), "-I needs something that stands for the item, such as {{}}");
        Ok(Action::Run { command: self.command, placeholder })
    }
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
