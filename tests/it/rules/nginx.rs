//! Independent judges: what counts is when requests arrive at a server, not when throttle thinks it sent them.
//!
//! A request is under way from the start of curl until the server has read it, and for varying times: a few
//! milliseconds on an idle machine, hundreds on a busy one. With `from=exit` this does not matter: a request has been
//! read by the time its command ends.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::serve;
use crate::support::{Directory, Running, eventually, needs_program, sh, sh_command, text};

const COOKBOOK: &str = include_str!("../../../man/throttle-cookbook.7");
const README: &str = include_str!("../../../README.md");

/// Several at a time, so that requests arrive in quick succession even where curl starts slowly.
const UNPACED: &str = "xargs -P4 -I{}";

/// An nginx that admits 20 requests per second, each at least 50 ms after the previous one.
struct Nginx {
    directory: Directory,
    port: u16,
    _server: Running,
}

impl Nginx {
    fn start() -> Option<Self> {
        let program = needs_program("nginx")?;
        needs_program("curl")?;
        let directory = Directory::new();
        let port = free_port();
        fs::create_dir(directory.path().join("www")).unwrap();
        directory.file("www/index.html", "admitted\n");
        let config = directory.file("nginx.conf", configuration(port));
        let mut command = Command::new(program);
        command.arg("-p").arg(directory.path()).arg("-c").arg(config).args(["-e", "error.log"]);
        let server = Running::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        eventually("nginx listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Some(Nginx { directory, port, _server: server })
    }

    /// How nginx judges the requests that `make` sends to its port, with a line of output for each.
    fn judge(&self, requests: usize, make: impl FnOnce(u16) -> String) -> Judgement {
        let log = self.directory.path().join("access.log");
        fs::write(&log, "").unwrap();
        // Lets nginx forget an earlier run.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(make(self.port).lines().count(), requests);
        // Requests are logged after they are answered.
        let mut logged = String::new();
        eventually("all is logged", || {
            logged = fs::read_to_string(&log).unwrap();
            logged.lines().count() >= requests
        });
        Judgement::of(&logged)
    }

    fn judge_runner(&self, runner: &str, requests: usize) -> Judgement {
        self.judge(requests, |port| curl_each(runner, requests, port))
    }
}

/// Uses only files in the directory, so that nginx needs no root and shares nothing.
fn configuration(port: u16) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {kind};")).concat();
    format!(
        "daemon off; master_process off; pid pid; error_log error.log;
        events {{ worker_connections 64; }}
        http {{
            {temporary}
            limit_req_zone $binary_remote_addr zone=strict:1m rate=20r/s;
            log_format instants '$msec $status';
            access_log access.log instants;
            server {{
                listen 127.0.0.1:{port};
                root www;
                location / {{ limit_req zone=strict; }}
            }}
        }}"
    )
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A shell command that sends a request to `port` and prints its status.
fn curl(port: u16) -> String {
    format!("curl -qs --noproxy '*' -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:{port}/")
}

/// Makes each request with `runner`.
fn curl_each(runner: &str, requests: usize, port: u16) -> String {
    let one = curl(port);
    let output = sh(&format!("seq {requests} | {runner} {one}?{{}}")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What the server logged.
#[derive(Debug)]
struct Judgement {
    refused: usize,
    /// The shortest distances between arrivals in milliseconds.
    #[expect(dead_code, reason = "told when a test fails")]
    nearest: Vec<u64>,
}

impl Judgement {
    fn of(log: &str) -> Self {
        let refused = log.lines().filter(|line| line.ends_with(" 503")).count();
        let millis = |line: &str| line.split(' ').next()?.replace('.', "").parse::<u64>().ok();
        let arrivals: Vec<_> = log.lines().filter_map(millis).collect();
        let mut nearest: Vec<_> = arrivals.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        nearest.sort_unstable();
        nearest.truncate(5);
        Judgement { refused, nearest }
    }
}

/// One after the other, so that neither disturbs the other.
#[test]
fn nginx_admits_every_request_that_is_paced() {
    let Some(nginx) = Nginx::start() else { return };
    some_are_refused_without_pacing(&nginx);
    none_is_refused_by_the_line_of_the_cookbook(&nginx);
}

fn some_are_refused_without_pacing(nginx: &Nginx) {
    let judgement = nginx.judge_runner(UNPACED, 40);
    assert!(judgement.refused > 0, "nginx refused none: {judgement:?}");
}

/// Makes every other request late by most of the wanted gap, like a start that is slow now and then.
const LATE_CURL: &str = r#"curl=$(command -v curl)
printf '#!/bin/sh\n[ $((THROTTLE_SEQ %% 2)) = 0 ] || sleep 0.04\nexec %s "$@"\n' "$curl" >late &&
chmod +x late && mkdir bin && mv late bin/curl"#;

/// The exact line of the cookbook, of which the README has the rate, on a busy machine.
fn none_is_refused_by_the_line_of_the_cookbook(nginx: &Nginx) {
    let line = "throttle -r 1/50ms,from=exit,margin=10ms -- curl -fsS <urls";
    assert!(COOKBOOK.replace(r"\-", "-").contains(line), "{line}");
    assert!(README.contains("`-r 1/50ms,from=exit,margin=10ms`"));
    nginx.directory.sh(LATE_CURL).assert().success();
    let _load: Vec<_> = (0..2).map(|_| Running::start(&mut sh_command("while :; do :; done"))).collect();
    let judgement = nginx.judge(20, |port| {
        let urls: Vec<_> = (0..20).map(|number| format!("http://127.0.0.1:{port}/?{number}\n")).collect();
        nginx.directory.file("urls", urls.concat());
        let script = format!("PATH=$PWD/bin:$PATH; {line}");
        let output = nginx.directory.sh(&script).env("no_proxy", "*").output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    });
    assert_eq!(judgement.refused, 0, "{judgement:?}");
}

/// A server that records when each request arrives.
struct Counter {
    port: u16,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl Counter {
    fn start() -> Self {
        let arrivals = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&arrivals);
        let port = serve(move |stream| {
            noted.lock().unwrap().push(Instant::now());
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
        Counter { port, arrivals }
    }

    /// Makes `requests` requests with `runner`, and returns the number that arrived in the fullest window.
    fn most_in(&self, window: Duration, runner: &str, requests: usize) -> usize {
        self.arrivals.lock().unwrap().clear();
        curl_each(runner, requests, self.port);
        let arrivals = self.arrivals.lock().unwrap();
        assert_eq!(arrivals.len(), requests);
        let first_in = |end: &Instant| arrivals.partition_point(|arrival| *arrival + window <= *end);
        let counts = arrivals.iter().enumerate().map(|(at, end)| at + 1 - first_in(end));
        counts.max().unwrap_or(0)
    }
}

#[test]
fn no_window_at_a_server_is_over_the_limit() {
    if needs_program("curl").is_none() {
        return;
    }
    let server = Counter::start();
    let window = Duration::from_millis(400);
    let unpaced = server.most_in(window, UNPACED, 30);
    assert!(unpaced > 5, "nothing to pace: only {unpaced} in a window");
    // Each request has arrived by the time its command ends, however long it was under way.
    let most = server.most_in(window, "throttle -r 5/400ms,from=exit --", 20);
    assert!(most <= 5, "{most} in a window");
}
