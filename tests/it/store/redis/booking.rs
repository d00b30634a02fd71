//! Which slots are booked, to the microsecond, on a clock that stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use throttle::charge::Key;
use throttle::config::{Shared, State};
use throttle::exit::Exit;
use throttle::store::{Admin, Answer, Order, Policy, Slot, Store, Task, Turn, VaultStore, Wanted};
use throttle::time::{SECOND, Time, Wall};

use super::client::{
    PATIENT, book_out, failure, giving_back, keyed, now, on_server, policy, some, store, store_at,
};
use super::server::{Clock, RedisServer};
use crate::memory_store::{MemoryStore, MemoryVault};
use crate::support::{of_any_period, seeds};

/// In the year 2033.
const START: u64 = 2_000_000_000_000_000;

/// A server and processes whose clocks move only when told to.
pub(super) struct Frozen {
    pub(super) server: RedisServer,
    clock: Clock,
    micros: u64,
    local: Arc<AtomicU64>,
}

impl Frozen {
    pub(super) fn start() -> Option<Self> {
        let (server, clock) = RedisServer::start_with_clock(&[])?;
        let mut frozen = Frozen { server, clock, micros: START, local: Arc::default() };
        frozen.pass(0);
        Some(frozen)
    }

    pub(super) fn pass(&mut self, micros: u64) {
        self.micros += micros;
        self.clock.stand_at(self.micros);
        self.local.store((self.micros - START + 1_000_000) * 1000, Relaxed);
    }

    /// Sets only the server's clock.
    pub(super) fn set(&mut self, micros: u64) {
        self.clock.stand_at(micros);
    }

    pub(super) fn local_time(&self) -> Time {
        Time(self.local.load(Relaxed))
    }

    pub(super) fn micros(&self) -> u64 {
        self.micros
    }

    pub(super) fn store(&self, name: &str, policy: Policy) -> VaultStore {
        store_at(&self.server.url(name), policy, &self.local)
    }

    /// The time of a slot on the server's clock.
    pub(super) fn server_time(&self, slot: Slot) -> u64 {
        self.micros + (slot.at.0 - self.local.load(Relaxed)) / 1000
    }
}

const RATES: [&[&str]; 11] = [
    &[
        "3/12h,algo=calendar,tz=Europe/Berlin,margin=1s",
        "2/90m,during=09:30-13:15,tz=America/Havana,margin=1s",
    ],
    &["3/s"],
    &["7/333333ns,margin=100us"],
    &["5/2s,algo=fixed"],
    &["3/s,algo=interval"],
    &["7/s,algo=bucket"],
    &["3/s,algo=bucket,burst=8,margin=10ms"],
    &["1000/s", "20/100ms,algo=bucket,burst=4"],
    &["2/100ms", "30/10s"],
    &["7/s,algo=fixed", "3/1s,algo=bucket", "5/s", "30/s,algo=interval"],
    &["100/h"],
];

#[test]
fn a_server_books_as_memory_does_whoever_asks() {
    let Some(mut frozen) = Frozen::start() else { return };
    for (number, rates) in RATES.iter().enumerate() {
        for case in seeds(1) {
            let mut random = fastrand::Rng::with_seed(case);
            let booked = agree(&mut frozen, &mut random, &format!("{number}-{case}"), rates);
            assert!(booked > 10, "{rates:?}: only {booked}");
        }
    }
}

