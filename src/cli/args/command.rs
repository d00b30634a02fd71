//! Commands: how they get their items, and what happens when they fail.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::report::ReportArgs;
use crate::config::{
    Backoff, BatchSize, Feed, Halt, Output, Retry, Run, Template, parse_count, parse_duration,
};

/// The commands made from items, and how many run at once.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown)]
pub(crate) struct CommandArgs {
    /// What stands for the item in COMMAND [default: {}]
    ///
    /// It is replaced wherever it occurs in COMMAND and its arguments. A selector in braces, such as {col:2},
    /// {.user.id} or {host}, stands for what it selects in the item, and {#} for the number of the item ({#:04}: with
    /// at least four digits). If none of these occurs, the item becomes the last argument. {headers} is the file for
    /// headers: see --max-hold.
    #[arg(short = 'I', value_name = "STR", hide_short_help = true)]
    pub(crate) placeholder: Option<OsString>,

    /// Release up to N items together, counted as one
    ///
    /// COMMAND gets them as N arguments. Without DUR, a batch is what has arrived when its turn comes: it grows while
    /// the limits hold it back. With DUR, it is closed once it has N items, the next one does not fit or has another
    /// key, DUR has passed since the first of them arrived, or the input ends, and does not grow after that. It waits
    /// for no more items while none can be read, as --lookahead wait already.
    #[arg(short = 'B', long, value_name = "N[,DUR]")]
    pub(crate) batch: Option<BatchSize>,

    /// Run up to N commands at once [default: 1]
    ///
    /// The limits still apply to their starts. With N above 1, each output is printed as a whole when its command has
    /// ended.
    #[arg(short, long, visible_short_alias = 'P', value_name = "N", value_parser = parse_jobs)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Print output in the order of the input
    ///
    /// The output of a command waits until all earlier items are done, including retries.
    #[arg(short, long)]
    pub(crate) keep_order: bool,

    /// Let the outputs of commands mix
    ///
    /// Commands write directly to standard output and standard error, even with -j. With --tag, each line is printed as
    /// soon as it is complete, never within another.
    #[arg(short, long, conflicts_with = "keep_order", hide_short_help = true)]
    pub(crate) ungrouped: bool,

    /// Put the item and a tab before each line of output
    ///
    /// Applies to standard output and standard error. With --tag=SEL, the tag is what SEL selects in the item, as for
    /// --cost, and empty if the item has no such part. A batch is tagged with all its items, separated by blanks. With
    /// -u, or without -j, each line is printed as soon as it is complete.
    #[arg(long, value_name = "SEL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_parser = Template::tag)]
    pub(crate) tag: Option<Template>,

    /// Give the item to COMMAND on its stdin
    ///
    /// With its delimiter; for a batch, all items. COMMAND is run unchanged, with no placeholder but {headers}, and
    /// need not read all its input.
    #[arg(long, conflicts_with = "placeholder", hide_short_help = true)]
    pub(crate) pipe: bool,

    /// End a command that runs longer than DUR
    ///
    /// The command, and whatever it started, gets TERM, and KILL if it is still running 2 seconds later. It counts as
    /// killed.
    #[arg(long, value_name = "DUR", value_parser = parse_timeout)]
    pub(crate) timeout: Option<u64>,

    /// Try a failed item up to N more times
    ///
    /// Every attempt waits for the limits like a new item, and is charged to them. A command can say how long to wait
    /// before the next attempt: see --max-hold.
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    pub(crate) retries: Option<u64>,

    /// Wait before a retry: 1s..5m, or 429,5xx=1s..5m
    ///
    /// [CODES=]MIN..MAX, or a single time, for the same wait before every retry. The wait is a random time between MIN
    /// and twice MIN, then four times MIN, and so on up to MAX. Other items go on meanwhile; then the item is next in
    /// line. With --in-order it keeps its place, and the others wait. A time that a command puts into $THROTTLE_HEADERS
    /// holds up everything with the same keys. With CODES, only what failed with one of
    /// them is retried: 7 is an exit status, 429 or 5xx an HTTP status that COMMAND has put into {headers}, and exit:N
    /// any exit status, 128+n if signal n killed it. Without --backoff, a retry goes as soon as the limits admit it.
    #[arg(long, value_name = "WAIT", requires = "retries")]
    pub(crate) backoff: Option<Backoff>,

