//! The options, and their help.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, ValueHint};

use super::{help, packaged};
use crate::config::{
    Amount, Arrivals, Backoff, BatchSize, Halt, Jitter, LogFormat, Named, OnBad, OnLimit, Resume, Selector,
    Source, StatsFormat, Template, Until, When, parse_count, parse_delimiter, parse_duration, parse_instant,
    parse_limit_count, parse_limit_period, parse_size,
};
use crate::rule::Algorithm;
use crate::time::Time;

const EXAMPLES: &str = "\
Examples:
  cat jobs | throttle -n 10 -p 1m -- curl -fsS    10 requests in any minute
  tail -F log | throttle -r 100/s | nc host 514   at most 100 lines a second

More: throttle help; throttle --help";

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
    version = packaged::VERSION.as_str(),
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = EXAMPLES,
    infer_long_args = true,
    override_usage = "throttle [OPTIONS] [--] [COMMAND [ARG]...]",
    term_width = 80
)]
pub struct Cli {
    /// Release at most N items per period [default: 1]
    ///
    /// N may carry a unit, as in 1k, 2M or 4Ki.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_limit_count, help_heading = "Limits")]
    #[arg(allow_negative_numbers = true)]
    pub(super) count: Option<u64>,

    /// Length of the period: 500ms, 2s, 1m30s [default: 1s]
    ///
    /// Units are ns, us, ms, s, m, h, d and w; a bare number is seconds. Decimals are allowed.
    #[arg(short, long, value_name = "DUR", value_parser = parse_limit_period, help_heading = "Limits")]
    #[arg(allow_negative_numbers = true)]
    pub(super) period: Option<Amount>,

    /// A limit: 10/s, 100/2m, 5000/h; or @FILE, one a line
    ///
    /// N/DUR, where 10/s is short for 10/1s, then options, as in 5000/h,algo=bucket,burst=50. The options are
    /// algo=NAME, burst=N, margin=DUR, cost=SEL, key=SEL (as -A, -b, --margin, -c and -K, for this limit),
    /// only=VALUE (with a key: the limit is for items with this key only), start=full|empty (empty: as though
    /// all of it had been used when the run starts), from=start|exit (exit: a command counts from its start until
    /// the period after its end), during=HOURS (it is asked only then, as in Mon-Fri@09:00-17:00) and tz=ZONE (of
    /// these hours, or of the calendar; by default the zone of the system).
    ///
    /// 0/s,during=HOURS releases nothing at these hours. N/running[,key=SEL] admits a command while fewer than N are
    /// running, in all or of its key.
    ///
    /// May be given several times, and together with -n and -p: an item is released when all limits admit it.
    ///
    /// @FILE reads limits from a file, one RATE a line, and reads it again whenever it changes. In a file, 0/s
    /// pauses.
    #[arg(short, long, value_name = "RATE", help_heading = "Limits")]
    pub(super) rate: Vec<Source>,

    #[arg(help = help::on_algorithm(), long_help = help::on_algorithms())]
    #[arg(short = 'A', long, value_name = "NAME", hide_possible_values = true, help_heading = "Limits")]
    #[arg(value_parser = PossibleValuesParser::new(Algorithm::names()).try_map(|name| name.parse::<Algorithm>()))]
    pub(super) algorithm: Option<Algorithm>,

    /// The most that a bucket releases at once [default: N]
    ///
    /// With -A bucket only. For every bucket that has no burst= of its own.
    #[arg(short, long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    pub(super) burst: Option<u64>,

    /// What an item costs: 5, bytes, col:2, .a.b [default: 1]
    ///
    /// SEL selects a whole number in the item: col:N (field N), bytes (its length with its delimiter), .path.to.value
    /// (in JSON) or re:REGEX (the first group, or all of the match). Or it is a number, the same for all items. An item
    /// without a cost, or that costs more than a limit ever admits, is an error: see --on-bad. For every limit that has
    /// no cost= of its own.
    #[arg(short, long, value_name = "SEL", allow_negative_numbers = true, help_heading = "Limits")]
    pub(super) cost: Option<Selector>,

