//! Placeholders of GNU parallel that are not supported here, and variables that only a shell expands.

use super::template::{Piece, Template};

/// Parts of a file name, and how a shell writes them.
const PARTS: [(&str, &str); 4] = [
    ("{.}", "${1%.*}"),
    ("{/}", "${1##*/}"),
    ("{//}", "$(dirname \"$1\")"),
    ("{/.}", "$(basename \"$1\" .EXT)"),
];

/// Warns about the first of them in a command, which receives it as plain text.
pub(super) fn warning(template: &Template, is_batched: bool) -> Option<String> {
    let args = template.args();
    let texts = || {
        args.iter().flatten().filter_map(|piece| match piece {
            Piece::Text(text) => str::from_utf8(text).ok(),
            Piece::Item | Piece::Number | Piece::Selected(_) => None,
        })
    };
    let variable = || texts().filter(|_| !runs_shell(args)).find_map(variable_advice);
    texts().find_map(advice).or_else(variable).or_else(|| script_advice(args, is_batched))
}

/// Shells, whose first argument after a script is not `$1`.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

fn is_shell(arg: &[Piece]) -> bool {
    text_of(arg).and_then(|path| path.rsplit('/').next()).is_some_and(|name| SHELLS.contains(&name))
}

/// True for `-c` and what contains it, such as `-ec`.
fn takes_script(arg: &[Piece]) -> bool {
    text_of(arg).is_some_and(|option| option.starts_with('-') && option.ends_with('c'))
}

/// True if a shell runs a script, also behind another program, such as `env`.
fn runs_shell(args: &[Vec<Piece>]) -> bool {
    args.windows(2).any(|pair| is_shell(&pair[0]) && takes_script(&pair[1]))
}

/// Advice on `sh -c SCRIPT` whose script gets the item as `$0`, but uses `$1`; or gets several, but uses only one.
fn script_advice(args: &[Vec<Piece>], is_batched: bool) -> Option<String> {
    let [shell, option, script, names @ .., last] = args else { return None };
    if !is_shell(shell) || !takes_script(option) || *last != [Piece::Item] {
        return None;
    }
    let script = text_of(script)?;
    let has = |parts: &[&str]| parts.iter().any(|part| script.contains(part));
    // Functions and `set` have arguments of their own.
    if has(&["()", "function ", "set "]) {
        return None;
    }
    let expanded = expanded(script);
    let uses = |parts: &[&str]| parts.iter().any(|part| expanded.contains(part));
    let (one, several) = (["$1", "${1"], ["$@", "$*", "${@", "${*", "$2", "${2", "$#"]);
    match names.len() {
        0 if (uses(&one) || uses(&several)) && !has(&["$0", "${0"]) => {
            let shell = text_of(shell)?;
            Some(format!(
                "the item is $0 of the script, not $1: add a name before it, as in -- {shell} -c '...' {shell}"
            ))
        }
        1 if is_batched && uses(&one) && !has(&several) && !has(&["shift", "for "]) => Some(
            "with -B, $1 is only the first item of a batch: use \"$@\" for all, or for item; do ...; done"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The parts of a script in which a shell expands variables: not those in single quotes or after a backslash, which may
/// be for awk.
fn expanded(script: &str) -> String {
    let (mut text, mut chars, mut is_quoted) = (String::new(), script.chars(), false);
    while let Some(char) = chars.next() {
        match char {
            '\\' => _ = chars.next(),
            '\'' if !is_quoted => _ = chars.by_ref().find(|char| *char == '\''),
            _ => {
                // The quotes of a command substitution are its own.
                is_quoted = (is_quoted ^ (char == '"')) && !(char == '(' && text.ends_with('$'));
                text.push(char);
            }
        }
    }
    text
}

fn text_of(arg: &[Piece]) -> Option<&str> {
    match arg {
        [Piece::Text(text)] => str::from_utf8(text).ok(),
        _ => None,
    }
}

fn advice(text: &str) -> Option<String> {
    let column = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if let Some(column) = column.filter(|column| column.parse::<u32>().is_ok()) {
        return Some(format!(
            "{text} is passed on unchanged: for a field of the item, write {{col:{column}}}"
        ));
    }
    let (name, shell) = PARTS.iter().find(|(name, _)| text.contains(name))?;
    Some(format!(
        "{name} is passed on unchanged: for that part of a name, use a shell, as in -- sh -c 'echo \
         \"{shell}\"' sh"
    ))
}

fn variable_advice(text: &str) -> Option<String> {
    let has_variable = ["$THROTTLE_", "${THROTTLE_"].iter().any(|name| text.contains(name));
    // What has blanks is a script for something else.
    (has_variable && !text.contains(char::is_whitespace)).then(|| {
        format!("{text} is passed on unchanged: a shell expands it, as in -- sh -c 'echo \"{text}\"' sh")
    })
}
