//! The command line. Only this module knows clap.

mod advice;
mod args;
mod command;
mod foreign;
mod help;
mod meaning;
mod misplaced;
mod once;
mod packaged;

use std::ffi::OsString;

use anyhow::Error;

pub use self::args::Cli;
pub use self::help::topics;
use crate::config::{Config, Upkeep};

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
    let cli = Cli::read(&args).map_err(|error| advice::on_error(&error, &args))?;
    if let Some(advice) = advice::on(&cli) {
        return Err(Instead::Mistake(advice));
    }
    let hint = misplaced::options(&cli);
    if let Some(text) = cli.generate {
        return Err(Instead::Help(text.to_owned()));
    }
    let mistake = |error: Error| Instead::Mistake(format!("{error:#}"));
    if let Some(upkeep) = cli.upkeep().map_err(mistake)? {
        return Err(Instead::State(upkeep));
    }
    let mut config = cli.config().map_err(mistake)?;
    config.hints.extend(hint);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use clap::{ArgGroup, CommandFactory};

    use super::args::{FOR_COMMANDS, FOR_ITEMS, FOR_RUNS, name};
    use super::*;

    /// Options that may stand beside `--once`, or need something that it refuses.
    const ONCE: &str = "--once -n -p -r -A -b --margin --jitter -s --store-timeout --reset-state --set-limits --status \
        --json --hold --max-wait -t -v -q -h --generate -V";

    /// Options that may stand beside `--audit`, or are refused by a check.
    const AUDIT: &str = "-n -p -r -A -b -c -K --margin --jitter -s --store-timeout --json -a -0 -d -F --csv \
        --max-record --trim --skip-blank --once --max-wait --until --audit --arrivals --at --unsorted \
        -v -q --stats --plot -h --generate -V";

    /// Fails unless each option is in one of these groups or known otherwise.
    fn assert_known(groups: &[&str], known: impl Fn(&str) -> bool, advice: &str) {
        let mut command = Cli::command();
        command.build();
        let grouped = command.get_groups().filter(|group| groups.contains(&group.get_id().as_str()));
        let grouped: Vec<_> = grouped.flat_map(ArgGroup::get_args).collect();
        for option in command.get_arguments().filter(|option| !grouped.contains(&option.get_id())) {
            assert!(name(option).is_none_or(|name| known(&name)), "{option}: {advice}");
        }
    }

    #[test]
    fn each_option_is_refused_by_an_audit_or_means_something_to_it() {
        let command = Cli::command();
        let audit = command.get_arguments().find(|arg| arg.get_id() == "audit").expect("--audit");
        let refused: Vec<_> = command.get_arg_conflicts_with(audit).into_iter().filter_map(name).collect();
        let known = |option: &str| {
            AUDIT.split(' ').any(|known| known == option) || refused.iter().any(|it| it == option)
        };
        let advice = "let it conflict with audit in cli/args/control.rs, or add it to AUDIT here";
        assert_known(&[FOR_COMMANDS], known, advice);
    }

    #[test]
    fn each_option_is_refused_by_once_or_means_something_to_it() {
        let known = |option: &str| ONCE.split(' ').any(|known| known == option);
        let advice = "add it to a group that cli/once.rs refuses, or to ONCE here";
        assert_known(&[FOR_ITEMS, FOR_COMMANDS, FOR_RUNS], known, advice);
    }
}
