//! Prints help, a page, or another text that was asked for.

use std::io;

use anyhow::{Error, Result};
use nix::errno::Errno;

use crate::exit::Exit;
use crate::inherited::inherited;
use crate::output::Target;

pub(crate) fn help(text: &str) -> Result<Exit> {
    inherited().check_stdout()?;
    match Target::Stdout.write_all(format!("{}\n", text.trim_end()).as_bytes()) {
        Ok(()) => Ok(Exit::Done),
        Err(Errno::EPIPE) => Ok(Exit::READER_GONE),
        Err(errno) => Err(Error::new(io::Error::from(errno)).context("cannot write to standard output")),
    }
}
