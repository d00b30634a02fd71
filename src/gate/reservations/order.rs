//! Orders to a store of shared limits, and its answers (see [`crate::store`]).

use super::BookingTerms;
use crate::charge::Key;
use crate::config::Rate;
use crate::time::{Time, Wall};

/// The stretch of time in which a release may happen, on the clock of the process that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The first instant.
    pub at: Time,
    /// The last instant.
    pub until: Time,
}

impl Slot {
    /// True if a release may use it at `now`.
    pub(super) fn is_good(&self, now: Time) -> bool {
        self.at <= now && now <= self.until
    }
}

/// Something that a store is to do for releases with the same key and costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The key whose limits are charged; empty if no limit goes by key.
    pub key: Key,
    /// The cost of one release under each limit of the policy. At least one is not 0.
    pub costs: Box<[u64]>,
    /// The number of changes of the limits that the costs are by.
    pub changes: u64,
    /// What is to be done.
    pub task: Task,
}

/// What a store is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub enum Task {
    /// Book slots.
    Book(Wanted),
    /// Take back slots, which are no longer used, and a turn. It is not answered.
    GiveBack(#[cfg_attr(feature = "cli", serde(skip))] Vec<Slot>, Option<Turn>),
    /// Take a report: this number of releases were not over until this instant, after their slots had ended.
    Late(u64, Time),
    /// Hold the key, as a server asked for it: nothing is released before this instant.
    Hold(Time),
}

/// Slots that are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct Wanted {
    /// Their number. With 0, the order only asks about overruns.
    pub count: u64,
    /// Slots further ahead than this, in nanoseconds, are of no use and not booked.
    pub within: u64,
    /// Slots sooner than this, in nanoseconds after the booking, come too late and are not booked. If it is no less
    /// than `within`, only a slot that is free at once is.
    pub ahead: u64,
    /// They are for releases after those of the order before this one. It gets none before all of that one's, and none
    /// if that one lacks some.
    #[cfg_attr(feature = "cli", serde(default))]
    pub follows: bool,
    /// The process that wants them, by a number of its own, which the store sets.
    #[cfg_attr(feature = "cli", serde(default))]
    pub by: u32,
    /// The turn in the last answer, if the order was turned away.
    pub turn: Option<Turn>,
}

impl Wanted {
    /// True if only a slot that is free at once is of use.
    pub(super) fn is_at_once(&self) -> bool {
        self.within <= self.ahead
    }
}

impl Order {
    /// An order for `count` slots, however far ahead.
    pub fn new(key: Key, costs: impl Into<Box<[u64]>>, count: u64) -> Self {
        let task = Task::Book(Wanted { count, within: u64::MAX, ..Wanted::default() });
        Order { key, costs: costs.into(), changes: 0, task }
    }

    /// A task for releases with this key and these costs, after this number of changes of the limits.
    pub(super) fn of(key: &Key, costs: &[u64], changes: u64, task: Task) -> Self {
        Order { key: key.clone(), costs: costs.into(), changes, task }
    }

    /// For the same key and costs, this task.
    pub fn with(&self, task: Task) -> Self {
        Order { task, ..self.clone() }
    }

    /// The slots that it asks for; `None` if it is for something else.
    pub fn wanted(&self) -> Option<Wanted> {
        if let Task::Book(wanted) = self.task { Some(wanted) } else { None }
    }

    /// True if it is for releases after those of the order `before`, by the same process.
    pub fn follows(&self, before: &Order) -> bool {
        let [before, wanted] = [before, self].map(Order::wanted);
        wanted.is_some_and(|wanted| wanted.follows && before.is_some_and(|before| before.by == wanted.by))
    }

    /// True if it is a report, which other runs must learn of.
    pub fn is_report(&self) -> bool {
        matches!(self.task, Task::Late(..) | Task::Hold(_))
    }
}

/// A place in the queue of orders that were turned away. The store defines what the number means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct Turn(pub u64);

/// The answer of a store to an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The slots that were booked, earliest first; fewer than asked for, or none, if the rest are beyond the horizon.
    pub slots: Vec<Slot>,
    /// With fewer slots than asked for: when to ask for more.
    pub ask_again: Option<Time>,
    /// With fewer slots than asked for: the instant of the next one, as things stand.
    pub next: Option<Time>,
    /// The turn to send when asking again, so that later orders do not go first.
    pub turn: Option<Turn>,
    /// A warning for the user, such as that state was lost.
    pub warning: Option<String>,
    /// The state in which earlier slots of this key were booked is gone. They are not used: others may have booked the
    /// same ones, in an older state that has come back.
    pub lost: bool,
    /// The end of a hold on this key, set by a server's request or by a user. Slots before it are not used.
    pub held: Option<Time>,
    /// The overruns of all processes under the limits of this key.
    pub overruns: Overruns,
    /// The clock by which the slots were booked, if that matters. Slots that were booked by another one before are for
    /// others.
    pub booked_by: Option<BookedBy>,
    /// Slots from this instant on are void, unless a later answer names a later instant.
    pub confirm_from: Option<Time>,
    /// The limits were replaced by these since the order was made: it was not served.
    pub limits: Option<Box<NewLimits>>,
}

impl Answer {
    /// True if the order was not decided on, as one that it follows lacks slots.
    pub(super) fn is_undecided(&self, wanted: Wanted) -> bool {
        wanted.follows && wanted.count > 0 && self.slots.is_empty() && self.ask_again.is_none()
    }
}

/// Limits that have replaced those of all who share a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewLimits {
    /// The limits.
    pub rates: Vec<Rate>,
    /// The terms for their slots.
    pub terms: BookingTerms,
}

/// The clock by which slots of limits with a calendar or hours were booked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BookedBy {
    /// The wall clock of this machine.
    Wall(Wall),
    /// The clock of a server, after it was found to have been set this number of times.
    Server(u64),
}

/// The costs of releases that were over only after their slots had ended.
///
/// Slots booked before such a release was reported may be too close to it. Each process that holds slots gives up the
/// first of them, until they make up for the cost: if the late release replaces a later one, no window has more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct Overruns {
    /// Their sum under each limit, since the state began.
    pub costs: Box<[u64]>,
    /// No slot from this instant on is too close to any of them.
    pub until: Time,
}

impl Overruns {
    /// The costs added since they were `before`, in the answer to `order`. At least those that `order` reports, as a
    /// store that has lost its state counts from 0 again.
    pub(super) fn since(&self, before: &[u64], order: &Order) -> Box<[u64]> {
        let reported = if let Task::Late(count, _) = order.task { count } else { 0 };
        let before = before.iter().copied().chain(std::iter::repeat(0));
        let costs = self.costs.iter().zip(before).zip(&order.costs);
        let since = |((now, before), cost): ((&u64, u64), &u64)| {
            now.checked_sub(before).unwrap_or(*now).max(cost.saturating_mul(reported))
        };
        costs.map(since).collect()
    }
}
