//! Items, written to standard output as they are.

use std::io;
use std::sync::Arc;

use super::writer::{Target, Writer};
use super::{Load, SendError, Sent, Sink};
use crate::interrupt::Interrupt;
use crate::pipe;
use crate::time::Time;

/// Writes items as they are.
pub struct Stdout {
    writer: Writer,
    /// So much has gone at once that a larger pipe was asked for.
    is_fast: bool,
}

impl Stdout {
    /// Standard output; writing ends early, after a whole item if possible, once `interrupt` is raised.
    pub fn new(interrupt: Arc<Interrupt>) -> Self {
        Stdout { writer: Writer::new(interrupt), is_fast: false }
    }
}

impl Sink for Stdout {
    fn send(&mut self, _: Time, load: &Load) -> Result<Sent, SendError> {
        if load.bytes.len() >= pipe::USUAL && !std::mem::replace(&mut self.is_fast, true) {
            pipe::enlarge(io::stdout());
        }
        let end_of_item = |written| {
            let items = load.records_in(written);
            match load.delimiter.length(load.bytes, items) {
                boundary if boundary == written => written,
                _ => load.delimiter.length(load.bytes, items + 1),
            }
        };
        let result = self.writer.write_all(Target::Stdout, load.bytes, end_of_item);
        result.map(|()| Sent::Released).map_err(|(written, cause)| SendError { written, cause })
    }
}
