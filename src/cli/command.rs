//! Checks of a COMMAND before it is run for the first time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::args::Cli;
use crate::config::{RateText, Selector, as_script, parse_duration};
use crate::printable::quoted;
use crate::which;

/// A command that is a file of items, another limit or an option.
pub(super) fn no_command(cli: &Cli) -> Option<String> {
    let command = cli.unmarked_command().first()?;
    let name = command.display();
    if let Some(option) = command.to_str().and_then(|text| text.strip_prefix(['\u{2013}', '\u{2014}'])) {
        return Some(format!("{name} begins with a dash instead of a hyphen: write -{option}"));
    }
    if is_found(command) {
        return None;
    }
    let is_rate = command.to_str().is_some_and(|text| text.parse::<RateText>().is_ok());
    if is_rate && !Path::new(command).exists() {
        return Some(format!("{name} is a limit, not a command: did you mean -r {name}?"));
    }
    which::is_file(Path::new(command), false).then(|| {
        format!(
            "{name} is a file and cannot be run: to read items from it, use <{name} or -a {name}; to run it, chmod \
             +x {name}"
        )
    })
}

/// A command that is the rest of a duration, such as `minute` after `-p 1`.
pub(super) fn rest_of_duration(cli: &Cli) -> Option<String> {
    let [.., option, value] = &cli.before[..] else { return None };
    let command = cli.unmarked_command().first()?;
    let (option, value, unit) = (option.to_str()?, value.to_str()?, command.to_str()?);
    let (option, value) = match DURATIONS.split(' ').any(|name| name == option) {
        true => (option, value),
        // As in `-p1` and `--period=1`.
        false => DURATIONS.split(' ').find_map(|name| Some((name, value.strip_prefix(name)?)))?,
    };
    let whole = format!("{} {unit}", value.trim_start_matches('='));
    let is_duration = parse_duration(&whole).is_ok() && !is_found(command);
    is_duration.then(|| format!("{unit} is taken for the command: write {option} \"{whole}\""))
}

/// Options that take durations.
const DURATIONS: &str =
    "-p --period --until --timeout --max-wait --margin --hold --max-hold --unsorted --store-timeout";

/// A command that is the value of the option before it, which takes one only after an equals sign.
pub(super) fn detached_value(cli: &Cli) -> Option<String> {
    let command = cli.unmarked_command().first()?;
    let (option, value) = (cli.before.last()?.to_str()?, command.to_str()?);
    let is_value = match option {
        "--tag" => Selector::parse_part(value).is_ok(),
        "--progress" => ["auto", "always"].contains(&value),
        "--resume" => ["unfinished", "new"].contains(&value),
        _ => false,
    };
    (is_value && !is_found(command))
        .then(|| format!("{value} is taken for the command: write {option}={value}"))
}

/// Characters that are special to a shell.
const SPECIAL: &str = "|&;<>()$`\\\"'*?[#~\n";

/// A command that is a whole shell line in quotes.
pub(super) fn shell_line(cli: &Cli) -> Option<String> {
    let name = cli.command.first().filter(|name| name.as_bytes().contains(&b' '))?;
    let words = cli.command.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>()?;
    if Path::new(name).exists() || is_found(name) {
        return None;
    }
    let (line, name) = (words.join(" "), quoted(&cli.command[..1]));
    let shell = if line.split(' ').next().is_some_and(is_function) { "bash" } else { "sh" };
    if shell == "sh" && !line.contains(|c| SPECIAL.contains(c)) && !is_assignment(&line) {
        return Some(format!(
            "there is no program {name}: do not quote a program and its arguments as one word: write -- {line}"
        ));
    }
    let script = if cli.commands.takes_stdin() || cli.control.once {
        quoted(&[shell, "-c", &line, shell].map(OsString::from))
    } else {
        as_script(shell, &line, cli.commands.placeholder.as_deref(), cli.commands.forms_batches())
    };
    Some(format!("there is no program {name}, and no shell is used: write -- {script}"))
}

/// A command that is a function or a builtin, which only the shell can run.
pub(super) fn shell_function(cli: &Cli) -> Option<String> {
    let name = cli.command.first()?.to_str()?;
    let is_builtin = || BUILTINS.split(' ').any(|builtin| builtin == name) && !is_found(name.as_ref());
    if is_assignment(name) && !is_found(name.as_ref()) {
        return Some(format!("{name} is for a shell: write -- env {}", quoted(&cli.command)));
    }
    let (shell, what) = match name {
        _ if is_function(name) => ("bash", "function of bash"),
        "let" | "source" if is_builtin() => ("bash", "builtin of bash"),
        _ if is_builtin() => ("sh", "builtin of the shell"),
        _ => return None,
    };
    let line = [shell, "-c", &format!("{name} \"$@\""), shell].map(OsString::from);
    Some(format!("{name} is a {what}: write -- {}", quoted(&[&line, &cli.command[1..]].concat())))
}

/// Builtins for which there may be no program.
const BUILTINS: &str = "alias bg cd eval exec exit export fg hash jobs let local read set shift source trap type \
                        ulimit umask unset wait";

/// Reports whether a command begins with the assignment of a variable.
fn is_assignment(line: &str) -> bool {
    let name = line.split_once('=').map_or("", |(name, _)| name);
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Reports whether bash has exported a function of this name, and there is no such program.
fn is_function(name: &str) -> bool {
    env::var_os(format!("BASH_FUNC_{name}%%")).is_some() && !is_found(name.as_ref())
}

/// Reports whether a shell would find a command of this name.
pub(super) fn is_found(command: &OsStr) -> bool {
    which::find(command).is_some()
}