    /// One limit for each value of SEL: col:1, host, .user.id
    ///
    /// Items with different keys do not hold each other up. SEL is as for --cost, or host, which is that of the URL
    /// that the item is. An item that has no such part has the empty key. For every limit that has no key= of its
    /// own.
    #[arg(short = 'K', long, value_name = "SEL", value_parser = Selector::parse_part, help_heading = "Limits")]
    pub(super) key: Option<Selector>,

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
    #[arg(value_parser = choice::<OnLimit>())]
    pub(super) on_limit: Option<OnLimit>,

    /// Keep the order of the input, also among different keys
    ///
    /// Then a key that is blocked holds up all that came after it.
    #[arg(long, help_heading = "Limits", hide_short_help = true)]
    pub(super) in_order: bool,

    /// Look at most N items ahead for one that may go [default: 1024]
    ///
    /// At most N wait in the lanes of their keys; then reading stops until one is released.
    #[arg(long, value_name = "N", value_parser = parse_lookahead, help_heading = "Limits", hide_short_help = true)]
    pub(super) lookahead: Option<NonZeroU64>,

    /// Make every period longer by DUR, against jitter
    ///
    /// Items that leave here well apart may arrive closer together. A margin somewhat larger than the jitter
    /// on the way keeps a strict receiver content. With -A interval the margin is shared by the N gaps of a
    /// period: say -n 1 -p 50ms rather than -n 20 -p 1s. For every limit that has no margin= of its own.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, help_heading = "Limits")]
    pub(super) margin: Option<u64>,

    /// Delay each release at random by up to DUR
    ///
    /// From the instant at which the limits would admit it; then they are asked again. So releases are never closer
    /// together than the limits allow, and items with the same keys keep their order. With DUR,seed=N, the same items
    /// are delayed by as much each time, also in a dry run; -v tells the seed of a run without one.
    #[arg(long, value_name = "DUR", hide_short_help = true, help_heading = "Limits")]
    pub(super) jitter: Option<Jitter>,

    /// Share the limits with all runs that name this STATE
    ///
    /// Also with those to come. NAME is a file in ~/.local/state/throttle, and anything with a slash is the path of a
    /// file, for runs on one machine. redis://HOST/NAME, rediss://HOST/NAME, redis+sentinel://HOST/MASTER/NAME and
    /// unix:///SOCKET?name=NAME are for runs on many. @FILE reads one of these from FILE. Without -s, $THROTTLE_STATE
    /// counts. All runs have to give the same limits.
    #[arg(short, long, value_name = "STATE", help_heading = "Limits")]
    pub(super) state: Option<String>,

    /// Wait at most DUR for a server that is away [default: 1m]
    ///
    /// Then the run ends with status 69.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, help_heading = "Limits")]
    pub(super) store_timeout: Option<u64>,

    /// Forget what STATE has recorded, and do nothing else
    ///
    /// Needed after damage, or to use it with other limits. The next run begins as though nothing had been released.
    #[arg(long, conflicts_with = "command", hide_short_help = true, help_heading = "Limits")]
    pub(super) reset_state: bool,

    /// Print how much of the limits of STATE is used, release nothing
    ///
    /// For each limit: how many slots are used, how many are free, and when the next one is; and which process holds
    /// the lock of a file, if one does. Then what is held (see --hold), and whether runs wait for their turn. Without
    /// -s STATE, the names of all states.
    #[arg(long, hide_short_help = true, help_heading = "Limits")]
    #[arg(conflicts_with_all = ["command", "reset_state", "dry_run"])]
    pub(super) status: bool,

    /// Hold all runs of STATE for DUR, and do nothing else
    ///
    /// As though a server had asked for it: they go on when it is over. 0 lifts whatever is held, also by a server.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, help_heading = "Limits")]
    #[arg(conflicts_with_all = ["command", "reset_state", "status", "dry_run"])]
    pub(super) hold: Option<u64>,

    /// Read items from FILE and leave stdin to COMMAND
    ///
    /// Without it, the standard input of COMMAND is /dev/null.
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    pub(super) arg_file: Option<PathBuf>,

