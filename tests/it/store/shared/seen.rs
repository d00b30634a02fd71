//! When releases of any process happened, as far as can be told from outside.

use std::io::{ErrorKind, PipeReader, Read};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{eventually, set_nonblocking};

/// The instants, counted from the start, between which a release certainly happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    after: Duration,
    until: Duration,
}

/// Whether more than `count` releases happened in less than `period`, beyond all doubt.
///
/// A slow test may miss something, but never accuses anybody falsely.
pub(crate) fn is_exceeded(seen: &[Seen], count: usize, period: Duration) -> bool {
    seen.windows(count + 1).any(|window| window[count].until < window[0].after + period)
}

/// Watches releases, one per line, until the last writer is gone.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Seen>>>,
    thread: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn start(reader: PipeReader) -> Self {
        let seen = Arc::default();
        let noted = Arc::clone(&seen);
        Watch { seen, thread: thread::spawn(move || watch(reader, &noted)) }
    }

    pub(crate) fn wait_for(&self, releases: usize) {
        eventually("it was released", || self.seen.lock().expect("no panic").len() >= releases);
    }

    pub(crate) fn finish(self) -> Vec<Seen> {
        self.thread.join().expect("watched");
        std::mem::take(&mut self.seen.lock().expect("no panic"))
    }
}

fn watch(mut reader: PipeReader, seen: &Mutex<Vec<Seen>>) {
    let start = Instant::now();
    let (mut buffer, mut after) = ([0; 4096], Duration::ZERO);
    set_nonblocking(&reader);
    loop {
        let before = start.elapsed();
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                let releases = memchr::memchr_iter(b'\n', &buffer[..length]).count();
                let release = Seen { after, until: start.elapsed() };
                seen.lock().expect("no panic").extend([release].repeat(releases));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                after = before;
                thread::sleep(Duration::from_micros(500));
            }
            Err(error) => panic!("cannot read: {error}"),
        }
    }
}

#[test]
fn the_audit_sees_what_is_beyond_doubt_and_nothing_else() {
    let seen = |after, until| Seen { after: Duration::from_secs(after), until: Duration::from_secs(until) };
    let period = Duration::from_secs(10);
    assert!(is_exceeded(&[seen(0, 1), seen(4, 5), seen(8, 9)], 2, period));
    assert!(!is_exceeded(&[seen(0, 1), seen(4, 5), seen(8, 10)], 2, period));
    assert!(!is_exceeded(&[seen(0, 1), seen(8, 9)], 2, period));
}
