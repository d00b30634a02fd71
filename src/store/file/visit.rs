//! What is done under the lock, once it is found out how things are.

use std::path::Path;

use rusqlite::Connection;

use super::Setting;
use super::database::Database;
use super::domain::Domain;
use super::lock::{Lock, NoLock};
use super::owner::Owner;
use super::refusal::{Flaw, bad, no_lock, of_sqlite, refused, reset_command, unusable};
use super::rows::{self, Header, KeyRows};
use crate::store::ledger::{BookingRules, Ledger};
use crate::store::{Answer, Order, Policy, Slot, StoreError};
use crate::time::{SECOND, Time};

/// How often past slots are deleted and ended processes looked for, in nanoseconds.
const BETWEEN_LOOKS: u64 = SECOND / 50;

/// How many new keys are added before idle ones are evicted.
const BETWEEN_EVICTIONS: u32 = 1024;

/// What is asked for.
pub(super) enum Task {
    Look,
    Book(Order),
    GiveBack(Order, Vec<Slot>),
}

/// One process at one state.
pub(super) struct Session {
    pub(super) setting: Setting,
    pub(super) database: Database,
    pub(super) clock: Box<dyn Fn() -> Time + Send>,
    rules: BookingRules,
    /// The state that was last seen, if any was.
    known: Option<Known>,
    looked: Option<Time>,
    new_keys: u32,
    /// Whether there is a loss of which the user has not been told yet.
    is_lost: bool,
}

/// What tells a state from one that took its place.
#[derive(Clone)]
struct Known {
    generation: u64,
    /// A key, and its newest slot.
    key: Vec<u8>,
    newest: Time,
    /// When it was last seen in its place.
    at: Time,
}

/// A state while it is read and written, under the lock, or a copy of one.
pub(super) struct Visit<'a> {
    connection: &'a Connection,
    path: &'a Path,
    pub(super) rules: &'a BookingRules,
    key: &'a [u8],
    header: Header,
    /// The numbers of the key, if there are any.
    ledger: Option<Ledger>,
    /// When it began.
    pub(super) now: Time,
    /// Whether it is time to look after what is over.
    looks: bool,
}

impl Session {
    pub(super) fn begin(
        setting: Setting,
        path: &Path,
        policy: Policy,
        clock: Box<dyn Fn() -> Time + Send>,
    ) -> Result<Self, StoreError> {
        let rules = BookingRules::new(policy);
        let first = first(&rules, setting.domain, clock());
        let database = find_or_create(path, setting, &first, &rules)?;
        Ok(Session {
            setting,
            database,
            clock,
            rules,
            known: None,
            looked: None,
            new_keys: 0,
            is_lost: false,
        })
    }

    pub(super) fn no_lock(&self, why: NoLock) -> StoreError {
        no_lock(self.database.path(), self.database.file(), self.setting.patience, why)
    }

    /// Does it, in whatever file is in its place now.
    pub(super) fn serve(&mut self, lock: Lock, task: &Task) -> Result<Answer, StoreError> {
        let (mut lock, mut is_replaced) = (lock, false);
        loop {
            if let Some(answer) = self.visit(is_replaced, task)? {
                return Ok(answer);
            }
            drop(lock);
            is_replaced = true;
            let now = (self.clock)();
            let mut first = first(&self.rules, self.setting.domain, now);
            if let Some(known) = &self.known {
                succeed(&mut first, known, &self.rules, Time::ZERO, now);
            }
            let path = self.database.path().to_owned();
            self.database = find_or_create(&path, self.setting, &first, &self.rules)?;
            let next = Lock::within(self.setting.patience, self.database.file());
            lock = next.map_err(|why| self.no_lock(why))?;
        }
    }

