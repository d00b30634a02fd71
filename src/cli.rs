//! The command line as it is typed. Only this module knows clap.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueHint, error::ErrorKind};

use crate::progress::When;
use crate::spec::{
    Action, Algorithm, Backoff, Batch, Defaults, Feed, Halt, Input, Limits, OnLimit, Output, Queue, RateText,
    Report, Retry, Run, Selector, Source, Spec, parse_count, parse_delimiter, parse_duration, parse_size,
};
use crate::time::SECOND;

const EXAMPLES: &str = "\
Examples:
  cat jobs | throttle -n 10 -p 1m -- curl -fsS    10 requests in any minute
  tail -F log | throttle -r 100/s | nc host 514   at most 100 lines a second";

/// Pass items on, or run a command for each, never faster than the limits allow
///
/// Reads items (lines, by default) from standard input, holds each until every limit admits it, and releases
/// it: writes it to standard output or, given a COMMAND, runs that with the item as its last argument, without a
/// shell, and one at a time unless -j allows more.
///
/// At least one limit is needed: -n, -p or -r. By default, no more than N items are released in any window of
/// length P: none early, no burst after idling, no drift.
#[derive(Parser, Debug)]
#[expect(clippy::struct_excessive_bools, clippy::doc_markdown)]
#[command(
    name = "throttle",
    version,
    after_help = EXAMPLES,
    override_usage = "throttle [OPTIONS] [--] [COMMAND [ARG]...]",
    term_width = 80
)]
pub struct Cli {
    /// Release at most N items per period [default: 1]
    ///
    /// N may carry a unit, as in 1k, 2M or 4Ki.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    #[arg(allow_negative_numbers = true)]
    count: Option<u64>,

    /// Length of the period: 500ms, 2s, 1m30s [default: 1s]
    ///
    /// Units are ns, us, ms, s, m, h, d and w; a bare number is seconds. Decimals are allowed.
    #[arg(short, long, value_name = "DUR", value_parser = parse_duration, help_heading = "Limits")]
    #[arg(allow_negative_numbers = true)]
    period: Option<u64>,

    /// A limit: 10/s, 100/2m, 5000/h; or @FILE, one a line
    ///
    /// N/DUR, where 10/s is short for 10/1s, then options, as in 5000/h,algo=bucket,burst=50. The options are
    /// algo=NAME, burst=N, margin=DUR, cost=SEL, key=SEL (as -A, -b, --margin, -c and -K, for this limit),
    /// only=VALUE (with a key: the limit is for items with this key only), start=full|empty (empty: as though
    /// all of it had been used when the run starts) and from=start|exit (exit: a command counts from its start until
    /// the period after its end).
    ///
    /// May be given several times, and together with -n and -p: an item is released when all limits admit it.
    ///
    /// @FILE reads limits from a file, one RATE a line, and reads it again whenever it changes. In a file, 0/s
    /// pauses.
    #[arg(short, long, value_name = "RATE", help_heading = "Limits")]
    rate: Vec<Source>,

    /// Rule: sliding (default), bucket, interval or fixed
    ///
    /// sliding: at most N in any window of length P.
    ///
    /// bucket: a burst of up to -b at once, then N per P; what is not used is saved up to the burst.
    ///
    /// interval: at least P/N from one release to the next.
    ///
    /// fixed: at most N in each of a row of windows of its own; up to 2N across the boundary of two.
    ///
    /// For every limit that has no algo= of its own.
    #[arg(short = 'A', long, value_name = "NAME", hide_possible_values = true, help_heading = "Limits")]
    #[arg(value_parser = PossibleValuesParser::new(Algorithm::names()).try_map(|name| name.parse::<Algorithm>()))]
    algorithm: Option<Algorithm>,

    /// The most that a bucket releases at once [default: N]
    ///
    /// With -A bucket only. For every bucket that has no burst= of its own.
    #[arg(short, long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    burst: Option<u64>,

    /// What an item costs: 5, bytes, col:2, .a.b [default: 1]
    ///
    /// SEL selects a whole number in the item: col:N (field N), bytes (its length with its delimiter),
    /// .path.to.value (in JSON) or re:REGEX (the first group, or all of the match). Or it is a number, the same for
    /// all items. An item without a cost, or that costs more than a limit ever admits, is an error. For every limit
    /// that has no cost= of its own.
    #[arg(short, long, value_name = "SEL", allow_negative_numbers = true, help_heading = "Limits")]
    cost: Option<Selector>,

