//! Output of commands that is printed line by line, as it comes.

use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::capture::unreadable;
use super::spawn::Spawn;
use super::tag::{Tag, Tagged};
use crate::output::Target;
use crate::sink::writer::OutputWriter;
use crate::sink::{self, Cause};

/// A longer line is printed in pieces, each a line of its own.
const LONGEST_LINE: usize = 1 << 20;

/// The most that a pipe holds, unless root enlarged it.
const FULL_PIPE: usize = 1 << 20;

/// The outputs of commands that are being read.
#[derive(Default)]
pub(super) struct Lines(Vec<OutputStream>);

/// The two outputs of a command that is about to start.
pub(super) type Pipes = [PipeReader; 2];

struct OutputStream {
    /// The number of the first item.
    first: u64,
    tag: Tag,
    target: Target,
    pipe: PipeReader,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// True once the command has ended; processes that it left behind may still print.
    has_ended: bool,
}

impl Lines {
    /// Makes `command` print to pipes.
    pub(super) fn capture(command: &mut Spawn) -> io::Result<Pipes> {
        let pipe = || {
            let (reader, writer) = io::pipe()?;
            fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            Ok::<_, io::Error>((reader, writer))
        };
        let ((stdout, to_stdout), (stderr, to_stderr)) = (pipe()?, pipe()?);
        (command.stdout, command.stderr) = (Some(to_stdout.into()), Some(to_stderr.into()));
        Ok([stdout, stderr])
    }

    /// Notes that the command for the item numbered `first` has started.
    pub(super) fn start(&mut self, first: u64, tag: &Tag, pipes: Pipes) {
        let targets = [Target::Stdout, Target::Stderr];
        self.0.extend(targets.into_iter().zip(pipes).map(|(target, pipe)| OutputStream {
            first,
            tag: tag.clone(),
            target,
            pipe,
            begun: Vec::new(),
            has_ended: false,
        }));
    }

    /// The pipes from which more may come.
    pub(super) fn pipes(&self) -> sink::Pipes<'_> {
        self.0.iter().map(|stream| stream.pipe.as_fd()).collect()
    }

    /// Notes that the command for the item numbered `first` has ended.
    pub(super) fn end(&mut self, first: u64) {
        let own = self.0.iter_mut().filter(|stream| stream.first == first);
        own.for_each(|stream| stream.has_ended = true);
    }

    /// Prints the lines that have come: for commands that have ended, all that they printed; for the others, about as
    /// much as fits in `buffer`, as a release may be due meanwhile. Ends early if the `writer` does. Without one,
    /// output is discarded, so that no command waits for a reader.
    pub(super) fn print(
        &mut self,
        buffer: &mut [u8],
        mut writer: Option<&mut OutputWriter>,
    ) -> Result<(), Cause> {
        let (mut result, mut left) = (Ok(()), buffer.len());
        let (mut served, mut is_any_left) = (0, false);
        self.0.retain_mut(|stream| {
            if left == 0 && !stream.has_ended {
                is_any_left = true;
                return true;
            }
            let read = stream.read(buffer, &mut left, &mut writer);
            let is_open = matches!(read, Ok(true) | Err(Cause::Interrupted));
            result = std::mem::replace(&mut result, Ok(())).and(read.map(drop));
            served += usize::from(is_open && !is_any_left);
            is_open
        });
        // The others have their turn first next time.
        self.0.rotate_left(served);
        if let Err(Cause::ReaderGone) = result {
            // As without us, commands that go on printing die of SIGPIPE.
            self.0.clear();
        }
        result
    }
}

impl OutputStream {
    /// Reads what has come, takes its length off what is `left` for all streams, and prints whole lines. Returns
    /// whether more may come.
    fn read(
        &mut self,
        buffer: &mut [u8],
        left: &mut usize,
        writer: &mut Option<&mut OutputWriter>,
    ) -> Result<bool, Cause> {
        // There may be more, but other streams have their turn first.
        let most = if self.has_ended { FULL_PIPE } else { buffer.len() };
        let mut is_open = true;
        let mut read = 0;
        while is_open && read < most {
            match self.pipe.read(buffer) {
                Ok(0) => is_open = false,
                Ok(length) => {
                    read += length;
                    *left = left.saturating_sub(length);
                    self.take(&buffer[..length], writer)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(self.first, error)),
            }
        }
        if self.has_ended || !is_open {
            let rest = std::mem::take(&mut self.begun);
            self.write(&rest, writer)?;
        }
        Ok(is_open)
    }

    fn take(&mut self, piece: &[u8], writer: &mut Option<&mut OutputWriter>) -> Result<(), Cause> {
        let whole = memchr::memrchr(b'\n', piece).map_or(0, |at| at + 1);
        if whole > 0 {
            let mut lines = std::mem::take(&mut self.begun);
            lines.extend_from_slice(&piece[..whole]);
            self.write(&lines, writer)?;
        }
        self.begun.extend_from_slice(&piece[whole..]);
        if self.begun.len() < LONGEST_LINE {
            return Ok(());
        }
        let rest = self.begun.split_off(LONGEST_LINE);
        let line = std::mem::replace(&mut self.begun, rest);
        self.write(&line, writer)
    }

    /// Prints lines, the last of which may lack its newline.
    fn write(&self, lines: &[u8], writer: &mut Option<&mut OutputWriter>) -> Result<(), Cause> {
        let Some(writer) = writer else { return Ok(()) };
        let mut tagged = Tagged::new(&self.tag);
        let text = [tagged.piece(lines), tagged.end().into()].concat();
        writer.print(self.target, &text).map_err(|(_, cause)| cause)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A release that is due does not wait for the outputs of all commands.
    #[test]
    fn commands_that_print_much_take_turns() {
        let mut lines = Lines::default();
        let mut commands: Vec<_> = (1..4).map(|_| Spawn::new("true".as_ref(), &[]).unwrap()).collect();
        let mut writers = Vec::new();
        for (first, command) in (1..).zip(&mut commands) {
            let mut pipes = Lines::capture(command).unwrap();
            let (reader, mut writer) = io::pipe().unwrap();
            fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
            writer.write_all(&[b'x'; 12]).unwrap();
            pipes[0] = reader;
            writers.push(writer);
            lines.start(first, &None, pipes);
        }
        let printed = |lines: &mut Lines| {
            lines.print(&mut [0; 8], None).unwrap();
            let mut read: Vec<_> = lines.0.iter().map(|stream| (stream.first, stream.begun.len())).collect();
            read.retain(|(_, read)| *read > 0);
            read.sort_unstable();
            read
        };
        assert_eq!(printed(&mut lines), [(1, 8)]);
        assert_eq!(printed(&mut lines), [(1, 8), (2, 8)]);
        assert_eq!(printed(&mut lines), [(1, 8), (2, 8), (3, 8)]);
        lines.end(2);
        assert_eq!(printed(&mut lines), [(1, 12), (3, 8)]);
    }

    /// Another command may need their descriptors.
    #[test]
    fn the_pipes_of_commands_that_have_ended_are_closed() {
        let mut lines = Lines::default();
        let mut command = Spawn::new("true".as_ref(), &[]).unwrap();
        lines.start(1, &None, Lines::capture(&mut command).unwrap());
        drop(command);
        assert_eq!(lines.pipes().len(), 2);
        lines.end(1);
        lines.print(&mut [0; 8], None).unwrap();
        assert!(lines.pipes().is_empty());
    }
}
