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
pub(super) fn warning(template: &Template) -> Option<String> {
    let mut texts = template.args().iter().flatten().filter_map(|piece| match piece {
        Piece::Text(text) => str::from_utf8(text).ok(),
        Piece::Item | Piece::Number | Piece::Selected(_) => None,
    });
    texts.find_map(advice).or_else(|| shell_advice(template.args()))
}

/// Shells, whose first argument after a script is not `$1`.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

/// Advice on `sh -c SCRIPT` whose script gets the item as `$0`, but uses `$1`.
fn shell_advice(args: &[Vec<Piece>]) -> Option<String> {
    let [shell, option, script, item] = args else { return None };
    let [Piece::Item] = item[..] else { return None };
    let shell = text_of(shell)?;
    let script = text_of(script)?;
    let is_shell = shell.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name));
    let uses_first = ["$1", "${1", "$@", "$*"].iter().any(|name| script.contains(name));
    (is_shell && text_of(option)?.ends_with('c') && uses_first && !script.contains("$0")).then(|| {
        let name = shell.rsplit('/').next().unwrap_or(shell);
        format!("the item is $0 of the script, not $1: add a name before it, as in -- {name} -c '...' {name}")
    })
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
