//! Starts commands, and sends them signals.

use std::env;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;

use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;

use super::exec::{cannot_run, exit_of};
use super::process::{Deadline, Process, Slots};
use super::shortage::{Shortage, is_passing};
use super::spawn::{PER_COMMAND, Spawn, is_script};
use crate::config::{State, VARIABLE};
use crate::exit::End;
use crate::inherited::inherited;
use crate::sink::{Cause, Sent};
use crate::time::Time;

/// The parent of commands, which get its environment and the signals that it inherited; each has a place of its own
/// while it runs.
///
/// Without a controlling terminal, or if commands are ended early, each leads a process group of its own, so that a
/// signal also reaches what it started. Otherwise it stays in our group: the terminal's Ctrl-C reaches it there, and it
/// can still ask for passwords on /dev/tty. In a group of its own, it gets our Ctrl-C passed on.
///
/// `posix_spawn(3)` starts nearly all. std's `Command` is for the rest: as it collects the environment anew for each
/// process, it takes longer than all else that is done for a short command.
pub(super) struct Parent {
    own_group: bool,
    environment: Vec<CString>,
    attributes: PosixSpawnAttr,
    /// The value of [`VARIABLE`] for them, if it is set for us.
    state: Option<String>,
    slots: Slots,
    shortage: Shortage,
}

impl Parent {
    /// A parent of commands. `ends_them`: some may be ended early.
    ///
    /// # Errors
    /// The system has no memory.
    pub(super) fn new(ends_them: bool) -> io::Result<Self> {
        let has_terminal = File::open("/dev/tty").is_ok();
        let own_group = ends_them || !has_terminal;
        let inherited = env::vars_os().filter(|(name, _)| PER_COMMAND.iter().all(|other| name != other));
        let variables = inherited.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let environment = variables.flat_map(CString::new).collect();
        Ok(Parent {
            own_group,
            environment,
            attributes: attributes(own_group)?,
            state: env::var_os(VARIABLE).map(|state| State::inherited(&state)),
            slots: Slots::default(),
            shortage: Shortage::default(),
        })
    }

    /// Starts a process; for a script without `#!`, that of sh.
    pub(super) fn start(&mut self, mut spawn: Spawn) -> io::Result<Process> {
        let slot = self.slots.first();
        spawn.set("THROTTLE_SLOT", (slot + 1).to_string());
        self.state.iter().for_each(|state| spawn.set(VARIABLE, state));
        // On most systems, execvp(3) runs such scripts.
        let started = or_if_script(self.try_start(&spawn), || self.fork(&spawn));
        let pid = or_if_script(started, || {
            spawn.run_by_sh()?;
            self.try_start(&spawn)
        })?;
        self.slots.take(slot);
        self.shortage.over();
        Ok(Process { pid, slot, deadline: Deadline::default() })
    }

    fn try_start(&self, spawn: &Spawn) -> io::Result<Pid> {
        // What we do not ignore, posix_spawn(3) cannot make a process ignore.
        match inherited().to_ignore().any(|signal| signal != libc::SIGPIPE) {
            true => self.fork(spawn),
            false => Ok(self.spawn(spawn)?),
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
        posix_spawnp(&spawn.program, &actions, &self.attributes, &spawn.arguments, &environment)
    }

    fn fork(&self, spawn: &Spawn) -> io::Result<Pid> {
        let mut command = spawn.command()?;
        if self.own_group {
            command.process_group(0);
        }
        Ok(Pid::from_raw(command.spawn()?.id().cast_signed()))
    }

    /// Decides what follows when `program` could not be started. If something is short, `will_pass` says whether
    /// something of ours will free it.
    pub(super) fn refused(&mut self, error: io::Error, program: &OsStr, will_pass: bool) -> Sent {
        let (is_passing, exit) = (is_passing(&error), exit_of(&error));
        let why = cannot_run(error, &program.to_string_lossy());
        match is_passing {
            true => self.shortage.persists(will_pass, why),
            false => Sent::Partly(0, Cause::Failed(exit, why)),
        }
    }

    /// The end of a process that has been reaped, as it counts. What one that took too long has left behind is killed.
    pub(super) fn end(&mut self, process: &Process, end: End) -> End {
        self.slots.free(process.slot);
        if !process.deadline.has_passed {
            return end;
        }
        // The group's ID is not reused while a process of the group exists.
        self.signal(process, Signal::SIGKILL);
        match end {
            End::Exited(_) => End::Killed(Signal::SIGTERM as i32),
            end @ End::Killed(_) => end,
        }
    }

    /// Sends a signal to a command that was started here and not reaped, so its process ID is still its own.
    pub(super) fn signal(&self, process: &Process, signal: Signal) {
        let send = if self.own_group { killpg } else { kill };
        let _ = send(process.pid, signal);
        if signal != Signal::SIGKILL {
            // A stopped command would never receive it.
            let _ = send(process.pid, Signal::SIGCONT);
        }
    }

    /// Signals a process that has taken too long by `now`.
    pub(super) fn enforce(&self, process: &mut Process, now: Time) {
        let signal = process.deadline.signal(now);
        signal.into_iter().for_each(|signal| self.signal(process, signal));
    }
}

fn or_if_script(started: io::Result<Pid>, again: impl FnOnce() -> io::Result<Pid>) -> io::Result<Pid> {
    match started {
        Err(error) if is_script(&error) => again(),
        started => started,
    }
}

/// What processes start with, besides their streams.
fn attributes(own_group: bool) -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    // We ignore it, and catch the others that we did not inherit as ignored.
    let ignored = if inherited().ignores(libc::SIGPIPE) { SigSet::empty() } else { Signal::SIGPIPE.into() };
    attributes.set_sigdefault(&ignored)?;
    attributes.set_sigmask(&inherited().mask.unwrap_or_else(SigSet::empty))?;
    if own_group {
        flags |= PosixSpawnFlags::POSIX_SPAWN_SETPGROUP;
        attributes.set_pgroup(Pid::from_raw(0))?;
    }
    attributes.set_flags(flags)?;
    Ok(attributes)
}
