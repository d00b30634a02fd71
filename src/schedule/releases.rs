//! The way of an item: it is offered to the lanes, admitted, sent and committed, or refused; its command ends.

use std::rc::Rc;

use super::jobs::{Attempt, Outcome};
use super::supply::Next;
use super::{Action, Admission, Failed, Failure, HoldBegun, Notice, Schedule};
use crate::config::{OnLimit, Rate};
use crate::exit::{Exit, JobEnd};
use crate::gate::{Blocked, OwnedRequest, Part, Refusal, Request, Why};
use crate::rule::Verdict;
use crate::source::{ArgumentError, Capacity, Items, Segment};
use crate::time::{SECOND, Time};

/// Once a batch has this number of bytes, it is sent: the usual size of a pipe.
const WRITE: usize = 64 << 10;

/// A shorter pause is over before it is read.
const LEAST_TOLD: u64 = SECOND;

/// Whether more may be admitted at the same instant.
#[derive(PartialEq, Eq)]
enum Same {
    Instant,
    NoMore,
}

impl Schedule {
    /// What may leave at `now`, if anything.
    pub(super) fn admit(&mut self, now: Time, capacity: Capacity) -> Option<Box<Admission>> {
        let passes = self.may_pass(capacity);
        if !passes {
            self.offer(now);
        }
        self.timing.next = None;
        if self.course.is_stopping() || capacity.vacancies == 0 {
            return None;
        }
        if self.timing.not_before > now && !self.lanes.is_empty() {
            self.timing.next = Some(self.timing.not_before);
            return None;
        }
        self.gate.expire(now);
        let mut admission = self.spare.take().unwrap_or_default();
        admission.checked = now;
        let room = if self.lanes.must_gather() { 1 } else { capacity.vacancies.min(capacity.at_once) };
        let mut same = self.admit_waiting(now, room, &mut admission);
        if passes {
            while same == Same::Instant && self.pass(now, &mut admission) {
                same = self.admit_waiting(now, room, &mut admission);
            }
            self.look_ahead(now, &admission);
        } else {
            // What was refused has made room.
            while admission.batch().is_empty() && !self.lanes.must_gather() && self.may_offer() {
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

    fn may_offer(&self) -> bool {
        !self.course.is_stopping() && !self.supply.intake.is_empty() && self.has_room()
    }

    /// Finds when to release some of what waits.
    pub(super) fn gather(&mut self, now: Time) {
        self.gate.expire(now);
        match self.lanes.next(&*self.gate, now) {
            Ok(_) => self.timing.next = Some(self.timing.not_before.max(now)),
            Err(next) => self.set_next(next),
        }
    }

    /// With nothing to send, what was just offered decides how long to wait.
    fn look_ahead(&mut self, now: Time, admission: &Admission) {
        if admission.batch().is_empty() && !self.lanes.is_empty() && !self.course.is_stopping() {
            let next = self.lanes.next(&*self.gate, now);
            debug_assert!(next.is_err(), "what is allowed was admitted");
            self.set_next(next.err().flatten());
        }
    }

    /// Whether items may take the short way: past the lanes, as they lie in their buffer. What leaves like that leaves
    /// no trace in its lane, so nothing may depend on when that was.
    fn may_pass(&self, capacity: Capacity) -> bool {
        let intake = &self.supply.intake;
        intake.is_single()
            && intake.is_verbatim()
            && capacity.line.is_none()
            && self.lanes.discipline.on_limit == OnLimit::Wait
            && self.lanes.discipline.jitter.is_none()
            && self.gate.properties().lets_pass
            && !self.keeps_requests()
            && !self.lanes.batcher.forms_batches()
    }

    /// Whether what was asked for a release matters after that.
    fn keeps_requests(&self) -> bool {
        self.jobs.exist || self.account.is_observed()
    }

    /// Lets what was read join the lanes, as far as they have room.
    pub(super) fn offer(&mut self, now: Time) {
        while !self.course.is_stopping() && self.has_room() {
            if let Some(items) = self.supply.intake.take_alike() {
                self.lanes.push(items, &*self.gate);
            } else if self.look(now) {
                let is_argument = self.lanes.batcher.fills_arguments();
                let warning = self.supply.line_end_warning(is_argument);
                warning.into_iter().for_each(|warning| self.course.tell(warning));
                match self.lanes.batcher.argument_error(self.supply.intake.record()) {
                    Some(error) => {
                        let why = |segment: &_| Notice::Failed(self.lanes.failed(segment, error));
                        self.supply.reject(why, Exit::CommandFailed);
                        self.count_rejects();
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
        while !self.course.is_stopping() && !self.supply.is_full() {
            match self.supply.look() {
                Next::Nothing => return false,
                Next::Item => return true,
                Next::Bad(error) => {
                    self.supply.reject(|_| Notice::BadItem(error), Exit::BadItem);
                    self.count_rejects();
                }
                Next::End(error) => {
                    self.supply.intake.clear();
                    self.end_of_input(now, Some(error));
                    return false;
                }
            }
        }
        false
    }

    fn push(&mut self) {
        if let Some(items) = self.supply.intake.take() {
            let displaced = self.lanes.push(items, &*self.gate);
            self.account.refuse(None, displaced);
        }
    }

    /// Counts the items whose turn to be rejected has come.
    pub(super) fn count_rejects(&mut self) {
        while !self.course.is_stopping() {
            let done = self.done();
            let Some(reject) = self.supply.take_rejected(done) else { return };
            self.account.settle(1);
            self.course.tell(reject.notice);
            self.finish(reject.item, 1, Some(reject.exit));
        }
    }

    /// Admits what waits in lanes. Returns whether what came later may go at the same instant.
    fn admit_waiting(&mut self, now: Time, room: u64, admission: &mut Admission) -> Same {
        let mut left = room;
        while left > 0 && admission.batch().bytes() < WRITE && !self.course.is_stopping() {
            match self.lanes.next(&*self.gate, now) {
                Ok(at) => {
                    if self.admit_lane(at, now, &mut left, admission) == Same::NoMore {
                        return Same::NoMore;
                    }
                }
                Err(next) => {
                    self.set_next(next);
                    return Same::Instant;
                }
            }
        }
        Same::NoMore
    }

    /// Admits what a lane would release next, in up to `left` releases.
    fn admit_lane(&mut self, at: usize, now: Time, left: &mut u64, admission: &mut Admission) -> Same {
        let (lane, discipline) = (self.lanes.lane(at), self.lanes.discipline);
        let Some(((front, open), since)) = lane.front().zip(lane.open()).zip(lane.since()) else {
            return Same::NoMore;
        };
        let is_judged = discipline.judges(front);
        let keys = Rc::clone(&front.charge.keys);
        let request = Request { since, costs: &open.costs, keys: &keys };
        if let Some(jitter) = discipline.jitter.filter(|_| !lane.is_delayed())
            && (is_judged || self.gate.fits(&mut admission.charges, now, &request))
        {
            let delay = jitter.delay(front.segment.first(), front.segment.attempt());
            let until = now.checked_add(delay.into()).unwrap_or(Time(u64::MAX));
            self.lanes.delay(at, until, &*self.gate);
            return Same::Instant;
        }
        let since = if is_judged { since.max(lane.delayed_until()) } else { since };
        let request = Request { since, ..request };
        if is_judged && let Some(refusal) = self.gate.refusing(&admission.charges, &request) {
            return self.refuse_next(at, now, refusal, admission);
        }
        let (gate, charges) = (&mut self.gate, &mut admission.charges);
        let mut fits = |costs: &[u64]| gate.fits(charges, now, &Request { costs, ..request });
        let open = self.lanes.batcher.complete(open, lane.waiting(), &mut fits);
        let forms_batches = self.lanes.batcher.forms_batches();
        let most = if forms_batches { 1 } else { front.segment.items().min(*left) };
        let asked = OwnedRequest { since, costs: open.costs, keys };
        match gate.admit(charges, now, &asked.request(), most) {
            Ok(releases) => {
                let items = if forms_batches { open.items } else { releases };
                let segments = self.lanes.take(at, items, now, &**gate);
                admission.add(at, segments, forms_batches);
                if self.keeps_requests() {
                    admission.asked.push((releases, asked));
                }
                *left -= releases;
                Same::Instant
            }
            // What others ask of the common limits may be less, but that can go next.
            Err(Blocked::Common) if !admission.batch().is_empty() => Same::NoMore,
            Err(_) => {
                self.lanes.pass_over(at);
                admission.deferred.push(at);
                Same::Instant
            }
        }
    }

    /// Lets items pass that find their lane empty and all limits open; the others join their lanes. Returns whether the
    /// last of those may be admitted all the same.
    fn pass(&mut self, now: Time, admission: &mut Admission) -> bool {
        while admission.batch().bytes() < WRITE
            && !self.course.is_stopping()
            && self.has_room()
            && self.look(now)
        {
            let intake = &mut self.supply.intake;
            let since = intake.arrival().unwrap_or(now);
            let draft = intake.draft();
            let request = Request { since, costs: &draft.costs, keys: &draft.keys };
            let may_pass = self.lanes.would_be_alone(request.keys);
            if may_pass && self.gate.admit(&mut admission.charges, now, &request, 1).is_ok() {
                intake.pass().into_iter().for_each(|segment| admission.push(segment));
            } else if may_pass && !admission.batch().is_empty() {
                // What is admitted already may be what holds it up.
                let items = intake.take().into_iter();
                admission.deferred.extend(items.map(|items| self.lanes.push_over(items, &*self.gate)));
            } else {
                self.push();
                if !may_pass {
                    return true;
                }
            }
        }
        false
    }

    /// Refuses what a lane would release next. Returns whether what came later may go at the same instant.
    fn refuse_next(&mut self, at: usize, now: Time, refusal: Refusal, admission: &Admission) -> Same {
        // By how much it is early is known once those before it are charged.
        if self.lanes.discipline.on_limit == OnLimit::Fail && !admission.batch().is_empty() {
            return Same::NoMore;
        }
        self.refuse(at, refusal);
        if !self.lanes.must_gather() {
            return Same::Instant;
        }
        // What has arrived as well has room now, and may join the next batch.
        self.timing.is_due = false;
        self.timing.next = Some(now);
        Same::NoMore
    }

    /// What could not go at its arrival.
    fn refuse(&mut self, at: usize, Refusal { limit, allowed }: Refusal) {
        let lane = self.lanes.lane(at);
        let Some((front, open)) = lane.front().zip(lane.open()) else { return };
        if self.lanes.discipline.on_limit == OnLimit::Fail {
            let asked = |_, request: &Request| {
                let answer = || self.gate.ask(Part::All, request, request.since).from.instant();
                allowed.or_else(answer).map(|at| at.since(request.since))
            };
            let early = self.lanes.with_request(lane, asked).flatten();
            let (item, text, limit) = self.refused(front, limit);
            self.course.tell(Notice::Refused { item, text, limit, early });
            return self.course.end(Exit::Refused);
        }
        self.discard(at, limit, open.items);
    }

    /// Refuses what has waited in front of a lane for too long.
    fn expire(&mut self, at: usize) {
        let lane = self.lanes.lane(at);
        let Some(front) = lane.front().filter(|_| !self.course.is_stopping()) else { return };
        let why = self.lanes.with_request(lane, |_, request| self.gate.why(request)).flatten();
        let limit = why.and_then(Why::limit);
        if self.lanes.discipline.on_limit == OnLimit::Fail {
            let (item, text, limit) = self.refused(front, limit);
            self.course.tell(Notice::Expired { item, text, limit });
            return self.course.end(Exit::Refused);
        }
        self.discard(at, limit, 1);
    }

    /// What is told of an item that a limit refuses: its number, the item itself, and the limit.
    fn refused(&self, front: &Items, limit: Option<usize>) -> (u64, Vec<u8>, Option<Rate>) {
        let limit = limit.map(|limit| self.gate.rates()[limit].clone());
        (front.segment.first(), self.lanes.text(&front.segment), limit)
    }

    /// Refuses the first `items` of a lane, by this limit.
    fn discard(&mut self, at: usize, limit: Option<usize>, items: u64) {
        let first = self.lanes.lane(at).front().map(|front| front.segment.first());
        self.account.refuse(limit, items);
        self.lanes.discard(at, items, &*self.gate);
        first.into_iter().for_each(|first| self.retire(first));
    }

    /// When the first of those that wait for a while is refused, if they are.
    pub(super) fn first_deadline(&self) -> Option<Time> {
        self.lanes.fresh().next().and_then(|at| self.lanes.deadline(at))
    }

    /// Refuses all that was too late before `now`, and could not have gone in time. What could, and was woken too late,
    /// goes.
    pub(super) fn refuse_overdue(&mut self, now: Time) {
        while self.refuse_late(now, |schedule, at, deadline| {
            let by = Verdict::At(deadline.max(schedule.lanes.lane(at).previous()));
            deadline < now && schedule.lanes.ask(at, &*schedule.gate, Part::All, Time::ZERO).from > by
        }) {}
    }

    /// Refuses the front of each lane that may not wait beyond `now`. Returns whether there was any: what is behind it
    /// may go.
    pub(super) fn refuse_expired(&mut self, now: Time) -> bool {
        self.refuse_late(now, |_, _, _| true)
    }

    /// Refuses the front of each lane that may not wait beyond `now` and `is_late`. Returns whether there was any.
    fn refuse_late(&mut self, now: Time, is_late: impl Fn(&Self, usize, Time) -> bool) -> bool {
        if self.lanes.discipline.max_wait.is_none() || self.course.is_stopping() {
            return false;
        }
        let deadlines = self.lanes.fresh().map_while(|at| Some((at, self.lanes.deadline(at)?)));
        // What came first is due first.
        let due = deadlines.take_while(|(_, deadline)| *deadline <= now);
        let late = due.filter(|&(at, deadline)| is_late(self, at, deadline)).map(|(at, _)| at);
        let late: Vec<_> = late.collect();
        late.iter().for_each(|&at| self.expire(at));
        !late.is_empty()
    }

    /// The first `items` of what was admitted have left, by `now`. The others are put back.
    pub fn sent(&mut self, now: Time, mut admission: Box<Admission>, items: u64) {
        self.timing.good_until = admission.good_until();
        self.commit(now, &mut admission, items);
        self.account.leave(now, &admission, items);
        if items > 0 {
            self.lanes.batcher.was_timely();
        }
        if items == admission.batch().items() && !self.jobs.exist {
            self.account.add_bytes(admission.batch().bytes() as u64);
        } else {
            let (gone, rest) = self.lanes.split(&mut admission, items);
            self.requeue(rest);
            self.start_attempt(&mut admission, gone);
        }
        self.recycle(now, admission);
    }

    /// Keeps what nothing is left of for its memory. The lanes that it deferred may be asked again.
    fn recycle(&mut self, now: Time, mut admission: Box<Admission>) {
        self.lanes.finish(now, &admission, &*self.gate);
        admission.clear();
        self.spare = Some(admission);
    }

    /// Charges the releases of the first `items`.
    fn commit(&mut self, now: Time, admission: &mut Admission, items: u64) {
        // More of the same instant may be let in now.
        self.timing.is_due = false;
        let releases = admission.batch().releases_of(items);
        let reports = self.gate.commit(&mut admission.charges, now, releases, !self.jobs.exist);
        reports.into_iter().for_each(|report| self.course.push(Action::Book(report)));
        self.account.charge(now, admission, releases);
    }

    /// What has left is running now, if commands are run; otherwise it is done with.
    fn start_attempt(&mut self, admission: &mut Admission, segments: Vec<Segment>) {
        let Some(front) = segments.first() else { return };
        let Some((_, asked)) = admission.asked.pop().filter(|_| self.jobs.exist) else {
            let bytes = segments.iter().map(|segment| segment.bytes().len() as u64);
            return self.account.add_bytes(bytes.sum());
        };
        let first = front.first();
        if front.attempt() > 1 {
            self.account.retry(&asked.costs, segments.iter().map(Segment::items).sum());
        }
        self.jobs.start(first, Attempt { segments, asked, started: admission.checked });
    }

    /// It cannot be sent at `now`, for want of something that others use. It is tried again after a pause.
    pub fn busy(&mut self, now: Time, admission: Box<Admission>, pause: u64) {
        self.cancel(now, admission);
        self.timing.not_before = now.checked_add(pause.into()).unwrap_or(now);
    }

    /// It was not sent.
    pub fn cancel(&mut self, now: Time, mut admission: Box<Admission>) {
        self.commit(now, &mut admission, 0);
        let (_, segments) = self.lanes.split(&mut admission, 0);
        self.requeue(segments);
        self.recycle(now, admission);
    }

    /// It was not sent, as its slot was over by the time that it was formed.
    pub fn late(&mut self, now: Time, admission: Box<Admission>) {
        self.lanes.batcher.was_late(admission.batch().items());
        self.cancel(now, admission);
    }

    /// It was too long for the system, whatever was known of its capacity: it is made smaller, as xargs does.
    pub fn too_long(&mut self, now: Time, mut admission: Box<Admission>) {
        match admission.batch().segments() {
            [only] if only.items() == 1 => {
                let failed = self.lanes.failed(only, ArgumentError::Line);
                self.commit(now, &mut admission, 0);
                self.account.settle(1);
                let item = failed.item;
                self.course.tell(Notice::Failed(failed));
                self.finish(item, 1, Some(Exit::CommandFailed));
                self.recycle(now, admission);
            }
            _ => {
                self.lanes.batcher.shrink(admission.batch().items());
                self.cancel(now, admission);
            }
        }
    }

    /// Puts segments back in their places, each with its charge under the present limits.
    pub(super) fn requeue(&mut self, segments: impl IntoIterator<Item = Segment>) {
        let items = segments.into_iter().flat_map(|segment| self.supply.intake.recharge(segment));
        self.lanes.requeue(items, &*self.gate);
    }

    /// A command has ended: its items are done with, or tried again.
    pub fn job_ended(&mut self, now: Time, ended: &JobEnd) {
        let Some(attempt) = self.jobs.end(ended.first) else { return };
        self.gate.finish(now, &attempt.asked.request());
        let is_shared = self.hold(now, ended, &attempt);
        match self.jobs.retries.outcome(ended, attempt.number()) {
            Outcome::Retry { after, holds } if !self.course.is_stopping() => {
                let until = now.checked_add(after.into()).unwrap_or(Time(u64::MAX));
                self.account.unsettle(attempt.items());
                self.jobs.retries.add(self.failed(ended, &attempt));
                // What is shared is held by the store, and may be lifted there.
                let until = if is_shared { now } else { until };
                self.retry(ended.first, attempt.segments, until, holds);
            }
            Outcome::Completed => self.complete(ended.first, &attempt, None),
            Outcome::Retry { .. } | Outcome::Failed => {
                if !self.jobs.halting.have_succeeded() {
                    self.course.tell(Notice::Failed(self.failed(ended, &attempt)));
                }
                self.complete(ended.first, &attempt, Some(Exit::of_command(ended.end)));
            }
        }
    }

    /// Releases nothing with the same keys for as long as a server asks, whether or not the command has failed. Returns
    /// whether all who share the limits are told.
    fn hold(&mut self, now: Time, ended: &JobEnd, attempt: &Attempt) -> bool {
        let Some((asked, held)) = ended.retry_after.zip(self.jobs.retries.hold(ended)) else { return false };
        let until = now.checked_add(held.into()).unwrap_or(Time(u64::MAX));
        let request = attempt.asked.request();
        let mut known = self.gate.held_until(&request);
        let order = self.gate.hold(now, &request, until);
        let is_shared = order.is_some();
        match order {
            Some(order) => self.course.push(Action::Book(order)),
            None => known = self.lanes.hold(now, &attempt.asked.keys, until, &*self.gate),
        }
        // Many commands may be told of the same pause, each in other words.
        let is_news = until.since(known.max(now)) >= LEAST_TOLD.max(known.since(now));
        if is_news && !self.course.is_stopping() {
            let by_key = !self.lanes.discipline.in_order && !attempt.asked.keys.is_empty();
            let text = self.text_of(attempt);
            let begun = HoldBegun { item: ended.first, text, asked, held, until, by_key };
            self.course.tell(Notice::Hold(begun));
        }
        is_shared
    }

    /// Tries again after `until`. A backoff delays its own items only; `holds`, from a server, delays the lane.
    fn retry(&mut self, first: u64, segments: Vec<Segment>, until: Time, holds: bool) {
        let again = segments.into_iter().map(|segment| segment.again(first, until)).collect::<Vec<_>>();
        if holds || self.lanes.discipline.in_order {
            self.requeue(again);
        } else {
            self.jobs.retries.back_off(until, again);
        }
    }

    fn complete(&mut self, first: u64, attempt: &Attempt, failure: Option<Exit>) {
        self.account.add_bytes(attempt.bytes());
        if failure.is_some() {
            self.account.fail(&attempt.asked.costs, attempt.items());
        }
        self.finish(first, attempt.items(), failure);
    }

    /// What is to be told of an attempt that failed.
    fn failed(&self, ended: &JobEnd, attempt: &Attempt) -> Failed {
        let why = if ended.timed_out { Failure::TimedOut } else { Failure::Ended(ended.end) };
        Failed { item: ended.first, items: attempt.items(), text: self.text_of(attempt), why }
    }

    /// The first item.
    fn text_of(&self, attempt: &Attempt) -> Vec<u8> {
        attempt.segments.first().map_or_else(Vec::new, |segment| self.lanes.text(segment))
    }

    /// Items are done with, well or not.
    fn finish(&mut self, first: u64, items: u64, failure: Option<Exit>) {
        self.jobs.retries.remove(first);
        self.retire(first);
        if let Some(exit) = failure {
            self.account.add_failed(items);
            if !self.jobs.halting.have_succeeded() {
                self.course.raise(exit);
            }
            if exit.ends_the_run() {
                self.course.stop();
            }
        }
        let all = self.lanes.batcher.has_ended().then(|| self.supply.items());
        let halt = self.jobs.halting.count(items, failure.is_some(), all);
        if let Some(halt) = halt.filter(|_| !self.course.is_stopping()) {
            let items = self.jobs.halting.counted(halt.on);
            self.course.tell(Notice::Halted { items, on: halt.on });
            match self.jobs.halting.have_succeeded() {
                true => self.course.succeed(),
                false => self.course.stop(),
            }
            if halt.now {
                self.course.push(self.jobs.interrupt());
            }
        }
    }

    /// Tells how far all items have been started.
    fn retire(&mut self, first: u64) {
        if self.jobs.keep_order {
            let next = self.lanes.first().unwrap_or(u64::MAX).min(self.supply.intake.first());
            self.course.push(Action::Retire { first, next });
        }
    }
}
