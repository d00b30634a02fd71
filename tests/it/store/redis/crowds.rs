//! Processes that release by the real clock, whatever happens to the server. All their windows are audited.

use std::time::Duration;
use std::{env, thread};

use fastrand::Rng;
use throttle::time::Time;

use super::client::{Crowd, audit, now, store};
use super::proxy::Proxy;
use super::server::{Clock, RedisServer};
use crate::support::eventually;

const COUNT: usize = 20;
const PERIOD: u64 = 250_000_000;
const RATE: &str = "20/250ms,margin=40ms";

/// Lets a crowd release, disturbs it, and checks that it goes on and never exceeds the limit.
#[track_caller]
pub(super) fn goes_on_without_a_burst(size: usize, url: &str, disturb: impl FnOnce()) -> Vec<String> {
    let crowd = Crowd::start(size, || store(url, &[RATE]));
    // A process that has had no answer yet would not notice the disturbance.
    eventually("it releases", || crowd.released() > 2 * COUNT && crowd.has_answers());
    disturb();
    let so_far = crowd.released();
    eventually("it goes on", || crowd.released() > so_far + 2 * COUNT);
    let (released, warnings) = crowd.finish();
    audit(&released, COUNT, PERIOD);
    warnings
}

#[test]
fn eight_share_a_limit() {
    let Some(server) = RedisServer::start() else { return };
    let warnings = goes_on_without_a_burst(8, &server.url("web"), || ());
    assert_eq!(warnings, [""; 0]);
}

/// Disturbs a crowd and its server until somebody reports it: on a busy machine, all earlier bookings may be over by
/// then.
fn is_told(told: &str, disturb: impl Fn(&RedisServer, &Clock)) {
    eventually(told, || {
        let Some((server, clock)) = RedisServer::start_with_clock(&[]) else { return true };
        let warnings = goes_on_without_a_burst(3, &server.url("web"), || disturb(&server, &clock));
        warnings.iter().any(|warning| warning.contains(told))
    });
}

#[test]
fn the_server_forgets_everything() {
    is_told("lost", |server, _| server.ask("FLUSHALL"));
}

#[test]
fn the_server_is_killed_and_comes_back_with_nothing() {
    let Some(mut server) = RedisServer::start() else { return };
    let url = server.url("web");
    goes_on_without_a_burst(3, &url, || {
        server.kill();
        server.restart();
    });
}

#[test]
fn a_replica_takes_over() {
    let Some(mut old) = RedisServer::start() else { return };
    let Some(new) = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", old.port)]) else {
        return;
    };
    eventually("it replicates", || new.ask::<String>("INFO replication").contains("master_link_status:up"));
    let way = Proxy::new(old.port, Duration::ZERO);
    let url = format!("redis://127.0.0.1:{}/web", way.port);
    goes_on_without_a_burst(3, &url, || {
        new.ask::<()>("REPLICAOF NO ONE");
        // What is booked now is lost. All runs book something, so the first to ask the new master knows of it.
        thread::sleep(Duration::from_millis(300));
        old.kill();
        way.lead_to(new.port);
    });
}

#[test]
fn the_servers_clock_is_set_forward_by_a_little() {
    is_told("set forward", |_, clock| clock.step(100_000));
}

#[test]
fn the_servers_clock_is_set_forward_by_a_day() {
    is_told("set forward", |_, clock| clock.step(86_400_000_000));
}

#[test]
fn the_servers_clock_is_set_back_by_a_day() {
    is_told("set back", |_, clock| clock.step(-86_400_000_000));
}

/// Long before the loss is over that the first step brings.
#[test]
fn the_servers_clock_is_set_forward_and_then_back_by_a_day() {
    is_told("set forward", |_, clock| {
        clock.step(3_000_000);
        thread::sleep(Duration::from_millis(500));
        clock.step(-86_400_000_000);
    });
}

/// Names with a limit of 4/100ms each, and how many may go at once before the rate counts. By sliding windows, that is
/// checked apart.
const SOAKED: [(&str, &str, u64); 3] = [
    ("sliding", "4/100ms,margin=20ms", 4),
    ("bucket", "4/100ms,algo=bucket,burst=3,margin=20ms", 3),
    ("interval", "4/100ms,algo=interval,margin=20ms", 1),
];

/// Whatever happens to a real server, one thing after the other: for two seconds, or as many as `THROTTLE_SOAK` says.
/// On a simulated clock, `fleet::losses` tries far more.
#[test]
fn losses_in_a_row_bring_no_burst() {
    let Some(mut server) = RedisServer::start() else { return };
    let seconds = env::var("THROTTLE_SOAK").map_or(2, |text| text.parse().expect("a number of seconds"));
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let crowds = SOAKED.map(|(name, rate, _)| Crowd::start(6, || store(&server.url(name), &[rate])));
    let has_heard_since = |at| crowds.iter().all(|crowd| crowd.has_heard_since(at));
    eventually("there are answers", || has_heard_since(Time::ZERO));
    let (end, mut aside) = (now().0 + seconds * 1_000_000_000, Aside::Nothing);
    while now().0 < end {
        let pause = Duration::from_millis(random.u64(0..1200));
        aside = suffer(&mut server, &mut random, pause, aside, has_heard_since);
        thread::sleep(pause);
    }
    for ((name, _, burst), crowd) in SOAKED.iter().zip(crowds) {
        let (released, _) = crowd.finish();
        println!("{name}: {} released", released.len());
        if *name == "sliding" {
            audit(&released, 4, 100_000_000);
            continue;
        }
        for (first, early) in released.iter().enumerate() {
            for (more, late) in released[first..].iter().enumerate() {
                let paid = (more as u64 + 1).saturating_sub(*burst);
                assert!((late - early) * 4 >= paid * 100_000_000, "{name}: {early} {late} {more}");
            }
        }
    }
}

/// States that were moved away. Once they lack a booking, they come back only after all members have heard of it.
#[derive(Clone, Copy)]
enum Aside {
    Nothing,
    /// Moved at this instant.
    Moved(Time),
    /// By this instant, everything is booked anew.
    Lacking(Time),
}

fn suffer(
    server: &mut RedisServer,
    random: &mut Rng,
    pause: Duration,
    aside: Aside,
    has_heard_since: impl Fn(Time) -> bool,
) -> Aside {
    let of_all = |server: &RedisServer, command: &str| {
        for (name, ..) in SOAKED {
            let _ = server.try_ask::<::redis::Value>(&command.replace("STATE", &format!("throttle:{name}")));
        }
    };
    match (random.u8(..10), aside) {
        (0, _) => of_all(server, "DEL STATE"),
        (1, _) => of_all(server, "PEXPIRE STATE 100"),
        (2, _) => of_all(server, "FLUSHALL"),
        (3, _) => of_all(server, "SCRIPT FLUSH"),
        (4, _) => of_all(server, "CLIENT KILL TYPE normal"),
        (5, _) => server.stop_for(pause),
        (6, _) => {
            of_all(server, "CONFIG SET maxmemory 1");
            thread::sleep(pause);
            of_all(server, "CONFIG SET maxmemory 0");
        }
        (7, _) => {
            server.kill();
            thread::sleep(pause);
            server.restart();
        }
        (_, Aside::Nothing) => {
            of_all(server, "RENAME STATE STATE-aside");
            return Aside::Moved(now());
        }
        (_, Aside::Moved(at)) if has_heard_since(at) => return Aside::Lacking(now()),
        (_, Aside::Lacking(at)) if has_heard_since(at) => {
            of_all(server, "RENAME STATE-aside STATE");
            return Aside::Nothing;
        }
        _ => {}
    }
    aside
}
