//! The waiting items, and which of them is next.
//!
//! Each set of keys has a lane of its own, so that one that is blocked holds up no other. A lane is *waiting* until
//! the limits that go by key admit its front; then it is *ready*, and only the common limits may hold it back. Of the
//! ready lanes, those whose fronts ask the same of the common limits get the same answer. So a decision costs O(kinds of
//! fronts + log lanes), never a scan of the lanes.
//!
//! An answer of the gate is kept as long as it stands: until the gate's revision changes, or it ends, or the front has
//! become next in line at another instant.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::lane::Lane;
use super::rules::Rules;
use crate::charge::Key;
use crate::config::{OnLimit, QueueOptions as Config};
use crate::gate::{Holds, Kind, News, Opening, Part};
use crate::rule::Verdict;
use crate::source::{Delimiter, Items, Segment};
use crate::time::Time;

/// How many bytes may wait in lanes, except that a single item may be larger.
const MOST_BYTES: usize = 64 << 20;

/// How many may wait if items need not be told apart: what was read last is written while it is in the cache.
const MOST_BYTES_ALIKE: usize = 64 << 10;

/// How many idle lanes keep their buffers.
const FEW_LANES: usize = 64;

/// All lanes.
pub(super) struct Queue {
    config: Config,
    lanes: Vec<Entry>,
    free: Vec<usize>,
    holds: Holds<Rc<[Key]>>,
    names: HashMap<Rc<[Key]>, usize, RandomState>,
    /// The lanes that wait or are ready, in the order of the input, if that is asked for.
    fronts: Option<BTreeSet<Position>>,
    waiting: BTreeSet<(Verdict, Position)>,
    ready: BTreeMap<Kind, Group>,
    /// What the whole gate answers to the only lane that waits.
    whole: Kept,
    /// Lanes that became empty, and when. Their last release matters until an item has arrived after it.
    emptied: VecDeque<(Time, usize)>,
    items: u64,
    bytes: usize,
    parts: usize,
}

/// The number of the item in front of a lane, and the lane. The order is that of the input.
type Position = (u64, usize);

/// An answer of the gate.
#[derive(Clone, Copy, Default)]
struct Kept(Option<Answer>);

#[derive(Clone, Copy)]
struct Answer {
    opening: Opening,
    revision: u64,
    /// What was asked about is next in line since then.
    since: Option<Time>,
}

impl Kept {
    /// The answer, if it still stands at `now`.
    fn get(self, part: Part, rules: &Rules, since: Option<Time>, now: Time) -> Option<Opening> {
        let stands = |answer: &Answer| {
            answer.revision == rules.gate.revision(part)
                && answer.since == since
                && !answer.opening.is_over(now)
        };
        self.0.filter(stands).map(|answer| answer.opening)
    }
}

/// Ready lanes with the same answer of the common limits.
#[derive(Default)]
struct Group {
    positions: BTreeSet<Position>,
    kept: Kept,
}

#[derive(Default)]
struct Entry {
    name: Rc<[Key]>,
    lane: Lane,
    standing: Place,
    /// The answer of the limits that go by key.
    kept: Kept,
    /// Something is still to be charged that its answers do not know of.
    is_uncharged: bool,
    /// It waits for what is admitted to be charged.
    is_passed_over: bool,
}

/// Where a lane is to be found.
#[derive(Default)]
enum Place {
    #[default]
    Out,
    Waiting(Verdict, Position),
    Ready(Kind, Position),
}

impl Place {
    /// The same place at another position.
    fn moved(self, position: Position) -> Place {
        match self {
            Place::Out => Place::Out,
            Place::Waiting(verdict, _) => Place::Waiting(verdict, position),
            Place::Ready(kind, _) => Place::Ready(kind, position),
        }
    }

    fn position(&self) -> Option<Position> {
        match self {
            Place::Out => None,
            Place::Waiting(_, position) | Place::Ready(_, position) => Some(*position),
        }
    }
}

