//! Swaps the records of keys for others, several at once.
//!
//! Each change is decided on a record that was loaded, and written if the record is still the same. If another process
//! was faster, it is decided again, on the newer record. All changes go forward together, in rounds, so that a vault
//! that is far away is asked a few times, however many there are.

use std::mem;

use super::request::{BookingRequest, Reply};
use super::{Booking, RecordEntry, VaultStore};
use crate::store::StoreError;
use crate::store::record::Record;
use crate::store::vault::{Loaded, Reading, Suspicion, Swap, Value, Waiting, Write};
use crate::time::{SECOND, Time};

/// The nanoseconds, besides those that a key may matter, for which the limits of keys are on record.
const CLAIM: u64 = 10 * SECOND;

/// What is written with a record: the encoded request to others, and the replies to theirs.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) request: Option<Value>,
    pub(super) replies: Vec<Waiting>,
}

/// What is to be done with a record.
pub(super) enum Work<'a> {
    /// This is requested of it; another process may decide on it.
    Request(&'a BookingRequest),
    /// This process alone changes it.
    Update(&'a mut dyn FnMut(&mut Booking<'_>)),
}

/// A change of the record of a key.
struct RecordChange<'a> {
    key: &'a [u8],
    work: Work<'a>,
    /// What was decided on a request.
    reply: Option<Reply>,
    /// It queues before it is decided.
    queues: bool,
    /// The state's own record may be an old one.
    may_lag: bool,
    /// It holds for all that is loaded until the change is made, as the vault may tell it only once.
    suspicion: Option<Suspicion>,
    phase: Phase,
}

/// How far it has got.
enum Phase {
    /// Its record is to be loaded.
    New,
    Loaded(Loaded),
    /// Its request waits.
    Queued(Box<PreparedWrite>),
    Done(Reading),
}

/// What is to be written.
struct PreparedWrite {
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
}

/// What is to be done with a record that was loaded.
enum Decision {
    Write(Box<PreparedWrite>),
    Reload,
    /// The state's own record may be an old one.
    Lagging,
    /// Nothing is to be written.
    Done(Reading),
}

impl<'a> RecordChange<'a> {
    fn new(key: &'a [u8], work: Work<'a>, queues: bool) -> Self {
        RecordChange { key, work, reply: None, queues, may_lag: true, suspicion: None, phase: Phase::New }
    }

    /// Books in the record, and tells what is to be written with it. Called again if another process was faster: then
    /// what was done before is void.
    fn act(&mut self, booking: &mut Booking<'_>, waiting: &[Waiting]) -> Messages {
        match &mut self.work {
            Work::Request(request) => {
                let (reply, messages) = booking.decide_for_all(request, waiting);
                self.reply = Some(reply);
                messages
            }
            Work::Update(update) => {
                update(booking);
                Messages { request: Some(Value::new()), replies: Vec::new() }
            }
        }
    }

    /// Keeps a suspicion, but for one of all that was kept before: the next record is none of that.
    fn suspect(&mut self, suspicion: Option<Suspicion>) {
        let suspicion = suspicion.filter(|suspicion| suspicion.good_from.is_some());
        self.suspicion = self.suspicion.into_iter().chain(suspicion).max_by_key(|known| known.good_from);
    }

    /// What is decided next is by this value of the state's own, which was written or found since.
    fn set_own(&mut self, own: &Value) {
        match &mut self.phase {
            Phase::Loaded(loaded) if !self.key.is_empty() => loaded.values[0] = Some(own.clone()),
            Phase::Queued(draft) => draft.own = Some(own.clone()),
            _ => {}
        }
    }
}

impl PreparedWrite {
    fn write(&self) -> Write<'_> {
        let PreparedWrite { key, old, new, idle, reading, messages, .. } = self;
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
        PreparedWrite { new: Value::new(), record: None, messages, ..self }
    }
}

