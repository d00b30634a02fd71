//! The limits that all who share a state must agree on, margins included: where the user has given none, the first
//! process decides.

use anyhow::Result;

use crate::config::Rate;
use crate::store::record::Record;
use crate::store::{Policy, Reserve};

pub(super) struct Agreement {
    /// The longest horizon of all limits so far, those that were replaced unseen among them.
    pub(super) horizon: u64,
    /// The limits as the user gave them, if there is a margin to choose, until they are told how much can be reached.
    rates: Vec<Rate>,
    pub(super) reserve: Reserve,
    /// The state's limits are replaced if they are others.
    pub(super) replaces: bool,
    /// The state's [`Record::revision`]; `None` before it was looked at.
    revision: Option<u64>,
    /// The number of times that the state's limits were found to be replaced.
    pub(super) changes: u64,
}

impl Agreement {
    pub(super) fn new(horizon: u64, rates: &[Rate], reserve: Reserve) -> Self {
        let lacks_margins = rates.iter().any(|rate| rate.margin == 0);
        let rates = if lacks_margins { rates.to_vec() } else { Vec::new() };
        Agreement { horizon, rates, reserve, replaces: false, revision: None, changes: 0 }
    }

    pub(super) fn is_open(&self) -> bool {
        self.revision.is_none()
    }

    /// The state is kept for our policy.
    pub(super) fn conclude(&mut self, record: &Record) {
        self.revision = Some(record.revision);
        self.horizon = self.horizon.max(record.horizon);
    }

    /// The policy of the limits that have replaced those of the state since it was last looked at, if any have.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn replaced(&mut self, record: &Record) -> Result<Option<Policy>> {
        if self.revision.is_none_or(|known| record.revision <= known) {
            return Ok(None);
        }
        let policy = Policy::of(&record.limits)?;
        self.horizon = self.horizon.max(policy.horizon);
        self.changes += 1;
        Ok(Some(policy))
    }

    /// True if margins are yet to be chosen.
    pub(super) fn lacks_margins(&self) -> bool {
        !self.rates.is_empty()
    }

    /// The policy before anything is booked: with margins of at least `least` nanoseconds where none are given.
    pub(super) fn chosen(&self, least: u64) -> Policy {
        self.with(self.rates.iter().map(|rate| self.reserve.margin(rate).max(least)).collect())
    }

    /// The policy that a state is kept for, if it differs from ours only by margins that are not given.
    pub(super) fn adopted(&self, theirs: &str) -> Option<Policy> {
        let in_full = Policy::rates(theirs)
            .ok()
            .filter(|rates| self.lacks_margins() && rates.len() == self.rates.len());
        let policy = self.with(in_full?.iter().map(|rate| rate.margin).collect());
        Some(policy).filter(|policy| policy.text == theirs)
    }

    /// The limits as the user gave them, once, if they lack margins, which are known by now.
    pub(super) fn take_untold(&mut self) -> Vec<Rate> {
        std::mem::take(&mut self.rates)
    }

    /// The policy with these margins where none are given.
    fn with(&self, margins: Vec<u64>) -> Policy {
        let rate = |(rate, margin): (&Rate, u64)| match rate.margin {
            0 => Rate { margin, ..rate.clone() },
            _ => rate.clone(),
        };
        let rates: Vec<_> = self.rates.iter().zip(margins).map(rate).collect();
        Policy::new(&rates, self.reserve)
    }
}
