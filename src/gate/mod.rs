//! The gate decides what may leave when. It is pure: it never reads a clock; callers pass the time.
//!
//! [`Own`] keeps the limits of this run, each a [`Rule`](crate::rule::Rule) with one [`History`], or one per key.
//! [`Slots`] keeps slots booked from a store, for limits shared with other runs. The scheduler does not know which it
//! has.
//!
//! Releases that leave together are *admitted* one after the other at one instant, each as if those before it had been
//! charged; their [`Charges`] are a separate value. Once they have left, [`Gate::commit`] charges those that really
//! did, at an instant read afterwards.
//!
//! A release allowed at one instant is not always allowed later: see [`Opening`].

mod accounts;
mod build;
mod change;
mod charges;
mod evict;
mod history;
mod last_release;
mod limit;
mod limiter;
mod memory;
mod opening;
mod own;
mod properties;
mod request;
mod slots;

use std::borrow::Cow;

use anyhow::Result;

pub(crate) use self::accounts::Accounts;
pub use self::change::predecessor;
pub use self::charges::{Charged, Charges};
pub(crate) use self::evict::Eviction;
pub use self::history::History;
pub use self::last_release::last_release;
pub use self::limit::Limit;
pub use self::limiter::{Availability, Limiter};
#[cfg(test)]
pub(crate) use self::opening::ASKED;
pub use self::opening::Opening;
pub use self::own::Own;
pub use self::properties::{BatchTerms, Properties};
pub use self::request::{Kind, OwnedRequest, Part, Request, Why};
pub use self::slots::{
    Answer, BookedBy, BookingTerms, Demand, NewLimits, News, Order, Overruns, Slot, Slots, Steps, Turn,
};

use crate::config::Rate;
use crate::time::{Time, Wall};

/// Decides what may leave when.
///
/// A gate keeps limits and their histories itself, or has a store book slots. A method that concerns only one of the
/// two kinds has a default body here for the other: do nothing, or know nothing. No gate wraps another.
pub trait Gate {
    /// The limits as given, in the order of the costs of a request.
    fn rates(&self) -> &[Rate];

    /// The properties of these limits, valid until [`Gate::change`].
    fn properties(&self) -> &Properties;

    /// An answer of [`Gate::ask`] stands until this number changes or the opening ends.
    fn revision(&self, part: Part) -> u64;

    /// The wall clock shows this from `now` on.
    fn set_wall(&mut self, now: Time, wall: Wall);

    /// The first opening for a release at or after `from`, by this part of the limits.
    fn ask(&self, part: Part, request: &Request, from: Time) -> Opening;

    /// The opening in which it can be decided whether a release is allowed at `request.since`.
    fn judged(&self, request: &Request) -> Opening {
        Opening::at(request.since)
    }

    /// The parts of a request that the answer of the common limits depends on.
    fn kind(&self, _request: &Request) -> Kind {
        Kind::default()
    }

    /// The reason that a release still waits at `now`, if it does.
    fn why(&self, request: &Request, now: Time) -> Option<Why>;

    /// Why a release is refused at `request.since`, after those in `charges`, if it is.
    fn refusing(&mut self, charges: &mut Charges, request: &Request) -> Option<Why>;

    /// True if `request` would be admitted at `now`, after those in `charges`.
    fn fits(&mut self, charges: &mut Charges, now: Time, request: &Request) -> bool;

    /// Admits releases like `request` at `now`, after those in `charges`: as many as are allowed, up to `most`.
    ///
    /// # Errors
    /// The part that allows not even one.
    fn admit(&mut self, charges: &mut Charges, now: Time, request: &Request, most: u64) -> Result<u64, Part>;

    /// Charges the first `left` of the releases, which have left by `now`; the others count as never admitted. If
    /// `over`, the releases have ended as well. Returns reports of releases that were late for their slots.
    fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, over: bool) -> Vec<Order>;

    /// Notes that a charged release ended at `now`.
    fn finish(&mut self, _now: Time, _request: &Request) {}

    /// After a change of limits: a release that was charged before is still running, and this is its request under the
    /// new limits.
    fn resume(&mut self, _now: Time, _request: &Request) {}

    /// The instant at which to call [`Gate::evict`].
    fn next_change(&self) -> Option<Time> {
        None
    }

    /// At `now`, frees the accounts that were idle by `horizon`. No later request may be as of an instant before that.
    fn evict(&mut self, _now: Time, _horizon: Time) {}

    /// The answers that may have become more lenient since the last call, if any.
    fn take_news(&mut self) -> Option<News>;

    /// Replaces the limits at `now`, keeping their history; if a store keeps that, it must know of them.
    fn change(&mut self, now: Time, rates: Vec<Rate>);

    /// Takes the terms for the limits that have replaced those of a store, if they are new: then [`Gate::change`] is to
    /// follow.
    fn follow(&mut self, _terms: &BookingTerms) -> bool {
        false
    }

    /// The most that a release may cost under each limit, if that is less than the limits say.
    fn bound(&self) -> &[u64] {
        &[]
    }

    /// The charges of each limit since it was added. Empty for shared limits before the first release.
    fn charged(&self) -> &[Charged];

    /// The limits with their histories; none if a store keeps them.
    fn limits(&self) -> &[Limit] {
        &[]
    }

    /// True if nothing but the limits decides: neither other runs nor the ends of commands.
    fn is_foreseeable(&self) -> bool {
        false
    }

    /// The limits from which to forecast the end of the run. If they are shared, other runs may take slots that the
    /// forecast counts on.
    fn foreseen(&self, now: Time) -> Cow<'_, Own>;

    /// The most releases of each lane that [`Gate::prepare`] can use.
    fn most_demanded(&self) -> u64 {
        0
    }

    /// Provides for what lanes demand, in their order, when only `vacancies` more releases can take place.
    fn prepare(&mut self, _now: Time, _demands: &mut dyn Iterator<Item = Demand>, _vacancies: u64) -> Steps {
        Steps::default()
    }

    /// Gives back all slots, as nothing more is released. Slots still to come are awaited, too: call it again as long
    /// as [`Steps::again`] is an instant.
    fn close(&mut self, _now: Time) -> Steps {
        Steps::default()
    }

    /// Takes the answer of a store to an order.
    fn answered(&mut self, _now: Time, _order: &Order, _answer: &Answer) {}

    /// True if an answer of a store is still to come.
    fn is_asking(&self) -> bool {
        false
    }

    /// The store has failed: no order will be answered.
    fn store_failed(&mut self) {}

    /// Drops slots that were not used in time, as of `now`. Returns true if there were any.
    fn expire(&mut self, _now: Time) -> bool {
        false
    }

    /// Releases nothing like `request` before `until`, in any run that shares the limits. Returns the order that
    /// reports the hold; `None` if the limits are not shared.
    fn hold(&mut self, _now: Time, _request: &Request, _until: Time) -> Option<Order> {
        None
    }

    /// The instant of the next slot for a release like `request`, if there was none and the store has named it.
    fn expected(&self, _request: &Request) -> Option<Time> {
        None
    }

    /// The end of a hold, in all runs that share the limits, on releases like `request`; the origin if there is none.
    fn held_until(&self, _request: &Request) -> Time {
        Time::ZERO
    }
}
