//! The gate: decides what may leave when. It is pure: it never reads a clock, it is told the time.
//!
//! [`Own`] keeps the limits of this run, each a [`Rule`](crate::rule::Rule) with one history ([`Single`]) or one for
//! each key ([`Keyed`]). [`Slots`] keeps slots that a store has booked, for limits that are shared with other runs. The
//! scheduler does not know which it has.
//!
//! Releases that leave together are *admitted* one after the other at one instant, each as though those before it had
//! been charged: their [`Charges`] are a value of their own. Once they have left, [`Gate::commit`] charges as many as
//! really did, at the instant read after that.
//!
//! A release that is allowed at an instant need not be allowed at any later one: see [`Opening`].

mod accounts;
mod build;
mod change;
mod charges;
mod holds;
mod keyed;
mod last_release;
mod limit;
mod limiter;
mod limits;
mod memory;
mod opening;
mod own;
mod single;
mod slots;

use std::borrow::Cow;

use anyhow::Result;
use smallvec::SmallVec;

pub(crate) use self::accounts::Accounts;
pub use self::charges::Charges;
pub use self::holds::Holds;
pub use self::keyed::Keyed;
pub use self::last_release::last_release;
pub use self::limit::Limit;
pub use self::limiter::{Availability, Limiter};
pub use self::limits::{Charged, Limits, OwnedRequest, Request};
#[cfg(test)]
pub(crate) use self::opening::ASKED;
pub use self::opening::Opening;
pub use self::own::Own;
pub use self::single::Single;
pub use self::slots::{Answer, BookingTerms, News, Order, Overruns, Slot, Slots, Turn, Wanted};

use crate::charge::Key;
use crate::config::Rate;
use crate::time::{Time, Wall};

/// A part of the limits and slots that a gate goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The limits that all items use up together.
    Common,
    /// The limits that go by key, and slots.
    Keyed,
    /// All of them.
    All,
}

/// The costs of a release, and its `since` if the answer depends on it: those of one kind get the same answer of
/// [`Part::Common`], apart from being no earlier than they asked.
pub type Kind = (SmallVec<[u64; 4]>, Option<Time>);

/// Why a release was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The limit, by its place; none if it is any of several that are shared.
    pub limit: Option<usize>,
    /// The instant at which it would have been allowed, if a store has said so. Otherwise, ask.
    pub allowed: Option<Time>,
}

/// Why nothing more is admitted at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// By a limit that all items use up together.
    Common,
    /// By a limit that goes by key, or for want of a slot.
    Keyed,
}

/// The reason that a release waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A limit, by its place.
    Limit(usize),
    /// A limit, by its place, which allows it at no instant as things stand.
    Never(usize),
    /// A slot; if only one limit is shared, it is that one's.
    Slot(Option<usize>),
}

impl Why {
    /// The limit that is waited for, if it is known.
    pub fn limit(self) -> Option<usize> {
        match self {
            Why::Limit(limit) | Why::Never(limit) => Some(limit),
            Why::Slot(limit) => limit,
        }
    }
}

/// Properties of a gate that stand as long as its limits do.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// The terms of batches.
    pub batches: BatchTerms,
    /// The answer *never* may change, though nothing is running.
    pub may_open: bool,
    /// An item may be admitted that has never waited, and leaves no trace of when it left.
    pub lets_pass: bool,
    /// Answers may depend on when an item became next in line, in more than being no earlier.
    pub depends_on_since: bool,
}

/// The terms of releases that carry several items.
#[derive(Clone, Debug, Default)]
pub struct BatchTerms {
    /// For each limit: a batch is charged the sum of its items' costs. Otherwise it is charged as one item.
    pub sums: Vec<bool>,
    /// For each limit, the most that it ever admits at once.
    pub most: Vec<Option<u64>>,
    /// The cost of a batch has to be known before its release.
    pub is_ahead: bool,
}

impl BatchTerms {
    fn new(rates: &[Rate], most: Vec<Option<u64>>, is_ahead: bool) -> Self {
        BatchTerms { sums: rates.iter().map(|rate| rate.cost.is_some()).collect(), most, is_ahead }
    }
}

/// The limits by which the end of a run may be forecast.
pub struct Foreseen<'a> {
    /// The limits.
    pub limits: Cow<'a, Limits>,
    /// Nothing else decides.
    pub is_all: bool,
}

/// Requests of a gate, so that the items which wait can be released in time.
#[derive(Debug, Default)]
pub struct Needs {
    /// Have these booked.
    pub orders: Vec<Order>,
    /// Give these back; they are not used any more.
    pub returned: Vec<(Order, Vec<Slot>)>,
    /// Let nothing more join the releases of these keys and costs.
    pub closed: Vec<Closed>,
    /// Look again at this instant.
    pub again: Option<Time>,
}

