//! Running commands, and the rules for how they end.

mod retries;

use std::collections::HashMap;

pub(super) use self::retries::Retries;
use super::Action;
use crate::charge::Charge;
use crate::config::{Halt, Output, Run};
use crate::gate::Request;
use crate::source::Batch;
use crate::time::Time;

/// All running commands, and the rules for how they end.
#[derive(Default)]
pub(super) struct Jobs {
    /// True if releases are commands, which run on and whose ends are reported.
    pub(super) exist: bool,
    /// True if the output of a command waits for that of the items before.
    pub(super) keep_order: bool,
    /// The running attempts, by the number of the first item.
    pub(super) in_flight: HashMap<u64, Attempt>,
    pub(super) items_in_flight: u64,
    pub(super) retries: Retries,
    /// `None` once it has ended the run.
    pub(super) halt: Option<Halt>,
    /// True if the commands have been asked to end.
    pub(super) is_interrupted: bool,
}

impl Jobs {
    /// Jobs under the rules of `run`; `seed` is for the jitter of backoffs.
    pub(super) fn new(run: &Run, seed: u64) -> Self {
        Jobs {
            exist: true,
            keep_order: run.output == Output::InOrder,
            retries: Retries::new(run.retry.clone(), seed),
            halt: run.halt,
            ..Jobs::default()
        }
    }

    pub(super) fn start(&mut self, attempt: Attempt) {
        let first = attempt.batch.first();
        self.retries.failed_so_far.remove(&first);
        self.items_in_flight += attempt.batch.items();
        self.in_flight.insert(first, attempt);
    }

    pub(super) fn end(&mut self, first: u64) -> Option<Attempt> {
        let attempt = self.in_flight.remove(&first)?;
        self.items_in_flight -= attempt.batch.items();
        Some(attempt)
    }

    /// The number of commands that are running.
    pub(super) fn running(&self) -> usize {
        self.in_flight.len()
    }

    /// The first signal asks the running commands to end, the second kills them.
    pub(super) fn interrupt(&mut self) -> Action {
        self.terminate().unwrap_or(Action::Kill)
    }

    /// Asks the running commands to end, unless they have been asked before.
    pub(super) fn terminate(&mut self) -> Option<Action> {
        (!std::mem::replace(&mut self.is_interrupted, true)).then_some(Action::Terminate)
    }
}

/// Items whose command is running.
pub struct Attempt {
    /// The items.
    pub batch: Batch,
    /// The instant at which the first of them became next in line.
    pub since: Time,
    /// What was charged for all of them together.
    pub charge: Charge,
    /// The instant that was checked before the command started.
    pub started: Time,
}

impl Attempt {
    /// The request that was admitted.
    pub(super) fn request(&self) -> Request<'_> {
        Request::new(self.since, &self.charge)
    }
}
