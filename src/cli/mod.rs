//! The command line. Only this module knows clap.

mod args;
mod command;
mod foreign;
mod help;
mod meaning;
mod misplaced;
mod once;
mod packaged;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::Error;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

pub use self::args::Cli;
pub use self::help::topics;
use crate::config::{Config, Upkeep};
use crate::printable::excerpt;

/// Something to do instead of a run.
#[derive(Debug)]
pub enum Instead {
    /// The text that was asked for: help, the version, a page.
    Help(String),
    /// Upkeep of the state of shared limits.
    State(Upkeep),
    /// A mistake, on one line that says how to correct it.
    Mistake(String),
}

/// Reads a command line. The first of `args` is the program name.
///
/// # Errors
/// A mistake in it, or something else to do, which is not an error.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Config, Instead> {
    let args: Vec<_> = args.into_iter().collect();
    if let Some(help) = help::asked(&args) {
        return Err(help);
    }
    // -s alone lists the states.
    let args = match &args[..] {
        [_, alone] if alone == "-s" || alone == "--state" => vec![args[0].clone(), "--status".into()],
        _ => args,
    };
    let cli = Cli::read(&args).map_err(|error| usage(&error, &args))?;
    let options = &args[1..args.len() - cli.command.len()];
    let advice = options.iter().find_map(|option| long_with_one_hyphen(option.to_str()?));
    if let Some(advice) = advice.or_else(|| foreign::source_advice(&args)) {
        return Err(Instead::Mistake(advice));
    }
    if let Some(text) = cli.generate {
        return Err(Instead::Help(text.to_owned()));
    }
    let mistake = |error: Error| Instead::Mistake(format!("{error:#}"));
    check_command(&cli, &args).map_err(mistake)?;
    if let Some(upkeep) = cli.upkeep().map_err(mistake)? {
        return Err(Instead::State(upkeep));
    }
    let is_marked = options.last().is_some_and(|option| option == "--");
    let hint = misplaced::options(&cli.command).filter(|_| !is_marked);
    let mut config = cli.config().map_err(mistake)?;
    config.hints.extend(hint);
    Ok(config)
}

/// Words after `--` are a command whatever they look like, except a shell line in quotes.
fn check_command(cli: &Cli, args: &[OsString]) -> Result<(), Error> {
    command::check_line(&cli.command, cli.commands.placeholder.as_deref(), cli.commands.pipe)?;
    command::check_function(&cli.command)?;
    let (before, operands) = args.split_at(args.len() - cli.command.len());
    if let Some((option, command)) = before.last().zip(operands.first()) {
        command::check_value(option, command)?;
        command::check_duration(before, command)?;
    }
    let is_marked = before.last().is_some_and(|arg| arg == "--");
    operands.first().filter(|_| !is_marked).map_or(Ok(()), |name| command::check(name))
}

/// A message of clap; a mistake on one line.
fn usage(error: &clap::Error, args: &[OsString]) -> Instead {
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
        _ => format!("there is no option {name}; try 'throttle --help'"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Options that may stand beside `--once`, or need something that it refuses.
    const ONCE: &str = "--once -n -p -r -A -b --margin --jitter -s --store-timeout --reset-state --set-limits --status \
        --json --hold --max-wait --backoff -t --log-format --resume --at -v -q -h --generate -V";

    /// Options that may stand beside `--audit`, or are refused by a check.
    const AUDIT: &str = "-n -p -r -A -b -c -K --margin --jitter -s --store-timeout --json -a -0 -d -F --csv \
        --max-record --trim --skip-blank --backoff --once --max-wait --until --audit --arrivals --unsorted \
        --log-format --resume -v -q --stats --plot -h --generate -V";

    #[test]
    fn options_that_need_something_else_are_options() {
        let command = Cli::command();
        let names: Vec<_> = command.get_arguments().filter_map(args::name).collect();
        for options in [meaning::FOR_COMMANDS, once::FOR_ITEMS, once::FOR_RUNS] {
            for option in options.split(' ') {
                assert!(names.iter().any(|name| name == option), "{option}");
            }
        }
    }

    #[test]
    fn each_option_is_refused_by_an_audit_or_means_something_to_it() {
        let command = Cli::command();
        let audit = command.get_arguments().find(|arg| arg.get_id() == "audit").expect("--audit");
        let refused = command.get_arg_conflicts_with(audit).into_iter().filter_map(args::name);
        let known = [meaning::FOR_COMMANDS, AUDIT].into_iter().flat_map(|options| options.split(' '));
        let known: Vec<_> = refused.chain(known.map(str::to_owned)).collect();
        for option in command.get_arguments().filter_map(args::name) {
            assert!(
                known.contains(&option),
                "{option}: let it conflict with audit in cli/args/control.rs, or add it to AUDIT here"
            );
        }
    }

    #[test]
    fn each_option_is_refused_by_once_or_means_something_to_it() {
        let known =
            [once::FOR_ITEMS, once::FOR_RUNS, ONCE].map(|options| options.split(' ')).into_iter().flatten();
        let known: Vec<_> = known.collect();
        for option in Cli::command().get_arguments().filter_map(args::name) {
            assert!(known.contains(&&*option), "{option}: refuse it in cli/once.rs, or add it to ONCE here");
        }
    }
}
