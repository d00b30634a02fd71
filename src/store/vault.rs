//! What a store has to do: keep a value under a key, and swap it for another.
//!
//! A vault decides nothing. It knows neither limits nor slots; what it keeps is made and read by
//! [`Record`](super::record::Record).

use std::any::Any;
use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{LockStatus, StoreError, Warn};
use crate::exit::Exit;
use crate::time::{SECOND, Time, Wall};

/// The most nanoseconds between two looks for a reply.
const REPLY_POLL: u64 = SECOND / 250;

/// The nanoseconds between two looks for a reply, if slots are good for `validity`.
pub(super) fn between_looks(validity: u64) -> u64 {
    REPLY_POLL.min(validity / 4)
}

/// A value under a key.
pub type Value = Vec<u8>;

/// Keeps values, each under a key, for all processes that use the same state. The empty key is the state's own.
///
/// It is [`Any`] so that tests of one kind can look into it within a store.
pub trait Vault: Any + Send {
    /// The values of these keys, and the instant at which they were read. Begins a swap of any of them. If they
    /// `may_be_old`, the vault may return what it has read before: a swap shows whether it still is so.
    ///
    /// # Errors
    /// There is no hope to read them.
    fn load(&mut self, keys: &[&[u8]], may_be_old: bool) -> Result<Loaded, StoreError>;

    /// Does as [`Vault::load`], but nothing is to be swapped.
    ///
    /// # Errors
    /// As there.
    fn look(&mut self, keys: &[&[u8]]) -> Result<Loaded, StoreError> {
        let loaded = self.load(keys, false);
        self.release();
        loaded
    }

    /// Replaces the value of a key if it still is the one that was loaded, and sends the replies. If others are about
    /// to do so, waits until it is the turn of this process, or until one of them has replied to its request.
    ///
    /// # Errors
    /// There is no hope to write it. Then it may have been replaced or not.
    fn swap(&mut self, write: &Write) -> Result<Swap, StoreError>;

    /// The number of values that are loaded and swapped together in about the time of one, as the way to them is what
    /// takes long.
    fn at_once(&self) -> usize {
        1
    }

    /// Does as [`Vault::load`] for each of these.
    ///
    /// # Errors
    /// As for one.
    fn load_each(&mut self, each: &[&[&[u8]]], may_be_old: bool) -> Result<Vec<Loaded>, StoreError> {
        each.iter().map(|keys| self.load(keys, may_be_old)).collect()
    }

    /// Does as [`Vault::swap`] for each of these, in any order; but as soon as one has come to something, those that
    /// still wait are [`Swap::Queued`].
    ///
    /// # Errors
    /// As for one.
    fn swap_each(&mut self, writes: &[&Write]) -> Result<Vec<Swap>, StoreError> {
        writes.iter().map(|write| self.swap(write)).collect()
    }

    /// True if others were about to swap the value of this key when this process did so last. Then it saves time to
    /// write an empty value, which only queues.
    fn is_contended(&self, _key: &[u8]) -> bool {
        false
    }

    /// True if it is the turn of this process to swap the value of this key: others wait until it does.
    fn has_turn(&self, _key: &[u8]) -> bool {
        false
    }

    /// Whether it may be asked again if it does not answer.
    fn retry(&mut self, _may_retry: bool) {}

    /// Slots were too late to be used, again and again, as an answer took this number of nanoseconds. `is_first`: some
    /// came in time since the last call. Waits before it is asked once more.
    ///
    /// # Errors
    /// There is no hope that answers get faster, or not any more.
    fn came_late(&mut self, _took: u64, _is_first: bool) -> Result<(), StoreError> {
        let why = "its answers take longer than slots are good for";
        Err(StoreError::new(Exit::StoreAway, self.name(), why))
    }

    /// Ends what [`Vault::load`] began, if nothing is to be swapped.
    fn release(&mut self) {}

    /// From now on, swaps may be put off until [`Vault::flush`].
    fn gather(&mut self) {}

    /// Makes the swaps that were put off.
    ///
    /// # Errors
    /// None of them was made.
    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// All keys.
    ///
    /// # Errors
    /// There is no hope to read them.
    fn keys(&mut self) -> Result<Vec<Vec<u8>>, StoreError>;

