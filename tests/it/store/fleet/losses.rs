//! Random losses in a row: whatever becomes of the state, the processes that share it keep the limit together.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use fastrand::Rng;
use throttle::charge::Key;
use throttle::config::Rate;
use throttle::store::vault::Vault as _;
use throttle::store::{BootClock, FileVault, Order, Policy, ServerVault, Store, VaultStore};
use throttle::time::{Time, Wall};

use super::lines::{Charged, Limit};
use super::{MILLI, for_each_case};
use crate::simulated::fleet::{Batch, Faults, run_over};
use crate::simulated::vault::{Change, InMemory, Trouble, Vault, set_limits};
use crate::store::redis::client::{PATIENT, on_server};
use crate::store::redis::server::{Clock, RedisServer};
use crate::support::Directory;

const CHANGES: [Change; 7] = [
    Change::Remove,
    Change::SetAside,
    Change::PutBack,
    Change::Copy,
    Change::Restore,
    Change::Flush,
    Change::Disturb,
];

/// What the clock of a server shows at the start, in microseconds: a time in the year 2033.
pub(super) const START: u64 = 2_000_000_000_000_000;

/// A state on a server, whose clock is simulated, too.
pub(super) struct OnServer {
    pub(super) server: Arc<(RedisServer, Clock)>,
    pub(super) name: String,
    /// Each process looks at the state before it has an item.
    pub(super) looks: bool,
}

impl OnServer {
    fn ask(&self, command: &str) -> bool {
        let command = command.replace("STATE", &format!("throttle:{}", self.name));
        self.server.0.try_ask::<::redis::Value>(&command).is_ok_and(|answer| answer != ::redis::Value::Int(0))
    }
}

impl Vault for OnServer {
    fn open(&mut self, policy: Policy, clock: BootClock, _: Box<dyn Fn() -> Wall + Send>) -> Box<dyn Store> {
        let look = Order::new(Key::new(), vec![1; policy.quotas.len()], 0);
        let mut store = on_server(&self.server.0.url(&self.name), policy, PATIENT, clock);
        if self.looks {
            store.book(&look).expect("a state");
        }
        Box::new(store)
    }

    fn pass(&self, now: u64) {
        self.server.1.stand_at(START + now / 1000);
    }

    fn set_limits(&mut self, rates: &[Rate], clock: BootClock, swaps: usize) {
        let url = self.server.0.url(&self.name).parse().expect("a server");
        set_limits(ServerVault::new(url, PATIENT, clock), rates, swaps);
    }

    fn change(&mut self, change: Change) -> bool {
        match change {
            Change::Remove => self.ask("DEL STATE"),
            Change::SetAside => self.ask("RENAME STATE aside"),
            Change::PutBack => self.ask("RENAME aside STATE"),
            Change::Copy => self.ask("COPY STATE copy REPLACE"),
            Change::Restore => self.ask("COPY copy STATE REPLACE"),
            Change::Expire(millis) => self.ask(&format!("PEXPIRE STATE {millis}")),
            Change::Flush => self.ask("FLUSHALL"),
            Change::Disturb => self.ask("SCRIPT FLUSH"),
        }
    }
}

/// A state in a file of its own.
pub(super) struct InFile(pub(super) Directory);

impl InFile {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Moves the state and what belongs to it.
    fn rename(&self, from: &str, to: &str) -> bool {
        let is_there = self.path(from).exists();
        if is_there {
            for suffix in ["", "-journal"] {
                let [from, to] = [from, to].map(|name| self.path(&format!("{name}{suffix}")));
                let _ = fs::remove_file(&to);
                let _ = fs::rename(from, to);
            }
        }
        is_there
    }

    fn copy(&self) -> bool {
        let is_there = self.path("state").exists();
        if is_there {
            let _ = fs::remove_file(self.path("copy"));
            let state = rusqlite::Connection::open(self.path("state")).expect("a database");
            state.execute("VACUUM INTO ?1", [self.path("copy").to_str()]).expect("copied");
        }
        is_there
    }
}

impl Vault for InFile {
    fn open(&mut self, policy: Policy, clock: BootClock, _: Box<dyn Fn() -> Wall + Send>) -> Box<dyn Store> {
        let vault = FileVault::new(&self.path("state"), clock).expect("a clock");
        Box::new(VaultStore::over(vault, policy).expect("a state"))
    }

    fn pass(&self, _: u64) {}

    fn set_limits(&mut self, rates: &[Rate], clock: BootClock, swaps: usize) {
        set_limits(FileVault::new(&self.path("state"), clock).expect("a clock"), rates, swaps);
    }

