//! The items that wait, and how those that may go are put together.
//!
//! Each set of keys has a lane of its own, so that one that is blocked holds up no other. A lane is *waiting* until the
//! limits that go by key admit its front; then it is *ready*, and only the common limits may hold it back. Of the ready
//! lanes, those whose fronts ask the same of the common limits get the same answer. So a decision costs O(kinds of
//! fronts + log lanes), never a scan of the lanes.

mod batch;
mod directory;
mod discipline;
mod kept;
mod lane;
mod next;
mod size;
mod turns;
mod wanted;

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

pub(super) use self::batch::Batcher;
pub(super) use self::lane::Lane;
pub(super) use self::wanted::View;

use self::directory::Directory;
use self::discipline::Discipline;
use self::size::Size;
use self::turns::Turns;
use super::{Failed, Failure};
use crate::charge::Key;
use crate::config::{OnLimit, Plan};
use crate::gate::{BatchTerms, Closed, Gate, Holds};
use crate::source::{ArgumentError, Delimiter, Items, Segment, Segments};
use crate::time::Time;

/// All items that wait, in lanes.
pub(super) struct Lanes {
    pub(super) discipline: Discipline,
    pub(super) batcher: Batcher,
    delimiter: Delimiter,
    directory: Directory,
    turns: Turns,
    size: Size,
    holds: Holds<Rc<[Key]>>,
}

impl Lanes {
    pub(super) fn new(plan: &Plan, delimiter: Delimiter, terms: BatchTerms) -> Self {
        let discipline = Discipline::of(plan);
        let mut turns = Turns::default();
        if discipline.max_wait.is_some() {
            turns.track_fronts();
        }
        Lanes {
            discipline,
            batcher: Batcher::new(plan.batch, terms),
            delimiter,
            directory: Directory::default(),
            turns,
            size: Size::default(),
            holds: Holds::default(),
        }
    }

    /// Has the first of all items that wait at hand.
    pub(super) fn track_fronts(&mut self) {
        self.turns.track_fronts();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.size.items == 0
    }

    /// Whether there is room for more, or more is needed to make up a batch. `singly`: items join one by one.
    pub(super) fn have_room(&self, singly: bool) -> bool {
        self.size.has_room(self.discipline.lookahead, self.batcher.most_items(), singly)
    }

    /// Whether all that arrives at an instant has to be there before a release: it may join a batch, or take the place
    /// of what waits.
    pub(super) fn must_gather(&self) -> bool {
        self.batcher.forms_batches() || self.discipline.on_limit == OnLimit::Latest
    }

    /// Whether an item with these keys would be alone in its lane.
    pub(super) fn would_be_alone(&self, keys: &[Key]) -> bool {
        let name = if self.discipline.in_order { &[] } else { keys };
        self.directory.get(name).is_none_or(|at| self.lane(at).front().is_none())
    }

    pub(super) fn lane(&self, at: usize) -> &Lane {
        &self.directory[at].lane
    }

    /// The lanes that are not empty.
    pub(super) fn occupied(&self) -> impl Iterator<Item = &Lane> {
        self.directory.lanes().filter(|lane| lane.front().is_some())
    }

