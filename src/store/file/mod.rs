//! A store in a file, for the processes of one user on one machine: a database of SQLite's.
//!
//! All bookings are made under the file's lock (`flock`), which serves in the order of asking, and which the system takes
//! back when a process ends in whatever way; so nobody sleeps in SQLite's busy handler. Each booking is a transaction.
//! Instants are on the clock that counts from when the machine was started, and goes on while it is suspended.
//!
//! # What survives what
//!
//! - **`kill -9`**, at any moment: nothing is lost. The future slots of a process that has ended are handed on.
//! - **A restart**: the clock begins anew. Whatever was released before counts as released at that instant, whatever the
//!   wall clock says; so a limit per day is used as much for a day after it as it was before.
//! - **A crash of the machine or a power cut**: as a restart, but the file may lack the bookings of the last half minute or
//!   so, since nothing waits for the disk. A limit with a longer period may be exceeded by as many once; or the file is
//!   damaged, which is noticed. The file itself is on the disk before it is first used.
//! - **Damage**: SQLite notices, or the checksum that each row has, or a gap between rows. The file is left as it is, for
//!   whoever wants to look at it.
//! - **Removal, replacement or a reset** during a run, of the file or of what SQLite keeps beside it: noticed at the next
//!   booking of a process that knew the state from before. What was lost may hold slots up to a horizon after it was lost,
//!   so all limits count as used up then; unless, by when the state that is there now began, that is over. A process that
//!   has not known the lost state cannot notice, and if none does, a state that was reset or removed begins as a new one.
//!   That is what a reset is for.

mod database;
mod domain;
mod guard;
mod lock;
mod network;
mod owner;
mod refusal;
mod rows;
mod status;
#[cfg(test)]
mod tests;
mod visit;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use self::database::Database;
use self::domain::Domain;
use self::lock::{Lock, NoLock};
use self::owner::Owner;
use self::refusal::{culprit, no_lock};
pub(super) use self::status::status;
use self::visit::{Session, Task};
use super::{Answer, BEFORE_TELLING, Order, Policy, Slot, Store, StoreError, Tell, place};
use crate::config::State;
use crate::exit::Exit;
use crate::time::Time;

/// Opens the store in the file that `state` names.
pub(super) fn open(
    state: &State,
    policy: Policy,
    now: impl Fn() -> Time + Send + 'static,
) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(FileStore::open(&path(state)?, policy, now)?))
}

/// Forgets the state in the file that `state` names.
pub(super) fn reset(state: &State) -> Result<(), StoreError> {
    FileStore::reset(&path(state)?).map(drop)
}

fn path(state: &State) -> Result<PathBuf, StoreError> {
    match state {
        State::File(path) => Ok(path.clone()),
        named => place(&named.to_string()),
    }
}

/// Limits in a file.
pub struct FileStore {
    /// None while the helper has it.
    session: Option<Box<Session>>,
    helper: Option<Helper>,
    tell: Option<Tell>,
}

/// A thread that waits for the lock, and does what is to be done as soon as it has it.
///
/// There is no waiting for a lock with a limit of time, and to look for it again and again would favour those who have
/// just come.
struct Helper {
    tasks: Sender<(Box<Session>, Task)>,
    done: Receiver<(Box<Session>, Result<Answer, StoreError>)>,
}

/// Where we are, and how long we wait for the lock.
#[derive(Clone, Copy)]
struct Setting {
    domain: Domain,
    patience: Duration,
    owner: Owner,
}