    /// Items end at NUL, as from find -print0
    #[arg(short = '0', long, conflicts_with = "delimiter", help_heading = "Input")]
    pub(super) null: bool,

    /// Items end at D [default: \n]
    ///
    /// One or more bytes, with C escapes such as \t, \0 or \x1e.
    #[arg(short, long, value_name = "D", value_parser = parse_delimiter, help_heading = "Input")]
    pub(super) delimiter: Option<DelimiterBytes>,

    /// What separates fields, for col:N [default: blanks]
    ///
    /// One or more bytes, with C escapes such as \t. Every one of them ends a field, so fields may be empty.
    /// Without it, runs of blanks separate fields, as in awk.
    #[arg(short = 'F', long, value_name = "S", value_parser = parse_delimiter, help_heading = "Input")]
    pub(super) field_separator: Option<DelimiterBytes>,

    /// Longest item allowed [default: 64Mi]
    ///
    /// In bytes, without its delimiter. A longer one is an error and ends the input.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true, help_heading = "Input")]
    pub(super) max_record: Option<u64>,

    /// Remove white space around items, such as a CR
    ///
    /// Blanks, tabs and carriage returns at both ends, as from files that come from Windows. Costs, keys, COMMAND and
    /// the output get the rest. An item may become empty: see --skip-blank.
    #[arg(long, help_heading = "Input")]
    pub(super) trim: bool,

    /// Skip items that are empty or only white space
    ///
    /// They are neither released nor charged, and appear in no count. They keep their numbers, so that those of the
    /// other items are still those of the lines.
    #[arg(long, help_heading = "Input")]
    pub(super) skip_blank: bool,

    /// Item without a valid cost: fail (default) or skip
    ///
    /// The same goes for an item that lacks what a selector in braces stands for in COMMAND.
    ///
    /// fail: what came before it is released, then the run ends with status 1.
    ///
    /// skip: it is named, counted as failed (for --halt, too) and not released; the run goes on, and ends with status 1
    /// if nothing worse happens, even with -q.
    #[arg(long, value_name = "WHAT", hide_possible_values = true, help_heading = "Input")]
    #[arg(value_parser = choice::<OnBad>())]
    pub(super) on_bad: Option<OnBad>,

    /// What stands for the item in COMMAND [default: {}]
    ///
    /// It is replaced wherever it occurs in COMMAND and its arguments. A selector in braces, such as {col:2},
    /// {.user.id} or {host}, stands for what it selects in the item, and {#} for the number of the item. If none of
    /// these occurs, the item becomes the last argument.
    #[arg(short = 'I', value_name = "STR", help_heading = "Commands")]
    pub(super) placeholder: Option<OsString>,

    /// Release up to N items together, counted as one
    ///
    /// COMMAND gets them as N arguments. Without DUR, a batch is what has arrived when its turn comes: it grows while
    /// the limits hold it back. With DUR, it is closed once it has N items, DUR has passed since the first of them
    /// arrived, or the input ends, and does not grow after that.
    #[arg(short = 'B', long, value_name = "N[,DUR]", help_heading = "Commands")]
    pub(super) batch: Option<BatchSize>,

    /// Run up to N commands at once [default: 1]
    ///
    /// The limits still say when they start. With N over 1, the output of each is printed whole when it has ended.
    #[arg(short, long, visible_short_alias = 'P', value_name = "N", value_parser = parse_jobs)]
    #[arg(allow_negative_numbers = true, help_heading = "Commands")]
    pub(super) jobs: Option<NonZeroUsize>,

    /// Print output in the order of the input
    ///
    /// The output of a command waits until the items before it that were started are done with, retries included.
    #[arg(short, long, help_heading = "Commands")]
    pub(super) keep_order: bool,

    /// Let the outputs of commands mix
    ///
    /// Commands write directly to standard output and standard error, also with -j. With --tag, each line is printed as
    /// soon as it is complete, never within another.
    #[arg(short, long, conflicts_with = "keep_order", hide_short_help = true, help_heading = "Commands")]
    pub(super) ungrouped: bool,

