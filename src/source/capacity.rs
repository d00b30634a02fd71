//! What a sink can take.

use std::fmt;

/// How much a sink takes, so that a batch can be formed to its measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// How many releases it can take now. If none, it can after some command has ended.
    pub vacancies: u64,
    /// How many releases it takes in one go.
    pub at_once: u64,
    /// How many items one release may carry.
    pub items: u64,
    /// Only items before the one of this number: what is held waits for them.
    pub before: u64,
    /// What an item needs on a command line, if it goes there.
    pub line: Option<CommandLine>,
}

/// The room for items on a command line, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandLine {
    /// For the text of several items together, each argument with the NUL that ends it.
    pub several: usize,
    /// For a single one: what the kernel takes, less the environment and the rest of the line.
    pub single: usize,
    /// The longest item that fits into one argument, beside what stands around it there.
    pub longest: usize,
    /// How often an item stands on it.
    pub times: usize,
    /// How often something selected from it does, which is hardly ever longer than the item.
    pub selected: usize,
    /// The text around each item.
    pub overhead: usize,
    /// What the kernel takes for each item besides.
    pub pointers: usize,
    /// The length of the delimiter, which does not stand on it.
    pub delimiter: usize,
}

/// Why an item can never be given to a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentError {
    /// No argument can hold a NUL byte.
    Nul,
    /// It does not fit into an argument.
    Argument,
    /// It does not fit beside the environment and the rest of the command line.
    Line,
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArgumentError::Nul => "it holds a NUL byte, which no argument can: use --null input, or filter it out",
            ArgumentError::Argument => {
                "it is too long for an argument, of which the kernel takes 128 KiB: use --pipe"
            }
            ArgumentError::Line => {
                "it is too long beside the environment and the other arguments: use --pipe, or a smaller environment"
            }
        })
    }
}

impl Capacity {
    /// Whatever there is, at once.
    pub const UNLIMITED: Capacity =
        Capacity { vacancies: u64::MAX, at_once: u64::MAX, items: u64::MAX, before: u64::MAX, line: None };

    /// What an item of this length, with its delimiter, takes of the room for several.
    pub fn weight(&self, length: usize) -> usize {
        let text =
            |line: CommandLine| line.text(length.saturating_sub(line.delimiter), line.times + line.selected);
        self.line.map_or(0, text)
    }

    /// Whether a command line has room for this weight.
    pub fn holds(&self, weight: usize) -> bool {
        self.line.is_none_or(|line| weight <= line.several)
    }

    /// Whether items become arguments.
    pub fn fills_arguments(&self) -> bool {
        self.line.is_some()
    }

    /// Why this item, without its delimiter, can never be given to a command, if so.
    pub fn argument_error(&self, item: &[u8]) -> Option<ArgumentError> {
        let line = self.line?;
        match item.len() {
            _ if memchr::memchr(0, item).is_some() => Some(ArgumentError::Nul),
            length if length > line.longest => Some(ArgumentError::Argument),
            length if line.text(length, line.times).saturating_add(line.pointers) > line.single => {
                Some(ArgumentError::Line)
            }
            _ => None,
        }
    }
}

impl CommandLine {
    /// No room, and no items in it.
    pub const NOTHING: CommandLine = CommandLine {
        several: 0,
        single: 0,
        longest: usize::MAX,
        times: 0,
        selected: 0,
        overhead: 0,
        pointers: 0,
        delimiter: 0,
    };

    /// The text of an item of this length, which stands there this number of times.
    fn text(&self, length: usize, times: usize) -> usize {
        length.saturating_mul(times).saturating_add(self.overhead)
    }
}