    /// The longest that any item has been next in line: since then.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.occupied().filter_map(Lane::since).min()
    }

    /// The number of the first item that waits.
    pub(super) fn first(&self) -> Option<u64> {
        match self.turns.fronts() {
            Some(fronts) => fronts.first().map(|(first, _)| *first),
            None => self.fronts().map(Segment::first).min(),
        }
    }

    /// The lanes whose front is sent for the first time, in the order of the input, if fronts are tracked.
    pub(super) fn fresh(&self) -> impl Iterator<Item = usize> {
        let lanes = self.turns.fronts().into_iter().flatten().map(|(_, at)| *at);
        lanes.filter(|&at| self.lane(at).front().is_some_and(|front| front.segment.attempt() == 1))
    }

    /// How many bytes of the input stand before the first item that waits.
    pub(super) fn offset(&self) -> Option<u64> {
        self.fronts().map(Segment::offset).min()
    }

    fn fronts(&self) -> impl Iterator<Item = &Segment> {
        self.directory.lanes().filter_map(Lane::front).map(|items| &items.segment)
    }

    /// The first item of a segment, without its delimiter.
    pub(super) fn text(&self, segment: &Segment) -> Vec<u8> {
        self.delimiter.split(segment.bytes()).next().unwrap_or_default().to_vec()
    }

    /// What is to be told of an item that cannot be given to a command.
    pub(super) fn failed(&self, segment: &Segment, error: ArgumentError) -> Failed {
        let (item, items, text) = (segment.first(), segment.items(), self.text(segment));
        Failed { item, items, text, why: Failure::ArgumentError(error) }
    }

    /// Until when the front of a lane may wait, if it may not wait for ever.
    pub(super) fn deadline(&self, at: usize) -> Option<Time> {
        let front = self.lane(at).front()?;
        front.segment.arrival().checked_add(self.discipline.max_wait?.into())
    }

    /// The first `items` of what was admitted, and the others.
    pub(super) fn split(&self, admission: &mut super::Admission, items: u64) -> (Vec<Segment>, Vec<Segment>) {
        admission.split(items, &self.delimiter)
    }

    /// Items join their lane, which is passed over until [`Lanes::finish`]. Returns which that is.
    pub(super) fn push_over(&mut self, items: Items, gate: &dyn Gate) -> usize {
        self.directory.forget_emptied(items.segment.arrival());
        let at = self.find(&items);
        self.pass_over(at);
        self.push(items, gate);
        at
    }

    /// Items join their lane. Returns how many others they displaced.
    pub(super) fn push(&mut self, items: Items, gate: &dyn Gate) -> u64 {
        self.directory.forget_emptied(items.segment.arrival());
        let at = self.find(&items);
        let displaced = match self.discipline.on_limit {
            OnLimit::Latest => self.displace(at),
            _ => 0,
        };
        self.size.add(&items.segment);
        self.directory[at].lane.push(items, &self.batcher);
        // A lane that stands somewhere stays there, unless the items complete a batch.
        let is_out = self.turns.is_out(at) && !self.directory[at].is_passed_over;
        if is_out || self.batcher.lingers() {
            self.place(at, gate);
        }
        displaced
    }

    /// Puts back what was taken out, to be sent again.
    pub(super) fn requeue(&mut self, again: impl IntoIterator<Item = Items>, gate: &dyn Gate) {
        let mut by_lane: HashMap<usize, Vec<Items>, RandomState> = HashMap::default();
        for items in again {
            self.size.add(&items.segment);
            by_lane.entry(self.find(&items)).or_default().push(items);
        }
        for (at, items) in by_lane {
            self.turns.take(at);
            self.directory[at].lane.requeue(items, &self.batcher);
            self.place(at, gate);
        }
    }

    fn find(&mut self, items: &Items) -> usize {
        let name = self.name(&items.charge.keys);
        self.directory.get_or_open(&name, || self.holds.until(&name))
    }

    fn name(&self, keys: &Rc<[Key]>) -> Rc<[Key]> {
        if self.discipline.in_order { Rc::default() } else { Rc::clone(keys) }
    }

    /// Releases nothing with these keys before `until`. Returns until when that was known already.
    pub(super) fn hold(&mut self, now: Time, keys: &Rc<[Key]>, until: Time, gate: &dyn Gate) -> Time {
        let name = self.name(keys);
        let known = self.holds.until(&name);
        let until = until.max(known);
        if let Some(at) = self.directory.get(&name) {
            self.directory[at].lane.hold(until);
            self.place(at, gate);
        }
        self.holds.set(now, name, until);
        known
    }

    /// Until when a server asked not to release anything of a lane.
    pub(super) fn held_until(&self, at: usize) -> Time {
        self.holds.until(&self.directory[at].name)
    }

    /// Delays the next release of a lane.
    pub(super) fn delay(&mut self, at: usize, until: Time, gate: &dyn Gate) {
        self.directory[at].lane.delay(until);
        self.place(at, gate);
    }

    /// Empties a lane, as an item that is newer takes the place of all in it. Returns the number of those that gave
    /// way.
    fn displace(&mut self, at: usize) -> u64 {
        self.turns.take(at);
        let gone = self.directory[at].lane.take_fresh(&self.batcher);
        self.size.remove(gone.iter().map(|items| &items.segment), gone.len());
        gone.iter().map(|items| items.segment.items()).sum()
    }

    /// Gives up all that waits, in the order of the input. If items have `other_keys` from now on, so have the lanes.
    pub(super) fn take_all(&mut self, now: Time, other_keys: bool) -> Vec<Segment> {
        (self.turns, self.size) = (self.turns.emptied(), Size::default());
        let waiting = self.directory.take_all(now);
        if other_keys {
            self.holds.forget_keys();
        }
        if other_keys && !self.discipline.in_order {
            self.directory = Directory::default();
        }
        let mut segments: Vec<_> = waiting.into_iter().map(|items| items.segment).collect();
        segments.sort_by_key(Segment::first);
        segments
    }

    /// Composes anew what all lanes would release next, and finds them their places.
    pub(super) fn reopen_all(&mut self, gate: &dyn Gate) {
        for at in 0..self.directory.len() {
            let lane = &mut self.directory[at].lane;
            if !lane.is_fixed() {
                lane.reopen(&self.batcher);
                self.place(at, gate);
            }
        }
    }

    /// Lets nothing more join releases. Returns whether something might have.
    pub(super) fn fix(&mut self, closed: &Closed, gate: &dyn Gate) -> bool {
        let is_meant = |lane: &Lane| {
            let key = lane.front().and_then(|front| front.charge.keys.first());
            !lane.is_fixed() && closed.key.as_ref().is_none_or(|meant| key == Some(meant))
        };
        let is_such =
            |lane: &Lane| is_meant(lane) && lane.composed().is_some_and(|open| *open.costs == *closed.costs);
        let lanes = self.directory.lanes().enumerate().filter(|(_, lane)| is_such(lane));
        let lanes: Vec<_> = lanes.map(|(at, _)| at).collect();
        for &at in &lanes {
            self.directory[at].lane.fix();
            self.place(at, gate);
        }
        !lanes.is_empty()
    }

    /// Passes over a lane until [`Lanes::finish`]: a limit is used up by what is admitted already.
    pub(super) fn pass_over(&mut self, at: usize) {
        self.turns.take(at);
        let entry = &mut self.directory[at];
        (entry.is_passed_over, entry.is_uncharged) = (true, true);
    }

    /// Takes out the first `count` items of a lane, which leave at `now`; they are charged before [`Lanes::finish`].
    pub(super) fn take(&mut self, at: usize, count: u64, now: Time, gate: &dyn Gate) -> Segments {
        let charge = self.lane(at).front().map(|front| front.charge.clone());
        let (whole, group) = (self.turns.whole, self.turns.group_of(at));
        let place = self.turns.take(at);
        let taken = self.take_out(at, count, now, gate);
        let lane = self.lane(at);
        // What is charged the same gets the same answer until something is charged.
        let is_alike = lane.front().map(|front| &front.charge) == charge.as_ref()
            && lane.since().is_some_and(|since| since <= now)
            && !self.depend_on_since(gate);
        if is_alike && let Some(position) = self.position(at) {
            self.go_on(at, place.moved(position), whole, group);
        } else {
            self.place(at, gate);
        }
        self.directory[at].is_uncharged = true;
        taken
    }

    /// Takes out the first `count` items of a lane, which are not charged and leave its last release where it was.
    pub(super) fn discard(&mut self, at: usize, count: u64, gate: &dyn Gate) {
        self.turns.take(at);
        self.take_out(at, count, self.lane(at).previous(), gate);
        self.place(at, gate);
    }

    fn take_out(&mut self, at: usize, count: u64, now: Time, gate: &dyn Gate) -> Segments {
        let remember = self.depend_on_since(gate);
        let lane = &mut self.directory[at].lane;
        let before = lane.len();
        let taken = lane.take(count, now, &self.delimiter, &self.batcher);
        self.size.remove(&taken, before - lane.len());
        if lane.front().is_none() {
            self.directory.empty(at, now, remember);
        }
        taken
    }

    /// What was admitted is over with, as of `now`, for the lanes it came from and for those that were passed over.
    pub(super) fn finish(&mut self, now: Time, admission: &super::Admission, gate: &dyn Gate) {
        admission.lanes.iter().for_each(|&at| self.directory[at].lane.released(now));
        for &at in admission.lanes.iter().chain(&admission.deferred) {
            if std::mem::take(&mut self.directory[at].is_uncharged) || self.is_stale(at, gate, now) {
                self.place(at, gate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Charge;
    use crate::cli;
    use crate::gate::Own;
    use crate::source::Block;

    #[test]
    fn what_gives_way_to_something_newer_is_not_counted_any_more() {
        let config = cli::parse(["throttle", "-r", "1/s", "--on-limit", "latest"].map(Into::into)).unwrap();
        let gate = Own::new(Vec::new(), Time(0));
        let mut lanes =
            Lanes::new(&Plan::of(&config), Delimiter::new(b"\n"), gate.properties().batches.clone());
        for number in 10..15u64 {
            let block = Block::of(format!("{number}\n").into_bytes(), 1, Time(5));
            let charge = Charge { costs: Rc::default(), keys: Rc::default() };
            let displaced = lanes.push(Items { segment: Segment::new(block, number, 0), charge }, &gate);
            assert_eq!(displaced, u64::from(number > 10));
        }
        assert_eq!(lanes.size, Size { items: 1, bytes: 3, parts: 1 });
    }
}
