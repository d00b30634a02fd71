//! One of the processes that share a limit.

use std::collections::VecDeque;

use throttle::gate::Overruns;
use throttle::store::{Answer, Order, Slot, Task, Turn, Wanted};
use throttle::time::Time;

use super::log::{Head, Log, TICK, ticks};
use super::slots::Slots;

/// Identifies a late release.
pub(super) type LateId = u32;

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each may hold or not, whatever the others")]
pub(super) struct Process {
    /// Whether it books slots ahead.
    pub(super) waits: bool,
    pub(super) slots: Slots,
    /// Whether it has begun a release that has not ended.
    pub(super) is_blocked: bool,
    /// The instants of its slots that the store no longer knows.
    pub(super) lost: Vec<Time>,
    pub(super) ask_at: Time,
    pub(super) turn: Option<Turn>,
    /// Its messages, in order. They are answered in this order.
    pub(super) messages: VecDeque<Message>,
    /// Whether it knew a log that is lost, and has not asked since.
    pub(super) knew_other: bool,
    /// Whether it has been told of the limits that have replaced the first.
    pub(super) follows: bool,
    /// The late releases that it has been told of, and its own.
    pub(super) knows: Vec<LateId>,
}

/// An order for slots, or a report.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) order: Order,
    pub(super) stage: Stage,
}

#[derive(Clone)]
pub(super) enum Stage {
    /// Nothing was loaded yet.
    Question,
    /// To be decided and swapped.
    Loaded(Load),
    /// The swap was made: with the late releases that the answer tells of, and the version of the new value.
    Answer(Answer, Vec<LateId>, u64),
    /// The order was for limits that were replaced: the answer says only that.
    Outdated(u64),
}

/// What the vault kept, and what its clock showed.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) log: Log,
    pub(super) version: u64,
    pub(super) looked: Time,
    pub(super) head: Head,
}

impl Message {
    pub(super) fn new(order: Order) -> Self {
        Message { order, stage: Stage::Question }
    }

    pub(super) fn answer(&self) -> Option<&Answer> {
        match &self.stage {
            Stage::Answer(answer, ..) => Some(answer),
            _ => None,
        }
    }

    pub(super) fn load(&self) -> Option<&Load> {
        match &self.stage {
            Stage::Loaded(load) => Some(load),
            _ => None,
        }
    }

    /// Whether its swap was made, and the value is newer by now.
    pub(super) fn is_superseded(&self, version: u64) -> bool {
        matches!(self.stage, Stage::Answer(.., swapped) | Stage::Outdated(swapped) if swapped != version)
    }

    pub(super) fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Answer(..) | Stage::Outdated(_))
    }

    pub(super) fn is_report(&self) -> bool {
        self.order.is_report()
    }
}

impl Process {
    pub(super) fn new(now: Time, waits: bool) -> Self {
        Process {
            waits,
            slots: Slots::new(),
            is_blocked: false,
            lost: Vec::new(),
            ask_at: now,
            turn: None,
            messages: VecDeque::new(),
            knew_other: false,
            follows: false,
            knows: Vec::new(),
        }
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        !self.is_blocked && self.slots.is_due(now)
    }

    /// Whether there are more overruns than it knows of, so that it may have to give up slots.
    pub(super) fn is_behind(&self, overruns: &Overruns) -> bool {
        self.slots.count() > 0 && cost(&self.slots.overruns) < cost(overruns)
    }

    /// Whether it has asked for slots, or for overruns.
    pub(super) fn has_asked(&self) -> bool {
        self.messages.iter().any(|message| !message.is_report())
    }

    /// The question that the store answers next; it answers one after the other.
    pub(super) fn question(&self) -> Option<usize> {
        self.messages.iter().position(|message| !message.is_answered())
    }

    /// Takes the first answer. If it says that the limits were replaced, it gives up its slots, to book again.
    pub(super) fn take_answer(&mut self) -> Option<(Order, Answer, Vec<LateId>)> {
        let first = self.messages.front().filter(|message| message.is_answered())?;
        if let Stage::Outdated(_) = first.stage {
            self.messages.pop_front();
            (self.follows, self.slots, self.ask_at, self.turn) = (true, Slots::new(), Time::ZERO, None);
            return None;
        }
        let Message { order, stage } = self.messages.pop_front()?;
        let Stage::Answer(answer, told, _) = stage else { return None };
        Some((order, answer, told))
    }

