//! Admission: what may leave at an instant, and what becomes of it.

use std::rc::Rc;

use super::attempts::Attempt;
use super::{Action, Admission, Failed, Failure, Notice, OwnedRequest, Schedule};
use crate::config::{OnBad, OnLimit};
use crate::exit::Exit;
use crate::gate::{Blocked, Refusal, Request};
use crate::source::{ArgumentError, Capacity, Segment};
use crate::time::Time;

/// Once a batch has so many bytes, it is sent: the usual size of a pipe.
const WRITE: usize = 64 << 10;

/// Whether more may be admitted at the same instant.
#[derive(PartialEq, Eq)]
enum Next {
    More,
    NoMore,
}

impl Schedule {
    /// What may leave at `now`, if anything.
    pub(super) fn admit(&mut self, now: Time, capacity: Capacity) -> Option<Box<Admission>> {
        let passes = self.may_pass(capacity);
        if !passes {
            self.offer(now);
        }
        self.next = None;
        if self.stopping || capacity.vacancies == 0 {
            return None;
        }
        if self.not_before > now && !self.queue.is_empty() {
            self.next = Some(self.not_before);
            return None;
        }
        self.rules.gate.expire(now);
        let mut admission = self.spare.take().unwrap_or_default();
        admission.checked = now;
        let room = if self.matters_together() { 1 } else { capacity.vacancies.min(capacity.at_once) };
        let mut next = self.admit_waiting(now, room, &mut admission);
        if passes {
            while next == Next::More && self.pass(now, &mut admission) {
                next = self.admit_waiting(now, room, &mut admission);
            }
            self.look_ahead(now, &admission);
        } else {
            // What was refused has made room.
            while admission.batch().is_empty()
                && !self.matters_together()
                && !self.stopping
                && !self.intake.is_empty()
                && self.has_room()
            {
                self.offer(now);
                self.admit_waiting(now, room, &mut admission);
            }
        }
        if admission.batch().is_empty() {
            self.recycle(now, admission);
            return None;
        }
        Some(admission)
    }

    /// Finds when to release some of what waits.
    pub(super) fn gather(&mut self, now: Time) {
        self.rules.gate.expire(now);
        match self.queue.next(&self.rules, now) {
            Ok(_) => self.next = Some(self.not_before.max(now)),
            Err(next) => self.set_next(next),
        }
    }

    /// With nothing to send, what was just offered decides how long to wait.
    fn look_ahead(&mut self, now: Time, admission: &Admission) {
        if admission.batch().is_empty() && !self.queue.is_empty() && !self.stopping {
            let next = self.queue.next(&self.rules, now);
            debug_assert!(next.is_err(), "what is allowed was admitted");
            self.set_next(next.err().flatten());
        }
    }

    /// Whether items may take the short way: past the lanes, as they lie in their buffer. What leaves like that leaves no
    /// trace in its lane, so nothing may depend on when that was.
    fn may_pass(&self, capacity: Capacity) -> bool {
        self.intake.is_single()
            && self.intake.is_verbatim()
            && capacity.line.is_none()
            && self.rules.on_limit == OnLimit::Wait
            && self.rules.jitter.is_none()
            && self.rules.gate.lets_pass()
            && !self.mode.runs_commands
            && !self.rules.batcher.forms_batches()
    }

    /// Lets what was read join the lanes, as far as they have room.
    pub(super) fn offer(&mut self, now: Time) {
        while !self.stopping && self.has_room() {
            if let Some(items) = self.intake.take_alike() {
                self.queue.push(items, &self.rules);
            } else if self.look(now) {
                self.check_line_end();
                match self.rules.batcher.argument_error(self.intake.record()) {
                    Some(argument_error) => {
                        let why =
                            |schedule: &Self, segment: &_| schedule.argument_error(segment, argument_error);
                        self.reject(why, Exit::CommandFailed);
                    }
                    None => self.push(),
                }
            } else {
                break;
            }
        }
    }

    /// Looks at the next item that was read. Returns whether there is one.
    pub(super) fn look(&mut self, now: Time) -> bool {
        while !self.stopping && !self.rejects.are_full() {
            match self.intake.look() {
                None => return false,
                Some(Ok(())) => return true,
                Some(Err(error)) if self.on_bad == OnBad::Skip => {
                    self.reject(|_, _| Notice::BadItem(error), Exit::BadItem);
                }
                Some(Err(error)) => {
                    self.intake.clear();
                    self.end_of_input(now, Some(error));
                    return false;
                }
            }
        }
        false
    }

    /// Lines from Windows end in CR, LF: few commands expect the CR. Told once.
    fn check_line_end(&mut self) {
        let is_line = self.delimiter.is(b"\n") && self.rules.batcher.fills_arguments();
        if is_line && !self.told.line_end && self.intake.record().ends_with(b"\r") {
            self.told.line_end = true;
            let item = self.intake.first();
            self.tell(Notice::Warning(format!(
                "item {item} ends in a carriage return, which COMMAND gets: add --trim, or filter with tr -d '\\r'"
            )));
        }
    }