    /// One limit for each value of SEL: col:1, host, .user.id
    ///
    /// Items with different keys do not hold each other up. SEL is as for --cost, or host, which is that of the URL
    /// that the item is. An item that has no such part has the empty key. For every limit that has no key= of its
    /// own.
    #[arg(short = 'K', long, value_name = "SEL", value_parser = Selector::parse_part, help_heading = "Limits")]
    key: Option<Selector>,

    /// If an item cannot go at once: wait, drop, latest, fail
    ///
    /// wait (default): it waits.
    ///
    /// drop: it is discarded.
    ///
    /// latest: it waits until a newer one with the same keys takes its place; then it is discarded.
    ///
    /// fail: it ends the run with status 75.
    #[arg(long, value_name = "WHAT", hide_possible_values = true, help_heading = "Limits")]
    #[arg(value_parser = PossibleValuesParser::new(OnLimit::names()).try_map(|name| name.parse::<OnLimit>()))]
    on_limit: Option<OnLimit>,

    /// Keep the order of the input, also among different keys
    ///
    /// Then a key that is blocked holds up all that came after it.
    #[arg(long, help_heading = "Limits", hide_short_help = true)]
    in_order: bool,

    /// Look at most N items ahead for one that may go [default: 1024]
    ///
    /// At most so many wait in the lanes of their keys; then reading stops until one is released.
    #[arg(long, value_name = "N", value_parser = parse_lookahead, help_heading = "Limits", hide_short_help = true)]
    lookahead: Option<NonZeroU64>,

    /// Make every period longer by DUR, against jitter
    ///
    /// Items that leave here well apart may arrive closer together. A margin somewhat larger than the jitter
    /// on the way keeps a strict receiver content. With -A interval the margin is shared by the N gaps of a
    /// period: say -n 1 -p 50ms rather than -n 20 -p 1s. For every limit that has no margin= of its own.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, help_heading = "Limits")]
    margin: Option<u64>,

    /// Read items from FILE and leave stdin to COMMAND
    ///
    /// Without it, the standard input of COMMAND is /dev/null.
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    arg_file: Option<PathBuf>,

    /// Items end at NUL, as from find -print0
    #[arg(short = '0', long, conflicts_with = "delimiter", help_heading = "Input")]
    null: bool,

    /// Items end at D [default: \n]
    ///
    /// One or more bytes, with C escapes such as \t, \0 or \x1e.
    #[arg(short, long, value_name = "D", value_parser = parse_delimiter, help_heading = "Input")]
    delimiter: Option<Delimiter>,

    /// What separates fields, for col:N [default: blanks]
    ///
    /// One or more bytes, with C escapes such as \t. Every one of them ends a field, so fields may be empty.
    /// Without it, runs of blanks separate fields, as in awk.
    #[arg(short = 'F', long, value_name = "S", value_parser = parse_delimiter, hide_short_help = true, help_heading = "Input")]
    field_separator: Option<Delimiter>,

    /// Longest item allowed [default: 64Mi]
    ///
    /// In bytes, without its delimiter. A longer one is an error and ends the input.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true, help_heading = "Input")]
    max_record: Option<u64>,

    /// What stands for the item in COMMAND [default: {}]
    ///
    /// It is replaced wherever it occurs in COMMAND and its arguments. If it occurs nowhere, the item becomes
    /// the last argument.
    #[arg(short = 'I', value_name = "STR", help_heading = "Commands")]
    placeholder: Option<OsString>,

    /// Release up to N items together, counted as one
    ///
    /// COMMAND gets them as N arguments. Without DUR, a batch is what has arrived when its turn comes. With
    /// DUR, it first waits until it has N items, DUR has passed since the first of them, or the input ends.
    #[arg(short = 'B', long, value_name = "N[,DUR]", help_heading = "Commands")]
    batch: Option<Batch>,

    /// Run up to N commands at once [default: 1]
    ///
    /// The limits still say when they start. With N over 1, the output of each is printed whole when it has ended.
    #[arg(short, long, visible_short_alias = 'P', value_name = "N", value_parser = parse_jobs, allow_negative_numbers = true)]
    #[arg(help_heading = "Commands")]
    jobs: Option<NonZeroUsize>,

    /// Print output in the order of the input
    ///
    /// The output of a command waits until the items before it that were started are done with, retries included.
    #[arg(short, long, help_heading = "Commands")]
    keep_order: bool,

    /// Let the outputs of commands mix
    ///
    /// With -j: commands write at once and themselves.
    #[arg(short, long, conflicts_with = "keep_order", hide_short_help = true, help_heading = "Commands")]
    ungrouped: bool,

    /// Give the item to COMMAND on its stdin
    ///
    /// With its delimiter; of a batch, all items. COMMAND is run as it stands, without a placeholder. It need not read
    /// all that it is given.
    #[arg(long, conflicts_with = "placeholder", help_heading = "Commands")]
    pipe: bool,

