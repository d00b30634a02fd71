//! Small outputs that are printed in one write.

use nix::libc::PIPE_BUF;

use super::capture::{Captured, Printed};
use super::tag::Tagged;
use crate::output::Target;
use crate::sink::writer::OutputWriter;
use crate::sink::{Cause, Flushed};

/// A pipe takes up to this number of bytes as a whole, whoever else writes to it.
const MAX_GATHERED: usize = PIPE_BUF;

/// Outputs that wait to be printed.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// The numbers of their items, and where each ends.
    ends: Vec<(u64, usize)>,
}

impl Gathered {
    /// Adds the output of the item numbered `first`, if it can be printed together with the others. Returns whether it
    /// can.
    pub(super) fn add(&mut self, first: u64, output: &Captured) -> bool {
        let Captured { outputs: [Printed::Small(text), Printed::Small(errors)], tag } = output else {
            return false;
        };
        let mut tagged = Tagged::new(tag);
        let (lines, end) = (tagged.piece(text), tagged.end());
        if !errors.is_empty() || self.bytes.len() + lines.len() + end.len() > MAX_GATHERED {
            return false;
        }
        self.bytes.extend_from_slice(&lines);
        self.bytes.extend_from_slice(end);
        self.ends.push((first, self.bytes.len()));
        true
    }

    /// Prints all, and adds to `flushed` which are printed as a whole.
    ///
    /// # Errors
    /// Why not all of them.
    pub(super) fn print(&mut self, writer: &mut OutputWriter, flushed: &mut Flushed) -> Result<(), Cause> {
        let printed = writer.print(Target::Stdout, &self.bytes);
        let (written, result) =
            printed.map_or_else(|(written, cause)| (written, Err(cause)), |()| (self.bytes.len(), Ok(())));
        self.count(written, flushed);
        result
    }

    /// Removes all, of which the first `written` bytes were printed.
    fn count(&mut self, written: usize, flushed: &mut Flushed) {
        let printed = self.ends.partition_point(|(_, end)| *end <= written);
        flushed.unprinted += (self.ends.len() - printed) as u64;
        flushed.printed.extend(self.ends.drain(..).take(printed).map(|(first, _)| first));
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::interrupt::Interrupt;

    fn output(text: &[u8], errors: &[u8], tag: Option<&[u8]>) -> Captured {
        let outputs = [text, errors].map(|bytes| Printed::Small(bytes.to_vec()));
        Captured { outputs, tag: tag.map(Into::into) }
    }

    #[test]
    fn as_much_as_a_pipe_takes_whole_is_printed_together() {
        let (half, tag) = (vec![b'x'; MAX_GATHERED / 2], Some(&b"7\t"[..]));
        let mut gathered = Gathered::default();
        for (first, text, errors, tag, is_added) in [
            (1, &half[..], &b""[..], None, true),
            (2, &b""[..], b"", tag, true),
            (3, b"no newline", b"", tag, true),
            (4, b"two\nlines\n", b"", tag, true),
            (5, b"", b"an error", None, false),
            (6, &half[..], b"", None, false),
            (7, &half[..MAX_GATHERED / 2 - 27], b"", tag, false),
            (8, &half[..MAX_GATHERED / 2 - 30], b"", tag, true),
            (9, b"y", b"", None, false),
        ] {
            assert_eq!(gathered.add(first, &output(text, errors, tag)), is_added, "{first}");
        }
        let (head, tail) = (&gathered.bytes[half.len()..], b"7\tno newline\n7\ttwo\n7\tlines\n7\tx");
        assert!(head.starts_with(tail) && gathered.bytes.len() == MAX_GATHERED);
        assert_eq!(gathered.ends.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [1, 2, 3, 4, 8]);
    }

    #[test]
    fn what_was_not_printed_to_the_last_byte_is_not_printed() {
        for (written, printed) in
            [(0, &[1, 2][..]), (2, &[1, 2]), (3, &[1, 2, 3, 4]), (4, &[1, 2, 3, 4]), (5, &[1, 2, 3, 4, 5])]
        {
            let mut gathered = Gathered::default();
            for (first, text) in (1..).zip([&b""[..], b"", b"abc", b"", b"de"]) {
                assert!(gathered.add(first, &output(text, b"", None)));
            }
            let mut flushed = Flushed { printed: smallvec![9], unprinted: 1, ..Flushed::default() };
            gathered.count(written, &mut flushed);
            let expected = [&[9], printed].concat();
            assert_eq!((&flushed.printed[..], flushed.unprinted), (&expected[..], 6 - printed.len() as u64));
            assert!(gathered.bytes.is_empty() && gathered.ends.is_empty());
        }
    }

    #[test]
    fn nothing_is_written_for_nothing() {
        let (mut gathered, mut flushed) = (Gathered::default(), Flushed::default());
        assert!(gathered.add(1, &output(b"", b"", None)));
        let interrupt = Interrupt::for_this_thread();
        let mut writer = OutputWriter { interrupt: &interrupt, meanwhile: &mut || () };
        assert!(gathered.print(&mut writer, &mut flushed).is_ok());
        assert_eq!(flushed.printed[..], [1]);
    }
}