    /// Forgets everything. Returns whether there was anything.
    ///
    /// # Errors
    /// There is no hope to do so.
    fn forget(&mut self) -> Result<bool, StoreError>;

    /// Forgets the values of keys that are idle, unless the vault does so by itself. Returns the number that it kept.
    /// This takes time in proportion to the number of values.
    ///
    /// # Errors
    /// There is no hope to do so.
    fn evict(&mut self, _is_idle: &mut dyn FnMut(&[u8]) -> bool) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// The nanoseconds for which it keeps a value that is idle.
    fn keeps_for(&self) -> u64 {
        0
    }

    /// The nanoseconds for which the state's own value may have been replaced without anyone noticing who books for a
    /// key.
    fn lags_by(&self) -> u64 {
        0
    }

    /// Tells it D, and the nanoseconds for which a slot may matter.
    fn expect(&mut self, _validity: u64, _memory: u64) {}

    /// The part of D, in nanoseconds, for which slots are good: the rest is left for what is not known of its clock.
    fn good_for(&self, validity: u64) -> u64 {
        validity
    }

    /// Before a state begins: the least D, in nanoseconds, with which its answers come in time. If D is `given`, it has
    /// to be enough.
    ///
    /// # Errors
    /// There is no hope for an answer in time.
    fn least_validity(&mut self, _given: Option<u64>) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// The identity of its clock.
    fn origin(&self) -> Origin {
        Origin::default()
    }

    /// The number of times that its clock was found to have been set, if slots are by the wall clock of a server.
    fn times_set(&self) -> Option<u64> {
        None
    }

    /// What has happened if a record does not follow from what was seen of it.
    fn loss(&self) -> &'static str;

    /// True if a state can be looked at without delay.
    ///
    /// # Errors
    /// There is no hope to find out.
    fn is_at_hand(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// The process that keeps all others waiting.
    ///
    /// # Errors
    /// There is no hope to find out.
    fn lock(&mut self) -> Result<Option<LockStatus>, StoreError> {
        Ok(None)
    }

    /// Calls `warn` with the reason if something takes long.
    fn warn_of_waits_by(&mut self, _warn: Warn) {}

    /// Its name in messages.
    fn name(&self) -> Cow<'_, str>;

    /// How the user names it after `-s`; `None` if it has a user or password, which may not be on the command line.
    fn state(&self) -> Option<Cow<'_, str>> {
        Some(self.name())
    }
}

/// Values, and when they were read.
#[derive(Debug)]
pub struct Loaded {
    /// The values, in the order of the keys.
    pub values: Vec<Option<Value>>,
    /// The clock of the vault.
    pub reading: Reading,
    /// Why earlier values may be lost, or older than they look, although nothing in them shows it.
    pub suspicion: Option<Suspicion>,
    /// True if they may be old.
    pub is_old: bool,
    /// If it is the turn of this process, the requests of all that wait: they wait until something is written.
    pub waiting: Option<Vec<Waiting>>,
}

impl Loaded {
    /// Values that were read just then, while no one waits.
    pub fn new(values: Vec<Option<Value>>, reading: Reading, suspicion: Option<Suspicion>) -> Self {
        Loaded { values, reading, suspicion, is_old: false, waiting: None }
    }
}

/// A request of another process, or the reply to it, and its number.
pub type Waiting = (Value, Value);

/// What is to be written.
#[derive(Debug, Default)]
pub struct Write {
    /// Under which key.
    pub key: Value,
    /// The value that was loaded; `None` if there was none.
    pub old: Option<Value>,
    /// When that was, or later, by the clock of the vault: what it is decided by.
    pub decided: Time,
    /// The new value. If it is empty, the request only queues.
    pub value: Value,
    /// It may be forgotten from then on, by the clock of the vault.
    pub idle: Time,
    /// What this process wants, for others to decide on: words without tabs and line feeds. If it is empty, only this
    /// process can decide. `None` if it does not wait for its turn.
    pub request: Option<Value>,
    /// The replies to requests that were loaded.
    pub replies: Vec<Waiting>,
}

