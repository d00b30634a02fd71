//! The meaning of the command line where several groups of options interact.

use std::num::NonZeroU64;

use anyhow::{Result, bail, ensure};

use super::args::{Cli, FOR_COMMANDS};
use super::misplaced::no_limit;
use super::once::once;
use crate::config::{
    Answers, BatchSize, Config, LimitOptions, QueueOptions, Rate, Run, Selector, Shared, StatsFormat, Upkeep,
    Verb, check_auditable, check_shareable, format_duration,
};

const LOOKAHEAD: NonZeroU64 = NonZeroU64::new(1024).expect("not zero");

impl Cli {
    /// Work on the state of shared limits, if that was asked for.
    pub(super) fn upkeep(&self) -> Result<Option<Upkeep>> {
        ensure!(
            self.state.status || !self.state.json,
            "--json is for --status: leave out --json, or add --status; for a run, write --stats json"
        );
        let Some(option) = self.upkeep_option() else { return Ok(None) };
        if let Some(word) = self.command.first().map(|word| word.display()) {
            // It may be meant as the state.
            let value = if option == "--hold" { " DUR" } else { "" };
            ensure!(self.state.state.is_some(), "{option} needs a state: write -s {word} {option}{value}");
            bail!("{option} runs no command: leave out {word}");
        }
        let shared = self.shared()?;
        let limits = self.limits(shared.is_some())?;
        if self.state.set_limits && shared.is_some() {
            check_shareable(&limits, &self.queue(true))?;
            if let Some(rate) = limits.given()?.iter().find(|rate| rate.is_local()) {
                bail!("{rate} is of each run alone, so no state keeps it: leave it out");
            }
        }
        self.state.upkeep(option, shared, limits.given()?).map(Some)
    }

    /// The run that was asked for.
    pub(super) fn config(self) -> Result<Config> {
        let shared = self.shared()?;
        let (limits, input, queue) =
            (self.limits(shared.is_some())?, self.input.options()?, self.queue(shared.is_some()));
        let rates = limits.given()?;
        if shared.is_some() {
            check_shareable(&limits, &queue)?;
        }
        let hint = shared.as_ref().and_then(|shared| self.state.warning(shared));
        let report = self.report.level();
        let metrics = self.report.metrics(self.only_computes())?;
        let plot = self.report.plot()?;
        ensure!(
            !rates.iter().any(Rate::is_for_commands)
                || !self.command.is_empty()
                || self.control.once
                || self.control.audit,
            "LOW..HIGH, from=exit and N/running are for a command: add one, such as -- curl"
        );
        ensure!(
            self.commands.worker != Some(Answers::Plain) || rates.iter().all(|rate| rate.least.is_none()),
            "LOW..HIGH is found by what fails, and plain answers are successes: write --worker=status"
        );
        self.check_waits(&queue)?;
        let (progress, as_json) = (self.report.progress, self.report.stats.contains(&StatsFormat::Json));
        let (action, command) =
            if self.control.once { (once(self, &rates)?, None) } else { self.action(&limits, &rates)? };
        let hints = hint.into_iter().chain(command.as_ref().and_then(|run| jobs_hint(run, &rates))).collect();
        let config = Config {
            limits,
            shared,
            queue,
            input,
            command,
            action,
            report,
            progress,
            as_json,
            metrics,
            plot,
            hints,
        };
        config.selectors(&rates).try_for_each(|selector| config.input.check(selector))?;
        Ok(config)
    }

    /// The options of the queue. A single release handles `--max-wait` itself.
    fn queue(&self, is_shared: bool) -> QueueOptions {
        let on_limit = self.limits.on_limit.unwrap_or_default();
        // A store can tell only after its arrival whether an item could go.
        let is_told_later = |wait: u64| wait == 0 && is_shared && on_limit.never_waits();
        QueueOptions {
            on_limit,
            batch: self.commands.batch.unwrap_or(BatchSize::SINGLE),
            in_order: self.limits.in_order,
            lookahead: self.limits.lookahead.unwrap_or(LOOKAHEAD),
            max_wait: self.control.max_wait.filter(|wait| !self.control.once && !is_told_later(*wait)),
            jitter: self.limits.jitter,
            until: self.control.until.clone(),
        }
    }

