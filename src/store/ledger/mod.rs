//! The rules of booking. Pure: they never read a clock, and where their numbers are kept is not their business.
//!
//! What a state consists of is a [`Ledger`] of a few numbers for each limit and, for sliding windows, a ring of
//! [`Marks`]. All zeros is the state of limits that have never been used. To book a slot takes a few reads and writes
//! for each limit, whatever its count.
//!
//! # Undone by being forgotten
//!
//! Booking overwrites only marks that the ledger from before does not look at. So whoever writes the marks first and
//! then the ledger may be killed at any time: with the ledger from before, all is as it was.

mod account;
mod ring;
#[cfg(test)]
mod tests;

use std::ops::Range;

use anyhow::anyhow;

pub use self::account::Account;
use self::ring::Ring;
use super::{Answer, Order, Policy, Quota, Slot, StoreError};
use crate::config::Algorithm;
use crate::exit::Exit;
use crate::time::{SECOND, Time};

/// Nobody is told to ask again sooner than after this.
const PAUSE: u64 = SECOND / 1000;

/// The numbers of all limits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// The newest slot that was given out. None is before it.
    pub newest: Time,
    /// One for each limit.
    pub accounts: Box<[Account]>,
}

/// Where the marks of the rings are kept. A place where nothing was written holds 0.
pub trait Marks {
    /// What is at `place`.
    ///
    /// # Errors
    /// It cannot be read.
    fn get(&mut self, place: u64) -> Result<u64, StoreError>;

    /// Puts `mark` at all `places`.
    ///
    /// # Errors
    /// They cannot be written.
    fn fill(&mut self, places: Range<u64>, mark: u64) -> Result<(), StoreError>;
}

/// How slots are booked under a policy.
#[derive(Clone, Debug)]
pub struct BookingRules {
    policy: Policy,
    limits: Box<[QuotaRing]>,
}

/// One limit, and which part of the marks is its ring.
#[derive(Clone, Debug)]
struct QuotaRing {
    quota: Quota,
    ring: Option<Ring>,
}

impl BookingRules {
    /// Those of `policy`.
    pub fn new(policy: Policy) -> Self {
        let mut places = 0;
        let limits = policy.quotas.iter().map(|quota| {
            let ring = (quota.algorithm == Algorithm::Sliding).then(|| Ring::new(places, quota.count));
            places += ring.as_ref().map_or(0, Ring::places);
            QuotaRing { quota: quota.clone(), ring }
        });
        BookingRules { limits: limits.collect(), policy }
    }

    /// Of what they are the rules.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How many places there have to be for marks.
    pub fn places(&self) -> u64 {
        self.limits.iter().filter_map(|limit| limit.ring.as_ref()).map(Ring::places).sum()
    }

    /// The state of limits that begin at `now`.
    pub fn begin(&self, now: Time) -> Ledger {
        let account = |limit: &QuotaRing| match limit.quota.starts_empty {
            true => Account::drained(&limit.quota, now),
            false => Account::default(),
        };
        Ledger { newest: Time::ZERO, accounts: self.limits.iter().map(account).collect() }
    }

    /// The state of limits of which nothing is known but that they were used no later than `last`.
    ///
    /// They behave as though all had been used at `last`, so nothing is released for one window from then on.
    pub fn silence(&self, last: Time) -> Ledger {
        let accounts = self.limits.iter().map(|limit| Account::silent(&limit.quota, last));
        Ledger { newest: Time::ZERO, accounts: accounts.collect() }
    }

    /// From when on [`BookingRules::silence`] cannot be told from a new state.
    pub fn end_of_silence(&self, last: Time) -> Time {
        let ends = self.limits.iter().map(|limit| account::end_of_silence(&limit.quota, last));
        ends.max().unwrap_or(last)
    }

    /// The state once the clock has begun anew at 0: all that was used before counts as used then.
    ///
    /// # Errors
    /// The marks cannot be written.
    pub fn restart(&self, ledger: &Ledger, marks: &mut impl Marks) -> Result<Ledger, StoreError> {
        let mut accounts = Vec::with_capacity(self.limits.len());
        for (limit, account) in self.limits.iter().zip(&ledger.accounts) {
            if let Some(ring) = &limit.ring {
                ring.restart(marks)?;
            }
            // After a silence, nothing has been booked yet, and so nothing follows from when the last one was.
            let is_alone = self.limits.len() == 1 && ledger.newest > Time::ZERO;
            let newest = Some(ledger.newest).filter(|_| is_alone);
            accounts.push(account.restart(&limit.quota, newest));
        }
        Ok(Ledger { newest: Time::ZERO, accounts: accounts.into() })
    }

