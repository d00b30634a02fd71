//! A Redis server for a single test, in its own directory, with a clock that the test may set.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ::redis::{Client, Cmd, FromRedisValue, RedisResult};
use nix::sys::signal::Signal;

use crate::support::{Directory, Running, eventually, is_alive, needs_program};

pub(crate) struct RedisServer {
    directory: Directory,
    pub(crate) port: u16,
    /// The port of its cluster bus, if it is in a cluster.
    pub(crate) bus: u16,
    options: Vec<String>,
    running: Option<Running>,
}

impl RedisServer {
    pub(crate) fn start() -> Option<Self> {
        RedisServer::start_with(&[])
    }

    /// Starts it with further options, as in its configuration.
    pub(crate) fn start_with(options: &[&str]) -> Option<Self> {
        needs_program("redis-server")?;
        Some(RedisServer::start_in(Directory::new(), options))
    }

    /// Starts it with a clock that can be set.
    pub(crate) fn start_with_clock(options: &[&str]) -> Option<(Self, Clock)> {
        needs_program("redis-server")?;
        needs_program("cc")?;
        let directory = Directory::new();
        let clock = Clock::new(directory.path());
        Some((RedisServer::start_in(directory, options), clock))
    }

    fn start_in(directory: Directory, options: &[&str]) -> Self {
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = RedisServer { directory, port: 0, bus: 0, options, running: None };
        // A free port may be taken by the time it is used.
        for _ in 0..5 {
            (server.port, server.bus) = (free_port(), free_port());
            server.restart();
            if server.running.is_some() {
                return server;
            }
        }
        panic!("it does not start: {}", fs::read_to_string(server.directory.path().join("log")).unwrap())
    }

    /// Starts it on its port, unless that has been taken. It remembers nothing.
    pub(crate) fn restart(&mut self) {
        let path = self.directory.path();
        let config = path.join("config");
        File::create(&config).unwrap();
        let mut command = Command::new("redis-server");
        // A sentinel insists on a file in which to keep its configuration, needed or not.
        command.arg(config);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--repl-diskless-sync-delay", "0", "--dir"])
            .arg(path);
        command.arg("--unixsocket").arg(self.socket()).args(&self.options);
        let port = self.port.to_string();
        match self.options.last().map(String::as_str) {
            Some("--tls-port") => command.args([&port, "--port", "0"]),
            _ => command.args(["--port", &port]),
        };
        if self.options.iter().any(|option| option == "--cluster-enabled") {
            command.args(["--cluster-port", &self.bus.to_string()]);
        }
        if path.join(LIBRARY).exists() {
            command.env("LD_PRELOAD", path.join(LIBRARY)).env("FAKE_CLOCK", path.join(NUMBERS));
        }
        let log = File::create(path.join("log")).unwrap();
        let running = Running::spawn(command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()));
        let mut is_up = false;
        eventually("redis-server is up", || {
            let log = fs::read_to_string(path.join("log")).unwrap();
            is_up = ["Ready to accept connections", "Sentinel ID is"].iter().any(|ready| log.contains(ready));
            is_up || !is_alive(running.pid())
        });
        self.running = is_up.then_some(running);
    }

    /// Stops it for a while.
    pub(crate) fn stop_for(&self, length: Duration) {
        let running = self.running.as_ref().expect("it runs");
        running.stop();
        thread::sleep(length);
        running.signal(Signal::SIGCONT);
    }

    /// Ends it at once, as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The URL of the state `name`, for `-s`.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("redis://127.0.0.1:{}/{name}", self.port)
    }

    /// Asks the server directly, bypassing everything under test.
    pub(crate) fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        self.try_ask(command).unwrap()
    }

    pub(crate) fn try_ask<T: FromRedisValue>(&self, command: &str) -> RedisResult<T> {
        let client = Client::open(format!("unix://{}", self.socket().display())).unwrap();
        let mut words = Cmd::new();
        words.arg(command.split(' ').collect::<Vec<_>>());
        words.query(&mut client.get_connection().unwrap())
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

const LIBRARY: &str = "clock.so";
const NUMBERS: &str = "clock";

/// What a server takes for the time of day, in microseconds.
pub(crate) struct Clock(File);

impl Clock {
    fn new(directory: &Path) -> Self {
        let (source, library) = (directory.join("clock.c"), directory.join(LIBRARY));
        fs::write(&source, include_str!("clock.c")).unwrap();
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).status();
        assert!(built.unwrap().success());
        let file = File::create(directory.join(NUMBERS)).unwrap();
        file.set_len(16).unwrap();
        Clock(file)
    }

    /// Sets it ahead of the real clock by this much from now on.
    pub(crate) fn step(&self, micros: i64) {
        self.0.write_all_at(&micros.to_ne_bytes(), 0).unwrap();
    }

    /// Shows this time from now on, until it is set again.
    pub(crate) fn stand_at(&self, micros: u64) {
        self.0.write_all_at(&micros.to_ne_bytes(), 8).unwrap();
    }
}
