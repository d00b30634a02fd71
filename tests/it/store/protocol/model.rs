//! Processes that share a limit, each doing anything it may, at any time.

use throttle::store::{Order, Slot, Task, Wanted};
use throttle::time::Time;

use super::explore::Model;
use super::log::{Head, Log, TICK, Terms, ticks};
use super::process::{LateId, Load, Message, Process, Stage};
use super::slots::order;

/// What may go wrong, besides late wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Processes die, also between a load and its swap, and others take their place.
    Death,
    /// Processes end and give their slots back, and others take their place.
    End,
    /// Processes have no more use for their slots, give them back, and go on.
    Surplus,
    /// All bookings are forgotten.
    StateLoss,
    /// Answers to swaps that were made get lost: a process never learns of it, or asks again, if there are delays.
    MessageLoss,
    /// Also before the load and after the swap, an order takes any time.
    Delay,
    /// Releases take any time, as blocked writes do. Those that are late for their slots are reported.
    Stall,
    /// The limits are replaced, once: in the head of the state, and later, or never, in the log of the key, which may
    /// be evicted once it is idle under its limits.
    Change,
}

/// Parts that must not be left out, as the model shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// Slots are used however late it is.
    Deadline,
    /// Slots that were given back are also used by their old owner.
    GiveBack,
    /// Slots are given back twice, as after a lost answer.
    GiveBackTwice,
    /// Releases that are late for their slots are not reported.
    Report,
    /// Slots are used before it is known which of them are too close to a late release.
    Patience,
    /// Overruns of others are ignored.
    Overruns,
    /// After a loss, slots are given out at once.
    Quarantine,
    /// After a loss, everyone who asks starts the quarantine over.
    QuarantineOnce,
    /// After a loss, a process that knew nothing of what was lost may ask first.
    Newcomers,
    /// A swap is made although the value is newer than what was loaded.
    Blind,
    /// Only what was evicted before the limits were replaced may have been released by a key that has no log.
    Forgetful,
}

pub(super) struct Protocol {
    pub(super) terms: Terms,
    /// What they are replaced by.
    pub(super) new_terms: Terms,
    pub(super) processes: usize,
    /// The processes that take only what is free at once, as with `--on-limit drop`.
    pub(super) polices: &'static [usize],
    pub(super) faults: &'static [Fault],
    pub(super) broken: Option<Broken>,
    /// Whether the first process lives, wakes in time, and loses no message.
    pub(super) first_is_live: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Tick,
    Ask(usize),
    Load(usize),
    Swap(usize),
    /// A swap that also brings replies to all others that wait.
    SwapForAll(usize),
    /// A swap that is refused: the process is told the newer value.
    Refuse(usize),
    Receive(usize),
    /// The answer to a swap is lost. When the process asks again, the value is newer.
    LoseMessage(usize),
    /// The process never learns whether its swap was made.
    Forget(usize),
    Wake(usize),
    /// A release that ends at once.
    Release(usize),
    /// A release that takes time.
    Begin(usize),
    Finish(usize),
    Die(usize),
    GiveBack(usize),
    End(usize),
    LoseState,
    /// The head is swapped.
    Change,
    /// Whoever has replaced the limits swaps the log.
    CarryOver,
    Evict,
}

#[derive(Clone)]
pub(super) struct State {
    now: Time,
    /// What the vault keeps.
    head: Head,
    log: Log,
    /// Differs for each value that it has kept.
    version: u64,
    /// What the log would answer, see [`Log::future`].
    future: Vec<u8>,
    processes: Vec<Process>,
    /// The starts of releases less than a period ago, and whether they were made under the limits that have replaced
    /// the first.
    releases: Vec<(Time, bool)>,
    /// Late releases that ended less than a period ago.
    lates: Vec<Late>,
    next_late: LateId,
    /// Whether bookings were ever forgotten.
    has_lost: bool,
    is_exceeded: bool,
}

/// A release that was late for its slot.
#[derive(Clone)]
struct Late {
    id: LateId,
    whose: usize,
    over: Time,
    /// Whether the store knows of it.
    is_reported: bool,
    /// The number of releases begun since then by processes that know of it.
    followers: u64,
}

