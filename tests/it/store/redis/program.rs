//! The whole program, with a server.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use super::client::store;
use super::proxy::Proxy;
use super::server::{RedisServer, free_port};
use crate::rules::hours::noon;
use crate::support::{Directory, Running, THROTTLE, eventually, fed, numbers, text, throttle};

use throttle::store::Store;

/// 10 per 200 ms, with 200 ms to be late in, so that all slots are used.
const RATE: &str = "-r10/200ms,margin=200ms";

/// Each item is at least a period later than the tenth before it. The earliest time of the first item is known, and the
/// latest of the last.
#[track_caller]
fn assert_takes_its_time(start: Instant, items: u32) {
    let least = Duration::from_millis(400) * ((items - 1) / 10);
    assert!(start.elapsed() >= least, "{items} items in {:?}", start.elapsed());
}

#[test]
fn scripts_get_one_release_each() {
    let Some(server) = RedisServer::start() else { return };
    let url = server.url("once");
    let once = |max_wait: &str| {
        let args = ["--once", "-q", "-s", &url, "-r2/h,margin=2s", "--max-wait", max_wait, "--", "echo"];
        throttle(&args).assert().get_output().status.code()
    };
    assert_eq!(["0", "30m", "30m", "0"].map(once), [0, 0, 75, 75].map(Some));
}

#[test]
fn eight_processes_share_a_limit() {
    let Some(server) = RedisServer::start() else { return };
    let start = Instant::now();
    let run = || {
        let mut run = Running::fed(&[RATE, "-s", &server.url("web")], numbers(4));
        run.close_stdin();
        run
    };
    for run in [(); 8].map(|()| run()) {
        run.ends().success().stdout(numbers(4));
    }
    assert_takes_its_time(start, 32);
}

/// The system interrupts a timed wait for bytes, however the process handles signals.
#[test]
fn a_run_that_is_stopped_and_continued_goes_on_to_wait_for_the_answer() {
    let Some(server) = RedisServer::start() else { return };
    let way = Proxy::new(server.port, Duration::from_millis(200));
    let url = format!("redis://127.0.0.1:{}/web", way.port);
    let run = Running::fed(&["-s", &url, "-r1/h,margin=20m"], "a\n");
    eventually("it releases", || {
        run.stop();
        run.signal(Signal::SIGCONT);
        thread::sleep(Duration::from_millis(20));
        run.is_readable()
    });
    assert_eq!(text(&run.finish().stdout), "a\n");
}

#[test]
fn a_run_goes_on_from_what_the_last_one_used() {
    let Some(server) = RedisServer::start() else { return };
    let start = Instant::now();
    for _ in 0..4 {
        fed(&[RATE, "-q", "-s", &server.url("web"), "--", "true"], numbers(8)).success().stderr("");
    }
    assert_takes_its_time(start, 32);
}

#[test]
fn what_was_recorded_can_be_forgotten() {
    let Some(server) = RedisServer::start() else { return };
    let url = server.url("web");
    fed(&["-r1/h", "-s", &url], "1\n").success();
    fed(&["-r2/h", "-s", &url], "1\n").code(65);
    throttle(&["--reset-state", "-s", &url]).assert().success();
    fed(&["-r2/h", "-s", &url], "1\n").success();
}

/// A server lists a great many at once.
#[test]
fn keys_are_forgotten_however_long_they_are() {
    let Some(server) = RedisServer::start() else { return };
    let set = "redis.call('SET','throttle:web/'..i..string.rep('x',2000),'')";
    server.ask::<()>(&format!("EVAL for\ti=1,2000\tdo\t{set}\tend 0"));
    throttle(&["--reset-state", "--store-timeout=9s", "-s", &server.url("web")]).assert().success();
    assert_eq!(server.ask::<u64>("DBSIZE"), 0);
}

#[test]
fn a_run_survives_the_servers_restart() {
    let Some(mut server) = RedisServer::start() else { return };
    let mut run = Running::fed(&["-r1/100ms,margin=200ms", "-s", &server.url("web")], numbers(6));
    assert_eq!(run.line(), "1\n");
    server.kill();
    server.restart();
    run.ends().success().stdout(numbers(6).split_off(2));
}

