//! Signals, reported as events: INT is caught by ctrlc, the others by signal-hook.
//!
//! They are caught, not blocked: in a command, a caught signal is back at its default, but a blocked one would stay
//! blocked. One that was ignored stays ignored: nohup ignores HUP, and a shell ignores INT and QUIT in its background
//! jobs.

use anyhow::{Context, Error, Result};
use nix::libc::{SIGCONT, SIGINT, SIGUSR1, c_int};
use nix::sys::signal::Signal;
use signal_hook::flag;
use signal_hook::iterator::Signals;

use super::waker::Waker;
use super::world::Event;
use crate::exit::Exit;
use crate::inherited::{ENDING, inherited};

pub(super) fn listen(waker: &Waker) -> Result<()> {
    let is_heeded = |signal: &c_int| !inherited().ignores(*signal);
    if is_heeded(&SIGINT) {
        let for_int = waker.clone();
        let caught = ctrlc::set_handler(move || for_int.stop(stop(Signal::SIGINT)));
        caught.map_err(cause).context("cannot catch SIGINT")?;
    }
    let caught = ENDING.into_iter().chain([SIGUSR1, SIGCONT]).filter(is_heeded);
    let mut signals = Signals::new(caught).context("cannot catch signals")?;
    // Raised by the handler itself: when a command is found to have ended by a signal to its group, ours has come.
    for signal in ENDING.into_iter().chain([SIGINT]).filter(is_heeded) {
        flag::register(signal, waker.interrupt.flag()).context("cannot catch signals")?;
    }
    let waker = waker.clone();
    super::spawn("signals", move || signals.forever().for_each(|signal| report(signal, &waker)))
}

/// The error without the words that ctrlc puts in its place.
fn cause(error: ctrlc::Error) -> Error {
    match error {
        ctrlc::Error::System(error) => error.into(),
        error => error.into(),
    }
}

fn report(signal: c_int, waker: &Waker) {
    match Signal::try_from(signal) {
        Ok(Signal::SIGUSR1) => waker.report(),
        Ok(Signal::SIGCONT) => _ = waker.send(Event::Continued { late: 0 }),
        Ok(signal) => waker.stop(stop(signal)),
        Err(_) => {}
    }
}

fn stop(signal: Signal) -> Event {
    Event::Stop(Exit::Signal(signal as i32))
}