impl State {
    /// The instant from which bookings matter: the earliest clock reading that a swap may still be decided by.
    fn since(&self) -> Time {
        let messages = self.processes.iter().flat_map(|process| &process.messages);
        let loads = messages.filter_map(Message::load).filter(|load| load.version == self.version);
        loads.map(|load| load.looked).min().unwrap_or(self.now)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        // Late enough for comparisons with the distant past.
        let now = Time(100 * TICK);
        let log = Log::begin(&self.terms, now);
        State {
            future: log.future(&self.terms, now),
            head: Head::First,
            log,
            version: 0,
            now,
            processes: (0..self.processes).map(|index| self.new_process(index, now)).collect(),
            releases: Vec::new(),
            lates: Vec::new(),
            next_late: 0,
            has_lost: false,
            is_exceeded: false,
        }
    }

    fn steps(&self, state: &State) -> Vec<(Action, State)> {
        let mut steps = Vec::new();
        if self.time_may_pass(state) {
            steps.push((Action::Tick, self.tick(state)));
        }
        let keys = self.process_keys(state);
        let first_alike = usize::from(self.first_is_live);
        for (index, process) in state.processes.iter().enumerate() {
            if index > first_alike && keys[first_alike..index].contains(&keys[index]) {
                continue;
            }
            self.ask(state, index, process, &mut steps);
            self.deliver(state, index, process, &mut steps);
            self.release(state, index, &mut steps);
            if index > 0 || !self.first_is_live {
                self.leave(state, index, &mut steps);
            }
        }
        if self.has(Fault::StateLoss) {
            steps.push((Action::LoseState, self.lose_state(state)));
        }
        if self.has(Fault::Change) {
            self.change(state, &mut steps);
        }
        steps
    }

    fn key(&self, state: &State) -> Vec<u8> {
        let mut processes = self.process_keys(state);
        // All processes are alike except the live one.
        processes[usize::from(self.first_is_live)..].sort_unstable();
        let mut key = state.future.clone();
        key.push(u8::MAX);
        for process in processes {
            key.extend(process);
            key.push(u8::MAX);
        }
        key.push(u8::from(state.has_lost && self.has(Fault::Stall)));
        for (at, is_new) in &state.releases {
            key.push(ticks(*at, state.now) | u8::from(*is_new) << 7);
        }
        if let Head::Replaced(at) = state.head {
            let log = &state.log;
            key.extend([u8::MAX, u8::from(log.is_replaced), u8::from(log.is_missing), ticks(at, state.now)]);
            key.push(ticks(log.idle_at(self.terms_of(log.is_replaced)), state.now));
            key.extend(log.future(self.terms_of(log.is_replaced), state.since()));
        }
        for late in &state.lates {
            let followers = u8::try_from(late.followers).expect("few");
            key.extend([u8::MAX, ticks(late.over, state.now), u8::from(late.is_reported), followers]);
        }
        key
    }

    fn is_bad(&self, state: &State) -> bool {
        state.is_exceeded
    }
}

impl Protocol {
    fn new_process(&self, index: usize, now: Time) -> Process {
        Process::new(now, !self.polices.contains(&index))
    }

