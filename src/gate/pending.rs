//! What is admitted and has not left yet.

use super::Limit;
use super::reservations::Taken;
use super::sums::Sums;
use crate::time::Time;

/// Releases that are admitted one after the other at one instant, what they will be charged, and the slots that they
/// take, which no one else can use meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    releases: Vec<Admitted>,
    /// The cost and account of each release under each limit; one row of all limits per release, and perhaps one of a
    /// release that was not admitted.
    pub(super) rows: Vec<(u64, usize)>,
    /// The sum of the costs under each limit, by account.
    sums: Vec<Sums<usize>>,
}

/// One or more releases with the same request.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) eligible_at: Time,
    pub(super) count: u64,
    /// Their slots, if they need slots.
    pub(super) taken: Option<Taken>,
}

impl Pending {
    /// The last instant at which all of the slots can be used, if any are needed.
    pub fn good_until(&self) -> Option<Time> {
        let taken = self.releases.iter().filter_map(|release| release.taken.as_ref());
        taken.flat_map(|taken| &taken.slots).map(|slot| slot.until).min()
    }

    /// Begins the row of another release under `limits`. One that was begun and not admitted is dropped.
    pub(super) fn begin(&mut self, limits: &[Limit]) {
        if self.sums.len() != limits.len() {
            self.sums = limits.iter().map(|limit| Sums::new(!limit.is_common())).collect();
        }
        self.rows.truncate(self.releases.len() * limits.len());
    }

    /// The sum of what is already admitted under a limit for an account.
    pub(super) fn sum(&self, limit: usize, account: usize) -> u64 {
        self.sums.get(limit).map_or(0, |sum| sum.of(&account))
    }

    /// Admits releases with the costs of the last row. Those that are charged like the ones before are charged with
    /// them.
    pub(super) fn add(&mut self, release: Admitted) {
        let limits = self.sums.len();
        let row = self.rows.len() - limits;
        for (at, sum) in self.sums.iter_mut().enumerate() {
            let (cost, account) = self.rows[row + at];
            if cost > 0 {
                sum.add(account, cost.saturating_mul(release.count));
            }
        }
        if let Some(last) = self.releases.last_mut()
            && (last.eligible_at, last.taken.is_none(), release.taken.is_none())
                == (release.eligible_at, true, true)
            && self.rows[row - limits..row] == self.rows[row..]
        {
            last.count += release.count;
            return self.rows.truncate(row);
        }
        self.releases.push(release);
    }

    /// Takes out all releases, of which the first `left` have left. Calls `each` with every entry, the number of its
    /// releases that have left, and the row of one.
    pub(super) fn take_all(&mut self, mut left: u64, mut each: impl FnMut(Admitted, u64, &[(u64, usize)])) {
        let limits = self.sums.len();
        for (at, release) in self.releases.drain(..).enumerate() {
            let count = release.count.min(left);
            left -= count;
            each(release, count, &self.rows[at * limits..(at + 1) * limits]);
        }
        self.rows.clear();
        self.sums.iter_mut().for_each(Sums::clear);
    }
}
