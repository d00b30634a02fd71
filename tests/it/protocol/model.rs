//! Processes that share a limit, each doing whatever it may at any time.

use throttle::store::ledger::Owner;
use throttle::store::{Answer, Slot, Turn};
use throttle::time::Time;

use super::explore::Model;
use super::log::{Log, TICK, Terms, take_surplus, ticks, use_slots};

/// Where the limit is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Store {
    /// Booking is one step.
    File,
    /// A question and an answer are on their way for any time, and may be lost.
    Server,
}

/// What may go wrong, besides late wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Processes die, also in the middle of a booking, and others take their place.
    Death,
    /// Processes end and give their slots back, and others take their place.
    End,
    /// Processes have no use for their slots any more, give them back, and go on.
    Surplus,
    /// What was booked is forgotten.
    StateLoss,
    /// Questions and answers get lost on the way.
    MessageLoss,
    /// With a file: after its look at the clock, a visit takes any time, under the lock. Meanwhile others use their slots, and
    /// die, and what they leave behind is handed on.
    Delay,
}

/// What must not be left out; the model shows that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// Slots are used however late it is.
    Deadline,
    /// Slots that were given back are used by their old owner as well.
    GiveBack,
    /// What is given back is given back once more, as after an answer that was lost.
    GiveBackTwice,
    /// What the dead leave behind is handed on by a look at the clock from before it was known that they are.
    Inheritance,
    /// After a loss, slots are given out at once.
    Silence,
    /// After a loss, everyone who asks begins the silence anew.
    SilenceOnce,
    /// After a loss, a process that knew nothing of what was lost may ask first.
    Newcomers,
}

pub(super) struct Protocol {
    pub(super) terms: Terms,
    pub(super) store: Store,
    pub(super) processes: usize,
    /// Those that take only what is free at once, as with `--on-limit drop`.
    pub(super) polices: &'static [usize],
    pub(super) faults: &'static [Fault],
    pub(super) broken: Option<Broken>,
    /// The first process lives, wakes in time, and has no message lost.
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
    Release(usize),
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
    /// Releases of less than a period ago.
    releases: Vec<Time>,
    is_exceeded: bool,
}

#[derive(Clone)]
struct Process {
    /// Whether it books slots to come.
    waits: bool,
    slots: Vec<Slot>,
    /// When those are that the store does not know any more.
    lost: Vec<Time>,
    ask_at: Time,
    turn: Option<Turn>,
    message: Message,
    /// Whether it knew a log that is lost, and has not asked since.
    knew_other: bool,
}

#[derive(Clone)]
enum Message {
    None,
    /// So many slots, and when the clock was looked at, if that was long before the answer.
    Question(u64, Option<Time>),
    Answer(Answer),
}

/// Whose slots they are that a process has, where that is known.
fn owner(index: usize) -> Owner {
    1 + Owner::try_from(index).expect("few")
}

impl State {
    /// When whoever visits a file looked at the clock.
    fn visit(&self) -> Option<Time> {
        self.processes.iter().find_map(|process| match process.message {
            Message::Question(_, looked) => looked,
            _ => None,
        })
    }

    /// From when on it matters what is booked.
    fn since(&self) -> Time {
        self.visit().unwrap_or(self.now)
    }
}

impl Process {
    fn new(now: Time, waits: bool) -> Self {
        Process {
            waits,
            slots: Vec::new(),
            lost: Vec::new(),
            ask_at: now,
            turn: None,
            message: Message::None,
            knew_other: false,
        }
    }

    fn key(&self, now: Time) -> Vec<u8> {
        let at = |slot: &Slot| ticks(slot.at, now) | u8::from(self.lost.contains(&slot.at)) << 7;
        let turn = |turn: Option<Turn>| turn.map_or(0, |turn| ticks(Time(turn.0), now));
        let kind = u8::from(self.knew_other) | u8::from(self.waits) << 1;
        let mut key = vec![kind, ticks(self.ask_at.max(now), now), turn(self.turn)];
        key.push(u8::try_from(self.slots.len()).expect("few"));
        key.extend(self.slots.iter().map(at));
        match &self.message {
            Message::None => key.push(0),
            Message::Question(count, looked) => {
                let looked = looked.map_or(0, |looked| ticks(looked, now));
                key.extend([1, u8::try_from(*count).expect("few"), looked]);
            }
            Message::Answer(answer) => {
                key.extend([2, answer.ask_again.map_or(0, |at| ticks(at.max(now), now)), turn(answer.turn)]);
                key.extend(answer.slots.iter().map(at));
            }
        }
        key
    }

