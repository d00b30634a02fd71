//! The store of shared limits, over any vault: loads the record of a key, decides, and swaps it for another.
//!
//! All that is decided is decided here and in the [`ledger`](super::ledger), on plain values. If another process was
//! faster, its record is taken instead, and everything is decided again. What is loaded is not taken at its word:
//! [`trust`].
//!
//! The record of the empty key is the state's own. With limits per key, each key has another.

mod agreement;
mod book;
mod queue;
mod request;
mod returnable;
mod swap;
mod trust;

use std::sync::Arc;

use self::agreement::Agreement;
use self::returnable::Returnable;
use self::trust::Watermarks;
use super::flaw::Flaw;
use super::ledger::BookingRules;
use super::record::Record;
use super::vault::{Loaded, Reading, Suspicion, Value, Vault};
use super::{Policy, Reserve, StoreError, Warn};
use crate::config::Rate;
use crate::time::Time;

/// The least number of new keys that are added between two evictions of idle ones.
const MIN_BETWEEN_EVICTIONS: usize = 1024;

/// Limits that are kept in a vault, as one process uses them.
pub struct VaultStore {
    /// A random number by which this process is told from others.
    id: u32,
    pub(super) vault: Box<dyn Vault>,
    agreement: Agreement,
    pub(super) rules: BookingRules,
    memory: Watermarks,
    returnable: Returnable,
    /// The state's own value, as it was found or written last while keys were changed.
    own: Option<Value>,
    /// A suspicion that was not acted on yet.
    doubt: Option<Suspicion>,
    /// The number of new keys that are still added before the next eviction of idle ones.
    until_eviction: usize,
    /// The number of times that slots were booked in vain, as all came too late, since some came in time.
    corrections: usize,
    /// When the vault last answered, by our own clock.
    answered: Time,
    warn: Warn,
}

/// A record that is being booked in.
pub(super) struct Booking<'a> {
    pub(super) rules: &'a BookingRules,
    pub(super) record: &'a mut Record,
    pub(super) reading: &'a Reading,
    /// The end of a hold of all keys.
    pub(super) held: Option<Time>,
    /// As [`Order::changes`](super::Order::changes), by the present limits.
    changes: u64,
}

/// The record of a key, as it was found and as it is to be.
struct RecordEntry<'a> {
    key: &'a [u8],
    value: Option<Value>,
    found: Option<Record>,
    record: Record,
}

impl VaultStore {
    /// Limits under a policy, all margins included, kept in `vault`. Begins a state if there is none.
    ///
    /// # Errors
    /// It is unavailable, damaged, or kept for other limits.
    pub fn over(vault: impl Vault + 'static, policy: Policy) -> Result<Self, StoreError> {
        Self::opened(Box::new(vault), policy, &[], Reserve::LOCAL)
    }

    /// Limits under a policy, kept in `vault`; the margins that `rates` do not give are those of `reserve`, or of the
    /// state if there is one.
    pub(super) fn new(vault: Box<dyn Vault>, policy: Policy, rates: &[Rate], reserve: Reserve) -> Self {
        let mut store = VaultStore {
            id: fastrand::u32(..),
            vault,
            agreement: Agreement::new(policy.horizon, rates, reserve),
            rules: BookingRules::new(policy),
            memory: Watermarks::default(),
            returnable: Returnable::default(),
            own: None,
            doubt: None,
            until_eviction: 0,
            corrections: 0,
            answered: Time::ZERO,
            warn: Arc::new(drop),
        };
        store.expect();
        store
    }

    /// As [`VaultStore::new`]. Looks at the state, and begins it if there is none, if that can be done without delay.
    ///
    /// # Errors
    /// It is unavailable, damaged, or kept for other limits.
    pub(super) fn opened(
        vault: Box<dyn Vault>,
        policy: Policy,
        rates: &[Rate],
        reserve: Reserve,
    ) -> Result<Self, StoreError> {
        let mut shared = VaultStore::new(vault, policy, rates, reserve);
        if shared.vault.is_at_hand()? {
            shared.update(b"", |_| ())?;
        }
        Ok(shared)
    }

    /// The state that a vault keeps, with its limits; `None` if there is none.
    pub(super) fn found(mut vault: Box<dyn Vault>) -> Result<Option<Self>, StoreError> {
        let Some(value) = vault.look(&[b""])?.values.pop().flatten() else { return Ok(None) };
        let refusal = |flaw: Flaw| flaw.refusal(&vault.name(), vault.state().as_deref());
        let record = Record::decode(b"", &value).map_err(refusal)?;
        let policy = Policy::of(&record.limits).map_err(|_| refusal(Flaw::Damaged))?;
        Ok(Some(VaultStore::new(vault, policy, &[], Reserve::LOCAL)))
    }