/// Places a hundred random orders from three processes. Returns the number of slots booked.
fn agree(frozen: &mut Frozen, random: &mut fastrand::Rng, name: &str, rates: &[&str]) -> usize {
    let policy = Policy { span: 20, ..policy(rates) };
    let mut stores = [(); 3].map(|()| frozen.store(name, policy.clone()));
    let clock = Arc::new(AtomicU64::new(frozen.micros * 1000));
    let shown = Arc::clone(&clock);
    let memory = MemoryVault::new(move || Time(shown.load(Relaxed)), || Wall::EPOCH);
    let mut in_memory = [(); 3].map(|()| MemoryStore::over(memory.clone(), policy.clone()));
    let longest = policy.quotas.iter().map(|quota| quota.terms.period / 1000).max().unwrap();
    let mut booked = 0;
    for _ in 0..100 {
        let at_most = longest >> random.u32(0..12);
        frozen.pass(random.u64(0..=at_most));
        clock.store(frozen.micros * 1000, Relaxed);
        let ahead = clock.load(Relaxed) - frozen.local.load(Relaxed);
        let process = random.usize(..3);
        let memory = &mut in_memory[process];
        let key = if random.u8(0..4) == 0 { &b"\r\n{other}\0\xff"[..] } else { b"" };
        let costs = random_costs(random, &policy);
        let order = Order::new(Key::from_slice(key), costs.clone(), random.u64(1..20));
        let late = random.u64(1..=2);
        if random.u8(0..16) == 0 {
            let over = |ahead| order.with(Task::Late(late, Time(frozen.local.load(Relaxed) + ahead)));
            let told = stores[process].book(&over(0)).unwrap();
            assert_eq!((told.slots, memory.book(&over(ahead)).unwrap().slots), (vec![], vec![]));
        }
        let answer = stores[process].book(&order).unwrap();
        let expected = memory.book(&order).unwrap();
        let of_memory = |at: Time| Time(if at == Time(u64::MAX) { at.0 } else { at.0 - ahead });
        let slots: Vec<_> = expected.slots.iter().map(|slot| of_memory(slot.at)).collect();
        assert_eq!(
            answer.slots.iter().map(|slot| slot.at).collect::<Vec<_>>(),
            slots,
            "{rates:?}: {order:?}"
        );
        let expected = (expected.turn, expected.next.map(of_memory), expected.ask_again.map(of_memory));
        assert_eq!((answer.turn, answer.next, answer.ask_again), expected, "{rates:?}: {order:?}");
        assert_eq!(answer.warning, None);
        assert!(
            answer.slots.iter().all(|slot| slot.until.0 - slot.at.0 == policy.validity - policy.validity / 4)
        );
        booked += slots.len();
    }
    booked
}

#[test]
fn a_bucket_owes_what_was_overrun() {
    let Some(mut frozen) = Frozen::start() else { return };
    let mut store = frozen.store("web", policy(&["10/s,algo=bucket,burst=4,margin=100ms"]));
    let slots = |store: &mut VaultStore, frozen: &Frozen, count| {
        let slots = store.book(&some(count)).unwrap().slots;
        slots.iter().map(|&slot| frozen.server_time(slot) - frozen.micros).collect::<Vec<_>>()
    };
    // It holds three, as one is held back; one is used before the report.
    assert_eq!(slots(&mut store, &frozen, 1), [0]);
    let report = some(0).with(Task::Late(4, Time(frozen.local.load(Relaxed))));
    let answer = store.book(&report).unwrap();
    assert_eq!((answer.slots, answer.overruns.costs), (vec![], [4].into()));
    // It owes two, and has one again after 0.3 s.
    assert_eq!(slots(&mut store, &frozen, 1), [300_000]);
    frozen.pass(1_000_000);
    // It is full again with three; the fourth takes another 0.1 s.
    assert_eq!(slots(&mut store, &frozen, 4), [0, 0, 0, 100_000]);
}

fn wanting(count: u64, within: u64, turn: Option<Turn>) -> Order {
    some(0).with(Task::Book(Wanted { count, within, turn, ..Wanted::default() }))
}

/// Mostly 1; sometimes a high cost, or 0 under some limits.
fn random_costs(random: &mut fastrand::Rng, policy: &Policy) -> Vec<u64> {
    let charged = random.usize(0..policy.quotas.len());
    let cost = |(index, quota): (usize, &throttle::store::Quota)| match random.u8(0..8) {
        0 if index != charged => 0,
        1 => random.u64(1..=quota.most().min(quota.terms.count.max(1))),
        _ => 1,
    };
    policy.quotas.iter().enumerate().map(cost).collect()
}

