//! Releases that were admitted and not committed yet.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::booked::Claim;
use crate::time::Time;

/// Releases that were admitted and not committed yet, in their order, with what they cost together.
#[derive(Clone, Default)]
pub(super) struct Admitted {
    releases: Vec<Release>,
    /// What each of them costs and which account it goes to: a row of all limits for each.
    charges: Vec<(u64, usize)>,
    /// The sums of the costs under each limit.
    pending: Vec<Pending>,
    /// Whose slots each release uses, if slots are needed.
    whose: Vec<Option<Claim>>,
}

/// The sums of the costs under a limit.
#[derive(Clone)]
enum Pending {
    /// Of one that all items use up together.
    Common(u64),
    /// Of one that goes by key, for each account.
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

/// One or more releases that ask the same.
#[derive(Clone)]
struct Release {
    since: Time,
    count: u64,
}

/// Some of the releases of a row that have left.
pub(super) struct Left<'a> {
    pub(super) since: Time,
    pub(super) count: u64,
    pub(super) whose: Option<&'a Claim>,
}

impl Admitted {
    /// For limits, of each of which it is told whether it goes by key.
    pub(super) fn new(is_keyed: impl Iterator<Item = bool>) -> Self {
        let pending = is_keyed.map(|is_keyed| match is_keyed {
            true => Pending::Keyed(HashMap::default()),
            false => Pending::Common(0),
        });
        Admitted { pending: pending.collect(), ..Admitted::default() }
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
        self.pending[limit].of(account)
    }

    /// So many releases that cost what was charged last are admitted.
    pub(super) fn note(&mut self, since: Time, count: u64) {
        let row = self.charges.len() - self.pending.len();
        for (pending, &(cost, account)) in self.pending.iter_mut().zip(&self.charges[row..]) {
            if cost > 0 {
                pending.add(account, cost.saturating_mul(count));
            }
        }
        self.releases.push(Release { since, count });
    }

    /// The releases that were noted last use these slots.
    pub(super) fn use_slots(&mut self, whose: Option<Claim>) {
        self.whose.push(whose);
    }

    /// The first `left` of all releases, each with the charges of one of them.
    pub(super) fn first(&self, mut left: u64) -> impl Iterator<Item = (Left<'_>, &[(u64, usize)])> {
        let limits = self.pending.len();
        self.releases.iter().enumerate().map_while(move |(at, release)| {
            let count = release.count.min(left);
            left -= count;
            let gone =
                Left { since: release.since, count, whose: self.whose.get(at).and_then(Option::as_ref) };
            (count > 0).then(|| (gone, &self.charges[at * limits..(at + 1) * limits]))
        })
    }

    pub(super) fn clear(&mut self) {
        self.releases.clear();
        self.charges.clear();
        self.whose.clear();
        self.pending.iter_mut().for_each(Pending::clear);
    }
}
