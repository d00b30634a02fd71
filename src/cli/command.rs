//! Checks of a COMMAND before it is run for the first time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::config::{RateText, Selector};
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
    let placeholder = placeholder.and_then(OsStr::to_str).unwrap_or("{}");
    let script = if has_stdin { line } else { with_argument(&line, placeholder) };
    let shell: Vec<_> = [shell, "-c", &script, shell].map(OsString::from).into();
    bail!("there is no program {name}, and no shell is used: write -- {}", quoted(&shell));
}

/// Checks that it is not a function, which only the shell can run.
pub(super) fn check_function(command: &[OsString]) -> Result<()> {
    let Some(name) = command.first().and_then(|name| name.to_str()).filter(|name| is_function(name)) else {
        return Ok(());
    };
    let shell = ["bash", "-c", &format!("{name} \"$@\""), "bash"].map(OsString::from);
    bail!("{name} is a function of bash: write -- {}", quoted(&[&shell, &command[1..]].concat()));
}

/// Reports whether bash has exported a function of this name, and there is no such program.
fn is_function(name: &str) -> bool {
    env::var_os(format!("BASH_FUNC_{name}%%")).is_some() && !is_found(name.as_ref())
}

/// A shell line with its first argument instead of the item, which must not become part of the script.
fn with_argument(line: &str, placeholder: &str) -> String {
    const ARGUMENT: &str = "\"$1\"";
    let quoted = [format!("\"{placeholder}\""), format!("'{placeholder}'"), placeholder.to_owned()];
    let script = quoted.iter().fold(line.to_owned(), |script, form| script.replace(form, ARGUMENT));
    if script == line { format!("{line} {ARGUMENT}") } else { script }
}

/// Reports whether a shell would find a command of this name.
fn is_found(command: &OsStr) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let has_directory = command.as_bytes().contains(&b'/');
    !has_directory && env::split_paths(&path).any(|directory| is_file(&directory.join(command), true))
}

/// Reports whether there is such a file, which can be run, or cannot, as `can_run` says.
fn is_file(path: &Path, can_run: bool) -> bool {
    let is_program = |mode: u32| mode & 0o111 != 0;
    path.metadata().is_ok_and(|file| file.is_file() && is_program(file.permissions().mode()) == can_run)
}
