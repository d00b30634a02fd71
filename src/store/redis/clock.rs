//! The server's clock, seen from here: maps slots to our own, and finds out that it was set forward.
//!
//! No clock is synchronised. An answer says what the server's clock showed at some instant between asking, a, and
//! having the answer, b. A slot that is w after that is not before b + w by our clock, nor after a + w. So releases
//! start from b + w on, and end by a + w + D': none is early, and the round trip costs time, not the limit.
//!
//! If the server's clock is set back, that makes slots later. If it is set forward, slots would come too early. Each
//! answer bounds how far the server's clock is ahead of ours, and if it is further ahead than earlier answers allow, it
//! was set forward. Steps of up to a quarter of D are not noticed, so it is left free: D' = D − D/4. The same shows
//! whether another node of a cluster, which has taken over a key, has a clock ahead of the last one's.

use crate::store::Slot;
use crate::time::Time;

/// Clocks of working machines drift by less than the time divided by this.
const DRIFT: u64 = 1000;

/// An instant of the server's clock, in microseconds.
pub(super) type Micros = u64;

/// The instants at which something was asked, answered in between, and the answer was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Exchange {
    pub(super) asked: Time,
    pub(super) server: Micros,
    pub(super) answered: Time,
}

impl Exchange {
    pub(super) fn round_trip(&self) -> u64 {
        self.answered.since(self.asked)
    }

    /// An instant of the server's as one of ours that is no earlier.
    pub(super) fn not_before(&self, server: Micros) -> Time {
        self.answered.saturating_add(self.nanos_until(server))
    }

    /// The slot, if it is of any use.
    pub(super) fn slot(&self, server: Micros, deadline: u64) -> Option<Slot> {
        let at = self.not_before(server);
        let good_for = deadline - tolerance(deadline);
        let until = self.asked.saturating_add(self.nanos_until(server)).saturating_add(good_for);
        Some(Slot { at, until }).filter(|slot| slot.at <= slot.until)
    }

    fn nanos_until(&self, server: Micros) -> u64 {
        server.saturating_sub(self.server).saturating_mul(1000)
    }
}

fn tolerance(deadline: u64) -> u64 {
    deadline / 4
}

/// A bound on how far the server's clock is ahead of ours.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    /// At most this number of nanoseconds, as of the instant.
    ahead: Option<(i128, Time)>,
    /// The instant at which nothing matters any more that was kept before the clock was last set forward. It identifies
    /// that step.
    pub(super) forward_until: Option<Micros>,
}

impl ServerClock {
    /// Learns from an exchange. Returns true if the server's clock was set forward since the last one.
    ///
    /// Nothing matters for longer than `memory` nanoseconds: all slots from before are over.
    pub(super) fn was_set_forward(&mut self, exchange: &Exchange, deadline: u64, memory: u64) -> bool {
        let stepped = self.is_behind(exchange, deadline, memory);
        if stepped {
            self.forward_until = Some(exchange.server.saturating_add(memory / 1000));
        }
        let most = i128::from(exchange.server) * 1000 - i128::from(exchange.asked.0);
        let known = self.known(exchange, memory).filter(|_| !stepped);
        self.ahead = Some((known.map_or(most, |known| known.min(most)), exchange.answered));
        stepped
    }

    /// The clock that an exchange showed is ahead of this one.
    pub(super) fn is_behind(&self, exchange: &Exchange, deadline: u64, memory: u64) -> bool {
        let least = i128::from(exchange.server) * 1000 - i128::from(exchange.answered.0);
        let is_ahead = |known| least > known + i128::from(tolerance(deadline));
        self.known(exchange, memory).is_some_and(is_ahead)
    }

    /// The instant that it shows at one of ours, about.
    pub(super) fn shows(&self, now: Time) -> Option<Micros> {
        let (ahead, _) = self.ahead?;
        Micros::try_from((i128::from(now.0) + ahead) / 1000).ok()
    }

    /// The nanoseconds that it is ahead of ours at most, if that was learned not too long ago.
    fn known(&self, exchange: &Exchange, memory: u64) -> Option<i128> {
        let (ahead, at) = self.ahead.filter(|(_, at)| exchange.asked.since(*at) <= memory)?;
        Some(ahead + i128::from(exchange.answered.since(at) / DRIFT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: u64 = 20_000_000;
    const HOUR: u64 = 3_600_000_000_000;

    fn exchange(asked: u64, server: Micros, answered: u64) -> Exchange {
        Exchange {
            asked: Time(asked * 1_000_000),
            server: server * 1000,
            answered: Time(answered * 1_000_000),
        }
    }

    #[test]
    fn a_slot_is_not_early_and_ends_in_time_wherever_in_the_round_trip_the_server_looked() {
        let slot = exchange(100, 5000, 104).slot(5_050_000, D).unwrap();
        assert_eq!(slot, Slot { at: Time(154_000_000), until: Time(165_000_000) });
    }

    #[test]
    fn an_answer_that_took_too_long_is_of_no_use() {
        assert!(exchange(100, 5000, 115).slot(5_050_000, D).is_some());
        assert!(exchange(100, 5000, 116).slot(5_050_000, D).is_none());
    }

    #[test]
    fn a_step_is_told_from_a_slow_answer() {
        // Asked, what the server's clock shows, answered; in ms. Whether a step forward shows.
        let table: [(&[(u64, u64, u64)], bool); 8] = [
            (&[(0, 5000, 1), (1000, 6000, 1001)], false),
            // On its way for 200 ms, in one direction or the other.
            (&[(0, 5000, 1), (1000, 6200, 1201)], false),
            (&[(0, 5200, 201), (1000, 6200, 1201)], false),
            (&[(0, 5000, 1), (1000, 6010, 1001)], true),
            (&[(0, 5000, 1), (1000, 9000, 1001)], true),
            // Set back.
            (&[(0, 5000, 1), (1000, 2000, 1001)], false),
            (&[(0, 5000, 1), (1000, 2000, 1001), (2000, 7000, 2001)], true),
            // A slow answer in between does not hide it.
            (&[(0, 5000, 1), (1000, 6000, 1400), (1500, 6600, 1501)], true),
        ];
        for (exchanges, expected) in table {
            let mut clock = ServerClock::default();
            let steps = exchanges.iter().map(|&(a, s, b)| clock.was_set_forward(&exchange(a, s, b), D, HOUR));
            assert_eq!(steps.last(), Some(expected), "{exchanges:?}");
        }
    }

    #[test]
    fn it_is_noticed_once_and_forgotten_when_it_matters_no_more() {
        let mut clock = ServerClock::default();
        assert!(!clock.was_set_forward(&exchange(0, 5000, 1), D, HOUR));
        assert!(clock.was_set_forward(&exchange(10, 9000, 11), D, HOUR));
        assert!(!clock.was_set_forward(&exchange(20, 9010, 21), D, HOUR));
        assert!(!clock.was_set_forward(&exchange(2000, 99000, 2001), D, 1_000_000_000));
    }
}
