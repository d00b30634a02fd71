//! The completions: templates filled in with the options as they are defined.

use clap::{Arg, ArgAction, CommandFactory, ValueHint};
use throttle::cli::Cli;
use throttle::config::RateText;
use throttle::rule::Algorithm;

const BASH: &str = include_str!("../../../../completions/throttle.bash.in");
const ZSH: &str = include_str!("../../../../completions/_throttle.in");
const FISH: &str = include_str!("../../../../completions/throttle.fish.in");

/// How the value of an option is completed.
enum Value {
    /// The option takes no value.
    Absent,
    /// Not at all.
    Free,
    OneOf(Vec<String>),
    File,
    Rate,
    Cost,
    Key,
    State,
    Halt,
    Stats,
}

fn options() -> Vec<Arg> {
    Cli::command().get_arguments().filter(|arg| !arg.is_positional()).cloned().collect()
}

fn value(arg: &Arg) -> Value {
    let names: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    match arg.get_id().as_str() {
        _ if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) => Value::Absent,
        "rate" => Value::Rate,
        "cost" | "arrivals" => Value::Cost,
        "key" | "tag" => Value::Key,
        "state" => Value::State,
        "halt" => Value::Halt,
        "stats" => Value::Stats,
        _ if !names.is_empty() => Value::OneOf(names),
        _ if arg.get_value_hint() == ValueHint::AnyPath => Value::File,
        _ => Value::Free,
    }
}

fn shorts(arg: &Arg) -> Vec<char> {
    arg.get_short_and_visible_aliases().unwrap_or_default()
}

/// Whether the option takes a value that can be a separate word.
fn takes_word(arg: &Arg) -> bool {
    !matches!(value(arg), Value::Absent) && !arg.is_require_equals_set()
}

fn letters(has_value: bool) -> String {
    options().iter().filter(|arg| takes_word(arg) == has_value).flat_map(shorts).collect()
}

fn valued_longs() -> String {
    let options = options();
    let longs = options.iter().filter(|arg| takes_word(arg)).filter_map(Arg::get_long);
    longs.map(|long| format!("--{long}")).collect::<Vec<_>>().join("|")
}

