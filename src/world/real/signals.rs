//! Signals, told as events: INT is caught by ctrlc, the others by signal-hook.
//!
//! They are caught, not blocked: a caught signal is back at its default in a command, a blocked one would stay
//! blocked. One that was ignored is ignored again in commands, see [`crate::found`].

use std::sync::Arc;

use anyhow::{Context, Result};
use crossbeam_channel::Sender;
use nix::libc::{SIGHUP, SIGTERM, SIGUSR1, c_int};
use nix::sys::signal::Signal;
use signal_hook::iterator::Signals;

use crate::found::found;
use crate::interrupt::Interrupt;
use crate::pump::{Stop, Wake};

/// Starts listening.
pub(super) fn listen(tell: &Sender<Wake>, interrupt: &Arc<Interrupt>) -> Result<()> {
    let (tell_int, interrupt_int) = (tell.clone(), Arc::clone(interrupt));
    ctrlc::set_handler(move || stop(Signal::SIGINT, &tell_int, &interrupt_int))
        .context("cannot catch SIGINT")?;
    // nohup ignores HUP, and then it is to stay ignored.
    let caught =
        [SIGTERM, SIGUSR1, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !found().ignores(SIGHUP));
    let mut signals = Signals::new(caught).context("cannot catch signals")?;
    let (tell, interrupt) = (tell.clone(), Arc::clone(interrupt));
    super::spawn("signals", move || signals.forever().for_each(|signal| hear(signal, &tell, &interrupt)))?;
    Ok(())
}

fn hear(signal: c_int, tell: &Sender<Wake>, interrupt: &Interrupt) {
    match Signal::try_from(signal) {
        Ok(Signal::SIGUSR1) => _ = tell.send(Wake::Report),
        Ok(signal) => stop(signal, tell, interrupt),
        Err(_) => {}
    }
}

fn stop(signal: Signal, tell: &Sender<Wake>, interrupt: &Interrupt) {
    let _ = tell.send(Wake::Stop(Stop::Signal(signal)));
    interrupt.raise();
}