#[test]
fn what_is_beyond_the_horizon_is_not_given_out_but_told_of() {
    let Some(mut frozen) = Frozen::start() else { return };
    let mut store =
        frozen.store("web", Policy { span: 100, horizon: 1_000_000_000, ..policy(&["2/s,margin=500ms"]) });
    // Two every 1.5 s; the horizon is 1 s.
    let answer = store.book(&some(5)).unwrap();
    assert_eq!(answer.slots.iter().map(|&slot| frozen.server_time(slot) - START).collect::<Vec<_>>(), [0, 0]);
    let again = answer.ask_again.unwrap().0 - frozen.local.load(Relaxed);
    assert!((500_000_000..600_000_000).contains(&again), "{again}");
    frozen.pass(500_000);
    let answer = store.book(&some(1)).unwrap();
    assert_eq!(frozen.server_time(answer.slots[0]) - START, 1_500_000);
    assert_eq!(answer.ask_again, None);
}

/// Two in 1.5 s, and a horizon of 3 s.
fn two_in_a_second_and_a_half() -> Policy {
    Policy { span: 16, horizon: 3_000_000_000, ..policy(&["2/s,margin=500ms"]) }
}

#[test]
fn those_who_are_turned_away_are_served_in_their_order() {
    let Some(mut frozen) = Frozen::start() else { return };
    let mut stores = [(); 4].map(|()| frozen.store("web", two_in_a_second_and_a_half()));
    for _ in 0..6 {
        assert_eq!(stores[0].book(&some(1)).unwrap().slots.len(), 1);
    }
    let local = |frozen: &Frozen| frozen.local.load(Relaxed);
    let start = local(&frozen);
    let queue: Vec<_> = stores.iter_mut().map(|store| store.book(&some(1)).unwrap()).collect();
    let again: Vec<_> =
        queue.iter().map(|answer| (answer.ask_again.unwrap().0 - start) / 10_000_000).collect();
    // With a pause of a millisecond each.
    assert_eq!(again, [150, 225, 300, 375]);
    frozen.pass(1_500_000);
    // There is a slot within the horizon, but it belongs to the first in the queue, even if another process asks first.
    assert!(stores[1].book(&wanting(1, u64::MAX, queue[1].turn)).unwrap().slots.is_empty());
    let served = stores[0].book(&wanting(1, u64::MAX, queue[0].turn)).unwrap();
    assert_eq!(frozen.server_time(served.slots[0]) - START, 4_500_000);
}

#[test]
fn what_is_given_back_goes_to_the_next_who_asks_for_the_same() {
    let Some(frozen) = Frozen::start() else { return };
    let mut stores = [(); 2].map(|()| frozen.store("web", two_in_a_second_and_a_half()));
    let of = |answer: &Answer| {
        answer.slots.iter().map(|&slot| frozen.server_time(slot) - START).collect::<Vec<_>>()
    };
    let first = stores[0].book(&some(4)).unwrap();
    assert_eq!(of(&first), [0, 0, 1_500_000, 1_500_000]);
    // One of the two at the same instant, and one that is over.
    stores[0].give_back(&giving_back(&[first.slots[3], first.slots[0]])).unwrap();
    let other = Order { costs: [2].into(), ..some(1) };
    assert_eq!(of(&stores[1].book(&other).unwrap()), [3_000_000]);
    // No more is taken back than was booked: there is another slot at that instant, but no third.
    stores[0].give_back(&giving_back(&[first.slots[3]; 3])).unwrap();
    assert_eq!(of(&stores[1].book(&some(9)).unwrap()), [1_500_000, 1_500_000]);
    let none = stores[1].book(&some(1)).unwrap();
    assert_eq!((of(&none), none.turn.is_some()), (vec![], true));
}

