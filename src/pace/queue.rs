//! Those who wait, in the order in which they began to.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use smallvec::SmallVec;

use super::limits::{Limits, Line, Waiting};
use crate::gate::Blocked;
use crate::time::Time;

/// Wakers to call once the lock is released.
pub(super) type Woken = SmallVec<[Waker; 4]>;

/// The lines that an event concerns.
type Lines = SmallVec<[Line; 2]>;

/// Who waits. No one goes before another who began to wait before and is blocked by the same limit.
///
/// Each stands in one line, that of the limit that blocks it. Only the first of a line waits for an instant, so an
/// event concerns few, however many wait.
#[derive(Default)]
pub(super) struct Queue {
    waiters: BTreeMap<u64, Waiter>,
    lines: BTreeSet<(Line, u64)>,
    next: u64,
}

pub(super) struct Waiter {
    pub(super) item: Waiting,
    pub(super) standing: Standing,
    pub(super) waker: Option<Waker>,
}

/// How it stands with one who waits.
pub(super) enum Standing {
    /// Admitted at this instant.
    Admitted(Time),
    /// First in this line, which opens at the instant if that depends on time alone.
    First(Line, Option<Time>),
    /// Behind others in this line.
    Behind(Line),
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Admits an item at `now`, after those who wait for the same limits. It counts from now on, or is `over` at once.
    ///
    /// # Errors
    /// What blocks it, with no instant if that is a limit.
    #[inline]
    pub(super) fn admit(
        &mut self,
        item: &Waiting,
        limits: &mut Limits,
        (now, over): (Time, bool),
        woken: &mut Woken,
    ) -> Result<Time, Blocked> {
        if !self.is_empty() {
            self.advance_for(item, limits, now, woken);
            self.blocked_by_others(item, u64::MAX, limits).map_or(Ok(()), Err)?;
        }
        limits.admit(item, now, over)
    }

    /// Begins to wait for what blocks it.
    pub(super) fn join(&mut self, item: Waiting, blocked: Blocked, limits: &Limits, now: Time) -> u64 {
        let ticket = self.next;
        self.next += 1;
        let standing = self.line_up(ticket, &item, blocked, limits, now);
        self.waiters.insert(ticket, Waiter { item, standing, waker: None });
        ticket
    }

    /// How it stands with one at `now`.
    pub(super) fn ask(
        &mut self,
        ticket: u64,
        limits: &mut Limits,
        now: Time,
        woken: &mut Woken,
    ) -> Option<&Waiter> {
        let line = match &self.waiters.get(&ticket)?.standing {
            Standing::Admitted(_) => None,
            Standing::First(line, _) | Standing::Behind(line) => Some(line.clone()),
        };
        self.advance(line.into_iter().collect(), limits, now, woken);
        self.waiters.get(&ticket)
    }

    /// Calls `waker` when the standing has changed. Returns the one before, which may run code of the caller when it is
    /// dropped.
    pub(super) fn watch(&mut self, ticket: u64, waker: Waker) -> Option<Waker> {
        self.waiters.get_mut(&ticket).and_then(|waiter| waiter.waker.replace(waker))
    }

    /// True if the standing has changed since a waker was left.
    pub(super) fn is_called(&self, ticket: u64) -> bool {
        self.waiters.get(&ticket).is_none_or(|waiter| waiter.waker.is_none())
    }

    /// Leaves, with or without having been admitted.
    pub(super) fn leave(
        &mut self,
        ticket: u64,
        limits: &mut Limits,
        now: Time,
        woken: &mut Woken,
    ) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        if let Standing::First(line, _) | Standing::Behind(line) = &waiter.standing {
            self.lines.remove(&(line.clone(), ticket));
            self.advance(Lines::from_iter([line.clone()]), limits, now, woken);
        }
        Some(waiter)
    }

    /// Admits at `now` those who wait for the limits that charge an item.
    pub(super) fn advance_for(&mut self, item: &Waiting, limits: &mut Limits, now: Time, woken: &mut Woken) {
        let lines = item.obstacles().map(|blocked| limits.line(blocked, item)).collect();
        self.advance(lines, limits, now, woken);
    }

    /// Admits at `now` those in some lines who may go, in the order in which they began to wait, and wakes those whose
    /// standing has changed.
    fn advance(&mut self, mut lines: Lines, limits: &mut Limits, now: Time, woken: &mut Woken) {
        loop {
            let firsts = lines.iter().enumerate().filter_map(|(at, line)| Some((self.first(line)?, at)));
            let Some((ticket, at)) = firsts.min() else { return };
            if !self.goes_on(&lines[at], ticket, limits, now, woken) {
                lines.swap_remove(at);
            }
        }
    }

    /// Admits at `now` the first of a line if it may go. Returns false if it stays the first.
    fn goes_on(
        &mut self,
        line: &Line,
        ticket: u64,
        limits: &mut Limits,
        now: Time,
        woken: &mut Woken,
    ) -> bool {
        let Some(mut waiter) = self.waiters.remove(&ticket) else { return false };
        self.lines.remove(&(line.clone(), ticket));
        let answer = match self.blocked_by_others(&waiter.item, ticket, limits) {
            Some(blocked) => Err(blocked),
            None => limits.admit(&waiter.item, now, false),
        };
        let standing = match answer {
            Ok(at) => Standing::Admitted(at),
            Err(blocked) => self.line_up(ticket, &waiter.item, blocked, limits, now),
        };
        let stays = matches!(&standing, Standing::First(same, _) if same == line);
        waiter.set(standing, woken);
        self.waiters.insert(ticket, waiter);
        !stays
    }

    /// The first limit for which another waits who began to before `ticket`.
    fn blocked_by_others(&self, item: &Waiting, ticket: u64, limits: &Limits) -> Option<Blocked> {
        let is_taken =
            |blocked: &Blocked| self.first(&limits.line(*blocked, item)).is_some_and(|first| first < ticket);
        item.obstacles().find(is_taken)
    }

    /// Takes a place in the line of what blocks it.
    fn line_up(
        &mut self,
        ticket: u64,
        item: &Waiting,
        blocked: Blocked,
        limits: &Limits,
        now: Time,
    ) -> Standing {
        let line = limits.line(blocked, item);
        let first = self.first(&line);
        self.lines.insert((line.clone(), ticket));
        if first.is_some_and(|first| first < ticket) {
            return Standing::Behind(line);
        }
        if let Some(second) = first.and_then(|first| self.waiters.get_mut(&first)) {
            second.standing = Standing::Behind(line.clone());
        }
        Standing::First(line, limits.unblocks(blocked, item, now))
    }

    fn first(&self, line: &Line) -> Option<u64> {
        let first = self.lines.range((line.clone(), 0)..).next();
        first.filter(|(other, _)| other == line).map(|(_, ticket)| *ticket)
    }
}

impl Waiter {
    /// Changes its standing. One who sleeps need not know that it is behind others.
    fn set(&mut self, standing: Standing, woken: &mut Woken) {
        let is_called = match (&self.standing, &standing) {
            (_, Standing::Behind(_)) => false,
            (Standing::First(_, old), Standing::First(_, new)) => old != new,
            _ => true,
        };
        if is_called {
            woken.extend(self.waker.take());
        }
        self.standing = standing;
    }
}
