//! What is in a state file: two copies of the header, then the marks of the rings, all at fixed places.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::guard;
use super::header::{Flaw, Header, ROOM};
use super::refusal::failed;
use crate::store::StoreError;
use crate::store::ledger::Marks;

/// Where the marks begin.
const MARKS: u64 = 2 * ROOM;

/// So long is a header of a few limits.
const USUAL: usize = 512;

/// An open state file.
pub(super) struct Body {
    path: PathBuf,
    file: Arc<File>,
}

/// What the two copies of the header come to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// One copy will not do.
    pub(super) is_half_damaged: bool,
}

impl Body {
    /// Opens what is at `path`, if there is anything, and if it is good.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        guard::check_directory(guard::directory(path))?;
        Ok(guard::open(path)?.map(|file| Body { path: path.to_owned(), file: Arc::new(file) }))
    }

    /// Creates a file at `path`, complete from the start; `None` if another process was faster.
    pub(super) fn create(path: &Path, header: &Header, places: u64) -> Result<Option<Self>, StoreError> {
        let cannot = |error| failed(path, "cannot create it", error);
        let directory = guard::directory(path);
        let new = tempfile::Builder::new().prefix(".throttle-").tempfile_in(directory).map_err(cannot)?;
        let (file, temporary) = new.into_parts();
        let body = Body { path: path.to_owned(), file: Arc::new(file) };
        if guard::shared_group(directory).is_some() {
            body.file.set_permissions(Permissions::from_mode(0o660)).map_err(cannot)?;
        }
        body.make_room(places)?;
        body.write(header)?;
        body.make_durable()?;
        match temporary.persist_noclobber(path) {
            Ok(()) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(cannot(error.error)),
        }
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(cannot)?;
        Ok(Some(body))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Whether it still is what is found at its path.
    pub(super) fn is_in_place(&self) -> Result<bool, StoreError> {
        let ours = self.file.metadata().map_err(|error| self.unreadable(error))?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// Whether it is as long as it has to be.
    pub(super) fn has_room(&self, places: u64) -> Result<bool, StoreError> {
        let metadata = self.file.metadata().map_err(|error| self.unreadable(error))?;
        Ok(metadata.len() == MARKS + 8 * places)
    }

    /// Makes it as long as it has to be, and sees to it that there is room on the disk, too.
    pub(super) fn make_room(&self, places: u64) -> Result<(), StoreError> {
        let made = self.file.set_len(MARKS).and_then(|()| write_zeros(&self.file, MARKS, 8 * places));
        made.map_err(|error| self.unwritable(error))
    }

    /// Waits until all of it is on the disk.
    pub(super) fn make_durable(&self) -> Result<(), StoreError> {
        self.file.sync_all().map_err(|error| self.unwritable(error))
    }

    /// The header, from the newer of the copies that will do, or why none of them will.
    pub(super) fn read(&self) -> Result<Result<Found, Flaw>, StoreError> {
        let copies = [self.copy(0)?, self.copy(ROOM)?];
        Ok(match copies {
            [Ok(first), Ok(second)] => {
                let header = if second.sequence > first.sequence { second } else { first };
                Ok(Found { header, is_half_damaged: false })
            }
            [Ok(header), Err(_)] | [Err(_), Ok(header)] => Ok(Found { header, is_half_damaged: true }),
            [Err(first), Err(second)] => Err(self.looked_at(first.max(second))?),
        })
    }

    /// What is as long as a state was one, whatever it begins with.
    fn looked_at(&self, flaw: Flaw) -> Result<Flaw, StoreError> {
        let length = self.file.metadata().map_err(|error| self.unreadable(error))?.len();
        let is_as_long = length > MARKS && length.is_multiple_of(8);
        Ok(if flaw == Flaw::Foreign && is_as_long { Flaw::Damaged } else { flaw })
    }

    fn copy(&self, start: u64) -> Result<Result<Header, Flaw>, StoreError> {
        let read = |length| read_up_to(&self.file, start, length).map_err(|error| self.unreadable(error));
        let bytes = read(USUAL)?;
        match Header::length(&bytes) {
            Some(length) if length > bytes.len() && length as u64 <= ROOM => {
                Ok(Header::decode(&read(length)?))
            }
            _ => Ok(Header::decode(&bytes)),
        }
    }

    /// Writes both copies of the header, one after the other.
    pub(super) fn write(&self, header: &Header) -> Result<(), StoreError> {
        let bytes = header.encode().ok_or_else(|| self.unwritable(io::ErrorKind::FileTooLarge.into()))?;
        let written = [0, ROOM].into_iter().try_for_each(|start| self.file.write_all_at(&bytes, start));
        written.map_err(|error| self.unwritable(error))
    }

    fn unreadable(&self, error: io::Error) -> StoreError {
        failed(&self.path, "cannot read it", error)
    }

    fn unwritable(&self, error: io::Error) -> StoreError {
        failed(&self.path, "cannot write to it", error)
    }
}

impl Marks for &Body {
    fn get(&mut self, place: u64) -> Result<u64, StoreError> {
        let mut mark = [0; 8];
        let read = self.file.read_exact_at(&mut mark, MARKS + 8 * place);
        read.map_err(|error| self.unreadable(error))?;
        Ok(u64::from_le_bytes(mark))
    }

    fn fill(&mut self, places: Range<u64>, mark: u64) -> Result<(), StoreError> {
        let count = usize::try_from(places.end - places.start).unwrap_or(usize::MAX);
        let start = MARKS + 8 * places.start;
        let written = match count {
            1 => self.file.write_all_at(&mark.to_le_bytes(), start),
            _ => self.file.write_all_at(&mark.to_le_bytes().repeat(count), start),
        };
        written.map_err(|error| self.unwritable(error))
    }
}

fn read_up_to(file: &File, start: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while read < length {
        match file.read_at(&mut bytes[read..], start + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

fn write_zeros(file: &File, start: u64, count: u64) -> io::Result<()> {
    let mut zeros = Vec::new();
    io::repeat(0).take(count).read_to_end(&mut zeros)?;
    file.write_all_at(&zeros, start)
}
