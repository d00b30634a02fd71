//! Processes that release by the real clock, whatever happens to the server. All their windows are audited.

use std::thread;
use std::time::Duration;

use super::client::{Crowd, audit, store};
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
        // What is booked now is lost.
        thread::sleep(Duration::from_millis(20));
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
