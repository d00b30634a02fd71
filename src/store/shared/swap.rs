//! Swaps the records of keys for others, several at once.
//!
//! Each change is decided on a record that was loaded, and written if the record is still the same. If another process
//! was faster, it is decided again, on the newer record. All changes go forward together, in rounds, so that a vault
//! that is far away is asked a few times, however many there are.

use std::mem;

use super::request::{Part, Reply, encode};
use super::returnable::BookedIn;
use super::{Booking, RecordEntry, VaultStore};
use crate::store::record::Record;
use crate::store::vault::{Loaded, Reading, Suspicion, Swap, Value, Waiting, Write};
use crate::store::{Answer, StoreError};
use crate::time::{SECOND, Time};

/// The nanoseconds, besides those that a key may matter, for which the limits of keys are on record.
const CLAIM: u64 = 10 * SECOND;

/// What is to be done with a record.
pub(super) enum Work<'a> {
    /// This is requested of it; another process may decide on it.
    Request(&'a [Part]),
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
    /// This is to be written; again, if its request waits.
    Prepared(Box<PreparedWrite>),
    Done(Reading),
}

/// What is to be written.
struct PreparedWrite {
    write: Write,
    /// The record that is written; `None` if the request only queues.
    record: Option<Record>,
}

impl<'a> RecordChange<'a> {
    fn new(key: &'a [u8], work: Work<'a>, queues: bool) -> Self {
        RecordChange { key, work, reply: None, queues, may_lag: true, suspicion: None, phase: Phase::New }
    }

    /// Books in the record. Returns what is written with it: the encoded request, and the replies to those of others.
    /// Called again if another process was faster: then what was done before is void.
    fn act(&mut self, booking: &mut Booking<'_>, waiting: &[Waiting]) -> (Value, Vec<Waiting>) {
        match &mut self.work {
            Work::Request(parts) => {
                let wire = encode(parts, booking.changes, &booking.record.limits, booking.reading);
                let (reply, replies) = booking.decide(parts, waiting);
                self.reply = Some(reply);
                (wire, replies)
            }
            Work::Update(update) => {
                update(booking);
                Default::default()
            }
        }
    }

    /// Keeps a suspicion, but for one of all that was kept before: the next record is none of that.
    fn suspect(&mut self, suspicion: Option<Suspicion>) {
        let suspicion = suspicion.filter(|suspicion| suspicion.good_from.is_some());
        self.suspicion = self.suspicion.into_iter().chain(suspicion).max_by_key(|known| known.good_from);
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

    /// Does what is requested, or lets other processes do it. Parts for the same key stand side by side. Returns for
    /// each what its slots are booked in, the answer, and the clock as of then.
    pub(super) fn request(&mut self, parts: &[Part]) -> Result<Vec<(BookedIn, Answer, Reading)>, StoreError> {
        let of_keys = parts.chunk_by(|one, next| one.order.key == next.order.key);
        let keyed = of_keys.map(|parts| (&*parts[0].order.key, Work::Request(parts)));
        let mut changes: Vec<_> =
            keyed.map(|(key, work)| RecordChange::new(key, work, self.vault.is_contended(key))).collect();
        self.make(&mut changes)?;
        let done = |change: RecordChange| match (change.reply, change.phase) {
            (Some(Reply { booked_in, answers, .. }), Phase::Done(reading)) => {
                answers.into_iter().map(move |answer| (booked_in, answer, reading))
            }
            _ => unreachable!("each was decided on"),
        };
        Ok(changes.into_iter().flat_map(done).collect())
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
            let writes: Vec<_> = drafts.iter().map(|(_, draft)| &draft.write).collect();
            let swaps = if writes.is_empty() { Vec::new() } else { self.vault.swap_each(&writes)? };
            assert_eq!(swaps.len(), drafts.len(), "each was swapped");
            let mut own = None;
            for ((change, draft), swap) in drafts.into_iter().zip(swaps) {
                if draft.write.key.is_empty() {
                    own = own_after(&draft, &swap).or(own);
                }
                change.phase = self.swapped(change, draft, swap)?;
                if matches!(change.phase, Phase::New) {
                    self.vault.release();
                }
            }
            self.own = own.or(self.own.take());
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
        if let Some(loaded) = loaded.iter().find(|loaded| loaded.values.len() > 1) {
            self.own.clone_from(&loaded.values[0]);
        }
        new.into_iter().zip(loaded).for_each(|(change, loaded)| change.phase = Phase::Loaded(loaded));
        Ok(())
    }

    /// Decides on what was loaded. Returns the changes that are to be written next, up to the first of the state's own
    /// record, as that may matter to the others.
    fn draft<'c, 'a>(
        &mut self,
        changes: &'c mut [RecordChange<'a>],
    ) -> Result<Vec<(&'c mut RecordChange<'a>, Box<PreparedWrite>)>, StoreError> {
        let (mut drafts, mut is_about_own) = (Vec::new(), false);
        for change in changes {
            let phase = match mem::replace(&mut change.phase, Phase::New) {
                Phase::Loaded(loaded) if !is_about_own => self.decide(change, loaded)?,
                phase => phase,
            };
            if let Phase::Prepared(draft) = phase {
                is_about_own |= draft.write.key.is_empty();
                drafts.push((change, draft));
            } else {
                change.phase = phase;
            }
        }
        Ok(drafts)
    }