    /// Books slots, as [`Store::book`](super::Store::book) does, at `now`.
    ///
    /// # Errors
    /// The marks cannot be read or written, or the order is one that can never be filled. The ledger is then not to be
    /// used any more.
    pub fn book(
        &self,
        ledger: &mut Ledger,
        marks: &mut impl Marks,
        now: Time,
        order: &Order,
    ) -> Result<Answer, StoreError> {
        self.check(order)?;
        let before: Box<[_]> = ledger.accounts.iter().map(|account| account.used).collect();
        let horizon = later(now, self.policy.horizon);
        let mut answer = Answer::default();
        for _ in 0..order.count {
            let at = self.earliest(ledger, marks, now, order)?;
            if at > horizon || !self.leaves_what_was(&before, ledger, order) {
                let ask_again = Time(at.0.saturating_sub(self.policy.horizon));
                answer.ask_again = Some(ask_again.max(later(now, PAUSE)));
                break;
            }
            self.charge(ledger, marks, at, order)?;
            answer.slots.push(Slot { at, until: later(at, self.policy.deadline) });
        }
        Ok(answer)
    }

    fn check(&self, order: &Order) -> Result<(), StoreError> {
        for (cost, limit) in self.charged(order) {
            if cost > limit.quota.most() {
                let text = &self.policy.text;
                let error = anyhow!("an item costs {cost}, which '{text}' never admits: raise the limit");
                return Err(StoreError { exit: Exit::Error, error });
            }
        }
        Ok(())
    }

    /// The limits that an order charges, each with the cost.
    fn charged<'a>(&'a self, order: &'a Order) -> impl Iterator<Item = (u64, &'a QuotaRing)> {
        let costs = order.costs.iter().copied().zip(&self.limits);
        costs.filter(|(cost, _)| *cost > 0)
    }

    /// The first instant that all limits allow.
    ///
    /// What a limit allows at one instant it may not allow at a later one, so all are asked again until they agree.
    fn earliest(
        &self,
        ledger: &Ledger,
        marks: &mut impl Marks,
        now: Time,
        order: &Order,
    ) -> Result<Time, StoreError> {
        let mut at = now.max(ledger.newest);
        loop {
            let mut latest = at;
            for ((limit, account), &cost) in self.limits.iter().zip(&ledger.accounts).zip(&order.costs) {
                if cost > 0 {
                    let answer = match &limit.ring {
                        Some(ring) => ring.earliest(&limit.quota, account, ledger.newest, at, cost, marks)?,
                        None => account.earliest(&limit.quota, self.policy.deadline, at, cost),
                    };
                    latest = latest.max(answer);
                }
            }
            if latest == at {
                return Ok(at);
            }
            at = latest;
        }
    }

    /// Whether a release can be charged without overwriting a mark that the state from before needs.
    fn leaves_what_was(&self, before: &[u128], ledger: &Ledger, order: &Order) -> bool {
        let accounts = self.limits.iter().zip(&order.costs).zip(before.iter().zip(&ledger.accounts));
        accounts.into_iter().all(|((limit, &cost), (&before, account))| {
            let after = account.used.saturating_add(cost.into());
            limit.ring.as_ref().is_none_or(|ring| ring.spares(&limit.quota, before, after))
        })
    }

    fn charge(
        &self,
        ledger: &mut Ledger,
        marks: &mut impl Marks,
        at: Time,
        order: &Order,
    ) -> Result<(), StoreError> {
        for ((limit, account), &cost) in self.limits.iter().zip(&mut ledger.accounts).zip(&order.costs) {
            match &limit.ring {
                _ if cost == 0 => {}
                Some(ring) => ring.charge(account, at, cost, marks)?,
                None => account.charge(&limit.quota, at, cost),
            }
        }
        ledger.newest = at;
        Ok(())
    }
}

/// `nanos` after `at`, or the end of time.
fn later(at: Time, nanos: u64) -> Time {
    Time(at.0.saturating_add(nanos))
}
