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
    let mut texts = template.args().iter().flatten().filter_map(|piece| match piece {
        Piece::Text(text) => str::from_utf8(text).ok(),
        Piece::Item | Piece::Number | Piece::Selected(_) => None,
    });
    texts.find_map(advice).or_else(|| shell_advice(template.args(), is_batched))
}

/// Shells, whose first argument after a script is not `$1`.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

/// Advice on `sh -c SCRIPT` whose script gets the item as `$0`, but uses `$1`; or gets several, but uses only one.
fn shell_advice(args: &[Vec<Piece>], is_batched: bool) -> Option<String> {
    let [shell, option, script, names @ .., last] = args else { return None };
    let shell = text_of(shell)?.rsplit('/').next()?;
    if !SHELLS.contains(&shell) || !text_of(option)?.ends_with('c') || *last != [Piece::Item] {
        return None;
    }
    let script = text_of(script)?;
    let uses = |parts: &[&str]| parts.iter().any(|part| script.contains(part));
    let (uses_one, uses_all) =
        (uses(&["$1", "${1"]), uses(&["$@", "$*", "${@", "${*", "$2", "${2", "shift", "$#"]));
    match names.len() {
        0 if (uses_one || uses_all) && !uses(&["$0"]) => Some(format!(
            "the item is $0 of the script, not $1: add a name before it, as in -- {shell} -c '...' {shell}"
        )),
        1 if is_batched && uses_one && !uses_all => Some(
            "with -B, $1 is only the first item of a batch: use \"$@\" for all, or for item; do ...; done"
                .to_owned(),
        ),
        _ => None,
    }
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
    // A script has blanks.
    if ["$THROTTLE_", "${THROTTLE_"].iter().any(|name| text.contains(name))
        && !text.contains(char::is_whitespace)
    {
        return Some(format!(
            "{text} is passed on unchanged: a shell expands it, as in -- sh -c 'echo \"{text}\"' sh"
        ));
    }
    let (name, shell) = PARTS.iter().find(|(name, _)| text.contains(name))?;
    Some(format!(
        "{name} is passed on unchanged: for that part of a name, use a shell, as in -- sh -c 'echo \
         \"{shell}\"' sh"
    ))
}
