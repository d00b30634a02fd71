//! Where the processes of a simulated fleet keep their state, and what may happen to it.

#![cfg_attr(not(all(feature = "redis", feature = "sqlite")), allow(dead_code))]

use throttle::store::{BootClock, Policy, Store};
use throttle::time::Wall;

use crate::memory_store::MemoryStore;

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

    /// Someone changes the state, without any store. Returns whether that was possible.
    fn change(&mut self, change: Change) -> bool;
}

/// What happens to a vault; durations are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// It answers only afterwards.
    Stop(u64),
    /// It refuses everything, as one does that is being restarted or has no memory left.
    Away(u64),
    Change(Change),
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

/// Memory that all processes share; nothing happens to it.
#[derive(Default)]
pub(crate) struct InMemory(Option<MemoryStore>);

impl Vault for InMemory {
    fn open(
        &mut self,
        policy: Policy,
        clock: BootClock,
        wall: Box<dyn Fn() -> Wall + Send>,
    ) -> Box<dyn Store> {
        Box::new(self.0.get_or_insert_with(|| MemoryStore::with_wall(policy, clock, wall)).clone())
    }

    fn pass(&self, _: u64) {}

    fn change(&mut self, change: Change) -> bool {
        unreachable!("{change:?} of memory")
    }
}
