//! Limits in a place where they are not options of ours.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;
use super::command::is_found;
use crate::config::{RateText, parse_duration, parse_limit_count};
use crate::printable::quoted;

/// Why there is no limit, and what to do.
pub(super) fn no_limit(command: &[OsString], jobs: Option<NonZeroUsize>) -> String {
    // As for xargs, the number of running commands may be all that matters.
    let other = jobs.map_or("throttle -h lists options".to_owned(), |jobs| {
        format!("for a limit on running commands only, -r {jobs}/running")
    });
    let add = || format!("add one, such as -n 10 -p 1m or -r 10/s; {other}");
    format!("no limit given: {}", after(command).unwrap_or_else(add))
}

/// A limit among the arguments of the command.
fn after(command: &[OsString]) -> Option<String> {
    // Only after -- may a command look like an option.
    if command.first()?.as_bytes().starts_with(b"-") {
        return Some(format!(
            "{} is after --, where COMMAND belongs: put options before --",
            quoted(command)
        ));
    }
    let (mut limits, mut others) = (Vec::new(), command.to_vec());
    let mut at = 1;
    while at < others.len() {
        match words_of_limit(&others[at..]) {
            0 => at += 1,
            words => limits.extend(others.drain(at..at + words)),
        }
    }
    let (limits, others) = (quoted(&limits), quoted(&others));
    let told =
        format!("{limits} is after the command, so it belongs to the command: write {limits} -- {others}");
    (!limits.is_empty()).then_some(told)
}

/// The number of words in the limit that `words` begin with; 0 if there is none.
fn words_of_limit(words: &[OsString]) -> usize {
    let Some(first) = words.first().and_then(|word| word.to_str()) else { return 0 };
    let second = words.get(1).and_then(|word| word.to_str());
    let options: [(_, _, fn(&str) -> bool); 3] = [
        ("-n", "--count", |text| parse_limit_count(text).is_ok()),
        ("-p", "--period", |text| parse_duration(text).is_ok()),
        ("-r", "--rate", |text| text.parse::<RateText>().is_ok()),
    ];
    for (short, long, is_valid) in options {
        if first == short || first == long {
            return if second.is_some_and(is_valid) { 2 } else { 0 };
        }
        let attached = first.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        if attached.or_else(|| first.strip_prefix(short)).is_some_and(is_valid) {
            return 1;
        }
    }
    0
}

/// Long options that hardly any other program has.
const ONLY_OURS: &str = "--arrivals --in-order --lookahead --max-hold --max-record --on-bad --on-limit \
                         --reset-state --skip-blank --store-timeout";

/// A hint at options of ours among the arguments of the command: if there is no such command, any of them, otherwise
/// only those that are hardly meant for it.
pub(super) fn options(cli: &Cli) -> Option<String> {
    let (name, args) = cli.unmarked_command().split_first()?;
    let exists = is_found(name) || Path::new(name).exists();
    // They may be meant for a throttle that the command runs.
    let is_nested = Path::new(name).ends_with("throttle");
    let is_end = |arg: &OsString| is_nested || arg == "--" || Path::new(arg).ends_with("throttle");
    let args = &args[..args.iter().position(is_end).unwrap_or(args.len())];
    let is_rate = |arg: &str, at: usize| {
        (arg.starts_with("-r") || arg.starts_with("--rate")) && words_of_limit(&args[at..]) > 0
    };
    let option = args.iter().enumerate().find(|(at, arg)| match arg.to_str() {
        Some(arg) if exists => is_rate(arg, *at) || ONLY_OURS.split(' ').any(|ours| is_long(arg, ours)),
        Some(arg) => is_ours(arg),
        None => false,
    });
    let option = quoted(std::slice::from_ref(option?.1));
    Some(format!(
        "{option} is after the command, so it belongs to the command: options of throttle go before it"
    ))
}

fn is_long(typed: &str, option: &str) -> bool {
    typed.split('=').next() == Some(option)
}

/// Reports whether it is an option of ours, perhaps with a value attached to it.
fn is_ours(typed: &str) -> bool {
    let Some(short) = typed.strip_prefix('-').and_then(|rest| rest.chars().next()) else { return false };
    Cli::command().get_arguments().any(|option| match typed.strip_prefix("--") {
        Some(_) => option.get_long().is_some_and(|long| is_long(typed, &format!("--{long}"))),
        None => option.get_short_and_visible_aliases().is_some_and(|shorts| shorts.contains(&short)),
    })
}
