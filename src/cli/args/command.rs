//! Commands, and how they get their items.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::failure::FailureArgs;
use super::log::LogArgs;
use crate::config::{BatchSize, Feed, Output, Run, Template, parse_count};

/// How commands are made of items, and how many run at once.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools)]
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

    #[command(flatten)]
    failure: FailureArgs,

    /// Print each command before it runs
    ///
    /// On standard error, quoted so that bash would run the same.
    #[arg(short, long, hide_short_help = true)]
    pub(crate) trace: bool,
}

impl CommandArgs {
    /// Runs `command`. If items come `from_file`, standard input is free for it.
    pub(crate) fn run(self, command: &[OsString], from_file: bool, log: LogArgs) -> Result<Run> {
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
        log.check()?;
        Ok(Run {
            template,
            jobs,
            output,
            stdin,
            trace: self.trace,
            tag: self.tag,
            timeout: self.failure.timeout,
            halt: self.failure.halt,
            retry: self.failure.retry(),
            log: log.log,
            log_format: log.log_format,
            resume: log.resume,
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
