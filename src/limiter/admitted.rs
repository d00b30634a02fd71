//! Releases that were admitted and not committed yet.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::charge::Key;
use crate::time::Time;

/// Releases that were admitted and not committed yet, in their order, with what they cost together.
#[derive(Default)]
pub(super) struct Admitted {
    releases: Vec<Release>,
    /// What each of them costs and which account it goes to: a row of all limits for each.
    charges: Vec<(u64, usize)>,
    /// The sums of the costs under each limit, by account.
    pending: Vec<HashMap<usize, u64, RandomState>>,
}

/// One or more releases that ask the same.
struct Release {
    since: Time,
    count: u64,
    /// Whose slots they use, if they need any.
    whose: Option<Key>,
}

/// Some of the releases of a row that have left.
pub(super) struct Left<'a> {
    pub(super) since: Time,
    pub(super) count: u64,
    pub(super) whose: Option<&'a Key>,
}

impl Admitted {
    /// For so many limits.
    pub(super) fn new(limits: usize) -> Self {
        Admitted { pending: vec![HashMap::default(); limits], ..Admitted::default() }
    }

    /// Where the next row of charges begins.
    pub(super) fn row(&self) -> usize {
        self.charges.len()
    }

    /// Takes back the charges of a row that is not admitted.
    pub(super) fn truncate(&mut self, row: usize) {
        self.charges.truncate(row);
    }

    /// Adds what a release costs under the next limit.
    pub(super) fn charge(&mut self, cost: u64, account: usize) {
        self.charges.push((cost, account));
    }

    /// What is admitted already under a limit for an account.
    pub(super) fn pending(&self, limit: usize, account: usize) -> u64 {
        let pending = &self.pending[limit];
        if pending.is_empty() { 0 } else { pending.get(&account).copied().unwrap_or(0) }
    }

    /// So many releases that cost what was charged last are admitted.
    pub(super) fn note(&mut self, since: Time, count: u64, whose: Option<Key>) {
        let row = self.charges.len() - self.pending.len();
        for (pending, &(cost, account)) in self.pending.iter_mut().zip(&self.charges[row..]) {
            if cost > 0 {
                let sum = pending.entry(account).or_default();
                *sum = sum.saturating_add(cost.saturating_mul(count));
            }
        }
        self.releases.push(Release { since, count, whose });
    }

    /// The first `left` of all releases, each with the charges of one of them.
    pub(super) fn first(&self, mut left: u64) -> impl Iterator<Item = (Left<'_>, &[(u64, usize)])> {
        let limits = self.pending.len();
        self.releases.iter().enumerate().map_while(move |(at, release)| {
            let count = release.count.min(left);
            left -= count;
            let gone = Left { since: release.since, count, whose: release.whose.as_ref() };
            (count > 0).then(|| (gone, &self.charges[at * limits..(at + 1) * limits]))
        })
    }

    pub(super) fn clear(&mut self) {
        self.releases.clear();
        self.charges.clear();
        self.pending.iter_mut().for_each(HashMap::clear);
    }
}
