//! How a process is started.
//!
//! `posix_spawn(3)` does nearly all. std's `Command` is for the rest: as it collects the environment anew for each
//! process, it takes longer than all else that is done for a short command.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr;
use std::rc::Rc;

use nix::errno::Errno;
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use crate::inherited::inherited;

/// Starts processes with the environment that we have, and with the signals that we inherited.
pub(super) struct Spawner {
    environment: Vec<CString>,
    attributes: PosixSpawnAttr,
    own_group: bool,
}

/// A process that is about to start. It gets our standard streams in place of those that it has none of.
pub(super) struct Spawn {
    /// The file of the program, or a name to look for in `PATH`.
    program: CString,
    /// The arguments, with the name first.
    line: Vec<CString>,
    /// Names, and `NAME=value`. They are instead of ours with the same name.
    variables: Vec<(&'static str, CString)>,
    pub(super) stdin: Option<Rc<OwnedFd>>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

impl Spawn {
    /// The command `line`, whose program is this one.
    ///
    /// # Errors
    /// A NUL is in them.
    pub(super) fn new(program: &OsStr, line: &[OsString]) -> io::Result<Self> {
        let line = line.iter().map(|argument| CString::new(argument.as_bytes()));
        Ok(Spawn {
            program: CString::new(program.as_bytes())?,
            line: line.collect::<Result<_, _>>()?,
            variables: Vec::with_capacity(6),
            stdin: None,
            stdout: None,
            stderr: None,
        })
    }

    /// Sets a variable of its environment. A value with a NUL, which none of ours can have, sets none.
    pub(super) fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        let variable = [name.as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        self.variables.extend(CString::new(variable).map(|variable| (name, variable)));
    }

    fn streams(&self) -> [Option<&OwnedFd>; 3] {
        [self.stdin.as_deref(), self.stdout.as_ref(), self.stderr.as_ref()]
    }

    /// The same for std, which starts it by fork and exec.
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(OsStr::from_bytes(self.program.to_bytes()));
        let mut line = self.line.iter().map(|argument| OsStr::from_bytes(argument.to_bytes()));
        line.next().into_iter().for_each(|name| _ = command.arg0(name));
        command.args(line);
        for (name, variable) in &self.variables {
            command.env(name, OsStr::from_bytes(&variable.to_bytes()[name.len() + 1..]));
        }
        let [stdin, stdout, stderr] = self
            .streams()
            .map(|stream| stream.map_or(Ok(Stdio::inherit()), |fd| fd.try_clone().map(Into::into)));
        command.stdin(stdin?).stdout(stdout?).stderr(stderr?);
        restore(&mut command);
        Ok(command)
    }
}

impl Spawner {
    /// Each process leads a group of its own if `own_group`.
    ///
    /// # Errors
    /// The system has no memory.
    pub(super) fn new(own_group: bool) -> io::Result<Self> {
        let environment =
            env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let mut attributes = PosixSpawnAttr::init()?;
        let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
        // We ignore it, and catch the others that we did not inherit as ignored.
        let ignored =
            if inherited().ignores(libc::SIGPIPE) { SigSet::empty() } else { Signal::SIGPIPE.into() };
        attributes.set_sigdefault(&ignored)?;
        attributes.set_sigmask(&inherited().mask.unwrap_or_else(SigSet::empty))?;
        if own_group {
            flags |= PosixSpawnFlags::POSIX_SPAWN_SETPGROUP;
            attributes.set_pgroup(Pid::from_raw(0))?;
        }
        attributes.set_flags(flags)?;
        Ok(Spawner { environment: environment.flat_map(CString::new).collect(), attributes, own_group })
    }

    /// Starts a process.
    pub(super) fn start(&self, spawn: &Spawn) -> io::Result<Pid> {
        // What we do not ignore, posix_spawn(3) cannot make a process ignore.
        if inherited().to_ignore().any(|signal| signal != libc::SIGPIPE) {
            return self.fork(spawn);
        }
        match self.spawn(spawn) {
            // A script without `#!`, which execvp(3) runs with sh.
            Err(Errno::ENOEXEC) => self.fork(spawn),
            started => Ok(started?),
        }
    }

    fn spawn(&self, spawn: &Spawn) -> nix::Result<Pid> {
        let mut actions = PosixSpawnFileActions::init()?;
        for (stream, number) in spawn.streams().into_iter().zip(0..) {
            if let Some(fd) = stream {
                actions.add_dup2(fd.as_raw_fd(), number)?;
            }
        }
        let theirs = || spawn.variables.iter();
        let is_of = |variable: &CString, name: &str| {
            variable.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        };
        let ours = self.environment.iter().filter(|ours| !theirs().any(|(name, _)| is_of(ours, name)));
        let environment: Vec<_> = ours.chain(theirs().map(|(_, variable)| variable)).collect();
        posix_spawnp(&spawn.program, &actions, &self.attributes, &spawn.line, &environment)
    }

    fn fork(&self, spawn: &Spawn) -> io::Result<Pid> {
        let mut command = spawn.command()?;
        if self.own_group {
            command.process_group(0);
        }
        Ok(Pid::from_raw(command.spawn()?.id().cast_signed()))
    }
}

/// Makes a command ignore and block the signals that we inherited so.
pub(super) fn restore(command: &mut Command) {
    let inherited = inherited();
    let restore = move || {
        // SAFETY: an action that runs none of our code, and calls that are allowed between fork and exec.
        #[expect(unsafe_code)]
        unsafe {
            for signal in inherited.to_ignore() {
                libc::signal(signal, libc::SIG_IGN);
            }
            if let Some(mask) = inherited.mask {
                libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ref(), ptr::null_mut());
            }
        }
        Ok(())
    };
    // SAFETY: it only makes those calls.
    #[expect(unsafe_code)]
    unsafe {
        command.pre_exec(restore);
    }
}
