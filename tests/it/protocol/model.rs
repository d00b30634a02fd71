//! Processes that share a limit, each doing anything it may, at any time.

use throttle::store::ledger::Owner;
use throttle::store::{Order, Slot};
use throttle::time::Time;

use super::explore::Model;
use super::log::{Log, TICK, Terms, ticks};
use super::process::{LateId, Message, Process, Stage};
use super::slots::order;

/// Where the limit is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Store {
    /// Booking is one step.
    File,
    /// A question and an answer each take any time, and may be lost.
    Server,
}

/// What may go wrong, besides late wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Processes die, also in the middle of a booking, and others take their place.
    Death,
    /// Processes end and give their slots back, and others take their place.
    End,
    /// Processes have no more use for their slots, give them back, and go on.
    Surplus,
    /// All bookings are forgotten.
    StateLoss,
    /// Questions and answers get lost.
    MessageLoss,
    /// With a file: after it has read the clock, a visit takes any time, under the lock. Meanwhile others use their
    /// slots and die, and what they leave behind is handed on.
    Delay,
    /// Releases take any time, as blocked writes do. Those that are late for their slots are reported.
    Stall,
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
    /// What the dead leave behind is handed on by a reading of the clock from before their death was known.
    Inheritance,
    /// Releases that are late for their slots are not reported.
    Report,
    /// Slots are used before it is known which of them are too close to a late release.
    Patience,
    /// Overruns of others are ignored.
    Overruns,
    /// After a loss, slots are given out at once.
    Silence,
    /// After a loss, everyone who asks starts the silence over.
    SilenceOnce,
    /// After a loss, a process that knew nothing of what was lost may ask first.
    Newcomers,
}

pub(super) struct Protocol {
    pub(super) terms: Terms,
    pub(super) store: Store,
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
    Serve(usize),
    Receive(usize),
    LoseMessage(usize),
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
}

#[derive(Clone)]
pub(super) struct State {
    now: Time,
    log: Log,
    /// What the log would answer, see [`Log::future`].
    future: Vec<u8>,
    processes: Vec<Process>,
    /// The starts of releases less than a period ago.
    releases: Vec<Time>,
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

/// The owner of a process's slots, where owners are recorded.
fn owner(index: usize) -> Owner {
    1 + Owner::try_from(index).expect("few")
}

impl State {
    /// The clock reading of the process that is visiting a file.
    fn visit(&self) -> Option<Time> {
        let looked = |message: &Message| match message.stage {
            Stage::Question(looked) => looked,
            Stage::Answer(..) => None,
        };
        self.processes.iter().flat_map(|process| &process.messages).find_map(looked)
    }

    /// The instant from which bookings matter.
    fn since(&self) -> Time {
        self.visit().unwrap_or(self.now)
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
            log,
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
        steps
    }

