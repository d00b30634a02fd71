//! Commands: how they get their items, and what follows if they fail.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::report::ReportArgs;
use crate::config::{
    Backoff, BatchSize, Feed, Halt, Output, Retry, Run, Template, parse_count, parse_duration,
};

/// How commands are made of items, and how many run at once.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown, clippy::struct_excessive_bools)]
pub(crate) struct CommandArgs {
    /// What stands for the item in COMMAND [default: {}]
    ///
    /// It is replaced wherever it occurs in COMMAND and its arguments. A selector in braces, such as {col:2},
    /// {.user.id} or {host}, stands for what it selects in the item, and {#} for the number of the item. If none of
    /// these occurs, the item becomes the last argument.
    #[arg(short = 'I', value_name = "STR", hide_short_help = true)]
    pub(crate) placeholder: Option<OsString>,

    /// Release up to N items together, counted as one
    ///
    /// COMMAND gets them as N arguments. Without DUR, a batch is what has arrived when its turn comes: it grows while
    /// the limits hold it back. With DUR, it is closed once it has N items, DUR has passed since the first of them
    /// arrived, or the input ends, and does not grow after that.
    #[arg(short = 'B', long, value_name = "N[,DUR]")]
    pub(crate) batch: Option<BatchSize>,

    /// Run up to N commands at once [default: 1]
    ///
    /// The limits still say when they start. With N over 1, the output of each is printed whole when it has ended.
    #[arg(short, long, visible_short_alias = 'P', value_name = "N", value_parser = parse_jobs)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Print output in the order of the input
    ///
    /// The output of a command waits until the items before it that were started are done with, retries included.
    #[arg(short, long)]
    pub(crate) keep_order: bool,

    /// Let the outputs of commands mix
    ///
    /// Commands write directly to standard output and standard error, also with -j. With --tag, each line is printed as
    /// soon as it is complete, never within another.
    #[arg(short, long, conflicts_with = "keep_order", hide_short_help = true)]
    pub(crate) ungrouped: bool,

    /// Put the item and a tab before each line of output
    ///
    /// Of COMMAND's standard output and standard error. With --tag=SEL, what SEL selects in the item, as for --cost;
    /// nothing, if the item has no such part. Of a batch, all items, with blanks between them. With -u, or without -j,
    /// each line is printed as soon as it is complete.
    #[arg(long, value_name = "SEL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_parser = Template::tag)]
    pub(crate) tag: Option<Template>,

    /// Give the item to COMMAND on its stdin
    ///
    /// With its delimiter; of a batch, all items. COMMAND is run as it stands, without a placeholder. It need not read
    /// all that it is given.
    #[arg(long, conflicts_with = "placeholder", hide_short_help = true)]
    pub(crate) pipe: bool,

    /// End a command that runs longer than DUR
    ///
    /// It, and what it started, get TERM, and KILL if it is still there 2 seconds later. It counts as killed.
    #[arg(long, value_name = "DUR", value_parser = parse_timeout)]
    pub(crate) timeout: Option<u64>,

    /// Try a failed item up to N times more
    ///
    /// Every attempt waits for the limits like a new item, and is charged to them. A command can say how long to wait
    /// before the next one: see --max-hold.
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    pub(crate) retries: Option<u64>,

    /// Wait before a retry: 1s..5m, or 22,75=1s..5m
    ///
    /// [CODES=]MIN..MAX, or one time for a wait that stays the same.
    /// The wait is a random time between MIN and twice MIN, then four times MIN, and so on up to MAX.
    /// Other items go on meanwhile; then the item is next in line. With --in-order it keeps its place, and the others
    /// wait. A time that a command puts into $THROTTLE_HEADERS holds up everything with the same keys. With CODES, only
    /// commands that exit with one of these are tried again, and none that was killed. Without --backoff, a retry goes
    /// when the limits admit it.
    #[arg(long, value_name = "WAIT", requires = "retries")]
    pub(crate) backoff: Option<Backoff>,

    /// Hold for at most DUR when a server asks for a pause [default: 1h]
    ///
    /// COMMAND tells in the file named by $THROTTLE_HEADERS what the server has said, as from curl -D
    /// "$THROTTLE_HEADERS", also when it succeeds. Retry-After, or else a quota of which nothing is left, holds up
    /// everything with the same keys until there is more. A server that asks for more than DUR is asked again after
    /// DUR.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) max_hold: Option<u64>,

    /// When to end the run: soon,fail=10%, now,success=1
    ///
    /// soon: no more commands are started. now: running ones get TERM, too. fail=N: when N items have failed, after all
    /// their retries. fail=N%: when N of a hundred have: of all items once the input has been read to its end, before
    /// that of those that are done with, if these are three or more. success= and done= count items that succeeded, or
    /// ended in any way. After success=, the status is 0.
    #[arg(long, value_name = "WHEN")]
    pub(crate) halt: Option<Halt>,

    /// Print each command before it runs
    ///
    /// On standard error, quoted so that bash would run the same.
    #[arg(short, long, hide_short_help = true)]
    pub(crate) trace: bool,
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
        ensure!(
            report.log.as_deref().is_none_or(|log| log.as_os_str() != "-"),
            "--log - would be standard output, where COMMAND writes: name a file, or ./- for one of that name"
        );
        Ok(Run {
            template,
            jobs,
            output,
            stdin,
            trace: self.trace,
            tag: self.tag,
            timeout: self.timeout,
            halt: self.halt,
            retry: Retry { times: self.retries.unwrap_or(0), backoff: self.backoff, max_hold },
            log: report.log,
            log_format: report.log_format,
            resume: report.resume,
        })
    }

    fn template(&self, command: &[OsString]) -> Result<Template> {
        if self.pipe {
            return Ok(Template::verbatim(command));
        }
        let placeholder = self.placeholder.as_deref();
        ensure!(
            placeholder.is_none_or(|text| !text.is_empty()),
            "-I needs something that stands for the item, such as {{}}"
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
        bail!("a number is needed: for {text} of the processors, -j $(($(nproc) * {percent} / 100))");
    }
    let jobs = usize::try_from(parse_count(text)?)?;
    NonZeroUsize::new(jobs)
        .context("at least 1 has to run; as many as there are items would be -j 1000 or so")
}

fn parse_timeout(text: &str) -> Result<u64> {
    let timeout = parse_duration(text)?;
    ensure!(timeout > 0, "a timeout of 0 would end every command: leave it out for none");
    Ok(timeout)
}
