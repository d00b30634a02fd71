//! A master named by a sentinel: first one server, then another.

use std::time::Duration;

use throttle::exit::Exit;

use super::client::impatient_failure;
use super::crowds::goes_on_without_a_burst;
use super::server::RedisServer;
use crate::support::eventually;

fn url(sentinel: &RedisServer, master: &str) -> String {
    sentinel.url(&format!("{master}/web")).replace("redis:", "redis+sentinel:")
}

#[test]
fn a_sentinel_promotes_a_replica() {
    let (Some(old), Some(sentinel)) = (RedisServer::start(), RedisServer::start_with(&["--sentinel"])) else {
        return;
    };
    let Some(new) = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", old.port)]) else {
        return;
    };
    eventually("it replicates", || new.ask::<String>("INFO replication").contains("master_link_status:up"));
    sentinel.ask::<()>(&format!("SENTINEL MONITOR main 127.0.0.1 {} 1", old.port));
    let slaves = || sentinel.ask::<String>("INFO sentinel");
    eventually("it knows the replica", || slaves().contains("slaves=1"));
    goes_on_without_a_burst(3, &url(&sentinel, "main"), || {
        eventually("it begins", || sentinel.try_ask::<()>("SENTINEL FAILOVER main").is_ok());
        let port = new.port.to_string();
        let ask = "SENTINEL GET-MASTER-ADDR-BY-NAME main";
        eventually("it is done", || sentinel.ask::<Vec<String>>(ask)[1] == port);
    });
}

#[test]
fn a_master_that_a_sentinel_does_not_know() {
    let Some(sentinel) = RedisServer::start_with(&["--sentinel"]) else { return };
    let url = url(&sentinel, "mian");
    let exit = impatient_failure(&url, &["1/s"], Duration::from_millis(300), "no master 'mian'");
    assert_eq!(exit, Exit::StoreAway);
}
