//! Limits in a place where they are not options of ours.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;

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
