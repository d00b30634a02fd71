//! Commands that are running, and what follows from how they end.

mod attempt;
mod halting;
mod retries;

use std::collections::HashMap;

pub use self::attempt::Attempt;
pub(super) use self::halting::Halting;
pub(super) use self::retries::{Outcome, Retries};
use super::Action;
use crate::config::{Output, Run};

/// All commands that are running, and the rules for how they end.
#[derive(Default)]
pub(super) struct Jobs {
    /// Releases are commands: they run on, and their ends are told.
    pub(super) exist: bool,
    /// Outputs wait for those of the items before them.
    pub(super) keep_order: bool,
    /// By the number of the first item.
    in_flight: HashMap<u64, Attempt>,
    items_in_flight: u64,
    pub(super) retries: Retries,
    pub(super) halting: Halting,
    /// A signal has been passed on to them.
    interrupted: bool,
}

impl Jobs {
    /// By the rules of `run`; `seed` makes the jitter of backoffs.
    pub(super) fn new(run: &Run, seed: u64) -> Self {
        Jobs {
            exist: true,
            keep_order: run.output == Output::InOrder,
            retries: Retries::new(run.retry.clone(), seed),
            halting: Halting::new(run.halt),
            ..Jobs::default()
        }
    }

    pub(super) fn start(&mut self, first: u64, attempt: Attempt) {
        self.retries.remove(first);
        self.items_in_flight += attempt.items();
        self.in_flight.insert(first, attempt);
    }

    pub(super) fn end(&mut self, first: u64) -> Option<Attempt> {
        let attempt = self.in_flight.remove(&first)?;
        self.items_in_flight -= attempt.items();
        Some(attempt)
    }

    pub(super) fn get(&self, first: u64) -> Option<&Attempt> {
        self.in_flight.get(&first)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.in_flight.values_mut()
    }

    /// The number of items that have commands running.
    pub(super) fn items_in_flight(&self) -> u64 {
        self.items_in_flight
    }

    /// The number of commands that are running.
    pub(super) fn running(&self) -> usize {
        self.in_flight.len()
    }

    /// The first signal asks the running commands to end, the second kills them.
    pub(super) fn interrupt(&mut self) -> Action {
        if std::mem::replace(&mut self.interrupted, true) { Action::Kill } else { Action::Terminate }
    }
}