impl FileStore {
    /// Opens the state at `path`, or begins one there. Its directory has to be there.
    ///
    /// It never waits: if the state is locked just then, what is wrong with it is told by the first booking.
    ///
    /// `now` shows the time since the machine was started (`CLOCK_BOOTTIME`); slots are on the same time line.
    ///
    /// # Errors
    /// - [`Exit::BadState`]: it is damaged, is no state, or is one of other limits. It is left as it is.
    /// - [`Exit::BadStore`]: it is not ours alone, or not on this machine; or we may not write to it.
    /// - [`Exit::Error`]: anything else that the system objects to.
    pub fn open(
        path: &Path,
        policy: Policy,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Result<Self, StoreError> {
        Self::open_in(Setting::ours(path)?, path, policy, now)
    }

    fn open_in(
        setting: Setting,
        path: &Path,
        policy: Policy,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Result<Self, StoreError> {
        let mut session = Box::new(Session::begin(setting, path, policy, Box::new(now))?);
        match Lock::at_once(session.database.file()) {
            Ok(lock) => session.serve(lock, &Task::Look).map(drop)?,
            Err(NoLock::Held) => {}
            Err(why) => return Err(session.no_lock(why)),
        }
        Ok(FileStore { session: Some(session), helper: None, tell: None })
    }

    /// Forgets the state at `path`, so that the next run begins a new one, with any limits. `false` if there is none.
    ///
    /// The file is removed, so that processes that use it notice; see the notes on this module. A file that never was a
    /// state is not touched.
    ///
    /// # Errors
    /// As for [`FileStore::open`], and [`Exit::StoreAway`]: somebody has kept it locked for 10 s.
    pub fn reset(path: &Path) -> Result<bool, StoreError> {
        Self::reset_in(Setting::ours(path)?, path)
    }

    fn reset_in(setting: Setting, path: &Path) -> Result<bool, StoreError> {
        loop {
            let Some(database) = Database::find(path)? else { return Ok(false) };
            let lock = Lock::within(setting.patience, database.file());
            let _lock = lock.map_err(|why| no_lock(path, database.file(), setting.patience, why))?;
            if database.is_in_place()? {
                return database.remove().map(|()| true);
            }
        }
    }

    fn act(&mut self, task: Task) -> Result<Answer, StoreError> {
        let Some(mut session) = self.session.take() else { return Err(gone()) };
        let result = match Lock::at_once(session.database.file()) {
            Ok(lock) => session.serve(lock, &task),
            Err(NoLock::Held) => return self.wait(session, task),
            Err(why) => Err(session.no_lock(why)),
        };
        self.session = Some(session);
        result
    }

    /// Leaves it to the helper. After [`NoLock::Held`] that still waits, and nothing more can be asked.
    fn wait(&mut self, session: Box<Session>, task: Task) -> Result<Answer, StoreError> {
        let (path, file) = (session.database.path().to_owned(), Arc::clone(session.database.file()));
        let (patience, failed) = (session.setting.patience, |error| NoLock::Failed(error));
        let helper = match self.helper.take() {
            Some(helper) => helper,
            None => Helper::start().map_err(|error| no_lock(&path, &file, patience, failed(error)))?,
        };
        helper.tasks.send((session, task)).map_err(|_| gone())?;
        let at_first = patience.min(Duration::from_secs(BEFORE_TELLING));
        let mut done = helper.done.recv_timeout(at_first);
        if let Err(RecvTimeoutError::Timeout) = done {
            let why = format!("{}: locked by {}; waiting for it", path.display(), culprit(&file));
            self.tell.iter().for_each(|tell| tell(why.clone()));
            done = helper.done.recv_timeout(patience.saturating_sub(at_first));
        }
        match done {
            Ok((session, result)) => {
                (self.session, self.helper) = (Some(session), Some(helper));
                result
            }
            Err(RecvTimeoutError::Timeout) => Err(no_lock(&path, &file, patience, NoLock::Held)),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

impl Helper {
    fn start() -> io::Result<Self> {
        let (tasks, given) = bounded::<(Box<Session>, Task)>(1);
        let (finished, done) = bounded(1);
        let run = move || {
            for (mut session, task) in given {
                let lock = Lock::in_turn(session.database.file());
                let result = match lock {
                    Ok(lock) => session.serve(lock, &task),
                    Err(why) => Err(session.no_lock(why)),
                };
                if finished.send((session, result)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("lock".to_owned()).stack_size(1 << 20).spawn(run)?;
        Ok(Helper { tasks, done })
    }
}

fn gone() -> StoreError {
    StoreError { exit: Exit::Error, error: anyhow::anyhow!("the state cannot be asked any more") }
}

impl Store for FileStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        self.act(Task::Book(order.clone()))
    }

    fn tell_waits_to(&mut self, tell: Tell) {
        self.tell = Some(tell);
    }

    fn give_back(&mut self, order: &Order, slots: &[Slot]) -> Result<(), StoreError> {
        self.act(Task::GiveBack(order.clone(), slots.to_vec())).map(drop)
    }
}

impl Setting {
    fn ours(path: &Path) -> Result<Self, StoreError> {
        let domain = Domain::ours().map_err(|error| StoreError {
            exit: Exit::Error,
            error: error.context(format!("{}: limits cannot be kept in a file here", path.display())),
        })?;
        Ok(Setting { domain, patience: lock::PATIENCE, owner: Owner::ours() })
    }
}
