//! Those who wait, in the order in which they began to.

use std::collections::BTreeMap;
use std::task::Waker;

use smallvec::SmallVec;

use super::limits::{Limits, No, Refused, Waiting};
use crate::charge::Key;
use crate::time::Time;

/// Who waits. No one goes before another who began to wait before and is held up by the same limit.
#[derive(Default)]
pub(super) struct Queue {
    waiters: BTreeMap<u64, Waiter>,
    next: u64,
}

struct Waiter {
    item: Waiting,
    standing: Standing,
    waker: Option<Waker>,
}

/// How it stands with one who waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Admitted at this instant.
    Admitted(Time),
    /// Refused; ask again at the instant, if there is one, or once woken.
    Refused(No),
    /// Behind another one.
    Behind,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Joins the end.
    pub(super) fn join(&mut self, item: Waiting) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.waiters.insert(ticket, Waiter { item, standing: Standing::Behind, waker: None });
        ticket
    }

    pub(super) fn standing(&self, ticket: u64) -> Standing {
        self.waiters.get(&ticket).map_or(Standing::Behind, |waiter| waiter.standing)
    }

    /// True if the standing has changed since a waker was left. Otherwise leaves `waker` instead.
    pub(super) fn is_called(&mut self, ticket: u64, waker: &Waker) -> bool {
        let is_waiting = self.waiters.get(&ticket).is_some_and(|waiter| waiter.waker.is_some());
        if is_waiting {
            self.watch(ticket, waker);
        }
        !is_waiting
    }

    /// Asks for one that does not wait, in its turn.
    pub(super) fn try_one(
        &mut self,
        limits: &mut Limits,
        item: &Waiting,
        now: Time,
    ) -> (Standing, SmallVec<[Waker; 4]>) {
        let ticket = self.join(item.clone());
        let woken = self.dispatch(limits, now);
        let left = self.leave(ticket);
        (left.map_or(Standing::Behind, |(_, standing)| standing), woken)
    }

    /// Calls `waker` when the standing has changed.
    pub(super) fn watch(&mut self, ticket: u64, waker: &Waker) {
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            match &mut waiter.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
    }

    /// Leaves, with or without having been admitted.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<(Waiting, Standing)> {
        self.waiters.remove(&ticket).map(|waiter| (waiter.item, waiter.standing))
    }

    /// Admits at `now` those who may go, in turn. Returns the wakers of those whose standing has changed.
    #[must_use]
    pub(super) fn dispatch(&mut self, limits: &mut Limits, now: Time) -> SmallVec<[Waker; 4]> {
        let mut woken = SmallVec::new();
        let mut closed: SmallVec<[(usize, Key); 4]> = SmallVec::new();
        for waiter in self.waiters.values_mut() {
            let Waiter { item, standing, waker } = waiter;
            if matches!(standing, Standing::Admitted(_)) {
                continue;
            }
            let is_behind = |(index, key): &(usize, Key)| item.charges.keys[*index] == *key;
            if closed.iter().any(is_behind) {
                *standing = Standing::Behind;
                continue;
            }
            let (answer, refused) = match limits.admit(item, now) {
                Ok(at) => (Standing::Admitted(at), None),
                Err(refused) => (Standing::Refused(limits.answer(item, now)), Some(refused)),
            };
            if std::mem::replace(standing, answer) != answer {
                woken.extend(waker.take());
            }
            match refused {
                Some(Refused::ByAll) => break,
                Some(Refused::ByKey(index)) => closed.push((index, item.charges.keys[index].clone())),
                None => {}
            }
        }
        woken
    }
}
