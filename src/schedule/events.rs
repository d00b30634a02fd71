//! What the scheduler is told.

use std::mem;

use nix::sys::signal::Signal;

use super::change::change;
use super::{Notice, Schedule, Stop};
use crate::config::{Rate, keys};
use crate::exit::Exit;
use crate::source::{Block, Charger, SourceError};
use crate::time::Time;

impl Schedule {
    /// Items have arrived.
    pub fn input(&mut self, block: Block) {
        self.intake.put(block);
    }

    /// There will be no more items, and why, if not for the end of the input. What is there is released first, whatever
    /// ended it.
    pub fn end_of_input(&mut self, now: Time, error: Option<SourceError>) {
        self.rules.batcher.end(now);
        self.queue.reopen_all(&self.rules);
        self.bad_end = error;
    }

    /// The limits have changed: they go on with what is known of past releases.
    pub fn change_limits(&mut self, now: Time, rates: Vec<Rate>) {
        self.tally.set_rates(&rates, self.rules.limits.charged());
        let (limits, paused) = (mem::take(&mut self.rules.limits), mem::take(&mut self.paused));
        (self.rules.limits, self.paused) = change(&self.rates, limits, paused, &rates, now);
        // Its sums are by the old limits.
        self.spare = self.spare.take().map(|_| Box::default());
        self.rules.batcher.set_rates(&rates);
        self.rules.depends_on_since |= rates.iter().any(super::depends_on_since);
        let mut charger = Charger::new(&rates, self.separator.as_deref());
        charger.keep_matched(self.intake.charger());
        if keys(&self.rates) != keys(&rates) {
            self.queue.forget_keys();
        }
        let waiting = self.queue.take_all();
        self.intake.put_back(waiting, charger);
        self.recharge_running();
        self.rates.clone_from(&rates);
        self.tell(Notice::Limits(rates));
    }

    /// What runs is charged by the new limits when it ends.
    fn recharge_running(&mut self) {
        for attempt in self.attempts.iter_mut() {
            let items = attempt.segments.iter().flat_map(|segment| self.intake.recharge(segment.clone()));
            let charges = items.map(|items| items.charge);
            let batcher = &self.rules.batcher;
            let sum = charges.reduce(|sum, next| {
                let costs = batcher.sum(&sum.costs, &next.costs);
                crate::charge::Charge { costs, ..sum }
            });
            if let Some(sum) = sum {
                (attempt.asked.costs, attempt.asked.keys) = (sum.costs, sum.keys);
            }
        }
    }

    /// The run is to end. The first stop lets running commands end, the second kills them.
    pub fn stop(&mut self, stop: Stop) {
        let signal = match stop {
            Stop::ReaderGone => Signal::SIGPIPE,
            Stop::Signal(signal) => {
                self.pass_on();
                signal
            }
        };
        self.exit = self.exit.max(Exit::Signal(signal as i32));
        self.stopping = true;
    }

    /// Nothing more can be sent.
    pub fn fail(&mut self, exit: Exit, error: anyhow::Error) {
        self.give_up(exit, error);
    }
}
