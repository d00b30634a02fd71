//! Interruptible writes, with no buffer of our own.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use nix::errno::Errno;

use super::Cause;
use crate::exit::Exit;
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::output::{Leave, Target};

/// The time that an interrupted write has to complete what it has begun.
const GRACE: Duration = Duration::from_millis(50);

/// Writes `bytes`: once `interrupt` is raised, all of them if time allows.
///
/// # Errors
/// The number of bytes that were written, and why no more.
pub(super) fn print(interrupt: &Interrupt, target: Target, bytes: &[u8]) -> Result<(), (usize, Cause)> {
    write(interrupt, target, bytes, |_| bytes.len(), &mut || ())
}

/// Writes `bytes`, and calls `meanwhile` if the thread is [asked](Interrupt::ask) for something before all has left.
/// Once `interrupt` is raised, goes on, if time allows, to where `boundary` says that something whole ends, given the
/// number of bytes written.
///
/// # Errors
/// As those of [`print`].
pub(super) fn print_while(
    interrupt: &Interrupt,
    target: Target,
    bytes: &[u8],
    boundary: impl Fn(usize) -> usize,
    meanwhile: &mut dyn FnMut(),
) -> Result<(), (usize, Cause)> {
    interrupt.while_writing(|| write(interrupt, target, bytes, boundary, meanwhile))
}

fn write(
    interrupt: &Interrupt,
    target: Target,
    bytes: &[u8],
    boundary: impl Fn(usize) -> usize,
    meanwhile: &mut dyn FnMut(),
) -> Result<(), (usize, Cause)> {
    if target == Target::Stdout && !bytes.is_empty() {
        inherited().check_stdout().map_err(|error| (0, Cause::Failed(Exit::Error, error)))?;
    }
    let (mut written, mut end, mut give_up) = (0, bytes.len(), None);
    let result = target.write(bytes, &mut written, |written| {
        if interrupt.is_asked() {
            meanwhile();
        }
        if !interrupt.is_raised() {
            return Some(Leave { end, may_block: true });
        }
        // From here on, no write may block: there may be no other signal to end it.
        let give_up = *give_up.get_or_insert_with(|| Instant::now() + GRACE);
        end = boundary(written).min(end);
        (Instant::now() < give_up).then_some(Leave { end, may_block: false })
    });
    match result {
        Ok(()) if written == bytes.len() => Ok(()),
        Ok(()) => Err((written, Cause::Interrupted)),
        // As with our own messages, a missing reader of stderr does not end the run.
        Err(Errno::EPIPE) if target == Target::Stderr => Ok(()),
        Err(Errno::EPIPE) => Err((written, Cause::ReaderGone)),
        Err(errno) => Err((written, failed(target, errno))),
    }
}

/// Prints the outputs of commands, and calls `meanwhile` if the thread is [asked](Interrupt::ask) for something.
pub(super) struct OutputWriter<'a> {
    pub(super) interrupt: &'a Interrupt,
    pub(super) meanwhile: &'a mut dyn FnMut(),
}

impl OutputWriter<'_> {
    /// Writes `bytes`: once the interrupt is raised, all of them if time allows.
    ///
    /// # Errors
    /// As those of [`print`].
    pub(super) fn print(&mut self, target: Target, bytes: &[u8]) -> Result<(), (usize, Cause)> {
        print_while(self.interrupt, target, bytes, |_| bytes.len(), self.meanwhile)
    }
}

/// Text for people.
#[derive(Clone)]
pub(crate) struct TextWriter {
    pub(crate) target: Target,
    /// Once it is raised, writing ends early.
    pub(crate) interrupt: Arc<Interrupt>,
}

impl io::Write for TextWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        print(&self.interrupt, self.target, bytes).map_err(|(_, cause)| match cause {
            Cause::ReaderGone => io::ErrorKind::BrokenPipe.into(),
            Cause::Failed(_, error) => io::Error::other(format!("{error:#}")),
            Cause::Interrupted => io::Error::other("interrupted"),
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(target: Target, errno: Errno) -> Cause {
    let hint = match errno {
        Errno::EBADF => "it is not open for writing: redirect it to a file, or to /dev/null",
        _ => errno.desc(),
    };
    let name = if target == Target::Stdout { "output" } else { "error" };
    Cause::Failed(Exit::Error, anyhow!("{hint}").context(format!("cannot write to standard {name}")))
}
