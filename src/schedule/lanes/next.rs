//! Which lane is next, by the answers of the gate, which are kept as long as they stand.

use super::kept::Kept;
use super::turns::{Group, Place, Position, Turns};
use super::{Lane, Lanes};
use crate::config::OnLimit;
use crate::gate::{Gate, Kind, News, Opening, Part, Request};
use crate::rule::Verdict;
use crate::time::Time;

impl Lanes {
    /// Whether answers may depend on when an item became next in line, so that lanes that are empty are remembered for
    /// a while.
    pub(super) fn depend_on_since(&self, gate: &dyn Gate) -> bool {
        gate.properties().depends_on_since || self.discipline.on_limit != OnLimit::Wait
    }

    /// Hands on what a lane would release next, and whether that is judged instead of made to wait.
    pub(in crate::schedule) fn with_request<T>(
        &self,
        lane: &Lane,
        f: impl FnOnce(bool, &Request) -> T,
    ) -> Option<T> {
        let ((front, open), since) = lane.front().zip(lane.open()).zip(lane.since())?;
        let is_judged = self.discipline.judges(front);
        // What never waits is judged as of the end of its delay.
        let since = if is_judged { since.max(lane.delayed_until()) } else { since };
        Some(f(is_judged, &Request { since, costs: &open.costs, keys: &front.charge.keys }))
    }

    /// What some of the gate answers to a lane, from `now` on.
    pub(in crate::schedule) fn ask(&self, at: usize, gate: &dyn Gate, part: Part, now: Time) -> Opening {
        let lane = self.lane(at);
        let answer = self.with_request(lane, |is_judged, request| match is_judged {
            // It is judged as soon as it is complete.
            true => gate.judged(request),
            false => gate.ask(part, request, now.max(lane.delayed_until())),
        });
        answer.unwrap_or(Opening::NEVER)
    }

    /// Re-evaluates the lanes whose answers may have become more lenient.
    pub(in crate::schedule) fn reconsider(&mut self, news: &News, gate: &dyn Gate) {
        let is_later = |(other, _): &&(Verdict, Position)| *other > news.later_than();
        let waiting = self.turns.waiting.iter().rev().take_while(is_later).map(|(_, (_, at))| *at);
        let is_meant =
            |at: &usize| self.lane(*at).front().is_some_and(|front| news.concerns(&front.charge.keys));
        let waiting: Vec<_> = waiting.filter(is_meant).collect();
        waiting.into_iter().for_each(|at| self.place(at, gate));
    }

    /// Finds a lane its place among those that wait.
    pub(super) fn place(&mut self, at: usize, gate: &dyn Gate) {
        self.turns.take(at);
        let Some(position) = self.position(at) else { return };
        // If there is one lane for all, the whole gate is asked at once.
        let opening = match self.discipline.in_order {
            true => Opening::at(self.lane(at).delayed_until()),
            false => self.ask(at, gate, Part::Keyed, Time::ZERO),
        };
        self.keep(at, gate, opening);
        self.turns.set(at, Place::Waiting(opening.from, position));
    }

    pub(super) fn position(&self, at: usize) -> Option<Position> {
        self.lane(at).front().map(|front| (front.segment.first(), at))
    }

    /// The lane whose turn it is at `now`: of those that may release, the one that is first in the input.
    ///
    /// # Errors
    /// When the next one's turn is, if none may; nothing if nothing waits.
    pub(in crate::schedule) fn next(&mut self, gate: &dyn Gate, now: Time) -> Result<usize, Option<Verdict>> {
        if self.batcher.before() < u64::MAX {
            let (opening, at) = self.soonest_before(gate, now).ok_or(None)?;
            return if opening.allows(now) { Ok(at) } else { Err(Some(opening.from)) };
        }
        if let Some(at) = self.only() {
            let opening = self.ask_whole(at, gate, now);
            return if opening.allows(now) { Ok(at) } else { Err(Some(opening.from)) };
        }
        self.promote(gate, now);
        let mut first: Option<Position> = None;
        let mut wait = self.turns.waiting.first().map(|(verdict, _)| *verdict);
        self.ask_groups(gate, now, |position, opening| {
            if opening.allows(now) {
                first = Some(first.map_or(position, |first| first.min(position)));
            } else {
                wait = Some(wait.map_or(opening.from, |other| other.min(opening.from)));
            }
        });
        first.map(|(_, at)| at).ok_or(wait)
    }

    /// The lane that may release first, as things stand.
    pub(in crate::schedule) fn soonest(&self, gate: &dyn Gate) -> Option<usize> {
        if self.batcher.before() < u64::MAX {
            return self.soonest_before(gate, Time::ZERO).map(|(_, at)| at);
        }
        if let Some(at) = self.only() {
            return Some(at);
        }
        let waiting = self.turns.waiting.first().map(|(verdict, (_, at))| (*verdict, *at));
        let ready = self.turns.ready.values().filter_map(|group| Some((group, group.positions.first()?)));
        let ready = ready.map(|(group, &(_, at))| {
            let kept = group.kept.get(gate, Part::Common, None, Time::ZERO);
            (kept.unwrap_or_else(|| self.ask(at, gate, Part::Common, Time::ZERO)).from, at)
        });
        ready.chain(waiting).min().map(|(_, at)| at)
    }