    fn process_keys(&self, state: &State) -> Vec<Vec<u8>> {
        let lates: Vec<_> = state.lates.iter().map(|late| late.id).collect();
        // A slot that was decided by an earlier reading is over.
        let oldest = Time(state.now.0 - self.terms.policy.horizon - 2 * TICK);
        let key = |(index, process): (usize, &Process)| {
            let mut key = process.key((state.now, oldest), state.version, state.log.overruns(), &lates);
            key.extend(state.lates.iter().map(|late| u8::from(!late.is_reported && late.whose == index)));
            if self.broken == Some(Broken::Blind) {
                let loads = process.messages.iter().filter_map(Message::load);
                loads.for_each(|load| key.extend(load.log.future(&self.terms, load.looked)));
            }
            key
        };
        state.processes.iter().enumerate().map(key).collect()
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Time stands still while the live process has something to do.
    fn time_may_pass(&self, state: &State) -> bool {
        let is_busy = |process: &Process| {
            !process.messages.is_empty() || process.is_due(state.now) || self.may_ask(state, process)
        };
        !self.first_is_live || !is_busy(&state.processes[0])
    }

    fn tick(&self, state: &State) -> State {
        let mut next = state.clone();
        next.now.0 += TICK;
        let (now, period) = (next.now, self.terms.period * TICK);
        let longest = period.max(self.new_terms.period * TICK);
        next.releases.retain(|(at, _)| now.since(*at) < longest);
        next.lates.retain(|late| now.since(late.over) < period);
        let State { lates, processes, .. } = &mut next;
        let is_recent = |id: &LateId| lates.iter().any(|late| late.id == *id);
        processes.iter_mut().for_each(|process| process.knows.retain(is_recent));
        self.look_ahead(&mut next);
        next
    }

    fn look_ahead(&self, state: &mut State) {
        let since = state.since();
        let log = self.taken(&state.log, state.head, since);
        state.future = log.future(self.terms_of(log.is_replaced), since);
    }

    fn terms_of(&self, is_replaced: bool) -> &Terms {
        if is_replaced { &self.new_terms } else { &self.terms }
    }

    /// The log as a process takes it that has loaded it.
    fn taken(&self, log: &Log, head: Head, now: Time) -> Log {
        let is_forgetful = self.broken == Some(Broken::Forgetful);
        log.taken([&self.terms, &self.new_terms], head, now, is_forgetful)
    }

    /// Replaces the limits, step by step. It may end after each.
    fn change(&self, state: &State, steps: &mut Vec<(Action, State)>) {
        let mut step = |action, head: Head, log: Log| {
            let mut next = State { head, ..state.clone() };
            self.replace_log(&mut next, log);
            steps.push((action, next));
        };
        let (head, log) = (state.head, &state.log);
        if head == Head::First {
            // What a process has loaded of the key is still what is kept.
            let mut next = State { head: Head::Replaced(state.now), ..state.clone() };
            self.look_ahead(&mut next);
            steps.push((Action::Change, next));
            return;
        }
        if !log.is_replaced && !log.is_missing {
            step(Action::CarryOver, head, self.taken(log, head, state.now));
        }
        if !log.is_missing && log.idle_at(self.terms_of(log.is_replaced)) <= state.now {
            let mut evicted = log.clone();
            evicted.is_missing = true;
            step(Action::Evict, head, evicted);
        }
    }

    /// Whether a process that knows nothing of a loss may ask first depends on `broken`.
    fn may_ask(&self, state: &State, process: &Process) -> bool {
        let is_newcomer = state.log.is_unhealed && !process.knew_other;
        !process.has_asked()
            && !process.is_blocked
            && process.ask_at <= state.now
            && (process.slots.count() < self.terms.policy.span || process.is_behind(state.log.overruns()))
            && (!is_newcomer
                || matches!(
                    self.broken,
                    Some(Broken::Newcomers | Broken::Quarantine | Broken::QuarantineOnce)
                ))
    }

    fn ask(&self, state: &State, index: usize, process: &Process, steps: &mut Vec<(Action, State)>) {
        if !self.may_ask(state, process) {
            return;
        }
        // A count of 0 asks only for overruns.
        let count = self.terms.policy.span.saturating_sub(process.slots.count());
        let within = if process.waits { u64::MAX } else { 0 };
        let order =
            order(count).with(Task::Book(Wanted { count, within, turn: process.turn, ..Wanted::default() }));
        let mut next = state.clone();
        self.send(&mut next, index, order);
        steps.push((Action::Ask(index), next));
    }

    /// Unless orders take time or another is first, it is the same to ask later as to load later.
    fn send(&self, state: &mut State, index: usize, order: Order) {
        let is_first = state.processes[index].question().is_none();
        state.processes[index].messages.push_back(Message::new(order));
        if is_first && !self.has(Fault::Delay) {
            Self::load(state, index);
        }
    }

    /// Takes a copy of what the vault keeps, and of its clock.
    fn load(state: &mut State, index: usize) {
        let State { log, version, now: looked, head, .. } = state;
        let load = Load { log: log.clone(), version: *version, looked: *looked, head: *head };
        let process = &mut state.processes[index];
        if let Some(at) = process.question() {
            process.messages[at].stage = Stage::Loaded(load);
        }
    }

    /// What a process does first with a log that it has loaded: it may notice a loss.
    fn notice(&self, log: &mut Log, knew_other: bool, now: Time) {
        let heals = knew_other && log.is_unhealed && self.broken != Some(Broken::Quarantine);
        if heals || (self.broken == Some(Broken::QuarantineOnce) && log.is_unhealed) {
            log.heal(&self.terms, now);
            log.is_unhealed = self.broken == Some(Broken::QuarantineOnce);
        }
    }

    /// Replaces what the vault keeps.
    fn replace_log(&self, state: &mut State, log: Log) {
        state.log = log;
        state.version += 1;
        self.look_ahead(state);
    }

    /// What can happen to the messages of a process.
    fn deliver(&self, state: &State, index: usize, process: &Process, steps: &mut Vec<(Action, State)>) {
        let mut step = |action, does: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            does(&mut next);
            steps.push((action, next));
        };
        let may_lose = self.has(Fault::MessageLoss) && (index > 0 || !self.first_is_live);
        let load_again = |next: &mut State| {
            Self::load(next, index);
            self.look_ahead(next);
        };
        match process.question().map(|at| &process.messages[at].stage) {
            Some(Stage::Loaded(load))
                if load.version == state.version || self.broken == Some(Broken::Blind) =>
            {
                step(Action::Swap(index), &|next| {
                    self.swap(next, index, false);
                    if !self.has(Fault::Delay) && !next.processes[index].is_blocked {
                        self.receive(next, index);
                    }
                });
                if !Self::waiting(state, index).is_empty() {
                    step(Action::SwapForAll(index), &|next| {
                        self.swap(next, index, true);
                        if !self.has(Fault::Delay) && !next.processes[index].is_blocked {
                            self.receive(next, index);
                        }
                    });
                }
                if may_lose && !self.has(Fault::Delay) {
                    step(Action::Forget(index), &|next| {
                        self.swap(next, index, false);
                        self.forget(next, index);
                    });
                }
            }
            Some(Stage::Loaded(_)) => step(Action::Refuse(index), &load_again),
            Some(_) => step(Action::Load(index), &load_again),
            None => {}
        }
        if process.messages.front().is_some_and(Message::is_answered) && !process.is_blocked {
            step(Action::Receive(index), &|next| self.receive(next, index));
        }
        let last = process.messages.back().filter(|last| may_lose && last.is_answered());
        if self.has(Fault::Delay) && last.is_some() {
            step(Action::Forget(index), &|next| self.forget(next, index));
        }
        if last.is_some_and(|last| last.is_superseded(state.version)) {
            step(Action::LoseMessage(index), &|next| {
                next.processes[index].messages.back_mut().expect("one").stage = Stage::Question;
                load_again(next);
            });
        }
    }

