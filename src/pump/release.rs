//! A release: what is checked before it leaves, and charged after it left.

use std::rc::Rc;

use anyhow::anyhow;

use super::Pump;
use super::flights::Flight;
use super::lanes::Turn;
use super::rules::Next;
use crate::charge::Key;
use crate::config::OnLimit;
use crate::exit::Exit;
use crate::limiter::Claim;
use crate::sink::{Cause, Load, Sent};
use crate::time::Time;

/// Items that were sent, or were to be.
struct Departure {
    lane: usize,
    /// The number of the first, and how many there are.
    first: u64,
    records: u64,
    /// How many releases they make.
    releases: u64,
    attempt: u64,
    /// The instant that was checked, and the one that is charged.
    start: Time,
    end: Time,
    /// What they ask of the limits.
    since: Time,
    costs: Rc<[u64]>,
    keys: Rc<[Key]>,
}

impl Pump<'_> {
    /// Sends what may go at `start`, which is now or was a moment ago, and charges it.
    pub(super) fn release(&mut self, start: Time) {
        let start = self.expire(start);
        let Turn::Of(at) = self.lanes.turn(&self.rules, start) else { return };
        let lane = self.lanes.lane(at);
        let Some((front, next)) = lane.front().zip(self.rules.next(lane)) else { return };
        let keys = Rc::clone(&front.class().keys);
        let claim = Claim { since: next.since, costs: &next.costs, keys: &keys };
        if self.rules.judges(front)
            && let Some(limit) = self.rules.limits.refusing(next.since, &claim)
        {
            return self.refuse(at, next.records, front.first(), limit);
        }
        let room = self.rules.limits.room(start, &claim).min(self.sink.span());
        let Next { records, since, costs } = self.rules.complete(lane, next, start);
        let is_batch = self.rules.batch.items.get() > 1;
        let load = match is_batch {
            true => lane.gather(records, self.sink.most_bytes(), &self.delimiter, &mut self.gathered),
            false => lane.load(room, &self.delimiter),
        };
        let Load { records, first, attempt, .. } = load;
        let releases = if is_batch { 1 } else { records };
        // A slot may have passed while all this was made ready. From here on, nobody notices any lateness.
        let claim = Claim { since, costs: &costs, keys: &keys };
        if self.bookings.is_some() && self.rules.limits.room(self.world.now(), &claim) < releases {
            return;
        }
        let sent =
            self.sink.send(start, &load).map_err(|error| (load.records_in(error.written), error.cause));
        let end = self.world.now();
        self.depart(
            Departure { lane: at, first, records, releases, attempt, start, end, since, costs, keys },
            sent,
        );
    }

    /// What has left is charged, and leaves its lane.
    fn depart(&mut self, departure: Departure, sent: Result<Sent, (u64, Cause)>) {
        let Departure { lane, first, records, releases, attempt, start, end, since, costs, keys } = departure;
        match sent {
            Ok(Sent::Released) => {
                let claim = Claim { since, costs: &costs, keys: &keys };
                self.rules.limits.commit(end, &claim, releases);
                self.count_released(records, attempt);
                if self.sink.runs_commands() {
                    let parcels = self.lanes.take(lane, records, end, &self.delimiter, &self.rules);
                    self.flights.take_off(first, Flight { parcels, since, started: start, costs, keys });
                } else {
                    self.rules.limits.finish(end, &claim);
                    self.forget(lane, records, end);
                }
            }
            Ok(Sent::Refused) => {
                self.forget(lane, records, end);
                self.stats.consumed += records;
                self.finish(first, records, Some(Exit::CommandFailed));
            }
            Ok(Sent::Later(pause)) => self.not_before = end.checked_add(pause.into()).unwrap_or(end),
            Err((gone, cause)) => {
                self.count_released(gone, attempt);
                self.forget(lane, gone, end);
                self.fail(cause);
            }
        }
    }

    /// The first `records` of a lane are done with.
    fn forget(&mut self, lane: usize, records: u64, at: Time) {
        self.stats.bytes += self.lanes.advance(lane, records, at, &self.delimiter, &self.rules) as u64;
    }

    fn count_released(&mut self, items: u64, attempt: u64) {
        if attempt > 1 {
            self.stats.retried += items;
        } else {
            self.stats.released += items;
            self.stats.consumed += items;
        }
    }

    /// What could not go at its arrival.
    fn refuse(&mut self, at: usize, records: u64, first: u64, limit: usize) {
        if self.rules.on_limit == OnLimit::Fail {
            let error = anyhow!("item {first} came too early for the limit {}", self.rates[limit]);
            return self.give_up(Exit::Refused, &error);
        }
        self.stats.refuse(records);
        let previous = self.lanes.lane(at).previous();
        self.lanes.advance(at, records, previous, &self.delimiter, &self.rules);
        self.settle(first);
    }
}