impl VaultStore {
    /// Changes the record of `key` by `update`, which is called again if another process was faster.
    pub(in crate::store) fn update(
        &mut self,
        key: &[u8],
        mut update: impl FnMut(&mut Booking<'_>),
    ) -> Result<(), StoreError> {
        self.make(&mut [RecordChange::new(key, Work::Update(&mut update), false)])
    }

    /// Does what is requested, each for a key of its own, or lets other processes do it. Also returns the clock as of
    /// then.
    pub(super) fn request_each(
        &mut self,
        requests: &[BookingRequest],
    ) -> Result<Vec<(Reply, Reading)>, StoreError> {
        let keyed = requests.iter().map(|request| (request.key(), Work::Request(request)));
        let mut changes: Vec<_> =
            keyed.map(|(key, work)| RecordChange::new(key, work, self.vault.is_contended(key))).collect();
        self.make(&mut changes)?;
        let done = |change: RecordChange| match (change.reply, change.phase) {
            (Some(reply), Phase::Done(reading)) => (reply, reading),
            _ => unreachable!("each was decided on"),
        };
        Ok(changes.into_iter().map(done).collect())
    }

    /// Makes all changes.
    fn make(&mut self, changes: &mut [RecordChange<'_>]) -> Result<(), StoreError> {
        let made = self.go_on(changes);
        if made.is_err() {
            self.vault.release();
        }
        made
    }

    /// Goes on in rounds until all changes are made.
    fn go_on(&mut self, changes: &mut [RecordChange<'_>]) -> Result<(), StoreError> {
        let mut may_be_old = true;
        while changes.iter().any(|change| !matches!(change.phase, Phase::Done(_))) {
            self.load_new(changes, mem::take(&mut may_be_old))?;
            let drafts = self.draft(changes)?;
            let writes: Vec<_> = drafts.iter().map(|(_, draft)| draft.write()).collect();
            let swaps = if writes.is_empty() { Vec::new() } else { self.vault.swap_each(&writes)? };
            assert_eq!(swaps.len(), drafts.len(), "each was swapped");
            let mut own = None;
            for ((at, draft), swap) in drafts.into_iter().zip(swaps) {
                if draft.key.is_empty() {
                    own = own_after(&draft, &swap).or(own);
                }
                changes[at].phase = self.swapped(&mut changes[at], *draft, swap)?;
                if matches!(changes[at].phase, Phase::New) {
                    self.vault.release();
                }
            }
            own.into_iter().for_each(|own| changes.iter_mut().for_each(|change| change.set_own(&own)));
        }
        Ok(())
    }

    /// Loads the records that are missing.
    fn load_new(&mut self, changes: &mut [RecordChange<'_>], may_be_old: bool) -> Result<(), StoreError> {
        let new = |change: &&mut RecordChange<'_>| matches!(change.phase, Phase::New);
        let new: Vec<_> = changes.iter_mut().filter(new).collect();
        let keys: Vec<_> = new.iter().map(|change| [&b""[..], change.key]).collect();
        let keys: Vec<_> = keys.iter().map(|keys| &keys[usize::from(keys[1].is_empty())..]).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let loaded = self.vault.load_each(&keys, may_be_old)?;
        assert_eq!(loaded.len(), new.len(), "each was loaded");
        let own =
            loaded.iter().find(|loaded| loaded.values.len() > 1).and_then(|loaded| loaded.values[0].clone());
        new.into_iter().zip(loaded).for_each(|(change, loaded)| change.phase = Phase::Loaded(loaded));
        own.into_iter().for_each(|own| changes.iter_mut().for_each(|change| change.set_own(&own)));
        Ok(())
    }

    /// What is to be written next, and by which change. Ends with what is to be written to the state's own record, as
    /// that may matter to the others.
    fn draft(
        &mut self,
        changes: &mut [RecordChange<'_>],
    ) -> Result<Vec<(usize, Box<PreparedWrite>)>, StoreError> {
        let (mut drafts, mut is_about_own) = (Vec::new(), false);
        for (at, change) in changes.iter_mut().enumerate() {
            let step = match mem::replace(&mut change.phase, Phase::New) {
                Phase::Loaded(loaded) if !is_about_own => {
                    let suspicion = loaded.suspicion;
                    change.suspect(suspicion);
                    let loaded = Loaded { suspicion: suspicion.or(change.suspicion), ..loaded };
                    match &change.work {
                        Work::Request(request) if mem::take(&mut change.queues) => {
                            Decision::Write(self.queue(change.key, loaded, request).into())
                        }
                        _ => self.decide(change, loaded)?,
                    }
                }
                Phase::Queued(draft) => Decision::Write(draft),
                state => {
                    change.phase = state;
                    continue;
                }
            };
            match step {
                Decision::Write(draft) => {
                    is_about_own |= draft.key.is_empty();
                    drafts.push((at, draft));
                }
                Decision::Done(reading) => change.phase = Phase::Done(reading),
                Decision::Reload => self.vault.release(),
                Decision::Lagging => {
                    change.may_lag = false;
                    self.vault.release();
                    let own = self.vault.load(&[b""], false);
                    self.vault.release();
                    change.suspect(own?.suspicion);
                }
            }
        }
        Ok(drafts)
    }

    /// Decides on a change of the record that was loaded.
    fn decide(&mut self, change: &mut RecordChange<'_>, loaded: Loaded) -> Result<Decision, StoreError> {
        let RecordChange { key, may_lag, .. } = *change;
        let Loaded { values, reading, suspicion, is_old, waiting } = loaded;
        let is_awaited = waiting.is_some();
        let (now, mut values, waiting) = (reading.shown, values.into_iter(), waiting.unwrap_or_default());
        let suspicion = suspicion.or(self.doubt.take());
        let mut own = self.entry(b"", values.next().flatten(), &reading, suspicion, None)?;
        let held = own.record.hold.in_force(now);
        if key.is_empty() {
            let messages = change.act(&mut self.booking(&mut own.record, &reading, held), &waiting);
            let idle = self.rules.idle_at(&own.record.ledger).max(own.record.hold.until);
            own.record.idle = own.record.idle.max(idle);
            if self.rules.policy().key().is_some() {
                self.keep_on_record(&mut own.record, now);
            }
            return Ok(self.write(own, None, (reading, is_old, is_awaited), messages));
        }
        self.keep_on_record(&mut own.record, now);
        let value = values.next().flatten();
        if own.is_changed() || value.is_none() && self.evicts(&mut own.record, now)? {
            return Ok(Decision::Write(write_own(own, reading).into()));
        }
        self.remember(b"", &own.record, now);
        let suspicion = suspicion.filter(|suspicion| suspicion.good_from.is_some());
        let mut entry = self.entry(key, value, &reading, suspicion, Some(&own.record))?;
        if may_lag && entry.is_ahead_of(&own.record) {
            return Ok(Decision::Lagging);
        }
        let messages = change.act(&mut self.booking(&mut entry.record, &reading, held), &waiting);
        entry.record.idle = self.rules.idle_at(&entry.record.ledger);
        if entry.record.idle > own.record.idle {
            // Otherwise nobody would know any more that the key is used.
            own.record.idle = entry.record.idle.saturating_add(CLAIM);
            return Ok(Decision::Write(write_own(own, reading).into()));
        }
        Ok(self.write(entry, own.value, (reading, is_old, is_awaited), messages))
    }

    /// Swaps the value that was found for the record, if they differ or others wait. `own` is the state's own value, if
    /// it is not this one.
    fn write(
        &mut self,
        entry: RecordEntry<'_>,
        own: Option<Value>,
        (reading, is_old, is_awaited): (Reading, bool, bool),
        messages: Messages,
    ) -> Decision {
        if entry.is_changed() || is_awaited || self.vault.has_turn(entry.key) {
            let draft = entry.draft(reading, messages);
            return Decision::Write(PreparedWrite { own, ..draft }.into());
        }
        if is_old {
            return Decision::Reload;
        }
        self.remember(entry.key, &entry.record, reading.shown);
        self.vault.release();
        Decision::Done(reading)
    }

    /// How far a change is whose draft was written.
    fn swapped(
        &mut self,
        change: &mut RecordChange<'_>,
        mut draft: PreparedWrite,
        swap: Swap,
    ) -> Result<Phase, StoreError> {
        if let Swap::Refused(Loaded { suspicion, .. })
        | Swap::Replied(_, Loaded { suspicion, .. })
        | Swap::Queued(suspicion) = &swap
        {
            change.suspect(*suspicion);
        }
        Ok(match swap {
            Swap::Done(reading) => match draft.record {
                // If the clock was set back meanwhile, the next attempt finds it out.
                Some(record) if !self.is_ahead(record.ledger.newest, &record, reading.shown) => {
                    self.remember(&draft.key, &record, reading.shown);
                    if draft.key == change.key { Phase::Done(reading) } else { Phase::New }
                }
                _ => Phase::New,
            },
            // The state's own record is another one now.
            _ if draft.key != change.key => Phase::New,
            Swap::Refused(newer) => Phase::Loaded(draft.with_own(newer)),
            Swap::Replied(wire, newer) => {
                let newer = draft.with_own(newer);
                change.reply = self.reply_to(&change.work, change.key, &wire, &newer)?;
                if change.reply.is_some() { Phase::Done(newer.reading) } else { Phase::Loaded(newer) }
            }
            Swap::Queued(_) => Phase::Queued(draft.queued().into()),
        })
    }

    /// Lets others decide, or waits for the turn to do so.
    fn queue(&self, key: &[u8], mut loaded: Loaded, request: &BookingRequest) -> PreparedWrite {
        let wire = request.encode(self.agreement.changes, &self.rules.policy().text, &loaded.reading);
        PreparedWrite {
            key: key.to_owned(),
            old: None,
            new: Value::new(),
            record: None,
            idle: Time::ZERO,
            reading: loaded.reading,
            messages: Messages { request: Some(wire), replies: Vec::new() },
            own: loaded.values.swap_remove(0),
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

/// The state's own value after a swap of it, if it is known.
fn own_after(draft: &PreparedWrite, swap: &Swap) -> Option<Value> {
    match swap {
        Swap::Done(_) => Some(draft.new.clone()).filter(|new| !new.is_empty()),
        Swap::Refused(newer) | Swap::Replied(_, newer) => newer.values.last()?.clone(),
        Swap::Queued(_) => None,
    }
}

/// Writes the state's own record before that of a key, which is decided again then.
fn write_own(own: RecordEntry<'_>, reading: Reading) -> PreparedWrite {
    own.draft(reading, Messages::default())
}

impl RecordEntry<'_> {
    fn draft(self, reading: Reading, messages: Messages) -> PreparedWrite {
        let RecordEntry { key, value, mut record, .. } = self;
        PreparedWrite {
            key: key.to_owned(),
            old: value,
            new: record.encode(key, reading.shown),
            idle: record.idle,
            record: Some(record),
            reading,
            messages,
            own: None,
        }
    }
}
