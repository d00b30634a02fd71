//! Standard error, for messages: a reader that has stopped must not hold up items or signals.
//!
//! A write to a pipe, a socket or a terminal may block for ever, also right after `poll` has said that it would not. So
//! a thread of its own writes, and those who tell something wait for it for a moment only, and not again until it has
//! caught up. What has not been written by the end of the run is dropped.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

use crate::exit::Exit;

/// How long writing a message may block.
const PATIENCE: Duration = Duration::from_millis(30);

/// How long the end of a run that was not interrupted may be held up.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How many bytes may wait to be written. What comes on top is dropped.
const MOST: usize = 64 << 10;

/// What a pipe that is writable takes without blocking, everywhere.
const CERTAIN: usize = 512;

static QUEUE: Queue = Queue { state: Mutex::new(State::new()), changed: Condvar::new() };

/// Writes a message, if that can be done in time; or else later.
pub fn tell(text: &str) {
    QUEUE.put(text.as_bytes());
}

/// Writes what is outdated soon, unless something still waits to be written.
pub fn show(text: &str) {
    if !QUEUE.lock().is_busy() {
        QUEUE.put(text.as_bytes());
    }
}

/// Waits until everything is written, for a short time only; a shorter one after a signal.
pub fn flush(exit: Exit) {
    let patience = if matches!(exit, Exit::Signal(_)) { PATIENCE } else { LAST_PATIENCE };
    QUEUE.wait(QUEUE.lock(), patience);
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    pending: Vec<u8>,
    /// The thread is in a write.
    is_writing: bool,
    /// It has been waited for in vain.
    is_stuck: bool,
    /// Whether there is a thread, if that was tried.
    has_thread: Option<bool>,
}

impl State {
    const fn new() -> Self {
        State { pending: Vec::new(), is_writing: false, is_stuck: false, has_thread: None }
    }

    fn is_busy(&self) -> bool {
        self.is_writing || !self.pending.is_empty()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&'static self, text: &[u8]) {
        let mut state = self.lock();
        if !*state.has_thread.get_or_insert_with(|| self.start()) {
            return write_in_time(text, PATIENCE);
        }
        if state.pending.len() + text.len() > MOST && state.is_busy() {
            return;
        }
        state.pending.extend_from_slice(text);
        self.changed.notify_all();
        if !state.is_stuck {
            self.wait(state, PATIENCE);
        }
    }

    fn wait(&self, state: MutexGuard<'_, State>, patience: Duration) {
        let waited = self.changed.wait_timeout_while(state, patience, |state| state.is_busy());
        let (mut state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_stuck = result.timed_out();
    }

    /// Starts the thread that writes. Returns whether there is one.
    fn start(&'static self) -> bool {
        let thread = thread::Builder::new().name("stderr".to_owned()).stack_size(64 << 10);
        thread.spawn(|| self.run()).is_ok()
    }

    fn run(&self) {
        loop {
            let waited = self.changed.wait_while(self.lock(), |state| state.pending.is_empty());
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let text = std::mem::take(&mut state.pending);
            state.is_writing = true;
            drop(state);
            write_all(&text);
            let mut state = self.lock();
            state.is_writing = false;
            state.is_stuck &= state.is_busy();
            self.changed.notify_all();
        }
    }
}

/// A stderr that cannot be written to is nothing to stop for.
fn write_all(mut text: &[u8]) {
    while !text.is_empty() {
        match write(io::stderr(), text) {
            Ok(written) => text = &text[written..],
            Err(Errno::EINTR) => {}
            // Somebody else made it non-blocking.
            Err(Errno::EAGAIN) if is_writable(PollTimeout::NONE).is_ok() => {}
            Err(_) => return,
        }
    }
}

/// Without a thread: it blocks only if somebody else fills the pipe at the same time.
fn write_in_time(mut text: &[u8], patience: Duration) {
    let give_up = Instant::now() + patience;
    while !text.is_empty() && Instant::now() < give_up {
        match is_writable(PollTimeout::from(5u8)) {
            Ok(true) => match write(io::stderr(), &text[..text.len().min(CERTAIN)]) {
                Ok(written) => text = &text[written..],
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return,
            },
            Ok(false) => {}
            Err(_) => return,
        }
    }
}

fn is_writable(timeout: PollTimeout) -> nix::Result<bool> {
    let stderr = io::stderr();
    match poll(&mut [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)], timeout) {
        Err(Errno::EINTR) => Ok(false),
        result => result.map(|ready| ready > 0),
    }
}
