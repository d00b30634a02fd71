//! Placeholders of GNU parallel that are not supported here, mistyped selectors, and what only a shell expands.

use std::path::Path;

use super::command::{RetryOn, Run};
use super::selector::Selector;
use super::template::{Piece, Template};

const PART: &str = "that part of a name";

/// What parallel has, what that stands for, and how a shell writes it.
const PLACEHOLDERS: [(&str, &str, &str); 5] = [
    ("{.}", PART, "${1%.*}"),
    ("{/}", PART, "${1##*/}"),
    ("{//}", PART, "$(dirname \"$1\")"),
    ("{/.}", PART, "$(basename \"$1\" .EXT)"),
    ("{%}", "the job slot", "$THROTTLE_SLOT"),
];

/// How selectors begin that cannot be anything else.
const SELECTORS: [&str; 2] = ["{col:", "{re:"];

/// Warns about the first of them in a command, which receives it as plain text.
pub(super) fn warning(template: &Template) -> Option<String> {
    let texts = || texts(template);
    // A shell may expand what stands in its script.
    let has_script = texts().any(|text| text.starts_with('-') && text.ends_with('c'));
    texts().find_map(advice).or_else(|| texts().filter(|_| !has_script).find_map(variable_advice))
}

/// Warns if answers are to be retried by their HTTP status, or rates are found by it (`has_range`), but the command
/// tells of none.
pub(super) fn headers_warning(run: &Run, has_range: bool) -> Option<String> {
    let asks = |on: &RetryOn| !matches!(on, RetryOn::Exit(_));
    let listed = run.retry.backoff.as_ref().map_or(&[][..], |backoff| &backoff.on);
    let option = match &run.template.args()[0][..] {
        [Piece::Text(name)] if name.ends_with(b"curl") => "-D {headers}",
        [Piece::Text(name)] if name.ends_with(b"wget") => "-S -o {headers}",
        _ => return None,
    };
    let who = match listed.iter().any(asks) {
        true => "--backoff",
        // An exit status that is listed tells of a server that throttles, too.
        false if has_range && listed.is_empty() => "LOW..HIGH",
        false => return None,
    };
    (!run.template.takes_headers())
        .then(|| format!("{who} never sees an HTTP status, as COMMAND passes on none: add {option}"))
}

/// Warns about a place for an item in a command that gets its items on standard input, unless it fills places itself.
pub(super) fn pipe_warning(template: &Template) -> Option<String> {
    let command: Vec<_> = template.args().iter().map(|arg| template.typed(arg)).collect();
    let fills = ["xargs", "parallel", "find"].iter().any(|name| Path::new(&command[0]).ends_with(name));
    let place = Template::sole_place(&command).filter(|_| !fills)?;
    Some(format!("{place} is passed on unchanged: with --pipe, COMMAND gets its items on standard input"))
}

fn texts(template: &Template) -> impl Iterator<Item = &str> {
    template.args().iter().flatten().filter_map(|piece| match piece {
        Piece::Text(text) => str::from_utf8(text).ok(),
        _ => None,
    })
}

/// The paths whose names are in braces in a command, without the dot: `{user.id}` may be meant for `{.user.id}`.
pub(crate) fn members(template: &Template) -> Vec<Selector> {
    texts(template).flat_map(|text| text.split('{').zip(text.split('{').skip(1))).filter_map(member).collect()
}

/// The path at the start of what follows a brace.
fn member((before, after): (&str, &str)) -> Option<Selector> {
    let (name, _) = after.split_once('}')?;
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    // `${name}` is a shell variable.
    let may_be = !before.ends_with('$') && name.split('.').all(is_name);
    Selector::parse_part(&format!(".{name}")).ok().filter(|_| may_be)
}

fn advice(text: &str) -> Option<String> {
    let column = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if let Some(column) = column.filter(|column| column.parse::<u32>().is_ok()) {
        return Some(format!(
            "{text} is passed on unchanged: for a field of the item, write {{col:{column}}}"
        ));
    }
    if let Some((name, what, shell)) = PLACEHOLDERS.iter().find(|(name, ..)| text.contains(name)) {
        return Some(format!(
            "{name} is passed on unchanged: for {what}, use a shell, as in -- sh -c 'echo \"{shell}\"' sh"
        ));
    }
    let of_selector = || SELECTORS.iter().find_map(|start| selector_advice(text, text.find(start)?));
    width_advice(text).or_else(of_selector)
}

/// Says how to write a number of the item with another width.
fn width_advice(text: &str) -> Option<String> {
    let (before, after) = text.split_once("{#:")?;
    let (width, _) =
        after.split_once('}').filter(|(width, _)| !before.ends_with('$') && width.parse::<u32>().is_ok())?;
    Some(format!(
        "{{#:{width}}} is passed on unchanged: write {{#:04}} for at least 4 digits, and so on up to 020"
    ))
}

/// Says what is wrong with the selector in braces at the index `at`.
fn selector_advice(text: &str, at: usize) -> Option<String> {
    // `${col:0:1}` is a shell variable.
    let inner = (!text[..at].ends_with('$')).then(|| &text[at + 1..])?;
    // A regular expression may contain braces.
    let inner = &inner[..if inner.starts_with("re:") { inner.rfind('}') } else { inner.find('}') }?];
    let error = Selector::parse_part(inner).err()?;
    Some(format!("{{{inner}}} is passed on unchanged: {error}"))
}

fn variable_advice(text: &str) -> Option<String> {
    let has_variable = ["$THROTTLE_", "${THROTTLE_"].iter().any(|name| text.contains(name));
    // What has blanks is a script for something else.
    (has_variable && !text.contains(char::is_whitespace)).then(|| {
        format!("{text} is passed on unchanged: a shell expands it, as in -- sh -c 'echo \"{text}\"' sh")
    })
}