    fn push(&mut self) {
        if let Some(items) = self.intake.take() {
            let displaced = self.queue.push(items, &self.rules);
            self.stats.refuse(displaced);
            self.tally.refuse(None, displaced);
        }
    }

    /// What is to be told of an item that cannot be given to a command.
    fn argument_error(&self, segment: &Segment, argument_error: ArgumentError) -> Notice {
        let text = self.delimiter.trim(segment.bytes()).to_vec();
        let (item, items) = (segment.first(), segment.items());
        Notice::Failed(Failed { item, items, text, why: Failure::ArgumentError(argument_error) })
    }

    /// Admits what waits in lanes. Returns whether what came later may go at the same instant.
    fn admit_waiting(&mut self, now: Time, room: u64, admission: &mut Admission) -> Next {
        let mut left = room;
        while left > 0 && admission.batch().bytes() < WRITE && !self.stopping {
            match self.queue.next(&self.rules, now) {
                Ok(at) => {
                    if self.admit_lane(at, now, &mut left, admission) == Next::NoMore {
                        return Next::NoMore;
                    }
                }
                Err(next) => {
                    self.set_next(next);
                    return Next::More;
                }
            }
        }
        Next::NoMore
    }

    /// Admits what a lane would release next, in up to `left` releases.
    fn admit_lane(&mut self, at: usize, now: Time, left: &mut u64, admission: &mut Admission) -> Next {
        let lane = self.queue.lane(at);
        let Some(((front, open), since)) = lane.front().zip(lane.open()).zip(lane.since()) else {
            return Next::NoMore;
        };
        let keys = Rc::clone(&front.charge.keys);
        let request = Request { since, costs: &open.costs, keys: &keys };
        if let Some(jitter) = self.rules.jitter.filter(|_| !lane.is_delayed())
            && (self.rules.judges(front) || self.rules.gate.fits(&mut admission.charges, now, &request))
        {
            let delay = jitter.delay(front.segment.first(), front.segment.attempt());
            let until = now.checked_add(delay.into()).unwrap_or(Time(u64::MAX));
            self.queue.delay(at, until, &self.rules);
            return Next::More;
        }
        let since = if self.rules.judges(front) { since.max(lane.delayed_until()) } else { since };
        if self.rules.judges(front)
            && let Some(refusal) = self
                .rules
                .gate
                .refusing(&admission.charges, &Request { since, costs: &open.costs, keys: &keys })
        {
            // By how much it is early is known once those before it are charged.
            if self.rules.on_limit == OnLimit::Fail && !admission.batch().is_empty() {
                return Next::NoMore;
            }
            self.refuse(at, refusal);
            if !self.matters_together() {
                return Next::More;
            }
            // What has arrived as well has room now, and may join the next batch.
            self.is_due = false;
            self.next = Some(now);
            return Next::NoMore;
        }
        let (gate, charges) = (&mut self.rules.gate, &mut admission.charges);
        let mut fits = |costs: &[u64]| gate.fits(charges, now, &Request { since, costs, keys: &keys });
        let open = self.rules.batcher.complete(open, lane.waiting(), &mut fits);
        let forms_batches = self.rules.batcher.forms_batches();
        let most = if forms_batches { 1 } else { front.segment.items().min(*left) };
        let asked = OwnedRequest { since, costs: open.costs, keys };
        match gate.admit(charges, now, &asked.request(), most) {
            Ok(releases) => {
                let items = if forms_batches { open.items } else { releases };
                let segments = self.queue.take(at, items, now, &self.delimiter, &self.rules);
                admission.add(at, segments, forms_batches);
                admission.last = Some(asked).filter(|_| self.mode.runs_commands);
                *left -= releases;
                Next::More
            }
            // What others ask of the common limits may be less, but that can go next.
            Err(Blocked::Common) if !admission.batch().is_empty() => Next::NoMore,
            Err(_) => {
                self.queue.pass_over(at);
                admission.deferred.push(at);
                Next::More
            }
        }
    }

    /// Lets items pass that find their lane empty and all limits open; the others join their lanes. Returns whether the
    /// last of those may be admitted all the same.
    fn pass(&mut self, now: Time, admission: &mut Admission) -> bool {
        while admission.batch().bytes() < WRITE && !self.stopping && self.has_room() && self.look(now) {
            let since = self.intake.arrival().unwrap_or(now);
            let draft = self.intake.draft();
            let request = Request { since, costs: &draft.costs, keys: &draft.keys };
            let may_pass = self.queue.would_be_alone(request.keys);
            if may_pass && self.rules.gate.admit(&mut admission.charges, now, &request, 1).is_ok() {
                self.intake.pass().into_iter().for_each(|segment| admission.push(segment));
            } else {
                // What is admitted already may be what holds it up.
                if may_pass && !admission.batch().is_empty() {
                    let items = self.intake.take().into_iter();
                    admission.deferred.extend(items.map(|items| self.queue.push_over(items, &self.rules)));
                    continue;
                }
                self.push();
                if !may_pass {
                    return true;
                }
            }
        }
        false
    }