#[test]
fn a_server_that_is_away_ends_the_run_after_a_while() {
    let url = format!("redis://127.0.0.1:{}/web", free_port());
    let start = Instant::now();
    let run = fed(&["-r5/s", "-s", &url, "--store-timeout=600ms"], "1\n2\n").code(69);
    assert!(start.elapsed() >= Duration::from_millis(600));
    run.stderr(contains("after 0 items").and(contains(url)).and(contains("2 items read")));
}

#[test]
fn a_wait_for_a_server_is_told() {
    let Some(mut server) = RedisServer::start() else { return };
    let url = server.url("web");
    let mut run = Running::fed(&["-r9/100ms,margin=50ms", "-q", "-s", &url], "1\n");
    assert_eq!(run.line(), "1\n");
    drop(run);
    let mut run = Running::throttle(&["-r9/100ms,margin=50ms", "-s", &url]);
    server.kill();
    run.write("2\n");
    assert!(run.error_line().contains("at most 66.6 %"));
    let told = run.error_line();
    assert!(told.contains(&url) && told.contains("waiting for up to 60s"), "{told}");
    server.restart();
    assert_eq!(run.line(), "2\n");
}

#[test]
fn a_server_that_goes_away_ends_the_run_after_a_while() {
    let Some(mut server) = RedisServer::start() else { return };
    // While the server is there, only a hang takes as long as the margin and the timeout allow.
    let mut run =
        Running::fed(&["-r1/100ms,margin=20s", "-s", &server.url("web"), "--store-timeout=5s"], "1\n");
    assert_eq!(run.line(), "1\n");
    server.kill();
    run.write(numbers(20));
    let output = run.collect();
    assert_eq!(output.status.code(), Some(69));
    // It may use slots that it still has.
    let released = 1 + text(&output.stdout).lines().count();
    let told = text(&output.stderr);
    assert!(told.contains(&format!("after {released} item")), "{told}");
}

#[test]
fn a_wrong_password_is_told_of_but_not_told() {
    let Some(server) = RedisServer::start_with(&["--requirepass", "other"]) else { return };
    let url = server.url("web").replace("//", "//:hush@");
    let mut wrong = throttle(&["-v", "-r5/s"]);
    let run = wrong.env("THROTTLE_STATE", &url).write_stdin("1\n").assert();
    run.code(78).stderr(contains("WRONGPASS").and(contains("hush").not()));
}

#[test]
fn a_password_is_read_from_the_environment_or_a_file_only() {
    let Some(server) = RedisServer::start_with(&["--requirepass", "hush"]) else { return };
    let url = server.url("web").replace("//", "//:hush@");
    fed(&["-r5/s", "-s", &url], "1\n").code(2).stderr(contains("hush").not());
    throttle(&["-r5/s"]).env("THROTTLE_STATE", &url).write_stdin("1\n").assert().success().stdout("1\n");
    let directory = Directory::new();
    let file = directory.file("state", url + "\n");
    let from_file = |mode| {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("ours");
        let run = fed(&["-v", "-r5/s", &format!("-s@{}", file.display())], "1\n").success().stdout("1\n");
        let told = text(&run.get_output().stderr);
        assert!(!told.contains("hush"));
        told.contains(&format!("other users may read {}, which has a password: chmod go= it", file.display()))
    };
    assert_eq!([0o600, 0o644, 0o640].map(from_file), [false, true, true]);
}

/// Its name may become known: while a machine starts, or a container.
#[test]
fn a_server_of_an_unknown_name_is_waited_for() {
    let start = Instant::now();
    let args = ["-r5/s", "-s", "redis://nobody.invalid/web", "--store-timeout", "300ms"];
    let run = fed(&args, "1\n").code(69).stdout("");
    assert!(start.elapsed() >= Duration::from_millis(300));
    run.stderr(contains("redis://nobody.invalid/web: ").and(contains("gave up after 300ms")));
}

