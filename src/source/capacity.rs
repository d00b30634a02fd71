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
    /// For several items together.
    pub several: usize,
    /// For a single one: what the kernel takes, less the environment and the rest of the line.
    pub single: usize,
    /// The longest item that fits into one argument, beside what stands around it there.
    pub longest: usize,
    /// How often an item stands on it.
    pub times: usize,
    /// What each item takes besides its own bytes.
    pub overhead: usize,
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

    /// What an item of this length, without its delimiter, takes of the room for several.
    pub fn weight(&self, length: usize) -> usize {
        self.line.map_or(0, |line| line.weight(length))
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
            length if line.weight(length) > line.single => Some(ArgumentError::Line),
            _ => None,
        }
    }
}

impl CommandLine {
    fn weight(&self, length: usize) -> usize {
        length.saturating_mul(self.times).saturating_add(self.overhead)
    }
}
