//! When to look again.

use crate::time::Time;

#[derive(Clone, Copy, Default)]
pub(super) struct Timing {
    /// When the next release may be, as far as it is known.
    pub(super) next: Option<Time>,
    /// The sink could not take more; it is not tried again until then.
    pub(super) not_before: Time,
    /// All that has arrived by now is known.
    pub(super) is_due: bool,
    /// Until when what was sent last could be sent, if it needed slots.
    pub(super) good_until: Option<Time>,
}
