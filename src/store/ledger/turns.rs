//! The queue of turns: orders that are turned away are served later, in the order in which they came.

use super::{BookingRules, Ledger};
use crate::store::{Turn, Wanted};
use crate::time::Time;

/// The last turn is at most this number of horizons ahead.
pub(in crate::store) const LONGEST_QUEUE: u64 = 16;

impl BookingRules {
    /// True if an order whose first slot would be at `at` gets none: the slot is beyond the horizon, or is for orders
    /// that were turned away before, unless these leave so much time unused that they cannot all be there any more.
    pub(super) fn is_turned_away(&self, ledger: &Ledger, now: Time, at: Time, wanted: Wanted) -> bool {
        let horizon = self.horizon(now);
        let is_its_turn = wanted.turn.is_some_and(|turn| Time(turn.0) <= horizon.min(ledger.turns));
        let others_wait = ledger.turns > horizon && at > now.saturating_add(self.policy.horizon / 2);
        at > horizon || (others_wait && !is_its_turn)
    }

    /// The turn of an order that is turned away: the instant at which its slot is expected.
    pub(super) fn turn(&self, ledger: &Ledger, now: Time, at: Time, wanted: Wanted) -> Time {
        let kept = wanted.turn.map(|turn| Time(turn.0)).filter(|turn| *turn <= ledger.turns);
        // Some of those that wait may never come back.
        let last = now.saturating_add(self.policy.horizon.saturating_mul(LONGEST_QUEUE));
        kept.unwrap_or(ledger.turns).min(last).max(at)
    }

    /// Queues an order for its turn.
    pub(super) fn queue(&self, ledger: &mut Ledger, turn: Time, costs: &[u64]) -> Turn {
        ledger.turns = ledger.turns.max(self.after(turn, costs));
        Turn(turn.0)
    }

    /// Removes the turn of an order that was the last in the queue.
    pub(super) fn leave_queue(&self, ledger: &mut Ledger, costs: &[u64], turn: Option<Turn>) {
        let last = turn.map(|turn| Time(turn.0)).filter(|turn| ledger.turns == self.after(*turn, costs));
        ledger.turns = last.unwrap_or(ledger.turns);
    }

    /// Removes the turn of an order that will not be made: all later ones are that much earlier.
    pub fn give_up_turn(&self, ledger: &mut Ledger, costs: &[u64], Turn(turn): Turn) {
        let gap = self.after(Time(turn), costs).since(Time(turn));
        ledger.turns = Time(ledger.turns.0.saturating_sub(gap));
    }

    /// The turn that follows that of an order with these costs.
    fn after(&self, turn: Time, costs: &[u64]) -> Time {
        // The cost accrues in this time.
        let gap = self.debits(costs).map(|debit| debit.quota.terms.gap(debit.cost)).max().unwrap_or(0);
        turn.saturating_add(u64::try_from(gap).unwrap_or(u64::MAX))
    }
}
