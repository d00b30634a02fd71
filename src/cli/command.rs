//! What is wrong with a COMMAND before it is run for the first time.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, ensure};

/// Checks that what stands where a command should is not a file of items.
pub(super) fn check(command: &OsStr) -> Result<()> {
    let name = command.display();
    ensure!(
        !is_data(Path::new(command)) || is_found(command),
        "{name} is a file and cannot be run: to read items from it, use <{name} or -a {name}"
    );
    Ok(())
}

fn is_data(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 == 0)
}

/// Whether there is a file of this name where a shell would look for a command.
fn is_found(command: &OsStr) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let has_directory = command.as_bytes().contains(&b'/');
    !has_directory && env::split_paths(&path).any(|directory| is_program(&directory.join(command)))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
