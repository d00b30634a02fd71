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
    texts.find_map(advice)
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