    fn is_due(&self, now: Time) -> bool {
        self.slots.first().is_some_and(|slot| slot.at <= now)
    }

    fn receive(&mut self, answer: Answer, broken: Option<Broken>) {
        let until = |slot: Slot| if broken == Some(Broken::Deadline) { Time(u64::MAX) } else { slot.until };
        self.slots.extend(answer.slots.into_iter().map(|slot| Slot { until: until(slot), ..slot }));
        self.slots.sort_by_key(|slot| slot.at);
        self.ask_at = answer.ask_again.unwrap_or_default();
        self.turn = answer.turn;
        self.message = Message::None;
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        // Late enough for whatever is compared with what was long ago.
        let now = Time(100 * TICK);
        let log = Log::begin(&self.terms, now);
        State {
            future: log.future(&self.terms, now),
            log,
            now,
            processes: (0..self.processes).map(|index| self.new_process(index, now)).collect(),
            releases: Vec::new(),
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
            if process.is_due(state.now) {
                steps.push(self.wake(state, index));
            }
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
        // All are alike but the one that is looked at.
        processes[usize::from(self.first_is_live)..].sort_unstable();
        let mut key = state.future.clone();
        key.push(u8::MAX);
        key.extend(state.log.left_behind(state.since()));
        key.push(u8::MAX);
        for process in processes {
            key.extend(process);
            key.push(u8::MAX);
        }
        key.extend(state.releases.iter().map(|at| ticks(*at, state.now)));
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

    /// Whether it is known whose slots they are.
    fn has_owners(&self) -> bool {
        self.store == Store::File && self.has(Fault::Delay)
    }

    fn process_keys(&self, state: &State) -> Vec<Vec<u8>> {
        let key = |(index, process): (usize, &Process)| {
            let mut key = process.key(state.now);
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

    /// Not while the live process has something to do.
    fn time_may_pass(&self, state: &State) -> bool {
        let is_busy = |process: &Process| {
            let has_message = !matches!(process.message, Message::None);
            has_message || process.is_due(state.now) || self.may_ask(state, process)
        };
        !self.first_is_live || !is_busy(&state.processes[0])
    }

    fn tick(&self, state: &State) -> State {
        let mut next = state.clone();
        next.now.0 += TICK;
        let (now, period) = (next.now, self.terms.period * TICK);
        next.releases.retain(|at| now.since(*at) < period);
        next.future = next.log.future(&self.terms, next.since());
        next
    }

    /// Whether a process that knows nothing of a loss is let in first is up to the model.
    fn may_ask(&self, state: &State, process: &Process) -> bool {
        let is_newcomer = state.log.is_unhealed && !process.knew_other;
        matches!(process.message, Message::None)
            && state.visit().is_none()
            && process.ask_at <= state.now
            && (process.slots.len() as u64) < self.terms.policy.span
            && (!is_newcomer
                || matches!(self.broken, Some(Broken::Newcomers | Broken::Silence | Broken::SilenceOnce)))
    }

    /// With a file, the answer is there in the same step, unless it is delayed.
    fn ask(&self, state: &State, index: usize, process: &Process, steps: &mut Vec<(Action, State)>) {
        if !self.may_ask(state, process) {
            return;
        }
        let count = self.terms.policy.span - process.slots.len() as u64;
        let mut next = state.clone();
        next.processes[index].message = Message::Question(count, self.has_owners().then_some(state.now));
        if self.store == Store::Server || self.has_owners() {
            steps.push((Action::Ask(index), next));
            return;
        }
        self.serve(&mut next, index);
        self.receive(&mut next, index);
        steps.push((Action::Ask(index), next));
    }

    /// A process gets to the store, and notices a loss.
    fn visit(&self, state: &mut State, index: usize) {
        let process = &mut state.processes[index];
        let heals = process.knew_other && state.log.is_unhealed && self.broken != Some(Broken::Silence);
        if heals || (self.broken == Some(Broken::SilenceOnce) && state.log.is_unhealed) {
            state.log.heal(&self.terms, state.now);
            state.log.is_unhealed = self.broken == Some(Broken::SilenceOnce);
        }
        process.knew_other = false;
    }

    /// What may become of a message.
    fn deliver(&self, state: &State, index: usize, process: &Process, steps: &mut Vec<(Action, State)>) {
        let mut next = state.clone();
        match &process.message {
            Message::None => return,
            Message::Question(..) => {
                self.serve(&mut next, index);
                if self.store == Store::File {
                    self.receive(&mut next, index);
                }
                steps.push((Action::Serve(index), next));
            }
            Message::Answer(..) => {
                self.receive(&mut next, index);
                steps.push((Action::Receive(index), next));
            }
        }
        if self.has(Fault::MessageLoss) && (index > 0 || !self.first_is_live) {
            let mut next = state.clone();
            next.processes[index].message = Message::None;
            steps.push((Action::LoseMessage(index), next));
        }
    }

    /// The store answers a question.
    fn serve(&self, state: &mut State, index: usize) {
        let Message::Question(count, looked) = state.processes[index].message else { return };
        self.visit(state, index);
        let now = looked.unwrap_or(state.now);
        if self.has_owners() {
            let is_early = self.broken == Some(Broken::Inheritance);
            state.log.inherit(if is_early { now } else { state.now });
        }
        let process = &mut state.processes[index];
        let answer = match process.waits {
            true => state.log.book(&self.terms, now, count, process.turn),
            false => state.log.book_at_once(&self.terms, now, count),
        };
        if self.has_owners() {
            state.log.own(owner(index), now, &answer.slots);
        }
        process.message = Message::Answer(answer);
        state.future = state.log.future(&self.terms, state.now);
    }

    fn receive(&self, state: &mut State, index: usize) {
        let process = &mut state.processes[index];
        if let Message::Answer(answer) = std::mem::replace(&mut process.message, Message::None) {
            process.receive(answer, self.broken);
        }
    }

    /// Drops what is too late, or releases.
    fn wake(&self, state: &State, index: usize) -> (Action, State) {
        let mut next = state.clone();
        let (slots, is_released) = use_slots(&state.processes[index].slots, state.now);
        next.processes[index].slots = slots;
        if !is_released {
            return (Action::Wake(index), next);
        }
        next.releases.push(state.now);
        next.is_exceeded |= next.releases.len() as u64 > self.terms.count;
        (Action::Release(index), next)
    }

    /// A process ends, in some way, and another takes its place.
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
        // Whoever comes instead must not be the first to ask after a loss.
        let is_first = state.log.is_unhealed && self.broken != Some(Broken::Newcomers);
        if self.has(Fault::Death) && !is_first {
            let mut next = state.clone();
            next.processes[index] = self.new_process(index, state.now);
            if self.has_owners() {
                next.log.bury(owner(index));
                next.future = next.log.future(&self.terms, next.since());
            }
            steps.push((Action::Die(index), next));
        }
    }

    /// A process ends, once no answer is to come any more, and gives back what it has. With nothing to give back, that is
    /// no more than a death.
    fn end(&self, state: &State, index: usize) -> Option<State> {
        if matches!(state.processes[index].message, Message::Question(..)) {
            return None;
        }
        let mut next = state.clone();
        self.receive(&mut next, index);
        if !self.give_back(&mut next, index) {
            return None;
        }
        let ended = std::mem::replace(&mut next.processes[index], self.new_process(index, state.now));
        if self.broken == Some(Broken::GiveBack) {
            next.processes[index].slots = ended.slots;
        }
        Some(next)
    }

    /// A process gives back all slots that are still to come, if there are any. The store does not know those that it
    /// booked before a loss.
    fn give_back(&self, state: &mut State, index: usize) -> bool {
        let (kept, surplus) = take_surplus(&state.processes[index].slots, state.now, 0);
        if surplus.is_empty() || state.visit().is_some() {
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
        for process in &mut next.processes {
            process.knew_other = true;
            process.lost = process.slots.iter().map(|slot| slot.at).collect();
            if let Message::Answer(answer) = &process.message {
                process.lost.extend(answer.slots.iter().map(|slot| slot.at));
            }
        }
        next
    }
}
