//! Items still to be released: those that were read, those that wait in lanes, and the gate they wait for.

use anyhow::{Error, anyhow};

use super::course::Course;
use super::jobs::Attempt;
use super::lanes::Lanes;
use super::results::{Ahead, Results};
use super::supply::Supply;
use super::{Action, Admission, Failed, Failure, Notice};
use crate::charge::Charge;
use crate::config::{OnBad, OnLimit, Plan, Rate, Share, keys};
use crate::exit::Exit;
use crate::gate::{Blocked, Gate, Reservations, Steps, Task};
use crate::source::{Delimiter, Items, Segment};
use crate::time::{SECOND, Time, Wall};

/// Owns all that is still to be released, and the gate.
pub(super) struct Queue {
    pub(super) gate: Gate,
    pub(super) supply: Supply,
    pub(super) lanes: Lanes,
    /// The next release, as far as is known: it may turn out later.
    pub(super) next: Option<Time>,
    /// The sink could not take more; it is not tried again before this instant.
    pub(super) not_before: Time,
    /// True if all input that has arrived by now is known.
    pub(super) is_due: bool,
    /// True if the present wait also listens to the input.
    pub(super) listens: bool,
    /// The last instant at which the latest admission could be sent, if it needed slots.
    pub(super) good_until: Option<Time>,
    /// A slot was not used in time since the last release.
    pub(super) has_lost_slot: bool,
    /// The last admission, kept for reuse of its memory; `None` while one is being sent.
    pub(super) spare: Option<Box<Admission>>,
}

impl Queue {
    pub(super) fn new(plan: &Plan, rates: Vec<Rate>, now: Time, wall: Wall) -> Self {
        let delimiter = Delimiter::of(&plan.input);
        let supply = Supply::new(plan, &rates, &delimiter);
        let gate = Gate::new(rates, now, wall);
        Queue {
            supply,
            lanes: Lanes::new(plan, delimiter, gate.properties().batches.clone()),
            gate,
            next: None,
            not_before: Time::ZERO,
            is_due: false,
            listens: false,
            good_until: None,
            has_lost_slot: false,
            spare: Some(Box::default()),
        }
    }

    pub(super) fn change_limits(&mut self, now: Time, rates: &[Rate]) {
        let are_other = keys(self.gate.rates()) != keys(rates);
        self.gate.set_limits(now, rates.to_vec());
        // The sums in its charges are by the old limits.
        self.spare = self.spare.take().map(|_| Box::default());
        self.lanes.batcher.terms = self.gate.properties().batches.clone();
        let waiting = self.lanes.take_all(now, are_other);
        let bound = self.gate.reservations().map_or(&[][..], Reservations::bound);
        self.supply.recharge(waiting, rates, bound);
    }

    /// There will be no more items; with an error if that is not the end of the input.
    pub(super) fn end(&mut self, now: Time, error: Option<Error>) {
        self.lanes.batcher.ended = Some(now);
        self.lanes.reopen_all(&self.gate);
        self.supply.bad_end = error;
    }

