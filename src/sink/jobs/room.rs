//! The room for items on a command line.

use std::env;

use nix::unistd::{SysconfVar, sysconf};

use super::header_files;
use crate::config::{Piece, Template};
use crate::source::{CommandLine, Delimiter};

/// As xargs: a command line with several items has no more text than this, each argument with the NUL that ends it,
/// though the kernel takes more.
const USUAL_LINE: usize = 128 << 10;

/// Guaranteed by POSIX for arguments and environment together.
const LEAST_LINE: usize = 4096;

/// Linux's `MAX_ARG_STRLEN`, less the NUL that ends the argument.
const LONGEST_ARGUMENT: usize = (128 << 10) - 1;

/// The pointer that an argument or a variable takes in addition to its bytes.
const POINTER: usize = size_of::<usize>();

/// For the variables that we add, and what POSIX wants to be left free.
const OUR_VARIABLES: usize = 4096;

/// The most digits of a number.
const NUMBER: usize = 20;

/// The room for items that the environment and the rest of a command line leave.
pub(super) fn command_line(template: &Template, delimiter: &Delimiter) -> CommandLine {
    let environment: usize = env::vars_os().map(|(name, value)| name.len() + value.len() + 2 + POINTER).sum();
    let line = room(template, longest().saturating_sub(environment + OUR_VARIABLES));
    CommandLine { delimiter: delimiter.len(), ..line }
}

/// The most bytes that the kernel takes as arguments and environment together.
fn longest() -> usize {
    let told = sysconf(SysconfVar::ARG_MAX).ok().flatten().and_then(|most| usize::try_from(most).ok());
    told.unwrap_or(LEAST_LINE).max(part_of_stack())
}

/// On Linux, a quarter of the stack. glibc tells of it; others tell of the least that Linux ever takes.
#[cfg(target_os = "linux")]
fn part_of_stack() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_STACK).map_or(0, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX) / 4)
}

#[cfg(not(target_os = "linux"))]
fn part_of_stack() -> usize {
    0
}

/// The room for items if the kernel takes `most` bytes.
fn room(template: &Template, most: usize) -> CommandLine {
    let (several, longest) = (USUAL_LINE.min(most), usize::MAX);
    let mut line = CommandLine { single: most, several, longest, ..CommandLine::default() };
    for arg in template.args() {
        let (mut text, mut whole, mut selected) = (1, 0, 0);
        for piece in arg {
            match piece {
                Piece::Text(bytes) => text += bytes.len(),
                Piece::Number(width) => text += NUMBER.max(*width),
                Piece::Headers => text += header_files::longest(),
                Piece::Item => whole += 1,
                Piece::Selected(_) => selected += 1,
            }
        }
        if arg.iter().any(Piece::is_of_item) {
            line.times += whole;
            line.selected += selected;
            line.overhead += text;
            line.pointers += POINTER;
            let around = LONGEST_ARGUMENT.saturating_sub(text - 1);
            line.longest =
                around.checked_div(whole).map_or(line.longest, |longest| longest.min(line.longest));
        } else {
            line.several = line.several.saturating_sub(text);
            line.single = line.single.saturating_sub(text + POINTER);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn line(args: &[&str], most: usize) -> CommandLine {
        room(&Template::new(&args.iter().map(OsString::from).collect::<Vec<_>>(), None), most)
    }

    #[test]
    fn lines_are_counted_as_xargs_does() {
        let all = line(&["echo", "ab"], 1 << 20);
        assert_eq!((all.several, all.single), ((128 << 10) - 8, (1 << 20) - 8 - 2 * POINTER));
        assert_eq!((all.times, all.overhead, all.pointers), (1, 1, POINTER));
        assert_eq!(all.longest, LONGEST_ARGUMENT);
        assert_eq!(line(&["echo"], 1 << 10).several, (1 << 10) - 5);
    }

    #[test]
    fn each_place_takes_its_room() {
        let line = line(&["echo", "x{}{}", "{col:1}", "{#}"], 1 << 20);
        assert_eq!((line.times, line.selected), (2, 1));
        assert_eq!((line.overhead, line.pointers), (2 + 1 + 1 + NUMBER, 3 * POINTER));
        assert_eq!(line.longest, (LONGEST_ARGUMENT - 1) / 2);
    }
}
