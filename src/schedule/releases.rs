//! The path of a release: items are offered to the lanes, admitted from them or past them, and committed once they have
//! left.

use std::ops::ControlFlow::{self, Break, Continue};

use anyhow::anyhow;

use super::admission::AlikeReleases;
use super::{Admission, Incoming, Notice, Schedule};
use crate::config::{OnLimit, Rate};
use crate::exit::Exit;
use crate::gate::{Blocked, By, Request, Scope};
use crate::source::{Segment, Unfit};
use crate::time::Time;

/// A batch is sent once it has this number of bytes: the usual size of a pipe.
const WRITE: usize = 64 << 10;

impl Schedule {
    /// Looks at the next item read. Returns true if there is one.
    pub(super) fn look(&mut self, now: Time) -> bool {
        let is_argument = self.lanes.capacity().fills_arguments();
        while !self.ending.is_stopping() && !self.input.is_full() {
            let told = |advice| self.actions.notify(Notice::Warning(advice));
            match self.input.look(is_argument, told) {
                None => return false,
                Some(Ok(())) => return true,
                Some(Err(why)) => match self.input.reject_invalid(why) {
                    Ok(()) => self.count_rejects(),
                    Err(error) => self.end_input(now, Some(error)),
                },
            }
        }
        false
    }

    /// Lets the items that were read join the lanes, as far as there is room.
    fn offer(&mut self, now: Time) {
        while !self.ending.is_stopping() && self.lanes.have_room(&self.input) {
            if let Some(items) = self.input.take_alike() {
                self.lanes.push(now, items, &self.gate);
            } else if !self.look(now) {
                break;
            } else if let Some(error) = self.lanes.capacity().argument_error(self.input.record()) {
                self.input.reject(Unfit::Argument(error));
                self.count_rejects();
            } else {
                self.push(now);
            }
        }
    }

    /// Lets the item that was looked at join its lane.
    fn push(&mut self, now: Time) {
        if let Some(items) = self.input.take() {
            let (displaced, limit) = self.lanes.push(now, items, &self.gate);
            self.account.refuse(limit, displaced);
        }
    }

    /// Puts segments back in their places, charged under the present limits.
    pub(super) fn requeue(&mut self, now: Time, segments: impl IntoIterator<Item = Segment>) {
        let items = segments.into_iter().flat_map(|segment| self.input.recharge(segment));
        self.lanes.requeue(now, items, &self.gate);
    }

    /// True if items that must be known before a release may still arrive at this very instant. Offers those that have
    /// arrived.
    pub(super) fn gathers(&mut self, now: Time) -> bool {
        if !self.must_gather() || self.incoming == Incoming::Known {
            return false;
        }
        self.offer(now);
        self.is_accepting()
    }

    /// True if everything that arrives at an instant must be known before a release at that instant: it may join a
    /// batch, or replace an item that waits.
    fn must_gather(&self) -> bool {
        self.options.forms_batches() || self.options.on_limit == OnLimit::Latest
    }

    /// Finds out when the next release may be, without admitting anything.
    pub(super) fn gather(&mut self, now: Time) {
        match self.lanes.next(&self.gate, now) {
            Some(at) => self.upcoming.set(now, at),
            None => self.find_next(now),
        }
    }

    /// Admits everything that may leave at `now`, if there is anything.
    pub(super) fn admit(&mut self, now: Time) -> Option<Box<Admission>> {
        let passes = self.may_pass();
        if !passes {
            self.offer(now);
        }
        self.upcoming.clear();
        let capacity = self.lanes.capacity();
        let room = if self.must_gather() { 1 } else { capacity.vacancies.min(capacity.at_once) };
        if self.ending.is_stopping() || capacity.vacancies == 0 {
            return None;
        }
        if !self.is_accepting() {
            self.lanes.flush(now, &self.gate);
        }
        if self.upcoming.is_postponed(now) && !self.lanes.is_empty() {
            self.upcoming.wait_for_sink();
            return None;
        }
        self.gate.reservations_mut().into_iter().for_each(|slots| slots.expire(now));
        let mut admission = self.spare.take().unwrap_or_default();
        admission.checked = now;
        let flow = self.admit_waiting(room, &mut admission);
        if passes {
            if flow.is_continue() {
                self.pass(&mut admission);
            }
        } else {
            // Refused items have made room for more.
            while admission.batch.is_empty()
                && !(self.must_gather() || self.input.is_empty())
                && self.lanes.have_room(&self.input)
                && !self.ending.is_stopping()
            {
                self.offer(now);
                _ = self.admit_waiting(room, &mut admission);
            }
        }
        if !admission.batch.is_empty() {
            self.upcoming.release();
            return Some(admission);
        }
        // What is not admitted although nothing else is waits for an event.
        if !self.upcoming.is_decided() {
            self.find_next(now);
        }
        self.recycle(now, admission);
        None
    }

