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
    let texts = || {
        template.args().iter().flatten().filter_map(|piece| match piece {
            Piece::Text(text) => str::from_utf8(text).ok(),
            Piece::Item | Piece::Number | Piece::Selected(_) => None,
        })
    };
    // A shell may expand what stands in its script.
    let has_script = texts().any(|text| text.starts_with('-') && text.ends_with('c'));
    texts().find_map(advice).or_else(|| texts().filter(|_| !has_script).find_map(variable_advice))
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
