//! A command line as it was typed.

use std::ffi::{OsStr, OsString};

use super::args::Cli;

/// A command line that clap could read.
pub(super) struct Typed<'a> {
    /// The program name and the options, without the `--` before the command.
    pub(super) options: &'a [OsString],
    /// True if there is a `--` before the command: it is one whatever it looks like.
    pub(super) is_marked: bool,
    pub(super) command: &'a [OsString],
    pub(super) placeholder: Option<&'a OsStr>,
    /// Items become arguments of the command.
    pub(super) has_items: bool,
    /// A command gets several items.
    pub(super) are_many: bool,
}

impl<'a> Typed<'a> {
    pub(super) fn new(args: &'a [OsString], cli: &'a Cli) -> Self {
        let (before, command) = args.split_at(args.len() - cli.command.len());
        let (last, others) = before.split_last().expect("the program name");
        let is_marked = last == "--";
        let options = if is_marked { others } else { before };
        let placeholder = cli.commands.placeholder.as_deref();
        let has_items = !cli.commands.pipe && cli.commands.worker.is_none() && !cli.control.once;
        let are_many = cli.commands.batch.is_some_and(|batch| batch.items.get() > 1);
        Typed { options, is_marked, command, placeholder, has_items, are_many }
    }
}
