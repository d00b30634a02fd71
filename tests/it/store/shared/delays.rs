//! Bookings in which one system call takes longer than a period. Meanwhile another process uses its slot and is killed,
//! is stopped, or books.
//!
//! By default only a few calls are delayed; `THROTTLE_CASES` sets another number.

use std::fs;
use std::io::PipeWriter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGSTOP};

use super::seen::{Seen, Watch, is_exceeded};
use super::state;
#[cfg(feature = "redis")]
use crate::store::redis::{proxy::Proxy, server::RedisServer};
use crate::strace::needs_strace;
use crate::support::{Directory, Running, THROTTLE, pipe, seeds};

/// Slots are two periods apart, and good for one.
const RATE: &str = "-r1/300ms,margin=300ms";
const PERIOD: Duration = Duration::from_millis(300);

/// From just after one release to just after the next.
const DELAY: Duration = Duration::from_millis(650);

/// What happens to the other process meanwhile.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Killed,
    Stopped,
    Busy,
}

const FATES: [Fate; 3] = [Fate::Killed, Fate::Stopped, Fate::Busy];

/// A system call of the thread that books, and its number among the calls of its kind.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    when: usize,
}

/// A traced process in its own directory, and another one that shares the limit.
struct Pair {
    directory: Directory,
    delayed: Running,
    other: Running,
    watch: Watch,
}

impl Pair {
    /// Both have released something, and the other one has booked the next slot. Each has its own name for the state.
    fn start(directory: Directory, mut delayed: Command, states: [&str; 2]) -> Self {
        let (reader, writer) = pipe();
        let watch = Watch::start(reader);
        let mut delayed = start(&mut delayed, states[0], &writer);
        delayed.write("1\n");
        watch.wait_for(1);
        let mut other = start(&mut Command::new(THROTTLE), states[1], &writer);
        other.write("2\n3\n");
        watch.wait_for(2);
        thread::sleep(PERIOD / 10);
        Pair { directory, delayed, other, watch }
    }

    /// One of them is traced, and one of its calls may be delayed. The state is in a file unless it is given.
    fn traced(strace: &Path, state: Option<&str>, delay: Option<&Call>) -> Self {
        let (directory, own) = self::state();
        let state = state.unwrap_or(&own);
        let mut traced = Command::new(strace);
        // Without -D, the kill at the end would hit strace.
        traced.args(["-D", "-f", "-qq", "-o"]).arg(directory.path().join("trace"));
        match delay {
            None => traced.args(["-e", "trace=%desc,%file,%network,prctl"]),
            Some(Call { name, when, .. }) => {
                let delay = DELAY.as_micros();
                let inject = format!("inject={name}:delay_enter={delay}:when={when}");
                traced.args(["-e", &format!("trace={name}"), "-e", &inject])
            }
        };
        traced.arg(THROTTLE);
        Pair::start(directory, traced, [state, state])
    }

    /// Lets the delayed process book while something happens to the other one.
    fn book(&mut self, fate: Fate) {
        self.delayed.write("4\n");
        match fate {
            Fate::Killed => {
                self.watch.wait_for(3);
                self.other.signal(SIGKILL);
            }
            Fate::Stopped => {
                thread::sleep(PERIOD / 10);
                self.other.signal(SIGSTOP);
                thread::sleep(DELAY);
                self.other.signal(SIGCONT);
            }
            Fate::Busy => {
                self.other.write("5\n6\n7\n");
                thread::sleep(DELAY);
            }
        }
        thread::sleep(PERIOD);
    }

    fn trace(&self) -> String {
        fs::read_to_string(self.directory.path().join("trace")).expect("a trace")
    }

    fn finish(self) -> Vec<Seen> {
        let Pair { delayed, other, watch, .. } = self;
        [delayed, other].into_iter().for_each(|running| {
            let _ = nix::sys::signal::kill(running.pid(), SIGKILL);
            drop(running);
        });
        watch.finish()
    }
}

fn start(command: &mut Command, state: &str, writer: &PipeWriter) -> Running {
    let stdout = writer.try_clone().expect("a descriptor");
    Running::spawn(command.args([RATE, "-q", "-s", state]).stdin(Stdio::piped()).stdout(stdout))
}

