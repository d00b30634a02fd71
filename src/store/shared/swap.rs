//! Swaps the records of keys for others, several at once.
//!
//! Each change is decided on a record that was loaded, and written if the record is still the same. If another process
//! was faster, it is decided again, on the newer record. All changes go forward together, in rounds, so that a vault
//! that is far away is asked a few times, however many there are.

use std::mem;

use super::queue::Messages;
use super::request::{Reply, Request};
use super::{Booking, Entry, VaultStore};
use crate::store::StoreError;
use crate::store::record::Record;
use crate::store::vault::{Loaded, Reading, Swap, Value, Vault, Waiting, Write};
use crate::time::{SECOND, Time};

/// The nanoseconds, besides those that a key may matter, for which the limits of keys are on record.
const CLAIM: u64 = 10 * SECOND;

/// A change of the record of a key.
struct Change<'a, T> {
    key: &'a [u8],
    /// What another process may decide on.
    request: Option<&'a Request>,
    /// It queues before it is decided.
    queues: bool,
    /// The state's own record may be an old one.
    may_lag: bool,
    state: State<T>,
}

/// How far it has got.
enum State<T> {
    /// Its record is to be loaded.
    New,
    Loaded(Loaded),
    /// Its request waits.
    Queued(Box<Draft<T>>),
    Done(T, Reading),
}

/// What is to be written.
struct Draft<T> {
    key: Value,
    old: Option<Value>,
    new: Value,
    /// The record that `new` is; `None` if the request only queues.
    record: Option<Record>,
    idle: Time,
    /// When it was loaded.
    reading: Reading,
    messages: Messages,
    /// The state's own value, unless this is it.
    own: Option<Value>,
    /// What is done once it is written; `None` if it is to be decided again then.
    done: Option<T>,
}

/// What is to be done with a record that was loaded.
enum Step<T> {
    Write(Box<Draft<T>>),
    Reload,
    /// The state's own record may be an old one.
    Lagging,
    /// Nothing is to be written.
    Done(T, Reading),
}

impl<T> Draft<T> {
    fn write(&self) -> Write<'_> {
        let Draft { key, old, new, idle, reading, messages, .. } = self;
        Write {
            key,
            old: old.as_deref(),
            decided: reading.shown,
            value: new,
            idle: *idle,
            request: messages.request.as_deref(),
            replies: &messages.replies,
        }
    }

    /// A newer value, with the state's own one before it, as a load of both has it.
    fn with_own(&mut self, mut newer: Loaded) -> Loaded {
        if !self.key.is_empty() {
            newer.values.insert(0, self.own.take());
        }
        newer
    }

    /// It waits for its turn.
    fn queued(self) -> Self {
        let messages = Messages { replies: Vec::new(), ..self.messages };
        Draft { new: Value::new(), record: None, done: None, messages, ..self }
    }
}

