//! Unnamed temporary files for the output of commands.
//!
//! Creating and freeing one takes a file system longer than anything else that a short command needs from it. So files
//! are used again, once the system says that nobody else has them open: what a command left behind may still print.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

#[cfg(target_os = "linux")]
use nix::libc;

/// The most files kept: those of commands that end together. There are descriptors for them.
pub(super) const MAX_KEPT: usize = 4;

/// Empty files that only we have open.
#[derive(Default)]
pub(super) struct TempFilePool(Vec<TempFile>);

pub(super) struct TempFile {
    pub(super) file: File,
    /// All others have opened it anew, so that the system can tell whether one of them still has it open.
    is_apart: bool,
}

impl TempFilePool {
    /// An empty file, and the same one for a command.
    pub(super) fn take(&mut self) -> io::Result<(TempFile, File)> {
        let file = match self.0.pop() {
            Some(kept) => kept.file,
            None => tempfile::tempfile()?,
        };
        // Elsewhere than on Linux, there is no such name.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let (theirs, is_apart) = match OpenOptions::new().read(true).write(true).open(name) {
            Ok(theirs) => (theirs, true),
            Err(_) => (file.try_clone()?, false),
        };
        Ok((TempFile { file, is_apart }, theirs))
    }

    /// Keeps a file of this length for another command, if nobody else has it open.
    pub(super) fn give_back(&mut self, kept: TempFile, length: u64) {
        if self.0.len() < MAX_KEPT
            && kept.is_apart
            && is_only_ours(&kept.file)
            && (length == 0 || kept.file.set_len(0).is_ok())
        {
            self.0.push(kept);
        }
    }
}

/// Reports whether the system knows that the file is open only once. It grants a lease for writing only then.
#[cfg(target_os = "linux")]
fn is_only_ours(file: &File) -> bool {
    /// From `fcntl.h`.
    const F_SETSIG: libc::c_int = 10;
    let fcntl = |command: libc::c_int, argument: libc::c_int| {
        // SAFETY: these commands take no pointers.
        #[expect(unsafe_code)]
        unsafe {
            libc::fcntl(file.as_raw_fd(), command, argument) == 0
        }
    };
    // Whoever opens it meanwhile, as a debugger may, has a signal sent to us, which by default would end us.
    fcntl(F_SETSIG, libc::SIGWINCH)
        && fcntl(libc::F_SETLEASE, libc::F_WRLCK)
        && fcntl(libc::F_SETLEASE, libc::F_UNLCK)
}

#[cfg(not(target_os = "linux"))]
fn is_only_ours(_: &File) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;
    use crate::random::for_each_seed;

    fn number(file: &File) -> u64 {
        file.metadata().unwrap().ino()
    }

    /// Commands end in any order, and some leave processes behind that still have their files, print at any time, and
    /// end. Each command finds its files empty, and only it has printed to them at its end.
    #[test]
    fn no_file_is_used_again_while_somebody_else_may_write_to_it() {
        let (mut cases, mut reused, mut kept_open) = (0, 0, 0);
        for_each_seed(200, |random| {
            cases += 1;
            let mut pool = TempFilePool::default();
            let (mut running, mut left): (Vec<(TempFile, File, u64)>, Vec<File>) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                match random.u8(..5) {
                    0 | 1 => {
                        reused += pool.0.len().min(1);
                        let (ours, theirs) = pool.take().unwrap();
                        assert_eq!(ours.file.metadata().unwrap().len(), 0);
                        assert_eq!(number(&ours.file), number(&theirs));
                        assert!(left.iter().all(|left| number(left) != number(&theirs)));
                        running.push((ours, theirs, 0));
                    }
                    2 if !running.is_empty() => {
                        let at = random.usize(..running.len());
                        let (_, theirs, length) = &mut running[at];
                        theirs.write_all(b"own").unwrap();
                        *length += 3;
                    }
                    3 if !running.is_empty() => {
                        let (ours, theirs, length) = running.swap_remove(random.usize(..running.len()));
                        assert_eq!(ours.file.metadata().unwrap().len(), length);
                        let mut text = vec![0; usize::try_from(length).unwrap()];
                        ours.file.read_exact_at(&mut text, 0).unwrap();
                        assert!(text.chunks(3).all(|own| own == b"own"));
                        if random.bool() {
                            kept_open += 1;
                            left.push(theirs);
                        } else {
                            drop(theirs);
                        }
                        pool.give_back(ours, length);
                    }
                    _ if !left.is_empty() => {
                        let at = random.usize(..left.len());
                        left[at].write_all_at(b"other", random.u64(..9)).unwrap();
                        if random.bool() {
                            left.swap_remove(at);
                        }
                    }
                    _ => {}
                }
                assert!(pool.0.len() <= MAX_KEPT);
            }
        });
        // More than 100 of each in 200 cases.
        assert!(kept_open > cases / 2);
        assert!(reused > cases / 2 || cfg!(not(target_os = "linux")), "{reused}");
    }

    #[test]
    fn a_file_that_was_not_opened_anew_is_not_used_again() {
        let mut pool = TempFilePool::default();
        pool.give_back(TempFile { file: tempfile::tempfile().unwrap(), is_apart: false }, 0);
        assert!(pool.0.is_empty());
    }
}