/// The spellings of the option.
fn spellings(arg: &Arg) -> Vec<String> {
    let shorts = shorts(arg).into_iter().map(|short| format!("-{short}"));
    shorts.chain(arg.get_long().map(|long| format!("--{long}"))).collect()
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

fn fill(template: &str, options: &str) -> String {
    let algorithms = Algorithm::names().to_vec();
    let rate_options = RateText::OPTIONS;
    let is_of_rates = |name: &&str| RateText::OF_RATES.contains(name);
    let running_options: Vec<_> = rate_options.into_iter().filter(|name| !is_of_rates(name)).collect();
    template
        .replace("@ALGORITHMS@", &algorithms.join(" "))
        .replace("@ALGORITHMS_COMMAS@", &algorithms.join(","))
        .replace("@TOPICS@", &throttle::cli::topics().collect::<Vec<_>>().join(" "))
        .replace("@RATE_OPTIONS@", &rate_options.join(" "))
        .replace("@RATE_OPTIONS_COMMAS@", &rate_options.join(","))
        .replace("@RUNNING_OPTIONS@", &running_options.join(" "))
        .replace("@RUNNING_OPTIONS_COMMAS@", &running_options.join(","))
        .replace("@VALUED_LONG@", &valued_longs())
        .replace("@VALUED@", &letters(true))
        .replace("@FLAGS@", &letters(false))
        .replace("@SPECS@\n", options)
}

pub(super) fn bash() -> String {
    let cases = options().into_iter().filter_map(|arg| Some((bash_value(&value(&arg))?, spellings(&arg))));
    let cases = cases.map(|(action, names)| format!("        {}) {action} ;;", names.join(" | ")));
    let all: Vec<_> = options().iter().flat_map(spellings).collect();
    fill(BASH, "")
        .replace("@VALUES@", &cases.collect::<Vec<_>>().join("\n"))
        .replace("@OPTIONS@", &all.join(" "))
}

fn bash_value(value: &Value) -> Option<String> {
    Some(match value {
        Value::Absent | Value::Free => return None,
        Value::OneOf(names) => {
            format!("for name in {}; do candidates+=(\"$before$name\"); done", names.join(" "))
        }
        Value::File => "_throttle_files \"$before\" \"$value\"".to_owned(),
        Value::Rate => "_throttle_rate \"$before\" \"$value\"".to_owned(),
        Value::Cost => "_throttle_selectors \"$before\" cost".to_owned(),
        Value::Key => "_throttle_selectors \"$before\" key".to_owned(),
        Value::State => "_throttle_states \"$before\" \"$value\"".to_owned(),
        Value::Stats => "_throttle_stats \"$before\" \"$value\"".to_owned(),
        Value::Halt => "_throttle_halt \"$before\"".to_owned(),
    })
}

pub(super) fn zsh() -> String {
    let specs: Vec<_> = options().iter().map(|arg| format!("    {} \\\n", zsh_option(arg))).collect();
    fill(ZSH, &specs.concat())
}

fn zsh_option(arg: &Arg) -> String {
    let escape =
        |text: &str| text.replace('\'', r"'\''").replace('[', r"\[").replace(']', r"\]").replace(':', r"\:");
    let names = spellings(arg);
    let with_value = |name: &String| match value(arg) {
        Value::Absent => name.clone(),
        _ if arg.is_require_equals_set() => format!("{name}=-"),
        _ if name.starts_with("--") => format!("{name}="),
        _ => format!("{name}+"),
    };
    let forms: Vec<_> = names.iter().map(with_value).collect();
    let excluded = match arg.get_action() {
        ArgAction::Append => "*".to_owned(),
        _ => format!("({})", names.join(" ")),
    };
    let name = match forms.as_slice() {
        [only] => format!("'{excluded}{only}"),
        _ => format!("'{excluded}'{{{}}}'", forms.join(",")),
    };
    let action = match value(arg) {
        Value::Absent => return format!("{name}[{}]'", escape(&help(arg))),
        Value::Free => " ".to_owned(),
        Value::OneOf(values) => format!("({})", values.join(" ")),
        Value::File => "_files".to_owned(),
        Value::Rate => "_throttle_rate".to_owned(),
        Value::Cost => "_throttle_selector".to_owned(),
        Value::Key => "_throttle_key".to_owned(),
        Value::State => "_throttle_state".to_owned(),
        Value::Halt => "_throttle_halt".to_owned(),
        Value::Stats => "_throttle_stats".to_owned(),
    };
    let what =
        arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
    let colon = if arg.is_require_equals_set() { "::" } else { ":" };
    format!("{name}[{}]{colon}{}:{action}'", escape(&help(arg)), escape(&what))
}

pub(super) fn fish() -> String {
    let specs: Vec<_> = options().iter().map(fish_option).collect();
    fill(FISH, &specs.concat())
}

fn fish_option(arg: &Arg) -> String {
    // fish shows a value followed by a tab without the option's text.
    let untold =
        |names: &[String]| names.iter().map(|name| format!(r"{name}\t")).collect::<Vec<_>>().join(" ");
    let quote = |text: &str| format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"));
    let shorts = shorts(arg).into_iter().map(|short| format!(" -s {short}"));
    let long = arg.get_long().map(|long| format!(" -l {long}"));
    let names: Vec<_> = shorts.chain(long).collect();
    let value = match value(arg) {
        Value::Absent => String::new(),
        Value::Free => " -x".to_owned(),
        Value::OneOf(names) if arg.is_require_equals_set() => format!(" -f -a '{}'", untold(&names)),
        Value::OneOf(names) => format!(" -x -a '{}'", untold(&names)),
        Value::File => " -r -F".to_owned(),
        Value::Rate => " -x -a '(__throttle_rates)'".to_owned(),
        Value::Cost => " -x -a '(__throttle_selectors)'".to_owned(),
        Value::Key if arg.is_require_equals_set() => " -f -a '(__throttle_keys)'".to_owned(),
        Value::Key => " -x -a '(__throttle_keys)'".to_owned(),
        Value::State => " -x -a '(__throttle_states)'".to_owned(),
        Value::Halt => r" -x -a '{soon,now},{fail,success,done}=\t'".to_owned(),
        Value::Stats => " -x -a '(__throttle_stats)'".to_owned(),
    };
    format!(
        "complete -c throttle -n 'not __throttle_in_command'{}{value} -d {}\n",
        names.concat(),
        quote(&help(arg))
    )
}