    /// End a command that runs longer than DUR
    ///
    /// It, and what it started, get TERM, and KILL if it is still there 2 seconds later. It counts as killed.
    #[arg(long, value_name = "DUR", value_parser = parse_timeout, hide_short_help = true, help_heading = "Commands")]
    timeout: Option<u64>,

    /// Try a failed item up to N times more
    ///
    /// Every attempt waits for the limits like a new item, and is charged to them. A command can say how long to wait
    /// before the next one: in the file named by $THROTTLE_RETRY_AFTER, as seconds, an HTTP date, or HTTP headers with
    /// Retry-After, as from curl -D "$THROTTLE_RETRY_AFTER".
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true, help_heading = "Commands")]
    retries: Option<u64>,

    /// How long to wait before a retry: [CODES=]MIN..MAX
    ///
    /// As in 1s..5m: a random time between MIN and twice MIN, then four times MIN, and so on up to MAX. Meanwhile nothing
    /// else is released (with keys: nothing with its key). With CODES, as in 22,75=1s..5m, only commands that exit with
    /// one of these are tried again, and none that was killed. Without --backoff, a retry goes when the limits admit it.
    #[arg(
        long,
        value_name = "WAIT",
        requires = "retries",
        hide_short_help = true,
        help_heading = "Commands"
    )]
    backoff: Option<Backoff>,

    /// When failures end the run: soon,fail=3 or now,fail=10%
    ///
    /// soon: no more commands are started. now: running ones get TERM, too. fail=N: when N items have failed, after all
    /// their retries. fail=N%: when N of a hundred have, once three or more are done with.
    #[arg(long, value_name = "WHEN", hide_short_help = true, help_heading = "Commands")]
    halt: Option<Halt>,

    /// Print when each item would be released, without waiting
    ///
    /// Prints INSTANT, a tab and ITEM for each: the instant of its release in seconds, with 9 decimals, on the
    /// time line of --arrivals. No command is run.
    #[arg(long, help_heading = "Control")]
    dry_run: bool,

    /// With --dry-run: where items tell when they arrive
    ///
    /// SEL, as for --cost, selects seconds, with up to 9 decimals; seconds since 1970 serve too. Arrivals must not
    /// decrease. Without it, all items arrive at 0.
    #[arg(long, value_name = "SEL", value_parser = Selector::parse_part, requires = "dry_run", hide_short_help = true, help_heading = "Control")]
    arrivals: Option<Selector>,

    /// Note the end of each command in FILE
    ///
    /// A line for each item and attempt, tab-separated, with a header: seq, start, wait, runtime, attempt, exit, signal,
    /// item. What FILE holds is kept.
    #[arg(long, value_name = "FILE", help_heading = "Control")]
    log: Option<PathBuf>,

    /// Do not run again what the log says is done
    ///
    /// Items that the log of --log has with exit 0 are passed over; all others are run. They are known by their content,
    /// so the list may have been edited. Each time that an item was completed counts for one of its kind.
    #[arg(long, requires = "log", hide_short_help = true, help_heading = "Control")]
    resume: bool,

    /// Print the limits at the start, a summary at the end
    ///
    /// On standard error, as all messages.
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Control")]
    verbose: bool,

    /// Print errors only
    ///
    /// Not what was left over when a run ends early, nor which items could not be given to COMMAND.
    #[arg(short, long, help_heading = "Control")]
    quiet: bool,

    /// Show how far the run has come, on a terminal
    ///
    /// Items released, failed and running, the rate, when the next may go, and the time left if the size of the input is
    /// known. With --progress=always also where standard error is no terminal, as lines. Drawn once a second.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    #[arg(value_parser = PossibleValuesParser::new(["auto", "always"]).map(|when| parse_when(&when)))]
    #[arg(hide_possible_values = true, hide_short_help = true, help_heading = "Reports")]
    progress: Option<When>,

    /// Print all numbers at the end as one JSON object
    ///
    /// On standard error, as the last line. json is the only format.
    #[arg(long, value_name = "FORMAT", value_parser = ["json"], hide_possible_values = true, hide_short_help = true)]
    #[arg(help_heading = "Reports")]
    stats: Option<String>,

    /// Run for each item, without a shell
    #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    #[arg(trailing_var_arg = true, hide = true)]
    command: Vec<OsString>,
}

const LOOKAHEAD: NonZeroU64 = NonZeroU64::new(1024).expect("not zero");

fn parse_lookahead(text: &str) -> Result<NonZeroU64> {
    NonZeroU64::new(parse_count(text)?).context("the least is 1")
}

