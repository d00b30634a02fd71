//! States that are locked by another process.

use std::fs::File;
use std::process::{Child, Command};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

/// A process that holds the lock. It does not outlive the test.
struct Holder(Child);

impl Holder {
    fn of(stage: &Stage) -> Self {
        let mut flock = Command::new("flock");
        let child = flock.arg("--no-fork").arg(stage.path()).args(["sleep", "60"]).spawn();
        let holder = Holder(child.expect("flock, of util-linux"));
        let file = File::open(stage.path()).expect("a state");
        while file.try_lock().is_ok() {
            file.unlock().expect("it was locked");
            thread::sleep(Duration::from_millis(5));
        }
        holder
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).expect("it runs");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn why(result: Result<Answer, StoreError>) -> String {
    let error = result.expect_err("refused");
    assert_eq!(error.exit, Exit::StoreAway);
    error.error.to_string()
}

#[test]
fn who_keeps_the_lock_is_told() {
    let mut stage = Stage::new();
    stage.setting.patience = Duration::from_millis(20);
    let [mut first, mut second] = [stage.open(), stage.open()];
    let holder = Holder::of(&stage);
    let pid = holder.0.id();
    let told = why(first.book(&order(1)));
    assert!(told.contains(&format!("by process {pid}: end it")), "{told}");
    holder.signal(Signal::SIGSTOP);
    while !holder::is_stopped(pid) {
        thread::sleep(Duration::from_millis(5));
    }
    let told = why(second.book(&order(1)));
    let cure = format!("process {pid}, which is stopped: resume it with 'kill -CONT {pid}'");
    assert!(told.contains(&cure), "{told}");
    assert_eq!(stage.reset().unwrap_err().exit, Exit::StoreAway);
}

/// The difference is reported as soon as it can be known.
#[test]
fn a_locked_state_can_be_opened() {
    let mut stage = Stage::new();
    stage.open();
    stage.setting.patience = Duration::from_millis(20);
    let holder = Holder::of(&stage);
    let mut other =
        stage.try_open(Policy { text: "5/10s".to_owned(), ..policy() }).expect("nothing wrong yet");
    drop(holder);
    assert_eq!(other.book(&order(1)).unwrap_err().exit, Exit::BadState);
}

#[test]
fn a_lock_is_waited_for_and_does_not_outlive_its_holder() {
    let stage = Stage::new();
    let mut store = stage.open();
    let holder = Holder::of(&stage);
    let waiting = thread::spawn(move || slots(&mut store, 1));
    holder.signal(Signal::SIGKILL);
    assert_eq!(waiting.join().expect("booked"), [0]);
}

#[test]
fn a_program_that_keeps_the_database_locked_is_waited_for_for_a_while() {
    let mut stage = Stage::new();
    stage.setting.patience = Duration::from_millis(20);
    let mut store = stage.open();
    let other = stage.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let told = why(store.book(&order(1)));
    assert!(told.contains(&format!("by process {}: end it", std::process::id())), "{told}");
    other.execute_batch("ROLLBACK").expect("unlocked");
    assert_eq!(slots(&mut store, 1), [0]);
}