    /// With the lock; `None` if it is of a file that is not in its place any more.
    fn visit(&mut self, is_replaced: bool, task: &Task) -> Result<Option<Answer>, StoreError> {
        // Before it is looked for: whoever puts another in its place later does so after this instant.
        let now = (self.clock)();
        let path = self.database.path().to_owned();
        let told = |error: rusqlite::Error| of_sqlite(&path, &error);
        let Some(transaction) = self.database.begin(self.setting.patience)? else { return Ok(None) };
        let is_due = self.looked.is_none_or(|looked| now.since(looked) >= BETWEEN_LOOKS);
        let looks = is_due && matches!(task, Task::Book(_));
        let key = task.key();
        let mut visit = Visit::begin(&transaction, &path, &self.rules, key, now).map_err(told)?;
        visit.looks = looks;
        visit.check(self.setting)?;
        visit.carry_over_restart(self.setting.domain)?;
        let known = self.known.as_ref();
        let is_lost = match known {
            Some(known) => visit.silence_after_loss(known, is_replaced)?,
            None => false,
        };
        let mut answer = visit.act(task, self.setting.owner, &mut self.new_keys)?;
        let (generation, ledger) = (visit.header.generation, visit.ledger);
        transaction.commit().map_err(told)?;
        self.database.checkpoint_on_close();
        self.looked = if looks { Some(now) } else { self.looked };
        let newest = ledger.map_or(Time::ZERO, |ledger| ledger.newest);
        self.known = Some(Known { generation, key: key.to_vec(), newest, at: now });
        self.is_lost |= is_lost;
        if matches!(task, Task::Book(_)) && std::mem::take(&mut self.is_lost) {
            let told = "it was removed, replaced or reset during the run";
            answer.warning = Some(format!("{}: {told}", path.display()));
            let first = answer.slots.first().map(|slot| slot.at);
            answer.silent_until = first.or(answer.turn.map(|turn| Time(turn.0)));
        }
        Ok(Some(answer))
    }
}

impl Task {
    fn key(&self) -> &[u8] {
        match self {
            Task::Look => &[],
            Task::Book(order) | Task::GiveBack(order, _) => &order.key,
        }
    }
}

impl<'a> Visit<'a> {
    pub(super) fn begin(
        connection: &'a Connection,
        path: &'a Path,
        rules: &'a BookingRules,
        key: &'a [u8],
        now: Time,
    ) -> rusqlite::Result<Self> {
        let (header, ledger) = Header::read(connection, key)?;
        Ok(Visit { connection, path, rules, key, header, ledger, now, looks: false })
    }

    /// What booking would answer. Nothing of it is kept.
    pub(super) fn preview(&self, order: &Order) -> Result<Answer, StoreError> {
        let ledger = self.ledger.clone().filter(|ledger| self.is_of_the_policy(ledger));
        let mut ledger = ledger.ok_or_else(|| bad(self.path, &unusable(self.path, Flaw::Damaged)))?;
        let transaction = self.told(self.connection.unchecked_transaction())?;
        let answer = self.rules.book(&mut ledger, &mut self.rows(&order.key), self.now, order);
        self.told(transaction.rollback())?;
        answer
    }

    /// Whether it has an account for each limit.
    fn is_of_the_policy(&self, ledger: &Ledger) -> bool {
        ledger.accounts.len() == self.rules.policy().quotas.len()
    }

    fn act(&mut self, task: &Task, owner: Owner, new_keys: &mut u32) -> Result<Answer, StoreError> {
        match task {
            Task::Look => {}
            Task::Book(order) => {
                if self.looks {
                    self.inherit(owner)?;
                }
                return self.book(order, owner, new_keys);
            }
            Task::GiveBack(order, slots) => self.give_back(order, owner, slots)?,
        }
        Ok(Answer::default())
    }

