//! States in files, with a clock that the test sets.

mod damage;
mod held;
mod limits;
mod losses;
mod restarts;
mod told;
mod wall;

use std::any::Any;
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tempfile::TempDir;

use rusqlite::Connection;

use super::*;
use crate::charge::Key;
use crate::rule::Algorithm;
use crate::rule::Terms;
use crate::store::memory_store::MemoryStore;
use crate::store::{Answer, Order, Policy, Quota, Reserve, Slot, Store, Task, VaultStore, Wanted};
use crate::time::SECOND;

/// What the wall clock shows at noon, in seconds.
const NOON: u64 = 100 * 86_400 + 43_200;

thread_local! {
    /// What the wall clock shows in a test.
    static SHOWN: Cell<u64> = const { Cell::new(NOON * SECOND) };
}

/// Sets the wall clock to this many seconds after noon.
fn show(seconds: i64) {
    SHOWN.set((NOON * SECOND).checked_add_signed(seconds * SECOND.cast_signed()).unwrap());
}

/// A directory for a state, the clock, and the identity of the machine.
struct Stage {
    directory: TempDir,
    clock: Arc<AtomicU64>,
    setting: Setting,
}

impl Stage {
    /// A machine that has been up for 1000 s.
    fn new() -> Self {
        let origin = Origin { boot: "1".to_owned(), namespace: 0 };
        Stage {
            directory: tempfile::tempdir().expect("a directory"),
            clock: Arc::new(AtomicU64::new(1000 * SECOND)),
            setting: Setting { origin, shown: || Time(SHOWN.get()), patience: Duration::from_secs(60) },
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn clock(&self) -> BootClock {
        let clock = Arc::clone(&self.clock);
        Box::new(move || Time(clock.load(Relaxed)))
    }

    fn wait(&self, nanos: u64) {
        self.clock.fetch_add(nanos, Relaxed);
    }

    fn try_open(&self, policy: Policy) -> Result<VaultStore, StoreError> {
        open_in(self.setting.clone(), &self.path(), policy, self.clock())
    }

    /// On the machine that runs the test.
    fn real_vault(&self) -> FileVault {
        FileVault::new(&self.path(), self.clock()).expect("a clock")
    }

    fn open(&self) -> VaultStore {
        self.try_open(policy()).expect("a state")
    }

    fn reset(&self) -> Result<bool, StoreError> {
        Database::remove(&self.path(), self.setting.patience)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("a file")
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(self.path(), bytes).expect("a file");
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.directory.path().join(format!("state{suffix}"))
    }

    fn copy(&self) -> PathBuf {
        let copy = self.directory.path().join("copy");
        self.sqlite().execute("VACUUM INTO ?1", [copy.to_str()]).expect("copied");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).expect("ours");
        copy
    }

    /// Opens the database directly, to inspect or alter it.
    fn sqlite(&self) -> Connection {
        Connection::open(self.path()).expect("a database")
    }

    /// Asserts that the state cannot be opened and stays unchanged.
    #[track_caller]
    fn refuses(&self, exit: Exit, why: &str) {
        let before = self.bytes();
        let error = self.try_open(policy()).err().expect("refused");
        let text = format!("{:#}", error.error);
        assert!(error.exit == exit && text.contains(why), "{:?}: {text}", error.exit);
        assert!(text.contains(&self.path().display().to_string()));
        assert!(self.bytes() == before, "it was changed");
    }
}

const PERIOD: u64 = 10 * SECOND;
const HORIZON: u64 = 100 * SECOND;

fn open_in(
    setting: Setting,
    path: &Path,
    policy: Policy,
    clock: BootClock,
) -> Result<VaultStore, StoreError> {
    VaultStore::opened(Box::new(FileVault::with(setting, path, clock)), policy, &[], Reserve::LOCAL)
}

/// 4 in 10 s.
fn policy() -> Policy {
    let quota = Quota::new(Algorithm::Sliding, Terms::new(4, PERIOD, 0));
    let text = "4/10s".to_owned();
    Policy { quotas: vec![quota], validity: SECOND, horizon: HORIZON, span: 1000, rates: Vec::new(), text }
}

fn order(count: u64) -> Order {
    Order::new(Key::new(), [1], count)
}

fn giving_back(slots: &[Slot]) -> Order {
    order(0).with(Task::GiveBack(slots.into(), None))
}

fn policy_of(rate: &str) -> Policy {
    Policy::new(&[told::rate(rate)], Reserve::LOCAL)
}

/// An order for a slot of this key that is free at once.
fn at_once(key: u8) -> Order {
    let wanted = Wanted { count: 1, ..Wanted::default() };
    Order { key: Key::from_slice(&[key]), ..order(1).with(Task::Book(wanted)) }
}

/// The next slots, in whole seconds from now.
fn slots(store: &mut VaultStore, count: u64) -> Vec<u64> {
    let now = now(store);
    let answer = store.book(&order(count)).expect("booked");
    answer.slots.iter().map(|slot| slot.at.since(now) / SECOND).collect()
}

fn vault(store: &VaultStore) -> &FileVault {
    <dyn Any>::downcast_ref(&*store.vault).expect("one in a file")
}

fn now(store: &VaultStore) -> Time {
    (vault(store).clock)()
}

/// The warning given with the next booking.
fn warning(store: &mut VaultStore) -> Option<String> {
    store.book(&order(1)).expect("booked").warning
}

#[test]
fn a_file_books_as_memory_does_whoever_asks() {
    let stage = Stage::new();
    let quota = |algorithm, count, period| {
        let burst = if algorithm == Algorithm::Bucket { 9 } else { 0 };
        Quota { starts_empty: true, ..Quota::new(algorithm, Terms::new(count, period, burst)) }
    };
    let mut random = fastrand::Rng::with_seed(1);
    let policy = Policy {
        quotas: vec![
            quota(Algorithm::Sliding, 20, 50),
            quota(Algorithm::Bucket, 3, 7),
            quota(Algorithm::Interval, 7, 10),
            quota(Algorithm::Fixed, 30, 90),
            quota(Algorithm::Sliding, 100_000, 100_000),
        ],
        ..policy()
    };
    let mut memory = MemoryStore::new(policy.clone(), stage.clock());
    let mut files = [(); 3].map(|()| stage.try_open(policy.clone()).expect("a state"));
    for _ in 0..300 {
        stage.wait(random.u64(0..60));
        let costs =
            [random.u64(0..5), random.u64(0..9), random.u64(0..9), random.u64(0..9), random.u64(1..5000)];
        let order = Order { costs: costs.into(), ..order(random.u64(1..6)) };
        let file = random.choice(&mut files).expect("one");
        assert_eq!(file.book(&order).expect("booked"), memory.book(&order).expect("booked"));
        if random.u8(0..10) == 0 {
            *file = stage.try_open(policy.clone()).expect("a state");
        }
    }
}

#[test]
fn what_is_given_back_goes_to_the_next_who_asks() {
    let stage = Stage::new();
    let (mut one, mut other) = (stage.open(), stage.open());
    assert_eq!(slots(&mut other, 4), [0, 0, 0, 0]);
    let booked = one.book(&order(3)).expect("booked").slots;
    one.give_back(&giving_back(&booked)).expect("given back");
    stage.wait(SECOND);
    assert_eq!(slots(&mut other, 2), [9, 9]);
    assert_eq!(slots(&mut one, 3), [9, 9, 19]);
    // Only until the slot is past.
    other.give_back(&giving_back(&booked[..1])).expect("given back");
    stage.wait(10 * SECOND);
    assert_eq!(slots(&mut one, 1), [9]);
}

#[test]
fn what_was_used_is_remembered() {
    let stage = Stage::new();
    assert_eq!(slots(&mut stage.open(), 3), [0, 0, 0]);
    stage.wait(SECOND);
    assert_eq!(slots(&mut stage.open(), 3), [0, 9, 9]);
    assert_eq!(warning(&mut stage.open()), None);
}

#[test]
fn a_new_state_is_ours_alone_and_nothing_else_is_left_behind() {
    use std::os::unix::fs::MetadataExt;

    let stage = Stage::new();
    stage.open();
    let metadata = fs::metadata(stage.path()).expect("a file");
    assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o600, 1));
    assert_eq!(fs::read_dir(stage.directory.path()).expect("a directory").count(), 1);
}