/// Releases that nothing more may join, as slots are booked for what they cost.
#[derive(Debug)]
pub struct Closed {
    /// Their key; `None` if it does not matter.
    pub key: Option<Key>,
    /// The charge of each, by limit.
    pub costs: Box<[u64]>,
    /// There is a slot for one of them already.
    pub has_slot: bool,
}

/// The items that wait, for a gate that has to know of releases before they are admitted.
pub trait Waiting {
    /// Nothing waits.
    fn is_empty(&self) -> bool;

    /// More may arrive at this very instant that joins what waits, or takes its place.
    fn may_grow(&self) -> bool;

    /// Calls `each` with the next release of each lane, and the number of such releases that it has, up to `most`.
    fn tell(&self, most: u64, each: &mut dyn FnMut(Wanted));
}

/// The dealings of a gate with a store. One without a store needs nothing.
pub trait Booking {
    /// Provides for the items that wait, when only `vacancies` more can be released.
    ///
    /// # Errors
    /// Something that waits can never be released.
    fn prepare(&mut self, now: Time, waiting: &dyn Waiting, vacancies: u64) -> Result<Needs>;

    /// Nothing more is released. To be called again as long as [`Needs::again`] is an instant.
    fn close(&mut self, now: Time) -> Needs;

    /// A store has answered an order.
    fn answered(&mut self, now: Time, order: &Order, answer: &Answer);

    /// An answer of a store is on its way.
    fn is_asking(&self) -> bool;

    /// The store cannot be asked any more.
    fn store_failed(&mut self);

    /// Gives up slots that were not used by `now`.
    fn expire(&mut self, now: Time);

    /// Nothing like `request` is released before `until`, by any who share the limits. Returns the order that tells
    /// them; `None` if nobody does.
    fn hold(&mut self, now: Time, request: &Request, until: Time) -> Option<Order>;

    /// The end of a hold of all who share the limits, for releases like `request`; the origin, if there is none.
    fn held_until(&self, request: &Request) -> Time;
}

/// Decides what may leave when.
pub trait Gate: Booking {
    /// The limits as given, in the order of the costs of a request.
    fn rates(&self) -> &[Rate];

    /// Valid until [`Gate::change`].
    fn properties(&self) -> &Properties;

    /// An answer of [`Gate::ask`] stands until this number changes, or the opening ends.
    fn revision(&self, part: Part) -> u64;

    /// The wall clock shows this from `now` on. Called once before anything is asked.
    fn set_wall(&mut self, now: Time, wall: Wall);

    /// The first opening of this part for a release, at or after `from`.
    fn ask(&self, part: Part, request: &Request, from: Time) -> Opening;

    /// Opens when it is known if a release is allowed at `request.since`.
    fn judged(&self, request: &Request) -> Opening;

    /// The parts of a request that the answer of the common limits depends on.
    fn kind(&self, request: &Request) -> Kind;

    /// The reason that a release waits, if it does.
    fn why(&self, request: &Request) -> Option<Why>;

    /// The refusal of a release at `request.since`, after those that are charged, if it is refused.
    fn refusing(&mut self, charges: &Charges, request: &Request) -> Option<Refusal>;

    /// True if `request` would be admitted at `now`, after those that are charged.
    fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool;

    /// Admits releases like `request` at `now`, after those that are charged: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// The part that allows not even one.
    fn admit(
        &mut self,
        charges: &mut Charges,
        now: Time,
        request: &Request,
        most: u64,
    ) -> Result<u64, Blocked>;

    /// Charges the first `left` of the releases, which have left by `now`; the others are as though they had never been
    /// admitted. Those that are `over` have come to their end as well. Returns reports of those that were late for
    /// their slots.
    fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order>;

    /// A release that was charged has come to its end at `now`.
    fn finish(&mut self, now: Time, request: &Request);

    /// After a change of the limits: a release that was charged before, and costs this now, is still running.
    fn resume(&mut self, now: Time, request: &Request);

    /// The instant at which to call [`Gate::forget`].
    fn next_change(&self) -> Option<Time>;

    /// Gives back, at `now`, the memory of accounts that are idle by `horizon`. No later request may be of a time
    /// before that.
    fn forget(&mut self, now: Time, horizon: Time);

    /// The answers that may have become more lenient since this was last called, if any.
    fn take_news(&mut self) -> Option<News>;

    /// Other limits hold from `now` on, with the history of those before them.
    fn change(&mut self, now: Time, rates: Vec<Rate>);

    /// The charges of each limit since it is there. Of limits that are shared, none are told before the first release.
    fn charged(&self) -> &[Charged];

    /// The limits with their histories; none if a store keeps them.
    fn limits(&self) -> &Limits;

    /// The limits by which the end of the run may be forecast.
    fn foreseen(&self, now: Time) -> Foreseen<'_>;
}