    fn check_waits(&self, queue: &QueueOptions) -> Result<()> {
        let wait = self.control.max_wait.filter(|_| queue.on_limit.never_waits());
        if let Some((wait, linger)) = wait.zip(queue.batch.linger) {
            ensure!(
                wait >= linger,
                "--max-wait {} is over before a batch is complete: make it at least the {} of --batch",
                format_duration(wait),
                format_duration(linger)
            );
        }
        Ok(())
    }

    /// Checks that no option is given without one that it is for.
    fn check_pairs(&self) -> Result<()> {
        const PAIRS: [(&str, &str, &[&str]); 4] = [
            ("--backoff", "--retries N", &["--retries"]),
            ("--log-format", "--log FILE", &["--log"]),
            ("--resume", "--log FILE", &["--log"]),
            ("--at", "--dry-run or --audit", &["--dry-run", "--audit"]),
        ];
        for (option, other, needed) in PAIRS {
            let is_alone = self.first_given(&[option]).is_some() && self.first_given(needed).is_none();
            ensure!(!is_alone, "{option} needs {other}: add it");
        }
        Ok(())
    }

    /// All limits, which other runs may share.
    fn limits(&self, are_shared: bool) -> Result<LimitOptions> {
        let sources = self.limits.sources()?;
        if sources.is_empty() && self.upkeep_option().is_none() {
            // A state has its limits.
            ensure!(are_shared, no_limit(&self.command, self.commands.jobs));
            // A single release has a cost of its own.
            let has_cost = self.control.once && matches!(self.limits.cost, Some(Selector::Constant(_)));
            let of_limits = self.first_given(&["-A", "-b", "--margin", "-K", "-c"]);
            if let Some(option) = of_limits.filter(|option| !(has_cost && *option == "-c")) {
                bail!(
                    "{option} is for limits, and those of the state have theirs: leave it out, or add -r RATE"
                );
            }
        }
        self.limits.limits(sources, !self.command.is_empty(), are_shared)
    }

    /// The option by which something is done to the state of shared limits instead of a run.
    fn upkeep_option(&self) -> Option<&'static str> {
        self.first_given(&["--reset-state", "--set-limits", "--status", "--hold"])
    }

    fn shared(&self) -> Result<Option<Shared>> {
        self.state.shared(self.only_computes())
    }

    /// The option that only computes, so that nothing is released; `None` if there is none.
    fn only_computes(&self) -> Option<&'static str> {
        self.first_given(&["--dry-run", "--audit"])
    }

    fn action(self, limits: &LimitOptions, rates: &[Rate]) -> Result<(Verb, Option<Box<Run>>)> {
        // Batches may go to stdout.
        let for_command = self.given(FOR_COMMANDS).find(|option| *option != "-B");
        if let Some(option) = for_command.filter(|_| self.command.is_empty()) {
            ensure!(!self.control.audit, "--audit runs no command: leave out {option}");
            let such = match option {
                "--worker" => "python3 -u ask.py",
                "--pipe" => "cat",
                _ => "echo {}",
            };
            bail!("{option} is for a command: add one, such as -- {such}");
        }
        self.check_pairs()?;
        let (dry_run, at, arrivals) = (self.control.dry_run, self.control.at, self.control.arrivals()?);
        if self.control.audit {
            if let Some(first) = self.command.first() {
                bail!("--audit runs no command: to read {0}, use <{0} or -a {0}", first.display());
            }
            check_auditable(rates, limits.files().next().is_some())?;
            return Ok((Verb::Audit { arrivals: arrivals.unwrap_or_default(), at }, None));
        }
        ensure!(
            dry_run || self.report.plot.is_none() || !limits.may_change(),
            "--plot needs limits that cannot change: use -r RATE instead of -r @FILE"
        );
        let from_file = self.input.file().is_some();
        rates.iter().filter(|rate| rate.only.is_none()).try_for_each(Rate::check_cost)?;
        let run = match &self.command[..] {
            [] => None,
            command => Some(Box::new(self.commands.run(command, from_file, self.report)?)),
        };
        Ok((if dry_run { Verb::DryRun { arrivals, at } } else { Verb::Run }, run))
    }
}

/// A limit on the number of running commands that means nothing, as there is only one at a time.
fn jobs_hint(run: &Run, rates: &[Rate]) -> Option<String> {
    let rate = rates.iter().find(|rate| run.jobs.get() == 1 && rate.never_holds_up_one())?;
    Some(format!("{rate} holds nothing up with -j 1: for {0} at once, add -j {0}", rate.count))
}