/// Neither in its output, nor by its commands, nor when it fails.
#[test]
fn the_password_is_nowhere_to_be_read() {
    let Some(server) = RedisServer::start_with(&["--requirepass", "hush"]) else { return };
    let url = server.url("web").replace("//", "//:hush@");
    let directory = Directory::new();
    let log = directory.path().join("log");
    let mut run = throttle(&["-v", "--stats=json", "-t", "--retries=1", "--log", log.to_str().unwrap()]);
    let run = run.args(["-r9/s", "--", "sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/cmdline; exit 1"]);
    let run = run.env("THROTTLE_STATE", &url).write_stdin("1\n").assert().code(123);
    let inherited = contains(format!("THROTTLE_STATE={}\n", server.url("web")));
    run.stdout(inherited.and(contains("hush").not()))
        .stderr(contains("shared by redis://").and(contains("hush").not()));
    assert!(!std::fs::read_to_string(log).unwrap().contains("hush"));
    for (args, status) in [(&["-r8/s"][..], 65), (&["--status"], 0), (&["-r8/s", "--dry-run", "-v"], 0)] {
        let run = throttle(args).env("THROTTLE_STATE", &url).write_stdin("1\n").assert().code(status);
        assert!(!text(&run.get_output().stderr).contains("hush"), "{args:?}");
    }
}

/// Its answers come one after the other, as time goes by, and none is taken for a clock that was set.
#[test]
fn the_status_is_the_same_however_far_away_the_server_is() {
    let Some(server) = RedisServer::start() else { return };
    let way = Proxy::new(server.port, Duration::from_millis(20));
    fed(&["-s", &server.url("web"), "-r9/h,margin=100ms"], numbers(2)).success();
    for url in [server.url("web"), format!("redis://127.0.0.1:{}/web", way.port)] {
        fed(&["-s", &url, "--status"], "").success().stdout(contains(": 2 used, 7 free"));
    }
}

#[test]
fn a_mistyped_url_is_refused_unread() {
    for typed in ["redis//:hush@h/n", "redis:/:hush@h/n", "http://joe:hush@h/n"] {
        let run = throttle(&["-v", "-r5/s"]).env("THROTTLE_STATE", typed).write_stdin("1\n").assert();
        run.code(2).stderr(contains("redis://").and(contains("hush").not()));
        // If another state is given, it can still be inherited.
        let directory = Directory::new();
        let file = directory.path().join("state");
        let mut run = throttle(&["-r5/s", "-s", file.to_str().unwrap(), "--", "sh", "-c", "env"]);
        let run = run.env("THROTTLE_STATE", typed).write_stdin("1\n").assert();
        run.success().stdout(contains("hush").not());
    }
}

/// A run that waits an hour for its slot ends as fast as any other.
#[test]
fn a_run_that_waits_for_its_turn_can_be_stopped() {
    let Some(server) = RedisServer::start() else { return };
    store(&server.url("web"), &["1/h,margin=1s"]).book(&super::client::some(1)).unwrap();
    let scripts = || {
        let run: String = server.ask("INFO commandstats");
        run.lines().find(|line| line.starts_with("cmdstat_evalsha:")).map(ToOwned::to_owned)
    };
    let before = scripts();
    let mut run = Running::start(Command::new(THROTTLE).args(["-r1/h,margin=1s", "-s", &server.url("web")]));
    run.write("1\n");
    eventually("it has asked", || scripts() != before);
    run.signal(nix::sys::signal::Signal::SIGTERM);
    let output = run.collect();
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("1 read and not released"), "{}", text(&output.stderr));
}

/// In a zone where it is about noon.
#[test]
fn two_processes_share_a_quota_of_the_calendar() {
    let Some(server) = RedisServer::start() else { return };
    let rate = format!("-r5/d,algo=calendar,margin=2s,tz={}", noon());
    let run = || {
        let mut run = Running::fed(&["-q", "--on-limit=drop", &rate, "-s", &server.url("web")], numbers(8));
        run.close_stdin();
        run
    };
    let outputs = [run(), run()].map(Running::finish);
    let released: usize = outputs.iter().map(|output| text(&output.stdout).lines().count()).sum();
    assert_eq!(released, 5, "{outputs:?}");
    let status = throttle(&["--status", "-s", &server.url("web")]).assert();
    status.success().stdout(contains("5 used, 0 free"));
}
