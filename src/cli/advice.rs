//! What is told about a mistake: what was probably meant, and how to write it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::Cli;
use super::{Instead, command, foreign};
use crate::printable::excerpt;

/// All checks of what clap accepts. The first that has advice on a mistake gives it.
const CHECKS: [fn(&Cli) -> Option<String>; 7] = [
    |cli| cli.before[1..].iter().find_map(|option| long_with_one_hyphen(option.to_str()?)),
    foreign::source_advice,
    command::shell_line,
    command::shell_function,
    command::detached_value,
    command::rest_of_duration,
    command::no_command,
];

/// Advice on a mistake, if there is one.
pub(super) fn on(cli: &Cli) -> Option<String> {
    CHECKS.iter().find_map(|check| check(cli))
}

/// A message of clap; a mistake on one line.
pub(super) fn on_error(error: &clap::Error, args: &[OsString]) -> Instead {
    Instead::Mistake(match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return Instead::Help(error.render().to_string());
        }
        ErrorKind::InvalidUtf8 => not_utf8(args),
        ErrorKind::UnknownArgument => one_hyphen(error, args).unwrap_or_else(|| unknown(error, args)),
        _ => one_hyphen(error, args).unwrap_or_else(|| one_line(&error.render().to_string())),
    })
}

/// A long option after one hyphen: `-dry-run` would be `-d ry-run`, and run. Not `-at`, which may well be `-a t`.
fn long_with_one_hyphen(option: &str) -> Option<String> {
    let name = option.strip_prefix('-')?.split('=').next()?;
    let may_be = name.len() > 2 && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase());
    let is_long = may_be && Cli::command().get_arguments().any(|option| option.get_long() == Some(name));
    is_long.then(|| format!("there is no option -{name}: is it --{name}? See 'throttle --help'"))
}

/// A long option after one hyphen, which clap reads as short ones and finds fault with.
fn one_hyphen(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let fault = error.get(ContextKind::InvalidValue).or_else(|| error.get(ContextKind::InvalidArg))?;
    let fault = fault.to_string();
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str()?.strip_prefix('-'));
    let mut words = words.filter(|word| word.contains(fault.trim_start_matches('-')));
    long_with_one_hyphen(&format!("-{}", words.next()?))
}

/// There is no such option: says what may have been meant.
fn unknown(error: &clap::Error, args: &[OsString]) -> String {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else {
        return one_line(&error.render().to_string());
    };
    let name = name.split([' ', '=']).next().unwrap_or_default();
    if let Some(advice) = foreign::advice(name, args) {
        return advice;
    }
    let begun = begun_by(name);
    if begun.len() > 1 {
        return format!("{name} is ambiguous: {}", begun.join(", "));
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(nearest)) if first_letter(nearest) == first_letter(name) => {
            format!("there is no option {name}: is it {nearest}? See 'throttle --help'")
        }
        _ => value_with_hyphen(name, args)
            .unwrap_or_else(|| format!("there is no option {name}; try 'throttle --help'")),
    }
}

/// What may be the value of the option before it, although it begins with a hyphen.
fn value_with_hyphen(name: &str, args: &[OsString]) -> Option<String> {
    let at = args.iter().position(|arg| arg.to_str().is_some_and(|arg| arg.starts_with(name)))?;
    let (value, option) = (args[at].to_str()?, args[at.checked_sub(1)?].to_str()?);
    let command = Cli::command();
    let is_it = |arg: &&clap::Arg| {
        let (long, short) = (arg.get_long(), arg.get_short());
        long.is_some_and(|long| option == format!("--{long}"))
            || short.is_some_and(|short| option == format!("-{short}"))
    };
    let takes_it = |arg: &&clap::Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    command.get_arguments().find(is_it).filter(takes_it)?;
    if value[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Some(format!("{value} is negative, which the value of {option} cannot be"));
    }
    let joined = if option.starts_with("--") { "=" } else { "" };
    Some(format!("there is no option {name}; if it is the value of {option}, write {option}{joined}{value}"))
}

/// A similar name that begins with another letter is seldom what was meant.
fn first_letter(option: &str) -> Option<char> {
    option.chars().find(|&c| c != '-')
}

/// clap does not say which argument it is.
fn not_utf8(args: &[OsString]) -> String {
    let found = args.iter().find(|arg| arg.to_str().is_none()).map(|arg| excerpt(arg.as_bytes()));
    let found = found.unwrap_or_default();
    format!(
        "{found} is not UTF-8: with -d and -F, write bytes as \\xHH, and in a regular expression as (?-u:\\xHH)"
    )
}

/// The long options that begin with `name`.
fn begun_by(name: &str) -> Vec<String> {
    let Some(name) = name.strip_prefix("--") else { return Vec::new() };
    let command = Cli::command();
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    longs.filter(|long| long.starts_with(name)).map(|long| format!("--{long}")).collect()
}

fn one_line(text: &str) -> String {
    // Paragraphs: the mistake, and perhaps a tip.
    let told = text.split("\n\n").filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let told = told.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let told = told.collect::<Vec<_>>().join("; ");
    format!("{}; try 'throttle --help'", told.strip_prefix("error: ").unwrap_or(&told))
}
