//! The header of a state file: all numbers of a state, with a checksum.
//!
//! It is kept twice, and each booking writes one copy after the other. So there is always a whole one, whenever the
//! writer is killed; and a copy that is damaged can be done without, with nothing lost.

use super::domain::Domain;
use crate::store::ledger::{Account, Ledger};
use crate::time::Time;

/// How much room there is for a copy. The second one follows the first, and the ring follows both.
pub(super) const ROOM: u64 = 16 << 10;

const MAGIC: [u8; 8] = *b"throttle";
const VERSION: u32 = 1;

/// What a state file says about itself, and the numbers of its limits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Header {
    /// Counts the bookings. It never goes back, unless the state does.
    pub(super) sequence: u64,
    /// Another one whenever the numbers do not follow from those before.
    pub(super) generation: u64,
    /// The numbers were made up by someone who knew of others that were lost, with a silence to make good for it.
    pub(super) is_successor: bool,
    /// When there was nothing yet. What it took the place of, if anything, was gone by then.
    pub(super) began: Time,
    /// Whose clock the instants are on.
    pub(super) domain: Domain,
    /// The numbers.
    pub(super) ledger: Ledger,
    /// The limits in words; empty after a reset, until the next use.
    pub(super) text: String,
}

/// Why a copy is not to be used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Flaw {
    /// There is nothing.
    Empty,
    /// It does not look as though it ever was one.
    Foreign,
    /// A state that is damaged.
    Damaged,
    /// Undamaged, but written by an incompatible version.
    Version(u32),
}

impl Header {
    /// The copy as bytes; `None` if there is not enough room for it.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        // The length, as soon as it is known.
        bytes.extend([0; 4]);
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(u64::from(self.is_successor).to_le_bytes());
        bytes.extend(self.began.0.to_le_bytes());
        bytes.extend(self.domain.boot);
        bytes.extend(self.domain.namespace.to_le_bytes());
        bytes.extend(self.ledger.newest.0.to_le_bytes());
        bytes.extend(u32::try_from(self.ledger.accounts.len()).ok()?.to_le_bytes());
        for account in &self.ledger.accounts {
            bytes.extend(account.at.to_le_bytes());
            bytes.extend(account.used.to_le_bytes());
        }
        bytes.extend(self.text.as_bytes());
        let length = bytes.len() + 4;
        bytes[12..16].copy_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        (length as u64 <= ROOM).then_some(bytes)
    }

    /// How many bytes the copy at the start of `bytes` is said to have.
    pub(super) fn length(bytes: &[u8]) -> Option<usize> {
        let length = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
        usize::try_from(length).ok()
    }

    /// Reads a copy at the start of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Header, Flaw> {
        match bytes {
            [] => return Err(Flaw::Empty),
            _ if MAGIC.starts_with(bytes) => return Err(Flaw::Damaged),
            _ if !bytes.starts_with(&MAGIC) => return Err(Flaw::Foreign),
            _ => {}
        }
        let mut fields = Fields(whole(bytes).ok_or(Flaw::Damaged)?);
        let version = fields.version().ok_or(Flaw::Damaged)?;
        if version != VERSION {
            return Err(Flaw::Version(version));
        }
        fields.header().ok_or(Flaw::Damaged)
    }
}

/// What a copy consists of, without its checksum, if that is right.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.get(..Header::length(bytes)?)?.split_last_chunk()?;
    (crc32fast::hash(content) == u32::from_le_bytes(*checksum)).then_some(content)
}

/// The fields that have not been read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn version(&mut self) -> Option<u32> {
        let _magic: [u8; 8] = self.take()?;
        let version = self.take().map(u32::from_le_bytes);
        let _length: [u8; 4] = self.take()?;
        version
    }

    fn header(&mut self) -> Option<Header> {
        let (sequence, generation) = (self.number()?, self.number()?);
        let (is_successor, began) = (self.number()? != 0, Time(self.number()?));
        let domain = Domain { boot: self.take()?, namespace: self.number()? };
        let newest = Time(self.number()?);
        let count = self.take().map(u32::from_le_bytes)?;
        let accounts: Option<_> = (0..count).map(|_| self.account()).collect();
        let text = str::from_utf8(self.0).ok()?.to_owned();
        let ledger = Ledger { newest, accounts: accounts? };
        Some(Header { sequence, generation, is_successor, began, domain, ledger, text })
    }

    fn account(&mut self) -> Option<Account> {
        Some(Account { at: self.number()?, used: self.take().map(u128::from_le_bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let account = |at, used| Account { at, used };
        Header {
            sequence: 1,
            generation: 2,
            is_successor: true,
            began: Time(9),
            domain: Domain { boot: [3; 16], namespace: 4 },
            ledger: Ledger { newest: Time(5), accounts: [account(6, 7), account(8, u128::MAX)].into() },
            text: "10/1s 20/1m".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for header in [header(), Header::default()] {
            let mut bytes = header.encode().unwrap();
            bytes.resize(1000, 0xff);
            assert_eq!(Header::decode(&bytes), Ok(header));
        }
    }

    #[test]
    fn no_bit_is_changed_unnoticed_and_nothing_is_cut_off() {
        let bytes = header().encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let flaw = if bit < 64 { Flaw::Foreign } else { Flaw::Damaged };
            assert_eq!(Header::decode(&changed), Err(flaw), "bit {bit}");
        }
        for length in 0..bytes.len() {
            let flaw = if length == 0 { Flaw::Empty } else { Flaw::Damaged };
            assert_eq!(Header::decode(&bytes[..length]), Err(flaw), "{length} bytes");
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut bytes = header().encode().unwrap();
        bytes[8] = 7;
        let content = bytes.len() - 4;
        let checksum = crc32fast::hash(&bytes[..content]);
        bytes[content..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(Flaw::Version(7)));
    }

    #[test]
    fn there_is_room_for_a_hundred_limits_but_not_for_any_number() {
        let of = |count: usize| Header {
            ledger: Ledger { accounts: vec![Account::default(); count].into(), ..Ledger::default() },
            text: "1000/1s,algo=bucket,burst=1000,margin=10ms ".repeat(count),
            ..header()
        };
        assert!(of(100).encode().is_some());
        assert!(of(1000).encode().is_none());
    }
}
