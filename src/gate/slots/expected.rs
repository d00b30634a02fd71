//! The next slots, which nobody has yet, as far as a store has told of them.

use super::Request;
use super::booked::Booked;
use crate::gate::charges::Claim;
use crate::gate::instants::Instants;
use crate::time::{SECOND, Time};

/// The instant of the next slot for each claim.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected(Instants<Claim>);

impl Expected {
    /// The next slot for this claim is at `next`, and none is before it. Without `next`, that is not known to those who
    /// `wait`; an item that does not may still be judged by what was told before.
    pub(super) fn told(&mut self, now: Time, claim: Claim, next: Option<Time>, wait: bool) {
        match next {
            // An item that arrived before that is judged soon.
            Some(at) => self.0.set(Time(now.0.saturating_sub(SECOND)), claim, at),
            None if wait => self.0.remove(&claim),
            None => {}
        }
    }

    /// The instant of the next slot, if there was none at `request.since`. `booked` knows the claim of a request.
    pub(super) fn next(&self, booked: &Booked, request: &Request) -> Option<Time> {
        if self.0.is_empty() || request.is_free() {
            return None;
        }
        self.0.get(&booked.claim(request)).filter(|at| *at > request.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;

    #[test]
    fn what_arrived_before_a_slot_is_free_is_refused() {
        let (booked, mut expected) = (Booked::default(), Expected::default());
        let request = |since, costs| Request { since: Time(since), costs, keys: &[] };
        let early = request(6, &[1]);
        assert_eq!(expected.next(&booked, &early), None);
        expected.told(Time(5), (Key::new(), [1].into()), Some(Time(7)), false);
        assert_eq!(expected.next(&booked, &early), Some(Time(7)));
        for other in [request(7, &[1]), request(6, &[2])] {
            assert_eq!(expected.next(&booked, &other), None);
        }
        expected.told(Time(8), (Key::new(), [1].into()), None, false);
        assert_eq!(expected.next(&booked, &early), Some(Time(7)), "it may still be judged");
        expected.told(Time(8), (Key::new(), [1].into()), None, true);
        assert_eq!(expected.next(&booked, &early), None);
    }
}
