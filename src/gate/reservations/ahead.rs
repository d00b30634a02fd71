//! How far ahead slots are booked so that they come in time, and how many are used until an answer comes.

use super::BookingTerms;
use crate::time::SECOND;

/// The most nanoseconds.
pub(super) const MAX_AHEAD: u64 = SECOND / 2;

/// After an answer that came in time, it is less, by one part in this many.
const DECAY: u64 = 16;

/// The nanoseconds after a booking from which slots come in time.
#[derive(Clone)]
pub(super) struct Ahead {
    pub(super) nanos: u64,
    /// The least of them: 0 if slots are good for longer than answers take.
    least: u64,
    /// As [`BookingTerms::validity`].
    validity: u64,
    /// Nanoseconds that answers take on average, and that the fastest ones of late have taken.
    mean: u64,
    fastest: u64,
}

impl Ahead {
    pub(super) fn new(terms: &BookingTerms) -> Self {
        let least = terms.answers_within.saturating_sub(terms.validity);
        Ahead { nanos: least, least, validity: terms.validity, mean: u64::MAX, fastest: u64::MAX }
    }

    /// Notes how long an answer took. One that took exceptionally long counts for less.
    pub(super) fn measure(&mut self, took: u64) {
        self.fastest = took.min(self.fastest.saturating_add(self.fastest / DECAY + 1));
        let took = took.min(self.mean.saturating_mul(4).max(1));
        self.mean = if self.mean == u64::MAX { took } else { self.mean - self.mean / DECAY + took / DECAY };
    }

    /// The number of slots, each of which begins when the one before it is over, that can be used until others have
    /// come: of a store that is near, in the next answer; otherwise in the one after that.
    pub(super) fn slots_in_turn(&self) -> u64 {
        match self.fastest < self.validity / 2 {
            true => 1,
            false => (self.mean.saturating_mul(2) / self.validity.max(1)).saturating_add(2),
        }
    }

    /// Slots came in time, in an answer that took this long.
    pub(super) fn came_in_time(&mut self, took: u64) {
        let needed = took.saturating_mul(2).saturating_sub(self.validity).min(self.nanos);
        self.nanos = (self.nanos - self.nanos / DECAY).max(needed).max(self.least);
    }

    /// No slot came in time.
    pub(super) fn came_late(&mut self, took: u64) {
        self.nanos = self.nanos.max(took).saturating_mul(2).min(MAX_AHEAD);
    }
}