    /// Decides on a change of the record that was loaded.
    fn decide(&mut self, change: &mut RecordChange<'_>, loaded: Loaded) -> Result<Phase, StoreError> {
        change.suspect(loaded.suspicion);
        if mem::take(&mut change.queues)
            && let Work::Request(parts) = change.work
        {
            return Ok(self.queue(change.key, &loaded.reading, parts));
        }
        let RecordChange { key, may_lag, suspicion: kept, .. } = *change;
        let Loaded { mut values, reading, suspicion, is_old, waiting } = loaded;
        let is_awaited = waiting.is_some();
        let (now, value, waiting) = (reading.shown, values.pop().flatten(), waiting.unwrap_or_default());
        let suspicion = suspicion.or(kept).or(self.doubt.take());
        let (own, value) = if key.is_empty() { (value, None) } else { (self.own.clone(), value) };
        let mut own = self.entry(b"", own, &reading, suspicion, None)?;
        let held = own.record.hold.in_force(now);
        if key.is_empty() {
            let messages = change.act(&mut self.booking(&mut own.record, &reading, held), &waiting);
            let idle = self.rules.idle_at(&own.record.ledger).max(own.record.hold.until);
            own.record.idle = own.record.idle.max(idle);
            if self.rules.policy().key().is_some() {
                self.keep_on_record(&mut own.record, now);
            }
            return Ok(self.write(own, (reading, is_old, is_awaited), messages));
        }
        self.keep_on_record(&mut own.record, now);
        if own.is_changed() || value.is_none() && self.evicts(&mut own.record, now)? {
            // The key is decided again then.
            return Ok(own.draft(now, None, Vec::new()));
        }
        self.remember(b"", &own.record, now);
        let suspicion = suspicion.filter(|suspicion| suspicion.good_from.is_some());
        let mut entry = self.entry(key, value, &reading, suspicion, Some(&own.record))?;
        if may_lag && entry.is_ahead_of(&own.record) {
            // The state's own record may be an old one.
            change.may_lag = false;
            self.vault.release();
            change.suspect(self.vault.look(&[b""])?.suspicion);
            return Ok(Phase::New);
        }
        let messages = change.act(&mut self.booking(&mut entry.record, &reading, held), &waiting);
        entry.record.idle = self.rules.idle_at(&entry.record.ledger);
        if entry.record.idle > own.record.idle {
            // Otherwise nobody would know any more that the key is used.
            own.record.idle = entry.record.idle.saturating_add(CLAIM);
            return Ok(own.draft(now, None, Vec::new()));
        }
        Ok(self.write(entry, (reading, is_old, is_awaited), messages))
    }

    /// Swaps the value that was found for the record, if they differ or others wait.
    fn write(
        &mut self,
        entry: RecordEntry<'_>,
        (reading, is_old, is_awaited): (Reading, bool, bool),
        (request, replies): (Value, Vec<Waiting>),
    ) -> Phase {
        if entry.is_changed() || is_awaited || self.vault.has_turn(entry.key) {
            return entry.draft(reading.shown, Some(request), replies);
        }
        if !is_old {
            self.remember(entry.key, &entry.record, reading.shown);
        }
        self.vault.release();
        if is_old { Phase::New } else { Phase::Done(reading) }
    }

    /// How far a change is whose draft was written.
    fn swapped(
        &mut self,
        change: &mut RecordChange<'_>,
        mut draft: Box<PreparedWrite>,
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
                    self.remember(&draft.write.key, &record, reading.shown);
                    if draft.write.key == change.key { Phase::Done(reading) } else { Phase::New }
                }
                _ => Phase::New,
            },
            // The state's own record is another one now.
            _ if draft.write.key != change.key => Phase::New,
            Swap::Refused(newer) => Phase::Loaded(newer),
            Swap::Replied(wire, newer) => {
                change.reply = self.reply_to(&change.work, change.key, &wire, &newer)?;
                if change.reply.is_some() { Phase::Done(newer.reading) } else { Phase::Loaded(newer) }
            }
            Swap::Queued(_) => {
                // It waits for its turn.
                (draft.write.value, draft.write.replies, draft.record) = Default::default();
                Phase::Prepared(draft)
            }
        })
    }

    /// Lets others decide, or waits for the turn to do so.
    fn queue(&self, key: &[u8], reading: &Reading, parts: &[Part]) -> Phase {
        let wire = encode(parts, self.agreement.changes, &self.rules.policy().text, reading);
        let (key, decided) = (key.to_owned(), reading.shown);
        let write = Write { key, decided, request: Some(wire), ..Write::default() };
        Phase::Prepared(Box::new(PreparedWrite { write, record: None }))
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
        Swap::Done(_) => Some(draft.write.value.clone()).filter(|new| !new.is_empty()),
        Swap::Refused(newer) | Swap::Replied(_, newer) => newer.values.last()?.clone(),
        Swap::Queued(_) => None,
    }
}

impl RecordEntry<'_> {
    /// What is to be written, as decided at `now`, with these messages to others.
    fn draft(self, now: Time, request: Option<Value>, replies: Vec<Waiting>) -> Phase {
        let RecordEntry { key, value: old, mut record, .. } = self;
        let value = record.encode(key, now);
        let (key, idle) = (key.to_owned(), record.idle);
        let write = Write { key, old, decided: now, value, idle, request, replies };
        Phase::Prepared(Box::new(PreparedWrite { write, record: Some(record) }))
    }
}
