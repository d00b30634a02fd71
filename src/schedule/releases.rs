//! The path of a release: items are admitted, from the lanes or past them, and committed once they have left.

use std::ops::ControlFlow::{self, Break, Continue};
use std::rc::Rc;

use super::queue::Queue;
use super::results::Results;
use super::{Action, Admission, Notice};
use crate::charge::Charge;
use crate::config::OnLimit;
use crate::gate::{Request, Scope};
use crate::time::Time;

/// A batch is sent once it has this number of bytes: the usual size of a pipe.
const WRITE: usize = 64 << 10;

impl Queue {
    /// Admits everything that may leave at `now`, if there is anything.
    pub(super) fn admit(&mut self, now: Time, results: &mut Results) -> Option<Box<Admission>> {
        let passes = self.may_pass(results);
        if !passes {
            self.offer(now, results);
        }
        self.next = None;
        let capacity = self.lanes.batcher.capacity;
        if results.course.is_stopping || capacity.vacancies == 0 {
            return None;
        }
        if !self.is_accepting(results) {
            self.lanes.flush(now, &self.gate);
        }
        if self.not_before > now && !self.lanes.is_empty() {
            self.next = Some(self.not_before);
            return None;
        }
        self.expire(now);
        let mut admission = self.spare.take().unwrap_or_default();
        admission.checked = now;
        let room = if self.lanes.must_gather() { 1 } else { capacity.vacancies.min(capacity.at_once) };
        let mut flow = self.admit_waiting(room, &mut admission, results);
        if passes {
            while flow.is_continue() && self.pass(&mut admission, results) {
                flow = self.admit_waiting(room, &mut admission, results);
            }
            // With nothing to send, the items that just joined their lanes decide how long to wait.
            if admission.batch.is_empty() {
                _ = self.admit_waiting(room, &mut admission, results);
            }
        } else {
            // Refused items have made room for more.
            while admission.batch.is_empty()
                && !(self.lanes.must_gather() || self.supply.intake.is_empty())
                && self.has_room()
                && !results.course.is_stopping
            {
                self.offer(now, results);
                _ = self.admit_waiting(room, &mut admission, results);
            }
        }
        if admission.batch.is_empty() {
            self.recycle(now, admission);
            return None;
        }
        Some(admission)
    }

    /// Finds out when the next release may be, without admitting anything.
    pub(super) fn gather(&mut self, now: Time, results: &mut Results) {
        self.expire(now);
        match self.lanes.next(&self.gate, now) {
            Ok(_) => self.next = Some(self.not_before.max(now)),
            Err(next) => self.set_next(now, next, results),
        }
    }

    /// True if items may skip the lanes and stay in their block. They leave no trace in a lane, so nothing may depend
    /// on when they left; nor are they counted against the capacity, so the sink must take any number.
    fn may_pass(&self, results: &Results) -> bool {
        let (intake, properties) = (&self.supply.intake, self.gate.properties());
        intake.is_single()
            && intake.is_verbatim()
            && self.lanes.batcher.capacity.line.is_none()
            && self.lanes.options.on_limit == OnLimit::Wait
            && self.lanes.options.jitter.is_none()
            && !properties.depends_on_since
            // Slots are booked only for waiting items.
            && !properties.batches.is_ahead
            && !results.need_requests()
            && !self.lanes.batcher.forms_batches()
    }

    /// Admits items that wait in lanes. Breaks off if later items must not go at the same instant.
    fn admit_waiting(
        &mut self,
        room: u64,
        admission: &mut Admission,
        results: &mut Results,
    ) -> ControlFlow<()> {
        let mut left = room;
        while left > 0 && admission.batch.bytes() < WRITE && !results.course.is_stopping {
            match self.lanes.next(&self.gate, admission.checked) {
                Ok(at) => self.admit_lane(at, &mut left, admission, results)?,
                Err(next) => {
                    self.set_next(admission.checked, next, results);
                    return Continue(());
                }
            }
        }
        Break(())
    }

    /// Admits the next items of a lane, in up to `left` releases.
    fn admit_lane(
        &mut self,
        at: usize,
        left: &mut u64,
        admission: &mut Admission,
        results: &mut Results,
    ) -> ControlFlow<()> {
        if self.begin_delay(at, admission) {
            return Continue(());
        }
        let now = admission.checked;
        let lane = self.lanes.lane(at);
        let Some(((front, open), (is_judged, request))) =
            lane.front().zip(lane.open.as_ref()).zip(self.lanes.request(lane))
        else {
            return Break(());
        };
        if is_judged && let Err(blocked) = self.gate.judge(&mut admission.pending, now, &request) {
            return self.refuse_next(at, blocked.limit(), admission, results);
        }
        let (gate, pending) = (&mut self.gate, &mut admission.pending);
        let mut fits = |costs: &[u64]| gate.check(pending, now, &Request { costs, ..request }).is_ok();
        let open = self.lanes.batcher.complete(open, lane.waiting(), &mut fits);
        let forms_batches = self.lanes.batcher.forms_batches();
        let most = if forms_batches { 1 } else { front.segment.items().min(*left) };
        let (since, charge) =
            (request.since, Charge { costs: open.costs, keys: Rc::clone(&front.charge.keys) });
        match gate.admit(pending, now, &Request::new(since, &charge), most) {
            Ok(releases) => {
                let items = if forms_batches { open.items } else { releases };
                let segments = self.lanes.take(at, items, now, gate);
                admission.add(at, segments, forms_batches);
                if results.need_requests() {
                    admission.asked.push((releases, since, charge));
                }
                *left -= releases;
                Continue(())
            }
            // Another lane may cost the common limits less, but it must not overtake this one.
            Err(blocked) if gate.is_common(blocked.by) && !admission.batch.is_empty() => Break(()),
            Err(_) => {
                self.lanes.pass_over(at);
                admission.deferred.push(at);
                Continue(())
            }
        }
    }

