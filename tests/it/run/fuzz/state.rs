//! States in files with arbitrary contents. Knows nothing of their format.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use tempfile::TempDir;
use throttle::charge::Key;
use throttle::config::{Rate, Shared, State};
use throttle::store::vault::Vault;
use throttle::store::{Admin, FileVault, Order, Policy, Reserve, Slot, Store, StoreError, VaultStore};
use throttle::time::{SECOND, Time};

use super::damaged;

/// Whatever the path of a state holds, it is left unchanged, or slots are booked that keep to the limits.
///
/// The first byte chooses what to do; the others are the file itself, or damage to a good one.
///
/// # Panics
/// If that is not so.
pub fn state(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let bytes = if kind & 1 == 0 { damaged(GOOD.clone(), rest) } else { rest.to_vec() };
    let stage = Stage::new();
    stage.write(&bytes);
    stage.check_status(&bytes);
    let used = if bytes == *GOOD { USED } else { 0 };
    if let Some(slots) = stage.check_bookings() {
        let now = slots.iter().filter(|slot| slot.at == START).count();
        assert!(used == 0 || now == COUNT - used, "a good state: {slots:?}");
    } else {
        assert_eq!(used, 0, "a good state is refused");
        stage.check_reset();
    }
}

/// A state with some slots used.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let stage = Stage::new();
    let booked = stage.open().and_then(|mut store| store.book(&order(USED as u64)));
    assert_eq!(booked.expect("booked").slots.len(), USED);
    fs::read(stage.path()).expect("a state")
});

/// The length of the header of a database.
const HEADER: usize = 100;

const COUNT: usize = 4;
const USED: usize = 3;
const START: Time = Time(1000 * SECOND);

fn policy() -> Policy {
    let rate = |text: &str| text.parse::<Rate>().expect("a rate");
    Policy::new(&[rate("4/10s"), rate("9/m,algo=bucket")], Reserve::LOCAL)
}

fn order(count: u64) -> Order {
    Order::new(Key::new(), [1, 1], count)
}

/// A directory for a state, and a clock.
struct Stage {
    directory: TempDir,
    clock: Arc<AtomicU64>,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Stage { directory, clock: Arc::new(AtomicU64::new(START.0)) }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn write(&self, bytes: &[u8]) {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(self.path());
        file.and_then(|mut file| file.write_all(bytes)).expect("a file");
    }

    fn now(&self) -> Time {
        Time(self.clock.load(Relaxed))
    }

    fn open(&self) -> Result<VaultStore, StoreError> {
        let clock = Arc::clone(&self.clock);
        let vault = FileVault::new(&self.path(), Box::new(move || Time(clock.load(Relaxed))))?;
        VaultStore::over(vault, policy())
    }

    /// Looking at a state changes nothing, except that SQLite mends counters in a damaged header.
    fn check_status(&self, bytes: &[u8]) {
        let shared = Shared { state: State::File(self.path()), timeout: 0 };
        let now = self.now();
        match Admin::of(&shared).and_then(|admin| admin.status(Box::new(move || now))) {
            Ok(status) => {
                for limit in status.expect("there is a file").limits {
                    assert!(limit.free <= limit.capacity, "{limit:?}");
                }
            }
            Err(error) => check_error(&error, &self.path()),
        }
        let (before, after) = (bytes.get(HEADER..), self.bytes());
        assert!(after.len() == bytes.len() && after.get(HEADER..) == before, "looking at it changed it");
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("a file")
    }

    /// Books some slots, and again after closing and reopening the state; `None` if it is refused.
    ///
    /// Some damage is noticed only by a later booking.
    fn check_bookings(&self) -> Option<Vec<Slot>> {
        let mut slots = Vec::new();
        for pause in [0, SECOND, 70 * SECOND] {
            self.clock.fetch_add(pause, Relaxed);
            let opened = self.left_alone_unless_done(|| self.open());
            let booked = opened.and_then(|mut store| self.book(&mut store, &mut slots));
            check_limits(&slots);
            // Slots that were still ahead at closing go to the next process.
            slots.retain(|slot| slot.at <= self.now());
            if let Err(error) = booked {
                check_error(&error, &self.path());
                return None;
            }
        }
        Some(slots)
    }

    /// An action that fails leaves the file unchanged.
    fn left_alone_unless_done<T>(
        &self,
        does: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let before = self.bytes();
        does().inspect_err(|error| assert!(self.bytes() == before, "not left as it is: {error}"))
    }

    fn book(&self, store: &mut VaultStore, slots: &mut Vec<Slot>) -> Result<(), StoreError> {
        let (now, policy) = (self.now(), policy());
        for count in [1, 3, 2] {
            let answer = self.left_alone_unless_done(|| store.book(&order(count)))?;
            assert!(answer.slots.len() as u64 <= count, "{answer:?}");
            for slot in &answer.slots {
                assert!(slot.at >= now && slot.at.since(now) <= policy.horizon, "{answer:?}");
                assert!(slot.until.since(slot.at) <= policy.validity, "{answer:?}");
            }
            let may_go_on = !answer.slots.is_empty() || answer.ask_again.is_some_and(|at| at > now);
            assert!(may_go_on, "{answer:?}");
            slots.extend(answer.slots);
        }
        Ok(())
    }

    /// Anything that once was a state can be reset; other files are left unchanged.
    fn check_reset(&self) {
        match self.left_alone_unless_done(|| FileVault::new(&self.path(), Box::new(|| Time::ZERO))?.forget())
        {
            Ok(was_there) => {
                assert!(was_there);
                let slots =
                    self.open().and_then(|mut store| store.book(&order(9))).expect("a new state").slots;
                check_limits(&slots);
            }
            Err(error) => check_error(&error, &self.path()),
        }
    }
}

/// No window has more slots than allowed.
fn check_limits(slots: &[Slot]) {
    let period = policy().quotas[0].terms.period;
    for (first, beyond) in slots.iter().zip(slots.iter().skip(COUNT)) {
        assert!(beyond.at.since(first.at) >= period, "{slots:?}");
    }
    assert!(slots.is_sorted_by_key(|slot| slot.at), "{slots:?}");
}

/// The error names the file and contains no control characters.
fn check_error(error: &StoreError, path: &Path) {
    let text = error.to_string();
    assert!(text.contains(&*path.to_string_lossy()) && !text.contains(char::is_control), "{text:?}");
}