    fn key(&self, state: &State) -> Vec<u8> {
        let mut processes = self.process_keys(state);
        // All processes are alike except the live one.
        processes[usize::from(self.first_is_live)..].sort_unstable();
        let mut key = state.future.clone();
        key.push(u8::MAX);
        key.extend(state.log.left_behind(state.since()));
        key.push(u8::MAX);
        for process in processes {
            key.extend(process);
            key.push(u8::MAX);
        }
        key.push(u8::from(state.has_lost && self.has(Fault::Stall)));
        key.extend(state.releases.iter().map(|at| ticks(*at, state.now)));
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

    /// Whether the owners of slots are recorded.
    fn has_owners(&self) -> bool {
        self.store == Store::File && self.has(Fault::Delay)
    }

    fn process_keys(&self, state: &State) -> Vec<Vec<u8>> {
        let lates: Vec<_> = state.lates.iter().map(|late| late.id).collect();
        let key = |(index, process): (usize, &Process)| {
            let mut key = process.key(state.now, state.log.overruns(), &lates);
            key.extend(state.lates.iter().map(|late| u8::from(!late.is_reported && late.whose == index)));
            if self.has_owners() {
                key.extend(state.log.owned(owner(index), state.since()));
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
        next.releases.retain(|at| now.since(*at) < period);
        next.lates.retain(|late| now.since(late.over) < period);
        let State { lates, processes, .. } = &mut next;
        let is_recent = |id: &LateId| lates.iter().any(|late| late.id == *id);
        processes.iter_mut().for_each(|process| process.knows.retain(is_recent));
        next.future = next.log.future(&self.terms, next.since());
        next
    }

    /// Whether a process that knows nothing of a loss may ask first depends on `broken`.
    fn may_ask(&self, state: &State, process: &Process) -> bool {
        let is_newcomer = state.log.is_unhealed && !process.knew_other;
        !process.has_asked()
            && !process.is_blocked
            && state.visit().is_none()
            && process.ask_at <= state.now
            && (process.slots.count() < self.terms.policy.span || process.is_behind(state.log.overruns()))
            && (!is_newcomer
                || matches!(self.broken, Some(Broken::Newcomers | Broken::Silence | Broken::SilenceOnce)))
    }

    /// With a file, the answer comes in the same step unless it is delayed.
    fn ask(&self, state: &State, index: usize, process: &Process, steps: &mut Vec<(Action, State)>) {
        if !self.may_ask(state, process) {
            return;
        }
        // A count of 0 asks only for overruns.
        let count = self.terms.policy.span.saturating_sub(process.slots.count());
        let order =
            Order { turn: process.turn, within: if process.waits { u64::MAX } else { 0 }, ..order(count) };
        let mut next = state.clone();
        self.send(&mut next, index, Message::new(order, self.has_owners().then_some(state.now)));
        steps.push((Action::Ask(index), next));
    }

    fn send(&self, state: &mut State, index: usize, message: Message) {
        let is_slow = self.store == Store::Server || matches!(message.stage, Stage::Question(Some(_)));
        state.processes[index].messages.push_back(message);
        if !is_slow {
            self.serve(state, index);
            self.receive(state, index);
        }
    }

    /// A process reaches the store, and may notice a loss.
    fn visit(&self, state: &mut State, index: usize) {
        let process = &mut state.processes[index];
        let heals = process.knew_other && state.log.is_unhealed && self.broken != Some(Broken::Silence);
        if heals || (self.broken == Some(Broken::SilenceOnce) && state.log.is_unhealed) {
            state.log.heal(&self.terms, state.now);
            state.log.is_unhealed = self.broken == Some(Broken::SilenceOnce);
        }
        process.knew_other = false;
    }

    /// What can happen to messages.
    fn deliver(&self, state: &State, index: usize, process: &Process, steps: &mut Vec<(Action, State)>) {
        if process.question().is_some() {
            let mut next = state.clone();
            self.serve(&mut next, index);
            if self.store == Store::File {
                self.receive(&mut next, index);
            }
            steps.push((Action::Serve(index), next));
        }
        if process.messages.front().is_some_and(Message::is_answered) && !process.is_blocked {
            let mut next = state.clone();
            self.receive(&mut next, index);
            steps.push((Action::Receive(index), next));
        }
        if self.has(Fault::MessageLoss) && (index > 0 || !self.first_is_live) {
            steps.extend(Self::lose_message(state, index).map(|next| (Action::LoseMessage(index), next)));
        }
    }

    /// Loses the message that is under way: earlier ones have been answered, and later ones wait. A report is sent
    /// again.
    fn lose_message(state: &State, index: usize) -> Option<State> {
        let mut next = state.clone();
        let messages = &mut next.processes[index].messages;
        let last = messages.iter().rposition(Message::is_answered).unwrap_or(0);
        let message = messages.get_mut(last)?;
        if message.is_report() {
            message.stage = Stage::Question(None);
        } else {
            messages.remove(last);
        }
        Some(next)
    }

    /// The store answers a question.
    fn serve(&self, state: &mut State, index: usize) {
        let Some(at) = state.processes[index].question() else { return };
        let Message { order, stage } = state.processes[index].messages[at].clone();
        let Stage::Question(looked) = stage else { return };
        self.visit(state, index);
        let now = looked.unwrap_or(state.now);
        if self.has_owners() {
            let is_early = self.broken == Some(Broken::Inheritance);
            state.log.inherit(if is_early { now } else { state.now });
        }
        let answer = match order.within > 0 {
            true => state.log.book(&self.terms, now, &order),
            false => state.log.book_at_once(&self.terms, now, &order),
        };
        if self.has_owners() {
            state.log.own(owner(index), now, &answer.slots);
        }
        let is_it = |late: &&mut Late| late.whose == index && Some(late.over) == order.overrun;
        state.lates.iter_mut().filter(is_it).for_each(|late| late.is_reported = true);
        // Overruns from before a loss are no longer told, and later ones may look the same.
        let is_told = |late: &&Late| late.is_reported && !state.has_lost;
        let told = state.lates.iter().filter(is_told).map(|late| late.id).collect();
        state.processes[index].messages[at].stage = Stage::Answer(answer, told);
        state.future = state.log.future(&self.terms, state.now);
    }

    /// A process takes its first answer.
    fn receive(&self, state: &mut State, index: usize) {
        let now = state.now;
        let process = &mut state.processes[index];
        let Some((order, mut answer, told)) = process.take_answer() else { return };
        if self.broken == Some(Broken::Deadline) {
            answer.slots.iter_mut().for_each(|slot| slot.until = Time(u64::MAX));
        }
        if self.broken == Some(Broken::Overruns) && order.overrun.is_none() {
            answer.overruns = process.slots.overruns.clone();
        }
        process.slots.put(now, &order, &answer);
        process.knows.extend(told);
        if order.overrun.is_none() {
            process.ask_at = answer.ask_again.unwrap_or_default();
            process.turn = answer.turn;
        }
    }

    /// Drops what is too late, or releases. A release that has begun may end at any time.
    fn release(&self, state: &State, index: usize, steps: &mut Vec<(Action, State)>) {
        let process = &state.processes[index];
        if process.is_blocked && state.visit().is_none() {
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
        state.releases.push(state.now);
        state.is_exceeded |= state.releases.len() as u64 > self.terms.count;
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
            self.send(state, index, Message::new(report, None));
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
            if self.has_owners() {
                next.log.bury(owner(index));
                next.future = next.log.future(&self.terms, next.since());
            }
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
        std::mem::replace(&mut state.processes[index], self.new_process(index, state.now))
    }

    /// A process gives back all slots that are still to come, if there are any. The store does not know those booked
    /// before a loss.
    fn give_back(&self, state: &mut State, index: usize) -> bool {
        if state.processes[index].is_blocked || state.visit().is_some() {
            return false;
        }
        let mut kept = state.processes[index].slots.clone();
        let surplus = kept.take_surplus(state.now);
        if surplus.is_empty() {
            return false;
        }
        self.visit(state, index);
        let process = &mut state.processes[index];
        let is_known = |slot: &&Slot| !process.lost.contains(&slot.at);
        let mut known: Vec<_> = surplus.iter().filter(is_known).copied().collect();
        if self.has_owners() {
            known = state.log.disown(owner(index), known);
        }
        if self.broken != Some(Broken::GiveBack) {
            process.slots = kept;
        }
        state.log.take_back(&self.terms, state.now, &known);
        if self.broken == Some(Broken::GiveBackTwice) {
            state.log.take_back(&self.terms, state.now, &known);
        }
        state.future = state.log.future(&self.terms, state.now);
        true
    }

    fn lose_state(&self, state: &State) -> State {
        let mut next = state.clone();
        next.log.lose(&self.terms, state.now);
        next.future = next.log.future(&self.terms, state.now);
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