/// The answer to the second order takes longer than slots are good, but it is only asked again.
#[test]
fn what_comes_too_late_is_asked_for_again_and_not_booked_twice() {
    let Some(frozen) = Frozen::start() else { return };
    let (looks, is_slow) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let is_slow_now = Arc::clone(&is_slow);
    // The fourth look at the clock in an order is when the slots are booked: two were for what is kept.
    let clock = move || match is_slow_now.load(Relaxed) {
        0 => Time(START),
        _ if looks.fetch_add(1, Relaxed) < 3 => Time(START),
        _ => Time(START + 3_500_000),
    };
    let policy = Policy { span: 16, horizon: 3_000_000_000, ..policy(&["2/s,margin=4ms"]) };
    let mut store = on_server(&frozen.server.url("web"), policy, PATIENT, clock);
    assert_eq!(store.book(&some(2)).unwrap().slots.len(), 2);
    is_slow.store(1, Relaxed);
    let ahead = |slots: &[Slot]| slots.iter().map(|slot| (slot.at.0 - START) / 1_000_000).collect::<Vec<_>>();
    // On the server's clock, which stands still, 1.004 s and 2.008 s.
    assert_eq!(ahead(&store.book(&some(2)).unwrap().slots), [1007, 1007]);
    assert_eq!(ahead(&store.book(&some(2)).unwrap().slots), [2011, 2011]);
}

/// A server that has slept takes longer to answer.
#[test]
fn a_server_is_woken_before_it_is_asked_for_slots_that_are_good_for_a_short_time() {
    let Some(frozen) = Frozen::start() else { return };
    for (margin, scripts) in [("4ms", 2), ("6ms", 1)] {
        let mut store = frozen.store(margin, policy(&[&format!("9/h,margin={margin}")]));
        store.book(&some(1)).unwrap();
        frozen.server.ask::<()>("CONFIG RESETSTAT");
        store.book(&some(1)).unwrap();
        let run: String = frozen.server.ask("INFO commandstats");
        assert!(run.contains(&format!("cmdstat_time:calls={scripts},")), "{margin}: {run}");
    }
}

#[test]
fn whoever_does_not_wait_gets_what_is_free_or_nothing() {
    let Some(mut frozen) = Frozen::start() else { return };
    let mut store = frozen.store("web", two_in_a_second_and_a_half());
    let at_once = |count| wanting(count, 0, None);
    assert_eq!(store.book(&at_once(3)).unwrap().slots.len(), 2);
    let none = store.book(&at_once(1)).unwrap();
    let again = none.ask_again.unwrap().0 - frozen.local.load(Relaxed);
    assert_eq!((none.slots.len(), none.turn, again / 10_000_000), (0, None, 150));
    let too_late = store.book(&wanting(1, SECOND, None)).unwrap();
    let [again, next] =
        [too_late.ask_again, too_late.next].map(|at| at.unwrap().0 - frozen.local.load(Relaxed));
    assert_eq!((too_late.slots.len(), again / 10_000_000, next / 10_000_000), (0, 50, 150));
    frozen.pass(1_500_000);
    assert_eq!(store.book(&at_once(1)).unwrap().slots.len(), 1, "nothing was booked");
    // The other one of the pair comes next, and the one after it 1.5 s later.
    assert_eq!(store.book(&wanting(2, SECOND, None)).unwrap().slots.len(), 1);
    assert_eq!(store.book(&wanting(1, 2 * SECOND, None)).unwrap().slots.len(), 1);
}

#[test]
fn what_is_given_back_is_lost_with_the_state_that_it_was_of() {
    let Some(frozen) = Frozen::start() else { return };
    let mut stores = [(); 2].map(|()| frozen.store("web", two_in_a_second_and_a_half()));
    let slots = stores[0].book(&some(4)).unwrap().slots;
    frozen.server.ask::<String>("FLUSHALL");
    assert_eq!(stores[1].book(&some(2)).unwrap().slots.len(), 2);
    stores[0].give_back(&giving_back(&slots[3..])).unwrap();
    assert!(stores[1].book(&some(1)).unwrap().slots.is_empty(), "all is silent");
}

