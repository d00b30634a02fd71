//! Without runs: processes that book slots and use them whenever they may, or not at all; and a wall clock that is set.

use std::collections::HashMap;

use throttle::store::{Answer, BookedBy, Slot, Task, Wanted};

use super::*;
use crate::simulated::Release as Left;

/// A process that shares the limits.
struct Process {
    store: VaultStore,
    followed: Vec<Followed>,
    /// The number of changes that it knows of.
    changes: u64,
    /// The slots that it holds, each for a line.
    held: Vec<(String, Slot)>,
    /// The instant from which slots of a key are void.
    void_from: HashMap<Key, Option<Time>>,
    booked_by: Option<BookedBy>,
}

#[derive(Clone, Default)]
struct Clock {
    now: Arc<AtomicU64>,
    /// What the wall clock shows at 0. It may be set.
    origin: Arc<AtomicU64>,
}

impl Clock {
    fn now(&self) -> u64 {
        self.now.load(SeqCst)
    }

    fn shown(&self) -> u64 {
        self.now() + self.origin.load(SeqCst)
    }

    /// Sets the wall clock by up to 12 hours, forwards or back.
    fn set_wall(&self, random: &mut Rng) {
        let by = random.choice([1, 1000, 10_000, 43_200_000]).map_or(0, |most| random.u64(..=most) * MILLI);
        _ = if random.bool() { self.origin.fetch_add(by, SeqCst) } else { self.origin.fetch_sub(by, SeqCst) };
    }

    fn wall(&self) -> Wall {
        Wall::new(Time(self.now()), Time(self.shown()))
    }
}

impl Process {
    fn new(vault: MemoryVault, policy: Policy) -> Self {
        let store = VaultStore::over(vault, policy).expect("a state");
        Process {
            store,
            followed: Vec::new(),
            changes: 0,
            held: Vec::new(),
            void_from: HashMap::new(),
            booked_by: None,
        }
    }

    /// A process that begins at `now`.
    fn later(vault: MemoryVault, case: &Case, now: u64) -> Self {
        let mut lists = case.lists.iter().zip(&case.in_force).rev();
        let ((at, list), _) = lists.find(|((at, _), in_force)| *at <= now && **in_force).expect("the first");
        let (rates, policy) = (rates(list), Policy::new(&rates(list), Reserve::LOCAL));
        Process { followed: vec![(*at, rates)], ..Process::new(vault, policy) }
    }

    /// The limits that it follows.
    fn list<'a>(&self, case: &'a Case) -> &'a List {
        &case.lists[self.followed.last().map_or(0, |limits| case.followed(limits))].1
    }

    /// Books slots for a line under the limits that it follows.
    fn book(&mut self, case: &Case, now: u64, line: &str, wanted: Wanted) {
        let (list, line) = (self.list(case), line.to_owned());
        if list.iter().any(|limit| is_bad(limit, &line)) {
            return;
        }
        let costs: Vec<_> = list.iter().map(|limit| limit.cost(std::slice::from_ref(&line))).collect();
        let key = key_of(list, &line);
        let order = Order { changes: self.changes, ..Order::new(key.clone(), costs, 0) };
        let Answer { slots, lost, limits, confirm_from, booked_by, .. } =
            self.store.book(&order.with(Task::Book(wanted))).expect("booked");
        if lost {
            self.held.retain(|(line, _)| key_of(list, line) != key);
        }
        if let Some(new) = limits {
            let list = case.followed(&(now, new.rates.clone()));
            self.followed.push((case.lists[list].0, new.rates));
            self.changes = new.terms.changes;
            self.held.clear();
            self.void_from.clear();
            self.booked_by = None;
            return;
        }
        if self.booked_by.is_some() && booked_by != self.booked_by {
            self.held.clear();
        }
        self.booked_by = booked_by;
        self.held.extend(slots.into_iter().map(|slot| (line.clone(), slot)));
        self.void_from.insert(key, confirm_from);
    }

    /// Uses some of the slots that may be used, and gives up others.
    fn release(&mut self, case: &Case, random: &mut Rng, process: usize, clock: &Clock) -> Vec<Batch> {
        let now = clock.now();
        if let Some(BookedBy::Wall(by)) = self.booked_by
            && clock.wall().differs(by, MARGIN * MILLI / 2)
        {
            self.held.clear();
        }
        let list = self.list(case);
        let mut released = Vec::new();
        let Process { followed, held, void_from, .. } = self;
        held.retain(|(line, slot)| {
            let void_from = void_from.get(&key_of(list, line)).copied().flatten();
            let is_void = void_from.is_some_and(|from| slot.at >= from);
            if slot.at.0 <= now && now <= slot.until.0 && !is_void && random.u8(..8) > 0 {
                let release = Left { start: now, end: now, lines: vec![line.clone()] };
                let limits = followed.last().cloned().into_iter().collect();
                released.push(Batch { limits, process, shown: clock.shown(), release });
                return false;
            }
            now <= slot.until.0
        });
        released
    }
}

