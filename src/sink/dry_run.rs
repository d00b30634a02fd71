//! `--dry-run`: prints releases instead of making them.

use std::ffi::OsStr;
use std::mem;

use super::{Expander, Sent, Sink, Stdout};
use crate::config::HEADERS;
use crate::printable::quoted;
use crate::source::{Batch, Capacity, Delimiter};
use crate::time::Time;

/// Prints `INSTANT<TAB>ITEM` for each item; or, for each release, its command line, quoted for a shell.
pub(crate) struct DryRun {
    stdout: Stdout,
    delimiter: Delimiter,
    capacity: Capacity,
    /// `None` if the items would be written as they are.
    expander: Option<Expander>,
    lines: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl DryRun {
    /// Prints to `stdout` what would be sent to a sink of this capacity. An `expander` turns items into command lines.
    pub(crate) fn new(
        stdout: Stdout,
        delimiter: Delimiter,
        capacity: Capacity,
        expander: Option<Expander>,
    ) -> Self {
        let at_once = if expander.is_some() { 1 } else { u64::MAX };
        // Nothing takes time here, so no release has to wait for the end of another.
        let capacity = Capacity { vacancies: u64::MAX, at_once, ..capacity };
        DryRun { stdout, delimiter, capacity, expander, lines: Vec::new(), ends: Vec::new() }
    }
}

impl Sink for DryRun {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn send(&mut self, at: Time, batch: &Batch, meanwhile: &mut dyn FnMut()) -> Sent {
        let DryRun { lines, ends, .. } = self;
        lines.clear();
        ends.clear();
        let mut is_open = false;
        if let Some(expander) = &self.expander {
            let line = quoted(&expander.expand(batch, OsStr::new(HEADERS)));
            lines.extend_from_slice(format!("{at}\t{line}\n").as_bytes());
            ends.push(lines.len());
        } else {
            let instant = format!("{at}\t");
            for record in batch.records(&self.delimiter) {
                // With --unsorted, the last of the input may come before others.
                if mem::replace(&mut is_open, !record.ends_with(self.delimiter.bytes())) {
                    lines.extend_from_slice(self.delimiter.bytes());
                }
                lines.extend_from_slice(instant.as_bytes());
                lines.extend_from_slice(record);
                ends.push(lines.len());
            }
        }
        match self.stdout.write(&self.lines, is_open, meanwhile) {
            Ok(()) => Sent::All,
            Err((written, cause)) => {
                Sent::Partly(self.ends.partition_point(|end| *end <= written) as u64, cause)
            }
        }
    }
}