    fn change(&mut self, change: Change) -> bool {
        match change {
            Change::Remove => self.rename("state", "gone"),
            Change::SetAside => self.rename("state", "aside"),
            Change::PutBack => self.rename("aside", "state"),
            Change::Copy => self.copy(),
            Change::Restore if self.path("copy").exists() => {
                fs::copy(self.path("copy"), self.path("new")).expect("copied");
                fs::set_permissions(self.path("new"), fs::Permissions::from_mode(0o600)).expect("ours");
                self.rename("new", "state")
            }
            Change::Flush => {
                let vault = FileVault::new(&self.path("state"), Box::new(|| Time::ZERO));
                vault.expect("a clock").forget().expect("reset")
            }
            Change::Restore | Change::Expire(_) | Change::Disturb => false,
        }
    }
}

fn limit(random: &mut Rng, has_calendar: bool) -> Limit {
    let algorithms = if has_calendar { 5 } else { 4 };
    let algorithm = ["sliding", "interval", "bucket", "fixed", "calendar"][random.usize(..algorithms)];
    let count = random.u64(1..12);
    let period = if algorithm == "calendar" { random.u64(1..=3) * 1000 } else { random.u64(100..1500) };
    let burst = random.u64(1..=count);
    Limit {
        algorithm,
        count,
        period,
        burst,
        has_cost: false,
        is_by_key: false,
        only: None,
        hours: None,
        is_local: false,
    }
}

/// What happens to a vault until `end`. It can change if it `changes`.
fn troubles(random: &mut Rng, end: u64, changes: bool) -> VecDeque<(u64, Trouble)> {
    // Whoever has not heard of what is lost cannot know that there was anything, so all have heard of something first.
    let (mut troubles, mut now) = (VecDeque::new(), if changes { 1000 * MILLI } else { 0 });
    let longest = [300, 1000, 3000][random.usize(..3)] * MILLI;
    loop {
        now += random.u64(0..=longest);
        if now > end {
            return troubles;
        }
        let trouble = match random.u8(..if changes { 10 } else { 2 }) {
            0 => Trouble::Stop(random.u64(0..1200) * MILLI),
            1 => Trouble::Away(random.u64(0..2500) * MILLI),
            2 => Trouble::Change(Change::Expire(random.u64(1..500))),
            _ => Trouble::Change(*random.choice(&CHANGES).expect("one")),
        };
        troubles.push_back((now, trouble));
    }
}

fn check(vault: Box<dyn Vault>, limit: &Limit, changes: bool, seed: u64, random: &mut Rng) {
    let end = random.u64(5_000..20_000) * MILLI;
    let processes = random.u64(2..8);
    let troubles = troubles(random, end, changes);
    let each = (limit.count * end).div_ceil(limit.period * MILLI * processes).min(1500 / processes);
    let arrivals = (0..processes).map(|_| (0..each).map(|_| (0, "1 a".to_owned())).collect()).collect();
    let faults = Faults { death: u64::MAX, ..super::faults(random) };
    let args = [limit.to_string(), "-sfleet".to_owned()];
    println!("{args:?}, {processes} processes with {each} items each, {faults:?}\n{troubles:?}");
    let args = args.each_ref().map(String::as_str);
    let (mut batches, _) = run_over(vault, troubles, &args, arrivals, end, seed, faults).without_errors();
    batches.sort_by_key(|batch| batch.release.start);
    let charged = |Batch { release, .. }: &Batch| {
        let shown = START * 1000 + release.start;
        vec![Charged { at: release.start, shown, cost: 1 }; release.lines.len()]
    };
    limit.check(&batches.iter().flat_map(charged).collect::<Vec<_>>());
}

#[test]
fn a_server_that_loses_everything_again_and_again() {
    let Some(server) = RedisServer::start_with_clock(&[]) else { return };
    let server = Arc::new(server);
    for_each_case(10, |seed, random| {
        server.0.ask::<()>("FLUSHALL");
        let vault = OnServer { server: Arc::clone(&server), name: format!("fleet{seed}"), looks: false };
        check(Box::new(vault), &limit(random, true), true, seed, random);
    });
}

#[test]
fn a_file_that_is_replaced_again_and_again() {
    for_each_case(10, |seed, random| {
        check(Box::new(InFile(Directory::new())), &limit(random, false), true, seed, random);
    });
}

#[test]
fn a_store_that_is_away_again_and_again() {
    for_each_case(10, |seed, random| {
        check(Box::new(InMemory::contended()), &limit(random, false), false, seed, random);
    });
}

#[test]
fn a_map_that_is_replaced_again_and_again() {
    for_each_case(10, |seed, random| {
        check(Box::new(InMemory::contended()), &limit(random, false), true, seed, random);
    });
}
