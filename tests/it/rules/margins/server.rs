//! A real server that counts in a true sliding window.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::hint;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::support::{Directory, THROTTLE, needs_program};

const SECOND: Duration = Duration::from_secs(1);

/// The margin of limits per second.
const MARGIN: Duration = Duration::from_millis(20);

/// The requests that a server got.
#[derive(Default)]
struct Requests {
    /// The arrivals of those that it admitted in the last period, in nanoseconds since 1970.
    recent: VecDeque<u64>,
    /// By its item: the arrival of each, and those that made it a refusal: the arrivals in the period before it.
    all: BTreeMap<u64, (u64, Option<VecDeque<u64>>)>,
}

impl Requests {
    /// Counts a request that arrives at `at`. Returns the earlier ones that it is refused for.
    fn judge(&mut self, at: u64, count: usize, period: u64) -> Option<VecDeque<u64>> {
        self.recent.retain(|other| at - other < period);
        if self.recent.len() >= count {
            return Some(self.recent.clone());
        }
        self.recent.push_back(at);
        None
    }
}

/// Starts a server that admits `count` requests in any `period`. A request is the number of an item on a line.
fn serve(count: usize, period: u64) -> (u16, Arc<Mutex<Requests>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Requests::default()));
    let shared = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap();
            let full = shared.lock().unwrap().judge(at, count, period);
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut item = String::new();
                let _ = BufReader::new(&stream).read_line(&mut item);
                let status = if full.is_some() { 429 } else { 200 };
                shared.lock().unwrap().all.insert(item.trim().parse().unwrap(), (at, full));
                let _ = writeln!(stream, "{status}");
            });
        }
    });
    (port, requests)
}

/// Makes `number` requests, each 5 to 40 ms after its command has started, or later if the machine is busy. `option` is
/// one of the limit. Returns the number of refusals. Each must have had a latency that is shorter by more than the
/// margin than that of one before.
fn refusals((count, period): (usize, Duration), option: &str, margin: Duration, number: u64) -> usize {
    let nanos = u64::try_from(period.as_nanos()).unwrap();
    let (port, requests) = serve(count, nanos);
    let (directory, mut random) = (Directory::new(), Rng::with_seed(7));
    let log = directory.path().join("log");
    let items: Vec<_> = (0..number).map(|_| format!("0.{:03}\n", random.u64(5..=40))).collect();
    let script = "sleep $1; exec 3<>/dev/tcp/127.0.0.1/$2; echo $THROTTLE_SEQ >&3; read -r status <&3";
    let mut command = Command::new(THROTTLE);
    command.arg(format!("-r{count}/{}ns{option}", period.as_nanos())).arg("-j50").arg("--log").arg(&log);
    command.args(["--", "bash", "-c", script, "bash", "{}", &port.to_string()]);
    let input = fs::File::open(directory.file("items", items.concat())).unwrap();
    assert!(command.stdin(input).status().unwrap().success());
    let log = fs::read_to_string(log).unwrap();
    let starts: BTreeMap<u64, u64> = log.lines().skip(1).map(start).collect();
    let all = &requests.lock().unwrap().all;
    assert_eq!(all.len() as u64, number);
    let latencies: BTreeMap<u64, i128> =
        all.iter().map(|(item, (at, _))| (*at, i128::from(*at) - i128::from(starts[item]))).collect();
    let refused = all.values().filter_map(|(at, full)| Some((at, full.as_ref()?)));
    let least = i128::try_from(margin.as_nanos()).unwrap();
    let check = |(at, full): (&u64, &VecDeque<u64>)| {
        let all = full.iter().chain([at]).map(|at| latencies[at]);
        let spread = all.clone().max().unwrap() - all.min().unwrap();
        assert!(spread > least, "refused at {at}, though latencies vary by no more than {spread} ns");
    };
    refused.map(check).count()
}

/// The number of an item and its start, in nanoseconds since 1970, in a row of the log.
fn start(row: &str) -> (u64, u64) {
    let mut columns = row.split('\t');
    let (item, start) = (columns.next().unwrap(), columns.next().unwrap());
    (item.parse().unwrap(), start.replace('.', "").parse().unwrap())
}

/// Ends busy loops, also when a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_request_is_refused_only_if_latencies_vary_by_more_than_the_margin() {
    if needs_program("bash").is_some() {
        refusals((20, SECOND), "", MARGIN, 50);
    }
}

/// A request arrives before its command ends, however long it takes.
#[test]
fn none_is_refused_if_the_period_runs_from_the_ends_of_commands() {
    if needs_program("bash").is_some() {
        assert_eq!(refusals((20, SECOND), ",from=exit", MARGIN, 50), 0);
    }
}

/// If `THROTTLE_REQUESTS` is the number of requests at each rate, prints how many are refused on a busy machine: with
/// 1000, that takes ten minutes.
#[test]
fn how_many_of_many_requests_are_refused() {
    let Some(number) = std::env::var("THROTTLE_REQUESTS").ok().map(|number| number.parse().unwrap()) else {
        return;
    };
    let is_over = AtomicBool::new(false);
    let print = |count, period, margin| {
        let refused = |option, margin| refusals((count, period), option, margin, number);
        thread::scope(|scope| {
            let none = scope.spawn(|| refused(",margin=0", Duration::ZERO));
            let exit = scope.spawn(|| refused(",from=exit", margin));
            let default = refused("", margin);
            let (none, exit) = (none.join().unwrap(), exit.join().unwrap());
            eprintln!(
                "{count}/{period:?}, {number} requests: refused {default}, with margin=0 {none}, from=exit {exit}"
            );
            assert!(none > 0 && exit == 0);
        });
    };
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let minutes = scope.spawn(|| print(100, 60 * SECOND, Duration::from_millis(50)));
        print(5, SECOND, MARGIN);
        print(20, SECOND, MARGIN);
        minutes.join().unwrap();
    });
}
