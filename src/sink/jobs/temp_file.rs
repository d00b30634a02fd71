//! Files without a name, for what commands are given and what they print.
//!
//! None is used twice: what a command leaves behind may still hold one, to read it or to write to it.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;

/// A file with this content, to be read from its start.
pub(super) fn with_content(content: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
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