    /// True if items may skip the lanes and stay in their block. They leave no trace in a lane, so nothing may depend
    /// on when they left; nor are they counted against the capacity, so the sink must take any number.
    fn may_pass(&self) -> bool {
        let (input, properties) = (&self.input, self.gate.properties());
        input.is_single()
            && input.is_verbatim()
            && !self.lanes.capacity().fills_arguments()
            && self.options.on_limit == OnLimit::Wait
            && self.options.jitter.is_none()
            && !properties.depends_on_eligibility
            // Slots are booked only for waiting items.
            && !properties.batches.is_ahead
            && !self.need_requests()
            && !self.options.forms_batches()
    }

    /// True if the request of a release must be kept until it is over.
    fn need_requests(&self) -> bool {
        self.jobs.exist() || self.account.is_observed()
    }

    /// Admits items that wait in lanes. Breaks off if later items must not go at the same instant.
    fn admit_waiting(&mut self, room: u64, admission: &mut Admission) -> ControlFlow<()> {
        let mut left = room;
        while left > 0 && admission.batch.bytes() < WRITE && !self.ending.is_stopping() {
            let Some(at) = self.lanes.next_to_admit(&self.gate, admission.checked) else {
                return Continue(());
            };
            self.admit_lane(at, &mut left, admission)?;
        }
        Break(())
    }

    /// Admits the next items of a lane, in up to `left` releases.
    fn admit_lane(&mut self, at: usize, left: &mut u64, admission: &mut Admission) -> ControlFlow<()> {
        if self.begin_delay(at, admission) {
            return Continue(());
        }
        let needs_requests = self.need_requests();
        let Schedule { lanes, gate, options, .. } = self;
        let (now, pending) = (admission.checked, &mut admission.pending);
        let Some(request) = lanes.request(at) else { return Break(()) };
        if !request.waits
            && let Err(blocked) = gate.check(pending, now, &request)
        {
            return self.refuse_next(at, blocked.limit(), admission);
        }
        let (eligible_at, request) = (request.eligible_at, Request { waits: true, ..request });
        let mut fits = |costs: &[u64]| gate.check(pending, now, &Request { costs, ..request }).is_ok();
        let Some((items, charge)) = lanes.complete(at, &mut fits) else { return Break(()) };
        match gate.admit(pending, now, &Request::new(eligible_at, &charge), items.min(*left)) {
            Ok(releases) => {
                let items = if options.forms_batches() { items } else { releases };
                let waited_from = lanes.lane(at).waits_from().unwrap_or(eligible_at);
                let segments = lanes.take(at, items, now, gate);
                admission.add(at, segments, options.forms_batches());
                if needs_requests {
                    admission.asked.push(AlikeReleases { releases, charge, eligible_at, waited_from });
                }
                *left -= releases;
                Continue(())
            }
            // Another lane may cost the common limits less, but it must not overtake this one.
            Err(Blocked { by: By::Limit(at), .. })
                if gate.local().limit(at).is_common() && !admission.batch.is_empty() =>
            {
                Break(())
            }
            Err(_) if admission.batch.is_empty() && lanes.is_sole_and_waits(at, gate, now) => Continue(()),
            Err(_) => {
                lanes.pass_over(at);
                admission.deferred.push(at);
                Continue(())
            }
        }
    }

    /// Begins the random delay of a lane's next release, once the limits admit it. Returns whether it does.
    fn begin_delay(&mut self, at: usize, admission: &mut Admission) -> bool {
        let Some(jitter) = self.options.jitter else { return false };
        let Some((item, attempt)) = self.lanes.undelayed(at) else { return false };
        let Some(request) = self.lanes.request(at) else { return false };
        let now = admission.checked;
        let begins = self.gate.check(&mut admission.pending, now, &request);
        if begins.is_ok() {
            self.lanes.delay(at, now.saturating_add(jitter.delay(item, attempt)), &self.gate, now);
        }
        begins.is_ok()
    }

    /// Admits items that find their lane empty and all limits open, past the lanes; the others join their lanes.
    fn pass(&mut self, admission: &mut Admission) {
        let now = admission.checked;
        while admission.batch.bytes() < WRITE && self.lanes.have_room(&self.input) && self.look(now) {
            let eligible_at = self.input.arrival().unwrap_or(now);
            let draft = self.input.draft();
            let request = Request { eligible_at, costs: &draft.costs, keys: &draft.keys, waits: true };
            let may_pass = self.lanes.would_be_alone(request.keys);
            if may_pass && self.gate.admit(&mut admission.pending, now, &request, 1).is_ok() {
                self.input.pass().into_iter().for_each(|segment| admission.batch.push(segment));
            } else if may_pass && !admission.batch.is_empty() {
                // It may be held up only by what is already admitted.
                let items = self.input.take().into_iter();
                admission.deferred.extend(items.map(|items| self.lanes.push_over(items)));
            } else {
                self.push(now);
            }
        }
    }

