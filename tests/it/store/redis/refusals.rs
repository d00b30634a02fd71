//! Servers that refuse to serve us, however long we wait.

use throttle::config::{Shared, State};
use throttle::exit::Exit;
use throttle::store::{Admin, Store};
use throttle::time::SECOND;

use super::client::{failure, now, some, store};
use super::server::RedisServer;

/// Refused at once, without showing the password.
#[track_caller]
pub(super) fn assert_refused(url: &str, why: &str) {
    let (exit, told) = failure(&mut store(url, &["10/h"]));
    assert_eq!(exit, Exit::BadStore, "{told}");
    assert!(told.contains(why), "{told}");
    assert!(!told.contains("hush"), "{told}");
}

#[test]
fn passwords() {
    let Some(server) = RedisServer::start_with(&["--requirepass", "hush"]) else { return };
    assert_refused(&server.url("web"), "NOAUTH");
    let with = |user: &str| server.url("web").replace("//", &format!("//{user}@"));
    assert_refused(&with(":hush1"), "WRONGPASS");
    assert_refused(&with("joe:hush"), "WRONGPASS");
    for user in [":hush", "default:hush"] {
        store(&with(user), &["10/h"]).book(&some(1)).unwrap();
    }
}

/// Redis repeats the arguments of commands that it does not know.
#[test]
fn a_server_that_repeats_the_password_is_not_quoted() {
    let Some(server) = RedisServer::start_with(&["--rename-command", "AUTH", ""]) else { return };
    assert_refused(&server.url("web").replace("//", "//:hush@"), "user and password");
}

fn server_with_user(user: &str) -> Option<RedisServer> {
    let options: Vec<_> = ["--user"].into_iter().chain(user.split_whitespace()).collect();
    RedisServer::start_with(&options)
}

#[test]
fn a_user_who_may_not() {
    let Some(server) = server_with_user("joe on >hush ~other:* +@all") else { return };
    assert_refused(&server.url("web").replace("//", "//joe:hush@"), "NOPERM");
}

/// In a script as well.
#[test]
fn a_user_who_may_not_ask_for_the_time() {
    let Some(server) = server_with_user("joe on >hush ~* +@all -time") else { return };
    let why = "its user lacks a permission";
    assert_refused(&server.url("web").replace("//", "//joe:hush@"), why);
    server.ask::<()>("ACL SETUSER joe +time -evalsha");
    assert_refused(&server.url("web").replace("//", "//joe:hush@"), why);
    // The user could do so before.
    server.ask::<()>("ACL SETUSER joe +evalsha");
    let mut store = store(&server.url("web").replace("//", "//joe:hush@"), &["10/h"]);
    store.book(&some(1)).unwrap();
    server.ask::<()>("ACL SETUSER joe -time");
    assert!(failure(&mut store).1.contains(why));
}

#[test]
fn scripts_are_disabled() {
    let Some(server) = RedisServer::start_with(&["--rename-command", "EVALSHA", ""]) else { return };
    assert_refused(&server.url("web"), "does not know the command");
}

/// The permissions that the manual lists, and no more.
#[test]
fn what_a_user_must_be_allowed() {
    let allowed = "joe on >hush ~throttle:* -@all +evalsha +script|load +time +hget +hset +pexpire";
    let Some(server) = server_with_user(allowed) else { return };
    let url = |name| server.url(name).replace("//", "//joe:hush@");
    let state = |name| State::Server(Box::new(url(name).parse().unwrap()));
    let admin = |name| Admin::of(&Shared { state: state(name), timeout: 20 * SECOND }).unwrap();
    store(&url("web"), &["10/h"]).book(&some(1)).unwrap();
    assert_eq!(admin("web").status(Box::new(now)).unwrap().unwrap().limits[0].free, 9);
    assert!(admin("web").hold(3600, Box::new(now)).unwrap());
    // What a message proposes has no user in it, which may not be on the command line.
    let (_, told) = failure(&mut store(&url("web"), &["11/h"]));
    assert!(told.contains("'throttle --set-limits -r RATE'"), "{told}");
    // Looking for keys needs more.
    store(&url("keys"), &["10/h,key=col:1"]).book(&some(1)).unwrap();
    assert!(admin("keys").status(Box::new(now)).is_err() && admin("keys").hold(0, Box::new(now)).is_err());
    server.ask::<()>("ACL SETUSER joe +cluster|slots +scan");
    admin("keys").status(Box::new(now)).unwrap();
    admin("keys").hold(0, Box::new(now)).unwrap();
    assert!(admin("keys").reset().is_err());
    server.ask::<()>("ACL SETUSER joe +unlink");
    admin("keys").reset().unwrap();
}

#[test]
fn something_else_is_under_our_key() {
    let Some(server) = RedisServer::start() else { return };
    server.ask::<()>("LPUSH throttle:web 1");
    assert_refused(&server.url("web"), "WRONGTYPE");
    server.ask::<()>("DEL throttle:web");
    server.ask::<()>("HSET throttle:web value damaged");
    let (exit, told) = failure(&mut store(&server.url("web"), &["10/h"]));
    assert_eq!(exit, Exit::BadState);
    assert!(told.contains("damaged"), "{told}");
}

#[test]
fn there_is_no_such_database_or_host() {
    let Some(server) = RedisServer::start() else { return };
    assert_refused(&(server.url("web") + "?db=99"), "database 99");
}