/// Why what was kept before may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspicion {
    /// In words.
    pub why: &'static str,
    /// Values written from this instant on, by the clock of the vault, are good. `None`: nothing is, of any key.
    pub good_from: Option<Time>,
}

/// The outcome of a swap.
#[derive(Debug)]
pub enum Swap {
    /// The value was replaced.
    Done(Reading),
    /// The value is another one by now: this one.
    Refused(Loaded),
    /// Another process has replied to the request. The value is what was written with the reply, or later.
    Replied(Value, Loaded),
    /// The request waits. To wait for it, an empty value is written once more. Also why earlier values may be lost.
    Queued(Option<Suspicion>),
}

/// What the clock of a vault showed at some instant between two of our own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The earlier one of ours.
    pub asked: Time,
    /// What it showed.
    pub shown: Time,
    /// The later one of ours.
    pub answered: Time,
    /// The calendar on the time line of the vault.
    pub wall: Wall,
}

impl Reading {
    /// A reading of our own clock.
    pub fn own(now: Time, wall: Wall) -> Self {
        Reading { asked: now, shown: now, answered: now, wall }
    }

    /// The nanoseconds that it took.
    pub fn took(&self) -> u64 {
        self.answered.since(self.asked)
    }

    /// What is known of it at `now`. It shows no later instant than the clock really does; otherwise, a slot that is
    /// free at once would be in the future for whoever asks next.
    pub fn later(self, now: Time) -> Self {
        let since = now.since(self.answered);
        let [asked, shown, answered] =
            [self.asked, self.shown, self.answered].map(|at| at.saturating_add(since));
        Reading { asked, shown, answered, ..self }
    }

    /// An instant of ours that is not before this one of the vault's.
    pub fn not_before(&self, at: Time) -> Time {
        moved(at, self.shown, self.answered)
    }

    /// An instant of ours that is not after this one of the vault's.
    pub fn not_after(&self, at: Time) -> Time {
        moved(at, self.shown, self.asked)
    }

    /// An instant of the vault's that is not before this one of ours.
    pub fn of_ours(&self, at: Time) -> Time {
        moved(at, self.asked, self.shown)
    }
}

/// The instant as far from `to` as `at` is from `from`. The end of time stays where it is.
fn moved(at: Time, from: Time, to: Time) -> Time {
    if at == Time::NEVER {
        at
    } else {
        Time::clamped(i128::from(at.0) - i128::from(from.0) + i128::from(to.0))
    }
}

/// The identity of a clock: instants since boot mean nothing after the next boot of the same machine. Empty for a clock
/// that never starts anew.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    /// Differs for each boot.
    pub boot: String,
    /// The time namespace, which shifts the clock; 0 where there are none.
    pub namespace: u64,
}

/// The time namespace of all processes that were not put into another one.
const INITIAL: u64 = 0xefff_fffa;

impl Origin {
    /// True if the clock counts from boot, so that nothing happened before 0.
    pub fn counts_from_boot(&self) -> bool {
        matches!(self.namespace, 0 | INITIAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request and its answer take random times. If it were ahead, what is free would not be for whoever asks next.
    #[test]
    fn a_reading_is_never_ahead_of_the_clock_and_maps_instants_to_the_safe_side() {
        const AHEAD: u64 = 7 * SECOND;
        for seed in 0..10_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut after = |at: u64| at + random.u64(0..10_000_000);
            let asked = after(0);
            let read = after(asked);
            let answered = after(read);
            let [now, any] = [after(answered), after(asked)];
            let [asked, answered, now] = [asked, answered, now].map(Time);
            let reading = Reading { asked, shown: Time(read + AHEAD), answered, wall: Wall::EPOCH };
            let later = reading.later(now);
            assert!(later.shown <= now.saturating_add(AHEAD), "seed {seed}");
            assert!(reading.shown <= later.shown && later.answered == now, "seed {seed}");
            for reading in [reading, later] {
                let theirs = Time(any + AHEAD);
                assert!(reading.not_after(theirs) <= Time(any), "seed {seed}");
                assert!(Time(any) <= reading.not_before(theirs), "seed {seed}");
            }
        }
    }
}
