//! All that waits, and whose turn it is.
//!
//! Each set of keys has a lane of its own, so that one that is blocked holds up no other. A lane is *waiting* until
//! its own limits, those that go by key, admit its front; then it is *ready*, and only the shared limits may hold it
//! back. Of the ready lanes, those whose fronts ask the same of the shared limits get the same answer. So a
//! decision asks once for each kind of front, and costs O(kinds + log lanes), never a scan of the lanes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use super::lane::Lane;
use super::rules::Rules;
use crate::charge::Key;
use crate::config::{OnLimit, Queue};
use crate::limiter::{All, Claim, Verdict};
use crate::source::{Delimiter, Parcel};
use crate::time::Time;

/// How much may wait in lanes, but for a single item that is larger.
const MOST_BYTES: usize = 64 << 20;

/// How much may wait if items need not be told apart: what was read last is written while it is in the cache.
const MOST_BYTES_IN_BULK: usize = 64 << 10;

/// So many lanes may keep memory that they do not need at the moment.
const FEW_LANES: usize = 64;

/// All lanes.
pub(super) struct Lanes {
    queue: Queue,
    slots: Vec<Slot>,
    free: Vec<usize>,
    names: HashMap<Rc<[Key]>, usize>,
    waiting: BTreeSet<(Verdict, Seat)>,
    ready: BTreeMap<Kind, BTreeSet<Seat>>,
    /// Lanes that became empty, and when. Their last release bears on what comes next, until an item has arrived
    /// that is later than it.
    emptied: VecDeque<(Time, usize)>,
    records: u64,
    bytes: usize,
    parcels: usize,
}

/// The number of the item in front of a lane, and the lane. The order is that of the input.
type Seat = (u64, usize);

/// What ready lanes with the same answer of the shared limits have in common.
type Kind = (Box<[u64]>, Option<Time>);

#[derive(Default)]
struct Slot {
    name: Rc<[Key]>,
    lane: Lane,
    place: Place,
}

/// Where a lane is to be found.
#[derive(Default)]
enum Place {
    #[default]
    Nowhere,
    Waiting(Verdict, Seat),
    Ready(Kind, Seat),
}

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// This lane's, now.
    Of(usize),
    /// Nobody's before this instant.
    NotBefore(Verdict),
    /// Nobody's: nothing waits.
    Nobody,
}

impl Lanes {
    pub(super) fn new(queue: Queue) -> Self {
        Lanes {
            queue,
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::new(),
            waiting: BTreeSet::new(),
            ready: BTreeMap::new(),
            emptied: VecDeque::new(),
            records: 0,
            bytes: 0,
            parcels: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether there is room for more, or more is needed to make up a batch. `singly`: each item is a parcel.
    pub(super) fn has_room(&self, rules: &Rules, singly: bool) -> bool {
        let batch = rules.batch.items.get();
        let lookahead = self.queue.lookahead.get();
        if singly {
            return self.records < lookahead.max(batch) && (self.bytes < MOST_BYTES || self.records == 0);
        }
        let is_small = self.bytes < MOST_BYTES_IN_BULK && self.parcels as u64 <= lookahead;
        is_small || (self.records < batch && self.bytes < MOST_BYTES)
    }

    /// Since when the item has been next in line that has been so for the longest.
    pub(super) fn oldest(&self, rules: &Rules) -> Option<Time> {
        self.slots.iter().filter_map(|slot| rules.next(&slot.lane)).map(|next| next.since).min()
    }

    /// The number of the first item that waits.
    pub(super) fn first(&self) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.lane.front()).map(Parcel::first).min()
    }

