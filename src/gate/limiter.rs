//! One limit with its history.

use super::Opening;
use crate::rule::{Ask, Terms, Verdict};
use crate::time::Time;

/// How a limit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    /// All items share it: this number of releases of cost 1 is allowed now.
    Common {
        /// How many.
        available: u64,
    },
    /// Each key has one of its own.
    Keyed {
        /// How many keys have a history.
        keys: usize,
    },
}

/// One limit with its history, for all items or for each key.
///
/// A rule has a small state, which is all zeros as long as nothing was released. The state of a key is its *account*:
/// where it is found once the key has been looked up.
pub trait Limiter {
    /// When a release is allowed for a key, at or after `from`. What all items share takes no notice of the key.
    fn opening(&self, key: &[u8], ask: Ask, from: Time) -> Opening;

    /// The account of a key, which is opened at `now` if there is none. Valid until the next [`Limiter::evict`].
    fn account(&mut self, key: &[u8], now: Time) -> usize;

    /// The answer of [`Rule::available`](crate::rule::Rule::available), or `most` if that is less.
    fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64;

    /// How it stands at `now`.
    fn standing(&self, now: Time) -> Availability;

    /// The answer of [`Rule::last_of`](crate::rule::Rule::last_of) for a key.
    fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Verdict;

    /// A copy with the same history.
    fn copied(&self) -> Box<dyn Limiter>;

    /// Charges as [`Rule::commit`](crate::rule::Rule::commit) does.
    fn commit(&mut self, account: usize, now: Time, ask: Ask);

    /// What was charged for and is not there is not owed, as by [`Rule::waive_debt`](crate::rule::Rule::waive_debt).
    fn waive_debt(&mut self, account: usize);

    /// Something that was committed has come to its end at `now`.
    fn finish(&mut self, account: usize, now: Time, ask: Ask);

    /// Behaves from `at` on as though the limit had just been used up, for every key.
    fn exhaust(&mut self, at: Time);

    /// Goes on under other terms from `now`, with what it knows of past releases. What it does not know counts as used.
    fn retune(&mut self, now: Time, terms: Terms);

    /// The answer of [`Rule::depends_on_since`](crate::rule::Rule::depends_on_since).
    fn depends_on_since(&self, cost: u64) -> bool;

    /// When to look for accounts that can be evicted.
    fn evict_at(&self) -> Option<Time> {
        None
    }

    /// Gives back, at `now`, the memory of accounts that were idle by `horizon`. No later ask may be of a time before
    /// that.
    fn evict(&mut self, _now: Time, _horizon: Time) {}
}

impl Clone for Box<dyn Limiter> {
    fn clone(&self) -> Self {
        self.copied()
    }
}
