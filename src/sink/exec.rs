//! Running a command for each release.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Error, anyhow};
use crossbeam_channel::Sender;
use memchr::memmem;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Cause, Load, Reaped, SendError, Sent, Sink};
use crate::exit::Exit;
use crate::found::found;
use crate::report::Reporter;
use crate::time::Time;

/// The most bytes of items in one command line with several: as xargs, well under every system's limit.
const MOST_BYTES: usize = 128 << 10;

/// A command line with places for items.
pub struct Template {
    command: Vec<OsString>,
    placeholder: OsString,
    has_place: bool,
}

impl Template {
    /// `placeholder` stands for an item wherever it occurs in `command`; if it does nowhere, items go to the end.
    pub fn new(command: Vec<OsString>, placeholder: OsString) -> Self {
        let has_place =
            command.iter().any(|arg| memmem::find(arg.as_bytes(), placeholder.as_bytes()).is_some());
        Template { command, placeholder, has_place }
    }

    /// The command line for `items`: an argument with a place in it is repeated for each of them.
    fn expand(&self, items: &[&[u8]]) -> Vec<OsString> {
        let mut line = Vec::with_capacity(self.command.len() + items.len());
        for arg in &self.command {
            if memmem::find(arg.as_bytes(), self.placeholder.as_bytes()).is_some() {
                line.extend(items.iter().map(|item| self.fill(arg, item)));
            } else {
                line.push(arg.clone());
            }
        }
        if !self.has_place {
            line.extend(items.iter().map(|item| OsStr::from_bytes(item).to_owned()));
        }
        line
    }

    fn fill(&self, arg: &OsStr, item: &[u8]) -> OsString {
        let (arg, place) = (arg.as_bytes(), self.placeholder.as_bytes());
        let mut filled = Vec::with_capacity(arg.len() + item.len());
        let mut start = 0;
        for at in memmem::find_iter(arg, place) {
            filled.extend_from_slice(&arg[start..at]);
            filled.extend_from_slice(item);
            start = at + place.len();
        }
        filled.extend_from_slice(&arg[start..]);
        OsString::from_vec(filled)
    }
}

/// Runs commands, one at a time.
pub struct Exec<'a> {
    template: Template,
    reporter: &'a Reporter,
    /// Each message asks to be told of the end of the next command.
    watch: Sender<()>,
    is_watching: bool,
    /// Commands keep our stdin; otherwise theirs is /dev/null.
    share_stdin: bool,
    own_group: bool,
    running: Vec<Running>,
}

struct Running {
    pid: Pid,
    first: u64,
    items: u64,
}

impl<'a> Exec<'a> {
    /// Runs `template` for what is released. Each message on `watch` asks that somebody wait for the end of a
    /// command, without reaping it, and then have [`Sink::reap`] called.
    ///
    /// Where there is no controlling terminal, each command leads a process group of its own, so that a signal
    /// also reaches what it started. On a terminal it stays in ours: there Ctrl-C reaches it anyway, and it
    /// may go on reading passwords from /dev/tty.
    pub fn new(template: Template, share_stdin: bool, reporter: &'a Reporter, watch: Sender<()>) -> Self {
        let own_group = File::open("/dev/tty").is_err();
        Exec { template, reporter, watch, is_watching: false, share_stdin, own_group, running: Vec::new() }
    }

    fn command(&self, line: &[OsString]) -> Command {
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        if !self.share_stdin {
            command.stdin(Stdio::null());
        }
        if self.own_group {
            command.process_group(0);
        }
        ignore_as_found(&mut command);
        command
    }

    /// Tells of ends that are not plain failures, as xargs does.
    fn tell(&self, running: &Running, status: WaitStatus, exit: Exit) {
        let name = self.template.command[0].to_string_lossy();
        let item = running.first;
        match status {
            WaitStatus::Signaled(_, signal, _) => {
                self.reporter.notice(&format_args!("item {item}: {name} was killed by {signal}"));
            }
            _ if exit == Exit::CommandStopped => {
                self.reporter
                    .notice(&format_args!("item {item}: {name} exited with 255, which ends the run"));
            }
            _ => {}
        }
    }

    fn watch(&mut self) {
        if !self.is_watching && !self.running.is_empty() {
            self.is_watching = self.watch.send(()).is_ok();
        }
    }