    /// When the first release may be from `now` on, or one that is no later than `by`.
    pub(in crate::schedule) fn earliest(&self, gate: &dyn Gate, now: Time, by: Time) -> Option<Verdict> {
        let lanes = (0..self.directory.len()).filter(|&at| self.lane(at).front().is_some());
        let mut earliest = None;
        for answer in lanes.map(|at| self.ask(at, gate, Part::All, now).from) {
            earliest = Some(earliest.map_or(answer, |other: Verdict| other.min(answer)));
            if answer.allows(by) {
                break;
            }
        }
        earliest
    }

    /// The lane that may release first, at `now` at the earliest, of the few whose items the sink still takes.
    fn soonest_before(&self, gate: &dyn Gate, now: Time) -> Option<(Opening, usize)> {
        let fronts = self.turns.fronts().into_iter();
        let fronts = fronts.flat_map(|fronts| fronts.range(..(self.batcher.before(), 0)));
        let answers = fronts.map(|&(_, at)| (self.ask(at, gate, Part::All, now), at));
        answers.min_by_key(|(opening, _)| opening.from.max(Verdict::At(now)))
    }

    /// The only lane that waits, if there is only one. It need not be compared with others, so it is not moved.
    fn only(&self) -> Option<usize> {
        // Others may be passed over for now.
        let is_only = |at: usize| self.turns.waiting.len() == 1 && self.lane(at).items() == self.size.items;
        self.turns.waiting.first().map(|(_, (_, at))| *at).filter(|&at| is_only(at))
    }

    /// Moves lanes from waiting to ready, as the limits that go by key admit them.
    fn promote(&mut self, gate: &dyn Gate, now: Time) {
        self.demote(gate, now);
        while let Some(&(_, position)) = self.turns.waiting.first().filter(|(verdict, _)| verdict.allows(now))
        {
            let at = position.1;
            let opening = self.ask_if_stale(at, gate, now);
            self.turns.take(at);
            let place = match opening.allows(now) {
                true => Place::Ready(self.kind(at, gate), position),
                false => Place::Waiting(opening.from, position),
            };
            self.turns.set(at, place);
        }
    }

    /// Moves back the lanes that would be next, were it not for another lane that has used up a limit which they
    /// share by one of several keys.
    fn demote(&mut self, gate: &dyn Gate, now: Time) {
        loop {
            let firsts = self.turns.ready.values().filter_map(|group| group.positions.first());
            let stale = firsts.copied().find(|&(_, at)| self.is_stale(at, gate, now));
            let Some(position) = stale else { return };
            let opening = self.ask_if_stale(position.1, gate, now);
            if !opening.allows(now) {
                self.turns.take(position.1);
                self.turns.set(position.1, Place::Waiting(opening.from, position));
            }
        }
    }

    pub(super) fn is_stale(&self, at: usize, gate: &dyn Gate, now: Time) -> bool {
        let entry = &self.directory[at];
        entry.kept.get(gate, Part::Keyed, entry.lane.since(), now).is_none()
    }

    /// What the limits that go by key answer to a lane.
    fn ask_if_stale(&mut self, at: usize, gate: &dyn Gate, now: Time) -> Opening {
        let entry = &self.directory[at];
        if let Some(opening) = entry.kept.get(gate, Part::Keyed, entry.lane.since(), now) {
            return opening;
        }
        let opening = self.ask(at, gate, Part::Keyed, now);
        self.keep(at, gate, opening);
        opening
    }

    fn keep(&mut self, at: usize, gate: &dyn Gate, opening: Opening) {
        let entry = &mut self.directory[at];
        entry.kept = Kept::new(opening, gate, Part::Keyed, entry.lane.since());
        entry.is_passed_over = false;
    }

    /// What the whole gate answers to the only lane.
    fn ask_whole(&mut self, at: usize, gate: &dyn Gate, now: Time) -> Opening {
        let since = self.lane(at).since();
        self.turns.whole.get(gate, Part::All, since, now).unwrap_or_else(|| {
            let opening = self.ask(at, gate, Part::All, now);
            self.turns.whole = Kept::new(opening, gate, Part::All, since);
            opening
        })
    }

    /// What the common limits answer to the first lane of each kind.
    fn ask_groups(&mut self, gate: &dyn Gate, now: Time, mut each: impl FnMut(Position, Opening)) {
        let mut ready = std::mem::take(&mut self.turns.ready);
        for Group { positions, kept } in ready.values_mut() {
            let Some(&position) = positions.first() else { continue };
            let opening = kept.get(gate, Part::Common, None, now).unwrap_or_else(|| {
                let opening = self.ask(position.1, gate, Part::Common, now);
                *kept = Kept::new(opening, gate, Part::Common, None);
                opening
            });
            each(position, opening);
        }
        self.turns.ready = ready;
    }

    fn kind(&self, at: usize, gate: &dyn Gate) -> Kind {
        let kind = self.with_request(self.lane(at), |is_judged, request| match is_judged {
            true => Kind::default(),
            false => gate.kind(request),
        });
        kind.unwrap_or_default()
    }

    /// The answers to what was in front of a lane are those to what is there now.
    pub(super) fn go_on(&mut self, at: usize, place: Place, whole: Kept, group: Kept) {
        let since = self.lane(at).since();
        let Turns { ready, .. } = &mut self.turns;
        if let Place::Ready(kind, _) = &place {
            ready.entry(kind.clone()).or_default().kept = group;
        }
        self.turns.set(at, place);
        self.directory[at].kept.carry_over(since);
        self.turns.whole = whole;
        self.turns.whole.carry_over(since);
    }
}
