//! The options that the scheduler needs.

use super::{BatchSize, Cleaning, Config, OnBad, OnLimit, QueueOptions, Selector};

/// The options that decide when items go, except for the limits and for how commands end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// As [`InputOptions::delimiter`](super::InputOptions::delimiter).
    pub delimiter: Vec<u8>,
    /// As [`InputOptions::separator`](super::InputOptions::separator).
    pub separator: Option<Vec<u8>>,
    /// As [`InputOptions::cleaning`](super::InputOptions::cleaning).
    pub cleaning: Cleaning,
    /// As [`InputOptions::on_bad`](super::InputOptions::on_bad).
    pub on_bad: OnBad,
    /// As [`Config::queue`].
    pub queue: QueueOptions,
    /// As [`Config::batch`].
    pub batch: BatchSize,
    /// As [`Config::on_limit`].
    pub on_limit: OnLimit,
    /// The parts of each item that its command needs.
    pub selectors: Vec<Selector>,
    /// Items are given to a command, also in a dry run.
    pub has_command: bool,
}

impl Plan {
    /// The plan of a run.
    pub fn of(config: &Config) -> Self {
        let (input, command) = (&config.input, config.command());
        Plan {
            delimiter: input.delimiter.clone(),
            separator: input.separator.clone(),
            cleaning: input.cleaning,
            on_bad: input.on_bad,
            queue: config.queue,
            batch: config.batch,
            on_limit: config.on_limit,
            selectors: command.map_or_else(Vec::new, |run| run.template.selectors().to_vec()),
            has_command: command.is_some(),
        }
    }

    /// Items are told apart even if all are charged the same.
    pub(crate) fn goes_singly(&self) -> bool {
        self.queue.jitter.is_some() || self.on_limit != OnLimit::Wait || self.has_command
    }

    /// Nanoseconds that each item may wait after its arrival, if it never would otherwise.
    pub(crate) fn wait_of_each(&self) -> Option<u64> {
        self.queue.max_wait.filter(|_| self.on_limit.never_waits())
    }

    /// Nanoseconds that the run waits at most for its next release.
    pub(crate) fn wait_of_all(&self) -> Option<u64> {
        self.queue.max_wait.filter(|_| !self.on_limit.never_waits())
    }
}
