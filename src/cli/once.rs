//! `--once`: one release for a script.

use anyhow::{Result, bail, ensure};

use super::args::Cli;
use crate::config::{LimitOptions, Once, Selector, Verb};

impl Cli {
    /// The release that was asked for. Whatever is about items makes no sense with it.
    pub(super) fn once(self, limits: &LimitOptions) -> Result<Verb> {
        if let Some(flag) = self.flag_for_items() {
            bail!("--once reads no items: leave out {flag}");
        }
        if let Some(flag) = self.flag_for_runs() {
            bail!("--once releases once and becomes COMMAND: leave out {flag}");
        }
        ensure!(
            !limits.count_exits(),
            "from=exit and N/running wait for the end of a command, and --once becomes COMMAND: leave out \
             from=exit, or N/running"
        );
        let cost = match self.cost {
            Some(Selector::Constant(cost)) => Some(cost),
            _ => None,
        };
        Ok(Verb::Once(Once { command: self.command, trace: self.trace, cost, max_wait: self.max_wait }))
    }

    fn flag_for_items(&self) -> Option<&'static str> {
        let cost = self.cost.as_ref();
        let flags = [
            (self.arg_file.is_some(), "-a"),
            (self.null, "-0"),
            (self.delimiter.is_some(), "-d"),
            (self.field_separator.is_some(), "-F"),
            (self.max_record.is_some(), "--max-record"),
            (self.trim, "--trim"),
            (self.skip_blank, "--skip-blank"),
            (self.on_bad.is_some(), "--on-bad"),
            (self.placeholder.is_some(), "-I"),
            (self.batch.is_some(), "-B"),
            (self.key.is_some(), "-K"),
            (cost.is_some_and(|cost| !matches!(cost, Selector::Constant(_))), "-c SEL, or give a number"),
            (self.on_limit.is_some(), "--on-limit, or use --max-wait 0"),
            (self.in_order, "--in-order"),
            (self.lookahead.is_some(), "--lookahead"),
            (self.arrivals.is_some(), "--arrivals"),
            (self.unsorted.is_some(), "--unsorted"),
            (self.audit, "--audit"),
            (self.dry_run, "--dry-run"),
        ];
        flags.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    fn flag_for_runs(&self) -> Option<&'static str> {
        let flags = [
            (self.jobs.is_some(), "-j"),
            (self.keep_order, "-k"),
            (self.ungrouped, "-u"),
            (self.tag.is_some(), "--tag"),
            (self.pipe, "--pipe"),
            (self.timeout.is_some(), "--timeout"),
            (self.retries.is_some(), "--retries"),
            (self.halt.is_some(), "--halt"),
            (self.until.is_some(), "--until, or use --max-wait"),
            (self.log.is_some(), "--log"),
            (self.progress.is_some(), "--progress"),
            (!self.stats.is_empty(), "--stats"),
            (self.plot.is_some(), "--plot"),
        ];
        flags.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }
}