/// A process was killed while creating a state.
#[test]
fn what_was_to_become_a_state_is_removed_by_the_next_who_creates_one() {
    let stage = Stage::new();
    let files = || -> Vec<_> {
        let entries = fs::read_dir(stage.directory.path()).expect("a directory");
        entries.map(|entry| entry.expect("a file").path()).collect()
    };
    let name = format!(".throttle-new-{}", nix::unistd::geteuid());
    fs::write(stage.directory.path().join(name), "left behind").expect("a file");
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
    assert_eq!(files(), [stage.path()]);
}

#[test]
fn all_who_begin_at_the_same_time_share_one_state() {
    let stage = Stage::new();
    let stores: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| stage.open())).collect();
        threads.into_iter().map(|thread| thread.join().expect("opened")).collect()
    });
    let all: Vec<_> = stores.into_iter().flat_map(|mut store| slots(&mut store, 1)).collect();
    assert_eq!(all, [0, 0, 0, 0, 10, 10, 10, 10]);
}

#[test]
fn keys_have_limits_of_their_own() {
    let stage = Stage::new();
    let mut memory = MemoryStore::new(policy(), stage.clock());
    let mut random = fastrand::Rng::with_seed(2);
    let mut stores = [stage.open(), stage.open(), stage.open()];
    for _ in 0..300 {
        stage.wait(random.u64(0..SECOND));
        let order = Order { key: Key::from_slice(&[random.u8(0..5)]), ..order(random.u64(1..6)) };
        let store = random.choice(&mut stores).expect("one");
        assert_eq!(store.book(&order).expect("booked"), memory.book(&order).expect("booked"));
    }
}

#[test]
fn a_key_that_is_idle_is_forgotten() {
    let stage = Stage::new();
    let mut store = stage.open();
    for key in 0..3000_u64 {
        stage.wait(PERIOD / 100);
        let order = Order { key: Key::from_slice(&key.to_le_bytes()), ..order(1) };
        assert_eq!(store.book(&order).expect("booked").slots.len(), 1);
    }
    drop(store);
    let count = "SELECT count(*) FROM state";
    let kept = stage.sqlite().query_row(count, [], |row| row.get::<_, u32>(0)).expect("counted");
    assert!((100..1500).contains(&kept), "{kept}");
}

#[test]
fn a_state_is_not_for_other_limits() {
    let stage = Stage::new();
    stage.open();
    let before = stage.bytes();
    let error = stage.try_open(Policy { text: "5/10s".to_owned(), ..policy() }).err().expect("refused");
    assert_eq!(error.exit, Exit::BadState);
    let text = error.error.to_string();
    assert!(text.contains("'4/10s', not '5/10s'") && text.contains("--set-limits -s"), "{text}");
    assert!(stage.bytes() == before, "it was changed");
}

#[test]
fn the_real_machine_will_do() {
    let stage = Stage::new();
    let mut store = VaultStore::over(stage.real_vault(), policy()).expect("a state");
    assert_eq!(slots(&mut store, 1), [0]);
    assert!(stage.reset().expect("reset"));
}
