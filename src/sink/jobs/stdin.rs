//! The stdin of commands.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::iter;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::source::{Batch, Segment};

/// An empty file.
pub(super) const NOTHING: &str = "/dev/null";

/// The most bytes that a pipe is sure to take without a reader.
const PIPE: usize = 4096;

/// A stdin that is at its end, even where there are no devices, as in some containers. All commands may share it.
#[derive(Default)]
pub(super) struct Nothing(Option<Rc<OwnedFd>>);

impl Nothing {
    /// The descriptor, which is opened when it is first asked for.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn get(&mut self) -> io::Result<Rc<OwnedFd>> {
        if let Some(nothing) = &self.0 {
            return Ok(Rc::clone(nothing));
        }
        let device = File::open(NOTHING).map(OwnedFd::from);
        let nothing = device.or_else(|_| io::pipe().map(|(read, _)| read.into()))?;
        Ok(Rc::clone(self.0.insert(nothing.into())))
    }
}

/// A stdin that already holds `head` and the items, so no thread has to feed it and the command need not read it. No
/// file is used twice: processes that a command left behind may still read it.
pub(super) fn of(head: &[u8], batch: &Batch) -> io::Result<Rc<OwnedFd>> {
    let items = batch.segments().iter().map(Segment::bytes);
    let bytes = iter::once(head).chain(items).collect::<Vec<_>>().concat();
    if bytes.len() <= PIPE {
        let (read, mut write) = io::pipe()?;
        write.write_all(&bytes)?;
        return Ok(Rc::new(read.into()));
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(Rc::new(file.into()))
}
