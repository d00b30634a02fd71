//! Where the program of commands is: found in `PATH` once, instead of tried in each directory for each command.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use super::shortage::is_passing;
use crate::which;

#[derive(Default)]
pub(super) struct Programs {
    /// The name of the last command, and where it was found.
    last: Option<(OsString, Option<PathBuf>)>,
    /// A file that was found could not be run: from then on, the system looks for each command itself.
    has_given_up: bool,
}

impl Programs {
    /// The program that a shell would run as `name`: its file, or the name if the system is to look for it.
    pub(super) fn find<'a>(&'a mut self, name: &'a OsStr) -> &'a OsStr {
        if self.last.as_ref().is_none_or(|(last, _)| last != name) {
            self.last = Some((name.to_owned(), which::find(name)));
        }
        match &self.last {
            Some((_, Some(file))) if !self.has_given_up => file.as_os_str(),
            _ => name,
        }
    }

    /// Decides what follows when the last command could not be started. Returns true if it may be elsewhere by now: a
    /// new one has to be made.
    ///
    /// As execvp(3) does, the system passes over files that cannot be run.
    pub(super) fn give_up(&mut self, error: &io::Error) -> bool {
        let was_found = matches!(self.last, Some((_, Some(_))));
        let may_be_elsewhere = !is_passing(error) && error.kind() != ErrorKind::ArgumentListTooLong;
        was_found && may_be_elsewhere && !std::mem::replace(&mut self.has_given_up, true)
    }
}