impl Queue {
    pub(super) fn new(config: Config) -> Self {
        Queue {
            config,
            lanes: Vec::new(),
            free: Vec::new(),
            holds: Holds::default(),
            names: HashMap::default(),
            fronts: None,
            waiting: BTreeSet::new(),
            ready: BTreeMap::new(),
            whole: Kept::default(),
            emptied: VecDeque::new(),
            items: 0,
            bytes: 0,
            parts: 0,
        }
    }

    /// Has the first of all items that wait at hand.
    pub(super) fn track_fronts(&mut self) {
        self.fronts.get_or_insert_default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Whether there is room for more, or more is needed to make up a batch. `singly`: items join one by one.
    pub(super) fn has_room(&self, rules: &Rules, singly: bool) -> bool {
        let batch = rules.batcher.most_items();
        let lookahead = self.config.lookahead.get();
        if singly {
            return self.items < lookahead.max(batch) && (self.bytes < MOST_BYTES || self.items == 0);
        }
        let is_small = self.bytes < MOST_BYTES_ALIKE && self.parts as u64 <= lookahead;
        is_small || (self.items < batch && self.bytes < MOST_BYTES)
    }

    /// Whether an item with these keys would be alone in its lane.
    pub(super) fn would_be_alone(&self, keys: &[Key]) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let name = if self.config.in_order { &[] } else { keys };
        let Some(&at) = self.names.get(name) else { return true };
        self.lanes[at].lane.front().is_none()
    }

    /// The lanes that are not empty.
    pub(super) fn occupied(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().map(|entry| &entry.lane).filter(|lane| lane.front().is_some())
    }

