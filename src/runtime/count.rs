//! Counts the items of a file in the background, while the first of them are released.

use std::cell::OnceCell;
use std::io::Read;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use super::input::{InputFile, InputPosition};
use crate::config::InputOptions;
use crate::schedule::Total;
use crate::source::{Delimiter, FileRange, Reader};

/// The most bytes that are read to count items. For a larger file, the number is estimated.
const MAX_BYTES: u64 = 1 << 30;

/// The number of items of the input, known once they are counted.
pub(crate) struct ItemCounter {
    known: OnceCell<Total>,
    told: Receiver<Total>,
}

impl ItemCounter {
    /// Counts the rest of `input` on a thread of its own, if it is a file. What cannot be read is not counted: the run
    /// itself reports that.
    pub(crate) fn of_rest(input: &InputFile, position: &InputPosition, options: &InputOptions) -> Self {
        let ((tell, told), options) = (bounded(1), options.clone());
        if let Some((range, Ok(file))) = position.range().map(|range| (range, input.file.try_clone())) {
            let _ = super::spawn("count", move || {
                let total = total(FileRange { file: &file, range }, MAX_BYTES, &options);
                total.map(|total| tell.send(total));
            });
        }
        ItemCounter { known: OnceCell::new(), told }
    }

    /// The number, if it is known within this time. Returns at once if nothing is being counted.
    pub(crate) fn within(&self, patience: Duration) -> Option<Total> {
        let told = || self.told.recv_timeout(patience).ok();
        let known = self.known.get().copied().or_else(told)?;
        Some(*self.known.get_or_init(|| known))
    }
}

/// Counts the items in the first `most` bytes, and estimates the rest.
fn total(part: FileRange, most: u64, options: &InputOptions) -> Option<Total> {
    let delimiter = Delimiter::of(options);
    let size = part.range.end.saturating_sub(part.range.start);
    let mut items = 0;
    for block in Reader::of(part.take(most), options, |_, _| Ok(())) {
        let block = block.ok()?;
        items += block.items() - delimiter.left_out(block.bytes(), options.cleaning);
    }
    let estimate = u128::from(items) * u128::from(size) / u128::from(most.max(1));
    match size <= most {
        true => Some(Total { items, is_exact: true }),
        false => Some(Total { items: u64::try_from(estimate).unwrap_or(u64::MAX), is_exact: false }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::ops::Range;

    use super::*;
    use crate::cli;

    fn counted(text: &str, range: Range<u64>, most: u64, args: &[&str]) -> Option<(u64, bool)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let args = ["throttle", "-n1", "--max-record=4"].iter().chain(args).map(Into::into);
        let options = cli::parse(args).unwrap().input;
        let total = total(FileRange { file: &file, range }, most, &options)?;
        Some((total.items, total.is_exact))
    }

    #[test]
    fn items_are_counted_from_a_position_to_the_end() {
        let table = [
            ("1\n2\n3\n", 0..6, 99, Some((3, true))),
            ("1\n2\n3", 0..5, 99, Some((3, true))),
            ("1\n2\n3\n", 2..6, 99, Some((2, true))),
            ("", 0..0, 99, Some((0, true))),
            // Half of it is read.
            ("1\n2\n3\n4\n", 0..8, 4, Some((4, false))),
            ("12345\n", 0..6, 99, None),
        ];
        for (text, range, most, expected) in table {
            assert_eq!(counted(text, range, most, &[]), expected, "{text:?}");
        }
        assert_eq!(counted("1\n\n \n2\n", 0..7, 99, &["--skip-blank"]), Some((2, true)));
        assert_eq!(counted("id\n1\n\"2\n\"", 0..9, 99, &["--csv"]), Some((2, true)));
        assert_eq!(counted("id\n1\n\"2\n\"", 0..9, 99, &["--csv=noheader"]), Some((3, true)));
    }
}
