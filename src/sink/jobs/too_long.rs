//! Why the kernel takes no command line as long as this one.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;

use nix::libc;

/// The longest argument that Linux takes, with the NUL that ends it: `MAX_ARG_STRLEN`.
const LONGEST_ARGUMENT: usize = 128 << 10;

/// What is wrong with `command`, which the system refused with E2BIG, and what to do about it.
pub(super) fn reason(command: &Command) -> String {
    let arguments = [command.get_program()].into_iter().chain(command.get_args());
    let arguments: Vec<_> = arguments.map(size).collect();
    let environment = environment(command).iter().map(|(name, value)| size(name) + size(value)).sum();
    explain(&arguments, environment, limit())
}

/// With the NUL that ends it.
fn size(text: &OsStr) -> usize {
    text.len() + 1
}

/// What `command` would have had.
fn environment(command: &Command) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<_, _> = env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => environment.insert(name.to_owned(), value.to_owned()),
            None => environment.remove(name),
        };
    }
    environment
}

/// The most bytes that the system takes in all.
fn limit() -> Option<usize> {
    // SAFETY: only asks.
    #[expect(unsafe_code)]
    let limit = unsafe { libc::sysconf(libc::_SC_ARG_MAX) };
    usize::try_from(limit).ok()
}

fn explain(arguments: &[usize], environment: usize, limit: Option<usize>) -> String {
    let longest = arguments.iter().max().copied().unwrap_or(0);
    if cfg!(target_os = "linux") && longest > LONGEST_ARGUMENT {
        return format!(
            "an argument of {} bytes is too long: the kernel takes {}; give the item on stdin, with --pipe",
            longest - 1,
            LONGEST_ARGUMENT - 1
        );
    }
    let arguments: usize = arguments.iter().sum();
    let limit = limit.map_or_else(String::new, |limit| format!(", where the kernel takes {limit} in all"));
    format!(
        "its arguments have {arguments} bytes and the environment {environment}{limit}: unset large variables, or give \
         the item on stdin, with --pipe"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_the_commands_own() {
        let mut command = Command::new("true");
        let before = environment(&command).len();
        command.env("THROTTLE_A_NEW_VARIABLE", "1").env_remove("PATH");
        let environment = environment(&command);
        assert_eq!(environment.len(), before + 1 - usize::from(env::var_os("PATH").is_some()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn one_argument_or_all_together() {
        let one = explain(&[5, LONGEST_ARGUMENT + 1], 10, Some(2_097_152));
        assert!(
            one.starts_with("an argument of 131072 bytes is too long: the kernel takes 131071;"),
            "{one}"
        );
        let sum = explain(&[5, LONGEST_ARGUMENT], 2_000_000, Some(2_097_152));
        assert!(
            sum.contains("131077 bytes and the environment 2000000, where the kernel takes 2097152"),
            "{sum}"
        );
    }
}