    /// True if everything has left and no more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.lanes.batcher.has_ended() && self.supply.intake.is_empty() && self.lanes.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.lanes.have_room(self.supply.intake.is_single()) && !self.supply.is_full()
    }

    pub(super) fn is_accepting(&self, results: &Results) -> bool {
        let capacity = &self.lanes.batcher.capacity;
        // An item that must wait for a command anyway can wait in the input, unless the newest item or its arrival
        // matters, or the number of items does.
        let is_taken = capacity.vacancies > 0 && capacity.before > self.supply.intake.total();
        let is_wanted = is_taken
            || self.lanes.options.on_limit != OnLimit::Wait
            || results.jobs.halt.is_some_and(|halt| matches!(halt.share, Share::Percent(_)));
        let is_open = !results.course.is_stopping && !self.lanes.batcher.has_ended();
        is_open && is_wanted && self.supply.intake.is_empty() && self.has_room()
    }

    /// True if items that must be known before a release may still arrive at this very instant. Offers those that have
    /// arrived.
    pub(super) fn gathers(&mut self, now: Time, results: &mut Results) -> bool {
        if !self.lanes.must_gather() || self.is_due {
            return false;
        }
        self.offer(now, results);
        self.is_accepting(results)
    }

    /// True if no more input that has arrived by now can be read.
    pub(super) fn knows_all(&self, results: &Results) -> bool {
        self.is_due || !self.is_accepting(results)
    }

    pub(super) fn ahead(&self) -> Ahead {
        let next = self.lanes.first().unwrap_or(u64::MAX).min(self.supply.intake.first());
        Ahead { next, all: self.lanes.batcher.has_ended().then(|| self.supply.items()) }
    }

    /// Lets the items that were read join the lanes, as far as there is room.
    pub(super) fn offer(&mut self, now: Time, results: &mut Results) {
        while !results.course.is_stopping && self.has_room() {
            if let Some(items) = self.supply.intake.take_alike() {
                self.lanes.push(now, items, &self.gate);
                continue;
            }
            if !self.look(now, results) {
                break;
            }
            let capacity = &self.lanes.batcher.capacity;
            if let Some(error) = capacity.argument_error(self.supply.intake.record()) {
                let (lanes, why) = (&self.lanes, Failure::ArgumentError(error));
                let failed = |item: &Segment| {
                    let (text, records) = (lanes.text(item), lanes.complete(item));
                    Notice::Failed(Failed { item: item.first(), items: 1, text, records, why })
                };
                self.supply.reject(failed, Exit::CommandFailed);
                self.count_rejects(results);
            } else {
                self.push(now, results);
            }
        }
    }

    /// Looks at the next item read. Returns true if there is one.
    pub(super) fn look(&mut self, now: Time, results: &mut Results) -> bool {
        let is_argument = self.lanes.batcher.capacity.fills_arguments();
        let advice = self.supply.advice.on_encoding(&self.supply.intake, is_argument);
        advice.into_iter().for_each(|text| results.course.tell(Notice::Warning(text)));
        while !results.course.is_stopping && !self.supply.is_full() {
            match self.supply.intake.look() {
                None => return false,
                Some(Ok(())) => {
                    let advice = self.supply.advice.on_item(&self.supply.intake, is_argument);
                    advice.for_each(|text| results.course.tell(Notice::Warning(text)));
                    return true;
                }
                Some(Err(error)) if self.supply.on_bad == OnBad::Skip => {
                    let lanes = &self.lanes;
                    self.supply.reject(|item| Notice::BadItem(error, lanes.complete(item)), Exit::BadItem);
                    self.count_rejects(results);
                }
                Some(Err(error)) => {
                    self.supply.intake.clear();
                    self.end(now, Some(error));
                    return false;
                }
            }
        }
        false
    }

    pub(super) fn push(&mut self, now: Time, results: &mut Results) {
        if let Some(items) = self.supply.intake.take() {
            let (displaced, limit) = self.lanes.push(now, items, &self.gate);
            results.account.refuse(limit, displaced);
        }
    }

    /// Rejects the items whose turn for that has come.
    pub(super) fn count_rejects(&mut self, results: &mut Results) {
        while !results.course.is_stopping {
            let Some(reject) = self.supply.take_rejected(results.done()) else { return };
            results.reject(reject.item, reject.notice, reject.exit, self.ahead());
        }
    }

    /// Puts segments back in their places, charged under the present limits.
    pub(super) fn requeue(&mut self, segments: impl IntoIterator<Item = Segment>) {
        let items = segments.into_iter().flat_map(|segment| self.supply.intake.recharge(segment));
        self.lanes.requeue(items, &self.gate);
    }

    /// Recharges a running attempt under the present limits, which will count its end.
    pub(super) fn recharge(&mut self, now: Time, attempt: &mut Attempt) {
        let segments = attempt.batch.segments().iter().cloned();
        let items = segments.flat_map(|segment| self.supply.intake.recharge(segment));
        let sum = items.map(|items| items.charge).reduce(|sum, next| {
            let costs = self.lanes.batcher.sum(&sum.costs, &next.costs);
            Charge { costs, ..sum }
        });
        attempt.charge = sum.unwrap_or_else(|| attempt.charge.clone());
        self.gate.resume(now, &attempt.request());
    }

    /// Releases nothing with the keys of an attempt before `until`. Returns the end of the hold known so far, and the
    /// report of the new one if limits are shared.
    pub(super) fn hold(&mut self, now: Time, attempt: &Attempt, until: Time) -> (Time, Option<Task>) {
        let request = attempt.request();
        match self.gate.reservations_mut() {
            Some(slots) => (slots.held_until(&request), Some(slots.hold(now, &request, until))),
            None => (self.lanes.hold(now, &attempt.charge.keys, until, &self.gate), None),
        }
    }

    /// True if slots were asked for and the store has not answered.
    pub(super) fn is_asking(&self) -> bool {
        self.gate.reservations().is_some_and(Reservations::is_asking)
    }

    /// Drops slots that were not used in time, as of `now`.
    pub(super) fn expire(&mut self, now: Time) {
        self.has_lost_slot |= self.gate.reservations_mut().is_some_and(|slots| slots.expire(now));
    }

    /// Of the items of a lane that were never sent, refuses the first `items`, as `limit` does not admit them. If
    /// refusing is to end the run, tells the user with `notice` instead.
    pub(super) fn refuse(
        &mut self,
        at: usize,
        items: u64,
        limit: Option<usize>,
        notice: impl FnOnce(u64, Vec<u8>, Option<Rate>) -> Notice,
        results: &mut Results,
    ) {
        let fresh = self.lanes.lane(at).fresh().filter(|_| !results.course.is_stopping);
        let Some((_, Items { segment, .. })) = fresh else { return };
        let first = segment.first();
        if self.lanes.options.on_limit == OnLimit::Fail {
            let rate = limit.map(|limit| self.gate.rates()[limit].clone());
            results.course.tell(notice(first, self.lanes.text(segment), rate));
            return results.course.end(Exit::Refused);
        }
        self.lanes.discard(at, items, &self.gate);
        results.account.refuse(limit, items);
        results.retire(first, self.ahead().next);
    }

    /// Refuses the items that may not wait beyond `now`; if `missed`, only those that could not have gone in time.
    /// Returns true if there were any: what is behind them may go.
    pub(super) fn refuse_late(&mut self, now: Time, missed: bool, results: &mut Results) -> bool {
        if results.course.is_stopping {
            return false;
        }
        let late = self.lanes.late(&self.gate, now, missed);
        for &at in &late {
            let limit = self.lanes.blocked(at, &self.gate, now).and_then(Blocked::limit);
            let notice = |item, text, limit| Notice::Expired { item, text, limit };
            self.refuse(at, 1, limit, notice, results);
        }
        !late.is_empty()
    }

    /// Orders slots for waiting items, or gives slots back at the end. Slots after `latest` are of no use. Returns when
    /// to look again.
    pub(super) fn provide(
        &mut self,
        now: Time,
        latest: Option<Time>,
        may_grow: bool,
        is_over: bool,
        course: &mut Course,
    ) -> Option<Time> {
        let (lanes, gate) = (&mut self.lanes, &mut self.gate);
        let steps = if is_over {
            gate.reservations_mut().map(|slots| slots.close(now)).unwrap_or_default()
        } else if may_grow {
            // Nothing is ordered until its cost is known.
            return (gate.properties().batches.is_ahead && !lanes.is_empty()).then_some(now);
        } else {
            let demands =
                lanes.demands(now, latest, gate.reservations().map_or(0, Reservations::most_wanted));
            gate.want(now, demands, lanes.batcher.capacity.vacancies)
        };
        let Steps { tasks, closed, again } = steps;
        tasks.into_iter().for_each(|task| course.push(Action::Store(task)));
        let gate = &self.gate;
        // Other batches cost the same, whatever joins them.
        let may_cost_more = lanes.batcher.sums_costs();
        let fixed =
            closed.iter().filter(|(key, costs)| may_cost_more && lanes.fix(key.as_ref(), costs, gate));
        if fixed.count() > 0 { Some(now) } else { again }
    }

    /// Lets the limits evict what no item will ask about any more.
    ///
    /// A waiting item asks as of when it became next in line, so what was not idle by then is kept. While the input is
    /// not read, items may also be waiting outside.
    pub(super) fn evict(&mut self, now: Time) {
        // An admission that is being sent will be charged to accounts that must still exist.
        if self.spare.is_some() && self.gate.evict_at() <= now {
            let intake = &self.supply.intake;
            let is_accepting = intake.is_empty() && self.has_room();
            let is_waited_for = !self.lanes.batcher.has_ended() && !is_accepting;
            let outside = Some(intake.newest()).filter(|_| is_waited_for);
            let waiting = self.lanes.oldest().into_iter().chain(intake.arrival()).chain(outside);
            // An arrival may not have been reported yet: a wake-up may be late by a fraction of a second, but not by a
            // whole one.
            let untold = Time(now.0.saturating_sub(SECOND));
            self.gate.evict(now, waiting.fold(untold, Time::min));
        }
    }

    /// Notes when the next release may be. If that is never, and nothing may change it, ends the run.
    pub(super) fn set_next(&mut self, now: Time, next: Option<Time>, results: &mut Results) {
        // It may change if a limit from a file pauses, a limit counts running commands, or slots are booked.
        let may_change = || {
            // Limits may have hours that complement one another, and items that cost too much in all of them.
            let get_no_slots = || self.lanes.expected(&self.gate, now) == Some(Time::NEVER);
            let may_open = self.gate.properties().may_open && !get_no_slots();
            results.jobs.running() > 0 || may_open
        };
        let is_never = next == Some(Time::NEVER) && !may_change();
        self.next = next.and_then(Time::known);
        if is_never {
            let error =
                anyhow!("the next release would be later than any clock can show: shorten the period");
            results.course.give_up(Exit::Error, error);
        }
    }
}
