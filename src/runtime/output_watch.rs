//! Notices that a command has printed something.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags};

use super::readable;
use super::waker::Waker;
use super::world::Event;
use crate::sink::Watch;

/// Waits for output on a thread, and tells of it without reading it.
pub(super) fn start(waker: Waker) -> io::Result<Watch> {
    let (woken, mut wake) = io::pipe()?;
    let streams = Arc::<Mutex<Vec<Arc<PipeReader>>>>::default();
    let shared = Arc::clone(&streams);
    super::spawn("output_watch", move || run(&shared, woken, &waker))?;
    Ok(Box::new(move |watched| {
        *streams.lock().unwrap_or_else(PoisonError::into_inner) = watched;
        let _ = wake.write(b"!");
    }))
}

fn run(shared: &Mutex<Vec<Arc<PipeReader>>>, mut woken: PipeReader, waker: &Waker) {
    let mut streams: Vec<Arc<PipeReader>> = Vec::new();
    loop {
        let fds = [woken.as_fd()].into_iter().chain(streams.iter().map(AsFd::as_fd));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if !readable::wait_for(&mut fds, None) {
            continue;
        }
        if fds[0].any() == Some(false) {
            // The driver reads, and then asks again.
            streams.clear();
            waker.send(Event::Output);
        } else if woken.read(&mut [0; 64]).is_ok_and(|read| read > 0) {
            streams.clone_from(&shared.lock().unwrap_or_else(PoisonError::into_inner));
        } else {
            return;
        }
    }
}