    /// A process never learns of the swap that it made last. It reports again what it has reported.
    fn forget(&self, state: &mut State, index: usize) {
        let messages = &mut state.processes[index].messages;
        let Some(at) = messages.iter().rposition(Message::is_answered) else { return };
        if messages[at].is_report() {
            messages[at].stage = Stage::Question;
        } else {
            messages.remove(at);
        }
        self.look_ahead(state);
    }

    /// The others whose questions had come by the time at which a process loaded what was kept.
    fn waiting(state: &State, index: usize) -> Vec<usize> {
        let load = |index: usize| {
            let process: &Process = &state.processes[index];
            process.question().and_then(|at| process.messages[at].load())
        };
        let Some(loaded) = load(index) else { return Vec::new() };
        let others = (0..state.processes.len()).filter(|other| *other != index);
        others.filter(|other| load(*other).is_some_and(|other| other.looked <= loaded.looked)).collect()
    }

    /// Decides, for all who wait if that `is_for_all`, and swaps what was loaded for the outcome.
    fn swap(&self, state: &mut State, index: usize, is_for_all: bool) {
        let process = &state.processes[index];
        let Some(Load { log, looked: now, head, .. }) =
            process.question().and_then(|at| process.messages[at].load().cloned())
        else {
            return;
        };
        let mut log = self.taken(&log, head, now);
        self.notice(&mut log, process.knew_other, now);
        let waiting = if is_for_all { Self::waiting(state, index) } else { Vec::new() };
        self.decide(state, index, &mut log, now);
        waiting.into_iter().for_each(|other| self.decide(state, other, &mut log, now));
        self.replace_log(state, log);
    }

