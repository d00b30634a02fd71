//! Replaces the process with a command.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Error, anyhow};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};

use super::spawn::{SH, is_script, restore, script};
use crate::config::{State, VARIABLE};
use crate::exit::Exit;
use crate::inherited::{inherited, stdin};
use crate::output::Target;
use crate::which;

/// Turns this process into a command, with signals and descriptors as they were found. Returns only if that fails.
pub(crate) fn exec(line: &[OsString]) -> (Exit, Error) {
    let mut error = replace(Command::new(&line[0]).args(&line[1..]));
    if is_script(&error) {
        error = replace(Command::new(SH).arg(script(&line[0])).args(&line[1..]));
    }
    (exit_of(&error), cannot_run(error, &line[0].to_string_lossy()))
}

/// Returns only if this process cannot become the command.
fn replace(command: &mut Command) -> io::Error {
    if let Some(state) = env::var_os(VARIABLE) {
        command.env(VARIABLE, State::inherited(&state));
    }
    restore(command);
    // A descriptor that was closed is one of ours now, which the command must not get.
    if inherited().stdin_closed {
        let _ = fcntl(stdin(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    if inherited().stdout_closed {
        let _ = fcntl(Target::Stdout.fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    let error = command.exec();
    // std has restored SIGPIPE for the command. There is no command, and the message that follows must not end us.
    // SAFETY: an action that runs none of our code.
    #[expect(unsafe_code)]
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
    error
}

/// The message that a program could not be started.
pub(super) fn cannot_run(error: io::Error, name: &str) -> Error {
    // The system reports a missing interpreter as though the script were missing.
    let file = if name.contains('/') { Some(name.into()) } else { which::find(name.as_ref()) };
    if error.kind() == ErrorKind::NotFound && file.is_some_and(|file: PathBuf| file.is_file()) {
        return anyhow!("cannot run {name}: the interpreter that it names in its first line is missing");
    }
    if error.kind() == ErrorKind::NotFound && !name.contains('/') && !name.is_empty() {
        return anyhow!(
            "cannot run {name}: no such program in $PATH; for an alias of your shell, write what it stands for"
        );
    }
    Error::new(error).context(format!("cannot run {}", if name.is_empty() { "''" } else { name }))
}

/// The exit of a run whose command could not be started.
pub(super) fn exit_of(error: &io::Error) -> Exit {
    if error.kind() == ErrorKind::NotFound { Exit::NotFound } else { Exit::CannotRun }
}
