//! What is known of the input that has arrived by now.

/// Whether all input that has arrived by now is known.
#[derive(Default)]
pub(super) struct Listening {
    are_known: bool,
    /// The present wait also listens to the input.
    listens: bool,
}

impl Listening {
    /// True if all input that has arrived by now is known.
    pub(super) fn are_known(&self) -> bool {
        self.are_known
    }

    /// A wait begins, which may listen to the input.
    pub(super) fn wait(&mut self, listens: bool) {
        *self = Listening { are_known: false, listens };
    }

    /// The instant waited for has come, and all that arrived by then was reported, if the wait listened.
    pub(super) fn due(&mut self) {
        self.are_known = self.listens;
    }

    /// All that has arrived by now was reported.
    pub(super) fn know(&mut self) {
        self.are_known = true;
    }

    /// Time has passed, or there is room: more may be read.
    pub(super) fn forget(&mut self) {
        self.are_known = false;
    }
}