    /// Everything its future depends on. Readings of the clock before the `oldest` are all the same. `overruns` are
    /// those so far, `lates` the late releases that matter.
    pub(super) fn key(
        &self,
        (now, oldest): (Time, Time),
        version: u64,
        overruns: &Overruns,
        lates: &[LateId],
    ) -> Vec<u8> {
        let known = cost(&self.slots.overruns);
        let mut key = KeyWriter { now, oldest, version, process: self, known, most: 0, key: Vec::new() };
        key.flags(&[self.knew_other, self.waits, self.is_blocked, self.follows]);
        key.time(self.ask_at.max(now));
        key.turn(self.turn);
        key.slots(&self.slots.all());
        key.lates(lates, &self.knows);
        for message in &self.messages {
            key.message(message, lates);
        }
        key.overruns(overruns);
        key.key
    }
}

/// The number of overrun releases.
fn cost(overruns: &Overruns) -> u64 {
    overruns.costs.first().copied().unwrap_or(0)
}

/// Writes what a process's future depends on, relative to `now`.
struct KeyWriter<'a> {
    now: Time,
    oldest: Time,
    version: u64,
    process: &'a Process,
    /// The overruns known by now, or written last.
    known: u64,
    /// The number of slots there may be by then.
    most: u64,
    key: Vec<u8>,
}

impl KeyWriter<'_> {
    fn number(&mut self, number: u64) {
        self.key.push(u8::try_from(number).expect("few"));
    }

    fn flags(&mut self, flags: &[bool]) {
        self.key.push(flags.iter().fold(0, |all, flag| all << 1 | u8::from(*flag)));
    }

    fn time(&mut self, at: Time) {
        self.key.push(ticks(at, self.now));
    }

    fn turn(&mut self, turn: Option<Turn>) {
        self.time(turn.map_or(Time::ZERO, |turn| Time(turn.0)));
    }

    fn slots(&mut self, slots: &[Slot]) {
        self.number(slots.len() as u64);
        self.most += slots.len() as u64;
        for slot in slots {
            // All slots that are over are the same.
            let at = if slot.until < self.now { 0 } else { ticks(slot.at, self.now) };
            self.key.push(at | u8::from(self.process.lost.contains(&slot.at)) << 7);
        }
    }

    /// The overruns beyond those known. More than there are slots make no difference.
    fn overruns(&mut self, overruns: &Overruns) {
        let (before, now) = (self.known, cost(overruns));
        let more = now.checked_sub(before).unwrap_or(now).min(self.most);
        self.known = now;
        self.number(more);
        self.time(if more > 0 { overruns.until } else { Time::ZERO });
        // After a loss, the count takes time to get back to where it was; less than this is overrun while a slot is
        // good.
        self.number(if self.most > 0 { before.saturating_sub(now).min(10) } else { 0 });
    }

    fn lates(&mut self, lates: &[LateId], known: &[LateId]) {
        self.key.extend(lates.iter().map(|late| u8::from(known.contains(late))));
    }

    fn task(&mut self, task: &Task) {
        let (count, over) = match *task {
            Task::Book(Wanted { count, .. }) => (count, Time::ZERO),
            Task::Late(count, over) => (count, over),
            _ => panic!("{task:?}"),
        };
        self.number(count);
        self.time(over);
    }

    fn message(&mut self, message: &Message, lates: &[LateId]) {
        let Message { order, stage } = message;
        let is_outdated = matches!(stage, Stage::Outdated(_));
        let (is_answered, is_loaded) = (message.is_answered(), message.load().is_some());
        self.flags(&[true, message.is_report(), is_answered, is_loaded, is_outdated]);
        match stage {
            Stage::Question => {
                self.task(&order.task);
            }
            Stage::Loaded(load) => {
                self.task(&order.task);
                // What was loaded only matters if the swap is not refused; then it is what is kept.
                let is_current = load.version == self.version;
                self.flags(&[load.head != Head::First]);
                let age = self.now.since(load.looked.max(self.oldest)) / TICK;
                self.number(if is_current { 1 + age } else { 0 });
            }
            Stage::Outdated(_) => self.flags(&[message.is_superseded(self.version)]),
            Stage::Answer(answer, told, _) => {
                self.flags(&[message.is_superseded(self.version)]);
                self.time(answer.ask_again.map_or(Time::ZERO, |at| at.max(self.now)));
                self.turn(answer.turn);
                self.overruns(&answer.overruns);
                self.slots(&answer.slots);
                self.lates(lates, told);
            }
        }
    }
}
