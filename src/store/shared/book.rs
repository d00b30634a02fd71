//! Books slots, and takes them back.

use std::collections::HashSet;
use std::slice;
use std::sync::Arc;

use super::VaultStore;
use super::request::{BookingRequest, MAX_PARTS, Part, Reply};
use super::returnable::{BookedIn, Returned};
use crate::store::ledger::GOOD_FOR;
use crate::store::vault::Reading;
use crate::store::{Answer, BookedBy, NewLimits, Order, Reach, Slot, Store, StoreError, Task, Wanted, Warn};
use crate::time::Time;

/// Slots that come too late this number of times in a row are no accident.
const CORRECTIONS: usize = 2;

/// What was decided on an order, by the clock of the vault.
struct Decided {
    /// Its place among all orders.
    at: usize,
    order: Order,
    booked_in: BookedIn,
    answer: Answer,
    reading: Reading,
}

/// An order whose slots all came too late, its place, these slots, and the clock as of then.
type Late = (usize, Order, Vec<Returned>, Reading);

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
        let mut parts: Vec<_> = orders.iter().map(new).enumerate().collect();
        let mut void = Vec::new();
        while !parts.is_empty() {
            let (mut late, mut are_any_in_time) = (Vec::new(), false);
            let booked = self.request_parts(parts)?;
            void.extend(self.memory.take_void());
            for Decided { at, order, booked_in, answer, reading } in booked {
                let is_empty = answer.slots.is_empty();
                let (mut answer, too_late) = self.answer(&order, booked_in, answer, &reading);
                if !is_empty && answer.slots.is_empty() {
                    late.push((at, order, too_late, reading));
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
            parts = self.correct(late, are_any_in_time)?;
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

    /// Books for parts, which are numbered, with one request for each key.
    fn request_parts(&mut self, mut parts: Vec<(usize, Part)>) -> Result<Vec<Decided>, StoreError> {
        parts.sort_by(|(_, one), (_, other)| one.order.key.cmp(&other.order.key));
        let (mut places, mut requests) = (Vec::new(), Vec::<BookingRequest>::new());
        for (at, part) in parts {
            places.push(at);
            match requests.last_mut().filter(|request| request.key() == &*part.order.key) {
                Some(request) => request.parts.push(part),
                None => requests.push(BookingRequest { parts: vec![part] }),
            }
        }
        let replies = self.request_each(&requests)?;
        let answers = replies.into_iter().flat_map(|(Reply { booked_in, answers, .. }, reading)| {
            answers.into_iter().map(move |answer| (booked_in, answer, reading))
        });
        let orders = requests.into_iter().flat_map(|request| request.parts).map(|part| part.order);
        let booked = places.into_iter().zip(orders).zip(answers);
        let booked = booked.map(|((at, order), (booked_in, answer, reading))| Decided {
            at,
            order,
            booked_in,
            answer,
            reading,
        });
        Ok(booked.collect())
    }

    /// The parts that book anew after slots came too late, and give these back. If that was no accident, gives them
    /// back itself, and waits for faster answers.
    fn correct(&mut self, late: Vec<Late>, are_any_in_time: bool) -> Result<Vec<(usize, Part)>, StoreError> {
        if are_any_in_time {
            self.corrections = 0;
        }
        let Some(took) = late.iter().map(|(.., reading)| reading.took()).max() else { return Ok(Vec::new()) };
        self.corrections += 1;
        let is_accident = self.corrections < CORRECTIONS;
        let mut parts = Vec::new();
        for (at, order, too_late, _) in late {
            let returned = if is_accident {
                too_late
            } else {
                // Others may use them meanwhile. If that fails, they only count as used.
                _ = self.take_back(order.with(Task::GiveBack(Vec::new(), None)), too_late);
                Vec::new()
            };
            parts.push((at, Part { order, returned }));
        }
        if !is_accident {
            self.vault.came_late(took, self.corrections == CORRECTIONS)?;
        }
        Ok(parts)
    }

    /// Takes back slots, with one attempt: twice would be too often, and the answer to an attempt may be lost.
    fn take_back(&mut self, order: Order, returned: Vec<Returned>) -> Result<(), StoreError> {
        self.vault.retry(false);
        let done = self.request_each(&[BookingRequest { parts: vec![Part { order, returned }] }]);
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
        self.answered = reading.answered;
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