    /// The longest that any item has been next in line: since then.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.occupied().filter_map(Lane::since).min()
    }

    /// The number of the first item that waits.
    pub(super) fn first(&self) -> Option<u64> {
        match &self.fronts {
            Some(fronts) => fronts.first().map(|(first, _)| *first),
            None => self.fronts().map(Segment::first).min(),
        }
    }

    /// The lanes whose front is sent for the first time, in the order of the input, if fronts are tracked.
    pub(super) fn fresh(&self) -> impl Iterator<Item = usize> {
        let lanes = self.fronts.iter().flatten().map(|(_, at)| *at);
        lanes.filter(|&at| self.is_fresh(at))
    }

    /// Whether the front of a lane, if there is one, is sent for the first time.
    pub(super) fn is_fresh(&self, at: usize) -> bool {
        self.lanes[at].lane.front().is_some_and(|front| front.segment.attempt() == 1)
    }

    /// How many bytes of the input stand before the first item that waits.
    pub(super) fn offset(&self) -> Option<u64> {
        self.fronts().map(Segment::offset).min()
    }

    fn fronts(&self) -> impl Iterator<Item = &Segment> {
        self.lanes.iter().filter_map(|entry| entry.lane.front()).map(|items| &items.segment)
    }

    /// Items join their lane, which is passed over until [`Queue::settle`]. Returns which that is.
    pub(super) fn push_over(&mut self, items: Items, rules: &Rules) -> usize {
        self.forget_emptied(items.segment.arrival());
        let at = self.find(&items);
        self.pass_over(at);
        self.push(items, rules);
        at
    }

    /// Items join their lane. Returns how many others they displaced.
    pub(super) fn push(&mut self, items: Items, rules: &Rules) -> u64 {
        self.forget_emptied(items.segment.arrival());
        let at = self.find(&items);
        let displaced = match rules.on_limit {
            OnLimit::Latest => self.clear(at, rules),
            _ => 0,
        };
        self.count_in(&items.segment);
        self.lanes[at].lane.push(items, &rules.batcher);
        // A lane that stands somewhere stays there, unless the items complete a batch.
        let Entry { standing, is_passed_over, .. } = &self.lanes[at];
        let is_out = matches!(standing, Place::Out) && !is_passed_over;
        if is_out || rules.batcher.lingers() {
            self.place(at, rules);
        }
        displaced
    }

    /// Puts back what was taken out, to be sent again.
    pub(super) fn requeue(&mut self, again: impl IntoIterator<Item = Items>, rules: &Rules) {
        let mut by_lane: HashMap<usize, Vec<Items>, RandomState> = HashMap::default();
        for items in again {
            self.count_in(&items.segment);
            by_lane.entry(self.find(&items)).or_default().push(items);
        }
        for (at, items) in by_lane {
            self.remove(at);
            self.lanes[at].lane.requeue(items, &rules.batcher);
            self.place(at, rules);
        }
    }

    fn find(&mut self, items: &Items) -> usize {
        let name = self.name(&items.charge.keys);
        if let Some(&at) = self.names.get(&name) {
            return at;
        }
        let lane = Lane::held(self.holds.until(&name));
        let entry = Entry { name: Rc::clone(&name), lane, ..Entry::default() };
        let at = self.free.pop().unwrap_or(self.lanes.len());
        if at == self.lanes.len() {
            self.lanes.push(entry);
        } else {
            self.lanes[at] = entry;
        }
        self.names.insert(name, at);
        at
    }

    fn name(&self, keys: &Rc<[Key]>) -> Rc<[Key]> {
        if self.config.in_order { Rc::default() } else { Rc::clone(keys) }
    }

    /// Releases nothing with these keys before `until`. Returns until when that was known already.
    pub(super) fn hold(&mut self, now: Time, keys: &Rc<[Key]>, until: Time, rules: &Rules) -> Time {
        let name = self.name(keys);
        let known = self.holds.until(&name);
        let until = until.max(known);
        if let Some(&at) = self.names.get(&name) {
            self.lanes[at].lane.hold(until);
            self.place(at, rules);
        }
        self.holds.set(now, name, until);
        known
    }

    /// Until when a server asked not to release anything of a lane.
    pub(super) fn held_until(&self, at: usize) -> Time {
        self.holds.until(&self.lanes[at].name)
    }

    /// Delays the next release of a lane.
    pub(super) fn delay(&mut self, at: usize, until: Time, rules: &Rules) {
        self.lanes[at].lane.delay(until);
        self.place(at, rules);
    }

    /// From now on, items have other keys.
    pub(super) fn forget_keys(&mut self) {
        self.holds.forget_keys();
    }

    /// Empties a lane, as an item that is newer takes the place of all in it.
    fn clear(&mut self, at: usize, rules: &Rules) -> u64 {
        self.remove(at);
        let gone = self.lanes[at].lane.take_fresh(&rules.batcher);
        gone.iter().for_each(|items| self.count_out(&items.segment));
        self.parts -= gone.len();
        gone.iter().map(|items| items.segment.items()).sum()
    }

    /// Gives up all that waits, in the order of the input.
    pub(super) fn take_all(&mut self) -> Vec<Segment> {
        let mut empty = Queue::new(self.config);
        empty.fronts = self.fronts.as_ref().map(|_| BTreeSet::new());
        empty.holds = std::mem::take(&mut self.holds);
        let lanes = std::mem::replace(self, empty).lanes;
        let mut segments: Vec<_> =
            lanes.into_iter().flat_map(|mut entry| entry.lane.clear()).map(|items| items.segment).collect();
        segments.sort_by_key(Segment::first);
        segments
    }

    /// Composes anew what all lanes would release next, and finds them their places.
    pub(super) fn reopen_all(&mut self, rules: &Rules) {
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at].lane;
            if !lane.is_fixed() {
                lane.reopen(&rules.batcher);
                self.place(at, rules);
            }
        }
    }

    /// Lets nothing more join the batches of these costs, of lanes for which `is_meant` holds. Returns whether there are
    /// any that something might have joined.
    pub(super) fn fix(&mut self, costs: &[u64], is_meant: impl Fn(&Lane) -> bool, rules: &Rules) -> bool {
        let is_such = |lane: &Lane| {
            let is_open = !lane.is_fixed() && is_meant(lane);
            is_open && lane.composed().is_some_and(|open| *open.costs == *costs)
        };
        let lanes: Vec<_> = (0..self.lanes.len()).filter(|&at| is_such(&self.lanes[at].lane)).collect();
        for &at in &lanes {
            self.lanes[at].lane.fix();
            self.place(at, rules);
        }
        !lanes.is_empty()
    }

    /// Re-evaluates the lanes whose answers may have become more lenient.
    pub(super) fn reconsider(&mut self, news: &News, rules: &Rules) {
        let is_later = |(other, _): &&(Verdict, Position)| *other > news.later_than();
        let waiting = self.waiting.iter().rev().take_while(is_later).map(|(_, (_, at))| *at);
        let is_meant =
            |at: &usize| self.lanes[*at].lane.front().is_some_and(|front| news.concerns(&front.charge.keys));
        let waiting: Vec<_> = waiting.filter(is_meant).collect();
        waiting.into_iter().for_each(|at| self.place(at, rules));
    }

    /// Finds a lane its place among those that wait.
    fn place(&mut self, at: usize, rules: &Rules) {
        self.remove(at);
        let Some(position) = self.position(at) else { return };
        // If there is one lane for all, the whole gate is asked at once.
        let opening = match self.config.in_order {
            true => Opening::at(self.lanes[at].lane.delayed_until()),
            false => self.ask(at, rules, Part::Keyed, Time::ZERO),
        };
        self.keep(at, rules, opening);
        self.stand(at, Place::Waiting(opening.from, position));
    }

    fn position(&self, at: usize) -> Option<Position> {
        self.lanes[at].lane.front().map(|front| (front.segment.first(), at))
    }

    fn stand(&mut self, at: usize, standing: Place) {
        self.fronts.iter_mut().for_each(|fronts| fronts.extend(standing.position()));
        match &standing {
            Place::Out => {}
            Place::Waiting(verdict, position) => _ = self.waiting.insert((*verdict, *position)),
            Place::Ready(kind, position) => {
                self.ready.entry(kind.clone()).or_default().positions.insert(*position);
            }
        }
        self.lanes[at].standing = standing;
    }

    fn remove(&mut self, at: usize) -> Place {
        self.whole = Kept::default();
        let standing = std::mem::take(&mut self.lanes[at].standing);
        if let Some((fronts, position)) = self.fronts.as_mut().zip(standing.position()) {
            fronts.remove(&position);
        }
        match &standing {
            Place::Out => {}
            Place::Waiting(verdict, position) => _ = self.waiting.remove(&(*verdict, *position)),
            Place::Ready(kind, position) => {
                let group = self.ready.get_mut(kind);
                if group.is_some_and(|group| group.positions.remove(position) && group.positions.is_empty()) {
                    self.ready.remove(kind);
                }
            }
        }
        standing
    }

    /// The lane whose turn it is at `now`: of those that may release, the one that is first in the input.
    ///
    /// # Errors
    /// When the next one's turn is, if none may; nothing if nothing waits.
    pub(super) fn next(&mut self, rules: &Rules, now: Time) -> Result<usize, Option<Verdict>> {
        if rules.batcher.before() < u64::MAX {
            let (opening, at) = self.soonest_before(rules, now).ok_or(None)?;
            return if opening.allows(now) { Ok(at) } else { Err(Some(opening.from)) };
        }
        if let Some((_, at)) = self.only() {
            let opening = self.ask_whole(at, rules, now);
            return if opening.allows(now) { Ok(at) } else { Err(Some(opening.from)) };
        }
        self.promote(rules, now);
        let mut first: Option<Position> = None;
        let mut wait = self.waiting.first().map(|(verdict, _)| *verdict);
        for (position, opening) in self.ask_groups(rules, now) {
            if opening.allows(now) {
                first = Some(first.map_or(position, |first| first.min(position)));
            } else {
                wait = Some(wait.map_or(opening.from, |other| other.min(opening.from)));
            }
        }
        first.map(|(_, at)| at).ok_or(wait)
    }

    /// The lane that may release first, as things stand.
    pub(super) fn soonest(&self, rules: &Rules) -> Option<usize> {
        if rules.batcher.before() < u64::MAX {
            return self.soonest_before(rules, Time::ZERO).map(|(_, at)| at);
        }
        if let Some((_, at)) = self.only() {
            return Some(at);
        }
        let waiting = self.waiting.first().map(|(verdict, (_, at))| (*verdict, *at));
        let ready = self.ready.values().filter_map(|group| Some((group, group.positions.first()?)));
        let ready = ready.map(|(group, &(_, at))| {
            let kept = group.kept.get(Part::Common, rules, None, Time::ZERO);
            (kept.unwrap_or_else(|| self.ask(at, rules, Part::Common, Time::ZERO)).from, at)
        });
        ready.chain(waiting).min().map(|(_, at)| at)
    }

    /// When the first release may be from `now` on, or one that is no later than `by`.
    pub(super) fn earliest(&self, rules: &Rules, now: Time, by: Time) -> Option<Verdict> {
        let lanes = (0..self.lanes.len()).filter(|&at| self.lanes[at].lane.front().is_some());
        let mut earliest = None;
        for answer in lanes.map(|at| self.ask(at, rules, Part::All, now).from) {
            earliest = Some(earliest.map_or(answer, |other: Verdict| other.min(answer)));
            if answer.allows(by) {
                break;
            }
        }
        earliest
    }

    /// The lane that may release first, at `now` at the earliest, of the few whose items the sink still takes.
    fn soonest_before(&self, rules: &Rules, now: Time) -> Option<(Opening, usize)> {
        let fronts = self.fronts.iter().flat_map(|fronts| fronts.range(..(rules.batcher.before(), 0)));
        let answers = fronts.map(|&(_, at)| (self.ask(at, rules, Part::All, now), at));
        answers.min_by_key(|(opening, _)| opening.from.max(Verdict::At(now)))
    }

    /// The only lane that waits, if there is only one. It need not be compared with others, so it is not moved.
    fn only(&self) -> Option<Position> {
        // Others may be passed over for now.
        let is_only = |at: usize| self.waiting.len() == 1 && self.lanes[at].lane.items() == self.items;
        self.waiting.first().map(|(_, position)| *position).filter(|&(_, at)| is_only(at))
    }

    /// Moves lanes from waiting to ready, as the limits that go by key admit them.
    fn promote(&mut self, rules: &Rules, now: Time) {
        self.demote(rules, now);
        while let Some(&(_, position)) = self.waiting.first().filter(|(verdict, _)| verdict.allows(now)) {
            let at = position.1;
            let opening = self.ask_if_stale(at, rules, now);
            self.remove(at);
            let standing = match opening.allows(now) {
                true => Place::Ready(self.kind(at, rules), position),
                false => Place::Waiting(opening.from, position),
            };
            self.stand(at, standing);
        }
    }

    /// Moves back the lanes that would be next, were it not for another lane that has used up a limit which they
    /// share by one of several keys.
    fn demote(&mut self, rules: &Rules, now: Time) {
        loop {
            let firsts = self.ready.values().filter_map(|group| group.positions.first());
            let stale = firsts.copied().find(|&(_, at)| self.is_stale(at, rules, now));
            let Some(position) = stale else { return };
            let opening = self.ask_if_stale(position.1, rules, now);
            if !opening.allows(now) {
                self.remove(position.1);
                self.stand(position.1, Place::Waiting(opening.from, position));
            }
        }
    }

    fn is_stale(&self, at: usize, rules: &Rules, now: Time) -> bool {
        let entry = &self.lanes[at];
        entry.kept.get(Part::Keyed, rules, entry.lane.since(), now).is_none()
    }

    /// What the limits that go by key answer to a lane.
    fn ask_if_stale(&mut self, at: usize, rules: &Rules, now: Time) -> Opening {
        let entry = &self.lanes[at];
        if let Some(opening) = entry.kept.get(Part::Keyed, rules, entry.lane.since(), now) {
            return opening;
        }
        let opening = self.ask(at, rules, Part::Keyed, now);
        self.keep(at, rules, opening);
        opening
    }

    fn keep(&mut self, at: usize, rules: &Rules, opening: Opening) {
        let entry = &mut self.lanes[at];
        let (revision, since) = (rules.gate.revision(Part::Keyed), entry.lane.since());
        entry.kept = Kept(Some(Answer { opening, revision, since }));
        entry.is_passed_over = false;
    }

    /// What the whole gate answers to the only lane.
    fn ask_whole(&mut self, at: usize, rules: &Rules, now: Time) -> Opening {
        let since = self.lanes[at].lane.since();
        self.whole.get(Part::All, rules, since, now).unwrap_or_else(|| {
            let opening = self.ask(at, rules, Part::All, now);
            let revision = rules.gate.revision(Part::All);
            self.whole = Kept(Some(Answer { opening, revision, since }));
            opening
        })
    }

    /// What the common limits answer to the first lane of each kind.
    fn ask_groups(&mut self, rules: &Rules, now: Time) -> impl Iterator<Item = (Position, Opening)> {
        let Queue { ready, lanes, .. } = self;
        ready.values_mut().filter_map(move |Group { positions, kept }| {
            let position = *positions.first()?;
            let opening = kept.get(Part::Common, rules, None, now).unwrap_or_else(|| {
                let opening = ask(&lanes[position.1].lane, rules, Part::Common, now);
                let revision = rules.gate.revision(Part::Common);
                *kept = Kept(Some(Answer { opening, revision, since: None }));
                opening
            });
            Some((position, opening))
        })
    }

    pub(super) fn ask(&self, at: usize, rules: &Rules, part: Part, now: Time) -> Opening {
        ask(&self.lanes[at].lane, rules, part, now)
    }

    fn kind(&self, at: usize, rules: &Rules) -> Kind {
        let kind = rules.with_request(&self.lanes[at].lane, |is_judged, request| match is_judged {
            true => Kind::default(),
            false => rules.gate.kind(request),
        });
        kind.unwrap_or_default()
    }

    /// A lane.
    pub(super) fn lane(&self, at: usize) -> &Lane {
        &self.lanes[at].lane
    }

    /// Passes over a lane until [`Queue::settle`]: a limit is used up by what is admitted already.
    pub(super) fn pass_over(&mut self, at: usize) {
        self.remove(at);
        (self.lanes[at].is_passed_over, self.lanes[at].is_uncharged) = (true, true);
    }

    /// Takes out the first `count` items of a lane, which leave at `now`; they are charged before [`Queue::settle`].
    pub(super) fn take(
        &mut self,
        at: usize,
        count: u64,
        now: Time,
        delimiter: &Delimiter,
        rules: &Rules,
    ) -> Vec<Segment> {
        let charge = self.lanes[at].lane.front().map(|front| front.charge.clone());
        let (whole, group) = (self.whole, self.group_of(at));
        let standing = self.remove(at);
        let taken = self.take_out(at, count, now, delimiter, rules);
        let lane = &self.lanes[at].lane;
        // What is charged the same gets the same answer until something is charged.
        let is_alike = lane.front().map(|front| &front.charge) == charge.as_ref()
            && lane.since().is_some_and(|since| since <= now)
            && !rules.depends_on_since();
        if is_alike && let Some(position) = self.position(at) {
            self.go_on(at, standing.moved(position), whole, group);
        } else {
            self.place(at, rules);
        }
        self.lanes[at].is_uncharged = true;
        taken
    }

    /// What the common limits answer to what is like a lane.
    fn group_of(&self, at: usize) -> Kept {
        match &self.lanes[at].standing {
            Place::Ready(kind, _) => self.ready.get(kind).map_or(Kept::default(), |group| group.kept),
            Place::Out | Place::Waiting(..) => Kept::default(),
        }
    }

    /// Takes out the first `count` items of a lane, which are not charged.
    pub(super) fn discard(&mut self, at: usize, count: u64, now: Time, delimiter: &Delimiter, rules: &Rules) {
        self.remove(at);
        self.take_out(at, count, now, delimiter, rules);
        self.place(at, rules);
    }

    fn take_out(
        &mut self,
        at: usize,
        count: u64,
        now: Time,
        delimiter: &Delimiter,
        rules: &Rules,
    ) -> Vec<Segment> {
        let lane = &mut self.lanes[at].lane;
        let before = lane.len();
        let taken = lane.take(count, now, delimiter, &rules.batcher);
        self.parts -= before - lane.len();
        if lane.front().is_none() {
            self.empty(at, now, rules);
        }
        taken.iter().for_each(|segment| self.count_out(segment));
        taken
    }

    /// The answers to what was in front of a lane are those to what is there now.
    fn go_on(&mut self, at: usize, standing: Place, whole: Kept, group: Kept) {
        let since = self.lanes[at].lane.since();
        if let Place::Ready(kind, _) = &standing {
            self.ready.entry(kind.clone()).or_default().kept = group;
        }
        self.stand(at, standing);
        let entry = &mut self.lanes[at];
        entry.kept.0.iter_mut().for_each(|answer| answer.since = since);
        self.whole = whole;
        self.whole.0.iter_mut().for_each(|answer| answer.since = since);
    }

    /// A lane has become empty.
    fn empty(&mut self, at: usize, now: Time, rules: &Rules) {
        if !rules.depends_on_since() && self.names.len() > FEW_LANES {
            return self.forget(at);
        }
        self.release_buffer(at);
        self.emptied.push_back((now, at));
    }

    /// With many keys, most lanes hold one item, once.
    fn release_buffer(&mut self, at: usize) {
        if self.names.len() > FEW_LANES {
            self.lanes[at].lane.clear();
        }
    }

    /// What was admitted is over with, as of `now`, for the lanes it came from and for those that were passed over.
    pub(super) fn settle(&mut self, now: Time, released: &[usize], passed_over: &[usize], rules: &Rules) {
        released.iter().for_each(|&at| self.lanes[at].lane.released(now));
        for &at in released.iter().chain(passed_over) {
            if std::mem::take(&mut self.lanes[at].is_uncharged) || self.is_stale(at, rules, now) {
                self.place(at, rules);
            }
        }
    }

    fn count_in(&mut self, segment: &Segment) {
        self.items += segment.items();
        self.bytes += segment.bytes().len();
        self.parts += 1;
    }

    fn count_out(&mut self, segment: &Segment) {
        self.items -= segment.items();
        self.bytes -= segment.bytes().len();
    }

    /// Forgets the empty lanes whose last release was no later than `arrival`.
    fn forget_emptied(&mut self, arrival: Time) {
        while let Some(&(_, at)) = self.emptied.front().filter(|(since, _)| *since <= arrival) {
            self.emptied.pop_front();
            let lane = &self.lanes[at].lane;
            if lane.front().is_none() && lane.previous() <= arrival {
                self.forget(at);
            }
        }
    }

    fn forget(&mut self, at: usize) {
        if self.names.remove(&self.lanes[at].name).is_some() {
            self.lanes[at] = Entry::default();
            self.free.push(at);
        }
    }
}

