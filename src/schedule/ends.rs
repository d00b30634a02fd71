//! Enough is enough: when a run ends before its input does, and items that have waited for too long are refused.

use super::{Action, Notice, Schedule};
use crate::config::{Config, OnLimit, Until};
use crate::exit::Exit;
use crate::gate::{Part, Why};
use crate::rule::Verdict;
use crate::time::{Time, Wall};

/// What ends a run early.
pub(super) struct Ends {
    start: Time,
    patience: Option<Patience>,
    until: Option<Until>,
    /// From then on, nothing is released.
    over: Option<Time>,
}

/// How late the next release may be.
#[derive(Clone, Copy)]
enum Patience {
    /// At this instant.
    Until(Time),
    /// This number of nanoseconds after any time that it is looked at.
    Within(u64),
}

impl Ends {
    /// Of a run that starts at `start`.
    pub(super) fn new(config: &Config, start: Time) -> Self {
        let wait = config.queue.max_wait.filter(|_| !config.on_limit.never_waits());
        let mut ends =
            Ends { start, patience: wait.map(Patience::Within), until: config.queue.until, over: None };
        ends.set_wall(Wall::EPOCH);
        ends
    }

    pub(super) fn set_wall(&mut self, wall: Wall) {
        // At the last instant, releases are still allowed.
        self.over = self.until.and_then(|until| match until {
            Until::At(shown) => wall.when(i128::from(shown.0) + 1),
            Until::After(nanos) => self.start.checked_add(u128::from(nanos) + 1),
        });
    }

    pub(super) fn go_by_wall(&self) -> bool {
        matches!(self.until, Some(Until::At(_)))
    }
}

impl Schedule {
    /// Ends the run as soon as it is known that a release would be more than `wait` nanoseconds after `now`.
    pub fn with_patience(mut self, now: Time, wait: u64) -> Self {
        self.ends.patience = Some(Patience::Until(Time(now.0.saturating_add(wait))));
        self
    }

    /// Has items refused that have waited for too long.
    pub(super) fn refuses_late(&self) -> bool {
        self.rules.max_wait.is_some()
    }

    /// Instants at which something ends.
    pub(super) fn end_times(&self, now: Time) -> [Option<Time>; 3] {
        let patience = match self.ends.patience {
            Some(Patience::Until(at)) => Some(at).filter(|at| *at > now),
            _ => None,
        };
        let first = self.queue.fresh().next().filter(|_| self.refuses_late());
        [patience, self.ends.over.filter(|_| !self.is_idle_at_end()), first.and_then(|at| self.deadline(at))]
    }

    fn is_idle_at_end(&self) -> bool {
        self.stopping || self.has_released_all()
    }

    /// Whether what is next is known to be later than anybody wants to wait.
    pub(super) fn is_too_late(&self, now: Time) -> bool {
        let Some(patience) = self.ends.patience.filter(|_| !self.stopping) else { return false };
        let by = match patience {
            Patience::Until(at) => at.max(now),
            Patience::Within(wait) => Time(now.0.saturating_add(wait)),
        };
        match (patience, self.known_next(now, by)) {
            (Patience::Until(_), Some(next)) => next > by,
            (Patience::Until(at), None) => {
                now >= at && !self.queue.is_empty() && !self.rules.gate.is_asking()
            }
            (Patience::Within(_), Some(next)) => next > by && !self.may_run_sooner(now),
            (Patience::Within(_), None) => false,
        }
    }

    /// When the next release may be, or one that is no later than `by`, if nothing else arrives.
    fn known_next(&self, now: Time, by: Time) -> Option<Time> {
        let again = self.attempts.backoff_until();
        // What a lane waits for by its key may not be all that it waits for.
        let next = self.next.filter(|_| !self.queue.is_empty()).and_then(|next| {
            let exact = self.queue.earliest(&self.rules, now, by);
            if let Some(Verdict::At(at)) = exact { Some(at.max(next)) } else { None }
        });
        match next {
            Some(next) => Some(again.map_or(next, |again| again.min(next))),
            None => again.filter(|_| {
                self.queue.is_empty() && self.intake.is_empty() && self.rules.batcher.has_ended()
            }),
        }
    }