    /// Books, as [`Store::book`](crate::store::Store::book) does.
    fn book(&mut self, order: &Order, owner: Owner, new_keys: &mut u32) -> Result<Answer, StoreError> {
        let mut ledger = match self.ledger.take() {
            Some(ledger) if self.is_of_the_policy(&ledger) => ledger,
            // Those of no key are never removed.
            None if !order.key.is_empty() => {
                if new_keys.is_multiple_of(BETWEEN_EVICTIONS) {
                    self.told(rows::evict(self.connection, self.now))?;
                }
                *new_keys = new_keys.wrapping_add(1);
                fresh(&self.header, self.rules, self.now)
            }
            _ => return Err(bad(self.path, &unusable(self.path, Flaw::Damaged))),
        };
        let mut rows = self.rows(&order.key);
        let answer = self.rules.book(&mut ledger, &mut rows, self.now, order)?;
        self.told(rows.write(&ledger, self.rules.idle_at(&ledger)))?;
        if answer.slots.last().is_some_and(|last| last.at > self.now) {
            let slots = answer.slots.iter().map(|slot| slot.at).filter(|at| *at > self.now);
            self.told(rows.own(&owner.to_string(), &order.costs, slots, self.now))?;
        }
        self.ledger = Some(ledger);
        Ok(answer)
    }

    /// Takes back slots, as [`Store::give_back`](crate::store::Store::give_back) does, unless they are taken back already.
    fn give_back(&self, order: &Order, owner: Owner, slots: &[Slot]) -> Result<(), StoreError> {
        let slots = slots.iter().map(|slot| slot.at);
        self.disown(&owner.to_string(), &order.key, &order.costs, slots)
    }

    /// Takes back the future slots of processes that have ended.
    fn inherit(&self, ours: Owner) -> Result<(), StoreError> {
        let mut judged: Option<(String, bool)> = None;
        // Sorted by owner.
        for booking in self.told(rows::bookings(self.connection, self.now))? {
            let known = judged.take().filter(|(owner, _)| *owner == booking.owner);
            let (owner, is_dead) = known.unwrap_or_else(|| {
                let is_dead = booking.owner.parse::<Owner>().is_ok_and(|owner| owner.is_dead(ours));
                (booking.owner, is_dead)
            });
            if is_dead {
                let slots = booking.slots.into_iter().map(Time);
                self.disown(&owner, &booking.key, &booking.costs, slots)?;
            }
            judged = Some((owner, is_dead));
        }
        Ok(())
    }

    fn disown(
        &self,
        owner: &str,
        key: &[u8],
        costs: &[u64],
        slots: impl Iterator<Item = Time>,
    ) -> Result<(), StoreError> {
        let mut rows = self.rows(key);
        let slots = self.told(rows.disown(owner, costs, slots, self.now))?;
        self.rules.give_back(&mut rows, self.now, costs, slots)
    }

    fn rows<'b>(&'b self, key: &'b [u8]) -> KeyRows<'b> {
        let (connection, path, generation) = (self.connection, self.path, self.header.generation);
        KeyRows::new(connection, path, generation, key).forgetting(self.looks)
    }