    /// Replaces the limits of a state, or begins it with these. The margins that `rates` do not give are those of
    /// `reserve`.
    ///
    /// # Errors
    /// It is unavailable or damaged.
    pub fn set_limits(
        vault: Box<dyn Vault>,
        policy: Policy,
        rates: &[Rate],
        reserve: Reserve,
    ) -> Result<(), StoreError> {
        let mut shared = VaultStore::new(vault, policy, rates, reserve);
        shared.agreement.replaces = true;
        shared.prepare()?;
        shared.update(b"", |_| ())?;
        // A key is kept for as long as it matters under the limits of its record.
        shared.keys()?.iter().try_for_each(|key| shared.update(key, |_| ()))
    }

    /// The keys that have records, if each has its own.
    pub(super) fn keys(&mut self) -> Result<Vec<Value>, StoreError> {
        if self.rules.policy().key().is_some() { self.vault.keys() } else { Ok(Vec::new()) }
    }

    /// Looks at the record of `key` as it would be booked in now; nothing is written.
    pub(super) fn look<T>(
        &mut self,
        key: &[u8],
        look: impl FnOnce(&Booking<'_>) -> T,
    ) -> Result<T, StoreError> {
        let Loaded { mut values, reading, suspicion, .. } = self.vault.look(&[b"", key])?;
        let of_key = values.pop().flatten();
        let own = self.entry(b"", values.pop().flatten(), &reading, suspicion, None)?;
        let held = own.record.hold.in_force(reading.shown);
        let mut record = match key {
            b"" => own.record,
            _ => self.entry(key, of_key, &reading, suspicion, Some(&own.record))?.record,
        };
        Ok(look(&self.booking(&mut record, &reading, held)))
    }

    fn booking<'a>(
        &'a self,
        record: &'a mut Record,
        reading: &'a Reading,
        held: Option<Time>,
    ) -> Booking<'a> {
        Booking { rules: &self.rules, record, reading, held, changes: self.agreement.changes }
    }

    /// Evicts idle keys each time the number of keys may have doubled. If the wall clock is set back, it may show again
    /// a period in which they were used; returns whether that is to be noted in the state's own record.
    fn evicts(&mut self, own: &mut Record, now: Time) -> Result<bool, StoreError> {
        if self.until_eviction > 0 {
            self.until_eviction -= 1;
            return Ok(false);
        }
        let goes_by_wall = self.rules.policy().goes_by_wall();
        let shown = if goes_by_wall { self.rules.wall().shows(now) } else { Time::NEVER };
        let mut last_idle = None;
        let kept = self.vault.evict(&mut |value| {
            let idle = Record::idle_from(value).filter(|(at, shows)| *at <= now && *shows <= shown);
            last_idle = last_idle.max(idle.map(|(_, shows)| shows));
            idle.is_some()
        })?;
        self.until_eviction = kept.max(MIN_BETWEEN_EVICTIONS);
        let has_periods = self.rules.policy().of_calendar().next().is_some();
        let is_new = last_idle.is_some_and(|idle| has_periods && idle > own.evicted);
        own.evicted = last_idle.filter(|_| is_new).unwrap_or(own.evicted);
        Ok(is_new)
    }

    fn unusable(&self, flaw: Flaw) -> StoreError {
        flaw.refusal(&self.vault.name(), self.vault.state().as_deref())
    }

    fn take_policy(&mut self, policy: Policy) {
        let wall = self.rules.wall();
        self.rules = BookingRules::new(policy);
        self.rules.set_wall(wall);
        self.expect();
    }

    /// Tells the vault for how long slots matter.
    fn expect(&mut self) {
        let memory = self.rules.end_of_quarantine(Time::ZERO).0;
        self.vault.expect(self.rules.policy().validity, memory.saturating_add(self.agreement.horizon));
    }

    /// Before anything is booked: agrees on the limits, and checks that the vault answers in time.
    fn prepare(&mut self) -> Result<(), StoreError> {
        if !self.agreement.is_open() {
            return Ok(());
        }
        let Loaded { mut values, suspicion, .. } = self.vault.look(&[b""])?;
        self.doubt = suspicion;
        let record = self.read(b"", values.pop().flatten().as_deref())?;
        if record.map_or(Ok(true), |record| self.agree(&record))? {
            let given = Some(self.rules.policy().validity).filter(|_| !self.agreement.lacks_margins());
            let least = self.vault.least_validity(given)?;
            if given.is_none() {
                self.take_policy(self.agreement.chosen(least));
            }
        }
        Ok(())
    }
}

impl RecordEntry<'_> {
    fn is_changed(&self) -> bool {
        self.found.as_ref() != Some(&self.record)
    }

    /// True if the limits were replaced, or another history began, since the state's own record was read.
    fn is_ahead_of(&self, own: &Record) -> bool {
        let is_ahead = |found: &Record| found.revision > own.revision || found.era > own.epoch();
        self.found.as_ref().is_some_and(is_ahead)
    }
}
