//! The tag before each line that a command prints.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use super::expander::Expander;
use crate::source::Batch;

/// The tag of an output, if it gets one.
pub(super) type Tag = Option<Rc<[u8]>>;

/// The tag of a batch, as it is printed: what `expander` makes of its items.
pub(super) fn tag(expander: &Expander, batch: &Batch) -> Rc<[u8]> {
    let tags = expander.expand(batch, OsStr::new(""));
    let mut text = tags.iter().map(|tag| tag.as_bytes()).collect::<Vec<_>>().join(&b' ');
    text.push(b'\t');
    text.into()
}

/// Puts a tag before each line of a text that comes in pieces.
pub(super) struct Tagged<'a> {
    tag: Option<&'a [u8]>,
    is_in_line: bool,
}

impl<'a> Tagged<'a> {
    pub(super) fn new(tag: &'a Tag) -> Self {
        Tagged { tag: tag.as_deref(), is_in_line: false }
    }

    /// A piece of the text, tagged.
    pub(super) fn piece<'t>(&mut self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let Some(tag) = self.tag else { return Cow::Borrowed(text) };
        let mut tagged = Vec::with_capacity(text.len() + tag.len());
        let mut rest = text;
        while !rest.is_empty() {
            if !self.is_in_line {
                tagged.extend_from_slice(tag);
            }
            let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
            let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
            tagged.extend_from_slice(line);
            (self.is_in_line, rest) = (end.is_none(), after);
        }
        Cow::Owned(tagged)
    }

    /// The newline, if it is missing at the end: what comes next begins a line.
    pub(super) fn end(&self) -> &'static [u8] {
        if self.is_in_line { b"\n" } else { b"" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_tagged_however_it_is_cut() {
        for (tag, text, expected) in [
            ("t\t", "a\nb\n", "t\ta\nt\tb\n"),
            ("t\t", "\n\na", "t\t\nt\t\nt\ta\n"),
            ("t\t", "", ""),
            ("", "a\nb", "a\nb"),
        ] {
            for cut in 0..=text.len() {
                let tag = Some(tag.as_bytes().into()).filter(|tag: &Rc<[u8]>| !tag.is_empty());
                let mut tagged = Tagged::new(&tag);
                let (front, back) = text.as_bytes().split_at(cut);
                let whole = [tagged.piece(front), tagged.piece(back), tagged.end().into()].concat();
                assert_eq!(whole, expected.as_bytes(), "{text:?} cut at {cut}");
            }
        }
    }
}