    /// A command that could not be started: can others be?
    fn refuse(&self, load: &Load, error: io::Error) -> Result<Sent, SendError> {
        let name = self.template.command[0].to_string_lossy();
        let fatal = |exit, error: Error| Err(SendError { written: 0, cause: Cause::Unable(exit, error) });
        let why = match error.kind() {
            ErrorKind::InvalidInput => {
                "it holds a NUL byte, which no argument can: use --null input, or filter it out"
            }
            ErrorKind::ArgumentListTooLong => "it is too long for an argument: the kernel takes 128 KiB",
            ErrorKind::NotFound => {
                return fatal(Exit::NotFound, Error::new(error).context(format!("cannot run {name}")));
            }
            _ => return fatal(Exit::CannotRun, Error::new(error).context(format!("cannot run {name}"))),
        };
        let last = load.first + load.records - 1;
        match load.records {
            1 => self.reporter.error(&anyhow!("item {last}: not run: {why}")),
            _ => self.reporter.error(&anyhow!("items {} to {last}: not run: {why}", load.first)),
        }
        Ok(Sent::Refused)
    }
}

impl Sink for Exec<'_> {
    fn send(&mut self, _: Time, load: &Load) -> Result<Sent, SendError> {
        let items: Vec<_> = load.delimiter.split(load.bytes).collect();
        let line = self.template.expand(&items);
        match self.command(&line).spawn() {
            Ok(child) => {
                let pid = Pid::from_raw(child.id().cast_signed());
                self.running.push(Running { pid, first: load.first, items: load.records });
                self.watch();
                Ok(Sent::Released)
            }
            Err(error) => self.refuse(load, error),
        }
    }

    fn span(&self) -> u64 {
        1
    }

    fn most_bytes(&self) -> usize {
        MOST_BYTES
    }

    fn is_free(&self) -> bool {
        self.running.is_empty()
    }

    fn running(&self) -> usize {
        self.running.len()
    }

    fn reap(&mut self) -> Reaped {
        let mut reaped = Reaped { failed: 0, exit: Exit::Done };
        self.is_watching = false;
        // Others than ours may be among them: what this process had started before it became throttle.
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let (pid, code) = match status {
                WaitStatus::Exited(pid, code) => (pid, Some(code)),
                WaitStatus::Signaled(pid, ..) => (pid, None),
                WaitStatus::StillAlive => break,
                _ => continue,
            };
            if let Some(at) = self.running.iter().position(|running| running.pid == pid) {
                let running = self.running.swap_remove(at);
                let exit = Exit::of_command(code);
                self.tell(&running, status, exit);
                reaped.failed += if exit == Exit::Done { 0 } else { running.items };
                reaped.exit = reaped.exit.max(exit);
            }
        }
        self.watch();
        reaped
    }

    fn signal(&mut self, signal: Signal) {
        for running in &self.running {
            // It may have ended already: it is not reaped yet, so the number is still its own.
            let _ = if self.own_group { killpg(running.pid, signal) } else { kill(running.pid, signal) };
        }
    }
}

/// Has the command ignore what we were told to ignore. Costs the faster way to start a command, so only if needed.
fn ignore_as_found(command: &mut Command) {
    let ignored: Vec<_> = found().ignored().collect();
    if ignored.is_empty() {
        return;
    }
    let ignore = move || {
        for &signal in &ignored {
            // SAFETY: an action that runs none of our code, set by a call that is allowed between fork and exec.
            #[expect(unsafe_code)]
            unsafe {
                nix::libc::signal(signal, nix::libc::SIG_IGN);
            }
        }
        Ok(())
    };
    // SAFETY: it only makes that call.
    #[expect(unsafe_code)]
    unsafe {
        command.pre_exec(ignore);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_go_where_the_placeholder_stands_or_to_the_end() {
        let table: [(&[&str], &str, &[&[u8]], &[&str]); 6] = [
            (&["echo", "a"], "{}", &[b"x y"], &["echo", "a", "x y"]),
            (&["echo", "{}", "b"], "{}", &[b"x"], &["echo", "x", "b"]),
            (&["echo", "-{}={}", "{}"], "{}", &[b"x"], &["echo", "-x=x", "x"]),
            (&["echo", "{}"], "@", &[b"x"], &["echo", "{}", "x"]),
            (&["echo", "a"], "{}", &[b"1", b"2"], &["echo", "a", "1", "2"]),
            (&["echo", "f{}", "b"], "{}", &[b"1", b"2"], &["echo", "f1", "f2", "b"]),
        ];
        for (command, placeholder, items, line) in table {
            let template = Template::new(command.iter().map(OsString::from).collect(), placeholder.into());
            assert_eq!(template.expand(items), line, "{command:?}");
        }
    }
}