#[test]
fn a_cost_that_never_fits_is_not_asked_for_again() {
    let Some(frozen) = Frozen::start() else { return };
    let order = Order { costs: [3].into(), ..some(1) };
    for (name, rate) in [("a", "2/s"), ("b", "2/s,algo=fixed")] {
        let answer = frozen.store(name, policy(&[rate])).book(&order).unwrap();
        assert_eq!((answer.slots.len(), answer.ask_again), (0, Some(Time(u64::MAX))), "{rate}");
    }
}

/// A second run with `start=empty` takes the state of the first as it is.
#[test]
fn a_new_state_may_start_empty_as_of_the_start_of_the_run() {
    for rate in [
        "2/s,start=empty",
        "2/s,start=empty,algo=interval",
        "2/s,start=empty,algo=fixed",
        "2/s,start=empty,algo=bucket",
    ] {
        let Some(mut frozen) = Frozen::start() else { return };
        let policy = Policy { horizon: 5_000_000_000, ..policy(&[rate]) };
        let mut first = frozen.store("web", policy.clone());
        let slot = first.book(&some(1)).unwrap().slots[0];
        let least = if rate.contains("interval") || rate.contains("bucket") { 500_000 } else { 1_000_000 };
        assert!(frozen.server_time(slot) - START >= least, "{rate}");
        frozen.pass(2_000_000);
        let at = frozen.local.load(Relaxed);
        assert_eq!(frozen.store("web", policy).book(&some(1)).unwrap().slots[0].at, Time(at), "{rate}");
        // The run continues with another key: that its own state was new no longer matters.
        assert_eq!(first.book(&keyed(b"other", 1)).unwrap().slots[0].at, Time(at), "{rate}");
    }
}

#[test]
fn nothing_is_kept_for_ever() {
    let Some(mut frozen) = Frozen::start() else { return };
    for algorithm in of_any_period() {
        let mut store = frozen.store(algorithm, policy(&[&format!("9/s,algo={algorithm}")]));
        for key in [&b""[..], b"a", b"b"] {
            store.book(&keyed(key, 1)).unwrap();
        }
    }
    let keys: Vec<Vec<u8>> = frozen.server.ask("KEYS *");
    let count = 3 * of_any_period().len();
    assert_eq!(keys.len(), count);
    assert!(keys.iter().all(|key| key.starts_with(b"throttle:")));
    frozen.pass(9_000_000);
    assert_eq!(frozen.server.ask::<Vec<Vec<u8>>>("KEYS *").len(), count);
    frozen.pass(60_000_000);
    let states = of_any_period().len();
    assert_eq!(frozen.server.ask::<Vec<Vec<u8>>>("KEYS *").len(), states);
    frozen.pass(30 * 86_400_000_000);
    assert_eq!(frozen.server.ask::<Vec<Vec<u8>>>("KEYS *").len(), 0);
}

#[test]
fn whoever_shares_a_name_has_to_mean_the_same_limits() {
    let Some(server) = RedisServer::start() else { return };
    store(&server.url("web"), &["10/s"]).book(&some(1)).unwrap();
    store(&server.url("web"), &["10/1000ms,start=empty"]).book(&some(1)).unwrap();
    let (exit, why) = failure(&mut store(&server.url("web"), &["11/s"]));
    assert_eq!(exit, Exit::BadState);
    assert!(why.contains("10/1s") && why.contains("11/1s"), "{why}");
    store(&server.url("other"), &["11/s"]).book(&some(1)).unwrap();
    store(&(server.url("web") + "?db=3"), &["11/s"]).book(&some(1)).unwrap();
}

