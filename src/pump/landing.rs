//! What becomes of items when their command has ended.

use crate::exit::Exit;
use crate::limiter::Claim;
use crate::runtime::joblog::Entry;
use crate::sink::Ended;
use crate::source::Parcel;
use crate::time::Time;
use crate::ui::stats::items;

use super::Pump;
use super::flights::{Flight, Outcome};

impl Pump<'_> {
    /// Commands have ended.
    pub(super) fn reap(&mut self) {
        let now = self.world.now();
        let reaped = self.sink.reap(now);
        for ended in reaped.ended {
            if let Some(flight) = self.flights.land(ended.first) {
                self.land(now, ended, flight);
            }
        }
        reaped.cause.into_iter().for_each(|cause| self.fail(cause));
    }

    /// A command has ended: it is noted, and its items are done with or tried again.
    fn land(&mut self, now: Time, ended: Ended, flight: Flight) {
        let claim = Claim { since: flight.since, costs: &flight.costs, keys: &flight.keys };
        self.rules.limits.finish(now, &claim);
        self.lanes.call_back(&self.rules);
        self.note(now, ended, &flight);
        let outcome = self.flights.outcome(&ended, flight.attempt());
        if let Outcome::Again(wait) = outcome
            && !self.stopping
        {
            let not_before = now.checked_add(wait.into()).unwrap_or(Time(u64::MAX));
            let again = |parcel: Parcel| parcel.again(ended.first, not_before);
            return self.lanes.put_back(flight.parcels.into_iter().map(again).collect(), &self.rules);
        }
        self.stats.bytes += flight.bytes();
        let exit = Exit::of_command(ended.end);
        self.finish(ended.first, flight.records(), Some(exit).filter(|exit| *exit != Exit::Done));
    }

    /// Items are done with, well or not.
    pub(super) fn finish(&mut self, first: u64, records: u64, failure: Option<Exit>) {
        self.settle(first);
        if let Some(exit) = failure {
            self.stats.failed += records;
            self.exit = self.exit.max(exit);
            self.stopping |= exit.ends_the_run();
        }
        if let Some(halt) = self.flights.count(records, failure.is_some()).filter(|_| !self.stopping) {
            self.reporter.notice(&format_args!("{} failed: --halt ends the run", items(self.stats.failed)));
            self.stopping = true;
            if halt.now {
                self.pass_on();
            }
        }
    }

    /// Tells the sink how far all items are done with, or running.
    pub(super) fn settle(&mut self, first: u64) {
        let next = self.lanes.first().unwrap_or(u64::MAX).min(self.intake.first());
        if let Err(cause) = self.sink.settle(first, next) {
            self.fail(cause);
        }
    }

    fn note(&mut self, now: Time, ended: Ended, flight: &Flight) {
        let Some(log) = &self.log else { return };
        let (wait, runtime) = (flight.started.since(flight.since), now.since(flight.started));
        let items = flight.parcels.iter().flat_map(|parcel| {
            let items = self.delimiter.split(parcel.block().bytes());
            items.zip(parcel.first()..).map(|(item, seq)| (item, seq, parcel.attempt()))
        });
        let mut entries =
            items.map(|(item, seq, attempt)| Entry { seq, wait, runtime, attempt, end: ended.end, item });
        let noted = entries.try_for_each(|entry| log.note(&entry));
        drop(entries);
        noted.err().into_iter().for_each(|error| self.give_up(Exit::Error, &error));
    }
}
