//! What the scheduler of a run goes by.

use super::{BatchSize, Cleaning, Config, OnBad, OnLimit, QueueOptions, Selector};

/// What of the command line matters for when items go, but for the limits and for how commands end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What ends a record. Not empty.
    pub delimiter: Vec<u8>,
    /// What separates the fields of a record; without it, runs of blanks.
    pub separator: Option<Vec<u8>>,
    /// What is left out of a record.
    pub cleaning: Cleaning,
    /// What happens to an item that cannot be charged.
    pub on_bad: OnBad,
    /// How items wait.
    pub queue: QueueOptions,
    /// How many items make one release.
    pub batch: BatchSize,
    /// What happens to an item that cannot go at once.
    pub on_limit: OnLimit,
    /// What the command takes from each item.
    pub selectors: Vec<Selector>,
    /// Items are given to a command.
    pub has_command: bool,
}

impl Plan {
    /// Of this command line.
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

    /// Whether items are told apart even if all are charged the same.
    pub(crate) fn goes_singly(&self) -> bool {
        self.queue.jitter.is_some() || self.on_limit != OnLimit::Wait || self.has_command
    }

    /// For how many nanoseconds an item waits that never would otherwise.
    pub(crate) fn wait_of_each(&self) -> Option<u64> {
        self.queue.max_wait.filter(|_| self.on_limit.never_waits())
    }

    /// For how many nanoseconds the run waits for its next release, at most.
    pub(crate) fn wait_of_all(&self) -> Option<u64> {
        self.queue.max_wait.filter(|_| !self.on_limit.never_waits())
    }
}
