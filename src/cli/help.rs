//! Help by topic, a screen each: `throttle help rates`.

use std::ffi::OsString;

use super::Instead;
use crate::rule::{Algorithm, Spec};

/// The topics, the first of which lists the others.
const TOPICS: [(&str, &str); 11] = [
    ("topics", include_str!("help/topics.txt")),
    ("rates", include_str!("help/rates.txt")),
    ("algorithms", include_str!("help/algorithms.txt")),
    ("keys", include_str!("help/keys.txt")),
    ("input", include_str!("help/input.txt")),
    ("commands", include_str!("help/commands.txt")),
    ("failures", include_str!("help/failures.txt")),
    ("shared", include_str!("help/shared.txt")),
    ("reports", include_str!("help/reports.txt")),
    ("signals", include_str!("help/signals.txt")),
    ("exit", include_str!("help/exit.txt")),
];

/// The help that was asked for. A command named `help` comes after a limit, so it is not mistaken for this.
pub(super) fn asked(args: &[OsString]) -> Option<Instead> {
    let first = args.get(1)?;
    let named = match (first.to_str()?, args.get(2)) {
        ("help", None) => "topics",
        ("help" | "--help", Some(topic)) => topic.to_str()?,
        _ => return None,
    };
    match find(named) {
        Some(text) => Some(Instead::Help(fill_in(text))),
        // Anything may follow --help.
        None if first == "--help" => None,
        None => {
            let known = topics().collect::<Vec<_>>().join(", ");
            let see = about(named).map_or_else(String::new, |topic| format!("see throttle help {topic}; "));
            Some(Instead::Mistake(format!("there is no help on '{named}': {see}the topics are {known}")))
        }
    }
}

/// The help topics.
pub fn topics() -> impl Iterator<Item = &'static str> {
    TOPICS[1..].iter().map(|(name, _)| *name)
}

/// The text on a topic, which may be shortened as long as it is unique.
fn find(topic: &str) -> Option<&'static str> {
    let mut found = TOPICS.iter().filter(|(name, _)| !topic.is_empty() && name.starts_with(topic));
    found.next().filter(|_| found.next().is_none()).map(|(_, text)| *text)
}

/// The topic whose text has this word most often, in the singular.
fn about(word: &str) -> Option<&'static str> {
    let word = word.strip_suffix('s').unwrap_or(word);
    if word.len() < 3 {
        return None;
    }
    let texts = TOPICS[1..].iter().map(|(name, text)| (text.matches(word).count(), *name));
    let (_, topic) = texts.rev().max_by_key(|(count, _)| *count).filter(|(count, _)| *count > 0)?;
    Some(topic)
}

/// Fills in the names and the help of the rules.
fn fill_in(text: &str) -> String {
    let rule = |spec: &Spec| format!("  {:<11}{}\n", spec.name, spec.help.replace('\n', "\n             "));
    let rules: String = Algorithm::ALL.map(|algorithm| rule(algorithm.spec())).concat();
    text.replace("{rules}\n", &rules).replace("{algorithms}", &algorithms())
}

/// The names of the rules, as in a sentence: `a, b or c`.
fn algorithms() -> String {
    let [first @ .., last] = &Algorithm::names();
    format!("{} or {last}", first.join(", "))
}

pub(super) fn on_algorithm() -> String {
    let default = Algorithm::default().to_string();
    algorithms().replace(&default, &format!("{default} (default)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_fits_on_a_screen_and_is_listed() {
        for (name, text) in TOPICS.map(|(name, text)| (name, fill_in(text))) {
            assert!(text.lines().count() <= 23, "{name}: {} lines", text.lines().count());
            let long = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{name}");
            assert!(name == "topics" || TOPICS[0].1.contains(&format!("help {name}")), "{name}");
        }
    }
}
