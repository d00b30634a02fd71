//! What `--dry-run` prints instead of releasing.

use super::{Sent, Sink, Stdout};
use crate::source::{Batch, Capacity, Delimiter};
use crate::time::Time;

/// Prints `INSTANT<TAB>ITEM` for each item.
pub struct DryRun {
    stdout: Stdout,
    delimiter: Delimiter,
    capacity: Capacity,
    lines: Vec<u8>,
}

impl DryRun {
    /// Prints to `stdout` when items would be sent to a sink of this capacity.
    pub fn new(stdout: Stdout, delimiter: Delimiter, capacity: Capacity) -> Self {
        // Nothing takes any time here, so nothing has to wait for its end.
        let capacity = Capacity { vacancies: u64::MAX, at_once: u64::MAX, ..capacity };
        DryRun { stdout, delimiter, capacity, lines: Vec::new() }
    }
}

impl Sink for DryRun {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn send(&mut self, at: Time, batch: &Batch) -> Sent {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        let instant = format!("{at}\t");
        for record in batch.records(&self.delimiter) {
            lines.extend_from_slice(instant.as_bytes());
            lines.extend_from_slice(record);
        }
        let sent = match self.stdout.write(&lines) {
            Ok(()) => Sent::All,
            Err((written, cause)) => {
                let mut end = 0;
                let lengths = batch.records(&self.delimiter).map(|record| instant.len() + record.len());
                let ends = lengths.map(|length| {
                    end += length;
                    end
                });
                Sent::Partly(ends.take_while(|end| *end <= written).count() as u64, cause)
            }
        };
        self.lines = lines;
        sent
    }
}
