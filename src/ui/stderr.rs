//! Standard error, for messages: a reader that has stopped must not hold up items or signals.
//!
//! A write to a pipe, a socket or a terminal may block for ever, also right after `poll` has said that it would not. So
//! a thread of its own writes, and those who tell something wait for it for a moment only, and not again until it has
//! caught up. What has not been written by the end of the run is dropped. On a busy machine the thread may be held up
//! for longer than that without anything being stuck: it is waited for while stderr takes more.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

use crate::exit::Exit;
use crate::output::{Leave, Target};

/// The longest that writing a message may block.
const PATIENCE: Duration = Duration::from_millis(30);

/// The longest that the end of a run that was not interrupted may be held up.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// The longest that the thread may be held up while stderr takes more.
const LONGEST: Duration = Duration::from_secs(5);

/// The most bytes that may wait to be written. What comes on top is dropped.
const MOST: usize = 64 << 10;

static QUEUE: MessageQueue = MessageQueue { state: Mutex::new(QueueState::new()), changed: Condvar::new() };

/// Writes a message, if that can be done in time; or else later.
pub(crate) fn tell(text: &str) {
    QUEUE.put(text.as_bytes());
}

/// Writes what is outdated soon, unless something still waits to be written.
pub(crate) fn show(text: &str) {
    if !QUEUE.lock().is_busy() {
        QUEUE.put(text.as_bytes());
    }
}

/// Waits until everything is written, for a short time only; a shorter one after a signal.
pub fn flush(exit: Exit) {
    let patience = if matches!(exit, Exit::Signal(_)) { PATIENCE } else { LAST_PATIENCE };
    QUEUE.wait(QUEUE.lock(), patience);
}

struct MessageQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    pending: Vec<u8>,
    is_writing: bool,
    /// It has been waited for in vain.
    is_stuck: bool,
    /// `None` until it was tried to start one.
    has_thread: Option<bool>,
}

impl QueueState {
    const fn new() -> Self {
        QueueState { pending: Vec::new(), is_writing: false, is_stuck: false, has_thread: None }
    }

    fn is_busy(&self) -> bool {
        self.is_writing || !self.pending.is_empty()
    }
}

impl MessageQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
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

    fn wait(&self, mut state: MutexGuard<'_, QueueState>, patience: Duration) {
        let give_up = Instant::now() + LONGEST;
        loop {
            let waited = self.changed.wait_timeout_while(state, patience, |state| state.is_busy());
            let result;
            (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
            state.is_stuck = result.timed_out();
            if !state.is_stuck || Instant::now() >= give_up || !takes_more() {
                return;
            }
        }
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

fn takes_more() -> bool {
    Target::Stderr.is_writable(PollTimeout::ZERO).unwrap_or(false)
}

/// A stderr that cannot be written to is nothing to stop for.
fn write_all(text: &[u8]) {
    let _ = Target::Stderr.write(text, &mut 0, |_| Some(Leave { end: text.len(), may_block: true }));
}

/// Without a thread.
fn write_in_time(text: &[u8], patience: Duration) {
    let give_up = Instant::now() + patience;
    let leave = Leave { end: text.len(), may_block: false };
    let _ = Target::Stderr.write(text, &mut 0, |_| (Instant::now() < give_up).then_some(leave));
}