/// The calls of one booking of a process that has booked before.
fn calls_of_a_booking(strace: &Path, state: Option<&str>) -> Vec<Call> {
    let mut pair = Pair::traced(strace, state, None);
    let before = pair.trace().lines().count();
    pair.delayed.write("4\n");
    pair.watch.wait_for(4);
    let trace = pair.trace();
    let _ = pair.finish();
    let name = "prctl(PR_SET_NAME, \"store\"";
    let thread = trace.lines().find(|line| line.contains(name)).and_then(|line| line.split_once(' '));
    let thread = thread.expect("a thread that books").0;
    let calls = trace.lines().enumerate().filter_map(|(number, line)| {
        let (_, call) = line.split_once(' ').filter(|(of, _)| *of == thread)?;
        let (name, _) = call.trim_start().split_once('(').filter(|(name, _)| !name.contains('<'))?;
        Some((number, name))
    });
    let mut counts = std::collections::HashMap::<&str, usize>::new();
    let counted = calls.map(|(number, name)| {
        let when = counts.entry(name).or_default();
        *when += 1;
        (number, Call { name: name.to_owned(), when: *when })
    });
    counted.filter(|(number, _)| *number >= before).map(|(_, call)| call).collect()
}

/// Delays some calls, all at the same time.
fn delay(strace: &Path, state: impl Fn(u64) -> Option<String> + Sync, calls: &[(u64, Call, Fate)]) {
    thread::scope(|scope| {
        for (seed, call, fate) in calls {
            let state = &state;
            scope.spawn(move || {
                let mut pair = Pair::traced(strace, state(*seed).as_deref(), Some(call));
                pair.book(*fate);
                let seen = pair.finish();
                assert!(!is_exceeded(&seen, 1, PERIOD), "seed {seed}: {call:?}, {fate:?}: {seen:?}");
            });
        }
    });
}

fn random(calls: &[Call], cases: u64) -> Vec<(u64, Call, Fate)> {
    let case = |seed| {
        let mut random = Rng::with_seed(seed);
        let call = random.choice(calls).expect("some").clone();
        (seed, call, *random.choice(&FATES).expect("three"))
    };
    seeds(cases).map(case).collect()
}

#[test]
fn no_window_is_exceeded_however_long_a_call_to_a_file_takes() {
    let Some(strace) = needs_strace() else { return };
    let calls = calls_of_a_booking(&strace, None);
    println!("{} calls", calls.len());
    random(&calls, 4).chunks(8).for_each(|cases| delay(&strace, |_| None, cases));
}

#[cfg(feature = "redis")]
#[test]
fn no_window_is_exceeded_however_long_a_call_to_a_server_takes() {
    let (Some(strace), Some(server)) = (needs_strace(), RedisServer::start()) else { return };
    let calls = calls_of_a_booking(&strace, Some(&server.url("trial")));
    println!("{} calls", calls.len());
    let url = |seed| Some(server.url(&format!("case-{seed}")));
    random(&calls, 3).chunks(8).for_each(|cases| delay(&strace, url, cases));
}

/// A question and its answer are delayed: some answers are of use, others come too late.
#[cfg(feature = "redis")]
#[test]
fn no_window_is_exceeded_however_long_the_way_to_a_server_is() {
    let Some(server) = RedisServer::start() else { return };
    let late = |seed| {
        let mut random = Rng::with_seed(seed);
        let way = Proxy::new(server.port, Duration::ZERO);
        let near = server.url(&format!("way-{seed}"));
        let far = near.replace(&server.port.to_string(), &way.port.to_string());
        let mut pair = Pair::start(Directory::new(), Command::new(THROTTLE), [&far, &near]);
        let delay = DELAY.mul_f64(random.f64() / 2.0);
        way.set_delay(delay);
        let fate = *random.choice(&FATES).expect("three");
        pair.book(fate);
        let seen = pair.finish();
        assert!(!is_exceeded(&seen, 1, PERIOD), "seed {seed}: {delay:?}, {fate:?}: {seen:?}");
    };
    let late = &late;
    let seeds: Vec<_> = seeds(4).collect();
    for some in seeds.chunks(8) {
        thread::scope(|scope| some.iter().for_each(|&seed| _ = scope.spawn(move || late(seed))));
    }
}
