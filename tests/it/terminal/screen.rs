//! A terminal of one line, and a person who looks at it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::libc;
use nix::pty::{Winsize, openpty};

use crate::support::eventually;

/// A pseudo-terminal, and all that was written to it.
pub(super) struct Screen {
    terminal: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    pub(super) fn new(columns: u16) -> Self {
        let pty = openpty(&size(columns), None).expect("a pseudo-terminal");
        let written = Arc::new(Mutex::new(Vec::new()));
        let (copy, mut master) = (Arc::clone(&written), File::from(pty.master));
        // It ends with the program: reading fails once nobody has the terminal open.
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = master.read(&mut chunk) {
                copy.lock().expect("no panic").extend_from_slice(&chunk[..read]);
            }
        });
        Screen { terminal: pty.slave, written }
    }

    /// For a program to write to.
    pub(super) fn terminal(&self) -> Stdio {
        self.terminal.as_fd().try_clone_to_owned().expect("a descriptor").into()
    }

    pub(super) fn resize(&self, columns: u16) {
        let size = size(columns);
        // SAFETY: the kernel reads a winsize, which it is given one of.
        #[expect(unsafe_code)]
        let result = unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0);
    }

    /// All that was written.
    pub(super) fn raw(&self) -> String {
        String::from_utf8(self.written.lock().expect("no panic").clone()).expect("text")
    }

    /// What a person reads in the last line that is not empty.
    pub(super) fn line(&self) -> String {
        let raw = self.raw();
        let last = raw.split("\r\n").filter(|line| !line.is_empty()).last().unwrap_or_default();
        let drawn = last.rsplit("\r\x1b[2K").next().unwrap_or_default();
        drawn.replace("\x1b[?7l", "").replace("\x1b[?7h", "")
    }

    /// The line, once it has this in it.
    pub(super) fn wait_for(&self, part: &str) -> String {
        eventually(part, || self.line().contains(part));
        self.line()
    }

    /// The next line after this one that is drawn as a whole.
    pub(super) fn wait_for_change(&self, line: &str) -> String {
        let before = self.raw().len();
        eventually("another line", || {
            let is_whole = self.raw()[before..].matches("\x1b[?7h").count() >= 2;
            is_whole && self.raw().ends_with("\x1b[?7h") && self.line() != line
        });
        self.line()
    }
}

fn size(columns: u16) -> Winsize {
    Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