fn key_of(list: &List, line: &str) -> Key {
    let key = list[0].key(line).expect("for all items");
    Key::from_slice(key.as_bytes())
}

fn check_bookings(random: &mut Rng) {
    let end = random.u64(2_000..20_000) * MILLI;
    let mut case = Case::new(random, true, end);
    for change in 1..case.lists.len() {
        let changes_keys = random.u8(..4) == 0;
        let limits = case.lists[change..].iter_mut().flat_map(|(_, list)| list);
        limits.for_each(|limit| limit.is_by_key ^= changes_keys);
    }
    let clock = Clock::default();
    clock.origin.store(100_000_000 * MILLI, SeqCst);
    let (of_vault, of_wall) = (clock.clone(), clock.clone());
    let vault = MemoryVault::new(move || Time(of_vault.now()), move || of_wall.wall());
    // A server evicts by its own clock, which nobody sets here.
    let is_set = random.bool();
    let vault = if is_set { vault.evicting_lazily() } else { vault.evicting() };
    let policy = Policy::new(&rates(&case.lists[0].1), Reserve::LOCAL);
    let mut processes: Vec<_> =
        (0..random.usize(1..4)).map(|_| Process::new(vault.clone(), policy.clone())).collect();
    let mut changes = (1..case.lists.len()).peekable();
    let (mut now, mut released) = (0, Vec::new());
    while now < end {
        let to_first_slot =
            processes.iter().flat_map(|process| &process.held).map(|(_, slot)| slot.at.0).min();
        now = match to_first_slot.filter(|at| *at > now && random.u8(..3) > 0) {
            Some(at) => at + random.u64(..=MARGIN) * MILLI,
            None => now + random.choice([0, 7, 300, 2500]).map_or(0, |most| random.u64(..=most)) * MILLI,
        };
        while let Some(list) = changes.next_if(|list| case.lists[*list].0 <= now) {
            let swaps = if random.bool() { usize::MAX } else { random.usize(..5) };
            case.in_force[list] = swaps > 0;
            clock.now.store(case.lists[list].0, SeqCst);
            set_limits(vault.clone(), &rates(&case.lists[list].1), swaps);
        }
        clock.now.store(now, SeqCst);
        if is_set && random.u8(..20) == 0 {
            clock.set_wall(random);
        }
        let process = random.usize(..processes.len());
        if random.u8(..10) == 0 {
            processes[process] = Process::later(vault.clone(), &case, now);
        }
        released.extend(processes[process].release(&case, random, process, &clock));
        for _ in 0..random.u8(1..4) {
            let line = format!("{} {}", random.u64(1..=MOST), random.choice(KEYS).expect("one"));
            let within = random.choice([0, 50 * MILLI, 1000 * MILLI, u64::MAX]).expect("one");
            processes[process].book(
                &case,
                now,
                &line,
                Wanted { count: random.u64(..4), within, ..Wanted::default() },
            );
        }
        released.extend(processes[process].release(&case, random, process, &clock));
    }
    let lists = case.lists.iter().map(|(at, list)| (at / MILLI, list.iter().map(text).collect::<Vec<_>>()));
    println!("{:?} {:?}", lists.collect::<Vec<_>>(), case.in_force);
    case.check(&released);
}

#[test]
fn limits_are_replaced_under_slots_that_anyone_may_use_or_not() {
    for_each_seed_of(seeds(500), |_, random| check_bookings(random));
}