    /// What could not go at its arrival.
    fn refuse(&mut self, at: usize, refusal: Refusal) {
        let lane = self.queue.lane(at);
        let Some(((front, open), since)) = lane.front().zip(lane.open()).zip(lane.since()) else { return };
        let since = since.max(lane.delayed_until());
        let (items, first, previous) = (open.items, front.segment.first(), lane.previous());
        let Refusal(limit) = refusal;
        if self.rules.on_limit == OnLimit::Fail {
            let request = Request { since, costs: &open.costs, keys: &front.charge.keys };
            let early = self.rules.gate.allowed_at(&request).map(|at| at.since(since));
            let record = self.delimiter.split(front.segment.bytes()).next();
            let text = record.unwrap_or_default().to_vec();
            let limit = limit.map(|limit| self.rules.gate.rates()[limit].clone());
            self.tell(Notice::Refused { item: first, text, limit, early });
            self.exit = self.exit.max(Exit::Refused);
            self.stopping = true;
            return;
        }
        self.stats.refuse(items);
        self.tally.refuse(limit, items);
        self.queue.discard(at, items, previous, &self.delimiter, &self.rules);
        self.settle(first);
    }

    /// The first `items` of what was admitted have left, by `now`. The others are put back.
    pub fn sent(&mut self, now: Time, mut admission: Box<Admission>, items: u64) {
        self.good_until = admission.good_until();
        self.commit(now, &mut admission, items);
        let attempt = admission.batch().attempt();
        if items == admission.batch().items() && !self.mode.runs_commands {
            self.stats.bytes += admission.batch().bytes() as u64;
        } else {
            let (gone, rest) = admission.split(items, &self.delimiter);
            self.requeue(rest);
            self.start_attempt(&mut admission, gone);
        }
        if items > 0 {
            self.rules.batcher.was_timely();
            self.stats.leave(now, items);
        }
        if attempt > 1 {
            self.stats.retried += items;
        } else {
            self.stats.released += items;
        }
        self.stats.settled += items;
        self.recycle(now, admission);
    }

    /// Keeps what nothing is left of for its memory. The lanes that it deferred may be asked again.
    fn recycle(&mut self, now: Time, mut admission: Box<Admission>) {
        self.queue.settle(now, &admission.lanes, &admission.deferred, &self.rules);
        admission.clear();
        self.spare = Some(admission);
    }

    /// Charges the releases of the first `items`.
    fn commit(&mut self, now: Time, admission: &mut Admission, items: u64) {
        // More of the same instant may be let in now.
        self.is_due = false;
        let releases = admission.batch().releases_of(items);
        let over = !self.mode.runs_commands;
        let reports = self.rules.gate.commit(&mut admission.charges, now, releases, over);
        self.actions.extend(reports.into_iter().map(Action::Book));
    }

    /// What has left is running now, if commands are run; otherwise it is done with.
    fn start_attempt(&mut self, admission: &mut Admission, segments: Vec<Segment>) {
        let Some(first) = segments.first().map(Segment::first) else { return };
        let Some(asked) = admission.last.take() else {
            self.stats.bytes += segments.iter().map(|segment| segment.bytes().len() as u64).sum::<u64>();
            return;
        };
        if segments.first().is_some_and(|segment| segment.attempt() > 1) {
            self.tally.retry(&asked.costs, segments.iter().map(Segment::items).sum());
        }
        self.attempts.start(first, Attempt { segments, asked, started: admission.checked });
    }

    /// It cannot be sent at `now`, for want of something that others use. It is tried again after a pause.
    pub fn busy(&mut self, now: Time, admission: Box<Admission>, pause: u64) {
        self.cancel(now, admission);
        self.not_before = now.checked_add(pause.into()).unwrap_or(now);
    }

    /// It was not sent.
    pub fn cancel(&mut self, now: Time, mut admission: Box<Admission>) {
        self.commit(now, &mut admission, 0);
        let (_, segments) = admission.split(0, &self.delimiter);
        self.requeue(segments);
        self.recycle(now, admission);
    }

    /// It was not sent, as its slot was over by the time that it was formed.
    pub fn late(&mut self, now: Time, admission: Box<Admission>) {
        self.rules.batcher.was_late(admission.batch().items());
        self.cancel(now, admission);
    }

    /// It was too long for the system, whatever was known of its capacity: it is made smaller, as xargs does.
    pub fn too_long(&mut self, now: Time, mut admission: Box<Admission>) {
        match admission.batch().segments() {
            [only] if only.items() == 1 => {
                let only = only.clone();
                self.commit(now, &mut admission, 0);
                self.stats.settled += 1;
                self.tell(self.argument_error(&only, ArgumentError::Line));
                self.finish(only.first(), 1, Some(Exit::CommandFailed));
                self.recycle(now, admission);
            }
            _ => {
                self.rules.batcher.shrink(admission.batch().items());
                self.cancel(now, admission);
            }
        }
    }

    /// Tells how far all items have been started.
    pub(super) fn settle(&mut self, first: u64) {
        if self.mode.keeps_order {
            let next = self.queue.first().unwrap_or(u64::MAX).min(self.intake.first());
            self.actions.push_back(Action::Settle { first, next });
        }
    }
}
