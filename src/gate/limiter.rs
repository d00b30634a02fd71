//! One limit with its history.

use super::Opening;
use crate::rule::{Ask, Terms};
use crate::time::Time;

/// The availability of a limit at an instant, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    /// All items share the limit.
    Common {
        /// The number of releases of cost 1 that are allowed now: up to N, or a burst.
        available: u64,
    },
    /// The limit applies to each key separately.
    Keyed {
        /// The number of keys with a history.
        keys: usize,
    },
}

/// One limit with its history, for all items or for each key.
///
/// A key is looked up once to find its *account*, the index of its history.
pub trait Limiter {
    /// The first opening for a key, at or after `from`. A limit that all items share ignores the key.
    fn opening(&self, key: &[u8], ask: Ask, from: Time) -> Opening;

    /// The account of a key, opened at `now` if there is none. Valid until the next [`Limiter::evict`].
    fn account(&mut self, key: &[u8], now: Time) -> usize;

    /// As [`Rule::available`](crate::rule::Rule::available), but at most `most`.
    fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64;

    /// Its availability at `now`, for display.
    fn standing(&self, now: Time) -> Availability;

    /// As [`Rule::last_of`](crate::rule::Rule::last_of), for a key.
    fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Time;

    /// A copy with the same history.
    fn copied(&self) -> Box<dyn Limiter>;

    /// As [`Rule::commit`](crate::rule::Rule::commit).
    fn commit(&mut self, account: usize, now: Time, ask: Ask);

    /// As [`Rule::waive_debt`](crate::rule::Rule::waive_debt).
    fn waive_debt(&mut self, account: usize);

    /// Notes that a committed release ended at `now`.
    fn finish(&mut self, account: usize, now: Time, ask: Ask);

    /// Uses up the whole limit at `at`, for every key.
    fn exhaust(&mut self, at: Time);

    /// Changes the terms at `now`, as by [`Rule::carry_over`](crate::rule::Rule::carry_over).
    fn retune(&mut self, now: Time, terms: Terms);

    /// The instant at which to look for accounts that can be evicted; `None` if there are none.
    fn evict_at(&self) -> Option<Time>;

    /// At `now`, frees the accounts that were idle by `horizon`. No later ask may be as of an instant before that.
    fn evict(&mut self, now: Time, horizon: Time);
}

impl Clone for Box<dyn Limiter> {
    fn clone(&self) -> Self {
        self.copied()
    }
}
