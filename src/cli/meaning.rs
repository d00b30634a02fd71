//! The meaning of what was typed.

use std::env;
use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::args::Cli;
use super::misplaced;
use crate::config::{
    Arrivals, BatchSize, Cleaning, Config, Defaults, Feed, InputOptions, LimitOptions, OnLimit, Output,
    QueueOptions, RateText, Report, Retry, Run, Shared, Source, State, StatsFormat, Template, Upkeep,
    VARIABLE, Verb, check_shareable, format_duration,
};
use crate::time::SECOND;

const STORE_TIMEOUT: u64 = 60 * SECOND;

const LOOKAHEAD: NonZeroU64 = NonZeroU64::new(1024).expect("not zero");

/// Options that make no sense without a command.
pub(super) const FOR_COMMANDS: &str =
    "-I -j -k -u --tag --pipe -t --timeout --retries --max-hold --halt --log";

impl Cli {
    /// Work on the state of shared limits, if that is all there is to do.
    pub(super) fn upkeep(&self) -> Result<Option<Upkeep>> {
        if self.releases() {
            return Ok(None);
        }
        self.limits()?;
        Ok(Some(match (self.shared()?, self.hold) {
            (shared, _) if self.status => shared.map_or(Upkeep::List, Upkeep::Status),
            (Some(shared), Some(length)) => Upkeep::Hold(shared, length),
            (Some(shared), None) => Upkeep::Reset(shared),
            (None, Some(_)) => bail!("--hold needs to know what: add -s STATE"),
            (None, None) => bail!("--reset-state needs to know which: add -s STATE"),
        }))
    }

    /// The run that was asked for.
    pub(super) fn config(self) -> Result<Config> {
        let limits = self.limits()?;
        let input = self.input()?;
        let batch = self.batch.unwrap_or(BatchSize::SINGLE);
        let on_limit = self.on_limit.unwrap_or_default();
        let shared = self.shared()?;
        if shared.is_some() {
            ensure!(
                self.jitter.is_none(),
                "--jitter cannot be used with shared limits: a slot would be over before the delay is"
            );
            check_shareable(&limits, on_limit, batch)?;
        }
        let report = match (self.verbose, self.quiet) {
            (true, _) => Report::Verbose,
            (_, true) => Report::Quiet,
            _ => Report::Normal,
        };
        let metrics = self.metrics()?;
        ensure!(
            !limits.count_exits() || !self.command.is_empty() || self.once || self.audit,
            "from=exit and N/running are for a command: add one, such as -- curl"
        );
        self.check_waits(on_limit, batch)?;
        Ok(Config {
            shared,
            on_limit,
            queue: self.queue(),
            input,
            batch,
            report,
            progress: self.progress,
            as_json: self.stats.contains(&StatsFormat::Json),
            metrics,
            plot: self.plot.clone(),
            action: if self.once { self.once(&limits)? } else { self.action(&limits)? },
            limits,
        })
    }

    /// The options of the queue. A single release has its own patience.
    fn queue(&self) -> QueueOptions {
        QueueOptions {
            in_order: self.in_order,
            lookahead: self.lookahead.unwrap_or(LOOKAHEAD),
            max_wait: self.max_wait.filter(|_| !self.once),
            jitter: self.jitter,
            until: self.until,
        }
    }

    fn check_waits(&self, on_limit: OnLimit, batch: BatchSize) -> Result<()> {
        if let Some(option) = self.given_among("--max-wait --until --jitter").next().filter(|_| self.audit) {
            bail!("--audit waits for nothing: leave out {option}");
        }
        if let Some((wait, linger)) = self.max_wait.zip(batch.linger).filter(|_| on_limit.never_waits()) {
            ensure!(
                wait >= linger,
                "--max-wait {} is over before a batch is complete: make it at least the {} of --batch",
                format_duration(wait),
                format_duration(linger)
            );
        }
        Ok(())
    }

    /// Something is to be released, so that limits are needed.
    fn releases(&self) -> bool {
        !self.reset_state && !self.status && self.hold.is_none()
    }

    fn limits(&self) -> Result<LimitOptions> {
        let defaults = Defaults {
            algorithm: self.algorithm.unwrap_or_default(),
            burst: self.burst,
            margin: self.margin.unwrap_or(0),
            cost: self.cost.clone(),
            key: self.key.clone(),
        };
        self.check_count()?;
        let mut sources = Vec::new();
        if self.count.is_some() || self.period.is_some() {
            let rate = RateText::new(self.count.unwrap_or(1), self.period.clone())?;
            sources.push(Source::Rate(Box::new(rate)));
        }
        sources.extend(self.rate.iter().cloned());
        ensure!(!self.releases() || !sources.is_empty(), misplaced::no_limit(&self.command));
        let limits = LimitOptions { sources, defaults };
        limits.given()?;
        ensure!(
            self.burst.is_none() || limits.may_have_burst(),
            "--burst is for the token bucket: add -A bucket"
        );
        Ok(limits)
    }

    /// `-n` is a limit here; with xargs and parallel it is something else.
    fn check_count(&self) -> Result<()> {
        if let (Some(count), None, false) = (self.count, &self.period, self.rate.is_empty()) {
            let items = match count {
                1 => "a command gets one item anyway, so leave it out".to_owned(),
                _ => format!("to give a command up to {count} items, use -B {count}"),
            };
            bail!(
                "-n {count} beside -r is a second limit, {count} a second: if you mean that, add -p 1s; {items}"
            );
        }
        Ok(())
    }