    /// Begins the random delay of a lane's next release, once the limits admit it. Returns whether it does.
    fn begin_delay(&mut self, at: usize, admission: &mut Admission) -> bool {
        let lane = self.lanes.lane(at);
        let Some(jitter) = self.lanes.options.jitter.filter(|_| lane.delay.is_none()) else { return false };
        let Some((front, (is_judged, request))) = lane.front().zip(self.lanes.request(lane)) else {
            return false;
        };
        let (pending, now) = (&mut admission.pending, admission.checked);
        let begins = match is_judged {
            true => self.gate.judge(pending, now, &request),
            false => self.gate.check(pending, now, &request),
        };
        if begins.is_ok() {
            let delay = jitter.delay(front.segment.first(), front.segment.attempt());
            let until = now.saturating_add(delay);
            self.lanes.delay(at, until, &self.gate);
        }
        begins.is_ok()
    }

    /// Admits items that find their lane empty and all limits open, past the lanes; the others join their lanes.
    /// Returns true if the last one to join may still be admitted.
    fn pass(&mut self, admission: &mut Admission, results: &mut Results) -> bool {
        let now = admission.checked;
        while admission.batch.bytes() < WRITE
            && !results.course.is_stopping
            && self.has_room()
            && self.look(now, results)
        {
            let intake = &mut self.supply.intake;
            let since = intake.arrival().unwrap_or(now);
            let draft = intake.draft();
            let request = Request { since, costs: &draft.costs, keys: &draft.keys };
            let may_pass = self.lanes.would_be_alone(request.keys);
            if may_pass && self.gate.admit(&mut admission.pending, now, &request, 1).is_ok() {
                intake.pass().into_iter().for_each(|segment| admission.batch.push(segment));
            } else if may_pass && !admission.batch.is_empty() {
                // It may be held up only by what is already admitted.
                let items = intake.take().into_iter();
                admission.deferred.extend(items.map(|items| self.lanes.push_over(items)));
            } else {
                self.push(now, results);
                if !may_pass {
                    return true;
                }
            }
        }
        false
    }

    /// Refuses the next items of a lane, which `limit` does not admit. Breaks off if later items must not go at the
    /// same instant.
    fn refuse_next(
        &mut self,
        at: usize,
        limit: Option<usize>,
        admission: &Admission,
        results: &mut Results,
    ) -> ControlFlow<()> {
        let fails = self.lanes.options.on_limit == OnLimit::Fail;
        // How early it is will be known once those before it are charged.
        if fails && !admission.batch.is_empty() {
            return Break(());
        }
        let request = self.lanes.request(self.lanes.lane(at)).filter(|_| fails);
        let early = request.and_then(|(_, request)| {
            let opening = self.gate.opening(Scope::All, &request, request.since);
            // Without a slot, it is known when the next one might be.
            let next = || self.gate.blocked(&request, request.since)?.until;
            opening.from.known().or_else(next).map(|at| at.since(request.since))
        });
        let items = self.lanes.lane(at).open.as_ref().map_or(0, |open| open.items);
        let notice = |item, text, limit| Notice::Refused { item, text, limit, early };
        self.refuse(at, items, limit, notice, results);
        if !self.lanes.must_gather() {
            return Continue(());
        }
        // There is room again for what has arrived at the same instant; it may join the next batch.
        self.is_due = false;
        self.next = Some(admission.checked);
        Break(())
    }

    /// Charges the releases of the first `items`.
    pub(super) fn commit(&mut self, now: Time, admission: &mut Admission, items: u64, results: &mut Results) {
        // More that has arrived by this instant may be read now.
        self.is_due = false;
        let releases = admission.batch.releases_of(items);
        let reports = self.gate.commit(&mut admission.pending, now, releases, !results.jobs.exist);
        reports.into_iter().for_each(|report| results.course.push(Action::Store(report)));
        results.account.observe(now, admission, releases);
    }

    /// Keeps a used-up admission for reuse of its memory. The lanes that it deferred may be asked again.
    pub(super) fn recycle(&mut self, now: Time, mut admission: Box<Admission>) {
        self.lanes.finish(now, &admission, &self.gate);
        admission.clear();
        self.spare = Some(admission);
    }
}
