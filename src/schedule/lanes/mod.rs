//! The items that wait, and how those that may go form releases.
//!
//! Each set of keys has its own lane, so a blocked lane holds up no other. A lane is *waiting* until the limits by key
//! admit its front; then it is *ready*, and only the common limits may hold it back. Ready lanes whose fronts ask the
//! same of the common limits get the same answer. So a decision costs O(kinds of fronts + log lanes), never a scan of
//! the lanes.

mod batch;
mod directory;
mod lane;
mod next;
mod size;
mod turns;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use foldhash::fast::RandomState;

pub(super) use self::lane::Lane;

use self::batch::Batcher;
use self::directory::Directory;
use self::size::Size;
use self::turns::{Position, Turns};
use super::Admission;
use crate::charge::{Charge, Key};
use crate::config::{OnLimit, QueueOptions, keys};
use crate::gate::{BatchTerms, Blocked, Gate, Scope};
use crate::source::{Capacity, Delimiter, Input, Items, Segment, Segments};
use crate::time::Time;

/// All waiting items, in lanes.
pub(super) struct Lanes {
    options: QueueOptions,
    batcher: Batcher,
    delimiter: Delimiter,
    directory: Directory,
    turns: Turns,
    /// The lanes whose next release waits for more items.
    lingering: BTreeSet<usize>,
    /// For each lane, its first item that was never sent, which need not be its front; if each has a deadline.
    fresh: BTreeSet<Position>,
    size: Size,
    /// All items wait in one lane: the whole gate is asked about its next release, and nothing needs sorting.
    is_sole: bool,
}

impl Lanes {
    pub(super) fn new(options: QueueOptions, delimiter: Delimiter, gate: &Gate) -> Self {
        let mut lanes = Lanes {
            batcher: Batcher::new(options.batch, BatchTerms::default()),
            options,
            delimiter,
            directory: Directory::default(),
            turns: Turns::default(),
            lingering: BTreeSet::new(),
            fresh: BTreeSet::new(),
            size: Size::default(),
            is_sole: false,
        };
        lanes.set_terms(gate);
        lanes
    }

    /// Keeps track of the fronts in input order, for [`Lanes::first`].
    pub(super) fn track_fronts(&mut self) {
        self.turns.fronts.get_or_insert_default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.size.items == 0
    }

    /// True if there is room for more of the input.
    pub(super) fn have_room(&self, input: &Input) -> bool {
        let (lookahead, batch) = (self.options.lookahead.get(), self.batcher.most_items());
        self.size.has_room(lookahead, batch, input.is_single()) && !input.is_full()
    }

    /// Forms releases under the present limits. All that waits must be taken out first.
    pub(super) fn set_terms(&mut self, gate: &Gate) {
        self.batcher.terms = gate.properties().batches.clone();
        self.is_sole = self.options.in_order || keys(gate.rates()).is_empty();
    }

    /// The capacity of the sink is this now.
    pub(super) fn set_capacity(&mut self, capacity: Capacity) {
        self.batcher.capacity = capacity;
    }

    pub(super) fn capacity(&self) -> &Capacity {
        &self.batcher.capacity
    }

    /// No more items will come after `now`.
    pub(super) fn end(&mut self, now: Time, gate: &Gate) {
        self.batcher.ended = Some(now);
        self.reopen_all(now, gate);
    }

    /// What forms batches, to be told of what became of one.
    pub(super) fn batcher(&mut self) -> &mut Batcher {
        &mut self.batcher
    }

    /// The number of items in the next release of a lane, or of those that may be released one by one, and the charge
    /// of one release. What joins a batch only now must be `allowed`.
    pub(super) fn complete(&self, at: usize, allowed: impl FnMut(&[u64]) -> bool) -> Option<(u64, Charge)> {
        let lane = self.lane(at);
        let front = lane.front()?;
        let open = self.batcher.complete(lane.open.as_ref()?, lane.waiting(), allowed);
        let items = if self.batcher.forms_batches() { open.items } else { front.segment.items() };
        Some((items, Charge { costs: open.costs, keys: Rc::clone(&front.charge.keys) }))
    }

