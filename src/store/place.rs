//! The place of a state that is given by its name.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

use crate::exit::Exit;
use crate::printable::escaped;
use crate::store::StoreError;

/// The longest name, in bytes: a file name has at most 255, and the files beside the state have longer ones.
const LONGEST_NAME: usize = 200;

/// The first bytes of an SQLite database.
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The file of the state called `name`. Creates its directory if need be.
///
/// It is the first that there is of: `throttle/NAME` in `$XDG_STATE_HOME`; NAME in `$STATE_DIRECTORY`, which systemd
/// sets for services with `StateDirectory=`; `.local/state/throttle/NAME` in `$HOME`. Variables that are empty or
/// relative are skipped, as the XDG base directory specification says. It is never in a directory that others may write
/// to.
///
/// # Errors
/// It is no file name, there is no place, or the directory is not ours alone.
pub fn place(name: &str) -> Result<PathBuf, StoreError> {
    find(name).map_err(|error| StoreError { exit: Exit::BadStore, error })
}

/// The names of all states of this user, in order.
pub fn names() -> Vec<String> {
    let directory = directory(|variable| env::var_os(variable));
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten();
    // A service may keep other files there. Those that SQLite keeps beside a state begin otherwise.
    let states = entries.filter_map(Result::ok).filter(|entry| may_be_state(&entry.path()));
    let names = states.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect::<BTreeSet<_>>().into_iter().collect()
}

fn may_be_state(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *MAGIC
}

/// True if the current directory has a file of this name that may be another state: whoever gives the name may mean it.
pub fn is_in_current_directory(name: &str) -> bool {
    let Some(here) = fs::metadata(name).ok().filter(Metadata::is_file) else { return false };
    let state = directory(|variable| env::var_os(variable)).map(|directory| directory.join(name));
    // A service may work where its states are.
    let is_it = |state: Metadata| (state.dev(), state.ino()) == (here.dev(), here.ino());
    let is_ours = state.and_then(|state| fs::metadata(state).ok()).is_some_and(is_it);
    !is_ours && may_be_state(Path::new(name))
}

fn find(name: &str) -> Result<PathBuf> {
    let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    let shown = escaped(name);
    ensure!(is_name, "'{shown}' is not a state name: it must not contain '/' or start with '.'");
    let length = name.len();
    ensure!(
        length <= LONGEST_NAME,
        "a state name may have at most {LONGEST_NAME} bytes, and this one has {length}: use a shorter one"
    );
    let no_place = || format!("there is no place for the state '{shown}'");
    let directory = directory(|variable| env::var_os(variable))
        .with_context(|| format!("{}: set HOME or XDG_STATE_HOME, or use a path", no_place()))?;
    // No one expects us to create a home directory.
    if let Some(home) = env::var_os("HOME").map(PathBuf::from)
        && directory.starts_with(&home)
    {
        ensure!(home.exists(), "{}: HOME is {}, which does not exist", no_place(), home.display());
    }
    prepare(&directory)?;
    Ok(directory.join(name))
}

fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let path = |name| variable(name).map(PathBuf::from).and_then(absolute);
    // It may be a list, whose first entry is as good as any.
    let services = || env::split_paths(&variable("STATE_DIRECTORY")?).next().and_then(absolute);
    path("XDG_STATE_HOME")
        .map(|home| home.join("throttle"))
        .or_else(services)
        .or_else(|| path("HOME").map(|home| home.join(".local/state/throttle")))
}

fn prepare(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot create the directory {shown}"))?;
    let metadata = directory.metadata().with_context(|| format!("cannot access {shown}"))?;
    if metadata.uid() != geteuid().as_raw() {
        bail!("{shown} belongs to another user: set XDG_STATE_HOME to a directory of your own");
    }
    ensure!(metadata.mode() & 0o022 == 0, "other users may write to {shown}: chmod go-w it");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_place_that_there_is() {
        let table = [
            (&["XDG_STATE_HOME=/x", "STATE_DIRECTORY=/s", "HOME=/h"][..], Some("/x/throttle")),
            (&["STATE_DIRECTORY=/s:/t", "HOME=/h"], Some("/s")),
            (&["XDG_STATE_HOME=", "STATE_DIRECTORY=", "HOME=/h"], Some("/h/.local/state/throttle")),
            (&["XDG_STATE_HOME=x", "STATE_DIRECTORY=s", "HOME=/h"], Some("/h/.local/state/throttle")),
            (&["HOME=h"], None),
            (&[], None),
        ];
        for (variables, expected) in table {
            let find = |name: &str| {
                let mut variables = variables.iter().filter_map(|variable| variable.split_once('='));
                variables.find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            assert_eq!(directory(find), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn a_directory_is_made_for_us_alone_or_has_to_be_so() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        prepare(&directory).unwrap();
        for made in [&directory, &parent.path().join("a")] {
            assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o700);
        }
        prepare(&directory).unwrap();
        for mode in [0o770, 0o1777] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            assert!(prepare(&directory).unwrap_err().to_string().contains("other users may write"));
        }
    }

    #[test]
    fn a_name_is_no_path() {
        for name in ["", ".", "..", ".hidden", "a/b", "a\0"] {
            assert!(place(name).unwrap_err().to_string().contains("is not a state name"), "{name}");
        }
    }
}
