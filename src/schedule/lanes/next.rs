//! Finds the next lane by the answers of the gate, which are kept as long as they stand.

use super::Lanes;
use super::kept::Kept;
use super::turns::{Group, Place, Position};
use crate::config::OnLimit;
use crate::gate::{Blocked, Demand, Gate, Kind, News, Opening, Request, Scope};
use crate::source::{Items, Segment};
use crate::time::Time;

/// The most waiting lanes that are asked which of them is the first to release.
const MAX_ASKED: usize = 32;

impl Lanes {
    /// True if it matters when an item became next in line. If so, empty lanes are remembered for a while.
    pub(super) fn depend_on_since(&self, gate: &Gate) -> bool {
        gate.properties().depends_on_since || self.options.on_limit != OnLimit::Wait
    }

    /// The request for the next release of a lane, and whether it is judged at once instead of waiting.
    pub(crate) fn request(&self, at: usize) -> Option<(bool, Request<'_>)> {
        let lane = self.lane(at);
        let ((front, open), since) = lane.front().zip(lane.open.as_ref()).zip(lane.since())?;
        // A retry may wait.
        let is_judged = !self.options.may_wait() && front.segment.attempt() == 1;
        // An item that never waits is judged again as of the end of its delay.
        let since = if is_judged { since.max(lane.delay.unwrap_or_default()) } else { since };
        Some((is_judged, Request { since, costs: &open.costs, keys: &front.charge.keys }))
    }

    /// Asks the gate, or a part of it, about the next release of a lane, from `now` on.
    pub(crate) fn ask(&self, at: usize, gate: &Gate, scope: Scope, now: Time) -> Opening {
        match self.request(at) {
            // Judged as soon as it is complete.
            Some((true, request)) => gate.judged(&request),
            Some((false, request)) => {
                gate.opening(scope, &request, now.max(self.lane(at).delay.unwrap_or_default()))
            }
            None => Opening::NEVER,
        }
    }

    /// Why a lane still waits at `now`, as far as the gate knows.
    pub(crate) fn blocked(&self, at: usize, gate: &Gate, now: Time) -> Option<Blocked> {
        gate.blocked(&self.request(at)?.1, now)
    }

    /// The number of the next item of a lane and of its attempt, if its random delay has not begun.
    pub(crate) fn undelayed(&self, at: usize) -> Option<(u64, u64)> {
        let lane = self.lane(at);
        let front = lane.front().filter(|_| lane.delay.is_none())?;
        Some((front.segment.first(), front.segment.attempt()))
    }

    /// Re-evaluates the lanes whose answers may have become more lenient.
    pub(crate) fn reconsider(&mut self, news: &News, gate: &Gate) {
        let may_be_sooner = |(other, _): &&(Time, Position)| *other >= news.from();
        let waiting = self.turns.waiting.iter().rev().take_while(may_be_sooner).map(|(_, (_, at))| *at);
        let is_meant =
            |at: &usize| self.lane(*at).front().is_some_and(|front| news.concerns(&front.charge.keys));
        let waiting: Vec<_> = waiting.filter(is_meant).collect();
        waiting.into_iter().for_each(|at| self.place(at, gate));
    }

    /// Puts a lane in its place among those that wait.
    pub(super) fn place(&mut self, at: usize, gate: &Gate) {
        self.turns.take(at);
        let Some(position) = self.position(at) else { return };
        if self.lane(at).lingers() {
            self.lingering.insert(at);
        }
        let lane = self.lane(at);
        // With one lane for all, the whole gate is asked at once, later.
        let opening = match self.options.in_order {
            true => Opening::at(lane.delay.unwrap_or_default()),
            false => self.ask(at, gate, Scope::Keyed, Time::ZERO),
        };
        self.directory.entries[at].kept = Kept::new(opening, gate, Scope::Keyed, lane.since());
        self.turns.set(at, position, Place::Waiting(opening.from));
    }

    pub(super) fn position(&self, at: usize) -> Option<Position> {
        let lane = self.lane(at);
        match self.turns.fronts {
            // They tell which items are still to come.
            Some(_) => lane.front().map(|front| (front.segment.first(), at)),
            None => lane.turn().map(|turn| (turn, at)),
        }
    }

