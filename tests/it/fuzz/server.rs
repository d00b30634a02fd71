//! Random answers from a server.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use throttle::charge::Key;
use throttle::config::Rate;
use throttle::store::{Answer, Order, Policy, RedisStore, Reserve, Store, Turn, book_over};
use throttle::time::{SECOND, Time};

/// Whatever a server answers, there is an error, or slots as asked for: not before now, not beyond the horizon, and not
/// good for longer than the limits allow.
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
    store: RedisStore,
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
        let store = RedisStore::new(server, policy.clone(), Duration::ZERO, now);
        let key = if kind & 32 == 0 { Key::new() } else { Key::from_slice(b"key") };
        Client { has_login, key, turn: None, store, policy, clock }
    }

    /// Returns the number of slots it got.
    fn check_booking(&mut self, answers: &[u8], count: u64) -> usize {
        let costs = vec![1; self.policy.quotas.len()];
        let order = Order { turn: self.turn, ..Order::new(self.key.clone(), costs, count) };
        // Every connection gives the same answers.
        let (ours, _theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| answering(answers)).unzip();
        let before = self.clock.load(Relaxed);
        let answer = book_over(&mut self.store, ours, &order);
        let after = self.clock.load(Relaxed);
        match answer {
            Ok(answer) => {
                self.check(&answer, count, Time(before), Time(after));
                self.turn = answer.turn;
                let unused = answer.slots.get(1..).unwrap_or_default();
                self.store.give_back(&order, unused).expect("it is tried, at most");
                answer.slots.len()
            }
            Err(error) => {
                check_words(&error.to_string());
                0
            }
        }
    }

    fn check(&self, answer: &Answer, count: u64, before: Time, after: Time) {
        let Policy { horizon, deadline, .. } = self.policy;
        assert!(answer.slots.len() as u64 <= count, "{answer:?}");
        assert!(answer.slots.is_sorted_by_key(|slot| slot.at), "{answer:?}");
        for slot in &answer.slots {
            assert!(before <= slot.at && slot.at <= slot.until, "{answer:?}");
            assert!(slot.at.since(after) <= horizon && slot.until.since(slot.at) <= deadline, "{answer:?}");
        }
        assert!(answer.ask_again.is_none_or(|at| at > before), "{answer:?}");
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

/// Bytes that are turned into numbers; after the last, all are 0.
struct Numbers<'a> {
    rest: &'a [u8],
}

impl Numbers<'_> {
    /// A booking with everything that precedes it, twice, as the client may ask twice.
    fn answers(&mut self, client: &Client) -> Vec<u8> {
        let login = if client.has_login { "+OK\r\n+OK\r\n" } else { "" };
        let (now, limits) = (client.clock.load(Relaxed) / 1000, client.policy.quotas.len());
        let nodes = ["-ERR no cluster\r\n", "*0\r\n", NODES, "$-1\r\n"];
        let is_new = self.byte() & 1 == 0;
        let nodes = nodes[usize::from(self.byte()) % nodes.len()];
        let claimed = if is_new && !client.key.is_empty() { self.booked(now, 0) } else { String::new() };
        let near = if is_new { self.booked(now, 0) } else { String::new() };
        let [booked, again] = [self.booked(now, limits), self.booked(now, limits)];
        [login, nodes, &near, &claimed, &booked, &again].concat().into_bytes()
    }

    fn booked(&mut self, now: u64, limits: usize) -> String {
        let now = self.about(i64::try_from(now).expect("not in centuries"));
        let again = if self.byte() & 1 == 0 { 0 } else { self.about(now) };
        let (found, count) = (self.byte() % 5, self.byte());
        let slots: Vec<_> = (0..count).map(|_| format!(":{}\r\n", self.about(now))).collect();
        let count_seen = if self.byte() == u8::MAX { 0 } else { limits };
        let seen: Vec<_> = (0..count_seen).map(|_| self.seen(now)).collect();
        let (turn, bits) = (self.byte(), self.byte());
        let held = if bits & 2 == 0 { 0 } else { self.about(now) };
        format!(
            "*9\r\n:{now}\r\n:{again}\r\n:{found}\r\n*{count}\r\n{}*{count_seen}\r\n{}:{turn}\r\n:{}\r\n\
             :{held}\r\n:{again}\r\n",
            slots.concat(),
            seen.concat(),
            bits & 1
        )
    }

    fn seen(&mut self, now: i64) -> String {
        let [epoch, times, stamp] = [self.about(1), self.about(1), self.about(1)];
        let [newest, settled] = [self.about(now), self.about(now)];
        let [late, close] = if self.byte() & 1 == 0 { [0, 0] } else { [self.about(1), self.about(now)] };
        format!(
            "*7\r\n:{epoch}\r\n:{times}\r\n:{stamp}\r\n:{newest}\r\n:{settled}\r\n:{late}\r\n:{close}\r\n"
        )
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
