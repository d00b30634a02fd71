//! The charges of admitted releases that have not left yet.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::{Limit, Slot};
use crate::charge::Key;
use crate::time::Time;

/// The total charges of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charged {
    /// The number of releases.
    pub releases: u64,
    /// The sum of their costs.
    pub cost: u64,
}

impl Charged {
    /// Adds releases with the sum of their costs.
    pub(crate) fn add(&mut self, releases: u64, cost: u64) {
        self.releases += releases;
        self.cost = self.cost.saturating_add(cost);
    }
}

/// The charges of releases that are admitted one after the other at one instant, and the slots that they take, which no
/// one else can use meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Charges {
    releases: Vec<Admitted>,
    /// The cost and account of each release under each limit; one row of all limits per release.
    pub(super) rows: Vec<(u64, usize)>,
    /// The sum of the costs under each limit.
    pending: Vec<Pending>,
}

/// The sum of the costs under a limit.
#[derive(Clone, Debug)]
enum Pending {
    /// Of a limit that all items share.
    Common(u64),
    /// Of a limit by key: one sum for each account.
    Keyed(HashMap<usize, u64, RandomState>),
}

impl Pending {
    fn of(&self, account: usize) -> u64 {
        match self {
            Pending::Common(sum) => *sum,
            Pending::Keyed(sums) if sums.is_empty() => 0,
            Pending::Keyed(sums) => sums.get(&account).copied().unwrap_or(0),
        }
    }

    fn add(&mut self, account: usize, cost: u64) {
        let sum = match self {
            Pending::Common(sum) => sum,
            Pending::Keyed(sums) => sums.entry(account).or_default(),
        };
        *sum = sum.saturating_add(cost);
    }

    fn clear(&mut self) {
        match self {
            Pending::Common(sum) => *sum = 0,
            Pending::Keyed(sums) => sums.clear(),
        }
    }
}

/// One or more releases with the same request.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) since: Time,
    pub(super) count: u64,
    /// Their slots, if they need slots.
    pub(super) taken: Option<Taken>,
}

/// The key and costs that slots are booked for.
pub(super) type Claim = (Key, Rc<[u64]>);

/// The slots that releases take.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) claim: Claim,
    /// One for each release.
    pub(super) slots: Vec<Slot>,
}

impl Charges {
    /// The last instant at which all of the slots can be used, if any are needed.
    pub fn good_until(&self) -> Option<Time> {
        let taken = self.releases.iter().filter_map(|release| release.taken.as_ref());
        taken.flat_map(|taken| &taken.slots).map(|slot| slot.until).min()
    }

    /// Makes room for the sums under `limits`. Returns the index at which the next row begins.
    pub(super) fn begin(&mut self, limits: &[Limit]) -> usize {
        if self.pending.len() != limits.len() {
            let pending = limits.iter().map(|limit| match limit.is_common() {
                true => Pending::Common(0),
                false => Pending::Keyed(HashMap::default()),
            });
            self.pending = pending.collect();
        }
        self.rows.len()
    }

    /// The sum of what is already admitted under a limit for an account.
    pub(super) fn pending(&self, limit: usize, account: usize) -> u64 {
        self.pending.get(limit).map_or(0, |pending| pending.of(account))
    }

    /// Admits releases with the costs of the last row.
    pub(super) fn add(&mut self, release: Admitted) {
        let row = self.rows.len() - self.pending.len();
        for (pending, &(cost, account)) in self.pending.iter_mut().zip(&self.rows[row..]) {
            if cost > 0 {
                pending.add(account, cost.saturating_mul(release.count));
            }
        }
        self.releases.push(release);
    }

    /// Takes out all releases, of which the first `left` have left. Calls `each` with every entry, the number of its
    /// releases that have left, and the row of one.
    pub(super) fn take_all(&mut self, mut left: u64, mut each: impl FnMut(Admitted, u64, &[(u64, usize)])) {
        let limits = self.pending.len();
        for (at, release) in self.releases.drain(..).enumerate() {
            let count = release.count.min(left);
            left -= count;
            each(release, count, &self.rows[at * limits..(at + 1) * limits]);
        }
        self.rows.clear();
        self.pending.iter_mut().for_each(Pending::clear);
    }
}
