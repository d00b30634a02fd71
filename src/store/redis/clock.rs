//! The server's clock as seen from here: maps slots to our own, and detects that the server's was set forward.
//!
//! No clock is synchronised. An answer says what the server's clock showed at some instant between asking, a, and
//! having the answer, b. A slot that is w after that is, by our clock, between a + w and b + w. So releases start from
//! b + w on, and end by a + w + D': none is early, and the round trip costs time but never breaks the limit.
//!
//! If the server's clock is set back, slots come later. If it is set forward, slots would come too early. Each answer
//! bounds how far the server's clock is ahead of ours. If it is further ahead than earlier answers allow, it was set
//! forward. Steps of up to a quarter of D are not noticed, so that is left free: D' = D − D/4. If all earlier answers
//! were slow, larger steps are not noticed either: up to the time that the fastest of them took. Another node of a
//! cluster that has taken over a key is believed only if the answers show that its clock is ahead of the last one's by
//! no more than a quarter of D.

use crate::store::vault::Reading;
use crate::time::Time;

/// Clocks of working machines drift by less than the elapsed time divided by this.
const DRIFT: u64 = 1000;

/// The part of D for which slots are good.
pub(super) fn good_for(validity: u64) -> u64 {
    validity - tolerance(validity)
}

fn tolerance(validity: u64) -> u64 {
    validity / 4
}

/// Bounds on the nanoseconds that the server's clock is ahead of ours.
#[derive(Clone, Copy, Debug)]
struct Offset {
    least: i128,
    most: i128,
}

impl Offset {
    fn shown_by(exchange: &Reading) -> Self {
        let ahead_of = |ours: Time| i128::from(exchange.shown.0) - i128::from(ours.0);
        Offset { least: ahead_of(exchange.answered), most: ahead_of(exchange.asked) }
    }

    /// The bounds after `elapsed` nanoseconds.
    fn after(self, elapsed: u64) -> Self {
        let drift = i128::from(elapsed / DRIFT);
        Offset { least: self.least - drift, most: self.most + drift }
    }

    /// Combines the bounds with earlier ones. Small steps forward add up; a step back voids the earlier lower bound.
    fn and(self, earlier: Self) -> Self {
        let least = if self.was_set_back(earlier) { self.least } else { self.least.max(earlier.least) };
        Offset { least, most: self.most.min(earlier.most) }
    }

    fn was_set_back(self, earlier: Self) -> bool {
        self.most < earlier.least
    }
}

/// A server's clock, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    /// Its lead over our clock, as of an instant.
    ahead: Option<(Offset, Time)>,
    /// What it showed after it was last set forward, and our own instant when nothing matters any more that was kept
    /// before.
    forward: Option<(Time, Time)>,
    /// The number of times that it was found to have been set, forward or back.
    pub(super) times_set: u64,
}

impl ServerClock {
    /// Learns from an exchange. Returns whether the server's clock was set forward since the last one.
    ///
    /// Nothing matters for longer than `memory` nanoseconds: then all slots from before are over.
    pub(super) fn learn(&mut self, exchange: &Reading, validity: u64, memory: u64) -> bool {
        let (shown, known) = (Offset::shown_by(exchange), self.known(exchange, memory));
        let stepped = known.is_some_and(|known| shown.least > known.most + i128::from(tolerance(validity)));
        let was_set_back = known.is_some_and(|known| shown.was_set_back(known));
        self.forward = self.forward.filter(|(_, until)| exchange.asked < *until);
        if let (true, Some((from, _)), Some((_, last))) = (was_set_back, &mut self.forward, self.ahead) {
            // In the time that it shows now, what was written before the step forward is from before the last exchange.
            *from = Time(exchange.shown.0.saturating_sub(exchange.asked.since(last)));
        }
        if stepped {
            self.forward = Some((exchange.shown, exchange.answered.saturating_add(memory)));
        }
        self.times_set += u64::from(stepped || was_set_back);
        let ahead = known.filter(|_| !stepped).map_or(shown, |known| shown.and(known));
        self.ahead = Some((ahead, exchange.answered));
        stepped
    }

    /// True if the clock that an exchange showed may be ahead of this one: nothing shows that it is not.
    pub(super) fn may_be_behind(&self, exchange: &Reading, validity: u64, memory: u64) -> bool {
        let shown = Offset::shown_by(exchange);
        let is_not = |known: Offset| shown.least <= known.least + i128::from(tolerance(validity));
        !self.known(exchange, memory).is_some_and(is_not)
    }

    /// If it was set forward, and that still matters: what it showed then. What was written before looks older than it
    /// is.
    pub(super) fn good_from(&self) -> Option<Time> {
        self.forward.map(|(from, _)| from)
    }