fn parse_jobs(text: &str) -> Result<NonZeroUsize> {
    let jobs = usize::try_from(parse_count(text)?)?;
    NonZeroUsize::new(jobs)
        .context("at least 1 has to run; as many as there are items would be -j 1000 or so")
}

fn parse_timeout(text: &str) -> Result<u64> {
    let timeout = parse_duration(text)?;
    ensure!(timeout > 0, "a timeout of 0 would end every command: leave it out for none");
    Ok(timeout)
}

fn parse_when(text: &str) -> When {
    if text == "always" { When::Always } else { When::Auto }
}

/// Bytes that clap, which goes by the name of a type, is not to take for a list of values.
type Delimiter = Vec<u8>;

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
        let queue = Queue { in_order: self.in_order, lookahead: self.lookahead.unwrap_or(LOOKAHEAD) };
        let on_limit = self.on_limit.unwrap_or_default();
        let (progress, as_json) = (self.progress, self.stats.is_some());
        ensure!(
            !limits.count_exits() || !self.command.is_empty(),
            "from=exit is for a command: add one, such as -- curl"
        );
        let action = self.action()?;
        Ok(Spec { limits, on_limit, queue, input, batch, action, report, progress, as_json })
    }

    fn limits(&self) -> Result<Limits> {
        let defaults = Defaults {
            algorithm: self.algorithm.unwrap_or_default(),
            burst: self.burst,
            margin: self.margin.unwrap_or(0),
            cost: self.cost.clone(),
            key: self.key.clone(),
        };
        let mut sources = Vec::new();
        if self.count.is_some() || self.period.is_some() {
            let rate = RateText::new(self.count.unwrap_or(1), self.period.unwrap_or(SECOND))?;
            sources.push(Source::Rate(rate));
        }
        sources.extend(self.rate.iter().cloned());
        ensure!(!sources.is_empty(), "no limit given: add one, such as -n 10 -p 1m or -r 10/s");
        let limits = Limits { sources, defaults };
        limits.check()?;
        ensure!(
            self.burst.is_none() || limits.may_have_bucket(),
            "--burst is for the token bucket: add -A bucket"
        );
        Ok(limits)
    }

    fn input(&self) -> Result<Input> {
        let delimiter = match &self.delimiter {
            Some(delimiter) => delimiter.clone(),
            None if self.null => vec![0],
            None => vec![b'\n'],
        };
        let max_record = usize::try_from(self.max_record.unwrap_or(64 << 20))?;
        let separator = self.field_separator.clone();
        Ok(Input { file: self.arg_file.clone(), delimiter, separator, max_record })
    }

    fn action(self) -> Result<Action> {
        if self.command.is_empty()
            && let Some(flag) = self.flag_for_commands()
        {
            bail!("{flag} is for a command: add one, such as -- echo {{}}");
        }
        if self.dry_run {
            return Ok(Action::DryRun { arrivals: self.arrivals });
        }
        if self.command.is_empty() {
            return Ok(Action::Pass);
        }
        let stdin = match (self.pipe, &self.arg_file) {
            (true, _) => Feed::Items,
            (false, Some(_)) => Feed::Ours,
            (false, None) => Feed::Nothing,
        };
        let jobs = self.jobs.unwrap_or(NonZeroUsize::MIN);
        let output = match (self.keep_order, self.ungrouped) {
            (true, _) => Output::InOrder,
            (_, true) => Output::Shared,
            _ if jobs == NonZeroUsize::MIN => Output::Shared,
            _ => Output::Whole,
        };
        let placeholder = self.placeholder.unwrap_or_else(|| "{}".into());
        ensure!(!placeholder.is_empty(), "-I needs something that stands for the item, such as {{}}");
        Ok(Action::Run(Box::new(Run {
            command: self.command,
            placeholder,
            jobs,
            output,
            stdin,
            timeout: self.timeout,
            retry: Retry { times: self.retries.unwrap_or(0), backoff: self.backoff },
            halt: self.halt,
            log: self.log,
            resume: self.resume,
        })))
    }

    /// A flag that makes no sense without a command.
    fn flag_for_commands(&self) -> Option<&'static str> {
        let flags = [
            (self.placeholder.is_some(), "-I"),
            (self.jobs.is_some(), "-j"),
            (self.keep_order, "-k"),
            (self.ungrouped, "-u"),
            (self.pipe, "--pipe"),
            (self.timeout.is_some(), "--timeout"),
            (self.retries.is_some(), "--retries"),
            (self.halt.is_some(), "--halt"),
            (self.log.is_some(), "--log"),
        ];
        flags.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
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
