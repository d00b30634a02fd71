//! The capacity of a sink.

/// The capacity of a sink. Batches are formed to fit it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// The number of releases that it can take now; if 0, it can take more once a command has ended.
    pub vacancies: u64,
    /// The most releases that one batch may carry.
    pub at_once: u64,
    /// The most items that one release may carry.
    pub items: u64,
    /// The number of the first item that must not leave yet: held output waits for items before it.
    pub before: u64,
    /// `None` if items do not become arguments.
    pub line: Option<CommandLine>,
}

/// The room for items on a command line, in bytes. The default has no room and no items.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommandLine {
    /// For the text of several items together, with the NUL that ends each argument.
    pub several: usize,
    /// For a single item: what the kernel takes, less the environment and the rest of the line.
    pub single: usize,
    /// The longest item that fits into one argument, with the text around it.
    pub longest: usize,
    /// The number of times that an item appears on the line.
    pub times: usize,
    /// The number of times that a part selected from the item appears; it is hardly ever longer than the item.
    pub selected: usize,
    /// The text around each item.
    pub overhead: usize,
    /// The pointers that the kernel adds for each item.
    pub pointers: usize,
    /// The length of the delimiter, which is not on the line.
    pub delimiter: usize,
}

// Why an item can never be passed to a command.
const NUL: &str = "it contains a NUL byte, which an argument cannot: use --null, or filter it out";
const LONG_ARGUMENT: &str = "it is too long for an argument (the kernel allows 128 KiB): use --pipe";
pub(crate) const LONG_LINE: &str = "it is too long together with the environment and the other arguments: \
                                    use --pipe, or a smaller environment";

impl Capacity {
    /// Takes everything at once.
    pub const UNLIMITED: Capacity =
        Capacity { vacancies: u64::MAX, at_once: u64::MAX, items: u64::MAX, before: u64::MAX, line: None };

    /// The room that an item takes up among several; `length` includes its delimiter.
    pub(crate) fn weight(&self, length: usize) -> usize {
        let text =
            |line: CommandLine| line.text(length.saturating_sub(line.delimiter), line.times + line.selected);
        self.line.map_or(0, text)
    }

    pub(crate) fn holds(&self, weight: usize) -> bool {
        self.line.is_none_or(|line| weight <= line.several)
    }

    pub(crate) fn fills_arguments(&self) -> bool {
        self.line.is_some()
    }

    /// Why `item`, which is without its delimiter, can never be an argument; `None` if it can.
    pub(crate) fn argument_error(&self, item: &[u8]) -> Option<&'static str> {
        let line = self.line?;
        match item.len() {
            _ if line.times > 0 && memchr::memchr(0, item).is_some() => Some(NUL),
            length if length > line.longest => Some(LONG_ARGUMENT),
            length if line.text(length, line.times).saturating_add(line.pointers) > line.single => {
                Some(LONG_LINE)
            }
            _ => None,
        }
    }
}

impl CommandLine {
    /// The bytes that an item of this length takes up if it appears this many times.
    fn text(&self, length: usize, times: usize) -> usize {
        length.saturating_mul(times).saturating_add(self.overhead)
    }
}
