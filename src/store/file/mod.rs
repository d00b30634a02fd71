//! A store in a file, for the processes of one user on one machine.
//!
//! The file has a fixed size. All bookings are made under its lock (`flock`), which the system takes back when a
//! process ends in whatever way. Instants in it are on the clock that counts from when the machine was started, and
//! goes on while it is suspended.
//!
//! # What survives what
//!
//! - **`kill -9`**, at any moment: nothing is lost. Rings are written before the header that tells of it, and the
//!   header is there twice, written one after the other.
//! - **A restart**: the clock begins anew. Whatever was released before counts as released at that instant, whatever the
//!   wall clock says; so a limit per day is used as much for a day after it as it was before.
//! - **A crash of the machine or a power cut**: as a restart, but the file may lack the bookings of the last half minute or
//!   so, since none of them waits for the disk. A limit with a longer period may be exceeded by as many once. The file
//!   itself is on the disk before it is first used.
//! - **Damage**: a checksum tells. One copy of the header is enough; with none, the file is left as it is, for whoever
//!   wants to look at it. Marks in the ring have no checksum of their own; one that cannot be is taken for the worst.
//! - **Removal, replacement or a reset** during a run: noticed at the next booking of a process that knew the state from
//!   before. What was lost may hold slots up to a horizon after it was lost, so all limits count as used up then; unless,
//!   by when the state that is there now began, that is over. A process that has not known the lost state cannot notice,
//!   and if none does, a state that was reset or removed begins as a new one. That is what a reset is for.

mod body;
mod domain;
mod guard;
mod header;
mod lock;
mod network;
mod place;
mod refusal;
mod status;
#[cfg(test)]
mod tests;
mod visit;

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;

use self::body::Body;
use self::domain::Domain;
use self::header::{Flaw, Header};
use self::lock::Locker;
pub use self::place::{names, place};
use self::refusal::{bad, no_lock, unusable};
pub(super) use self::status::status;
pub use self::status::{LimitStatus, Status};
use self::visit::{find_or_create, first};
use super::ledger::BookingRules;
use super::{Answer, Order, Policy, Store, StoreError};
use crate::exit::Exit;
use crate::time::Time;

/// Limits in a file.
pub struct FileStore {
    rules: BookingRules,
    clock: Box<dyn Fn() -> Time + Send>,
    setting: Setting,
    locker: Locker,
    body: Body,
    /// The state that was last seen, if any was.
    known: Option<Known>,
    /// What the user has not been told yet.
    warnings: Vec<String>,
}

/// Where we are, and how long we wait for the lock.
#[derive(Clone, Copy)]
struct Setting {
    domain: Domain,
    patience: Duration,
}

/// What tells a state from one that took its place.
#[derive(Clone, Copy)]
struct Known {
    generation: u64,
    sequence: u64,
    /// When it was last seen in its place.
    at: Time,
}

impl FileStore {
    /// Opens the state at `path`, or begins one there. Its directory has to be there.
    ///
    /// It never waits: if the state is locked just then, what is wrong with it is told by the first booking.
    ///
    /// `now` shows the time since the machine was started (`CLOCK_BOOTTIME`); slots are on the same time line.
    ///
    /// # Errors
    /// - [`Exit::BadState`]: it is damaged, is no state, or is one of other limits. It is left as it is.
    /// - [`Exit::BadStore`]: it is not ours alone, or not on this machine; or we may not write to it.
    /// - [`Exit::Usage`]: there are too many limits for a file.
    /// - [`Exit::Error`]: anything else that the system objects to.
    pub fn open(
        path: &Path,
        policy: Policy,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Result<Self, StoreError> {
        Self::open_in(Setting::ours(path)?, path, policy, now)
    }

    fn open_in(
        setting: Setting,
        path: &Path,
        policy: Policy,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Result<Self, StoreError> {
        let rules = BookingRules::new(policy);
        let first = first(&rules, setting.domain, now());
        if first.encode().is_none() {
            let error = anyhow!(
                "{}: there are too many limits for a file: put some of them together",
                path.display()
            );
            return Err(StoreError { exit: Exit::Usage, error });
        }
        let mut store = FileStore {
            body: find_or_create(path, &first, rules.places())?,
            rules,
            clock: Box::new(now),
            locker: Locker::new(setting.patience),
            setting,
            known: None,
            warnings: Vec::new(),
        };
        store.look()?;
        Ok(store)
    }

    /// Forgets the state at `path`, so that the next run begins a new one, with any limits. `false` if there is none.
    ///
    /// The file is written over, so that processes that use it notice; see the notes on this module. A file that never
    /// was a state is not touched.
    ///
    /// # Errors
    /// As for [`FileStore::open`], and [`Exit::StoreAway`]: somebody has kept it locked for 10 s.
    pub fn reset(path: &Path) -> Result<bool, StoreError> {
        Self::reset_in(Setting::ours(path)?, path)
    }

    fn reset_in(setting: Setting, path: &Path) -> Result<bool, StoreError> {
        let mut locker = Locker::new(setting.patience);
        let (body, _lock) = loop {
            let Some(body) = Body::open(path)? else { return Ok(false) };
            let lock = locker.lock(body.file()).map_err(|why| no_lock(&body, setting.patience, why))?;
            if body.is_in_place()? {
                break (body, lock);
            }
        };
        let sequence = match body.read()? {
            Ok(found) => found.header.sequence,
            Err(Flaw::Foreign) => return Err(bad(path, &unusable(path, Flaw::Foreign))),
            Err(_) => 0,
        };
        body.write(&Header { sequence: sequence + 1, generation: fastrand::u64(..), ..Header::default() })?;
        body.make_durable()?;
        Ok(true)
    }
}

impl Store for FileStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        if !order.key.is_empty() {
            let error = anyhow!("limits with key= cannot be kept in a file: use a Redis server for these");
            return Err(StoreError { exit: Exit::Usage, error });
        }
        let mut visit = self.enter()?;
        let mut answer = self.rules.book(&mut visit.header.ledger, &mut &self.body, visit.now, order)?;
        self.leave(visit)?;
        answer.warning = Some(std::mem::take(&mut self.warnings).join("; ")).filter(|text| !text.is_empty());
        Ok(answer)
    }
}

impl Setting {
    fn ours(path: &Path) -> Result<Self, StoreError> {
        let domain = Domain::ours().map_err(|error| StoreError {
            exit: Exit::Error,
            error: error.context(format!("{}: limits cannot be kept in a file here", path.display())),
        })?;
        Ok(Setting { domain, patience: lock::PATIENCE })
    }
}