    /// The lane whose turn it is at `now`: of those that may release, the one whose front is first in the input.
    ///
    /// # Errors
    /// If no lane may release, the verdict on the next turn; `None` if nothing waits.
    pub(crate) fn next(&mut self, gate: &Gate, now: Time) -> Result<usize, Option<Time>> {
        if let Some(positions) = self.turns.before(self.batcher.capacity.before) {
            let (opening, at) = self.soonest_of(positions, gate, now).ok_or(None)?;
            return if opening.allows(now) { Ok(at) } else { Err(Some(opening.from)) };
        }
        if let Some(at) = self.only() {
            self.turns.whole = self.refreshed(self.turns.whole, at, gate, Scope::All, now);
            let Opening { from, .. } = self.turns.whole.opening;
            return if from <= now { Ok(at) } else { Err(Some(from)) };
        }
        self.promote(gate, now);
        let mut first: Option<Position> = None;
        let mut wait = self.turns.waiting.first().map(|(verdict, _)| *verdict);
        let mut ready = std::mem::take(&mut self.turns.ready);
        for Group { positions, kept } in ready.values_mut() {
            let Some(&position) = positions.first() else { continue };
            *kept = self.refreshed(*kept, position.1, gate, Scope::Common, now);
            let Opening { from, .. } = kept.opening;
            if from <= now {
                first = Some(first.map_or(position, |first| first.min(position)));
            } else {
                wait = Some(wait.map_or(from, |other| other.min(from)));
            }
        }
        self.turns.ready = ready;
        first.map(|(_, at)| at).ok_or(wait)
    }

    /// The lane that may be the first to release from `now` on, as things stand, and when. If very many wait
    /// for limits by key first and for common ones then, it may be another one.
    pub(crate) fn soonest(&self, gate: &Gate, now: Time) -> Option<(Time, usize)> {
        if let Some(positions) = self.turns.before(self.batcher.capacity.before) {
            return self.soonest_of(positions, gate, now).map(|(opening, at)| (opening.from, at));
        }
        if let Some(at) = self.only() {
            return Some((self.refreshed(self.turns.whole, at, gate, Scope::All, now).opening.from, at));
        }
        let ready = self.turns.ready.values().filter_map(|group| Some((group, group.positions.first()?)));
        let ask = |kept, at| self.refreshed(kept, at, gate, Scope::Common, now).opening.from;
        let mut soonest = ready.map(|(group, &(_, at))| (ask(group.kept, at), at)).min();
        for &(least, (_, at)) in self.turns.waiting.iter().take(MAX_ASKED) {
            if soonest.is_some_and(|(other, _)| other <= least) {
                break;
            }
            // The common limits may make it later, and so may other lanes that share a key.
            let opening = match self.kind(at, gate).0.iter().all(|&cost| cost == 0) {
                true => self.refreshed(self.directory.entries[at].kept, at, gate, Scope::Keyed, now).opening,
                false => self.ask(at, gate, Scope::All, now),
            };
            soonest = soonest.into_iter().chain([(opening.from, at)]).min();
        }
        soonest
    }

    /// The first release from `now` on, or one no later than `by`.
    pub(crate) fn earliest(&self, gate: &Gate, now: Time, by: Time) -> Option<Time> {
        let lanes = (0..self.directory.entries.len()).filter(|&at| self.lane(at).front().is_some());
        let mut earliest = None;
        for answer in lanes.map(|at| self.ask(at, gate, Scope::All, now).from) {
            earliest = Some(earliest.map_or(answer, |other: Time| other.min(answer)));
            if answer <= by {
                break;
            }
        }
        earliest
    }

