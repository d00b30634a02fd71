//! Files without a name, for what commands are given and what they print.
//!
//! None is used twice: what a command leaves behind may still hold one, to read it or to write to it.

use std::fs::File;
use std::io::{self, Seek, Write};

/// A file with this content, to be read from its start.
pub(super) fn with_content(content: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}
