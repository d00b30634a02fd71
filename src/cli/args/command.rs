//! Commands: how they get their items, and what happens when they fail.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::report::ReportArgs;
use super::{FOR_COMMANDS, FOR_ITEMS};
use crate::config::{
    Answers, Backoff, BatchSize, Feed, Halt, Output, Retry, Run, Template, parse_count, parse_duration,
};

/// The commands made from items, and how many run at once.
#[derive(Args, Debug)]
#[group(id = FOR_COMMANDS)]
#[expect(clippy::doc_markdown)]
pub(crate) struct CommandArgs {
    /// What stands for the item in COMMAND [default: {}]
    ///
    /// It is replaced wherever it occurs. A selector in braces, such as {col:2}, {.user.id} or {host}, stands for what
    /// it selects, and {#} for the number of the item ({#:04}: four digits). Without any of these, the item becomes the
    /// last argument. {headers} is the file for headers: see --max-hold.
    #[arg(short = 'I', value_name = "STR", hide_short_help = true, group = FOR_ITEMS)]
    pub(crate) placeholder: Option<OsString>,

    /// Release up to N items together, counted as one
    ///
    /// COMMAND gets them as N arguments. A batch grows while the limits hold it back; with DUR, it is closed when it is
    /// full, or DUR after its first item arrived.
    #[arg(short = 'B', long, value_name = "N[,DUR]", group = FOR_ITEMS)]
    pub(crate) batch: Option<BatchSize>,

    /// Run up to N commands at once [default: 1]
    ///
    /// The limits still apply to their starts. With N above 1, each output is printed as a whole when its command has
    /// ended.
    #[arg(short, long, visible_short_alias = 'P', value_name = "N", value_parser = parse_jobs)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Print output in the order of the input
    #[arg(short, long)]
    pub(crate) keep_order: bool,

    /// Let the outputs of commands mix
    #[arg(short, long, conflicts_with = "keep_order", hide_short_help = true)]
    pub(crate) ungrouped: bool,

    /// Put the item and a tab before each line of output
    ///
    /// With --tag=SEL, the tag is what SEL selects, as for --cost.
    #[arg(long, value_name = "SEL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_parser = Template::tag, hide_short_help = true)]
    pub(crate) tag: Option<Template>,

    /// Give the item to COMMAND on its stdin
    ///
    /// COMMAND is run unchanged, with no placeholder but {headers}.
    #[arg(long, conflicts_with = "placeholder", hide_short_help = true)]
    pub(crate) pipe: bool,

    /// Keep COMMAND running, and give it item after item
    ///
    /// Up to -j are started. An item is a line on the stdin of one, and ends with the line that it answers. With
    /// --worker=status, that is STATUS<TAB>TEXT, or STATUS<TAB>wait=DUR<TAB>TEXT to ask for a pause.
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "line")]
    #[arg(value_parser = super::choice(&[("line", Answers::Plain), ("status", Answers::Status)]))]
    #[arg(conflicts_with_all = ["placeholder", "batch", "ungrouped", "pipe"])]
    pub(crate) worker: Option<Answers>,

    /// End a command that runs longer than DUR
    ///
    /// It gets TERM, and KILL 2 seconds later, with all that it has started.
    #[arg(long, value_name = "DUR", value_parser = parse_timeout)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: Option<u64>,

    /// Try a failed item up to N more times
    ///
    /// Each attempt is charged to the limits, like a new item.
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    pub(crate) retries: Option<u64>,

    /// Wait before a retry: 1s..5m, or 429,5xx=1s..5m
    ///
    /// The wait is random. Its bound doubles with each attempt, from twice MIN up to MAX; a single time is the wait
    /// before every retry. With CODES=, only items that failed with one of them are retried: 7 or exit:255 is an exit
    /// status, 429 or 5xx an HTTP status in {headers}.
    #[arg(long, value_name = "WAIT")]
    pub(crate) backoff: Option<Backoff>,

    /// Longest pause a server may ask for [default: 1h]
    ///
    /// COMMAND writes the server's headers to the file {headers}, or $THROTTLE_HEADERS, as curl -D {headers} does.
    /// Retry-After, or else a used-up quota, holds up all items with the same keys.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_hold: Option<u64>,

    /// When to end the run: soon,fail=10%, now,success=1
    ///
    /// soon: start no more commands. now: send TERM to the running ones as well. fail=N, or N%: when so many items have
    /// failed after all their retries. success= and done= count items that succeeded, or ended in any way. After
    /// success=, the status is 0.
    #[arg(long, value_name = "WHEN")]
    pub(crate) halt: Option<Halt>,
}

impl CommandArgs {
    /// True if items go to the stdin of commands, not into their arguments.
    pub(crate) fn takes_stdin(&self) -> bool {
        self.pipe || self.worker.is_some()
    }

    /// True if a command may get several items.
    pub(crate) fn forms_batches(&self) -> bool {
        self.batch.is_some_and(|batch| batch.items > NonZeroU64::MIN)
    }

    /// Runs `command`. If items come `from_file`, standard input is free for it.
    pub(crate) fn run(self, command: &[OsString], from_file: bool, report: ReportArgs) -> Result<Run> {
        let stdin = match (self.takes_stdin(), from_file) {
            (true, _) => Feed::Items,
            (false, true) => Feed::Ours,
            (false, false) => Feed::Nothing,
        };
        let jobs = self.jobs.unwrap_or(NonZeroUsize::MIN);
        let output = match (self.keep_order, self.ungrouped) {
            (true, _) => Output::InOrder,
            _ if self.worker.is_some() => Output::Whole,
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
            worker: self.worker,
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
        if self.takes_stdin() {
            let template = Template::without_items(command);
            if self.worker.is_some() {
                if let Some(place) = Template::sole_place(command) {
                    bail!("a worker gets its items on standard input: remove {place}");
                }
                ensure!(
                    !template.takes_headers(),
                    "a worker has no file of headers: remove {{headers}}; with --worker=status it can ask for a wait \
                     itself"
                );
            }
            return Ok(template);
        }
        let placeholder = self.placeholder.as_deref();
        ensure!(
            placeholder.is_none_or(|text| !text.is_empty()),
            "-I needs a placeholder for the item, such as {{}}"
        );
        let template = Template::new(command, placeholder);
        if self.forms_batches() {
            template.check_batches()?;
        }
        Ok(template)
    }
}

fn parse_jobs(text: &str) -> Result<NonZeroUsize> {
    if let Some(percent) = text.strip_suffix('%').filter(|percent| percent.parse::<u32>().is_ok()) {
        bail!("use a number: for {text} of the processors, -j $((($(nproc) * {percent} + 99) / 100))");
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
