//! Signals, told as events.
//!
//! They are caught, not blocked: a caught signal is back at its default in a command, a blocked one would stay
//! blocked. One that was ignored stays ignored: nohup ignores HUP, and a shell ignores INT in what it runs in the
//! background.

use anyhow::{Context, Result};
use nix::libc::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1, c_int};
use signal_hook::iterator::Signals;

use super::waker::Waker;
use super::world::Event;
use crate::inherited::inherited;
use crate::schedule::Stop;

pub(super) fn listen(waker: &Waker) -> Result<()> {
    let heard = [SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGCONT];
    let caught = heard.into_iter().filter(|&signal| !inherited().ignores(signal));
    let mut signals = Signals::new(caught).context("cannot catch signals")?;
    let waker = waker.clone();
    Ok(super::spawn("signals", move || signals.forever().for_each(|signal| hear(signal, &waker)))?)
}

fn hear(signal: c_int, waker: &Waker) {
    match signal {
        SIGUSR1 => _ = waker.send(Event::Report),
        SIGCONT => _ = waker.send(Event::Continued { late: 0 }),
        signal => waker.stop(Event::Stop(Stop::Signal(signal))),
    }
}
