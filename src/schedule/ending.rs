//! The end of a run: its exit, and when it ends before its input does.

use crate::config::{Config, Halt, HaltOn, Until};
use crate::exit::Exit;
use crate::time::{Time, Wall};

/// What ends the run, and with which exit.
pub(super) struct Ending {
    exit: Exit,
    /// Nothing more is released.
    is_stopping: bool,
    /// `--halt` is satisfied by successes, so the results of other items no longer matter.
    has_succeeded: bool,
    /// `None` once it has ended the run.
    halt: Option<Halt>,
    /// The last instant of a release, as the wall clock shows it, if it goes by that.
    until: Option<Time>,
    /// From this instant on, nothing is released.
    over: Option<Time>,
    /// True if no item was left at that instant.
    ended_in_time: bool,
    /// The longest wait for the next release, in nanoseconds.
    patience: Option<u64>,
    /// The latest instant of a release.
    latest: Option<Time>,
}

impl Ending {
    /// The end of a run that starts at `start`.
    pub(super) fn new(config: &Config, start: Time, wall: Wall) -> Self {
        let (until, over) = match &config.queue.until {
            Some(Until::After(nanos)) => (None, start.checked_add(u128::from(*nanos) + 1)),
            Some(Until::Next(time)) => (time.next(wall.shows(start)), None),
            Some(Until::At(shown)) => (Some(*shown), None),
            None => (None, None),
        };
        let mut ending = Ending {
            exit: Exit::Done,
            is_stopping: false,
            has_succeeded: false,
            halt: None,
            until,
            over,
            ended_in_time: false,
            patience: config.queue.wait_of_all(),
            latest: None,
        };
        ending.set_wall(wall);
        ending
    }

    pub(super) fn halt(&mut self, halt: Option<Halt>) {
        self.halt = halt;
    }

    pub(super) fn set_wall(&mut self, wall: Wall) {
        // Releases are still allowed at the last instant, hence + 1.
        if let Some(shown) = self.until {
            self.over = wall.when(i128::from(shown.0) + 1);
        }
    }

    pub(super) fn goes_by_wall(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// True if the failures of items still matter to the user.
    pub(super) fn tells_failures(&self) -> bool {
        !self.has_succeeded && self.exit != Exit::READER_GONE
    }

    /// Releases nothing more.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Releases nothing more, and ends with `exit` unless a higher one comes up.
    pub(super) fn end(&mut self, exit: Exit) {
        self.exit = self.exit.max(exit);
        self.is_stopping = true;
    }

    /// An item has failed. Of several failures, the highest decides the exit status.
    pub(super) fn fail(&mut self, exit: Exit) {
        if !self.has_succeeded {
            self.exit = self.exit.max(exit);
        }
    }

    pub(super) fn halts(&self, is_it: impl FnOnce(&Halt) -> bool) -> bool {
        self.halt.as_ref().is_some_and(is_it)
    }

    /// Ends the run as `--halt` asks, if `is_reached`. Returns that, and whether the run went on until now. Running
    /// commands and the exit are still at stake if it did not.
    pub(super) fn halt_if(&mut self, is_reached: impl FnOnce(&Halt) -> bool) -> Option<(Halt, bool)> {
        let halt = self.halt.take_if(|halt| is_reached(halt))?;
        self.has_succeeded = halt.on == HaltOn::Succeeded;
        // A signal or an error of our own still counts.
        if self.has_succeeded && self.exit <= Exit::Refused {
            self.exit = Exit::Done;
        }
        Some((halt, !std::mem::replace(&mut self.is_stopping, true)))
    }

    /// From this instant on, nothing is released.
    pub(super) fn over(&self) -> Option<Time> {
        self.over
    }

    /// That instant has come, and no item is left.
    pub(super) fn end_in_time(&mut self) {
        (self.ended_in_time, self.is_stopping) = (true, true);
    }

    /// A part of an item is left after all. Returns true, once, if the run ended in time but for that.
    pub(super) fn take_in_time(&mut self) -> bool {
        std::mem::take(&mut self.ended_in_time)
    }

    /// Ends the run as soon as it is known that the next release would be after `latest`.
    pub(super) fn release_by(&mut self, latest: Time) {
        self.latest = Some(latest);
    }

    /// The latest instant of the next release, as seen at `now`, and whether it is fixed: it does not move with `now`.
    pub(super) fn latest(&self, now: Time) -> Option<(Time, bool)> {
        let fixed = self.latest.map(|at| (at.max(now), true));
        fixed.or_else(|| Some((now.saturating_add(self.patience?), false)))
    }

    /// The longest wait for a release, if it does not end at a fixed instant.
    pub(super) fn patience(&self) -> Option<u64> {
        self.patience
    }

    /// The end of the wait for that instant, if it is fixed and later than `now`.
    pub(super) fn patience_ends(&self, now: Time) -> Option<Time> {
        self.latest.filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn what_ends_a_run_hides_no_higher_exit() {
        let config = cli::parse(["throttle", "-r", "1/s"].map(Into::into)).unwrap();
        let mut ending = Ending::new(&config, Time(0), Wall::EPOCH);
        for exit in [Exit::Refused, Exit::Signal(2), Exit::Refused] {
            ending.end(exit);
        }
        ending.fail(Exit::CommandFailed);
        assert_eq!(ending.exit(), Exit::Signal(2));
    }
}