    /// How many bytes of the input stand before the first item that waits.
    pub(super) fn offset(&self) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.lane.front()).map(Parcel::offset).min()
    }

    /// A parcel joins its lane. Returns how many records it displaced.
    pub(super) fn push(&mut self, parcel: Parcel, rules: &Rules) -> u64 {
        self.forget_emptied(parcel.arrival());
        let at = self.find(&parcel);
        let displaced = match rules.on_limit {
            OnLimit::Latest => self.clear(at),
            _ => 0,
        };
        self.count_in(&parcel);
        self.slots[at].lane.push(parcel);
        // A lane that is seated stays where it is, unless the parcel completes a batch.
        if matches!(self.slots[at].place, Place::Nowhere) || rules.batch.linger.is_some() {
            self.seat(at, rules);
        }
        displaced
    }

    fn find(&mut self, parcel: &Parcel) -> usize {
        let name = if self.queue.in_order { Rc::default() } else { Rc::clone(&parcel.class().keys) };
        if let Some(&at) = self.names.get(&name) {
            return at;
        }
        let slot = Slot { name: Rc::clone(&name), ..Slot::default() };
        let at = self.free.pop().unwrap_or(self.slots.len());
        if at == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[at] = slot;
        }
        self.names.insert(name, at);
        at
    }

    /// Empties a lane, as an item that is newer takes the place of all in it.
    fn clear(&mut self, at: usize) -> u64 {
        self.unseat(at);
        let gone = self.slots[at].lane.take_fresh();
        self.count_out(
            gone.iter().map(Parcel::records).sum(),
            gone.iter().map(|p| p.block().bytes().len()).sum(),
        );
        self.parcels -= gone.len();
        gone.iter().map(Parcel::records).sum()
    }

    /// Gives up all that waits, in the order of the input.
    pub(super) fn take_all(&mut self) -> Vec<Parcel> {
        let queue = self.queue;
        let lanes = std::mem::replace(self, Lanes::new(queue)).slots;
        let mut parcels: Vec<_> = lanes.into_iter().flat_map(|mut slot| slot.lane.empty()).collect();
        parcels.sort_by_key(Parcel::first);
        parcels
    }

    /// Finds a lane its place anew.
    pub(super) fn seat(&mut self, at: usize, rules: &Rules) {
        self.unseat(at);
        let Some(front) = self.slots[at].lane.front() else { return };
        let seat = (front.first(), at);
        let verdict = self.ask(seat, rules, All::own);
        self.waiting.insert((verdict, seat));
        self.slots[at].place = Place::Waiting(verdict, seat);
    }

    /// Finds all lanes their places anew.
    pub(super) fn seat_all(&mut self, rules: &Rules) {
        (0..self.slots.len()).for_each(|at| self.seat(at, rules));
    }

    /// Something has come to its end: asks again those who were told to wait until then, not for an instant.
    pub(super) fn call_back(&mut self, rules: &Rules) {
        let is_told = |(verdict, _): &&(Verdict, Seat)| *verdict == Verdict::Never;
        let told: Vec<_> = self.waiting.iter().rev().take_while(is_told).map(|(_, (_, at))| *at).collect();
        told.into_iter().for_each(|at| self.seat(at, rules));
    }

    fn unseat(&mut self, at: usize) {
        match std::mem::replace(&mut self.slots[at].place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Waiting(verdict, seat) => _ = self.waiting.remove(&(verdict, seat)),
            Place::Ready(kind, seat) => {
                let of_kind = self.ready.get_mut(&kind);
                if of_kind.is_some_and(|seats| seats.remove(&seat) && seats.is_empty()) {
                    self.ready.remove(&kind);
                }
            }
        }
    }

    /// Whose turn it is at `now`: the earliest, and of several the first in the input.
    pub(super) fn turn(&mut self, rules: &Rules, now: Time) -> Turn {
        if let Some(seat) = self.lone() {
            let verdict = self.ask(seat, rules, All::earliest);
            return if verdict.allows(now) { Turn::Of(seat.1) } else { Turn::NotBefore(verdict) };
        }
        self.promote(rules, now);
        let mut turn: Option<Seat> = None;
        let mut not_before = self.waiting.first().map(|(verdict, _)| *verdict);
        for seats in self.ready.values() {
            let Some(&seat) = seats.first() else { continue };
            let verdict = self.ask(seat, rules, All::shared);
            if verdict.allows(now) {
                turn = Some(turn.map_or(seat, |turn| turn.min(seat)));
            } else {
                not_before = Some(not_before.map_or(verdict, |other| other.min(verdict)));
            }
        }
        match (turn, not_before) {
            (Some((_, at)), _) => Turn::Of(at),
            (None, Some(verdict)) => Turn::NotBefore(verdict),
            (None, None) => Turn::Nobody,
        }
    }

    /// The only seat that is taken, if it is the only one. It need not be compared with others, so it is not moved.
    fn lone(&self) -> Option<Seat> {
        let is_lone = self.waiting.len() == 1 && self.ready.is_empty();
        self.waiting.first().filter(|_| is_lone).map(|(_, seat)| *seat)
    }

    /// Moves lanes from waiting to ready, as their own limits admit them.
    fn promote(&mut self, rules: &Rules, now: Time) {
        self.demote(rules, now);
        while let Some(&(verdict, seat)) = self.waiting.first().filter(|(verdict, _)| verdict.allows(now)) {
            let again = self.ask(seat, rules, All::own);
            self.unseat(seat.1);
            self.slots[seat.1].place = if again > verdict {
                self.waiting.insert((again, seat));
                Place::Waiting(again, seat)
            } else {
                let kind = self.kind(seat, rules);
                self.ready.entry(kind.clone()).or_default().insert(seat);
                Place::Ready(kind, seat)
            };
        }
    }

    /// Moves back the lanes that would be next, were it not for another lane that has used up a limit which they
    /// share by one of several keys.
    fn demote(&mut self, rules: &Rules, now: Time) {
        let first = |seats: &BTreeSet<Seat>| seats.first().copied();
        while let Some((_, at)) =
            self.ready.values().filter_map(first).find(|&seat| self.is_stale(seat, rules, now))
        {
            self.seat(at, rules);
        }
    }

    fn is_stale(&self, seat: Seat, rules: &Rules, now: Time) -> bool {
        !self.ask(seat, rules, All::own).allows(now)
    }

    /// What some of the limits answer to the lane of a seat.
    fn ask(&self, (_, at): Seat, rules: &Rules, limits: impl Fn(&All, &Claim) -> Verdict) -> Verdict {
        let answer = self.with_claim(at, rules, |is_judged, claim| match is_judged {
            // It is judged as soon as it is complete.
            true => Verdict::At(claim.since),
            false => limits(&rules.limits, claim),
        });
        answer.unwrap_or(Verdict::Never)
    }

    fn kind(&self, (_, at): Seat, rules: &Rules) -> Kind {
        let kind = self.with_claim(at, rules, |is_judged, claim| match is_judged {
            true => Kind::default(),
            false => rules.limits.shared_part(claim),
        });
        kind.unwrap_or_default()
    }

    /// Hands on what a lane would release next, and whether that is judged instead of made to wait.
    fn with_claim<T>(&self, at: usize, rules: &Rules, f: impl FnOnce(bool, &Claim) -> T) -> Option<T> {
        let lane = &self.slots[at].lane;
        let (front, next) = lane.front().zip(rules.next(lane))?;
        let claim = Claim { since: next.since, costs: &next.costs, keys: &front.class().keys };
        Some(f(rules.judges(front), &claim))
    }

    /// All lanes, empty ones as well.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.slots.iter().map(|slot| &slot.lane)
    }

    /// The lane whose turn it is.
    pub(super) fn lane(&self, at: usize) -> &Lane {
        &self.slots[at].lane
    }

    /// Forgets the first `records` of a lane, which left at `now`. Returns their length.
    pub(super) fn advance(
        &mut self,
        at: usize,
        records: u64,
        now: Time,
        delimiter: &Delimiter,
        rules: &Rules,
    ) -> usize {
        self.change(at, now, rules, |lane| {
            let length = lane.advance(records, now, delimiter);
            (length, records, length)
        })
    }

    /// Takes out the first `records` of a lane, which left at `now`.
    pub(super) fn take(
        &mut self,
        at: usize,
        records: u64,
        now: Time,
        delimiter: &Delimiter,
        rules: &Rules,
    ) -> Vec<Parcel> {
        self.change(at, now, rules, |lane| {
            let parcels = lane.take(records, now, delimiter);
            let length = parcels.iter().map(|parcel| parcel.block().bytes().len()).sum();
            (parcels, records, length)
        })
    }

    /// Lets `leave` remove something from a lane, and tell how many records and bytes, as of `now`.
    fn change<T>(
        &mut self,
        at: usize,
        now: Time,
        rules: &Rules,
        leave: impl FnOnce(&mut Lane) -> (T, u64, usize),
    ) -> T {
        self.unseat(at);
        let lane = &mut self.slots[at].lane;
        let before = lane.len();
        let (left, records, bytes) = leave(lane);
        self.parcels -= before - lane.len();
        if lane.front().is_none() {
            // With many keys, most lanes hold one item, once.
            if self.names.len() > FEW_LANES {
                lane.empty();
            }
            self.emptied.push_back((now, at));
        }
        self.count_out(records, bytes);
        self.seat(at, rules);
        left
    }

    /// Puts back what was taken out, to be sent again.
    pub(super) fn put_back(&mut self, parcels: Vec<Parcel>, rules: &Rules) {
        for parcel in parcels {
            let at = self.find(&parcel);
            self.unseat(at);
            self.count_in(&parcel);
            self.slots[at].lane.put_back(parcel);
            self.seat(at, rules);
        }
    }

    fn count_in(&mut self, parcel: &Parcel) {
        self.records += parcel.records();
        self.bytes += parcel.block().bytes().len();
        self.parcels += 1;
    }

    fn count_out(&mut self, records: u64, bytes: usize) {
        self.records -= records;
        self.bytes -= bytes;
    }

    /// Forgets the empty lanes whose last release was no later than `arrival`.
    fn forget_emptied(&mut self, arrival: Time) {
        while let Some(&(since, at)) = self.emptied.front().filter(|(since, _)| *since <= arrival) {
            self.emptied.pop_front();
            let slot = &mut self.slots[at];
            let is_idle = slot.lane.front().is_none() && slot.lane.previous() == since;
            if is_idle && self.names.remove(&slot.name).is_some() {
                *slot = Slot::default();
                self.free.push(at);
            }
        }
    }
}
