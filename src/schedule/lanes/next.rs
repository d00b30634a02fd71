//! Finds the next lane by the answers of the gate, which are kept as long as they stand.

use super::turns::{Group, Kept, Place, Position};
use super::{Lane, Lanes};
use crate::config::OnLimit;
use crate::gate::{Blocked, Demand, Gate, Kind, News, Opening, Request, Scope};
use crate::time::Time;

/// The most waiting lanes that are asked which of them is the first to release, unless that must be exact.
const MAX_ASKED: usize = 32;

impl Lanes {
    /// True if it matters when an item became next in line. If so, empty lanes are remembered for a while.
    pub(super) fn depend_on_eligibility(&self, gate: &Gate) -> bool {
        gate.properties().depends_on_eligibility || self.options.on_limit != OnLimit::Wait
    }

    /// The request for the next release of a lane.
    pub(crate) fn request(&self, at: usize) -> Option<Request<'_>> {
        let lane = self.lane(at);
        let ((front, open), eligible_at) = lane.front().zip(lane.open.as_ref()).zip(lane.eligible_at())?;
        // A retry may wait.
        let waits = self.options.may_wait() || front.segment.attempt() > 1;
        // An item that never waits is judged again as of the end of its delay.
        let eligible_at = if waits { eligible_at } else { eligible_at.max(lane.delay.unwrap_or_default()) };
        Some(Request { eligible_at, costs: &open.costs, keys: &front.charge.keys, waits })
    }

    /// Asks the gate, or a part of it, about the next release of a lane, from `now` on.
    pub(crate) fn ask(&self, at: usize, gate: &Gate, scope: Scope, now: Time) -> Opening {
        let from = now.max(self.lane(at).delay.unwrap_or_default());
        self.request(at).map_or(Opening::NEVER, |request| gate.opening(scope, &request, from))
    }

    /// Why a lane still waits at `now`, as far as the gate knows.
    pub(crate) fn blocked(&self, at: usize, gate: &Gate, now: Time) -> Option<Blocked> {
        gate.blocked(&self.request(at)?, now)
    }

    /// The number of the next item of a lane and of its attempt, if its random delay has not begun.
    pub(crate) fn undelayed(&self, at: usize) -> Option<(u64, u64)> {
        let lane = self.lane(at);
        let front = lane.front().filter(|_| lane.delay.is_none())?;
        Some((front.segment.first(), front.segment.attempt()))
    }

    /// Re-evaluates the lanes whose answers may have become more lenient.
    pub(crate) fn reconsider(&mut self, news: &News, gate: &Gate, now: Time) {
        let may_be_sooner = |(other, _): &&(Time, Position)| *other >= news.from();
        let waiting = self.turns.waiting.iter().rev().take_while(may_be_sooner).map(|(_, (_, at))| *at);
        let is_meant =
            |at: &usize| self.lane(*at).front().is_some_and(|front| news.concerns(&front.charge.keys));
        let waiting: Vec<_> = waiting.filter(is_meant).collect();
        waiting.into_iter().for_each(|at| self.place(at, gate, now));
    }

    /// Puts a lane in its place, as of `now`.
    pub(super) fn place(&mut self, at: usize, gate: &Gate, now: Time) {
        if self.is_sole {
            return self.put(at, now, gate, now);
        }
        let opening = self.ask(at, gate, Scope::Keyed, Time::ZERO);
        self.directory.entries[at].kept = Kept::new(opening, gate, Scope::Keyed);
        self.put(at, opening.from, gate, now);
    }

    /// Puts a lane where it is known to wait until `bound` at least.
    pub(super) fn put(&mut self, at: usize, bound: Time, gate: &Gate, now: Time) {
        let Some(position) = self.position(at) else { return self.unplace(at) };
        self.directory.entries[at].whole.set(Kept::default());
        if self.is_sole {
            self.directory.entries[at].place = Some((position, Place::Waiting(bound)));
            return;
        }
        let place = if bound <= now { Place::Ready(self.kind(at, gate)) } else { Place::Waiting(bound) };
        if self.lane(at).lingers() {
            self.lingering.insert(at);
        }
        let entry = &mut self.directory.entries[at];
        let before = entry.place.replace((position, place));
        self.turns.replace(before, entry.place.as_ref());
    }

    /// Takes a lane out of its place.
    pub(super) fn unplace(&mut self, at: usize) {
        let before = self.directory.entries[at].place.take();
        self.turns.replace(before, None);
    }

    fn position(&self, at: usize) -> Option<Position> {
        let lane = self.lane(at);
        match self.turns.fronts {
            // They tell which items are still to come.
            Some(_) => lane.front().map(|front| (front.segment.first(), at)),
            None => lane.turn().map(|turn| (turn, at)),
        }
    }

    /// The place of the only lane, unless it is empty or passed over.
    pub(super) fn sole(&self) -> Option<&Position> {
        let sole = self.directory.entries.first().filter(|_| self.is_sole);
        sole.and_then(|entry| entry.place.as_ref()).map(|(position, _)| position)
    }

    /// The lanes that may be next, if these are so few that each is asked: the only one, or those that the sink takes.
    pub(super) fn few(&self) -> Option<impl Iterator<Item = &Position>> {
        let before = self.batcher.capacity.before;
        let sole = self.sole().into_iter().filter(move |(first, _)| *first < before);
        let fronts = self.turns.fronts.iter().flat_map(move |fronts| fronts.range(..(before, 0)));
        (self.is_sole || before < u64::MAX).then(|| sole.chain(fronts))
    }

    /// The lane whose turn it is at `now`: of those that may release, the one whose front is first in the input.
    pub(crate) fn next(&mut self, gate: &Gate, now: Time) -> Option<usize> {
        if let Some(mut few) = self.few() {
            return few.find(|(_, at)| self.whole(*at, gate, now).from <= now).map(|(_, at)| *at);
        }
        while let Some(&(_, (_, at))) = self.turns.waiting.first().filter(|(bound, _)| *bound <= now) {
            self.put(at, now, gate, now);
        }
        self.demote(gate, now);
        let (from, (_, at)) = self.first_ready(gate, now)?;
        (from <= now).then_some(at)
    }

    /// As [`Lanes::next`]; or the only lane of commands, if the gate was not asked about it since the last release: on
    /// admission it says the same. Of these, few are refused, as they mostly wait for one another.
    pub(crate) fn next_to_admit(&mut self, gate: &Gate, now: Time) -> Option<usize> {
        let only_waits = self.capacity().vacancies < u64::MAX
            && self.options.may_wait()
            && self.options.jitter.is_none()
            && gate.reservations().is_none();
        let is_unknown = |(first, at): &&Position| {
            let entry = &self.directory.entries[*at];
            *first < self.batcher.capacity.before
                && entry.lane.eligible_at().is_some_and(|at| at <= now)
                && !entry.whole.get().stands(gate, Scope::All, now)
        };
        let unknown = self.sole().filter(|_| only_waits).filter(is_unknown).map(|(_, at)| *at);
        unknown.or_else(|| self.next(gate, now))
    }

    /// True if this is the only lane, and the limits do not admit its next release at `now`.
    pub(crate) fn is_sole_and_waits(&self, at: usize, gate: &Gate, now: Time) -> bool {
        self.is_sole && self.whole(at, gate, now).from > now
    }

    /// Has ready lanes that would be next wait if the limits by key do not admit them now: their hours have come, or
    /// another lane has used up a limit that they share by one of several keys.
    fn demote(&mut self, gate: &Gate, now: Time) {
        loop {
            let firsts = self.turns.ready.values().filter_map(|group| group.positions.first());
            let unknown = firsts.map(|&(_, at)| at).find(|&at| {
                let entry = &self.directory.entries[at];
                let stands = entry.kept.stands(gate, Scope::Keyed, now);
                // Until what was taken from it is charged, only the gate knows whether more may go.
                let is_known = entry.is_uncharged || (stands && entry.kept.opening.from <= now);
                !is_known
            });
            let Some(at) = unknown else { return };
            let kept = self.refreshed(self.directory.entries[at].kept, at, gate, Scope::Keyed, now);
            self.directory.entries[at].kept = kept;
            if !kept.opening.allows(now) {
                self.put(at, kept.opening.from.max(now.after(1u64)), gate, now);
            }
        }
    }

    /// The ready lane that the common limits admit first, and when they do, `now` at the earliest.
    fn first_ready(&mut self, gate: &Gate, now: Time) -> Option<(Time, Position)> {
        let mut first: Option<(Time, Position)> = None;
        let mut ready = std::mem::take(&mut self.turns.ready);
        for Group { positions, kept } in ready.values_mut() {
            let Some(&position) = positions.first() else { continue };
            *kept = self.refreshed(*kept, position.1, gate, Scope::Common, now);
            let answer = (kept.opening.from.max(now), position);
            first = Some(first.map_or(answer, |first| first.min(answer)));
        }
        self.turns.ready = ready;
        first
    }

    /// The lane that is the first to release, as things stand, if none may at `now`, and when: never later than that,
    /// and exactly then if it `must_be_exact`.
    pub(crate) fn soonest(&mut self, gate: &Gate, now: Time, must_be_exact: bool) -> Option<(Time, usize)> {
        if let Some(few) = self.few() {
            return few.map(|&(_, at)| (self.whole(at, gate, now).from, at)).min();
        }
        let mut soonest = self.first_ready(gate, now).map(|(from, (_, at))| (from, at));
        for (asked, &(bound, (_, at))) in self.turns.waiting.iter().enumerate() {
            if soonest.is_some_and(|(other, _)| other <= bound) {
                break;
            }
            if asked == MAX_ASKED && !must_be_exact {
                return Some((bound, at));
            }
            // The common limits may make it later, and so may other lanes that share a key.
            let entry = &self.directory.entries[at];
            let is_whole = self.kind(at, gate).0.iter().any(|&cost| cost > 0);
            let opening = if is_whole {
                self.whole(at, gate, now)
            } else {
                self.refreshed(entry.kept, at, gate, Scope::Keyed, now).opening
            };
            soonest = soonest.into_iter().chain([(opening.from.max(bound), at)]).min();
        }
        soonest
    }

    /// The first release to expect of lanes that have no slots, if there is one for each waiting lane.
    pub(crate) fn expected(&self, gate: &Gate, now: Time) -> Option<Time> {
        let occupied = (0..self.directory.entries.len()).filter(|&at| self.lane(at).front().is_some());
        let told = occupied.map(|at| self.blocked(at, gate, now)?.until);
        told.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// The next releases of each lane, for a store to book slots: up to `most`, in up to `runs` runs of such that are
    /// alike. None waits beyond `latest`.
    pub(crate) fn demands(
        &self,
        now: Time,
        latest: Option<Time>,
        most: u64,
        runs: usize,
    ) -> impl Iterator<Item = Demand<'_>> {
        let batcher = &self.batcher;
        let batch = batcher.most_items();
        // The costs of the batch after this one are not known yet.
        let runs = if batch > 1 { 1 } else { runs };
        let is_taken =
            |lane: &&Lane| lane.front().is_some_and(|front| front.segment.first() < batcher.capacity.before);
        let known = |lane| Some((lane, Lane::eligible_at(lane)?, Lane::composed(lane)?));
        let lanes = self.occupied().filter(is_taken).filter_map(known).enumerate();
        lanes.flat_map(move |(at, (lane, eligible_at, open))| {
            lane.runs(most.saturating_mul(batch)).take(runs).map(move |(first, items, before)| {
                let count = if batcher.sums_costs() { 1 } else { items.div_ceil(batch) };
                let costs = if before == 0 { &open.costs } else { &first.charge.costs };
                let request = Request { eligible_at, costs, keys: &first.charge.keys, waits: true };
                let latest = latest.into_iter().chain(self.deadline_of(&first.segment)).min();
                let within = latest.map_or(u64::MAX, |latest| latest.since(now));
                Demand { request, count, within, before, lane: at }
            })
        })
    }

    /// The `kept` answer to a lane, if it still stands at `now`; otherwise a new one.
    fn refreshed(&self, kept: Kept, at: usize, gate: &Gate, scope: Scope, now: Time) -> Kept {
        match kept.stands(gate, scope, now) {
            true => kept,
            false => Kept::new(self.ask(at, gate, scope, now), gate, scope),
        }
    }

    /// The answer of all limits to a lane.
    fn whole(&self, at: usize, gate: &Gate, now: Time) -> Opening {
        let whole = &self.directory.entries[at].whole;
        whole.set(self.refreshed(whole.get(), at, gate, Scope::All, now));
        whole.get().opening
    }

    fn kind(&self, at: usize, gate: &Gate) -> Kind {
        self.request(at).map_or_else(Kind::default, |request| gate.local().kind(&request))
    }
}
