//! Booking slots by a rule, for which a ledger keeps two numbers.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::{Ask, Verdict};
use crate::time::Time;

/// The state of one limit in a ledger. Its rule defines what the numbers mean; all zeros is a limit that was never
/// used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SlotAccount {
    /// An instant.
    pub at: Time,
    /// An amount.
    pub used: u128,
}

/// Books slots by a rule. Neither the instants of bookings nor the slots decrease.
pub trait SlotRule: Debug + Send + Sync {
    /// The unit of cost, counted from the first that was booked, whose instant decides on a slot of this cost. Only for
    /// a rule that is [logged](super::Facts::is_logged).
    fn deciding_unit(&self, _account: &SlotAccount, _cost: u64) -> Option<u128> {
        None
    }

    /// The first instant, at or after `ask.since`, at which a slot is allowed, if its release may be up to `late`
    /// nanoseconds late. `decided` is the instant at which the deciding unit was used.
    fn first_slot(&self, account: &SlotAccount, ask: Ask, late: u64, decided: Option<Time>) -> Time;

    /// Charges a slot at `ask.since`, where it is allowed.
    fn book(&self, account: &mut SlotAccount, ask: Ask);

    /// Charges again a release that was over only at `ask.since`, which is not before the newest slot.
    fn overrun(&self, account: &mut SlotAccount, ask: Ask) {
        self.book(account, ask);
    }

    /// Takes back a slot booked at `ask.since`, as far as possible: the wall clock it was booked by has been set.
    fn unbook(&self, _account: &mut SlotAccount, _ask: Ask) {}

    /// As [`Rule::waive_debt`](super::Rule::waive_debt).
    fn waive_debt(&self, _account: &mut SlotAccount) {}

    /// An account just used up at `at`, as by [`Rule::exhaust`](super::Rule::exhaust).
    fn exhausted(&self, at: Time) -> SlotAccount {
        self.silent(at)
    }

    /// An account used up at `at` by releases of unknown cost.
    fn silent(&self, at: Time) -> SlotAccount;

    /// The first instant at which the limit equals one that was never used, if its newest slot was at `newest`.
    fn fresh_from(&self, account: &SlotAccount, newest: Time) -> Time;

    /// The account after the clock has restarted at 0: all past slots count as used then. `newest` is the instant of
    /// the last one, if known.
    fn restarted(&self, account: &SlotAccount, _newest: Option<Time>) -> SlotAccount {
        SlotAccount { at: Time::ZERO, ..*account }
    }
}

/// The instant of a verdict; for `Never`, the end of time.
pub(super) fn instant(verdict: Verdict) -> Time {
    verdict.instant().unwrap_or(Time(u64::MAX))
}
