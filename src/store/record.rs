//! What is kept under a key: a ledger, and what is needed to trust it.

use serde::{Deserialize, Serialize};

use super::Hold;
use super::flaw::Flaw;
use super::ledger::Ledger;
use super::vault::{Origin, Value};
use crate::rule::{pack, unpack};
use crate::time::{Time, Wall};

/// The version of the format.
const FORMAT: u32 = 5;

/// The number of past writes that a record knows.
const WRITES: usize = 16;

/// The length of what distinguishes a value from all others under its key: its checksum, and a random number.
pub const VERSION: usize = r#"{"sum":"01234567","history":{"mark":"0123456701234567""#.len();

/// A value as it is kept: JSON, for anyone who looks into it, with a checksum in front. Instants are nanoseconds on the
/// clock of the vault.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    history: History,
    format: u32,
    /// The limits in words.
    pub limits: String,
    /// Higher each time that the limits are replaced, also if the state before was idle and is gone: at least the
    /// instant of that.
    pub revision: u64,
    /// When that was done last.
    pub changed: Time,
    /// No slot was further ahead than this number of nanoseconds, under any of the limits.
    pub horizon: u64,
    /// In the state's own record, once its limits were replaced, those before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// For the record of a key, the [`epoch`](Record::epoch) of the state's own record when it was written.
    pub era: u64,
    /// The instant at which there was nothing yet. The state that this one replaced, if any, was gone by then.
    pub began: Time,
    /// If something was lost, the instant at which all limits count as used up.
    pub quarantine: Option<Time>,
    /// A hold of all keys.
    pub hold: Hold,
    /// The wall clock by which all slots are booked, if any are.
    pub wall: Wall,
    /// What it showed when the last of the keys that were evicted became idle.
    pub evicted: Time,
    /// The clock of all instants.
    pub origin: Origin,
    /// The instant from which this equals a record that was never used.
    pub idle: Time,
    /// The numbers.
    pub ledger: Ledger,
}

/// The limits of keys before they were replaced.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// In words.
    pub limits: String,
    /// What was to be taken of a key that had no record.
    pub missing: Ledger,
}

/// All writes that a state follows from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct History {
    /// The last write: a random number in hexadecimal, which ends in the last of the `marks`.
    mark: String,
    /// When it began, in nanoseconds; always later than any that its beginner knew.
    epoch: u64,
    /// The number of writes.
    writes: u64,
    /// The lower halves of the marks of the last of these, earliest first, as packed numbers.
    marks: String,
    /// When the last one was made.
    written: Time,
}

impl History {
    /// Adds a write.
    fn add(&mut self, now: Time) {
        let (mark, rest) = (fastrand::u32(..), fastrand::u32(..));
        let known = self.marks().count();
        let mut marks = String::new();
        let last = self.marks().skip((known + 1).saturating_sub(WRITES));
        last.chain([mark]).for_each(|mark| pack(&mut marks, mark.into()));
        (self.marks, self.mark) = (marks, format!("{rest:08x}{mark:08x}"));
        (self.writes, self.written) = (self.writes.saturating_add(1), now);
    }

    fn marks(&self) -> impl Iterator<Item = u32> {
        unpack(&self.marks).filter_map(|mark| mark.and_then(|mark| u32::try_from(mark).ok()))
    }
}

/// What a process remembers of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermark {
    /// The history that it was of.
    pub epoch: u64,
    writes: u64,
    mark: u32,
    /// The newest slot.
    pub newest: Time,
    /// When it was last seen, by the clock of the vault.
    pub at: Time,
    /// Until then, what it says matters.
    pub until: Time,
}

impl Record {
    /// A record that begins a history.
    pub fn new(limits: &str, origin: Origin, wall: Wall, now: Time, ledger: Ledger) -> Self {
        let history = History { epoch: now.0, ..History::default() };
        let limits = limits.to_owned();
        Record { history, format: FORMAT, limits, began: now, wall, origin, ledger, ..Record::default() }
    }

