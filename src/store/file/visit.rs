//! One visit to the file: between taking the lock, finding out how things are, and giving it back.

use std::path::Path;

use super::body::Body;
use super::domain::Domain;
use super::header::{Flaw, Header};
use super::lock::{Held, Locker, NoLock};
use super::refusal::{bad, no_lock, refused, reset_command, unusable};
use super::{FileStore, Known};
use crate::store::StoreError;
use crate::store::ledger::BookingRules;
use crate::time::Time;

/// So many bookings ahead is what follows a lost state: ahead of all that others may have seen of that.
const FAR: u64 = 1 << 32;

/// As long as there is one, nobody else looks.
pub(super) struct Visit {
    pub(super) header: Header,
    /// When it began.
    pub(super) now: Time,
    _lock: Held,
}

impl FileStore {
    /// Takes the lock, and finds out how things are.
    pub(super) fn enter(&mut self) -> Result<Visit, StoreError> {
        let mut is_replaced = false;
        loop {
            let lock = self.locker.lock(self.body.file());
            let lock = lock.map_err(|why| no_lock(&self.body, self.setting.patience, why))?;
            if let Some(visit) = self.begin(lock, is_replaced)? {
                return Ok(visit);
            }
            is_replaced = true;
            let now = (self.clock)();
            let mut first = first(&self.rules, self.setting.domain, now);
            if let Some(known) = self.known {
                self.succeed(&mut first, known, now);
            }
            self.body = find_or_create(self.body.path(), &first, self.rules.places())?;
        }
    }

    /// Finds out how things are, unless somebody else has the lock: that may be for long.
    pub(super) fn look(&mut self) -> Result<(), StoreError> {
        let visit = match Locker::lock_at_once(self.body.file()) {
            Ok(lock) => self.begin(lock, false)?,
            Err(NoLock::Held) => None,
            Err(why) => return Err(no_lock(&self.body, self.setting.patience, why)),
        };
        visit.map_or(Ok(()), |visit| self.leave(visit))
    }

    /// With the lock; `None` if it is of a file that is not in its place any more.
    fn begin(&mut self, lock: Held, is_replaced: bool) -> Result<Option<Visit>, StoreError> {
        // Before it is looked for: whoever puts another in its place later does so after this instant.
        let now = (self.clock)();
        if !self.body.is_in_place()? {
            return Ok(None);
        }
        Ok(Some(Visit { header: self.header(is_replaced, now)?, now, _lock: lock }))
    }

    /// Notes how things are now, and gives the lock back.
    pub(super) fn leave(&mut self, visit: Visit) -> Result<(), StoreError> {
        let Visit { mut header, now, _lock } = visit;
        header.sequence += 1;
        self.body.write(&header)?;
        self.known = Some(Known { generation: header.generation, sequence: header.sequence, at: now });
        Ok(())
    }

    /// The header that counts: what is in the file, unless that is not to be relied on.
    fn header(&mut self, is_replaced: bool, now: Time) -> Result<Header, StoreError> {
        let path = self.body.path();
        let found = self.body.read()?.map_err(|flaw| bad(path, &unusable(path, flaw)))?;
        if found.is_half_damaged {
            self.warn("one of the two copies of its header was damaged, and the other one is used");
        }
        let mut header = found.header;
        if header.text.is_empty() {
            self.body.make_room(self.rules.places())?;
            let first = first(&self.rules, self.setting.domain, now);
            header = Header { sequence: header.sequence, generation: header.generation, ..first };
        }
        self.check(&header)?;
        self.come_from_before_the_restart(&mut header, now)?;
        self.make_good_for_what_is_lost(&mut header, is_replaced, now);
        Ok(header)
    }

    fn check(&self, header: &Header) -> Result<(), StoreError> {
        let (path, ours) = (self.body.path(), &self.rules.policy().text);
        if header.text != *ours {
            let why = format!(
                "this state is of other limits: '{}', not '{ours}': give the same limits or another state, or \
                 begin a new one by {}",
                header.text.escape_debug(),
                reset_command(path)
            );
            return Err(bad(path, &why));
        }
        if header.ledger.accounts.len() != self.rules.policy().quotas.len()
            || !self.body.has_room(self.rules.places())?
        {
            return Err(bad(path, &unusable(path, Flaw::Damaged)));
        }
        let (theirs, ours) = (header.domain, self.setting.domain);
        if theirs.boot == ours.boot && theirs.namespace != ours.namespace {
            let why = "this state is in use in another time namespace, where clocks differ: use one for each";
            return Err(refused(path, why));
        }
        Ok(())
    }

    /// The clock begins anew with the machine. Whatever was released before that counts as released then: by the wall
    /// clock it may be long ago, but that may be wrong.
    fn come_from_before_the_restart(&self, header: &mut Header, now: Time) -> Result<(), StoreError> {
        let ours = self.setting.domain;
        if header.domain != ours {
            header.ledger = match ours.counts_from_boot() {
                true => self.rules.restart(&header.ledger, &mut &self.body)?,
                false => self.rules.silence(now),
            };
            header.domain = ours;
            header.began = Time::ZERO;
        }
        Ok(())
    }

    fn make_good_for_what_is_lost(&mut self, header: &mut Header, is_replaced: bool, now: Time) {
        let Some(known) = self.known else { return };
        let is_another = header.generation != known.generation;
        if is_replaced || is_another || header.sequence < known.sequence {
            self.warn("it was removed, replaced or reset during the run, so there may be a pause");
            let is_seen_to = is_another && header.is_successor && header.sequence > known.sequence;
            if !is_seen_to {
                self.succeed(header, known, now);
            }
        }
    }

    /// Makes it the state that follows the one that was known, and was lost since.
    ///
    /// If it began after that was last seen, it was lost by then. No slot that was lost is later than a horizon after, and
    /// once that is as good as forgotten, there is nothing to be done.
    fn succeed(&self, header: &mut Header, known: Known, now: Time) {
        let loss = if header.began >= known.at { header.began } else { now };
        let last_slot = Time(loss.0.saturating_add(self.rules.policy().horizon));
        if self.rules.end_of_silence(last_slot) <= now {
            return;
        }
        header.ledger = self.rules.silence(last_slot.max(header.ledger.newest));
        (header.generation, header.is_successor) = (fastrand::u64(..), true);
        header.sequence = header.sequence.max(known.sequence) + FAR;
    }

    fn warn(&mut self, what: &str) {
        self.warnings.push(format!("{}: {what}", self.body.path().display()));
    }
}

/// What a state begins with.
pub(super) fn first(rules: &BookingRules, domain: Domain, now: Time) -> Header {
    Header {
        sequence: 0,
        generation: fastrand::u64(..),
        is_successor: false,
        domain,
        began: now,
        ledger: rules.begin(now),
        text: rules.policy().text.clone(),
    }
}

/// The file at `path`. If there is none, it is one with this header from now on.
pub(super) fn find_or_create(path: &Path, first: &Header, places: u64) -> Result<Body, StoreError> {
    loop {
        if let Some(body) = Body::open(path)? {
            return Ok(body);
        }
        if let Some(body) = Body::create(path, first, places)? {
            return Ok(body);
        }
    }
}
