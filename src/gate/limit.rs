//! One of several limits: a history, its key, and the hours at which it is asked.

use super::{Limiter, Opening, Request};
use crate::config::Rate;
use crate::rule::{Ask, Extra, InHours, Terms};
use crate::time::{Time, Wall};

/// One of several limits.
#[derive(Clone)]
pub struct Limit {
    /// The rule with its history.
    pub limiter: Box<dyn Limiter>,
    /// The index of its key in a request's keys, if it applies to each key separately.
    pub key: Option<usize>,
    /// The hours in which it is asked, if not always. It counts always.
    pub(super) hours: Option<Box<InHours>>,
}

impl Limit {
    /// A limit that is always asked.
    pub fn new(limiter: Box<dyn Limiter>, key: Option<usize>) -> Self {
        Limit { limiter, key, hours: None }
    }

    /// Follows the wall clock, which was set at `now`.
    pub(super) fn set_wall(&mut self, now: Time, rate: &Rate, wall: Wall) {
        if rate.algorithm.facts().takes(Extra::Zone) {
            self.limiter.retune(now, Terms { wall, ..rate.padded_terms() });
        }
        self.hours = InHours::of(rate.during.as_deref(), wall).map(Box::new);
    }

    /// The first opening for a key, at or after `from`: inside the hours, the rule's answer or the end of the hours,
    /// whichever is first.
    pub(crate) fn opening(&self, key: &[u8], ask: Ask, from: Time) -> Opening {
        let Some(hours) = &self.hours else { return self.limiter.opening(key, ask, from) };
        let end = hours.first(from, false);
        if end > from {
            let opening = self.limiter.opening(key, ask, from);
            if opening.from < end {
                return opening;
            }
        }
        Opening { from: end, until: hours.first(end, true) }
    }

    /// The number of releases allowed at `now`, up to `most`, after others that cost `pending`.
    pub(super) fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64 {
        match &self.hours {
            Some(hours) if !hours.contain(now) => most,
            _ => self.limiter.available(account, now, ask, pending, most),
        }
    }

    /// The instant of the last of `count` releases, if each goes as soon as this limit alone allows it.
    pub(crate) fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Time {
        let last = || self.limiter.last_of(key, ask, count);
        self.hours.as_ref().map_or_else(last, |hours| match hours.first(ask.since, false) {
            end if end <= ask.since => end,
            end => last().min(end),
        })
    }

    /// Charges `count` releases. A limit with hours charges them one by one, as those made outside its hours leave no
    /// debt and may exceed what it allows at once.
    pub(super) fn commit(&mut self, account: usize, now: Time, ask: Ask, count: u64) {
        if self.hours.is_none() {
            let cost = ask.cost.saturating_mul(count);
            return self.limiter.commit(account, now, Ask { cost, ..ask });
        }
        for _ in 0..count {
            self.limiter.commit(account, now, ask);
            self.limiter.waive_debt(account);
        }
    }

    /// Notes that a release that was charged `cost` ended at `now`.
    pub(super) fn finish(&mut self, now: Time, request: &Request, cost: u64) {
        if cost > 0 {
            let account = self.limiter.account(request.key(self), now);
            self.limiter.finish(account, now, request.ask(cost));
        }
    }
}