    /// Begins another history at `now`, which follows the one that was `seen`.
    pub fn begin_history(&mut self, now: Time, seen: Option<&Watermark>) {
        let known = seen.map_or(0, |seen| seen.epoch).max(self.history.epoch);
        let epoch = now.0.max(known.saturating_add(1));
        self.history = History { epoch, ..History::default() };
    }

    /// The history that it belongs to.
    pub fn epoch(&self) -> u64 {
        self.history.epoch
    }

    /// When it was written.
    pub fn written(&self) -> Time {
        self.history.written
    }

    /// The value to keep under `key`. Each call makes another one.
    ///
    /// # Panics
    /// Never: a record has string keys only.
    pub fn encode(&mut self, key: &[u8], now: Time) -> Value {
        self.history.add(now);
        let text = serde_json::to_string(self).expect("a record has string keys only");
        format!("{{\"sum\":\"{:08x}\",{}", sum(key, &text[1..]), &text[1..]).into_bytes()
    }

    /// Reads a value that is kept under `key`.
    ///
    /// # Errors
    /// It is not as it was written.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, Flaw> {
        let text = std::str::from_utf8(value).map_err(|_| Flaw::Damaged)?;
        let (sum_of, text) =
            text.strip_prefix("{\"sum\":\"").and_then(|text| text.split_once("\",")).ok_or(Flaw::Damaged)?;
        if u32::from_str_radix(sum_of, 16) != Ok(sum(key, text)) {
            return Err(Flaw::Damaged);
        }
        let text = format!("{{{text}");
        let record: Record = serde_json::from_str(&text).map_err(|_| flaw(&text))?;
        if record.format == FORMAT { Ok(record) } else { Err(Flaw::Format(record.format)) }
    }

    /// The instant from which a value is idle, and what the wall clock that it was written by shows then. It is not
    /// checked for damage.
    pub fn idle_from(value: &[u8]) -> Option<(Time, Time)> {
        #[derive(Deserialize)]
        struct Idle {
            idle: Time,
            wall: Wall,
        }
        let Idle { idle, wall } = serde_json::from_slice(value).ok()?;
        Some((idle, wall.shows(idle)))
    }

    /// What to remember of it.
    pub fn watermark(&self, now: Time, until: Time) -> Watermark {
        let History { epoch, writes, .. } = self.history;
        let mark = self.history.marks().last().unwrap_or(0);
        Watermark { epoch, writes, mark, newest: self.ledger.newest, at: now, until }
    }

    /// True if it is what was seen.
    pub fn is_just(&self, seen: &Watermark) -> bool {
        self.watermark(seen.at, seen.until) == *seen
    }

    /// True if its history began after that of what was seen.
    pub fn succeeds(&self, seen: &Watermark) -> bool {
        self.history.epoch > seen.epoch
    }

    /// True if it follows from what was seen: it is of the same history, has as many writes, and, as far as it knows
    /// them, the same. An older copy that was written to as often would not be found out.
    pub fn follows(&self, seen: &Watermark) -> bool {
        let Some(since) = self.history.writes.checked_sub(seen.writes).filter(|_| self.epoch() == seen.epoch)
        else {
            return false;
        };
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        let known: Vec<u32> = self.history.marks().collect();
        known.len().checked_sub(since.saturating_add(1)).is_none_or(|at| known[at] == seen.mark)
    }
}

/// The flaw of a value with the right checksum that cannot be read.
fn flaw(text: &str) -> Flaw {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let format = serde_json::from_str::<Format>(text).map(|head| head.format);
    format.ok().filter(|format| *format != FORMAT).map_or(Flaw::Damaged, Flaw::Format)
}

