//! Help, a page, or another text that was asked for.

use std::io::{self, Write};

use crate::exit::Exit;
use crate::inherited::inherited;
use anyhow::{Error, Result};

pub(crate) fn help(text: &str) -> Result<Exit> {
    inherited().check_stdout()?;
    match io::stdout().write_all(format!("{}\n", text.trim_end()).as_bytes()) {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::READER_GONE),
        Err(error) => Err(Error::new(error).context("cannot write to standard output")),
    }
}
