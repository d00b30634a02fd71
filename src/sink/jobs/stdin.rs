//! The stdin of commands.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::iter;
use std::process::Stdio;

use crate::source::{Batch, Segment};

/// An empty file.
pub(super) const NOTHING: &str = "/dev/null";

/// The most bytes that a pipe is sure to take without a reader.
const PIPE: usize = 4096;

/// A stdin that is at its end, even where there are no devices, as in some containers.
pub(super) fn nothing() -> io::Result<Stdio> {
    let device = File::open(NOTHING).map(Stdio::from);
    device.or_else(|_| io::pipe().map(|(read, _)| read.into()))
}

/// A stdin that already holds `head` and the items, so no thread has to feed it and the command need not read it. No
/// file is used twice: processes that a command left behind may still read it.
pub(super) fn of(head: &[u8], batch: &Batch) -> io::Result<Stdio> {
    let items = batch.segments().iter().map(Segment::bytes);
    let bytes = iter::once(head).chain(items).collect::<Vec<_>>().concat();
    if bytes.len() <= PIPE {
        let (read, mut write) = io::pipe()?;
        write.write_all(&bytes)?;
        return Ok(read.into());
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(file.into())
}
