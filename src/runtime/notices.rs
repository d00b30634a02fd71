//! Notices of changes to files, from the kernel where it gives them.

#[cfg(target_os = "linux")]
pub(super) use linux::Notices;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::Notices;

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::{Path, PathBuf};
    use std::thread;
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

    /// Notices of changes to some files.
    pub(in super::super) struct Notices {
        inotify: Option<Inotify>,
        names: Vec<PathBuf>,
    }

    impl Notices {
        /// Of these files being changed or replaced: what is watched is their directories.
        pub(in super::super) fn of(files: &[PathBuf]) -> Self {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
            // A link may stand in one directory and the file in another.
            let targets = files.iter().filter_map(|file| fs::canonicalize(file).ok());
            let names: Vec<_> = files.iter().cloned().chain(targets).collect();
            let changes = AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_MODIFY
                | AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_DELETE;
            for (inotify, name) in
                inotify.iter().flat_map(|inotify| names.iter().map(move |name| (inotify, name)))
            {
                let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
                let _ = inotify.add_watch(parent.unwrap_or(Path::new(".")), changes);
            }
            Notices { inotify, names }
        }

        /// Waits up to `timeout` for a change. Returns whether there was one.
        pub(in super::super) fn wait(&self, timeout: Duration) -> bool {
            let Some(inotify) = &self.inotify else {
                thread::sleep(timeout);
                return false;
            };
            let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
            let ready = poll(&mut [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)], timeout);
            ready.is_ok_and(|ready| ready > 0) && self.concerns_us(inotify)
        }

        /// Reads the notices that have come; some may be of other files in the same directories.
        fn concerns_us(&self, inotify: &Inotify) -> bool {
            let is_ours = |name: &OsStr| self.names.iter().any(|file| file.file_name() == Some(name));
            let events = inotify.read_events().unwrap_or_default();
            events.iter().any(|event| event.name.as_deref().is_none_or(is_ours))
        }

        /// Drops the notices that have come meanwhile.
        pub(in super::super) fn forget(&self) {
            if let Some(inotify) = &self.inotify {
                while inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use std::path::PathBuf;
    use std::thread;
    use std::time::Duration;

    /// No notices.
    pub(in super::super) struct Notices;

    impl Notices {
        pub(in super::super) fn of(_: &[PathBuf]) -> Self {
            Notices
        }

        /// Returns in time for files to be looked at often enough.
        pub(in super::super) fn wait(&self, timeout: Duration) -> bool {
            thread::sleep(timeout.min(Duration::from_millis(100)));
            false
        }

        pub(in super::super) fn forget(&self) {}
    }
}
