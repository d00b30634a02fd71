//! Checks of a COMMAND before it is run for the first time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::config::{RateText, Selector, as_script, parse_duration};
use crate::printable::quoted;

/// Checks that it is not a file of items, another limit or an option.
pub(super) fn check(command: &OsStr) -> Result<()> {
    let name = command.display();
    if let Some(option) = command.to_str().and_then(|text| text.strip_prefix(['\u{2013}', '\u{2014}'])) {
        bail!("{name} begins with a dash instead of a hyphen: write -{option}");
    }
    let is_rate = command.to_str().is_some_and(|text| text.parse::<RateText>().is_ok());
    ensure!(
        !is_rate || Path::new(command).exists() || is_found(command),
        "{name} is a limit, not a command: did you mean -r {name}?"
    );
    ensure!(
        !is_file(Path::new(command), false) || is_found(command),
        "{name} is a file and cannot be run: to read items from it, use <{name} or -a {name}"
    );
    Ok(())
}

/// Checks that `command` is not the rest of a duration, such as `minute` after `-p 1`.
pub(super) fn check_duration(before: &[OsString], command: &OsStr) -> Result<()> {
    let [.., option, value] = before else { return Ok(()) };
    let (Some(option), Some(value), Some(unit)) = (option.to_str(), value.to_str(), command.to_str()) else {
        return Ok(());
    };
    // As in `-p1` and `--period=1`.
    let attached = || DURATIONS.split(' ').find_map(|name| Some((name, value.strip_prefix(name)?)));
    let (option, value) = match DURATIONS.split(' ').any(|name| name == option) {
        true => (option, value),
        false => attached().unwrap_or_default(),
    };
    let whole = format!("{} {unit}", value.trim_start_matches('='));
    let is_duration = !option.is_empty() && parse_duration(&whole).is_ok() && !is_found(command);
    ensure!(!is_duration, "{unit} is taken for the command: write {option} \"{whole}\"");
    Ok(())
}

/// Options that take durations.
const DURATIONS: &str =
    "-p --period --until --timeout --max-wait --margin --hold --max-hold --unsorted --store-timeout";

/// Checks that `command` is not the value of the option before it, which takes one only after an equals sign.
pub(super) fn check_value(option: &OsStr, command: &OsStr) -> Result<()> {
    let Some((option, value)) = option.to_str().zip(command.to_str()) else { return Ok(()) };
    let is_value = match option {
        "--tag" => Selector::parse_part(value).is_ok(),
        "--progress" => ["auto", "always"].contains(&value),
        "--resume" => ["unfinished", "new"].contains(&value),
        _ => false,
    };
    ensure!(!is_value || is_found(command), "{value} is taken for the command: write {option}={value}");
    Ok(())
}

/// Characters that are special to a shell.
const SPECIAL: &str = "|&;<>()$`\\\"'*?[#~\n";

/// Checks that it is not a whole shell line in quotes.
pub(super) fn check_line(command: &[OsString], placeholder: Option<&OsStr>, has_stdin: bool) -> Result<()> {
    let Some(name) = command.first().filter(|name| name.as_bytes().contains(&b' ')) else { return Ok(()) };
    let words: Option<Vec<_>> = command.iter().map(|word| word.to_str()).collect();
    let Some(words) = words.filter(|_| !Path::new(name).exists() && !is_found(name)) else { return Ok(()) };
    let (line, name) = (words.join(" "), quoted(&command[..1]));
    let shell = if line.split(' ').next().is_some_and(is_function) { "bash" } else { "sh" };
    ensure!(
        shell == "bash" || line.contains(|c| SPECIAL.contains(c)),
        "there is no program {name}: do not quote a program and its arguments as one word: write -- {line}"
    );
    let script = match has_stdin {
        true => quoted(&[shell, "-c", &line, shell].map(OsString::from)),
        false => as_script(shell, &line, placeholder),
    };
    bail!("there is no program {name}, and no shell is used: write -- {script}");
}

/// Checks that it is not a function or a builtin, which only the shell can run.
pub(super) fn check_function(command: &[OsString]) -> Result<()> {
    let Some(name) = command.first().and_then(|name| name.to_str()) else { return Ok(()) };
    let (shell, what) = match name {
        _ if is_function(name) => ("bash", "function of bash"),
        _ if BUILTINS.split(' ').any(|builtin| builtin == name) && !is_found(name.as_ref()) => {
            ("sh", "builtin of the shell")
        }
        _ => return Ok(()),
    };
    let line = [shell, "-c", &format!("{name} \"$@\""), shell].map(OsString::from);
    bail!("{name} is a {what}: write -- {}", quoted(&[&line, &command[1..]].concat()));
}

/// Builtins for which there may be no program.
const BUILTINS: &str = "alias bg cd eval exec exit export fg hash jobs let local read set shift source trap type \
                        ulimit umask unset wait";

/// Reports whether bash has exported a function of this name, and there is no such program.
fn is_function(name: &str) -> bool {
    env::var_os(format!("BASH_FUNC_{name}%%")).is_some() && !is_found(name.as_ref())
}

/// Reports whether a shell would find a command of this name.
pub(super) fn is_found(command: &OsStr) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let has_directory = command.as_bytes().contains(&b'/');
    !has_directory && env::split_paths(&path).any(|directory| is_file(&directory.join(command), true))
}

/// Reports whether there is such a file, which can be run, or cannot, as `can_run` says.
fn is_file(path: &Path, can_run: bool) -> bool {
    let is_program = |mode: u32| mode & 0o111 != 0;
    path.metadata().is_ok_and(|file| file.is_file() && is_program(file.permissions().mode()) == can_run)
}
