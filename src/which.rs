//! Programs in `PATH`.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file that a shell would run for the command `name`; `None` for one with a slash, and if there is none.
pub(crate) fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|directory| directory.join(name));
    files.find(|file| is_file(file, true))
}

/// Reports whether there is such a file, which can be run, or cannot, as `can_run` says.
pub(crate) fn is_file(path: &Path, can_run: bool) -> bool {
    let is_program = |mode: u32| mode & 0o111 != 0;
    path.metadata().is_ok_and(|file| file.is_file() && is_program(file.permissions().mode()) == can_run)
}
