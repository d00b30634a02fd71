//! The size of all that waits, and its bounds.

use crate::source::Segment;

/// The most bytes that may wait in lanes; a single item may be larger.
const MAX_BYTES: usize = 64 << 20;

/// The most bytes that may wait if items need not be told apart: what was read is written while it is still in the
/// cache.
const MAX_BYTES_ALIKE: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Size {
    pub(super) items: u64,
    pub(super) bytes: usize,
    pub(super) parts: usize,
}

impl Size {
    /// True up to `lookahead` items, and as long as a `batch` needs more. `singly`: items join one by one.
    pub(super) fn has_room(self, lookahead: u64, batch: u64, singly: bool) -> bool {
        if singly {
            return self.items < lookahead.max(batch) && (self.bytes < MAX_BYTES || self.items == 0);
        }
        let is_small = self.bytes < MAX_BYTES_ALIKE && self.parts as u64 <= lookahead;
        is_small || (self.items < batch && self.bytes < MAX_BYTES)
    }

    pub(super) fn add(&mut self, segment: &Segment) {
        self.items += segment.items();
        self.bytes += segment.bytes().len();
        self.parts += 1;
    }

    /// Removes items, and `parts` of the parts that hold them.
    pub(super) fn remove<'a>(&mut self, segments: impl IntoIterator<Item = &'a Segment>, parts: usize) {
        for segment in segments {
            self.items -= segment.items();
            self.bytes -= segment.bytes().len();
        }
        self.parts -= parts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_items_and_bytes_and_for_a_batch() {
        // Whether items join one by one; the most in a batch; the items, bytes and parts that wait; whether there is
        // room.
        let table = [
            (true, 1, 3, 0, 9, true),
            (true, 1, 4, 0, 4, false),
            (true, 9, 8, 0, 8, true),
            (true, 9, 9, 0, 9, false),
            (true, 1, 3, 67_108_863, 3, true),
            (true, 1, 3, 67_108_864, 3, false),
            (true, 1, 0, 67_108_864, 3, true),
            (false, 1, 100, 65_535, 4, true),
            (false, 1, 100, 65_535, 5, false),
            (false, 1, 100, 65_536, 1, false),
            (false, 200, 199, 65_536, 9, true),
            (false, 200, 200, 65_536, 9, false),
            (false, 200, 199, 67_108_864, 9, false),
            (false, 200, 201, 9, 9, false),
        ];
        for (singly, batch, items, bytes, parts, expected) in table {
            let has_room = Size { items, bytes, parts }.has_room(4, batch, singly);
            assert_eq!(has_room, expected, "{singly} {batch} {items} {bytes} {parts}");
        }
    }
}
