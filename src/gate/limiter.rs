//! One limit with its history.

use super::Opening;
use crate::rule::{Ask, Terms, Verdict};
use crate::time::Time;

/// The use of a limit at an instant, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    /// All items share it: this number of releases of cost 1 is allowed now.
    Common {
        /// Up to N, or a burst.
        available: u64,
    },
    /// Each key has one of its own.
    Keyed {
        /// The number of keys that have a history.
        keys: usize,
    },
}

/// One limit with its history, for all items or for each key.
///
/// A rule has a small state, which is all zeros as long as nothing was released. The state of a key is its *account*:
/// the index at which it is found once the key has been looked up.
pub trait Limiter {
    /// The first opening for a key, at or after `from`. A limit that all items share ignores the key.
    fn opening(&self, key: &[u8], ask: Ask, from: Time) -> Opening;

    /// The account of a key, which is opened at `now` if there is none. Valid until the next [`Limiter::evict`].
    fn account(&mut self, key: &[u8], now: Time) -> usize;

    /// The answer of [`Rule::available`](crate::rule::Rule::available), or `most` if that is less.
    fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64;

    /// Its use at `now`.
    fn standing(&self, now: Time) -> Availability;

    /// The answer of [`Rule::last_of`](crate::rule::Rule::last_of) for a key.
    fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Verdict;

    /// A copy with the same history.
    fn copied(&self) -> Box<dyn Limiter>;

    /// Charges as [`Rule::commit`](crate::rule::Rule::commit) does.
    fn commit(&mut self, account: usize, now: Time, ask: Ask);

    /// As [`Rule::waive_debt`](crate::rule::Rule::waive_debt).
    fn waive_debt(&mut self, account: usize);

    /// A release that was committed has come to its end at `now`.
    fn finish(&mut self, account: usize, now: Time, ask: Ask);

    /// Behaves from `at` on as though the limit had just been used up, for every key.
    fn exhaust(&mut self, at: Time);

    /// Goes on under other terms from `now`, as by [`Rule::carry_over`](crate::rule::Rule::carry_over).
    fn retune(&mut self, now: Time, terms: Terms);

    /// The instant at which to look for accounts that can be evicted; `None` if there are none.
    fn evict_at(&self) -> Option<Time>;

    /// Gives back, at `now`, the memory of accounts that were idle by `horizon`. No later ask may be of a time before.
    fn evict(&mut self, now: Time, horizon: Time);
}

impl Clone for Box<dyn Limiter> {
    fn clone(&self) -> Self {
        self.copied()
    }
}
