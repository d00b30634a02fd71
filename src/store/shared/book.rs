//! Books slots, and takes them back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::VaultStore;
use super::request::{Reply, Request};
use super::returnable::{BookedIn, Returned};
use crate::store::ledger::GOOD_FOR;
use crate::store::vault::{Reading, Vault};
use crate::store::{Answer, BookedBy, NewLimits, Order, Reach, Slot, Store, StoreError, Task, Warn};
use crate::time::Time;

/// The most orders that are booked together, while others wait.
const TOGETHER: usize = 64;

/// Slots that come too late this number of times in a row are no accident.
const CORRECTIONS: usize = 2;

impl<V: Vault> Store for VaultStore<V> {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        self.prepare()?;
        let mut request = Request { order: order.clone(), returned: Vec::new() };
        loop {
            let (Reply { booked_in, answer, .. }, reading) = self.request(&request)?;
            let is_empty = answer.slots.is_empty();
            let (mut answer, late) = self.answer(order, booked_in, answer, &reading);
            if !is_empty && answer.slots.is_empty() {
                request.returned = self.correct(order, late, &reading)?;
                continue;
            }
            if !is_empty {
                self.corrections = 0;
            }
            self.warn_of_reach();
            answer.lost = self.memory.takes_void(&order.key);
            // The answer to a report does not say until when nothing is released; the next answer will.
            if !answer.slots.is_empty() || answer.ask_again.is_some() {
                let name = self.vault.name();
                answer.warning = self.memory.take_loss().map(|why| format!("{name}: {why}"));
            }
            return Ok(answer);
        }
    }

    fn book_some(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        self.prepare()?;
        self.vault.gather();
        let answers = self.book_in_time(orders);
        let flushed = self.vault.flush();
        answers.and_then(|answers| flushed.map(|()| answers))
    }

    fn warn_of_waits_by(&mut self, warn: Warn) {
        self.warn = Arc::clone(&warn);
        self.vault.warn_of_waits_by(warn);
    }

    fn give_back(&mut self, order: &Order) -> Result<(), StoreError> {
        let returned = self.returnable.take(order);
        if returned.is_empty() && matches!(order.task, Task::GiveBack(_, None)) {
            return Ok(());
        }
        self.take_back(order, returned)
    }
}

impl<V: Vault> VaultStore<V> {
    /// After all slots of an order came too late: returns those that its next booking is to give back. If that was no
    /// accident, gives them back itself, and waits for faster answers.
    fn correct(
        &mut self,
        order: &Order,
        late: Vec<Returned>,
        reading: &Reading,
    ) -> Result<Vec<Returned>, StoreError> {
        self.corrections += 1;
        if self.corrections < CORRECTIONS {
            return Ok(late);
        }
        // Others may use them meanwhile. If that fails, they only count as used.
        _ = self.take_back(&order.with(Task::GiveBack(Vec::new(), None)), late);
        self.vault.came_late(reading.took(), self.corrections == CORRECTIONS)?;
        Ok(Vec::new())
    }

    /// Takes back slots, with one attempt: twice would be too often, and the answer to an attempt may be lost.
    fn take_back(&mut self, order: &Order, returned: Vec<Returned>) -> Result<(), StoreError> {
        self.vault.retry(false);
        let done = self.request(&Request { order: order.clone(), returned });
        self.vault.retry(true);
        done.map(drop)
    }

    /// The answer on our own clock, and the slots that came too late to be of use.
    fn answer(
        &mut self,
        order: &Order,
        booked_in: BookedIn,
        answer: Answer,
        reading: &Reading,
    ) -> (Answer, Vec<Returned>) {
        let good_for = self.vault.good_for(self.rules.policy().validity);
        let (mut slots, mut late) = (Vec::new(), Vec::new());
        for Slot { at, .. } in answer.slots {
            let slot =
                Slot { at: reading.not_before(at), until: reading.not_after(at).saturating_add(good_for) };
            if slot.at <= slot.until { slots.push((slot, at)) } else { late.push(Returned { booked_in, at }) }
        }
        self.returnable.add(order, booked_in, &slots, reading.answered);
        let not_before = |at: Option<Time>| at.map(|at| reading.not_before(at));
        let mut overruns = answer.overruns;
        overruns.until = reading.not_before(overruns.until);
        let booked_by = answer.booked_by.map(|by| self.vault.times_set().map_or(by, BookedBy::Server));
        let lag = if order.key.is_empty() { 0 } else { self.vault.lags_by() };
        let limits = NewLimits {
            rates: self.rules.policy().rates.clone(),
            terms: self.rules.policy().booking_terms(self.agreement.changes),
        };
        let answer = Answer {
            slots: slots.into_iter().map(|(slot, _)| slot).collect(),
            ask_again: not_before(answer.ask_again),
            next: not_before(answer.next),
            held: not_before(answer.held),
            overruns,
            booked_by,
            confirm_from: Some(reading.asked.saturating_add(GOOD_FOR - lag)),
            limits: Some(Box::new(limits)).filter(|_| order.changes != self.agreement.changes),
            ..answer
        };
        (answer, late)
    }

    /// Books until the first slots would be kept waiting for too long.
    fn book_in_time(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        let (begun, longest) = (Instant::now(), Duration::from_nanos(self.rules.policy().validity / 16));
        let mut answers = Vec::new();
        for order in orders.iter().take(TOGETHER) {
            answers.push(self.book(order)?);
            if begun.elapsed() > longest {
                break;
            }
        }
        Ok(answers)
    }

    /// Reports, once, limits of which little can be reached, if the state has chosen the margins.
    fn warn_of_reach(&mut self) {
        let (rates, policy) = (self.agreement.take_untold(), self.rules.policy());
        for reach in policy.reach(&rates).filter(Reach::is_low) {
            let is_distant = self.agreement.reserve.margin(&reach.rate) < policy.validity;
            (self.warn)(Reach { is_distant, ..reach }.to_string());
        }
    }
}
