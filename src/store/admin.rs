//! Manages a state in any vault, without knowing its limits beforehand.

use super::ledger::Ledger;
use super::shared::{Booking, VaultStore};
use super::status::MAX_KEYS;
use super::vault::Vault;
use super::{Hold, KeysInUse, LimitStatus, Status, StoreError};
use crate::config::Rate;

/// Holds everything in a state for `length` nanoseconds from now on; 0 ends all holds. Returns whether there is such a
/// state.
pub(super) fn hold<V: Vault>(vault: V, length: u64) -> Result<bool, StoreError> {
    let Some(mut shared) = VaultStore::found(vault)? else { return Ok(false) };
    let lift = |booking: &mut Booking| booking.record.ledger.hold = Hold::default();
    shared.update(b"", |booking| {
        let now = booking.reading.shown;
        booking.record.hold = Hold::new(now, now.saturating_add(length));
        if length == 0 {
            lift(booking);
        }
    })?;
    let keys = if length == 0 { shared.keys()? } else { Vec::new() };
    keys.iter().try_for_each(|key| shared.update(key, lift).map(drop))?;
    Ok(true)
}

/// The use of a state; `None` if there is none. Writes nothing.
pub(super) fn status<V: Vault>(vault: V) -> Result<Option<Status>, StoreError> {
    let Some(mut shared) = VaultStore::found(vault)? else { return Ok(None) };
    let lock = shared.vault.lock()?;
    let mut status = shared.look(b"", of_all)?;
    status.lock = lock;
    for key in shared.keys()? {
        shared.look(&key, |booking| add_key(&mut status, &key, booking))?;
    }
    Ok(Some(status))
}

/// The status as far as the state's own record tells.
fn of_all(booking: &Booking) -> Status {
    let rates = &booking.rules.policy().rates;
    let (rules, ledger, now) = (booking.rules, &booking.record.ledger, booking.reading.shown);
    let limit = |(at, rate): (usize, &Rate)| {
        let capacity = rules.policy().quotas[at].at_once();
        let (free, next) = rules.left(ledger, now, (at, capacity));
        let keys = rate.is_by_key().then(KeysInUse::default);
        LimitStatus { rate: rate.clone(), capacity, free, next_in: next.since(now), keys }
    };
    let by_key = rules.policy().key().is_some();
    // An item may have an empty key, which has its numbers in the state's own record.
    let held = booking.held.max(ledger.hold.in_force(now).filter(|_| !by_key));
    let held = held.map(|until| (None, until.since(now)));
    Status {
        limits: rates.iter().enumerate().map(limit).collect(),
        held: held.into_iter().collect(),
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
