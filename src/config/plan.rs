//! The options that the scheduler needs.

use super::{Cleaning, Config, Feed, InputOptions, OnLimit, QueueOptions, Selector, placeholders};

/// The options that decide when items go, except the limits and how commands end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// As [`Config::input`].
    pub input: InputOptions,
    /// As [`Config::queue`].
    pub queue: QueueOptions,
    /// The parts of each item that its command needs.
    pub selectors: Vec<Selector>,
    /// Parts of JSON that its texts in braces may be meant for.
    pub members: Vec<Selector>,
    /// True if items become arguments of a command, even if only in a dry run.
    pub are_arguments: bool,
}

impl Plan {
    /// The plan of a run.
    pub fn of(config: &Config) -> Self {
        let command = config.command.as_ref();
        Plan {
            input: config.input.clone(),
            queue: config.queue.clone(),
            selectors: command.map_or_else(Vec::new, |run| run.template.selectors().to_vec()),
            members: command.map_or_else(Vec::new, |run| placeholders::members(&run.template)),
            are_arguments: command.is_some_and(|run| run.stdin != Feed::Items),
        }
    }

    /// True if items are taken one by one even if all are charged the same.
    pub(crate) fn goes_singly(&self) -> bool {
        self.queue.jitter.is_some()
            || self.queue.on_limit != OnLimit::Wait
            || self.are_arguments
            || !(self.selectors.is_empty() && self.members.is_empty())
            || self.input.cleaning != Cleaning::default()
    }
}
