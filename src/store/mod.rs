//! Limits that outlive a run and that several runs share.
//!
//! ```text
//! gate ─ Order ─▶ shared: load ▶ decide (pure, the ledger) ▶ swap ─▶ vault: a file | a server | memory (tests)
//!                        ▲──────────── refused: the value is newer ◀──┘
//! ```
//!
//! What is kept of a key is one value, a [`record::Record`]. Deciding is a function from a value to a value, on the
//! rules of a run's own limits: [`ledger`]. A [`vault::Vault`] only loads values and swaps them. [`VaultStore`] is the
//! one store over any vault.
//!
//! # The promise
//!
//! In any window of length P, no more than N releases start, over all processes that use the same state; none is early.
//! If the state is lost, nothing is released until every slot that might have been booked is more than a period old; no
//! slot is further ahead than the horizon.
//!
//! # Slots with a deadline
//!
//! A process that checks the log, releases and then records the release races with others that check at the same time.
//! Here a process *books* instead: it records a future instant, its slot, and then sleeps until it. That alone is not
//! enough: a process may wake up arbitrarily late, and then the log does not say what happened. Measured with eight
//! processes on an exact log of 100 per 200 ms, up to 129 releases fell into one window.
//!
//! So a slot is valid only until its deadline, D later. A process that wakes up after the deadline drops the slot and
//! books another, and the log is kept for P + D. Let release k have the slot s(k) and really start at e(k):
//!
//! ```text
//! s(k) ≤ e(k) ≤ s(k) + D          checked against the clock right before it leaves
//! s(k+N) ≥ s(k) + P + D           kept by the store
//! e(k+N) ≥ s(k+N) ≥ s(k) + P + D ≥ e(k) + P
//! ```
//!
//! The end of a release is known only afterwards: a write may block for as long as its reader likes. So the clock is
//! read again after it, and a release that ended after its deadline is *reported*: `e'(k) > s(k) + D`. It is charged
//! once more, at that instant, so that no slot booked from then on is too close to it. Everyone who holds slots from
//! before gives up the first of them that cost as much, as if the late release had taken their place. Other processes
//! learn of it when they next ask, at the latest shortly before they use a slot that they have had for long. Until the
//! report is answered, the late process uses none of its own slots.
//!
//! A dropped slot stays in the log: that costs throughput but never breaks the limit. So do the slots of a process that
//! was killed. A slot that is *given back* in time stays in the log, too, but the next process that asks for slots at
//! the same cost gets the same instant. To the rules nothing has happened: the log is that of one release, whoever
//! makes it. `margin=` sets D. [`Policy`] has the reserve for each algorithm.
//!
//! # Who does what
//!
//! A [`Store`] answers one question: [`Store::book`]. All limits of a run are booked as one, so a release has one slot.
//! The scheduler asks ahead for items that it already has, at most [`Policy::span`] of them, and never waits for the
//! answer: the store is asked on a thread of its own, and the slots arrive as an event. They are kept in
//! [`crate::gate::Reservations`], which is pure, like all of the gate.
//!
//! Slots that no item needs any more, or that are left when a run ends, are moved out of there and given back, so their
//! old owner cannot use them.
//!
//! An order says how far ahead a slot is of use. No slot is booked that no one would wait for, as a booking cannot be
//! undone.
//!
//! Slots are given out in the order of asking, so there is no polling and no thundering herd. None is given out further
//! ahead than the *horizon*, so the bookings of dead processes expire soon. A process that would have to wait longer is
//! turned away: it is told when to ask again, and gets a *turn*. Processes that come later queue behind it, so none
//! starves; but a turn is not a slot, and a process that does not come back costs the others nothing. While several
//! book, each gets its share of a second, and beyond that only a few slots at a time, so that all get the same.
//!
//! # What is not promised
//!
//! - A process that is stopped between its last look at the clock and the system call that releases will be late
//!   without noticing, by as long as it is stopped.
//! - While a write is blocked, others go on. What they release between its end and their next question may be too close
//!   to that end; they ask at least once in a lead ([`crate::gate::Reservations`]), some 50 ms.
//! - After the state was lost, processes that hold slots from before may not notice what others overrun, as the count
//!   of overruns starts again.
//! - An older copy that was put back and written to 16 times before anyone looked who had seen a newer one.
//! - A process that starts after the state was lost, and before any process that knew it has asked again, cannot know
//!   that there ever was one.
//!
//! # Towards internet scale
//!
//! One key of one server is written once in a round trip, if several processes want it, for all that want it
//! (`redis`), and the round trip is hidden as long as a batch lasts longer than it: n slots at N per P last n·P/N, so
//! n ≥ N·RTT/P. With N = 10 000/s and 100 ms, that is 1000 at a
//! time. Beyond one server, names, and the keys of a name, spread over a cluster; one key is never on two servers.
//! Beyond one region, the quota itself would be leased: a region holds n of N for a term T, returns what it does not
//! use, and a lease that is not renewed is dead only T + D later, which is how long its share lies idle after a
//! failure.

