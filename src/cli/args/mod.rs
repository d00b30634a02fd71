//! The options and their help: each group with what it means on its own.

mod command;
mod control;
mod input;
mod limits;
mod report;
mod state;

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, CommandFactory, FromArgMatches, Id, Parser, ValueHint};

use self::command::CommandArgs;
use self::control::ControlArgs;
use self::input::InputArgs;
use self::limits::LimitArgs;
use self::report::ReportArgs;
use self::state::StateArgs;
use super::packaged;
use crate::config::named;

/// Groups of options that make no sense without what is in their names.
pub(crate) const FOR_ITEMS: &str = "for items";
pub(crate) const FOR_COMMANDS: &str = "for commands";
pub(crate) const FOR_RUNS: &str = "for runs";

const EXAMPLES: &str = "\
Examples:
  cat jobs | throttle -n 10 -p 1m -- curl -fsS    10 requests in any minute
  tail -F log | throttle -r 100/s | nc host 514   at most 100 lines a second

More: throttle help; throttle --help";

/// Rate-limit a pipe, or a command that is run for each item
///
/// Reads items (lines, by default), holds each until every limit admits it, and then writes it to standard output or,
/// given a COMMAND, runs that with the item as its last argument: without a shell, and one at a time unless -j allows
/// more. At least one limit is needed: -n, -p or -r. By default, any window of length P holds at most N releases.
#[derive(Parser, Debug)]
#[command(
    name = "throttle",
    version = packaged::VERSION.as_str(),
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = EXAMPLES,
    hide_possible_values = true,
    infer_long_args = true,
    override_usage = "throttle [OPTIONS] [--] [COMMAND [ARG]...]",
    group = ArgGroup::new(FOR_RUNS).multiple(true),
    term_width = 80
)]
pub struct Cli {
    #[command(flatten, next_help_heading = "Limits")]
    pub(crate) limits: LimitArgs,

    #[command(flatten, next_help_heading = "Limits")]
    pub(crate) state: StateArgs,

    #[command(flatten, next_help_heading = "Input")]
    pub(crate) input: InputArgs,

    #[command(flatten, next_help_heading = "Commands")]
    pub(crate) commands: CommandArgs,

    #[command(flatten, next_help_heading = "Control")]
    pub(crate) control: ControlArgs,

    #[command(flatten, next_help_heading = "Control")]
    pub(crate) report: ReportArgs,

    /// Print help; by topic: throttle help
    #[arg(short, long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,

    /// Print a manual page or a completion, for packages
    #[arg(long, value_name = "WHAT", value_parser = choice(packaged::GENERATED))]
    #[arg(exclusive = true, hide_short_help = true)]
    pub(crate) generate: Option<&'static str>,

    /// Print version, commit and features
    #[arg(short = 'V', long, action = ArgAction::Version)]
    pub(crate) version: Option<bool>,

    /// Run for each item, without a shell
    #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    #[arg(trailing_var_arg = true, hide = true)]
    pub(crate) command: Vec<OsString>,

    /// The options that were typed, by their short names if they have any: `-n`, `--max-wait`.
    #[arg(skip)]
    given: Vec<(String, String)>,

    /// What was typed before the command: the program name, the options, and perhaps `--`.
    #[arg(skip)]
    pub(crate) before: Vec<OsString>,
}

impl Cli {
    pub(crate) fn read(args: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Cli::command();
        let mut matches = command.try_get_matches_from_mut(args)?;
        let is_given = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let option = |id: &Id| command.get_arguments().find(|option| option.get_id() == id).and_then(name);
        let given = command.get_groups().flat_map(|group| {
            let options = group.get_args().filter(is_given).filter_map(option);
            options.map(|option| (group.get_id().to_string(), option))
        });
        let given = given.collect();
        let cli = Cli::from_arg_matches_mut(&mut matches)?;
        let before = args[..args.len() - cli.command.len()].to_vec();
        Ok(Cli { given, before, ..cli })
    }

    /// The first of these options that was given. Each is in a group: that of its struct.
    pub(crate) fn first_given(&self, options: &[&'static str]) -> Option<&'static str> {
        options.iter().copied().find(|option| self.given.iter().any(|(_, given)| given == option))
    }

    /// The command, with its arguments, unless it is after `--`: then it is one whatever it looks like.
    pub(crate) fn unmarked_command(&self) -> &[OsString] {
        if self.before.last().is_some_and(|last| last == "--") { &[] } else { &self.command }
    }

    /// The options of a group that were given.
    pub(crate) fn given(&self, group: &str) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(of, _)| of == group).map(|(_, option)| option.as_str())
    }
}

/// `None` for the command and its arguments.
pub(crate) fn name(option: &Arg) -> Option<String> {
    let long = option.get_long().map(|long| format!("--{long}"));
    option.get_short().map(|short| format!("-{short}")).or(long)
}

fn choice<T: Copy + Send + Sync + 'static>(
    choices: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = choices.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| named(choices, &name))
}