    fn told<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| of_sqlite(self.path, &error))
    }

    fn check(&self, setting: Setting) -> Result<(), StoreError> {
        let (header, ours) = (&self.header, &self.rules.policy().text);
        if header.text != *ours {
            let why = format!(
                "this state is of other limits: '{}', not '{ours}': give the same limits or another state, or \
                 begin a new one by {}",
                header.text.escape_debug(),
                reset_command(self.path)
            );
            return Err(bad(self.path, &why));
        }
        let (theirs, ours) = (header.domain, setting.domain);
        if theirs.boot == ours.boot && theirs.namespace != ours.namespace {
            let why = "this state is in use in another time namespace, where clocks differ: use one for each";
            return Err(refused(self.path, why));
        }
        Ok(())
    }

    /// The clock begins anew with the machine. Whatever was released before that counts as released then: by the wall
    /// clock it may be long ago, but that may be wrong.
    pub(super) fn carry_over_restart(&mut self, ours: Domain) -> Result<(), StoreError> {
        if self.header.domain == ours {
            return Ok(());
        }
        self.header.domain = ours;
        self.header.began = Time::ZERO;
        if !ours.counts_from_boot() {
            self.header.silent = Some(self.now);
            return self.begin_anew();
        }
        self.header.silent = self.header.silent.map(|_| Time::ZERO);
        self.looks = true;
        self.told(self.header.write(self.connection))?;
        self.told(self.connection.execute("DELETE FROM booked", []))?;
        for key in self.told(rows::keys(self.connection))? {
            let ledger = self.told(Header::read(self.connection, &key))?.1.unwrap_or_default();
            let mut rows = self.rows(&key);
            let ledger = self.rules.restart(&ledger, &mut rows)?;
            self.told(rows.write(&ledger, self.rules.idle_at(&ledger)))?;
        }
        self.read_again()
    }

    /// Returns whether something was lost.
    fn silence_after_loss(&mut self, known: &Known, is_replaced: bool) -> Result<bool, StoreError> {
        let is_another = self.header.generation != known.generation;
        let is_older = |ledger: &Ledger| known.key == self.key && ledger.newest < known.newest;
        if !is_replaced && !is_another && !self.ledger.as_ref().is_some_and(is_older) {
            return Ok(false);
        }
        // Whoever made it knew of what was lost, if it is silent for as long as we would have it.
        let silent = known.at.0.saturating_add(self.rules.policy().horizon);
        let is_seen_to = is_another && self.header.silent.is_some_and(|last| last.0 >= silent);
        if !is_seen_to {
            let newest = self.told(rows::newest(self.connection))?;
            if succeed(&mut self.header, known, self.rules, newest, self.now) {
                self.begin_anew()?;
            }
        }
        Ok(true)
    }

    /// Puts what follows from the header in place of all numbers.
    fn begin_anew(&mut self) -> Result<(), StoreError> {
        let clear = "DELETE FROM account; DELETE FROM slot; DELETE FROM booked";
        self.told(self.connection.execute_batch(clear))?;
        self.told(fill(self.connection, &self.header, self.rules, self.now))?;
        self.read_again()
    }

    fn read_again(&mut self) -> Result<(), StoreError> {
        (self.header, self.ledger) = self.told(Header::read(self.connection, self.key))?;
        Ok(())
    }
}

/// Makes it the state that follows the one that was known, and was lost since. Returns whether there is anything to do.
///
/// If it began after that was last seen, it was lost by then. No slot that was lost is later than a horizon after, and
/// once that is as good as forgotten, there is nothing to be done. Nor is any that is kept later than `newest`.
fn succeed(header: &mut Header, known: &Known, rules: &BookingRules, newest: Time, now: Time) -> bool {
    let loss = if header.began >= known.at { header.began } else { now };
    let last_slot = Time(loss.0.saturating_add(rules.policy().horizon));
    if rules.end_of_silence(last_slot) <= now {
        return false;
    }
    header.silent = Some(last_slot.max(newest));
    header.generation = fastrand::u64(..);
    true
}

/// What a key begins with.
fn fresh(header: &Header, rules: &BookingRules, now: Time) -> Ledger {
    match header.silent {
        Some(last) if rules.end_of_silence(last) > now => rules.silence(last),
        _ => rules.begin(header.began),
    }
}

/// What a state begins with.
fn first(rules: &BookingRules, domain: Domain, now: Time) -> Header {
    let text = rules.policy().text.clone();
    Header { generation: fastrand::u64(..), domain, began: now, silent: None, text }
}

fn fill(connection: &Connection, header: &Header, rules: &BookingRules, now: Time) -> rusqlite::Result<()> {
    header.write(connection)?;
    let (path, generation) = (Path::new(""), header.generation);
    let rows = KeyRows::new(connection, path, generation, b"");
    let ledger = fresh(header, rules, now);
    rows.write(&ledger, rules.idle_at(&ledger))
}

/// The file at `path`. If there is none, it is one with this header from now on.
fn find_or_create(
    path: &Path,
    setting: Setting,
    first: &Header,
    rules: &BookingRules,
) -> Result<Database, StoreError> {
    loop {
        if let Some(database) = Database::find(path)? {
            return Ok(database);
        }
        let fill = |connection: &Connection| fill(connection, first, rules, first.began);
        Database::create(path, setting.patience, fill)?;
    }
}