    /// Decides on the first question of a process, in the next version of the log, which whoever decides has healed.
    fn decide(&self, state: &mut State, index: usize, log: &mut Log, now: Time) {
        let process = &state.processes[index];
        let Some(at) = process.question() else { return };
        let order = process.messages[at].order.clone();
        if process.follows != log.is_replaced {
            state.processes[index].messages[at].stage = Stage::Outdated(state.version + 1);
            return;
        }
        let terms = self.terms_of(log.is_replaced);
        let answer = match order.wanted().is_none_or(|wanted| wanted.within > 0) {
            true => log.book(terms, now, &order),
            false => log.book_at_once(terms, now, &order),
        };
        let is_it = |late: &&mut Late| late.whose == index && Task::Late(1, late.over) == order.task;
        state.lates.iter_mut().filter(is_it).for_each(|late| late.is_reported = true);
        // Overruns from before a loss are no longer told, and later ones may look the same.
        let is_told = |late: &&Late| late.is_reported && !state.has_lost;
        let told = state.lates.iter().filter(is_told).map(|late| late.id).collect();
        let process = &mut state.processes[index];
        process.knew_other = false;
        process.messages[at].stage = Stage::Answer(answer, told, state.version + 1);
    }

    /// A process takes its first answer.
    fn receive(&self, state: &mut State, index: usize) {
        let now = state.now;
        let process = &mut state.processes[index];
        let Some((order, mut answer, told)) = process.take_answer() else { return };
        if self.broken == Some(Broken::Deadline) {
            answer.slots.iter_mut().for_each(|slot| slot.until = Time(u64::MAX));
        }
        if self.broken == Some(Broken::Overruns) && !order.is_report() {
            answer.overruns = process.slots.overruns.clone();
        }
        process.slots.put(now, &order, &answer);
        process.knows.extend(told);
        if !order.is_report() {
            process.ask_at = answer.ask_again.unwrap_or_default();
            process.turn = answer.turn;
        }
    }

    /// Drops what is too late, or releases. A release that has begun may end at any time.
    fn release(&self, state: &State, index: usize, steps: &mut Vec<(Action, State)>) {
        let process = &state.processes[index];
        if process.is_blocked {
            let mut next = state.clone();
            self.finish(&mut next, index);
            steps.push((Action::Finish(index), next));
        }
        if !process.is_due(state.now) {
            return;
        }
        let mut next = state.clone();
        if !self.begin(&mut next, index) {
            steps.push((Action::Wake(index), next));
            return;
        }
        if self.has(Fault::Stall) {
            steps.push((Action::Begin(index), next.clone()));
        }
        self.finish(&mut next, index);
        steps.push((Action::Release(index), next));
    }

    /// Begins a release if a slot allows it.
    fn begin(&self, state: &mut State, index: usize) -> bool {
        let process = &mut state.processes[index];
        process.is_blocked = process.slots.begin(state.now);
        if !process.is_blocked {
            return false;
        }
        let follows = process.follows;
        state.releases.push((state.now, follows));
        let terms = self.terms_of(follows);
        // Those who do not know that the limits were replaced keep the first among themselves.
        let counts =
            |(at, is_new): &&(Time, bool)| state.now.since(*at) < terms.period * TICK && (follows || !is_new);
        state.is_exceeded |= state.releases.iter().filter(counts).count() as u64 > terms.count;
        for late in state.lates.iter_mut().filter(|late| process.knows.contains(&late.id)) {
            late.followers += 1;
            state.is_exceeded |= late.followers >= self.terms.count;
        }
        true
    }

