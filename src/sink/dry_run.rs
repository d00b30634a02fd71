//! What `--dry-run` prints instead of releasing.

use super::{Load, SendError, Sent, Sink, Stdout};
use crate::time::Time;

/// Prints `INSTANT<TAB>ITEM` for each item.
pub struct DryRun {
    stdout: Stdout,
    lines: Vec<u8>,
}

impl DryRun {
    /// Prints to `stdout`.
    pub fn new(stdout: Stdout) -> Self {
        DryRun { stdout, lines: Vec::new() }
    }
}

impl Sink for DryRun {
    fn send(&mut self, at: Time, load: &Load) -> Result<Sent, SendError> {
        self.lines.clear();
        let instant = format!("{at}\t");
        for record in load.delimiter.split_inclusive(load.bytes) {
            self.lines.extend_from_slice(instant.as_bytes());
            self.lines.extend_from_slice(record);
        }
        self.stdout.send(at, &Load { bytes: &self.lines, ..*load })
    }
}
