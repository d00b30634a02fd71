//! Text for people on standard output.

use std::io;
use std::sync::Arc;

use super::Cause;
use super::writer::Writer;
use crate::interrupt::Interrupt;
use crate::output::Target;

/// Standard output, which gives up on a reader that does not read once the run is to stop.
#[derive(Clone)]
pub(crate) struct Text(Writer);

impl Text {
    /// Writing ends early, but not at once, when `interrupt` is raised.
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> Self {
        Text(Writer::new(interrupt))
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let all = bytes.len();
        match self.0.write_all(Target::Stdout, bytes, |_| all) {
            Ok(()) => Ok(all),
            Err((_, Cause::ReaderGone)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err((_, Cause::Failed(error) | Cause::Unable(_, error))) => {
                Err(io::Error::other(format!("{error:#}")))
            }
            Err((_, Cause::Interrupted)) => Err(io::Error::other("interrupted")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