#[test]
fn a_socket_and_a_database() {
    let Some(server) = RedisServer::start() else { return };
    let url = format!("unix://{}?name=web&db=2", server.socket().display());
    let (slots, answer) = book_out(&mut store(&url, &["4/h"]), &some(1));
    assert_eq!(slots.len(), 4);
    assert!(answer.ask_again.is_some());
    server.ask::<()>("SELECT 2");
    let databases: String = server.ask("INFO keyspace");
    assert!(databases.contains("db2:keys=1"), "{databases}");
}

/// The free slots and the next one are what a booking gets right then.
#[test]
fn the_status_says_what_would_be_booked() {
    let Some(mut frozen) = Frozen::start() else { return };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let rates = [
        "3/s",
        "7/2s,algo=fixed",
        "3/s,algo=interval",
        "7/s,algo=bucket",
        "3/s,algo=bucket,burst=8",
        "100/h",
    ];
    for (number, case) in (0..60).zip(rates.iter().cycle()) {
        let name = format!("status-{number}");
        let shared =
            Shared { state: State::parse(&frozen.server.url(&name)).unwrap(), timeout: 20_000_000_000 };
        assert!(
            Admin::of(&shared).unwrap().status(Box::new(|| Time(0))).unwrap().is_none(),
            "nothing is kept yet"
        );
        let mut store = frozen.store(&name, policy(&[case]));
        for _ in 0..random.u8(1..6) {
            store.book(&some(random.u64(1..4))).unwrap();
            frozen.pass(random.u64(0..1_500_000));
        }
        let told = Admin::of(&shared).unwrap().status(Box::new(|| Time(0))).unwrap().expect("a state");
        let limit = &told.limits[0];
        println!("{case}: {limit:?}");
        assert!(told.held.is_empty() && told.lock.is_none());
        let slots: Vec<_> = (0..=limit.free).flat_map(|_| store.book(&some(1)).unwrap().slots).collect();
        let free = slots.iter().filter(|slot| frozen.server_time(**slot) == frozen.micros()).count() as u64;
        assert_eq!(free, limit.free, "{slots:?}");
        // None is known beyond the horizon yet.
        if let Some(next) = slots.get(usize::try_from(free).unwrap()).filter(|_| free == 0) {
            assert_eq!(frozen.server_time(*next) - frozen.micros(), limit.next_in / 1000, "{slots:?}");
        }
    }
}

/// Otherwise nobody who asks for the name would learn that a key is held.
#[test]
fn a_name_lasts_as_long_as_a_key_is_held() {
    let Some(server) = RedisServer::start() else { return };
    let mut store = store(&server.url("web"), &["9/s,key=col:1"]);
    store.book(&keyed(b"a", 1)).unwrap();
    let day = 86_400 * SECOND;
    let hold = Time(now().0 + 60 * day);
    store.book(&keyed(b"a", 0).with(Task::Hold(hold))).unwrap();
    assert!(server.ask::<u64>("PTTL throttle:web") > 60 * day / 1_000_000);
}

/// Otherwise the next run could bring any others.
#[test]
fn limits_are_kept_for_a_month_and_keys_as_long_as_they_matter() {
    let Some(server) = RedisServer::start() else { return };
    let month = 30 * 86_400_000;
    for limit in ["9/s", "9/s,key=col:1"] {
        let mut store = store(&server.url("web"), &[limit]);
        store.book(&keyed(if limit == "9/s" { b"" } else { b"a" }, 1)).unwrap();
        assert!(server.ask::<u64>("PTTL throttle:web") > month, "{limit}");
        server.ask::<()>("FLUSHALL");
    }
    let state = State::parse(&server.url("set")).unwrap();
    let admin = Admin::of(&Shared { state, timeout: 20 * SECOND }).unwrap();
    admin.set_limits(&["9/s".parse().unwrap()], Box::new(now)).unwrap();
    assert!(server.ask::<u64>("PTTL throttle:set") > month - 60_000);
}
