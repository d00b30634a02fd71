//! Books slots, and takes them back.

use std::collections::HashSet;
use std::mem;
use std::slice;
use std::sync::Arc;

use super::VaultStore;
use super::request::{MAX_PARTS, Part};
use super::returnable::{BookedIn, Returned};
use crate::store::ledger::GOOD_FOR;
use crate::store::vault::Reading;
use crate::store::{Answer, BookedBy, NewLimits, Order, Reach, Slot, Store, StoreError, Task, Wanted, Warn};
use crate::time::Time;

/// Slots that come too late this number of times in a row are no accident.
const CORRECTIONS: usize = 2;

impl Store for VaultStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        self.prepare()?;
        Ok(self.book_each(slice::from_ref(order))?.remove(0))
    }

    fn book_some(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        self.prepare()?;
        let at_once = self.vault.at_once();
        if at_once > 1 {
            let orders = &orders[..orders.len().min(MAX_PARTS)];
            let mut keys = HashSet::new();
            let rest = orders.iter().position(|order| {
                keys.insert(&order.key);
                keys.len() > at_once
            });
            return self.book_each(&orders[..rest.unwrap_or(orders.len())]);
        }
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
        self.take_back(order.clone(), returned)
    }
}

impl VaultStore {
    /// Books for orders, together.
    fn book_each(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        let mut answers = vec![Answer::default(); orders.len()];
        let new = |order: &Order| {
            let by_us = order.wanted().map(|wanted| Task::Book(Wanted { by: self.id, ..wanted }));
            let order = by_us.map_or_else(|| order.clone(), |task| order.with(task));
            Part { order, returned: Vec::new() }
        };
        let mut open: Vec<_> = orders.iter().map(new).enumerate().collect();
        open.sort_by(|(_, one), (_, other)| one.order.key.cmp(&other.order.key));
        let mut void = Vec::new();
        while !open.is_empty() {
            let (places, parts): (Vec<_>, Vec<_>) = open.into_iter().unzip();
            let (mut late, mut took, mut are_any_in_time) = (Vec::new(), 0, false);
            let booked = self.request(&parts)?;
            void.extend(self.memory.take_void());
            for ((at, part), (booked_in, answer, reading)) in places.into_iter().zip(parts).zip(booked) {
                let is_empty = answer.slots.is_empty();
                let (mut answer, too_late) = self.answer(&part.order, booked_in, answer, &reading);
                if !is_empty && answer.slots.is_empty() {
                    late.push((at, Part { returned: too_late, ..part }));
                    took = took.max(reading.took());
                    continue;
                }
                are_any_in_time |= !is_empty;
                // The answer to a report does not say until when nothing is released; the next answer will.
                if !answer.slots.is_empty() || answer.ask_again.is_some() {
                    let name = self.vault.name();
                    answer.warning = self.memory.take_loss().map(|why| format!("{name}: {why}"));
                }
                answers[at] = answer;
            }
            self.correct(&mut late, took, are_any_in_time)?;
            open = late;
        }
        // The first answer for a key tells of it, so that what is booked since is kept.
        let mut told = HashSet::new();
        for (order, answer) in orders.iter().zip(&mut answers) {
            let is_first = told.insert(&order.key);
            answer.lost = is_first && void.iter().any(|void| void.is_empty() || *void == order.key);
        }
        self.warn_of_reach();
        Ok(answers)
    }

    /// Lets parts whose slots came too late book anew and give these back. If that was no accident, gives them back
    /// itself, and waits for faster answers than the slowest, which `took` this long.
    fn correct(
        &mut self,
        late: &mut [(usize, Part)],
        took: u64,
        are_any_in_time: bool,
    ) -> Result<(), StoreError> {
        if are_any_in_time {
            self.corrections = 0;
        }
        if late.is_empty() {
            return Ok(());
        }
        self.corrections += 1;
        if self.corrections < CORRECTIONS {
            return Ok(());
        }
        for (_, Part { order, returned }) in late {
            // Others may use them meanwhile. If that fails, they only count as used.
            _ = self.take_back(order.with(Task::GiveBack(Vec::new(), None)), mem::take(returned));
        }
        self.vault.came_late(took, self.corrections == CORRECTIONS)
    }

    /// Takes back slots, with one attempt: twice would be too often, and the answer to an attempt may be lost.
    fn take_back(&mut self, order: Order, returned: Vec<Returned>) -> Result<(), StoreError> {
        self.vault.retry(false);
        let done = self.request(&[Part { order, returned }]);
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
        let placed = answer.slots.iter().map(|&Slot { at, .. }| {
            let until = reading.not_after(at).saturating_add(good_for);
            (Slot { at: reading.not_before(at), until }, Returned { booked_in, at })
        });
        let (slots, late): (Vec<_>, Vec<_>) = placed.partition(|(slot, _)| slot.at <= slot.until);
        self.answered = reading.answered;
        self.returnable.add(order, &slots, reading.answered);
        let not_before = |at: Option<Time>| at.map(|at| reading.not_before(at));
        let mut overruns = answer.overruns;
        overruns.until = reading.not_before(overruns.until);
        let booked_by = answer.booked_by.map(|by| self.vault.times_set().map_or(by, BookedBy::Server));
        let lag = if order.key.is_empty() { 0 } else { self.vault.lags_by() };
        let (policy, changes) = (self.rules.policy(), self.agreement.changes);
        let limits = (order.changes != changes).then(|| {
            Box::new(NewLimits { rates: policy.rates.clone(), terms: policy.booking_terms(changes) })
        });
        let answer = Answer {
            slots: slots.into_iter().map(|(slot, _)| slot).collect(),
            ask_again: not_before(answer.ask_again),
            next: not_before(answer.next),
            held: not_before(answer.held),
            overruns,
            booked_by,
            confirm_from: Some(reading.asked.saturating_add(GOOD_FOR - lag)),
            limits,
            ..answer
        };
        (answer, late.into_iter().map(|(_, returned)| returned).collect())
    }

    /// Books until the first slots would be kept waiting for too long.
    fn book_in_time(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        let (mut answers, mut until) = (Vec::new(), None);
        for of_key in orders.chunk_by(|one, next| one.key == next.key) {
            answers.extend(self.book_each(of_key)?);
            let longest = self.rules.policy().validity / 16;
            if self.answered > *until.get_or_insert(self.answered.saturating_add(longest)) {
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