    /// Ends a release. A late one is reported.
    fn finish(&self, state: &mut State, index: usize) {
        let now = state.now;
        let process = &mut state.processes[index];
        process.is_blocked = false;
        let Some(report) = process.slots.finish(now) else { return };
        let late = Late { id: state.next_late, whose: index, over: now, is_reported: false, followers: 0 };
        process.knows.push(late.id);
        state.lates.push(late);
        state.next_late += 1;
        if matches!(self.broken, Some(Broken::Report | Broken::Patience)) {
            process.slots.ignore(now, &report);
        }
        if self.broken != Some(Broken::Report) {
            self.send(state, index, report);
        }
    }

    /// A process gives slots back, ends, or dies. If it is gone, another takes its place.
    fn leave(&self, state: &State, index: usize, steps: &mut Vec<(Action, State)>) {
        if self.has(Fault::Surplus) {
            let mut next = state.clone();
            if self.give_back(&mut next, index) {
                steps.push((Action::GiveBack(index), next));
            }
        }
        if self.has(Fault::End) {
            steps.extend(self.end(state, index).map(|next| (Action::End(index), next)));
        }
        // The new process must not be the first to ask after a loss.
        let is_first = state.log.is_unhealed && self.broken != Some(Broken::Newcomers);
        if self.has(Fault::Death) && !is_first {
            let mut next = state.clone();
            self.replace(&mut next, index);
            steps.push((Action::Die(index), next));
        }
    }

    /// A process ends once no more answers are due, and gives its slots back. With no slots, its end would be the same
    /// as a death.
    fn end(&self, state: &State, index: usize) -> Option<State> {
        let process = &state.processes[index];
        if process.question().is_some() || process.is_blocked {
            return None;
        }
        let mut next = state.clone();
        process.messages.iter().for_each(|_| self.receive(&mut next, index));
        if !self.give_back(&mut next, index) {
            return None;
        }
        let ended = self.replace(&mut next, index);
        if self.broken == Some(Broken::GiveBack) {
            next.processes[index].slots = ended.slots;
        }
        Some(next)
    }

    /// Replaces a process. Nobody learns of its unreported releases.
    fn replace(&self, state: &mut State, index: usize) -> Process {
        state.lates.retain(|late| late.is_reported || late.whose != index);
        let follows = state.head != Head::First;
        let new = Process { follows, ..self.new_process(index, state.now) };
        let gone = std::mem::replace(&mut state.processes[index], new);
        self.look_ahead(state);
        gone
    }

    /// A process gives back all slots that are still to come, if there are any: when its swap is made. The store does
    /// not know those booked before a loss.
    fn give_back(&self, state: &mut State, index: usize) -> bool {
        if state.processes[index].is_blocked {
            return false;
        }
        let mut kept = state.processes[index].slots.clone();
        let surplus = kept.take_surplus(state.now);
        if surplus.is_empty() {
            return false;
        }
        let mut log = state.log.clone();
        let process = &mut state.processes[index];
        self.notice(&mut log, process.knew_other, state.now);
        process.knew_other = false;
        let is_known = |slot: &&Slot| !process.lost.contains(&slot.at);
        let known: Vec<_> = surplus.iter().filter(is_known).copied().collect();
        if self.broken != Some(Broken::GiveBack) {
            process.slots = kept;
        }
        log.take_back(&self.terms, state.now, &known);
        if self.broken == Some(Broken::GiveBackTwice) {
            log.take_back(&self.terms, state.now, &known);
        }
        self.replace_log(state, log);
        true
    }

    fn lose_state(&self, state: &State) -> State {
        let mut next = state.clone();
        let mut log = state.log.clone();
        log.lose(&self.terms, state.now);
        self.replace_log(&mut next, log);
        next.has_lost = true;
        for process in &mut next.processes {
            process.knew_other = true;
            process.lost = process.slots.all().iter().map(|slot| slot.at).collect();
            let answers = process.messages.iter().filter_map(Message::answer);
            process.lost.extend(answers.flat_map(|answer| &answer.slots).map(|slot| slot.at));
        }
        next
    }
}
