//! Items whose command is running.

use crate::gate::OwnedRequest;
use crate::source::Segment;
use crate::time::Time;

/// Items whose command is running.
pub struct Attempt {
    /// The items.
    pub segments: Vec<Segment>,
    /// What was asked for them.
    pub asked: OwnedRequest,
    /// The instant that was checked before the command started.
    pub started: Time,
}

impl Attempt {
    pub(in crate::schedule) fn items(&self) -> u64 {
        self.segments.iter().map(Segment::items).sum()
    }

    /// How long they are, with delimiters.
    pub(in crate::schedule) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes().len() as u64).sum()
    }

    /// How often they have been tried, this time included.
    pub fn number(&self) -> u64 {
        self.segments.first().map_or(1, Segment::attempt)
    }
}
