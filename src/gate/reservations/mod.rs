//! Reservations: slots of shared limits (see [`crate::store`]), booked for waiting items, held, and given back when
//! they are not needed.

mod ahead;
mod key_claims;
mod lease;
mod losses;
mod news;
mod order;
mod ordering;
mod pacing;
#[cfg(test)]
mod tests;
mod usable;

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;

pub use self::news::News;
pub use self::order::{Answer, BookedBy, NewLimits, Order, Overruns, Slot, Task, Turn, Wanted};
pub use self::ordering::{Demand, Steps};

use self::key_claims::KeyClaims;
use self::lease::Lease;
use self::pacing::Pacing;
use super::{Blocked, By, Eviction, Opening, Request};
use crate::charge::Key;
use crate::config::Rate;
use crate::time::{Time, Wall};

/// The terms on which a store gives out slots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BookingTerms {
    /// The most slots that one order asks for.
    pub span: u64,
    /// The most that one order asks for if answers are slow.
    pub longest_span: u64,
    /// The most that one release may cost under each limit.
    pub most: Vec<u64>,
    /// D: the nanoseconds for which a slot is good.
    pub validity: u64,
    /// The longest wait for an answer at the end of a run, in nanoseconds.
    pub patience: u64,
    /// The nanoseconds that an answer is expected to take at most, before there has been one.
    pub answers_within: u64,
    /// The number of changes of the limits since the store was opened.
    pub changes: u64,
}

/// The slots that releases take.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    key: Key,
    /// The cost of each under each shared limit.
    pub(super) costs: Arc<[u64]>,
    /// One for each release.
    pub(super) slots: Vec<Slot>,
}

/// Slots by key and costs. One release may go in each.
///
/// They know no rule, as the store obeyed the rules when it gave out the slots. A slot can be used only for the key and
/// the costs that it was booked for. Without a slot, nothing may go until more come.
#[derive(Clone)]
pub struct Reservations {
    terms: BookingTerms,
    /// Each key has its own slots.
    by_key: bool,
    keys: HashMap<Key, KeyClaims, RandomState>,
    eviction: Eviction,
    pacing: Pacing,
    /// The clock by which the slots were booked, if that matters.
    booked_by: Option<BookedBy>,
    /// Given up, and to be given back.
    surrendered: Vec<Order>,
    news: Option<News>,
    version: u64,
    /// Releases may wait for future slots.
    waits: bool,
    /// The deadline for answers at the end of the run.
    ends: Option<Time>,
}

impl Reservations {
    /// Slots for limits shared on these terms. If releases may `wait`, future slots are booked, too.
    pub fn new(rates: &[Rate], terms: BookingTerms, wait: bool) -> Self {
        let by_key = rates.iter().any(Rate::is_by_key);
        // No slot is before one already booked. If limits apply only to some items, an item with a long wait would hold
        // up the others, so each books only what is free when it asks.
        let is_mixed = !by_key && rates.iter().any(|rate| rate.only.is_some());
        Reservations {
            by_key,
            keys: HashMap::default(),
            eviction: Eviction::default(),
            pacing: Pacing::new(&terms, wait && !is_mixed),
            terms,
            booked_by: None,
            surrendered: Vec::new(),
            news: None,
            version: 0,
            waits: wait,
            ends: None,
        }
    }

    /// The terms on which slots are booked.
    pub fn terms(&self) -> &BookingTerms {
        &self.terms
    }

    /// Takes the terms for the limits that have replaced those of the store, if they are new: then
    /// [`Gate::set_limits`](super::Gate::set_limits) is to follow.
    pub fn follow(&mut self, terms: &BookingTerms) -> bool {
        let is_new = terms.changes > self.terms.changes;
        if is_new {
            let BookingTerms { patience, answers_within, .. } = self.terms;
            self.terms = BookingTerms { patience, answers_within, ..terms.clone() };
        }
        is_new
    }

