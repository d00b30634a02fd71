//! Trying again while not even one command can be started, for want of processes, descriptors or memory.
//!
//! As long as commands are running, their ends will help, as will the end of the item that held outputs wait for. With
//! neither, it may be others that use everything up, and that passes; or there is too little for ever, and then the run
//! ends.

use crate::time::SECOND;

/// The pause after the first attempt. Each one after it is twice as long, up to the longest.
const FIRST_PAUSE: u64 = SECOND / 20;
const LONGEST_PAUSE: u64 = 2 * SECOND;

/// The sum of the pauses after which the run ends, with nothing of ours to help. Time for which the process is stopped
/// is no part of it: nothing is tried then.
pub(super) const PATIENCE: u64 = 30 * SECOND;

/// A shortage, as long as it lasts.
#[derive(Default)]
pub(super) struct Shortage {
    /// The sum of the pauses so far, with nothing running.
    paused: Option<u64>,
    /// The last one.
    pause: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextTry {
    /// Try again after this number of nanoseconds.
    Again(u64),
    /// The same, and tell of it.
    Tell(u64),
    /// End the run.
    GiveUp,
}

impl Shortage {
    /// A command could not be started. If it `will_pass`, something of ours gives back what is short.
    pub(super) fn persists(&mut self, will_pass: bool) -> NextTry {
        if will_pass {
            self.over();
            return NextTry::Again(FIRST_PAUSE);
        }
        let Some(paused) = &mut self.paused else {
            (self.paused, self.pause) = (Some(FIRST_PAUSE), FIRST_PAUSE);
            return NextTry::Tell(FIRST_PAUSE);
        };
        if *paused >= PATIENCE {
            return NextTry::GiveUp;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        *paused += self.pause;
        NextTry::Again(self.pause)
    }

    /// A command could be started.
    pub(super) fn over(&mut self) {
        self.paused = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_nothing_running_it_is_told_once_and_ends_after_a_while() {
        let (mut shortage, mut sum, mut steps) = (Shortage::default(), 0, Vec::new());
        loop {
            let next = shortage.persists(false);
            steps.push(next);
            match next {
                NextTry::Again(pause) | NextTry::Tell(pause) => sum += pause,
                NextTry::GiveUp => break,
            }
        }
        let pauses = [50, 100, 200, 400, 800, 1600, 2000].map(|millis| millis * SECOND / 1000);
        assert_eq!(steps[0], NextTry::Tell(pauses[0]));
        assert_eq!(steps[1..7], pauses[1..].iter().map(|&pause| NextTry::Again(pause)).collect::<Vec<_>>());
        assert!((PATIENCE..PATIENCE + LONGEST_PAUSE).contains(&sum));
    }

    #[test]
    fn commands_that_run_or_start_end_it() {
        let mut shortage = Shortage::default();
        assert_eq!(shortage.persists(false), NextTry::Tell(FIRST_PAUSE));
        assert_eq!(shortage.persists(true), NextTry::Again(FIRST_PAUSE));
        assert_eq!(shortage.persists(false), NextTry::Tell(FIRST_PAUSE));
        shortage.over();
        assert_eq!(shortage.persists(false), NextTry::Tell(FIRST_PAUSE));
    }
}