    /// The number of waiting items of a lane, and their cost under a limit in the batches they would form.
    pub(super) fn cost_of<'a>(&self, waiting: impl Iterator<Item = &'a Items>, limit: usize) -> (u64, u64) {
        self.batcher.cost_of(waiting, limit)
    }

    pub(super) fn would_be_alone(&self, keys: &[Key]) -> bool {
        let at = if self.is_sole { Some(0) } else { self.directory.get(keys) };
        at.is_none_or(|at| !self.holds(at))
    }

    /// True if items wait in this lane.
    pub(super) fn holds(&self, at: usize) -> bool {
        self.directory.entries.get(at).is_some_and(|entry| entry.lane.front().is_some())
    }

    pub(super) fn lane(&self, at: usize) -> &Lane {
        &self.directory.entries[at].lane
    }

    pub(super) fn occupied(&self) -> impl Iterator<Item = &Lane> {
        self.directory.lanes().filter(|lane| lane.front().is_some())
    }

    /// The earliest instant at which a waiting item became next in line.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.occupied().filter_map(Lane::eligible_at).min()
    }

    /// The number of the first waiting item, if fronts are tracked.
    pub(super) fn first(&self) -> Option<u64> {
        let sole = self.sole().map(|(first, _)| *first);
        sole.or_else(|| self.turns.fronts.as_ref()?.first().map(|(first, _)| *first))
    }

    /// The first deadline of a waiting item.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadlines().next().map(|(deadline, _)| deadline)
    }

    /// The deadline of an item, if it was never sent.
    fn deadline_of(&self, segment: &Segment) -> Option<Time> {
        let wait = self.options.wait_of_each().filter(|_| segment.attempt() == 1)?;
        segment.arrival().checked_add(wait.into())
    }

    /// The deadline of each lane. Item numbers are in the order of arrival.
    fn deadlines(&self) -> impl Iterator<Item = (Time, usize)> {
        let of = |at| self.deadline_of(&self.lane(at).fresh()?.1.segment).map(|deadline| (deadline, at));
        self.fresh.iter().filter_map(move |&(_, at)| of(at))
    }

    /// The lanes with an item that may not wait beyond `now`, in input order. `missed`: only those that could not have
    /// gone in time; the others still may if the run woke up late.
    pub(super) fn late(&self, gate: &Gate, now: Time, missed: bool) -> Vec<usize> {
        let has_missed = |deadline: Time, at| {
            let by = deadline.max(self.lane(at).previous);
            deadline < now && self.ask(at, gate, Scope::All, Time::ZERO).from > by
        };
        let due = self.deadlines().take_while(|(deadline, _)| *deadline <= now);
        due.filter(|&(deadline, at)| !missed || has_missed(deadline, at)).map(|(_, at)| at).collect()
    }

    /// The number of input bytes before the first waiting item.
    pub(super) fn offset(&self) -> Option<u64> {
        self.occupied().filter_map(Lane::front).map(|front| front.segment.offset()).min()
    }

    /// Adds items to their empty lane, which is passed over until [`Lanes::finish`]. Returns the lane.
    pub(super) fn push_over(&mut self, items: Items) -> usize {
        let at = self.find(&items);
        self.join(at, items);
        self.directory.entries[at].is_uncharged = true;
        at
    }

    /// Adds items to their lane. Returns the number of others that gave way to them, and the limit that those waited
    /// for, if any.
    pub(super) fn push(&mut self, now: Time, items: Items, gate: &Gate) -> (u64, Option<usize>) {
        let at = self.find(&items);
        let is_latest = self.options.on_limit == OnLimit::Latest;
        // After a change of limits, a retry may be back before items that were in the lane.
        if !is_latest && self.lane(at).is_ahead_of(&items.segment) {
            self.requeue(now, [items], gate);
            return (0, None);
        }
        let displaced = if is_latest { self.displace(at, now, gate) } else { (0, None) };
        // If there was no room for it before, the limits may have forgotten what they knew when it arrived.
        if !self.options.may_wait() && self.lane(at).front().is_none() {
            self.directory.entries[at].lane.start_from(now);
        }
        // A lane that is not empty keeps its place, unless the items complete a batch.
        let moves = is_latest || self.lane(at).front().is_none() || self.batcher.lingers();
        self.join(at, items);
        if moves {
            self.place(at, gate, now);
        }
        displaced
    }

    fn join(&mut self, at: usize, items: Items) {
        self.size.add(&items.segment);
        self.directory.entries[at].lane.push(items, &self.batcher);
        self.note_deadline(at);
    }

    fn note_deadline(&mut self, at: usize) {
        if self.options.wait_of_each().is_some() {
            let entry = &mut self.directory.entries[at];
            let fresh = entry.lane.fresh().map(|(_, items)| items.segment.first());
            let known = std::mem::replace(&mut entry.fresh, fresh);
            known.into_iter().for_each(|item| _ = self.fresh.remove(&(item, at)));
            self.fresh.extend(fresh.map(|item| (item, at)));
        }
    }

    /// Puts back items that were taken out, to be sent again.
    pub(super) fn requeue(&mut self, now: Time, again: impl IntoIterator<Item = Items>, gate: &Gate) {
        let mut by_lane: HashMap<usize, Vec<Items>, RandomState> = HashMap::default();
        for items in again {
            self.size.add(&items.segment);
            // None is forgotten in between, which may be one that the items before are for.
            by_lane.entry(self.open(&items.charge.keys)).or_default().push(items);
        }
        for (at, items) in by_lane {
            let lane = &mut self.directory.entries[at].lane;
            let front = lane.front().map(|front| front.segment.first());
            // A new front gets a delay of its own.
            if items.iter().any(|items| front > Some(items.segment.first())) {
                lane.delay = None;
            }
            lane.requeue(items, &self.batcher);
            self.note_deadline(at);
            self.place(at, gate, now);
        }
    }

    fn find(&mut self, items: &Items) -> usize {
        self.directory.forget_emptied(items.segment.arrival());
        self.open(&items.charge.keys)
    }

    /// The lane of items with these keys; it may be empty.
    fn open(&mut self, keys: &Rc<[Key]>) -> usize {
        let name = if self.options.in_order { &Rc::default() } else { keys };
        self.directory.get_or_open(name)
    }

    /// Releases nothing with these keys before `until`. Returns the end of the hold known so far.
    pub(super) fn hold(&mut self, now: Time, keys: &Rc<[Key]>, until: Time, gate: &Gate) -> Time {
        let at = self.open(keys);
        let lane = &mut self.directory.entries[at].lane;
        let known = lane.hold;
        lane.hold = until.max(known);
        if lane.front().is_none() {
            self.directory.empty(at, now, true);
        }
        self.place(at, gate, now);
        known
    }

    /// Delays the next release of a lane.
    pub(super) fn delay(&mut self, at: usize, until: Time, gate: &Gate, now: Time) {
        self.directory.entries[at].lane.delay = Some(until);
        self.place(at, gate, now);
    }

    /// Removes from a lane the items that were never sent, as a newer one replaces them. Returns as [`Lanes::push`].
    fn displace(&mut self, at: usize, now: Time, gate: &Gate) -> (u64, Option<usize>) {
        let limit = self.blocked(at, gate, now).and_then(Blocked::limit);
        let gone = self.directory.entries[at].lane.take_fresh(&self.batcher);
        self.size.remove(gone.iter().map(|items| &items.segment), gone.len());
        (gone.iter().map(|items| items.segment.items()).sum(), limit)
    }

    /// Takes out all that waits, in input order. `other_keys`: the limits' keys have changed, so lanes are not kept,
    /// and what was held for some keys is held for all.
    pub(super) fn take_all(&mut self, now: Time, other_keys: bool) -> Vec<Segment> {
        self.turns.clear();
        self.lingering.clear();
        self.size = Size::default();
        self.fresh.clear();
        let waiting = self.directory.take_all(now);
        if other_keys && !self.options.in_order {
            self.directory.forget_keys();
        }
        let mut segments: Vec<_> = waiting.into_iter().map(|items| items.segment).collect();
        segments.sort_by_key(Segment::first);
        segments
    }

    /// Forms the next release of every lane again, and places the lanes.
    fn reopen_all(&mut self, now: Time, gate: &Gate) {
        for at in 0..self.directory.entries.len() {
            let lane = &mut self.directory.entries[at].lane;
            if !lane.is_fixed() {
                lane.reopen(&self.batcher);
                self.place(at, gate, now);
            }
        }
    }

    /// Makes no batch wait for more items from `now` on, as none can be read, if the sink takes its first one.
    pub(super) fn flush(&mut self, now: Time, gate: &Gate) {
        if !self.batcher.lingers() {
            return;
        }
        let few = self.few().map(|few| few.map(|&(_, at)| at).collect::<Vec<_>>());
        let lanes = few.unwrap_or_else(|| std::mem::take(&mut self.lingering).into_iter().collect());
        for at in lanes {
            if self.lane(at).lingers() {
                self.directory.entries[at].lane.flush(now);
                self.place(at, gate, now);
            }
        }
    }

    /// Lets nothing more join the releases that cost this, of one key or of all. Returns true if something might have.
    pub(super) fn fix(&mut self, now: Time, closed: &[(Option<Key>, Arc<[u64]>)], gate: &Gate) -> bool {
        // Other batches cost the same, whatever joins them.
        if closed.is_empty() || !self.batcher.sums_costs() {
            return false;
        }
        let is_meant = |lane: &Lane| {
            let (key, open) = (lane.front().and_then(|front| front.charge.keys.first()), lane.composed());
            let is_such = |(meant, costs): &(Option<Key>, Arc<[u64]>)| {
                (meant.is_none() || key == meant.as_ref())
                    && open.is_some_and(|open| open.costs.starts_with(costs))
            };
            !lane.is_fixed() && closed.iter().any(is_such)
        };
        let lanes = self.directory.lanes().enumerate().filter(|(_, lane)| is_meant(lane));
        let lanes: Vec<_> = lanes.map(|(at, _)| at).collect();
        for &at in &lanes {
            self.directory.entries[at].lane.fix();
            self.place(at, gate, now);
        }
        !lanes.is_empty()
    }

    /// Passes over a lane until [`Lanes::finish`], as what is already admitted uses up a limit.
    pub(super) fn pass_over(&mut self, at: usize) {
        self.unplace(at);
        self.directory.entries[at].is_uncharged = true;
    }

    /// Takes out the first `count` items of a lane, which leave at `now`; they are charged before [`Lanes::finish`].
    pub(super) fn take(&mut self, at: usize, count: u64, now: Time, gate: &Gate) -> Segments {
        let taken = self.take_out(at, 0, count, now, gate);
        // What is taken is not charged yet, so only the gate knows whether more may go.
        self.put(at, self.lane(at).eligible_at().unwrap_or_default(), gate, now);
        self.directory.entries[at].is_uncharged = true;
        taken
    }

    /// Of the items of a lane that were never sent, takes out the first `count`. They are not charged and do not count
    /// as its last release.
    pub(super) fn discard(&mut self, now: Time, at: usize, count: u64, gate: &Gate) {
        let lane = self.lane(at);
        if let Some((place, _)) = lane.fresh() {
            self.take_out(at, place, count, lane.previous, gate);
            self.place(at, gate, now);
        }
    }

    fn take_out(&mut self, at: usize, place: usize, count: u64, now: Time, gate: &Gate) -> Segments {
        let remember = self.depend_on_eligibility(gate);
        let lane = &mut self.directory.entries[at].lane;
        let before = lane.waiting().len();
        let taken = lane.take(place, count, now, &self.delimiter, &self.batcher);
        self.size.remove(&taken, before - lane.waiting().len());
        let is_empty = lane.front().is_none();
        self.note_deadline(at);
        if is_empty {
            self.unplace(at);
            self.directory.empty(at, now, remember);
        }
        taken
    }

    /// Ends an admission, as of `now`: places the lanes it came from and those that were passed over.
    pub(super) fn finish(&mut self, now: Time, admission: &Admission, gate: &Gate) {
        for &at in &admission.lanes {
            self.directory.entries[at].lane.start_from(now);
        }
        for &at in admission.lanes.iter().chain(&admission.deferred) {
            if std::mem::take(&mut self.directory.entries[at].is_uncharged) {
                self.place(at, gate, now);
            }
        }
        // What never waits is judged by limits that have been charged since, even while a slot is asked for.
        if !self.options.may_wait() && gate.reservations().is_some() {
            (0..self.directory.entries.len()).for_each(|at| self.place(at, gate, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use crate::source::Segment;
    use crate::time::Wall;

    #[test]
    fn what_gives_way_to_something_newer_is_not_counted_any_more() {
        let config = cli::parse(["throttle", "-r", "1/s", "--on-limit", "latest"].map(Into::into)).unwrap();
        let gate = Gate::new(Vec::new(), Time(0), Wall::EPOCH);
        let mut lanes = Lanes::new(config.queue, Delimiter::new(b"\n"), &gate);
        for number in 10..15u64 {
            let block = Segment::of(format!("{number}\n").into_bytes(), 1, Time(5));
            let charge = Charge { costs: Rc::default(), keys: Rc::default() };
            let displaced = lanes.push(Time(5), Items { segment: block.at(number, 0), charge }, &gate);
            assert_eq!(displaced.0, u64::from(number > 10));
        }
        assert_eq!(lanes.size, Size { items: 1, bytes: 3, parts: 1 });
    }
}