    /// Put the item and a tab before each line of output
    ///
    /// Of COMMAND's standard output and standard error. With --tag=SEL, what SEL selects in the item, as for --cost;
    /// nothing, if the item has no such part. Of a batch, all items, with blanks between them. With -u, or without -j,
    /// each line is printed as soon as it is complete.
    #[arg(long, value_name = "SEL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_parser = Template::tag, help_heading = "Commands")]
    pub(super) tag: Option<Template>,

    /// Give the item to COMMAND on its stdin
    ///
    /// With its delimiter; of a batch, all items. COMMAND is run as it stands, without a placeholder. It need not read
    /// all that it is given.
    #[arg(long, conflicts_with = "placeholder", hide_short_help = true, help_heading = "Commands")]
    pub(super) pipe: bool,

    /// End a command that runs longer than DUR
    ///
    /// It, and what it started, get TERM, and KILL if it is still there 2 seconds later. It counts as killed.
    #[arg(long, value_name = "DUR", value_parser = parse_timeout, help_heading = "Commands")]
    pub(super) timeout: Option<u64>,

    /// Try a failed item up to N times more
    ///
    /// Every attempt waits for the limits like a new item, and is charged to them. A command can say how long to wait
    /// before the next one: see --max-hold.
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true, help_heading = "Commands")]
    pub(super) retries: Option<u64>,

    /// Wait before a retry: 1s..5m, or 22,75=1s..5m
    ///
    /// [CODES=]MIN..MAX, or one time for a wait that stays the same.
    /// The wait is a random time between MIN and twice MIN, then four times MIN, and so on up to MAX.
    /// Other items go on meanwhile; then the item is next in line. With --in-order it keeps its place, and the others
    /// wait. A time that a command puts into $THROTTLE_HEADERS holds up everything with the same keys. With CODES, only
    /// commands that exit with one of these are tried again, and none that was killed. Without --backoff, a retry goes
    /// when the limits admit it.
    #[arg(long, value_name = "WAIT", requires = "retries", help_heading = "Commands")]
    pub(super) backoff: Option<Backoff>,

    /// Hold for at most DUR when a server asks for a pause [default: 1h]
    ///
    /// COMMAND tells in the file named by $THROTTLE_HEADERS what the server has said, as from curl -D
    /// "$THROTTLE_HEADERS", also when it succeeds. Retry-After, or else a quota of which nothing is left, holds up
    /// everything with the same keys until there is more. A server that asks for more than DUR is asked again after
    /// DUR.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, help_heading = "Commands")]
    pub(super) max_hold: Option<u64>,

    /// When to end the run: soon,fail=10%, now,success=1
    ///
    /// soon: no more commands are started. now: running ones get TERM, too. fail=N: when N items have failed, after all
    /// their retries. fail=N%: when N of a hundred have: of all items once the input has been read to its end, before
    /// that of those that are done with, if these are three or more. success= and done= count items that succeeded, or
    /// ended in any way. After success=, the status is 0.
    #[arg(long, value_name = "WHEN", help_heading = "Commands")]
    pub(super) halt: Option<Halt>,

    /// Print each command before it runs
    ///
    /// On standard error, quoted so that bash would run the same.
    #[arg(short, long, help_heading = "Commands")]
    pub(super) trace: bool,

    /// Wait for one release, then become COMMAND
    ///
    /// Reads no items. COMMAND takes the place of throttle, with its standard input, output and error, and its status;
    /// {} in it stays. Without COMMAND, it ends with 0. For scripts that share a limit: throttle --once -s NAME -r 1/s
    /// -- COMMAND. -c N says what the release costs.
    #[arg(long, conflicts_with_all = ["reset_state", "status", "hold"], help_heading = "Control")]
    pub(super) once: bool,

    /// Wait at most DUR for a release, or end with 75
    ///
    /// As soon as it is known that the next release is further away. With --on-limit=drop, an item that was not
    /// released by DUR after its arrival is discarded; with --on-limit=fail, it ends the run. With --once, DUR counts
    /// from the start; with 0, it is released at once or not at all. Waiting for a store that is slow does not count:
    /// see --store-timeout.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, help_heading = "Control")]
    pub(super) max_wait: Option<u64>,

    /// Start nothing after DUR, or a TIME; end with 75
    ///
    /// Counted from the start of the run; TIME is a date and a time, as for --at. Commands that run by then come to
    /// their end. If items are left, it says how many, and the status is 75; with --log, --resume goes on.
    #[arg(long, value_name = "DUR|TIME", help_heading = "Control")]
    pub(super) until: Option<Until>,

    /// Print when each item would go, without waiting
    ///
    /// Prints INSTANT, a tab and ITEM for each: the instant of its release in seconds, with 9 decimals, on the
    /// time line of --arrivals. No command is run: with COMMAND, its command line stands in place of ITEM, quoted for
    /// bash, and one for each release. With --pipe, the items do.
    #[arg(long, help_heading = "Control")]
    pub(super) dry_run: bool,

    /// Check time stamps against the limits, release nothing
    ///
    /// Reads when each item was released, and prints each that was too early: its number, its instant, how many there
    /// are in its window, and by how much it was too early; at the end, also by a signal, for each limit, the worst
    /// window, how much of the limit was used, and the highest and the mean rate. Exits with 75 if any was too early.
    /// With --stats=json, the numbers follow as JSON.
    ///
    /// A log of --log, or of the --joblog of parallel, is read as it is: costs and keys are those of its items.
    #[arg(long, help_heading = "Control")]
    #[arg(conflicts_with_all = ["dry_run", "reset_state", "status", "hold", "on_limit", "on_bad", "batch"])]
    #[arg(conflicts_with_all = ["in_order", "lookahead", "progress"])]
    pub(super) audit: bool,

    /// With --dry-run or --audit: where items tell their time
    ///
    /// SEL[,tz=ZONE][,year=YEAR]: SEL, as for --cost, selects it [default for --audit: col:1]. It is in seconds with up
    /// to 9 decimals (since 1970, or since any start), in milliseconds or microseconds since 1970, in RFC 3339 or ISO
    /// 8601 with a time of day, or as syslog and the access logs of web servers write it; a syslog message may be
    /// selected whole. ZONE, such as UTC, local, +01:00 or Europe/Berlin, is that of times which name none. YEAR is that
    /// of the first, if they name none; without it, the last one that is not later than now. In a dry run without
    /// --arrivals, all items arrive at 0.
    #[arg(long, value_name = "SEL", help_heading = "Control")]
    pub(super) arrivals: Option<Arrivals>,

    /// With --dry-run: what the clock shows when it starts
    ///
    /// TIME is a date, perhaps with a time, an offset or a zone: 2026-11-21, 2026-11-21T09:00, 2026-11-21T09:00+01:00,
    /// 2026-11-21T09:00[Europe/Berlin]. Without it, the clock is that of --arrivals if these are since 1970, or else
    /// starts now.
    #[arg(long, value_name = "TIME", requires = "dry_run", value_parser = parse_instant, hide_short_help = true)]
    #[arg(help_heading = "Control")]
    pub(super) at: Option<Time>,

    /// Sort items that are out of order by up to DUR
    ///
    /// By the times of --arrivals. Without it, items that are out of order are an error, but for logs of commands,
    /// which are sorted as a whole.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, help_heading = "Control")]
    pub(super) unsorted: Option<u64>,

    /// Note the end of each command in FILE
    ///
    /// A line for each command, tab-separated, with a header: seq, start, wait, runtime, attempt, exit, signal, item. A
    /// batch is one line, with a column for each item. What FILE holds is kept.
    #[arg(long, value_name = "FILE", help_heading = "Control")]
    pub(super) log: Option<PathBuf>,

    /// Write a new log as tsv (default) or json
    ///
    /// json: an object a line, with the columns of the log as its members; an item that is not UTF-8 is an array of its
    /// bytes. With -B there are items and seqs, lists, in place of item. A log that is there already is continued in
    /// its own format.
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "log",
        hide_short_help = true,
        hide_possible_values = true
    )]
    #[arg(value_parser = choice::<LogFormat>(), help_heading = "Control")]
    pub(super) log_format: Option<LogFormat>,

    /// Do not run again what the log says is done
    ///
    /// Items that the log of --log has with exit 0 are passed over; all others are run. They are known by their
    /// content, so the list may have been edited. Each time that an item was completed counts for one of its kind. With
    /// --resume=new, items that the log has as failed are passed over as well, and only those that it does not have are
    /// run.
    #[arg(long, value_name = "WHICH", requires = "log", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "unfinished", hide_possible_values = true, value_parser = choice::<Resume>())]
    #[arg(help_heading = "Control")]
    pub(super) resume: Option<Resume>,

    /// Print the limits at the start, a summary at the end
    ///
    /// On standard error, as all messages.
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Control")]
    pub(super) verbose: bool,

    /// Print errors only
    ///
    /// Leaves out warnings, which items failed, and what was left when the run ends early; the exit status still tells.
    /// Errors of throttle itself are printed, and so are items that could not be given to COMMAND.
    #[arg(short, long, help_heading = "Control")]
    pub(super) quiet: bool,

    /// Show how far the run has come, on a terminal
    ///
    /// Items done, failed and running, the recent rate, when the next may go and which limit it waits for, and when the
    /// last may go under the limits. With --progress=always also where standard error is no terminal, as lines. Drawn
    /// once a second.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    #[arg(value_parser = choice::<When>(), hide_possible_values = true, help_heading = "Control")]
    pub(super) progress: Option<When>,

    /// Report numbers: json at the end, or prom:FILE
    ///
    /// json: as one JSON object on standard error, at the end, as the last line.
    ///
    /// prom:FILE: as metrics for Prometheus, in FILE, which is replaced at the start, once a second and at the end. The
    /// textfile collector of node_exporter reads files in its directory whose names end in .prom. Both may be given.
    #[arg(long, value_name = "FORMAT", help_heading = "Control")]
    #[arg(value_parser = OsStringValueParser::new().try_map(|text| StatsFormat::parse(&text)))]
    pub(super) stats: Vec<StatsFormat>,

    /// Draw the releases over time to FILE, as SVG
    ///
    /// At the end: what was released against what each limit allowed, and what was in each window against the limit; of
    /// limits with keys, the busiest keys. With -, in characters to the width of the terminal, on standard error; of an
    /// audit, on standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "reset_state", help_heading = "Control")]
    pub(super) plot: Option<PathBuf>,

    /// Print help; by topic: throttle help
    #[arg(short, long, action = ArgAction::Help, help_heading = "Control")]
    pub(super) help: Option<bool>,

    /// Print a manual page or a completion, for packages
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(packaged::names()))]
    #[arg(exclusive = true, hide_short_help = true, help_heading = "Control")]
    pub(super) generate: Option<String>,

    /// Print version, commit and features
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = "Control")]
    pub(super) version: Option<bool>,

    /// Run for each item, without a shell
    #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    #[arg(trailing_var_arg = true, hide = true)]
    pub(super) command: Vec<OsString>,

    /// The options that were typed, by their short names if they have any: `-n`, `--max-wait`.
    #[arg(skip)]
    given: Vec<String>,
}

impl Cli {
    pub(super) fn read(args: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Cli::command();
        let mut matches = command.try_get_matches_from_mut(args)?;
        let is_given =
            |arg: &&Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let given = command.get_arguments().filter(is_given).filter_map(name).collect();
        Ok(Cli { given, ..Cli::from_arg_matches_mut(&mut matches)? })
    }

    /// Those of `options`, which are separated by blanks, that were typed.
    pub(super) fn given_among<'a>(&self, options: &'a str) -> impl Iterator<Item = &'a str> {
        options.split(' ').filter(|option| self.given.iter().any(|given| given == option))
    }
}

/// `None` for the command and its arguments.
pub(super) fn name(option: &Arg) -> Option<String> {
    let long = option.get_long().map(|long| format!("--{long}"));
    option.get_short().map(|short| format!("-{short}")).or(long)
}

fn parse_lookahead(text: &str) -> Result<NonZeroU64> {
    NonZeroU64::new(parse_count(text)?).context("the least is 1")
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

fn choice<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let names = T::NAMES.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| T::named(&name))
}

/// Bytes that clap, which goes by the name of a type, is not to take for a list of values.
type DelimiterBytes = Vec<u8>;