use std::fmt;
use std::sync::Arc;

use anyhow::{Error, anyhow};

use crate::exit::Exit;
pub use crate::gate::{Answer, BookedBy, NewLimits, Order, Overruns, Slot, Task, Turn, Wanted};

mod admin;
#[cfg(feature = "sqlite")]
mod file;
mod flaw;
mod hold;
#[cfg(test)]
mod hostile;
pub mod ledger;
#[cfg(test)]
#[path = "../../tests/it/memory_store.rs"]
mod memory_store;
mod place;
mod policy;
mod reach;
pub mod record;
#[cfg(feature = "redis")]
mod redis;
mod reserve;
mod shared;
mod status;
pub mod vault;

pub use admin::{Admin, BootClock};
#[cfg(feature = "sqlite")]
pub use file::FileVault;
pub use hold::Hold;
pub use place::{is_in_current_directory, names, place};
pub use policy::{Policy, Quota};
pub use reach::Reach;
#[cfg(feature = "redis")]
pub use redis::{ServerVault, book_over};
pub use reserve::Reserve;
pub use shared::VaultStore;
pub use status::{KeysInUse, LimitStatus, LockStatus, Status};

/// Why a store can no longer be asked.
#[derive(Debug)]
pub struct StoreError {
    /// The status that the run ends with.
    pub exit: Exit,
    /// The reason, and what to do about it. Contains no secret.
    pub error: Error,
}

impl StoreError {
    /// For this reason, with what is called `name` in messages.
    fn new(exit: Exit, name: impl fmt::Display, why: impl fmt::Display) -> Self {
        StoreError { exit, error: anyhow!("{name}: {why}") }
    }
}

impl std::error::Error for StoreError {}

/// Shows all causes.
impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

/// Receives messages for the user while a store waits.
pub type Warn = Arc<dyn Fn(String) + Send + Sync>;

/// The seconds of waiting after which the user is told.
#[cfg(any(feature = "redis", feature = "sqlite"))]
const BEFORE_WARNING: u64 = 2;

/// Keeps the log of slots.
pub trait Store: Send {
    /// Books slots, each at the first instant that all limits allow, or takes a report. No two slots are the same
    /// unless the limits allow that, too.
    ///
    /// Blocks for as long as there is hope.
    ///
    /// # Errors
    /// There is no hope.
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError>;

    /// As [`Store::book`], for the first of some orders, at least one: as many as are better booked together.
    ///
    /// # Errors
    /// There is no hope, for any of them.
    fn book_some(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        Ok(vec![self.book(&orders[0])?])
    }

    /// Calls `warn` with the reason why a booking takes long: after 2 s and, if it goes on, once a minute.
    fn warn_of_waits_by(&mut self, _warn: Warn) {}

    /// Takes back what [`Task::GiveBack`] names: whoever books next gets the same instants.
    ///
    /// A store that cannot hand them on leaves them booked: that costs throughput but never breaks the limit.
    ///
    /// # Errors
    /// They could not be given back.
    fn give_back(&mut self, _order: &Order) -> Result<(), StoreError> {
        Ok(())
    }
}
