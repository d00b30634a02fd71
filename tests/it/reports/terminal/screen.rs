//! A terminal, and a person who looks at it.

use std::cell::RefCell;
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
    /// The number of columns, with the byte from which it applies.
    widths: RefCell<Vec<(usize, u16)>>,
}

impl Screen {
    pub(super) fn new(columns: u16) -> Self {
        let pty = openpty(&size(columns), None).expect("a pseudo-terminal");
        let written = Arc::new(Mutex::new(Vec::new()));
        let (copy, mut master) = (Arc::clone(&written), File::from(pty.master));
        // Ends with the program: reading fails once nobody has the terminal open.
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = master.read(&mut chunk) {
                copy.lock().expect("no panic").extend_from_slice(&chunk[..read]);
            }
        });
        Screen { terminal: pty.slave, written, widths: RefCell::new(vec![(0, columns)]) }
    }

    /// The terminal, for a program to write to.
    pub(super) fn terminal(&self) -> Stdio {
        self.terminal.as_fd().try_clone_to_owned().expect("a descriptor").into()
    }

    pub(super) fn resize(&self, columns: u16) {
        self.widths.borrow_mut().push((self.raw().len(), columns));
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

    /// The lines that a person reads, without empty ones.
    pub(super) fn lines(&self) -> Vec<String> {
        let (raw, widths) = (self.raw(), self.widths.borrow());
        let ends = widths.iter().skip(1).map(|(start, _)| *start).chain([raw.len()]);
        let mut picture = Picture::default();
        for (&(start, width), end) in widths.iter().zip(ends) {
            picture.write(&raw[start..end.max(start)], width.into());
        }
        picture
            .lines
            .iter()
            .map(|line| line.iter().collect::<String>())
            .filter(|line| !line.is_empty())
            .collect()
    }

    /// The last line that is not empty.
    pub(super) fn line(&self) -> String {
        self.lines().pop().unwrap_or_default()
    }

    /// Waits until the line contains `part`. Returns the line.
    pub(super) fn wait_for(&self, part: &str) -> String {
        eventually(part, || self.line().contains(part));
        self.line()
    }

    /// Waits until a person reads exactly these lines.
    pub(super) fn wait_for_lines(&self, lines: &[&str]) {
        eventually(&format!("{lines:?}"), || self.lines() == lines);
    }

    /// Waits for another line after `line` that is drawn as a whole.
    pub(super) fn wait_for_change(&self, line: &str) -> String {
        let before = self.raw().len();
        eventually("another line", || {
            let is_whole = self.raw()[before..].matches("\x1b[?7h").count() >= 2;
            is_whole && self.raw().ends_with("\x1b[?7h\r") && self.line() != line
        });
        self.line()
    }
}

fn size(columns: u16) -> Winsize {
    Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// The contents of a terminal that rewraps lines when it gets narrower, as most do: lines keep the length they were
/// written with, and take as many rows as that needs.
#[derive(Default)]
struct Picture {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Picture {
    fn write(&mut self, text: &str, width: usize) {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            self.lines.resize(self.lines.len().max(self.row + 1), Vec::new());
            match c {
                '\r' => self.column -= self.column % width,
                '\n' => self.row += 1,
                '\x1b' => {
                    let length = rest.as_str().find(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
                    let (order, after) = rest.as_str().split_at(length);
                    self.obey(order, width);
                    rest = after.chars();
                }
                _ => self.put(c),
            }
        }
    }

    fn put(&mut self, c: char) {
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = c;
        self.column += 1;
    }

    fn obey(&mut self, order: &str, width: usize) {
        let line = &mut self.lines[self.row];
        match order {
            "[J" => {
                line.truncate(self.column);
                self.lines.truncate(self.row + 1);
            }
            // The row that the cursor is in, among those of the line.
            "[2K" => {
                let start = self.column - self.column % width;
                let end = (start + width).min(line.len());
                line.get_mut(start..end).into_iter().for_each(|row| row.fill(' '));
                line.truncate(line.iter().rposition(|c| *c != ' ').map_or(0, |last| last + 1));
            }
            "[?7l" | "[?7h" => {}
            _ => panic!("{order:?} is not known"),
        }
    }
}