/// The checksum of a value. It depends on the key, so that values cannot be mistaken for each other.
fn sum(key: &[u8], text: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(text.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;
    use crate::rule::Ask;
    use crate::store::ledger::BookingRules;
    use crate::store::{Policy, Reserve};

    fn record() -> Record {
        Record::new("4/10s", Origin::default(), Wall::EPOCH, Time(5), Ledger::default())
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut record = record();
        let value = record.encode(b"key", Time(7));
        assert_eq!(Record::decode(b"key", &value), Ok(record.clone()));
        assert_eq!(Record::decode(b"other", &value), Err(Flaw::Damaged));
        assert!(value.starts_with(&value[..VERSION]) && value[VERSION - 1] == b'"' && value[VERSION] == b',');
        assert_ne!(record.encode(b"key", Time(7))[..VERSION], value[..VERSION]);
    }

    #[test]
    fn no_byte_is_changed_unnoticed() {
        let value = record().encode(b"", Time(7));
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1 << (at % 8);
            // The checksum may be written in capitals.
            let is_same =
                Record::decode(b"", &changed).is_ok_and(|read| Record::decode(b"", &value) == Ok(read));
            assert!(is_same || Record::decode(b"", &changed).is_err(), "{at}");
        }
    }

    /// Whatever the count: all windows full, with releases at instants of their own.
    #[test]
    fn a_value_is_small() {
        let table = [
            ("1M/h", 1_000_000, 6000),
            ("5000/h", 50_000, 5000),
            ("1000/h", 10_000, 8000),
            ("1000/d", 10_000, 9000),
            ("1M/d", 1_000_000, 6000),
        ];
        for (text, commits, most) in table {
            let rate: Rate = text.parse().unwrap();
            let policy = Policy::new(&[rate], Reserve::REMOTE);
            let (rules, terms) = (BookingRules::new(policy.clone()), policy.quotas[0].terms);
            let (limits, mut ledger) = (policy.rules(Wall::EPOCH), rules.begin(Time(0)));
            let (mut random, mut largest, mut at) = (fastrand::Rng::with_seed(1), 0, Time(1 << 60));
            for commit in 0..commits {
                at = at.saturating_add(random.u64(1..=2 * terms.period / terms.count));
                let ask = Ask { eligible_at: at, cost: 1 };
                limits[0].rule.expire(&mut ledger.accounts[0], at);
                limits[0].rule.commit(&mut ledger.accounts[0], at, ask);
                if commit % (commits / 20) == 0 || commit + 1 == commits {
                    ledger.newest = at;
                    let mut record =
                        Record::new(&policy.text, Origin::default(), Wall::EPOCH, at, ledger.clone());
                    (0..20).for_each(|_| record.history.add(at));
                    let value = record.encode(b"", at);
                    let kept = Record::decode(b"", &value).expect("a record");
                    let [was, is] =
                        [&record, &kept].map(|one| serde_json::to_string(&one.ledger).expect("JSON"));
                    assert!(kept == record || terms.count > 1024 && was == is);
                    largest = largest.max(value.len());
                }
            }
            println!("{text}: {largest} bytes");
            assert!(largest <= most, "{text}: {largest} bytes");
        }
    }

    #[test]
    fn another_format_is_named() {
        let mut record = Record { format: 7, ..record() };
        assert_eq!(Record::decode(b"", &record.encode(b"", Time(0))), Err(Flaw::Format(7)));
        let body = r#""history":0,"format":9,"other":1}"#;
        let value = format!("{{\"sum\":\"{:08x}\",{body}", sum(b"", body));
        assert_eq!(Record::decode(b"", value.as_bytes()), Err(Flaw::Format(9)));
    }

    /// Copies of a record are put back and written to, at random.
    #[test]
    fn an_older_copy_is_found_out_unless_too_much_was_written_to_it() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let mut current = record();
            let write =
                |record: &mut Record, times: usize| (0..times).for_each(|_| _ = record.encode(b"", Time(0)));
            write(&mut current, random.usize(1..40));
            let mut copy = current.clone();
            write(&mut current, random.usize(1..WRITES));
            let seen = current.watermark(Time(0), Time(0));
            write(&mut copy, random.usize(0..WRITES));
            assert!(!copy.follows(&seen));
            write(&mut current, random.usize(0..100));
            assert!(current.follows(&seen));
            current.begin_history(Time(0), Some(&seen));
            write(&mut current, random.usize(0..100));
            assert!(!current.follows(&seen));
        }
    }
}