impl<V: Vault> VaultStore<V> {
    /// Changes the record of `key` by `act`, which is called again if another process was faster. Also returns the
    /// clock as of then.
    pub(in crate::store) fn update<T>(
        &mut self,
        key: &[u8],
        mut act: impl FnMut(&mut Booking<'_>) -> T,
    ) -> Result<(T, Reading), StoreError> {
        let alone = || Messages { request: Some(Value::new()), replies: Vec::new() };
        let done = self.swap_each(&[(key, None)], |_, booking, _| (act(booking), alone()), |_| None)?;
        Ok(done.into_iter().next().expect("one for each"))
    }

    /// Changes the records of these keys by `act`, which gets the number of the key and is also told of the requests
    /// that wait, or takes what another process has replied to a request.
    pub(super) fn swap_each<T>(
        &mut self,
        wanted: &[(&[u8], Option<&Request>)],
        act: impl FnMut(usize, &mut Booking<'_>, &[Waiting]) -> (T, Messages),
        replied: impl Fn(Reply) -> Option<T>,
    ) -> Result<Vec<(T, Reading)>, StoreError> {
        let change = |&(key, request): &(_, Option<_>)| {
            let queues = request.is_some() && self.vault.is_contended(key);
            Change { key, request, queues, may_lag: true, state: State::New }
        };
        let mut changes: Vec<_> = wanted.iter().map(change).collect();
        let done = self.go_on(&mut changes, act, replied);
        if done.is_err() {
            self.vault.release();
        }
        done?;
        let done = changes.into_iter().filter_map(|change| match change.state {
            State::Done(done, reading) => Some((done, reading)),
            _ => None,
        });
        Ok(done.collect())
    }

    /// Goes on in rounds until all changes are made.
    fn go_on<T>(
        &mut self,
        changes: &mut [Change<'_, T>],
        mut act: impl FnMut(usize, &mut Booking<'_>, &[Waiting]) -> (T, Messages),
        replied: impl Fn(Reply) -> Option<T>,
    ) -> Result<(), StoreError> {
        let mut may_be_old = true;
        while changes.iter().any(|change| !matches!(change.state, State::Done(..))) {
            self.load_new(changes, mem::take(&mut may_be_old))?;
            let drafts = self.draft(changes, &mut act)?;
            let writes: Vec<_> = drafts.iter().map(|(_, draft)| draft.write()).collect();
            let swaps = if writes.is_empty() { Vec::new() } else { self.vault.swap_each(&writes)? };
            for ((at, draft), swap) in drafts.into_iter().zip(swaps) {
                changes[at].state = self.swapped(&changes[at], *draft, swap, &replied)?;
                if matches!(changes[at].state, State::New) {
                    self.vault.release();
                }
            }
        }
        Ok(())
    }

    /// Loads the records that are missing.
    fn load_new<T>(&mut self, changes: &mut [Change<'_, T>], may_be_old: bool) -> Result<(), StoreError> {
        let new = |change: &&mut Change<'_, T>| matches!(change.state, State::New);
        let new: Vec<_> = changes.iter_mut().filter(new).collect();
        let keys: Vec<_> = new.iter().map(|change| [&b""[..], change.key]).collect();
        let keys: Vec<_> = keys.iter().map(|keys| &keys[usize::from(keys[1].is_empty())..]).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let loaded = self.vault.load_each(&keys, may_be_old)?;
        new.into_iter().zip(loaded).for_each(|(change, loaded)| change.state = State::Loaded(loaded));
        Ok(())
    }

    /// What is to be written next, and by which change. Ends with what is to be written to the state's own record, as
    /// that may matter to the others.
    fn draft<T>(
        &mut self,
        changes: &mut [Change<'_, T>],
        act: &mut impl FnMut(usize, &mut Booking<'_>, &[Waiting]) -> (T, Messages),
    ) -> Result<Vec<(usize, Box<Draft<T>>)>, StoreError> {
        let (mut drafts, mut is_about_own) = (Vec::new(), false);
        for (at, change) in changes.iter_mut().enumerate() {
            let step = match mem::replace(&mut change.state, State::New) {
                State::Loaded(_) if is_about_own => Step::Reload,
                State::Loaded(loaded) => match change.request.filter(|_| mem::take(&mut change.queues)) {
                    Some(request) => Step::Write(self.queue(change.key, loaded, request).into()),
                    None => self.decide(change.key, loaded, change.may_lag, &mut |booking, waiting| {
                        act(at, booking, waiting)
                    })?,
                },
                State::Queued(draft) => Step::Write(draft),
                State::Done(done, reading) => {
                    change.state = State::Done(done, reading);
                    continue;
                }
                State::New => Step::Reload,
            };
            match step {
                Step::Write(draft) => {
                    is_about_own |= draft.key.is_empty() && !change.key.is_empty();
                    drafts.push((at, draft));
                }
                Step::Done(done, reading) => change.state = State::Done(done, reading),
                Step::Reload => self.vault.release(),
                Step::Lagging => {
                    change.may_lag = false;
                    self.vault.release();
                    self.vault.load(&[b""], false)?;
                    self.vault.release();
                }
            }
        }
        Ok(drafts)
    }

    /// Decides on a change of the record that was loaded.
    fn decide<T>(
        &mut self,
        key: &[u8],
        loaded: Loaded,
        may_lag: bool,
        act: &mut impl FnMut(&mut Booking<'_>, &[Waiting]) -> (T, Messages),
    ) -> Result<Step<T>, StoreError> {
        let Loaded { values, reading, suspicion, is_old, waiting } = loaded;
        let is_awaited = waiting.is_some();
        let (now, mut values, waiting) = (reading.shown, values.into_iter(), waiting.unwrap_or_default());
        let suspicion = suspicion.or(self.doubt.take());
        let mut own = self.entry(b"", values.next().flatten(), &reading, suspicion, None)?;
        let held = own.record.hold.in_force(now);
        if key.is_empty() {
            let done = act(&mut self.booking(&mut own.record, &reading, held), &waiting);
            let idle = self.rules.idle_at(&own.record.ledger).max(own.record.hold.until);
            own.record.idle = own.record.idle.max(idle);
            if self.rules.policy().key().is_some() {
                self.keep_on_record(&mut own.record, now);
            }
            return Ok(self.write(own, None, (reading, is_old, is_awaited), done));
        }
        self.keep_on_record(&mut own.record, now);
        let value = values.next().flatten();
        if own.is_changed() || value.is_none() && self.evicts(&mut own.record, now)? {
            return Ok(Step::Write(write_own(own, reading).into()));
        }
        self.remember(b"", &own.record, now);
        let suspicion = suspicion.filter(|suspicion| suspicion.good_from.is_some());
        let mut entry = self.entry(key, value, &reading, suspicion, Some(&own.record))?;
        if may_lag && entry.is_ahead_of(&own.record) {
            return Ok(Step::Lagging);
        }
        let done = act(&mut self.booking(&mut entry.record, &reading, held), &waiting);
        entry.record.idle = self.rules.idle_at(&entry.record.ledger);
        if entry.record.idle > own.record.idle {
            // Otherwise nobody would know any more that the key is used.
            own.record.idle = entry.record.idle.saturating_add(CLAIM);
            return Ok(Step::Write(write_own(own, reading).into()));
        }
        Ok(self.write(entry, own.value, (reading, is_old, is_awaited), done))
    }

    /// Swaps the value that was found for the record, if they differ or others wait. `own` is the state's own value, if
    /// it is not this one.
    fn write<T>(
        &mut self,
        entry: Entry<'_>,
        own: Option<Value>,
        (reading, is_old, is_awaited): (Reading, bool, bool),
        (done, messages): (T, Messages),
    ) -> Step<T> {
        if entry.is_changed() || is_awaited || self.vault.has_turn(entry.key) {
            let draft = entry.draft(reading, messages);
            return Step::Write(Draft { own, done: Some(done), ..draft }.into());
        }
        if is_old {
            return Step::Reload;
        }
        self.remember(entry.key, &entry.record, reading.shown);
        self.vault.release();
        Step::Done(done, reading)
    }

    /// How far a change is whose draft was written.
    fn swapped<T>(
        &mut self,
        change: &Change<'_, T>,
        mut draft: Draft<T>,
        swap: Swap,
        replied: &impl Fn(Reply) -> Option<T>,
    ) -> Result<State<T>, StoreError> {
        if draft.key != change.key {
            // Whether or not another process was faster, the state's own record is another one now.
            if let (Swap::Done(reading), Some(record)) = (swap, &draft.record)
                && !self.is_ahead(record.ledger.newest, record, reading.shown)
            {
                self.remember(&draft.key, record, reading.shown);
            }
            return Ok(State::New);
        }
        Ok(match swap {
            Swap::Done(reading) => match draft.record.zip(draft.done) {
                // The clock was set back meanwhile. The next attempt finds it out.
                Some((record, _)) if self.is_ahead(record.ledger.newest, &record, reading.shown) => {
                    State::New
                }
                Some((record, done)) => {
                    self.remember(change.key, &record, reading.shown);
                    State::Done(done, reading)
                }
                None => State::New,
            },
            Swap::Refused(newer) => State::Loaded(draft.with_own(newer)),
            Swap::Replied(wire, newer) => {
                let newer = draft.with_own(newer);
                match self.reply_to(change.request, change.key, &wire, &newer)?.and_then(replied) {
                    Some(done) => State::Done(done, newer.reading),
                    None => State::Loaded(newer),
                }
            }
            Swap::Queued => State::Queued(draft.queued().into()),
        })
    }

    /// Lets others decide, or waits for the turn to do so.
    fn queue<T>(&self, key: &[u8], mut loaded: Loaded, request: &Request) -> Draft<T> {
        let wire = request.encode(self.agreement.changes, &self.rules.policy().text, &loaded.reading);
        Draft {
            key: key.to_owned(),
            old: None,
            new: Value::new(),
            record: None,
            idle: Time::ZERO,
            reading: loaded.reading,
            messages: Messages { request: Some(wire), replies: Vec::new() },
            own: loaded.values.swap_remove(0),
            done: None,
        }
    }

    /// Keeps the limits of keys on record for as long as a key may matter.
    fn keep_on_record(&self, own: &mut Record, now: Time) {
        let matters = self.rules.end_of_quarantine(now.saturating_add(self.agreement.horizon)).since(now);
        let claim = matters.saturating_add(CLAIM);
        let until = now.saturating_add(claim);
        if own.idle.since(now) < claim / 2 || own.idle < own.hold.until {
            own.idle = until.max(own.hold.until.saturating_add(claim));
        }
    }
}

/// Writes the state's own record before that of a key, which is decided again then.
fn write_own<T>(own: Entry<'_>, reading: Reading) -> Draft<T> {
    own.draft(reading, Messages::default())
}

impl Entry<'_> {
    fn draft<T>(self, reading: Reading, messages: Messages) -> Draft<T> {
        let Entry { key, value, mut record, .. } = self;
        Draft {
            key: key.to_owned(),
            old: value,
            new: record.encode(key, reading.shown),
            idle: record.idle,
            record: Some(record),
            reading,
            messages,
            own: None,
            done: None,
        }
    }
}
