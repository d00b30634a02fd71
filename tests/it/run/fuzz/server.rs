//! Random answers from a server.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use throttle::charge::Key;
use throttle::config::Rate;
use throttle::store::ledger::BookingRules;
use throttle::store::record::Record;
use throttle::store::vault::Origin;
use throttle::store::{
    Answer, Hold, Order, Policy, Reserve, ServerVault, Store, Task, Turn, VaultStore, Wanted, book_over,
};
use throttle::time::{SECOND, Time, Wall};

/// Whatever a server answers, there is an error, or slots as asked for: not beyond the horizon, and not good for longer
/// than the limits allow.
///
/// The first byte chooses whether the others are the answers themselves or the numbers in well-formed answers.
///
/// # Panics
/// If that is not so.
pub fn server(data: &[u8]) {
    slots(data);
}

/// The number of slots booked.
///
/// # Panics
/// As [`server`].
pub fn slots(data: &[u8]) -> usize {
    let Some((&kind, rest)) = data.split_first() else { return 0 };
    let mut client = Client::new(kind);
    let mut numbers = Numbers { rest };
    let mut booked = 0;
    for count in [1, 5, 100] {
        let answers = if kind & 1 == 0 { rest.to_vec() } else { numbers.answers(&client) };
        booked += client.check_booking(&answers, count);
        client.clock.fetch_add(SECOND / 2, Relaxed);
    }
    booked
}

/// A process that books slots.
struct Client {
    has_login: bool,
    key: Key,
    turn: Option<Turn>,
    store: VaultStore,
    policy: Policy,
    clock: Arc<AtomicU64>,
}

impl Client {
    /// A client with some of the following: a password, a database, slow answers and limits.
    fn new(kind: u8) -> Self {
        let has_login = kind & 2 != 0;
        let login = if has_login { "&user=u&password=p&db=3" } else { "" };
        let server = format!("unix:///socket?name=n{login}").parse().expect("a server");
        let round_trip = if kind & 4 == 0 { 0 } else { 1_000_000 };
        let rates: &[&str] = match kind >> 3 & 3 {
            0 => &["100/s"],
            1 => &["7/3s,algo=interval", "100/m,algo=fixed"],
            2 => &["100/s,algo=bucket"],
            _ => &["5000/s,start=empty", "9/d"],
        };
        let rates: Vec<_> = rates.iter().map(|text| rate(text)).collect();
        let policy = Policy::new(&rates, Reserve::REMOTE);
        let clock = Arc::new(AtomicU64::new(1000 * SECOND));
        let shown = Arc::clone(&clock);
        let now = move || Time(shown.fetch_add(round_trip, Relaxed));
        let store = VaultStore::over(ServerVault::new(server, Duration::ZERO, Box::new(now)), policy.clone());
        let store = store.expect("it is not asked yet");
        let key = if kind & 32 == 0 { Key::new() } else { Key::from_slice(b"key") };
        Client { has_login, key, turn: None, store, policy, clock }
    }

    /// Returns the number of slots it got.
    fn check_booking(&mut self, answers: &[u8], count: u64) -> usize {
        let costs = vec![1; self.policy.quotas.len()];
        let task = Task::Book(Wanted { count, within: u64::MAX, turn: self.turn, ..Wanted::default() });
        let order = Order::new(self.key.clone(), costs, count).with(task);
        // Every connection gives the same answers.
        let (ours, _theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| answering(answers)).unzip();
        let answer = book_over(&mut self.store, ours, &order);
        let after = self.clock.load(Relaxed);
        match answer {
            Ok(answer) => {
                self.check(&answer, count, Time(after));
                self.turn = answer.turn;
                let unused = answer.slots.get(1..).unwrap_or_default();
                let back = order.with(Task::GiveBack(unused.into(), answer.turn));
                if let Err(error) = self.store.give_back(&back) {
                    check_words(&error.to_string());
                }
                answer.slots.len()
            }
            Err(error) => {
                check_words(&error.to_string());
                0
            }
        }
    }

    fn check(&self, answer: &Answer, count: u64, after: Time) {
        let Policy { horizon, validity, .. } = self.policy;
        assert!(answer.slots.len() as u64 <= count, "{answer:?}");
        assert!(answer.slots.is_sorted_by_key(|slot| slot.at), "{answer:?}");
        for slot in &answer.slots {
            // A server whose clock is behind gives slots that have begun.
            assert!(slot.at <= slot.until, "{answer:?}");
            assert!(
                slot.at.since(after) <= horizon + validity && slot.until.since(slot.at) <= validity,
                "{answer:?}"
            );
        }
        assert!(!answer.slots.is_empty() || answer.ask_again.is_some(), "{answer:?}");
        check_words(answer.warning.as_deref().unwrap_or("words"));
    }
}

/// Both ends of a stream on which all answers have been written.
fn answering(answers: &[u8]) -> (UnixStream, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    theirs.write_all(answers).and_then(|()| theirs.shutdown(Shutdown::Write)).expect("answered");
    (ours, theirs)
}

fn rate(text: &str) -> Rate {
    text.parse().expect("a rate")
}

/// The text contains nothing that a terminal would obey.
fn check_words(text: &str) {
    assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
}

/// Two nodes of a cluster, with half of the keys each.
const NODES: &str =
    "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\na\r\n:1\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nb\r\n:2\r\n";

/// More answers than a booking takes, with another one when it is refused.
const ANSWERS: usize = 12;