/// What some of the gate answers to a lane.
fn ask(lane: &Lane, rules: &Rules, part: Part, now: Time) -> Opening {
    let answer = rules.with_request(lane, |is_judged, request| match is_judged {
        // It is judged as soon as it is complete.
        true => rules.gate.judged(request),
        false => rules.gate.ask(part, request, now.max(lane.delayed_until())),
    });
    answer.unwrap_or(Opening::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Charge;
    use crate::config::{BatchSize, Defaults, RateText};
    use crate::gate::{BatchTerms, Own};
    use crate::schedule::batch::Batcher;
    use crate::source::Block;

    fn rules(batch: u64, depends_on_since: bool) -> Rules {
        let batch = BatchSize { items: batch.try_into().unwrap(), linger: None };
        let rate = "2/s,algo=bucket,burst=0".parse::<RateText>().unwrap();
        let rates = depends_on_since.then(|| rate.resolve(&Defaults::default()).unwrap());
        // What costs nothing is not charged.
        let gate = Box::new(Own::new(rates.into_iter().collect(), Time(0)));
        let batcher = Batcher::new(batch, BatchTerms::default());
        Rules { gate, batcher, on_limit: OnLimit::Wait, max_wait: None, jitter: None }
    }

    fn queue(lookahead: u64) -> Queue {
        Queue::new(Config {
            in_order: false,
            lookahead: lookahead.try_into().unwrap(),
            max_wait: None,
            jitter: None,
            until: None,
        })
    }

    #[test]
    fn there_is_room_for_so_many_items_and_bytes_and_for_a_batch() {
        // Whether items join one by one; the most in a batch; items, bytes and parts there are; whether there is room.
        let table = [
            (true, 1, 3, 0, 9, true),
            (true, 1, 4, 0, 4, false),
            (true, 9, 8, 0, 8, true),
            (true, 9, 9, 0, 9, false),
            (true, 1, 3, 67_108_863, 3, true),
            (true, 1, 3, 67_108_864, 3, false),
            (true, 1, 0, 67_108_864, 3, true),
            (false, 1, 100, 65_535, 4, true),
            (false, 1, 100, 65_535, 5, false),
            (false, 1, 100, 65_536, 1, false),
            (false, 200, 199, 65_536, 9, true),
            (false, 200, 200, 65_536, 9, false),
            (false, 200, 199, 67_108_864, 9, false),
            (false, 200, 201, 9, 9, false),
        ];
        for (singly, batch, items, bytes, parts, expected) in table {
            let queue = Queue { items, bytes, parts, ..queue(4) };
            let has_room = queue.has_room(&rules(batch, false), singly);
            assert_eq!(has_room, expected, "{singly} {batch} {items} {bytes} {parts}");
        }
    }

    fn push(queue: &mut Queue, rules: &Rules, number: u64, arrival: u64) -> usize {
        let block = Block::of(format!("{number}\n").into_bytes(), 1, Time(arrival));
        let key = Key::from_slice(&number.to_le_bytes());
        let charge = Charge { costs: Rc::default(), keys: [key].into() };
        queue.push(Items { segment: Segment::new(block, number, 0), charge }, rules);
        queue.next(rules, Time(5)).expect("no limit holds it up")
    }

    /// Pushes so many items, each with a key of its own, then takes all out.
    fn passed(count: u64, depends_on_since: bool) -> Queue {
        let (mut queue, rules) = (queue(9), rules(1, depends_on_since));
        (1..=count).for_each(|number| _ = push(&mut queue, &rules, number, 5));
        assert_eq!((queue.items, queue.parts), (count, usize::try_from(count).unwrap()));
        while let Ok(at) = queue.next(&rules, Time(5)) {
            queue.take(at, 1, Time(5), &Delimiter::new(b"\n"), &rules);
        }
        assert_eq!((queue.items, queue.bytes, queue.parts), (0, 0, 0));
        queue
    }

    #[test]
    fn what_gives_way_to_something_newer_is_not_counted_any_more() {
        let rules = Rules { on_limit: OnLimit::Latest, ..rules(1, false) };
        let mut queue = Queue { config: Config { in_order: true, ..queue(9).config }, ..queue(9) };
        (10..15).for_each(|number| _ = push(&mut queue, &rules, number, 5));
        assert_eq!((queue.items, queue.bytes, queue.parts), (1, 3, 1));
    }

    #[test]
    fn few_lanes_are_kept_for_keys_that_have_nothing_waiting() {
        assert_eq!(passed(10, false).names.len(), 10);
        let queue = passed(200, false);
        assert_eq!((queue.names.len(), queue.free.len()), (FEW_LANES, 200 - FEW_LANES));
    }

    #[test]
    fn a_lane_whose_last_release_matters_is_kept_until_one_arrives_after_that() {
        let rules = rules(1, true);
        let mut queue = passed(200, true);
        assert_eq!(queue.names.len(), 200);
        push(&mut queue, &rules, 300, 4);
        assert_eq!(queue.names.len(), 201);
        // It was over later than it was let go.
        let late = queue.names[&[Key::from_slice(&7u64.to_le_bytes())][..]];
        queue.settle(Time(6), &[late], &[], &rules);
        push(&mut queue, &rules, 301, 5);
        assert_eq!(queue.names.len(), 3);
        assert_eq!((queue.lanes.len(), queue.free.len()), (201, 198));
    }
}
