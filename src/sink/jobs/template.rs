//! Command lines with places for items.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use memchr::memmem;

use crate::source::{Batch, CommandLine, Delimiter};

/// A command line with places for items.
pub struct Template {
    command: Vec<OsString>,
    placeholder: OsString,
    has_place: bool,
}

impl Template {
    /// `placeholder` stands for an item wherever it occurs in `command`; if it does nowhere, items go to the end.
    pub fn new(command: Vec<OsString>, placeholder: OsString) -> Self {
        let has_place =
            command.iter().any(|arg| memmem::find(arg.as_bytes(), placeholder.as_bytes()).is_some());
        Template { command, placeholder, has_place }
    }

    /// The room for items on a command line: `several` bytes together, a `single` one alone, an argument no longer than
    /// `longest`, and each argument with a `pointer` to it.
    pub(super) fn room(&self, single: usize, several: usize, longest: usize, pointer: usize) -> CommandLine {
        let (mut fixed, mut times, mut overhead, mut fits) = (0, 0, 0, longest);
        for arg in &self.command {
            let places = memmem::find_iter(arg.as_bytes(), self.placeholder.as_bytes()).count();
            let around = arg.len() - places * self.placeholder.len();
            if places == 0 {
                fixed += around + 1 + pointer;
            } else {
                times += places;
                overhead += around + 1 + pointer;
                fits = fits.min(longest.saturating_sub(around) / places);
            }
        }
        if !self.has_place {
            (times, overhead) = (1, 1 + pointer);
        }
        let (single, several) = (single.saturating_sub(fixed), several.saturating_sub(fixed));
        CommandLine { several, single, longest: fits, times, overhead }
    }

    /// The name of the command, as it was given.
    pub(super) fn name(&self) -> String {
        self.command[0].to_string_lossy().into_owned()
    }

    /// The command line as it was given, without items.
    pub(super) fn bare(&self) -> Vec<OsString> {
        self.command.clone()
    }

    /// The command line for `items`: an argument with a place in it is repeated for each of them.
    pub(super) fn expand(&self, items: &[&[u8]]) -> Vec<OsString> {
        let mut line = Vec::with_capacity(self.command.len() + items.len());
        for arg in &self.command {
            if memmem::find(arg.as_bytes(), self.placeholder.as_bytes()).is_some() {
                line.extend(items.iter().map(|item| self.fill(arg, item)));
            } else {
                line.push(arg.clone());
            }
        }
        if !self.has_place {
            line.extend(items.iter().map(|item| OsStr::from_bytes(item).to_owned()));
        }
        line
    }

    /// As [`Template::expand`], for the items of a batch.
    pub(in crate::sink) fn expand_batch(&self, batch: &Batch, delimiter: &Delimiter) -> Vec<OsString> {
        let records = batch.records(delimiter).map(|record| delimiter.trim(record));
        self.expand(&records.collect::<Vec<_>>())
    }

    fn fill(&self, arg: &OsStr, item: &[u8]) -> OsString {
        let (arg, place) = (arg.as_bytes(), self.placeholder.as_bytes());
        let mut filled = Vec::with_capacity(arg.len() + item.len());
        let mut start = 0;
        for at in memmem::find_iter(arg, place) {
            filled.extend_from_slice(&arg[start..at]);
            filled.extend_from_slice(item);
            start = at + place.len();
        }
        filled.extend_from_slice(&arg[start..]);
        OsString::from_vec(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_go_where_the_placeholder_stands_or_to_the_end() {
        let table: [(&[&str], &str, &[&[u8]], &[&str]); 6] = [
            (&["echo", "a"], "{}", &[b"x y"], &["echo", "a", "x y"]),
            (&["echo", "{}", "b"], "{}", &[b"x"], &["echo", "x", "b"]),
            (&["echo", "-{}={}", "{}"], "{}", &[b"x"], &["echo", "-x=x", "x"]),
            (&["echo", "{}"], "@", &[b"x"], &["echo", "{}", "x"]),
            (&["echo", "a"], "{}", &[b"1", b"2"], &["echo", "a", "1", "2"]),
            (&["echo", "f{}", "b"], "{}", &[b"1", b"2"], &["echo", "f1", "f2", "b"]),
        ];
        for (command, placeholder, items, line) in table {
            let template = Template::new(command.iter().map(OsString::from).collect(), placeholder.into());
            assert_eq!(template.expand(items), line, "{command:?}");
        }
    }
}
