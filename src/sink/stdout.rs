//! Writes items to standard output as they are.

use std::sync::Arc;

use super::writer::{print, print_while};
use super::{Cause, Sent, Sink};
use crate::config::{InputOptions, Separator, Table};
use crate::interrupt::Interrupt;
use crate::output::Target;
use crate::pipe;
use crate::source::{Batch, Capacity, Delimiter};
use crate::time::Time;

pub(crate) struct Stdout {
    interrupt: Arc<Interrupt>,
    delimiter: Delimiter,
    /// The table whose header is still to be written.
    table: Option<Arc<Table>>,
    /// True if what was written last has no delimiter: an item that was the last of the input, and overtook others.
    is_open: bool,
    /// A reused buffer for items that are not contiguous in memory.
    gathered: Vec<u8>,
    /// True once a write could fill a usual pipe and a larger one was requested.
    is_fast: bool,
}

impl Stdout {
    /// Writes to standard output. Once `interrupt` is raised, writing ends early, after a whole item if possible.
    pub(crate) fn new(delimiter: Delimiter, interrupt: Arc<Interrupt>) -> Self {
        Stdout { interrupt, delimiter, table: None, is_open: false, gathered: Vec::new(), is_fast: false }
    }

    /// Writes the header of the table that `input` is, if it has one, before all items.
    pub(crate) fn with_header(self, input: &InputOptions) -> Self {
        Stdout { table: input.separator.as_ref().and_then(Separator::table).cloned(), ..self }
    }

    /// Writes whole records, the last of which has no delimiter if `is_open`, and does `meanwhile` what the thread is
    /// asked for. An error comes with the number of bytes written before it.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        is_open: bool,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), (usize, Cause)> {
        if bytes.len() >= pipe::USUAL && !std::mem::replace(&mut self.is_fast, true) {
            pipe::enlarge(Target::Stdout.fd());
        }
        if std::mem::replace(&mut self.is_open, is_open) {
            let written = print(&self.interrupt, Target::Stdout, self.delimiter.bytes());
            written.map_err(|(_, cause)| (0, cause))?;
        }
        let end_of_record = |written| {
            let whole = self.delimiter.whole(&bytes[..written]).1;
            if whole == written { whole } else { whole + self.delimiter.first(&bytes[whole..]) }
        };
        print_while(&self.interrupt, Target::Stdout, bytes, end_of_record, meanwhile)
    }
}

impl Sink for Stdout {
    fn capacity(&self) -> Capacity {
        Capacity::UNLIMITED
    }

    fn begin(&mut self) -> Result<(), Cause> {
        let Some(header) = self.table.as_ref().and_then(|table| table.header()) else { return Ok(()) };
        let written = print(&self.interrupt, Target::Stdout, &header.bytes);
        self.table = None;
        written.map_err(|(_, cause)| cause)
    }

    fn send(&mut self, _: Time, batch: &Batch, meanwhile: &mut dyn FnMut()) -> Sent {
        let mut gathered = std::mem::take(&mut self.gathered);
        let bytes = match batch.segments() {
            [only] => only.bytes(),
            segments => {
                gathered.clear();
                segments.iter().for_each(|segment| gathered.extend_from_slice(segment.bytes()));
                &gathered
            }
        };
        let is_open = batch.segments().last().is_some_and(|last| !last.is_complete(&self.delimiter));
        let sent = match self.write(bytes, is_open, meanwhile) {
            Ok(()) => Sent::All,
            Err((written, cause)) => Sent::Partly(batch.items_in(written, &self.delimiter), cause),
        };
        self.gathered = gathered;
        sent
    }
}