    /// Its lead over our clock, if that was learned recently enough.
    fn known(&self, exchange: &Reading, memory: u64) -> Option<Offset> {
        let (ahead, at) = self.ahead.filter(|(_, at)| exchange.asked.since(*at) <= memory)?;
        Some(ahead.after(exchange.answered.since(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    const D: u64 = 20_000_000;
    const HOUR: u64 = 3_600_000_000_000;

    fn exchange(asked: u64, server: u64, answered: u64) -> Reading {
        let [asked, shown, answered] = [asked, server, answered].map(|millis| Time(millis * 1_000_000));
        Reading { asked, shown, answered, wall: Wall::EPOCH }
    }

    #[test]
    fn a_step_is_told_from_a_slow_answer() {
        // Asked, what the server's clock shows, answered; in ms. Whether a step forward is noticed.
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
            let steps = exchanges.iter().map(|&(a, s, b)| clock.learn(&exchange(a, s, b), D, HOUR));
            assert_eq!(steps.last(), Some(expected), "{exchanges:?}");
        }
    }

    #[test]
    fn it_is_counted_how_often_it_learn_or_back() {
        let mut clock = ServerClock::default();
        // By up to a quarter of D it may be set forward; a slow answer tells nothing.
        let steps = [(0, 0), (1, 0), (5, 0), (9, 1), (7, 2), (5000, 3), (0, 4), (0, 4)];
        for (number, (ahead, times)) in steps.into_iter().enumerate() {
            let asked = 20 * number as u64;
            clock.learn(&exchange(asked, asked + 7000 + ahead, asked + 1), D, HOUR);
            assert_eq!(clock.times_set, times, "{ahead}");
        }
        clock.learn(&exchange(200, 7230, 250), D, HOUR);
        assert_eq!(clock.times_set, 4);
    }

    #[test]
    fn it_is_noticed_once_and_forgotten_when_it_matters_no_more() {
        let mut clock = ServerClock::default();
        assert!(!clock.learn(&exchange(0, 5000, 1), D, HOUR));
        assert!(clock.learn(&exchange(10, 9000, 11), D, HOUR));
        assert!(!clock.learn(&exchange(20, 9010, 21), D, HOUR));
        assert!(!clock.learn(&exchange(2000, 99000, 2001), D, 1_000_000_000));
    }

    /// What was written since is trusted. What was written before the step forward is not, as long as it may matter.
    #[test]
    fn what_is_set_back_later_is_doubted_no_longer_than_it_matters() {
        let memory = 10_000_000_000;
        // When it is asked, what it shows, and from when on what was written is good; in ms.
        let table: [&[(u64, i64, Option<i64>)]; 4] = [
            // Back by less than it was set forward, after a second.
            &[(10, 10, None), (1011, 5011, Some(5011)), (2011, 6011, Some(5011)), (3011, 4011, Some(3012))],
            // By an hour, and once more when it does not matter any more.
            &[
                (1000, 9000, Some(9000)),
                (2000, -3_590_000, Some(-3_590_999)),
                (8000, -3_584_000, Some(-3_590_999)),
                (11_002, -3_580_998, None),
                (11_012, -3_581_000, None),
            ],
            // After it mattered.
            &[
                (1000, 5000, Some(5000)),
                (9000, 13_000, Some(5000)),
                (12_000, 16_000, None),
                (12_100, 15_000, None),
            ],
            // Nobody asked meanwhile.
            &[(1000, 86_401_000, Some(86_401_000)), (31_000, 31_000, None), (631_000, 631_000, None)],
        ];
        for exchanges in table {
            let mut clock = ServerClock::default();
            let base = 3_600_000i64;
            clock.learn(&exchange(0, 3_600_000, 1), D, memory);
            for &(asked, shown, from) in exchanges {
                let shown = u64::try_from(base + shown).unwrap();
                clock.learn(&exchange(asked, shown, asked + 1), D, memory);
                let good_from = clock.good_from().map(|at| i64::try_from(at.0 / 1_000_000).unwrap() - base);
                assert_eq!(good_from, from, "{exchanges:?} at {asked}");
            }
        }
    }

    /// However slow the answers of both were. A slot comes too early by as much as the clock is ahead, less the time
    /// that the answer was on its way.
    #[test]
    fn a_node_is_believed_only_if_its_clock_is_not_ahead_by_more() {
        let (mut random, mut believed) = (fastrand::Rng::with_seed(11), [0, 0]);
        for _ in 0..20_000 {
            let (last_ahead, ahead) = (random.i64(0..=60), random.i64(0..=60));
            let mut last = ServerClock::default();
            let mut now = 1000;
            let mut exchange_with = |ahead: i64, random: &mut fastrand::Rng| {
                let longest = [0, 3, 50][random.usize(..3)];
                let (there, back) = (random.u64(0..=longest), random.u64(0..=longest));
                let asked = now + random.u64(0..=20);
                now = asked + there + back;
                (exchange(asked, (asked + there).checked_add_signed(ahead).unwrap(), now), back)
            };
            for _ in 0..random.usize(1..4) {
                let (exchange, _) = exchange_with(last_ahead, &mut random);
                assert!(!last.learn(&exchange, D, HOUR));
            }
            let (exchange, back) = exchange_with(ahead, &mut random);
            if !last.may_be_behind(&exchange, D, HOUR) {
                let early = (ahead - last_ahead) * 1_000_000 - i64::try_from(back).unwrap() * 1_000_000;
                assert!(early <= i64::try_from(tolerance(D)).unwrap(), "{last:?} {exchange:?}");
                believed[usize::from(ahead > last_ahead)] += 1;
            }
        }
        assert!(believed.iter().all(|&count| count > 1000), "{believed:?}");
    }
}
