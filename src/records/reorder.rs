//! Puts records in order that are out of it by a limited time.

use std::collections::BTreeMap;

use crate::time::Time;

/// Holds records until none before them can come any more.
pub(super) struct ReorderBuffer<T> {
    /// The most nanoseconds by which records may be out of order.
    slack: u64,
    /// One that need not wait: all are in order so far, and have to be.
    ready: Option<(Time, u64, T)>,
    /// By instant and number.
    waiting: BTreeMap<(Time, u64), T>,
    newest: Time,
    /// The instant of the last one that was let out.
    last: Time,
}

impl<T> ReorderBuffer<T> {
    /// For records that are out of order by at most `slack` nanoseconds.
    pub(super) fn new(slack: u64) -> Self {
        ReorderBuffer { slack, ready: None, waiting: BTreeMap::new(), newest: Time::ZERO, last: Time::ZERO }
    }

    pub(super) fn set_slack(&mut self, slack: u64) {
        self.slack = slack;
    }

    /// Takes the record with this number, after all that could be let out. Those of one instant keep the order of their
    /// numbers.
    ///
    /// # Errors
    /// It comes too late: one that is later by more than the slack has been let out. That one's instant.
    pub(super) fn push(&mut self, at: Time, number: u64, value: T) -> Result<(), Time> {
        if at < self.last {
            return Err(self.last);
        }
        self.newest = self.newest.max(at);
        if self.slack == 0 {
            self.ready = Some((at, number, value));
        } else {
            self.waiting.insert((at, number), value);
        }
        Ok(())
    }

    /// Lets out the next one, if none before it can come any more.
    pub(super) fn pop(&mut self) -> Option<(Time, u64, T)> {
        let next = self.ready.take().or_else(|| self.pop_waiting())?;
        self.last = next.0;
        Some(next)
    }

    fn pop_waiting(&mut self) -> Option<(Time, u64, T)> {
        let first = self.waiting.first_entry()?;
        let (at, number) = *first.key();
        let is_due = self.newest.0.checked_sub(self.slack).is_some_and(|due| at.0 <= due);
        is_due.then(|| (at, number, first.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(slack: u64, instants: &[u64]) -> Result<Vec<u64>, u64> {
        let (mut order, mut out) = (ReorderBuffer::new(slack), Vec::new());
        for (&at, number) in instants.iter().zip(1..) {
            order.push(Time(at), number, ()).map_err(|last| last.0)?;
            out.extend(std::iter::from_fn(|| order.pop()).map(|(_, number, ())| number));
        }
        order.set_slack(0);
        out.extend(std::iter::from_fn(|| order.pop()).map(|(_, number, ())| number));
        Ok(out)
    }

    #[test]
    fn records_come_in_order_within_the_slack() {
        assert_eq!(sorted(0, &[1, 2, 2, 3]), Ok(vec![1, 2, 3, 4]));
        assert_eq!(sorted(0, &[1, 3, 2]), Err(3));
        assert_eq!(sorted(1, &[1, 3, 2, 2, 4]), Ok(vec![1, 3, 4, 2, 5]));
        assert_eq!(sorted(1, &[1, 4, 2]), Ok(vec![1, 3, 2]));
        assert_eq!(sorted(1, &[1, 4, 6, 3]), Err(4));
        assert_eq!(sorted(u64::MAX, &[9, 1, 5]), Ok(vec![2, 3, 1]));
    }
}
