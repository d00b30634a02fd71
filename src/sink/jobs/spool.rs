//! Files without a name, for what commands are given and what they print.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;

/// How many files are kept for using again.
const SHELF: usize = 16;

/// A file larger than this is not kept: its memory, or its place on the disk, is given back.
const LARGE: u64 = 1 << 20;

/// Files without a name, in the directory for temporary files.
///
/// They are used again, since making one costs as much as starting a small command does.
#[derive(Default)]
pub(super) struct Spool {
    shelf: Vec<File>,
}

impl Spool {
    /// An empty file.
    pub(super) fn take(&mut self) -> io::Result<File> {
        self.shelf.pop().map_or_else(tempfile::tempfile, Ok)
    }

    /// A file with this content, to be read from its start.
    pub(super) fn take_with(&mut self, content: &[u8]) -> io::Result<File> {
        let mut file = self.take()?;
        file.write_all(content)?;
        file.rewind()?;
        Ok(file)
    }

    /// Takes a file back.
    pub(super) fn give(&mut self, mut file: File) {
        let is_small = file.metadata().is_ok_and(|data| data.len() <= LARGE);
        if is_small && self.shelf.len() < SHELF && file.set_len(0).is_ok() && file.rewind().is_ok() {
            self.shelf.push(file);
        }
    }
}

/// Hands the content of a file to `print`, piece by piece.
pub(super) fn pieces<E>(
    file: &File,
    mut print: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<io::Result<()>, E> {
    let mut buffer = vec![0; 64 << 10];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset) {
            Ok(0) => return Ok(Ok(())),
            Ok(read) => {
                print(&buffer[..read])?;
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}
