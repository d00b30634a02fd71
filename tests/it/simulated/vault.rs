//! Where the processes of a simulated fleet keep their state, and what may happen to it.

#![cfg_attr(not(all(feature = "redis", feature = "sqlite")), allow(dead_code))]

use throttle::config::Rate;
use throttle::store::{BootClock, Policy, Reserve, Store, VaultStore, vault};
use throttle::time::Wall;

use super::dying::Dying;
use crate::memory_store::{MemoryStore, MemoryVault, Values};

/// Keeps a state.
pub(crate) trait Vault: Send {
    /// A store over the state, for one more process with these clocks.
    fn open(
        &mut self,
        policy: Policy,
        clock: BootClock,
        wall: Box<dyn Fn() -> Wall + Send>,
    ) -> Box<dyn Store>;

    /// All clocks show `now`.
    fn pass(&self, now: u64);

    /// Someone replaces the limits, with these clocks, and dies if that takes more than this number of swaps.
    fn set_limits(&mut self, rates: &[Rate], clock: BootClock, swaps: usize);

    /// Someone changes the state, without any store. Returns whether that was possible.
    fn change(&mut self, change: Change) -> bool;
}

/// What happens to a vault; durations are in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// It answers only afterwards.
    Stop(u64),
    /// It refuses everything, as one does that is being restarted or has no memory left.
    Away(u64),
    Change(Change),
    /// Its limits are replaced by someone who dies if that takes more than this number of swaps.
    Limits(Vec<Rate>, usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The state is gone.
    Remove,
    /// It is moved away.
    SetAside,
    /// What was moved away takes the place of the present state.
    PutBack,
    /// It is copied.
    Copy,
    /// The copy takes the place of the present state.
    Restore,
    /// It is gone after this number of milliseconds.
    Expire(u64),
    /// All is gone that is kept in this place.
    Flush,
    /// Connections and whatever can be made again are gone.
    Disturb,
}

/// Memory that all processes share.
#[derive(Default)]
pub(crate) struct InMemory {
    vault: Option<MemoryVault>,
    aside: Option<Values>,
    copy: Option<Values>,
    is_contended: bool,
    evicts: bool,
}

impl InMemory {
    /// Each value is gone as soon as it is idle.
    pub(crate) fn evicting() -> Self {
        InMemory { evicts: true, ..InMemory::default() }
    }

    /// About half of all requests are decided on by another process, so slots come a little later.
    pub(crate) fn contended() -> Self {
        InMemory { is_contended: true, ..InMemory::default() }
    }
}

impl Vault for InMemory {
    fn open(
        &mut self,
        policy: Policy,
        clock: BootClock,
        wall: Box<dyn Fn() -> Wall + Send>,
    ) -> Box<dyn Store> {
        let InMemory { is_contended, evicts, .. } = *self;
        let vault = self.vault.get_or_insert_with(|| {
            let vault = MemoryVault::new(clock, wall);
            let vault = if evicts { vault.evicting() } else { vault };
            if is_contended { vault.contended(&policy, 1) } else { vault }
        });
        Box::new(MemoryStore::over(vault.clone(), policy))
    }

    fn pass(&self, _: u64) {}

    fn set_limits(&mut self, rates: &[Rate], _: BootClock, swaps: usize) {
        set_limits(self.vault.clone().expect("one is open"), rates, swaps);
    }

    fn change(&mut self, change: Change) -> bool {
        let Some(vault) = &self.vault else { return false };
        let mut values = vault.values();
        match change {
            Change::Remove | Change::Flush | Change::Expire(_) => values.clear(),
            Change::SetAside => self.aside = Some(std::mem::take(&mut values)),
            Change::PutBack => match self.aside.take() {
                Some(aside) => *values = aside,
                None => return false,
            },
            Change::Copy => self.copy = Some(values.clone()),
            Change::Restore => match &self.copy {
                Some(copy) => values.clone_from(copy),
                None => return false,
            },
            Change::Disturb => return false,
        }
        true
    }
}

/// Replaces the limits in a vault, if that takes no more than this number of swaps. Their margins are given.
pub(crate) fn set_limits(vault: impl vault::Vault, rates: &[Rate], swaps: usize) {
    let policy = Policy::new(rates, Reserve::LOCAL);
    let done = VaultStore::set_limits(Box::new(Dying { vault, swaps }), policy, &[], Reserve::LOCAL);
    assert!(done.is_ok() || swaps < usize::MAX, "{done:?}");
}