    /// Refuses the next items of a lane, which `limit` does not admit. Breaks off if later items must not go at the
    /// same instant.
    fn refuse_next(&mut self, at: usize, limit: Option<usize>, admission: &Admission) -> ControlFlow<()> {
        let fails = self.options.on_limit == OnLimit::Fail;
        // How early it is will be known once those before it are charged.
        if fails && !admission.batch.is_empty() {
            return Break(());
        }
        let request = self.lanes.request(at).filter(|_| fails);
        let early = request.and_then(|request| {
            let request = Request { waits: true, ..request };
            let opening = self.gate.opening(Scope::All, &request, request.eligible_at);
            // Without a slot, it is known when the next one might be.
            let next = || self.gate.blocked(&request, request.eligible_at)?.until;
            opening.from.known().or_else(next).map(|at| at.since(request.eligible_at))
        });
        let notice = |item, text, limit| Notice::Refused { item, text, limit, early };
        self.refuse(admission.checked, at, self.lanes.lane(at).formed(), limit, notice);
        if !self.must_gather() {
            return Continue(());
        }
        // There is room again for what has arrived at the same instant; it may join the next batch.
        self.incoming = Incoming::Unknown;
        self.upcoming.set(admission.checked, at);
        Break(())
    }

    /// Of the items of a lane that were never sent, refuses the first `items`, as `limit` does not admit them. If
    /// refusing is to end the run, tells the user with `notice` instead.
    fn refuse(
        &mut self,
        now: Time,
        at: usize,
        items: u64,
        limit: Option<usize>,
        notice: impl FnOnce(u64, Vec<u8>, Option<Rate>) -> Notice,
    ) {
        let fresh = self.lanes.lane(at).fresh().filter(|_| !self.ending.is_stopping());
        let Some((_, fresh)) = fresh else { return };
        let first = fresh.segment.first();
        if self.options.on_limit == OnLimit::Fail {
            let rate = limit.map(|limit| self.gate.rates()[limit].clone());
            self.actions.notify(notice(first, fresh.segment.first_text(self.input.delimiter()), rate));
            return self.ending.end(Exit::Refused);
        }
        self.lanes.discard(now, at, items, &self.gate);
        self.account.refuse(limit, items);
        self.retire(first);
    }

    /// Refuses the items that may not wait beyond `now`; if `missed`, only those that could not have gone in time.
    /// Returns true if there were any: what is behind them may go.
    pub(super) fn refuse_late(&mut self, now: Time, missed: bool) -> bool {
        if self.ending.is_stopping() {
            return false;
        }
        let late = self.lanes.late(&self.gate, now, missed);
        for &at in &late {
            let limit = self.lanes.blocked(at, &self.gate, now).and_then(Blocked::limit);
            self.refuse(now, at, 1, limit, |item, text, limit| Notice::Expired { item, text, limit });
        }
        !late.is_empty()
    }

    /// Finds out when the next release may be, if none may be now. If that is never, and nothing may change it, ends
    /// the run.
    fn find_next(&mut self, now: Time) {
        let must_be_exact = self.ending.latest(now).is_some();
        let next = self.lanes.soonest(&self.gate, now, must_be_exact);
        // It may change if a limit from a file pauses, a limit counts running commands, or slots are booked.
        let may_change = || {
            // Limits may have hours that complement one another, and items that cost too much in all of them.
            let get_no_slots = || self.lanes.expected(&self.gate, now) == Some(Time::NEVER);
            let may_open = self.gate.properties().may_open && !get_no_slots();
            self.jobs.running() > 0 || may_open
        };
        let ends = next.is_some_and(|(at, _)| at == Time::NEVER) && !may_change();
        self.upcoming.find(now, next);
        if ends {
            let rates = self.gate.rates();
            let advice = if rates.iter().any(Rate::goes_by_wall) {
                "check that the hours and margins of all limits have an instant in common"
            } else if rates.iter().any(|rate| rate.cost.is_some()) {
                "check the costs of the items, or shorten the period"
            } else {
                "shorten the period"
            };
            let error = anyhow!("the next release would be later than any clock can show: {advice}");
            self.fail(Exit::Error, error);
        }
    }

    /// Charges the releases of the first `items`.
    pub(super) fn commit(&mut self, now: Time, admission: &mut Admission, items: u64) {
        // More that has arrived by this instant may be read now.
        self.incoming = Incoming::Unknown;
        let releases = admission.batch.releases_of(items);
        let (over, account) = (!self.jobs.exist(), &mut self.account);
        let charged = |limit, releases, cost| account.charge(limit, releases, cost);
        let reports = self.gate.commit(&mut admission.pending, now, releases, over, charged);
        self.actions.store(reports);
        self.account.observe(now, admission, releases);
    }

    /// Keeps a used-up admission for reuse of its memory. The lanes that it deferred may be asked again.
    pub(super) fn recycle(&mut self, now: Time, mut admission: Box<Admission>) {
        self.lanes.finish(now, &admission, &self.gate);
        admission.clear();
        self.spare = Some(admission);
    }
}
