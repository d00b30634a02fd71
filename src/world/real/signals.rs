//! Signals, told as events.
//!
//! INT is caught by ctrlc. TERM, HUP and USR1 are blocked and waited for by a thread, so that their
//! dispositions stay as they were found, and commands inherit them like that.

use std::sync::Arc;

use anyhow::{Context, Result};
use crossbeam_channel::Sender;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};

use crate::found::is_ignored;
use crate::interrupt::Interrupt;
use crate::pump::{Stop, Wake};

/// Starts listening. To be called before any other thread is started: they inherit the mask.
pub(super) fn listen(tell: &Sender<Wake>, interrupt: &Arc<Interrupt>) -> Result<()> {
    let mut awaited = SigSet::from_iter([Signal::SIGTERM, Signal::SIGUSR1]);
    // Ignored by nohup, and then to stay ignored.
    if !is_ignored(libc::SIGHUP) {
        awaited.add(Signal::SIGHUP);
    }
    // Ignored in the background of a shell without job control, and then to stay so for commands.
    let catch_int = !is_ignored(libc::SIGINT);
    if !catch_int {
        awaited.add(Signal::SIGINT);
    }
    awaited.thread_block().context("cannot block signals")?;
    if catch_int {
        let (tell, interrupt) = (tell.clone(), Arc::clone(interrupt));
        ctrlc::set_handler(move || stop(Signal::SIGINT, &tell, &interrupt)).context("cannot catch SIGINT")?;
    }
    let (tell, interrupt) = (tell.clone(), Arc::clone(interrupt));
    super::spawn("signals", move || {
        while let Ok(signal) = awaited.wait() {
            match signal {
                Signal::SIGUSR1 => _ = tell.send(Wake::Report),
                signal => stop(signal, &tell, &interrupt),
            }
        }
    })?;
    Ok(())
}

fn stop(signal: Signal, tell: &Sender<Wake>, interrupt: &Interrupt) {
    let _ = tell.send(Wake::Stop(Stop::Signal(signal)));
    interrupt.raise();
}