    /// The first release to expect of lanes that have no slots, if there is one for each waiting lane.
    pub(crate) fn expected(&self, gate: &Gate, now: Time) -> Option<Time> {
        let occupied = (0..self.directory.entries.len()).filter(|&at| self.lane(at).front().is_some());
        let told = occupied.map(|at| self.blocked(at, gate, now)?.until);
        told.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// The next release of each lane, for a store to book slots, with the number of releases like it, up to `most`.
    /// None waits beyond `latest`.
    pub(crate) fn demands(
        &self,
        now: Time,
        latest: Option<Time>,
        most: u64,
    ) -> impl Iterator<Item = Demand<'_>> {
        let batcher = &self.batcher;
        let deadline = |segment: &Segment| self.deadlines.as_ref()?.of(segment);
        self.occupied().filter_map(move |lane| {
            let is_taken = |front: &&Items| front.segment.first() < batcher.capacity.before;
            let (front, since) = lane.front().filter(is_taken).zip(lane.since())?;
            let sums = batcher.sums_costs();
            // The costs of the batch after this one are not known yet.
            let open = if sums { lane.composed() } else { lane.open.as_ref() }?;
            let batch = batcher.most_items();
            let count = if sums { 1 } else { lane.alike(most.saturating_mul(batch)).div_ceil(batch) };
            let request = Request { since, costs: &open.costs, keys: &front.charge.keys };
            let latest = latest.into_iter().chain(deadline(&front.segment)).min();
            let within = latest.map_or(u64::MAX, |latest| latest.since(now));
            Some(Demand { request, count, within })
        })
    }

    /// The lane that may be the first to release, from `now` on, among a few.
    fn soonest_of<'a>(
        &self,
        few: impl Iterator<Item = &'a Position>,
        gate: &Gate,
        now: Time,
    ) -> Option<(Opening, usize)> {
        let answers = few.map(|&(_, at)| (self.ask(at, gate, Scope::All, now), at));
        answers.min_by_key(|(opening, _)| opening.from.max(now))
    }

    /// The only waiting lane, if there is just one. It need not be compared with others, so it is not moved.
    fn only(&self) -> Option<usize> {
        // Other lanes may be passed over for now, hence the second test.
        let is_only = |at: usize| self.turns.waiting.len() == 1 && self.lane(at).items == self.size.items;
        self.turns.waiting.first().map(|(_, (_, at))| *at).filter(|&at| is_only(at))
    }

    /// Moves lanes from waiting to ready, as the limits by key admit them.
    fn promote(&mut self, gate: &Gate, now: Time) {
        self.demote(gate, now);
        while let Some(&(_, position)) = self.turns.waiting.first().filter(|(from, _)| *from <= now) {
            self.settle(position, gate, now);
        }
    }

    /// Moves back ready lanes that would be next but for another lane, which has used up a limit that they share by one
    /// of several keys.
    fn demote(&mut self, gate: &Gate, now: Time) {
        loop {
            let firsts = self.turns.ready.values().filter_map(|group| group.positions.first());
            let stale = firsts.copied().find(|&(_, at)| self.is_stale(at, gate, now));
            let Some(position) = stale else { return };
            self.settle(position, gate, now);
        }
    }

    /// Puts a lane where the limits by key now want it.
    fn settle(&mut self, position: Position, gate: &Gate, now: Time) {
        let (_, at) = position;
        let kept = self.refreshed(self.directory.entries[at].kept, at, gate, Scope::Keyed, now);
        self.directory.entries[at].kept = kept;
        self.turns.take(at);
        let ready = kept.opening.allows(now).then(|| Place::Ready(self.kind(at, gate)));
        self.turns.set(at, position, ready.unwrap_or(Place::Waiting(kept.opening.from)));
    }

    pub(super) fn is_stale(&self, at: usize, gate: &Gate, now: Time) -> bool {
        let entry = &self.directory.entries[at];
        !entry.kept.stands(gate, Scope::Keyed, entry.lane.since(), now)
    }

    /// The `kept` answer to a lane, if it still stands at `now`; otherwise a new one.
    fn refreshed(&self, kept: Kept, at: usize, gate: &Gate, scope: Scope, now: Time) -> Kept {
        let since = self.lane(at).since().filter(|_| scope != Scope::Common);
        match kept.stands(gate, scope, since, now) {
            true => kept,
            false => Kept::new(self.ask(at, gate, scope, now), gate, scope, since),
        }
    }

    fn kind(&self, at: usize, gate: &Gate) -> Kind {
        let request = self.request(at).filter(|(is_judged, _)| !is_judged);
        request.map_or_else(Kind::default, |(_, request)| gate.kind(&request))
    }
}