    /// A state that is given counts before the one in the environment, which a dry run does not heed.
    fn shared(&self) -> Result<Option<Shared>> {
        let books_nothing = self.given_among("--dry-run --audit").next();
        let state = match (&self.state, books_nothing) {
            (Some(_), Some(option)) => bail!("{option} books nothing: leave out --state"),
            // Not parsed by clap, which repeats what it cannot read: there may be a password in it.
            (Some(state), None) => {
                Some(State::parse_public(state, |file| fs::read_to_string(file)).context("--state")?)
            }
            (None, Some(_)) => None,
            (None, None) => state_of_environment()?,
        };
        ensure!(
            self.store_timeout.is_none() || state.is_some(),
            "--store-timeout is for shared limits: add -s STATE"
        );
        let timeout = self.store_timeout.unwrap_or(STORE_TIMEOUT);
        Ok(state.map(|state| Shared { state, timeout }))
    }

    /// The file that items are read from, if it is not standard input.
    fn file(&self) -> Option<&PathBuf> {
        self.arg_file.as_ref().filter(|file| file.as_os_str() != "-")
    }

    fn input(&self) -> Result<InputOptions> {
        let delimiter = match &self.delimiter {
            Some(delimiter) => delimiter.clone(),
            None if self.null => vec![0],
            None => vec![b'\n'],
        };
        let max_record = usize::try_from(self.max_record.unwrap_or(64 << 20))?;
        let separator = self.field_separator.clone();
        let cleaning = Cleaning { trim: self.trim, skip_blank: self.skip_blank };
        let on_bad = self.on_bad.unwrap_or_default();
        let file = self.file().cloned();
        Ok(InputOptions { file, delimiter, separator, max_record, cleaning, on_bad })
    }

    fn action(self, limits: &LimitOptions) -> Result<Verb> {
        if self.command.is_empty()
            && let Some(option) = self.given_among(FOR_COMMANDS).next()
        {
            bail!("{option} is for a command: add one, such as -- echo {{}}");
        }
        let (dry_run, at, arrivals) = (self.dry_run, self.at, self.arrivals()?);
        if self.audit {
            if let Some(first) = self.command.first() {
                bail!("--audit runs no command: to read {0}, use <{0} or -a {0}", first.display());
            }
            limits.check_auditable()?;
            return Ok(Verb::Audit(arrivals.unwrap_or_default()));
        }
        let run = if self.command.is_empty() { None } else { Some(Box::new(self.run()?)) };
        Ok(match run {
            run if dry_run => Verb::DryRun { arrivals, at, run },
            Some(run) => Verb::Run(run),
            None => Verb::Pass,
        })
    }

    /// `None` if items tell no time.
    fn arrivals(&self) -> Result<Option<Arrivals>> {
        let has_time = self.dry_run || self.audit;
        ensure!(
            has_time || self.arrivals.is_none(),
            "--arrivals is for --dry-run or --audit: add one of them"
        );
        let has_stamps = self.audit || self.arrivals.is_some();
        ensure!(
            has_stamps || self.unsorted.is_none(),
            "--unsorted is for --arrivals or --audit: add one of them"
        );
        let arrivals = self.arrivals.clone().or(self.audit.then(Arrivals::default));
        Ok(arrivals.map(|arrivals| Arrivals { unsorted: self.unsorted, ..arrivals }))
    }

    /// The file for metrics. What is only computed must not pass for what was released.
    fn metrics(&self) -> Result<Option<PathBuf>> {
        let mut files = self.stats.iter().filter_map(|stats| match stats {
            StatsFormat::Json => None,
            StatsFormat::Prometheus(file) => Some(file.clone()),
        });
        let (file, other) = (files.next(), files.next());
        ensure!(other.is_none(), "--stats=prom: may be given once");
        if let Some(option) = self.given_among("--dry-run --audit").next().filter(|_| file.is_some()) {
            bail!("{option} releases nothing that Prometheus could count: use --stats=json");
        }
        Ok(file)
    }

    fn run(self) -> Result<Run> {
        let stdin = match (self.pipe, self.file()) {
            (true, _) => Feed::Items,
            (false, Some(_)) => Feed::Ours,
            (false, None) => Feed::Nothing,
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
        let template = self.template()?;
        ensure!(
            self.log.as_deref().is_none_or(|log| log.as_os_str() != "-"),
            "--log - would be standard output, where COMMAND writes: name a file, or ./- for one of that name"
        );
        let max_hold = self.max_hold.unwrap_or(Retry::default().max_hold);
        let retry = Retry { times: self.retries.unwrap_or(0), backoff: self.backoff, max_hold };
        Ok(Run {
            template,
            jobs,
            output,
            stdin,
            trace: self.trace,
            tag: self.tag,
            timeout: self.timeout,
            retry,
            halt: self.halt,
            log: self.log,
            log_format: self.log_format,
            resume: self.resume,
        })
    }

    fn template(&self) -> Result<Template> {
        if self.pipe {
            return Ok(Template::verbatim(&self.command));
        }
        let placeholder = self.placeholder.as_deref();
        ensure!(
            placeholder.is_none_or(|text| !text.is_empty()),
            "-I needs something that stands for the item, such as {{}}"
        );
        let template = Template::new(&self.command, placeholder);
        if self.batch.is_some_and(|batch| batch.items > NonZeroU64::MIN) {
            template.check_batches()?;
        }
        Ok(template)
    }
}

fn state_of_environment() -> Result<Option<State>> {
    let Some(text) = env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.to_str().with_context(|| format!("${VARIABLE} is not UTF-8"))?;
    State::parse(text).with_context(|| format!("${VARIABLE}")).map(Some)
}