    /// Hold for at most DUR when a server asks for a pause [default: 1h]
    ///
    /// COMMAND writes the server's headers to the file {headers}, or $THROTTLE_HEADERS, as with curl -D {headers},
    /// even when it succeeds. Retry-After, or else a used-up quota, holds up everything with the same keys until there
    /// is more. A server that asks for more than DUR is asked again after DUR.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) max_hold: Option<u64>,

    /// When to end the run: soon,fail=10%, now,success=1
    ///
    /// soon: start no more commands. now: send TERM to the running ones as well. fail=N: when N items have failed,
    /// after all their retries. fail=N%: when N percent have failed: of all items once the input has been read to its
    /// end; before that, of the completed items, of which there must be at least three. success= and done= count items
    /// that succeeded, or ended in any way. After success=, the status is 0.
    #[arg(long, value_name = "WHEN")]
    pub(crate) halt: Option<Halt>,
}

impl CommandArgs {
    /// Runs `command`. If items come `from_file`, standard input is free for it.
    pub(crate) fn run(self, command: &[OsString], from_file: bool, report: ReportArgs) -> Result<Run> {
        let stdin = match (self.pipe, from_file) {
            (true, _) => Feed::Items,
            (false, true) => Feed::Ours,
            (false, false) => Feed::Nothing,
        };
        let jobs = self.jobs.unwrap_or(NonZeroUsize::MIN);
        let output = match (self.keep_order, self.ungrouped) {
            (true, _) => Output::InOrder,
            (false, ungrouped) if ungrouped || jobs == NonZeroUsize::MIN => match self.tag {
                Some(_) => Output::Lines,
                None => Output::Shared,
            },
            _ => Output::Whole,
        };
        let template = self.template(command)?;
        let max_hold = self.max_hold.unwrap_or(Retry::default().max_hold);
        for (option, file) in [("--log", &report.log), ("--failed", &report.failed)] {
            ensure!(
                file.as_deref().is_none_or(|file| file.as_os_str() != "-"),
                "{option} - would be standard output, where COMMAND writes: name a file (./- for one named -)"
            );
        }
        Ok(Run {
            template,
            jobs,
            output,
            stdin,
            trace: report.trace,
            tag: self.tag,
            timeout: self.timeout,
            halt: self.halt,
            retry: Retry { times: self.retries.unwrap_or(0), backoff: self.backoff, max_hold },
            log: report.log,
            failed: report.failed,
            log_format: report.log_format,
            resume: report.resume,
        })
    }

    fn template(&self, command: &[OsString]) -> Result<Template> {
        if self.pipe {
            return Ok(Template::without_items(command));
        }
        let placeholder = self.placeholder.as_deref();
        ensure!(
            placeholder.is_none_or(|text| !text.is_empty()),
            "-I needs a placeholder for the item, such as {{}}"
        );
        let template = Template::new(command, placeholder);
        if self.batch.is_some_and(|batch| batch.items > NonZeroU64::MIN) {
            template.check_batches()?;
        }
        Ok(template)
    }
}

fn parse_jobs(text: &str) -> Result<NonZeroUsize> {
    if let Some(percent) = text.strip_suffix('%').filter(|percent| percent.parse::<u32>().is_ok()) {
        bail!("use a number: for {text} of the processors, -j $(($(nproc) * {percent} / 100))");
    }
    let jobs = usize::try_from(parse_count(text)?).unwrap_or(usize::MAX);
    NonZeroUsize::new(jobs)
        .context("at least 1 has to run; to run all items at once, use a large number such as 100")
}

fn parse_timeout(text: &str) -> Result<u64> {
    let timeout = parse_duration(text)?;
    ensure!(timeout > 0, "a timeout of 0 would end every command: for no timeout, leave it out");
    Ok(timeout)
}
