//! Standard error for messages: a reader that has stopped must not hold up items or signals.
//!
//! A write to a pipe, a socket or a terminal may block for ever, even right after `poll` has said that it would not. So
//! a separate thread writes. Callers wait for it only for a moment, and not again until it has caught up. Whatever is
//! unwritten at the end of the run is dropped. On a busy machine the thread may be delayed for longer without being
//! stuck: callers wait as long as stderr accepts more.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

use crate::exit::Exit;
use crate::inherited::Uninterrupted;
use crate::output::Target;
use crate::printable::escaped;

/// The longest that writing a message may block.
const LONGEST_WRITE: Duration = Duration::from_millis(30);

/// The longest that messages may delay the end of a run, unless it was interrupted.
const LONGEST_FLUSH: Duration = Duration::from_secs(1);

/// The longest wait for the thread while stderr accepts more.
const LONGEST_WHILE_ACCEPTING: Duration = Duration::from_secs(5);

/// The most bytes that may wait to be written. The excess is dropped.
const MAX_PENDING: usize = 64 << 10;

static QUEUE: Mutex<MessageQueue> =
    Mutex::new(MessageQueue { pending: Vec::new(), is_writing: false, is_stuck: false, has_thread: None });

/// Signalled when there is something to write, and when all is written.
static CHANGED: Condvar = Condvar::new();

struct MessageQueue {
    pending: Vec<u8>,
    is_writing: bool,
    /// The last wait for the thread timed out.
    is_stuck: bool,
    /// `None` until the first attempt to start it.
    has_thread: Option<bool>,
}

impl MessageQueue {
    fn is_busy(&self) -> bool {
        self.is_writing || !self.pending.is_empty()
    }
}

/// A message on one line, to be written in one call.
pub(crate) fn message(text: &dyn fmt::Display) -> String {
    format!("throttle: {}\n", escaped(&text.to_string()))
}

/// Writes a message, now if that is possible in time, or else later.
pub(crate) fn print(text: &str) {
    put(queue(), text.as_bytes());
}

/// Writes something that is soon outdated, unless something else still waits to be written.
pub(crate) fn show(text: &str) {
    let queue = queue();
    if !queue.is_busy() {
        put(queue, text.as_bytes());
    }
}

/// Waits until everything is written, but only for a short time, and a shorter one after a signal.
pub fn flush(exit: Exit) {
    wait(queue(), if matches!(exit, Exit::Signal(_)) { LONGEST_WRITE } else { LONGEST_FLUSH });
}

/// Reports whether nobody has read messages for a moment.
pub(crate) fn is_stuck() -> bool {
    queue().is_stuck
}

fn queue() -> MutexGuard<'static, MessageQueue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(mut queue: MutexGuard<MessageQueue>, text: &[u8]) {
    if !*queue.has_thread.get_or_insert_with(start) {
        let _ = Target::Stderr.write_all(text);
        return;
    }
    if queue.pending.len() + text.len() > MAX_PENDING && queue.is_busy() {
        return;
    }
    queue.pending.extend_from_slice(text);
    CHANGED.notify_all();
    if !queue.is_stuck {
        wait(queue, LONGEST_WRITE);
    }
}

fn wait(mut queue: MutexGuard<MessageQueue>, patience: Duration) {
    let give_up = Instant::now() + LONGEST_WHILE_ACCEPTING;
    loop {
        let waited = CHANGED.wait_timeout_while(queue, patience, |queue| queue.is_busy());
        let result;
        (queue, result) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.is_stuck = result.timed_out();
        if !queue.is_stuck || Instant::now() >= give_up || !takes_more() {
            return;
        }
    }
}

/// Starts the thread that writes; returns whether it succeeded. Signals reach the main thread only.
fn start() -> bool {
    let _main_only = Uninterrupted::begin();
    let thread = thread::Builder::new().name("stderr".to_owned()).stack_size(64 << 10);
    thread.spawn(write_pending).is_ok()
}

fn write_pending() {
    loop {
        let waited = CHANGED.wait_while(queue(), |queue| queue.pending.is_empty());
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let text = std::mem::take(&mut waiting.pending);
        waiting.is_writing = true;
        drop(waiting);
        // A stderr that cannot be written to is no reason to stop.
        let _ = Target::Stderr.write_all(&text);
        let mut written = queue();
        written.is_writing = false;
        written.is_stuck &= written.is_busy();
        CHANGED.notify_all();
    }
}

fn takes_more() -> bool {
    Target::Stderr.is_writable(PollTimeout::ZERO).unwrap_or(false)
}
