//! The use of the limits in a state.

use super::StoreError;
use super::ledger::Ledger;
use super::shared::{Booking, VaultStore};
use super::vault::Vault;
use crate::config::Rate;

/// The use of a state.
#[derive(Debug)]
pub struct Status {
    /// The limits as they are kept, with the reserve for late wake-ups as their margins.
    pub limits: Vec<LimitStatus>,
    /// Holds of all keys (`None`) or of one, with the nanoseconds that they last. There may be more than are listed.
    pub held: Vec<(Option<Vec<u8>>, u64)>,
    /// The nanoseconds until the last slot that a waiting run has booked, if there are any. On a server, the
    /// slots of runs that were killed count, and there are none if the newest slot was given back.
    pub booked: Option<u64>,
    /// The nanoseconds until the last turn of the runs that were turned away, if there are any.
    pub last_turn: Option<u64>,
    /// `None` on a server, which has no locks.
    pub lock: Option<LockStatus>,
}

/// The holder of a state's lock.
#[derive(Clone, Copy, Debug)]
pub enum LockStatus {
    /// No one.
    Free,
    /// This process.
    Held {
        /// Its process ID.
        pid: u32,
        /// True if it is stopped, and so keeps the others waiting.
        is_stopped: bool,
    },
}

/// The most held keys that are listed.
const MAX_KEYS: usize = 10;

/// The use of one limit; if each key has its own slots, by the empty key.
#[derive(Debug)]
pub struct LimitStatus {
    /// The limit.
    pub rate: Rate,
    /// The most releases that may have slots at one instant.
    pub capacity: u64,
    /// The number of releases that would have one right now.
    pub free: u64,
    /// Nanoseconds until the next slot.
    pub next_in: u64,
    /// The use by all keys. `None` if they have no slots of their own, or are on a server, where finding them is slow.
    pub keys: Option<KeysInUse>,
}

/// The keys that have used slots of a limit.
#[derive(Debug, Default)]
pub struct KeysInUse {
    /// Their number.
    pub number: u64,
    /// Those with the most used slots, and how many these are: at most three.
    pub fullest: Vec<(Vec<u8>, u64)>,
}

const MAX_FULLEST: usize = 3;

impl KeysInUse {
    /// Counts a key that has used this many slots.
    fn count(&mut self, key: &[u8], used: u64) {
        if used > 0 {
            self.number += 1;
            let place = self.fullest.partition_point(|(_, other)| *other >= used);
            self.fullest.insert(place, (key.to_owned(), used));
            self.fullest.truncate(MAX_FULLEST);
        }
    }
}

impl Status {
    /// The use of a state; `None` if there is none. Writes nothing.
    pub(super) fn of(vault: Box<dyn Vault>) -> Result<Option<Status>, StoreError> {
        let Some(mut shared) = VaultStore::found(vault)? else { return Ok(None) };
        let lock = shared.vault.lock()?;
        let mut status = shared.look(b"", of_all)?;
        status.lock = lock;
        for key in shared.keys()? {
            shared.look(&key, |booking| add_key(&mut status, &key, booking))?;
        }
        Ok(Some(status))
    }
}

/// The status as far as the state's own record tells.
fn of_all(booking: &Booking) -> Status {
    let rates = &booking.rules.policy().rates;
    let (rules, ledger, now) = (booking.rules, &booking.record.ledger, booking.reading.shown);
    let by_key = rules.policy().key().is_some();
    // An item may have an empty key, which has its numbers in the state's own record.
    let held = booking.held.max(ledger.hold.in_force(now).filter(|_| !by_key));
    let held = held.map(|until| until.since(now));
    let limit = |(at, rate): (usize, &Rate)| {
        let capacity = rules.policy().quotas[at].at_once();
        let (free, next) = rules.left(ledger, now, (at, capacity));
        let keys = rate.is_by_key().then(KeysInUse::default);
        let next_in = next.since(now).max(held.unwrap_or(0));
        LimitStatus { rate: rate.clone(), capacity, free, next_in, keys }
    };
    Status {
        limits: rates.iter().enumerate().map(limit).collect(),
        held: held.into_iter().map(|left| (None, left)).collect(),
        booked: ahead(ledger, booking),
        last_turn: Some(ledger.turns.since(now)).filter(|turn| *turn > rules.policy().horizon),
        lock: None,
    }
}

/// Adds what the record of a key tells.
fn add_key(status: &mut Status, key: &[u8], booking: &Booking) {
    let (rules, ledger, now) = (booking.rules, &booking.record.ledger, booking.reading.shown);
    let held_keys = status.held.iter().filter(|(key, _)| key.is_some()).count();
    if let Some(until) = ledger.hold.in_force(now).filter(|_| held_keys < MAX_KEYS) {
        status.held.push((Some(key.to_owned()), until.since(now)));
    }
    status.booked = status.booked.max(ahead(ledger, booking));
    for (at, LimitStatus { capacity, keys, .. }) in status.limits.iter_mut().enumerate() {
        let Some(keys) = keys else { continue };
        let (free, _) = rules.left(ledger, now, (at, *capacity));
        keys.count(key, capacity.saturating_sub(free));
    }
}

/// The nanoseconds until the newest slot, if it is still ahead and was not given back.
fn ahead(ledger: &Ledger, booking: &Booking) -> Option<u64> {
    let is_taken = !ledger.returned.contains(ledger.newest);
    Some(ledger.newest.since(booking.reading.shown)).filter(|left| *left > 0 && is_taken)
}
