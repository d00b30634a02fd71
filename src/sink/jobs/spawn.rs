//! What a process is started with.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::ptr;
use std::rc::Rc;

use nix::libc;

use crate::config::VARIABLE;
use crate::inherited::inherited;
use crate::which;

/// The variables that tell each command about its items. Those of a run that has started this one are not passed on.
pub(super) const PER_COMMAND: [&str; 5] =
    ["THROTTLE_SEQ", "THROTTLE_ATTEMPT", "THROTTLE_SLOT", "THROTTLE_HEADERS", "THROTTLE_RETRY_AFTER"];

/// A process that is about to start. It gets our standard streams in place of those that it has none of.
pub(super) struct Spawn {
    /// The file of the program, or a name to look for in `PATH`.
    pub(super) program: CString,
    /// The arguments, with the name first.
    pub(super) arguments: Vec<CString>,
    /// Names, and `NAME=value`. They are instead of ours with the same name.
    pub(super) variables: Vec<(&'static str, CString)>,
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
        let arguments = line.iter().map(|argument| CString::new(argument.as_bytes()));
        Ok(Spawn {
            program: CString::new(program.as_bytes())?,
            arguments: arguments.collect::<Result<_, _>>()?,
            variables: Vec::with_capacity(6),
            stdin: None,
            stdout: None,
            stderr: None,
        })
    }

    /// Sets a variable of its environment. A value with a NUL, which none of ours can have, sets none.
    pub(super) fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        debug_assert!(name == VARIABLE || PER_COMMAND.contains(&name), "{name} would be passed on");
        let variable = [name.as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        self.variables.extend(CString::new(variable).map(|variable| (name, variable)));
    }

    /// Has its program run by sh, as a script.
    ///
    /// # Errors
    /// A NUL is in the path of the script.
    pub(super) fn run_by_sh(&mut self) -> io::Result<()> {
        let script = script(OsStr::from_bytes(self.program.to_bytes()));
        let sh = CString::new(SH)?;
        self.arguments.splice(..1, [sh.clone(), CString::new(script.into_os_string().into_vec())?]);
        self.program = sh;
        Ok(())
    }

    /// Standard input, output and error.
    pub(super) fn streams(&self) -> [Option<&OwnedFd>; 3] {
        [self.stdin.as_deref(), self.stdout.as_ref(), self.stderr.as_ref()]
    }

    /// The same for std, which starts it by fork and exec.
    pub(super) fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(OsStr::from_bytes(self.program.to_bytes()));
        let mut arguments = self.arguments.iter().map(|argument| OsStr::from_bytes(argument.to_bytes()));
        arguments.next().into_iter().for_each(|name| _ = command.arg0(name));
        command.args(arguments);
        PER_COMMAND.into_iter().for_each(|name| _ = command.env_remove(name));
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

/// What runs scripts without `#!`, as execvp(3) does on most systems.
pub(super) const SH: &str = "/bin/sh";

/// True if the system found a file that can be run, but is no program that it knows: a script without `#!`.
pub(super) fn is_script(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOEXEC)
}

/// The file of the script that was found as `program`.
pub(super) fn script(program: &OsStr) -> PathBuf {
    which::find(program).unwrap_or_else(|| program.into())
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
