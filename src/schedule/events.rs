//! What the scheduler is told.

use anyhow::Error;
use nix::sys::signal::Signal;

use super::{Notice, Schedule, Stop};
use crate::config::{Rate, keys};
use crate::exit::Exit;
use crate::gate::{Answer, Order, Request};
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
        self.tally.set_rates(&rates, self.rules.gate.charged());
        let are_other = keys(self.rules.gate.rates()) != keys(&rates);
        self.rules.gate.change(now, rates.clone());
        // Its sums are by the old limits.
        self.spare = self.spare.take().map(|_| Box::default());
        self.rules.batcher.set_terms(self.rules.gate.batches());
        let mut charger = Charger::new(&rates, self.separator.as_deref());
        charger.keep_matched(self.intake.charger());
        if are_other {
            self.queue.forget_keys();
        }
        let waiting = self.queue.take_all();
        self.intake.put_back(waiting, charger);
        self.recharge_running(now);
        self.tell(Notice::Limits(rates));
    }

    /// What runs is charged by the new limits when it ends.
    fn recharge_running(&mut self, now: Time) {
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
            self.rules.gate.resume(now, &attempt.asked.request());
        }
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        self.hear_of_hold(now, order, &answer);
        self.rules.gate.answered(now, order, &answer);
        if let Some(what) = answer.warning {
            let silent = answer.silent_until.map(|until| until.since(now));
            self.tell(Notice::StateLost { what, silent });
        }
    }

    /// Tells when others have begun to hold what is asked for.
    fn hear_of_hold(&mut self, now: Time, order: &Order, answer: &Answer) {
        let keys = [order.key.clone()];
        let known = self.rules.gate.held_until(&Request { since: now, costs: &order.costs, keys: &keys });
        let begun = answer.held.filter(|until| *until > now && known <= now && order.is_for_slots());
        begun.into_iter().for_each(|until| self.tell(Notice::SharedHold(until)));
    }

    /// The store cannot be asked any more.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.rules.gate.store_failed();
        self.give_up(exit, error);
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
    pub fn fail(&mut self, exit: Exit, error: Error) {
        self.give_up(exit, error);
    }
}
