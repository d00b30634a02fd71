//! The gate: decides what may leave when. It is pure: it never reads a clock, it is told the time.
//!
//! [`Own`] keeps the limits of this run, each a [`Rule`](crate::rule::Rule) with its [`History`], of all items or of
//! each key. [`Slots`] keeps slots that a store has booked, for limits that are shared with other runs. The scheduler
//! does not know which it has.
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
mod evict;
mod history;
mod holds;
mod last_release;
mod limit;
mod limiter;
mod limits;
mod memory;
mod opening;
mod own;
mod properties;
mod request;
mod slots;

use std::borrow::Cow;

use anyhow::Result;

pub(crate) use self::accounts::Accounts;
pub use self::charges::Charges;
pub(crate) use self::evict::Eviction;
pub use self::history::History;
pub use self::holds::Holds;
pub use self::last_release::last_release;
pub use self::limit::Limit;
pub use self::limiter::{Availability, Limiter};
pub use self::limits::{Charged, Limits};
#[cfg(test)]
pub(crate) use self::opening::ASKED;
pub use self::opening::Opening;
pub use self::own::Own;
pub use self::properties::{BatchTerms, Properties};
pub use self::request::{Kind, OwnedRequest, Part, Refusal, Request, Why};
pub use self::slots::{
    Answer, BookingTerms, Closed, Needs, News, Order, Overruns, Slot, Slots, Turn, Wanted,
};

use crate::config::Rate;
use crate::time::{Time, Wall};

/// Decides what may leave when.
///
/// A gate has limits of its own, with their histories, or has a store book slots. What concerns only one of the two has
/// a body here, for the other: nothing to do, or nothing known. No gate wraps another.
pub trait Gate {
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
    fn judged(&self, request: &Request) -> Opening {
        Opening::at(request.since)
    }

    /// The parts of a request that the answer of the common limits depends on.
    fn kind(&self, _request: &Request) -> Kind {
        Kind::default()
    }

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
    fn admit(&mut self, charges: &mut Charges, now: Time, request: &Request, most: u64) -> Result<u64, Part>;

    /// Charges the first `left` of the releases, which have left by `now`; the others are as though they had never been
    /// admitted. Those that are `over` have come to their end as well. Returns reports of those that were late for
    /// their slots.
    fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order>;

    /// A release that was charged has come to its end at `now`.
    fn finish(&mut self, _now: Time, _request: &Request) {}

    /// After a change of the limits: a release that was charged before, and costs this now, is still running.
    fn resume(&mut self, _now: Time, _request: &Request) {}

    /// The instant at which to call [`Gate::forget`].
    fn next_change(&self) -> Option<Time> {
        None
    }

    /// Gives back, at `now`, the memory of accounts that are idle by `horizon`. No later request may be of a time
    /// before that.
    fn forget(&mut self, _now: Time, _horizon: Time) {}

    /// The answers that may have become more lenient since this was last called, if any.
    fn take_news(&mut self) -> Option<News>;

    /// Other limits hold from `now` on, with the history of those before them. A store keeps to those that it was
    /// opened for.
    fn change(&mut self, _now: Time, _rates: Vec<Rate>) {}

    /// The charges of each limit since it is there. Of limits that are shared, none are told before the first release.
    fn charged(&self) -> &[Charged];

    /// The limits with their histories, if a store does not keep them.
    fn limits(&self) -> Option<&Limits> {
        None
    }

    /// Nothing else decides: neither other runs nor the ends of commands.
    fn is_foreseeable(&self) -> bool {
        false
    }

    /// The limits by which the end of the run may be forecast. Where they are shared, others may book what this run
    /// would.
    fn foreseen(&self, now: Time) -> Cow<'_, Limits>;

    /// Of each lane, no more releases are of use to [`Gate::prepare`].
    fn most_wanted(&self) -> u64 {
        0
    }

    /// Provides for what is wanted, in the order of the lanes, when only `vacancies` more can be released.
    ///
    /// # Errors
    /// Something that waits can never be released.
    fn prepare(
        &mut self,
        _now: Time,
        _wanted: &mut dyn Iterator<Item = Wanted>,
        _vacancies: u64,
    ) -> Result<Needs> {
        Ok(Needs::default())
    }

    /// Nothing more is released: all slots go back, those on their way as well, which are waited for. To be called
    /// again as long as [`Needs::again`] is an instant.
    fn close(&mut self, _now: Time) -> Needs {
        Needs::default()
    }

    /// A store has answered an order.
    fn answered(&mut self, _now: Time, _order: &Order, _answer: &Answer) {}

    /// An answer of a store is on its way.
    fn is_asking(&self) -> bool {
        false
    }

    /// The store cannot be asked any more.
    fn store_failed(&mut self) {}

    /// Gives up slots that were not used by `now`.
    fn expire(&mut self, _now: Time) {}

    /// Nothing like `request` is released before `until`, by any who share the limits. Returns the order that tells
    /// them; none if nobody shares them.
    fn hold(&mut self, _now: Time, _request: &Request, _until: Time) -> Option<Order> {
        None
    }

    /// The instant of the next slot for a release like `request`, of which there was none, if a store has said so.
    fn expected(&self, _request: &Request) -> Option<Time> {
        None
    }

    /// The end of a hold of all who share the limits, for releases like `request`; the origin, if there is none.
    fn held_until(&self, _request: &Request) -> Time {
        Time::ZERO
    }
}