    /// The limits have been replaced by these: forgets everything but holds and unanswered reports.
    pub(super) fn change(&mut self, now: Time, rates: &[Rate]) {
        let mut keys = mem::take(&mut self.keys);
        keys.retain(|_, known| {
            known.follow_change();
            known.is_of_use()
        });
        let (news, version) = (Some(News::new(now, false)), self.version + 1);
        *self =
            Reservations { keys, news, version, ..Reservations::new(rates, self.terms.clone(), self.waits) };
    }

    /// Answers stand until this number changes.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The costs of a request under the shared limits.
    fn costs<'a>(&self, request: &Request<'a>) -> &'a [u64] {
        &request.costs[..self.terms.most.len()]
    }

    /// True if a request needs no slot.
    pub(super) fn is_free(&self, request: &Request) -> bool {
        self.costs(request).iter().all(|&cost| cost == 0)
    }

    /// The key that a release is charged to; empty unless each key has its own slots.
    fn key_of<'a>(&self, request: &Request<'a>) -> &'a [u8] {
        request.keys.first().filter(|_| self.by_key).map_or(&[], |key| key.as_slice())
    }

    /// What is known about a request's key.
    fn known(&self, request: &Request) -> Option<&KeyClaims> {
        self.keys.get(self.key_of(request))
    }

    fn lease(&self, request: &Request) -> Option<&Lease> {
        self.known(request)?.find(self.costs(request))
    }

    /// The claims of a key.
    fn of(&mut self, key: &Key) -> &mut KeyClaims {
        self.keys.entry(key.clone()).or_default()
    }

    fn leases(&mut self) -> impl Iterator<Item = &mut Lease> {
        self.keys.values_mut().flat_map(|known| &mut known.leases)
    }

    /// The slots for requests like this, earliest first.
    pub fn slots(&self, request: &Request) -> impl Iterator<Item = Slot> {
        let known = self.known(request).filter(|known| known.may_use_slots());
        let found = known.and_then(|known| Some((known, known.find(self.costs(request))?)));
        let slots =
            found.into_iter().flat_map(|(known, lease)| lease.slots.iter().map(move |slot| (known, *slot)));
        slots.take_while(|(known, slot)| known.confirms(slot.at)).map(|(_, slot)| slot)
    }

    /// The instant of the next slot for requests like this, if there was none at `request.since`.
    pub fn expected(&self, request: &Request) -> Option<Time> {
        let lease = self.lease(request).filter(|lease| !self.pacing.replaces_lost(lease))?;
        lease.next.filter(|at| *at > request.eligible_at)
    }

    /// The end of the hold on requests like this, as far as is known.
    pub fn held_until(&self, request: &Request) -> Time {
        self.known(request).map_or(Time::ZERO, |known| known.held_until)
    }

    /// The first slot for requests like this that is not over by `from`. A request that costs nothing needs none.
    pub(super) fn opening(&self, request: &Request, from: Time) -> Opening {
        if self.is_free(request) {
            return Opening::at(from.max(self.held_until(request)));
        }
        let slot = self.slots(request).find(|slot| slot.until >= from);
        slot.map_or(Opening::NEVER, |slot| Opening { from: slot.at.max(from), until: slot.until.after(1u64) })
    }

    /// Checks whether a request may use a slot at `now`.
    pub(super) fn check(&self, now: Time, request: &Request) -> Result<(), Blocked> {
        let is_open =
            self.is_free(request) || self.slots(request).next().is_some_and(|slot| slot.is_good(now));
        if is_open { Ok(()) } else { Err(self.missing(request)) }
    }

    /// What a request without a slot that can be used lacks.
    fn missing(&self, request: &Request) -> Blocked {
        let until = self.expected(request).filter(|_| self.slots(request).next().is_none());
        Blocked { by: By::Slot(only_charged(self.costs(request))), until }
    }

    /// What a request still waits for. With several shared limits, it is not known which one.
    pub(super) fn blocked(&self, request: &Request) -> Blocked {
        // If the instant is known at which it may use a slot, or may ask for one, it waits for the limit, and otherwise
        // just for an answer.
        let waits_for_limit = self.lease(request).is_some_and(|lease| {
            lease.not_before.is_some() || lease.next.is_some() || !lease.slots.is_empty()
        });
        let limit = only_charged(self.costs(request)).filter(|_| waits_for_limit);
        Blocked { by: By::Slot(limit), until: self.expected(request) }
    }

    /// Gives up to `count` releases slots that can be used at `now`, as far as there are any. Returns their number, and
    /// the slots if they need some.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take(
        &mut self,
        now: Time,
        request: &Request,
        count: u64,
    ) -> Result<(u64, Option<Taken>), Blocked> {
        let costs = self.costs(request);
        if self.is_free(request) {
            return Ok((count, None));
        }
        let key = self.key_of(request);
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let most = self.slots(request).take(most).count();
        let known = self.keys.get_mut(key).filter(|_| most > 0);
        let slots = known.map_or_else(Vec::new, |known| known.lease(costs).take(now, most));
        if slots.is_empty() {
            return Err(self.missing(request));
        }
        self.version += 1;
        Ok((slots.len() as u64, Some(Taken { key: key.into(), costs: costs.into(), slots })))
    }

    /// The first `releases` of these slots have been used, by releases that were over at `now`; puts the others back.
    /// Returns a report of the releases that were late.
    pub(super) fn commit(&mut self, now: Time, taken: Taken, releases: u64) -> Option<Order> {
        self.version += 1;
        let Taken { key, costs, mut slots } = taken;
        let unused = slots.split_off(usize::try_from(releases).unwrap_or(usize::MAX).min(slots.len()));
        slots.iter().for_each(|slot| self.pacing.note_use(*slot, now));
        self.of(&key).lease(&costs).put(unused);
        self.forget(&key);
        let late = slots.iter().filter(|slot| slot.until < now).count() as u64;
        (late > 0).then(|| {
            self.of(&key).reports += 1;
            Order::of(&key, &costs, self.terms.changes, Task::Late(late, now))
        })
    }

    /// Drops the slots that were not used in time, as of `now`.
    pub fn expire(&mut self, now: Time) {
        let late: u64 = self.leases().map(|lease| u64::from(lease.expire(now))).sum();
        self.version += late;
        if late > 0 {
            self.pacing.note_loss(now);
        }
    }

    /// True if a slot was lost after the last one that was used.
    pub fn have_lost(&self) -> bool {
        self.pacing.have_lost()
    }

    /// The most releases of each lane that [`Reservations::want`] can use.
    pub fn most_wanted(&self) -> u64 {
        self.pacing.most()
    }

    /// The most runs of equal releases of each lane for which slots are booked at the same time.
    pub fn most_runs(&self) -> usize {
        self.pacing.most_runs()
    }

    /// True if a release like this might get a slot soon. Otherwise its next slot, or its next order, is far off.
    pub(super) fn may_go_soon(&self, now: Time, request: &Request) -> bool {
        let soon = now.saturating_add(self.pacing.lead());
        self.lease(request).is_none_or(|lease| match (lease.slots.front(), lease.not_before) {
            (Some(slot), _) => slot.at <= soon,
            (None, Some((at, _))) => at <= now,
            (None, _) => true,
        })
    }

    /// The nanoseconds by which a slot that is free at once may begin later than it is asked for.
    pub fn slack(&self) -> u64 {
        self.pacing.slack()
    }

    /// True if slots were asked for and the store has not answered.
    pub fn is_asking(&self) -> bool {
        self.pacing.coming > 0
    }

    /// The store has failed: no order will be answered.
    pub fn fail(&mut self) {
        self.pacing.coming = 0;
    }

    /// Takes the answer of a store to an order, and has the lanes it may concern ask again.
    pub fn heard(&mut self, now: Time, order: &Order, answer: &Answer) {
        if answer.booked_by.is_some() {
            self.keep_booked_by(now, answer.booked_by);
        }
        let wanted = order.wanted();
        if let Some(wanted) = wanted.filter(|_| order.changes == self.terms.changes) {
            let lease = self.keys.entry(order.key.clone()).or_default().lease(&order.costs);
            let placed = if lease.coming.is_empty() { None } else { Some(lease.coming.remove(0)) };
            let not_before = self.pacing.answered(now, placed, wanted, answer);
            // What was said of others like it stands.
            let stands = answer.is_undecided(wanted) && lease.not_before.is_some();
            lease.not_before = if stands { lease.not_before } else { not_before };
        }
        let known = self.of(&order.key);
        let (was_held, is_unconfirmed) = (known.held_until > now, known.has_unconfirmed());
        self.apply(now, order, answer);
        self.version += 1;
        if wanted.is_none() || was_held || answer.held.is_some() {
            self.may_be_sooner(now, &order.key);
        }
        if is_unconfirmed || wanted.is_some_and(|wanted| wanted.is_at_once()) && answer.next.is_some() {
            self.may_be_sooner(Time::NEVER, &order.key);
        }
        // New slots may be earlier than those held: slots that other runs gave back.
        if let Some(first) = answer.slots.first() {
            self.may_be_sooner(first.at, &order.key);
        }
    }

    /// Records an answer.
    fn apply(&mut self, now: Time, order: &Order, answer: &Answer) {
        self.of(&order.key).apply(now, order, answer);
        self.forget(&order.key);
        self.eviction.retain(&mut self.keys, |_, known| {
            known.forget_past(now);
            known.is_of_use()
        });
    }

    /// Forgets what is no longer of use for a key.
    fn forget(&mut self, key: &Key) {
        if self.keys.get_mut(key).is_some_and(|known| !known.is_of_use()) {
            self.keys.remove(key);
        }
    }

    /// Releases nothing like `request` before `until`, in any run that shares the limits. Returns the report to the
    /// other runs; until that is answered, no slot is used.
    pub fn hold(&mut self, now: Time, request: &Request, until: Time) -> Order {
        let (key, costs) = (Key::from(self.key_of(request)), self.costs(request));
        let known = self.of(&key);
        known.reports += 1;
        known.hold(until.max(known.held_until));
        self.version += 1;
        self.may_be_sooner(now, &key);
        Order::of(&key, costs, self.terms.changes, Task::Hold(until))
    }

    /// Notes that answers for this key from `at` on may have become more lenient.
    fn may_be_sooner(&mut self, at: Time, key: &Key) {
        let are_keyed = self.by_key;
        self.news.get_or_insert_with(|| News::new(at, are_keyed)).add(at, key);
    }

    /// The answers that may have become more lenient since the last call, if any.
    pub(super) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Slots booked by a clock that has been set since may be in another period of the calendar, or in the hours of a
    /// limit. If it was set by no more than half of what they keep from the ends of these, they are good.
    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        if let Some(BookedBy::Wall(by)) = self.booked_by
            && wall.differs(by, self.terms.validity / 2)
        {
            self.keep_booked_by(now, None);
        }
    }

    /// Gives up all slots that were booked by another clock than this, and what the store has said about later ones.
    /// All who share limits book by the same clock.
    fn keep_booked_by(&mut self, now: Time, clock: Option<BookedBy>) {
        let before = mem::replace(&mut self.booked_by, clock);
        if before == clock || before.is_none() {
            return;
        }
        self.surrender(now);
        self.leases().for_each(Lease::forget_booked);
        self.version += 1;
    }
}

/// The only limit that charges something, if there is just one.
fn only_charged(costs: &[u64]) -> Option<usize> {
    let mut charged = (0..costs.len()).filter(|&limit| costs[limit] > 0);
    charged.next().filter(|_| charged.next().is_none())
}
