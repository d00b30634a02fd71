//! Command lines for items.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::config::{InputOptions, Piece, Template};
use crate::source::{Batch, Delimiter, Fields};

/// Puts items in place of the placeholders of a command line.
pub(crate) struct Expander {
    template: Template,
    fields: Fields,
    delimiter: Delimiter,
}

/// An item with its number and the values selected from it.
type ItemValues<'a> = (u64, &'a [u8], Vec<Option<Cow<'a, [u8]>>>);

impl Expander {
    /// An expander for `template`, with items of `input`.
    pub(crate) fn new(template: Template, input: &InputOptions) -> Self {
        let fields = Fields::new(template.selectors(), input.separator.as_ref());
        Expander { template, fields, delimiter: Delimiter::of(input) }
    }

    /// The command line for a batch: an argument with a placeholder is repeated for each item. `headers` is the path
    /// of the file for headers.
    pub(in crate::sink) fn expand(&self, batch: &Batch, headers: &OsStr) -> Vec<OsString> {
        let items: Vec<ItemValues> = batch
            .numbered(&self.delimiter)
            .map(|(number, record)| {
                let item = self.delimiter.trim(record);
                (number, item, self.fields.select(item, record.len()).collect())
            })
            .collect();
        let mut line = Vec::with_capacity(self.template.args().len() + items.len());
        for arg in self.template.args() {
            match arg.iter().any(Piece::is_of_item) {
                true => line.extend(items.iter().map(|item| fill(arg, headers, item))),
                false => line.push(fill(arg, headers, &ItemValues::default())),
            }
        }
        line
    }
}

fn fill(pieces: &[Piece], headers: &OsStr, (number, item, selected): &ItemValues) -> OsString {
    let mut filled = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => filled.extend_from_slice(text),
            Piece::Item => filled.extend_from_slice(item),
            Piece::Number(width) => filled.extend_from_slice(format!("{number:0width$}").as_bytes()),
            Piece::Headers => filled.extend_from_slice(headers.as_bytes()),
            // It was checked earlier that the item has this part.
            Piece::Selected(index) => {
                selected[*index].iter().for_each(|text| filled.extend_from_slice(text));
            }
        }
    }
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use crate::source::Segment;
    use crate::time::Time;

    #[test]
    fn items_go_where_their_places_are_or_to_the_end() {
        let table: [(&[&str], Option<&str>, &str, &[&str]); 11] = [
            (&["echo", "a"], None, "x y\n", &["echo", "a", "x y"]),
            (&["echo", "{}", "b"], None, "x\n", &["echo", "x", "b"]),
            (&["echo", "-{}={}", "{}"], None, "x\n", &["echo", "-x=x", "x"]),
            (&["echo", "{}"], Some("@"), "x\n", &["echo", "{}", "x"]),
            (&["echo", "a"], None, "1\n2\n", &["echo", "a", "1", "2"]),
            (&["echo", "f{}", "b"], None, "1\n2\n", &["echo", "f1", "f2", "b"]),
            (&["echo", "{col:2}{#:03}", "{bytes}"], None, "1 x\n", &["echo", "x007", "4"]),
            (&["echo", "{col:2}", "{#}"], None, "1 x\n2 y", &["echo", "x", "y", "7", "8"]),
            (&["{col:1}", "", "{.n"], None, "a b\n", &["a", "", "{.n"]),
            (&["curl", "-D{headers}"], None, "1\n2\n", &["curl", "-D/h", "1", "2"]),
            (&["curl", "{headers}{}", "{headers}"], None, "1\n2\n", &["curl", "/h1", "/h2", "/h"]),
        ];
        for (command, placeholder, items, line) in table {
            let command: Vec<_> = command.iter().map(OsString::from).collect();
            let template = Template::new(&command, placeholder.map(OsStr::new));
            let count = items.trim_end().lines().count() as u64;
            let mut batch = Batch::default();
            batch.push(Segment::of(items.as_bytes().to_vec(), count, Time::ZERO).at(7, 0));
            let config = cli::parse(["throttle", "-r1/s"].map(Into::into)).unwrap();
            let expander = Expander::new(template, &config.input);
            assert_eq!(expander.expand(&batch, OsStr::new("/h")), line, "{command:?}");
        }
    }
}
