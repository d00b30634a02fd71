//! The gate: what may leave when. It is pure: it never reads a clock, it is told the time.
//!
//! [`Own`] keeps the limits of this run, each a [`Rule`](crate::rule::Rule) with one history ([`Single`]) or one for
//! each key ([`Keyed`]). [`Slots`] keeps slots that a store has booked, for limits that are shared with other runs. The
//! scheduler does not know which it has.
//!
//! Releases that leave together are *admitted* one after the other at one instant, each as though those before it had
//! been charged: their [`Charges`] are a value of their own. Once they have left, [`Gate::commit`] charges as many as
//! really did, at the instant read after that.
//!
//! What is allowed at an instant need not be allowed at any later one: see [`Opening`].

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

/// Some of what a gate goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The limits that all items use up together.
    Common,
    /// The limits that go by key, and slots.
    Keyed,
    /// All of them.
    All,
}

/// What releases have in common that get the same answer of [`Part::Common`], apart from being no earlier than they
/// asked.
pub type Kind = (SmallVec<[u64; 4]>, Option<Time>);

/// Why a release was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The limit, by its place; none if it is any of several that are shared.
    pub limit: Option<usize>,
    /// When it would have been allowed, if a store has said so. Otherwise, ask.
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

/// What a release waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A limit, by its place.
    Limit(usize),
    /// Something else than an instant, for this limit.
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

/// What the scheduler goes by as long as the limits stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// What batches go by.
    pub batches: BatchTerms,
    /// What is never allowed may be allowed yet, though nothing is running.
    pub may_open: bool,
    /// An item may be admitted that has never waited, and leaves no trace of when it left.
    pub lets_pass: bool,
    /// Answers may depend on when an item became next in line, in more than being no earlier.
    pub depends_on_since: bool,
}

/// What releases that carry several items have to go by.
#[derive(Clone, Debug, Default)]
pub struct BatchTerms {
    /// For each limit, whether a batch is charged the sum of its items' costs; otherwise it is charged as one item.
    pub sums: Vec<bool>,
    /// For each limit, the most that it ever admits at once.
    pub most: Vec<Option<u64>>,
    /// Whether what a batch costs has to be known before its release.
    pub is_ahead: bool,
}

impl BatchTerms {
    fn new(rates: &[Rate], most: Vec<Option<u64>>, is_ahead: bool) -> Self {
        BatchTerms { sums: rates.iter().map(|rate| rate.cost.is_some()).collect(), most, is_ahead }
    }
}

/// The limits by which the end of a run may be foretold.
pub struct Foreseen<'a> {
    /// The limits.
    pub limits: Cow<'a, Limits>,
    /// Whether nothing else decides.
    pub is_all: bool,
}

/// What a gate needs so that what waits can be released in time.
#[derive(Debug, Default)]
pub struct Needs {
    /// Have these booked.
    pub orders: Vec<Order>,
    /// Give these back; they are not used any more.
    pub returned: Vec<(Order, Vec<Slot>)>,
    /// Let nothing more join the releases of these keys and costs.
    pub closed: Vec<Closed>,
    /// When to look again.
    pub again: Option<Time>,
}

/// Releases that nothing more may join, as slots are booked for what they cost.
#[derive(Debug)]
pub struct Closed {
    /// Their key; none if it does not matter.
    pub key: Option<Key>,
    /// What each costs.
    pub costs: Box<[u64]>,
    /// Whether there is a slot for one of them already.
    pub has_slot: bool,
}

/// What waits, for a gate that has to know of releases before they are admitted.
pub trait Waiting {
    /// Whether nothing waits.
    fn is_empty(&self) -> bool;

    /// Whether more may arrive at this very instant that joins what waits, or takes its place.
    fn may_grow(&self) -> bool;

    /// Tells what each lane would release next, and how many such releases it has, up to `most`.
    fn tell(&self, most: u64, each: &mut dyn FnMut(Wanted));
}

/// What a gate has a store do. One without a store needs nothing.
pub trait Booking {
    /// Provides for what waits, when only `vacancies` more can be released.
    ///
    /// # Errors
    /// Something that waits can never be released.
    fn prepare(&mut self, now: Time, waiting: &dyn Waiting, vacancies: u64) -> Result<Needs>;

    /// Nothing more is released. What is needed then is to be looked at again as long as an instant is told.
    fn close(&mut self, now: Time) -> Needs;

    /// A store has answered an order.
    fn answered(&mut self, now: Time, order: &Order, answer: &Answer);

    /// Whether an answer of a store is on its way.
    fn is_asking(&self) -> bool;

    /// The store cannot be asked any more.
    fn store_failed(&mut self);

    /// Gives up what was not used by `now`.
    fn expire(&mut self, now: Time);

    /// Nothing like `request` is released before `until`, by any who share the limits. Returns what tells them;
    /// nothing, if nobody does.
    fn hold(&mut self, now: Time, request: &Request, until: Time) -> Option<Order>;

    /// Until when nothing like `request` is released by any who share the limits.
    fn held_until(&self, request: &Request) -> Time;
}

/// What may leave when.
pub trait Gate: Booking {
    /// The limits.
    fn rates(&self) -> &[Rate];

    /// What is fixed until they change.
    fn properties(&self) -> &Properties;

    /// An answer of [`Gate::ask`] stands until this number changes, or the opening ends.
    fn revision(&self, part: Part) -> u64;

    /// What the clock on the wall shows from `now` on. The first time, that is before anything is asked.
    fn set_wall(&mut self, now: Time, wall: Wall);

    /// When this part allows a release, at or after `from`.
    fn ask(&self, part: Part, request: &Request, from: Time) -> Opening;

    /// When it is known whether a release is allowed at `request.since`.
    fn judged(&self, request: &Request) -> Opening;

    /// What the answer of the common limits depends on.
    fn kind(&self, request: &Request) -> Kind;

    /// What makes a release wait, if anything.
    fn why(&self, request: &Request) -> Option<Why>;

    /// What does not allow a release at `request.since`, after those that are charged.
    fn refusing(&mut self, charges: &Charges, request: &Request) -> Option<Refusal>;

    /// Whether `request` would be admitted at `now`, after those that are charged.
    fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool;

    /// Admits releases like `request` at `now`, after those that are charged: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// What blocks even one.
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

    /// When something is to be forgotten, by [`Gate::forget`].
    fn next_change(&self) -> Option<Time>;

    /// Gives back, at `now`, the memory of what does not matter any more. No later request may be of a time before
    /// `horizon`.
    fn forget(&mut self, now: Time, horizon: Time);

    /// Whose answer may have become more lenient, if anyone's, since this was last asked.
    fn take_news(&mut self) -> Option<News>;

    /// Other limits hold from `now` on, with what is known of past releases.
    fn change(&mut self, now: Time, rates: Vec<Rate>);

    /// What each limit was charged since it is there. Of those that are shared, as many as were charged for a release.
    fn charged(&self) -> &[Charged];

    /// The limits with their histories, as far as they are known here.
    fn limits(&self) -> &Limits;

    /// What the end of the run may be foretold by.
    fn foreseen(&self, now: Time) -> Foreseen<'_>;
}
