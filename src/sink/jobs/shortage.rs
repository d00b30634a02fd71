//! Retries while not even one command can be started, for want of processes, descriptors or memory.
//!
//! While commands are running, their ends will help, as will the end of the item that waiting outputs wait for. With
//! neither, either others have used everything up, and that passes; or there is too little for ever, and the run ends.

use std::io;

use anyhow::Error;
use nix::errno::Errno;

use crate::exit::Exit;
use crate::sink::{Cause, Sent};
use crate::time::SECOND;

/// The first pause, and the longest. Each pause is twice as long as the one before, up to the longest.
const FIRST_PAUSE: u64 = SECOND / 20;
const LONGEST_PAUSE: u64 = 2 * SECOND;

/// The sum of the pauses after which the run ends, if nothing of ours helps. Time for which the process is stopped does
/// not count: nothing is tried then.
const LONGEST_SHORTAGE: u64 = 30 * SECOND;

/// True if something is short that commands free as they end.
pub(super) fn is_passing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE))
}

/// A shortage that lasts: the sum of the pauses so far with nothing running.
#[derive(Default)]
pub(super) struct Shortage(u64);

impl Shortage {
    /// Notes that a command could not be started, for the reason `why`. If that `will_pass`, something of ours will
    /// free what is short.
    pub(super) fn persists(&mut self, will_pass: bool, why: Error) -> Sent {
        if will_pass {
            self.over();
            return Sent::Busy { pause: FIRST_PAUSE, why: None };
        }
        if self.0 >= LONGEST_SHORTAGE {
            let error = why.context(format!("tried for {} s", LONGEST_SHORTAGE / SECOND));
            return Sent::Partly(0, Cause::Failed(Exit::CannotRun, error));
        }
        let is_first = self.0 == 0;
        // Twice the last pause, as all pauses so far add up to that less the first one.
        let pause = (self.0 + FIRST_PAUSE).min(LONGEST_PAUSE);
        self.0 += pause;
        Sent::Busy { pause, why: is_first.then_some(why) }
    }

    /// Notes that a command could be started.
    pub(super) fn over(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    /// The pause, and whether it is reported; `None` for the end of the run.
    fn persists(shortage: &mut Shortage, will_pass: bool) -> Option<(u64, bool)> {
        match shortage.persists(will_pass, anyhow!("short")) {
            Sent::Busy { pause, why } => Some((pause, why.is_some())),
            _ => None,
        }
    }

    #[test]
    fn with_nothing_running_it_is_told_once_and_ends_after_a_while() {
        let mut shortage = Shortage::default();
        let steps: Vec<_> = std::iter::from_fn(|| persists(&mut shortage, false)).collect();
        let pauses = [50, 100, 200, 400, 800, 1600, 2000].map(|millis| millis * SECOND / 1000);
        assert_eq!(steps[0], (pauses[0], true));
        assert_eq!(steps[1..7], pauses[1..].iter().map(|&pause| (pause, false)).collect::<Vec<_>>());
        let sum = steps.iter().map(|(pause, _)| pause).sum::<u64>();
        assert!((LONGEST_SHORTAGE..LONGEST_SHORTAGE + LONGEST_PAUSE).contains(&sum));
    }

    #[test]
    fn commands_that_run_or_start_end_it() {
        let mut shortage = Shortage::default();
        let mut told = |will_pass| persists(&mut shortage, will_pass);
        let table = [(false, true), (true, false), (false, true)];
        for (will_pass, is_told) in table {
            assert_eq!(told(will_pass), Some((FIRST_PAUSE, is_told)));
        }
        shortage.over();
        assert_eq!(persists(&mut shortage, false), Some((FIRST_PAUSE, true)));
    }
}