/// An instant given in microseconds.
fn time(micros: i64) -> Time {
    Time(u64::try_from(micros).unwrap_or(0).saturating_mul(1000))
}

/// Bytes that are turned into numbers; after the last, all are 0.
struct Numbers<'a> {
    rest: &'a [u8],
}

impl Numbers<'_> {
    /// What precedes a booking, and more answers of the script than one takes.
    fn answers(&mut self, client: &Client) -> Vec<u8> {
        let login = if client.has_login { "+OK\r\n+OK\r\n" } else { "" };
        let nodes = ["-ERR no cluster\r\n", "*0\r\n", NODES, "$-1\r\n"];
        let nodes = nodes[usize::from(self.byte()) % nodes.len()];
        let mut answers = [login, nodes].concat().into_bytes();
        (0..ANSWERS).for_each(|_| answers.extend(self.answer(client)));
        answers
    }

    /// An answer of the script, to whatever question. One of zeros is that there is no value, or that one was swapped.
    fn answer(&mut self, client: &Client) -> Vec<u8> {
        let now = i64::try_from(client.clock.load(Relaxed) / 1000).expect("not in centuries");
        let [now, began] = [(); 2].map(|()| self.about(now));
        let kind = self.byte();
        let value = match kind % 8 {
            0..=4 => Vec::new(),
            5 | 6 => self.record(client, began).encode(&client.key, time(began)),
            _ => {
                let key = if self.byte() & 1 == 0 { b"" } else { &*client.key };
                let mut value = self.record(client, began).encode(key, time(now));
                let at = usize::from(self.byte()) * value.len() / 256;
                value[at] ^= self.byte() & 1;
                value
            }
        };
        // Swapped, or whatever else may become of a swap.
        let (outcome, told) = match kind >> 4 {
            _ if kind & 8 == 0 => (1, Vec::new()),
            0 => (3, Vec::new()),
            other @ 1..8 => (other % 6, vec![self.words(began, now)]),
            other => (other % 6, vec!["7".to_owned(), self.words(began, now)]),
        };
        let strings = told.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let told = format!("\r\n*{}\r\n{}", told.len(), strings.collect::<String>());
        let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
        let length = value.len();
        let head = format!("*5\r\n:{seconds}\r\n:{micros}\r\n:{outcome}\r\n${length}\r\n");
        [head.as_bytes(), &value, told.as_bytes()].concat()
    }

    /// The request of another process, or its reply, with numbers that may not be true.
    fn words(&mut self, began: i64, now: i64) -> String {
        let [epoch, decided, slot, again] = [began, now, now, now].map(|at| time(self.about(at)).0);
        let (count, cost, packed) =
            (self.byte(), self.byte() % 3, "_AAB".repeat(usize::from(self.byte() % 3)));
        match self.byte() % 4 {
            0 => String::new(),
            1 => {
                let first = format!(
                    r#"{{"limits":{count},"costs":[{cost}],"count":{count},"within":{slot},"turn":{again}"#
                );
                first
                    + &format!(
                        r#","overrun":{slot},"hold":{again},"late":[{slot}],"returned":[[{epoch},0,{slot}]]}}"#
                    )
            }
            _ => {
                let first = format!(
                    r#"{{"epoch":{epoch},"decided":{decided},"slots":"{packed}","ask_again":{again}"#
                );
                let rest = format!(r#""overruns":{{"costs":[{cost}],"until":{slot}}},"wall":null}}"#);
                first + &format!(r#","next":{slot},"turn":{slot},"held":{again},{rest}"#)
            }
        }
    }

    /// A record with some bookings, and numbers in it that may not be true.
    fn record(&mut self, client: &Client, began: i64) -> Record {
        let rules = BookingRules::new(client.policy.clone());
        let mut ledger = rules.begin(time(began));
        for _ in 0..self.byte() % 4 {
            let order =
                Order::new(client.key.clone(), vec![1; client.policy.quotas.len()], self.byte().into());
            let now = time(self.about(began));
            let slots = rules.book(&mut ledger, now, &order).slots;
            let unused = slots.iter().skip(self.byte().into()).map(|slot| slot.at);
            rules.give_back(&mut ledger, now, &order.costs, unused);
        }
        let mut record =
            Record::new(&client.policy.text, Origin::default(), Wall::EPOCH, time(began), ledger);
        let numbers = self.byte();
        let is_in = |bit: u8| numbers >> bit & 1 == 1;
        if is_in(0) {
            record.quarantine = Some(time(self.about(began)));
        }
        if is_in(1) {
            record.hold = Hold::new(time(began), time(self.about(began)));
        }
        if is_in(2) {
            // It is never before a slot that was given back.
            record.ledger.newest = record.ledger.newest.max(time(self.about(began)));
            record.ledger.turns = time(self.about(began));
        }
        if is_in(3) {
            (record.era, record.idle) = (time(self.about(began)).0, time(self.about(began)));
        }
        record
    }

    /// `number`, or mostly a little more.
    fn about(&mut self, number: i64) -> i64 {
        match self.byte() {
            byte @ ..224 => number.saturating_add(i64::from(byte) * 1000),
            byte @ 224..248 => number.saturating_add(1 << (2 * (byte - 224))),
            248 => number.saturating_sub(1),
            249 => 0,
            250 => -1,
            251 => -2,
            252 => 1 << 53,
            253 => i64::MIN,
            _ => i64::MAX,
        }
    }

    fn byte(&mut self) -> u8 {
        self.rest.split_off_first().copied().unwrap_or(0)
    }
}