    /// Whether the end of a command that runs may let something go before that.
    fn may_run_sooner(&self, now: Time) -> bool {
        let frees = self.attempts.may_retry() || !self.rules.gate.foreseen(now).is_all;
        self.attempts.running() > 0 && frees
    }

    /// Ends the run, as what is next would be too late.
    pub(super) fn lose_patience(&mut self, now: Time) {
        let late = self.known_next(now, now).map(|next| next.since(now));
        self.tell(Notice::TooLong { late });
        self.end_early();
    }

    fn end_early(&mut self) {
        self.exit = self.exit.max(Exit::Refused);
        self.stopping = true;
    }

    /// Ends the run once its time is over. First, all has to be known that has arrived by then.
    pub(super) fn end_in_time(&mut self, now: Time) -> Option<Action> {
        if self.stopping || self.ends.over.is_none_or(|over| now < over) {
            return None;
        }
        let waits = !self.queue.is_empty() || self.attempts.backoff_until().is_some();
        if waits || self.look(now) {
            self.tell(Notice::TimeUp);
            self.end_early();
        } else if self.is_due || self.rules.batcher.has_ended() {
            self.stopping = true;
        } else {
            return Some(Action::Wait { until: Some(now), accepting: true });
        }
        self.actions.pop_front()
    }

    /// Until when the front of a lane may wait.
    fn deadline(&self, at: usize) -> Option<Time> {
        let front = self.queue.lane(at).front()?;
        front.segment.arrival().checked_add(self.rules.max_wait?.into())
    }

    /// Refuses all that was too late before `now`, and could not have gone in time. What could, and was woken too late, goes.
    pub(super) fn refuse_overdue(&mut self, now: Time) {
        while self.refuse_late(now, |schedule, at, deadline| {
            let by = Verdict::At(deadline.max(schedule.queue.lane(at).previous()));
            deadline < now && schedule.queue.ask(at, &schedule.rules, Part::All, Time::ZERO).from > by
        }) {}
    }

    /// Refuses the front of each lane that may not wait beyond `now`. Returns whether there was any: what is behind it may go.
    pub(super) fn refuse_expired(&mut self, now: Time) -> bool {
        self.refuse_late(now, |_, _, _| true)
    }

    /// Refuses the front of each lane that may not wait beyond `now` and `is_late`. Returns whether there was any.
    fn refuse_late(&mut self, now: Time, is_late: impl Fn(&Self, usize, Time) -> bool) -> bool {
        if !self.refuses_late() || self.stopping {
            return false;
        }
        let deadlines = self.queue.fresh().map_while(|at| Some((at, self.deadline(at)?)));
        // What came first is due first.
        let due = deadlines.take_while(|(_, deadline)| *deadline <= now);
        let late = due.filter(|&(at, deadline)| is_late(self, at, deadline)).map(|(at, _)| at);
        let late: Vec<_> = late.collect();
        late.iter().for_each(|&at| self.expire(at));
        !late.is_empty()
    }

    /// Refuses what is in front of a lane.
    fn expire(&mut self, at: usize) {
        let lane = self.queue.lane(at);
        let Some(front) = lane.front().filter(|_| !self.stopping) else { return };
        let (first, previous) = (front.segment.first(), lane.previous());
        let why = self.rules.with_request(lane, |_, request| self.rules.gate.why(request)).flatten();
        let limit = why.and_then(Why::limit);
        if self.rules.on_limit == OnLimit::Fail {
            let record = self.delimiter.split(front.segment.bytes()).next();
            let text = record.unwrap_or_default().to_vec();
            let limit = limit.map(|limit| self.rules.gate.rates()[limit].clone());
            self.tell(Notice::Expired { item: first, text, limit });
            return self.end_early();
        }
        self.stats.refuse(1);
        self.tally.refuse(limit, 1);
        self.queue.discard(at, 1, previous, &self.delimiter, &self.rules);
        self.settle(first);
    }
}
