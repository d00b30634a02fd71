//! Advice on items that are not what the options expect: each kind is told once.

use std::mem;
use std::sync::Arc;

use super::{Charger, Fields, Keyless};
use crate::config::{InputOptions, Rate, Selector, Separator, Table, lacking};
use crate::printable::excerpt;

/// The kinds of advice that were not given yet, and the items without a key.
#[expect(clippy::struct_excessive_bools)]
pub(crate) struct Advice {
    /// Items are lines, and none was looked at yet that ends in CR.
    tells_line_end: bool,
    /// The input was not yet checked for a byte order mark.
    looks_for_mark: bool,
    /// The command has these texts in braces, which may be meant for members of JSON or columns of a table; none once
    /// an item was checked.
    members: Vec<Selector>,
    table: Option<Arc<Table>>,
    /// There was no item yet whose columns are cut inside of quotes.
    tells_quotes: bool,
    pub(crate) keyless: Keyless,
    /// The advice on all items together was given.
    has_ended: bool,
}

impl Advice {
    /// `members` are what texts in braces in the command may be meant for.
    pub(crate) fn new(input: &InputOptions, members: &[Selector], rates: &[Rate]) -> Self {
        Advice {
            tells_line_end: input.delimiter == b"\n",
            looks_for_mark: true,
            members: members.to_vec(),
            table: input.separator.as_ref().and_then(Separator::table).cloned(),
            tells_quotes: matches!(input.separator, Some(Separator::Text(_))),
            keyless: Keyless::new(rates),
            has_ended: false,
        }
    }

    /// The keys may be others from now on.
    pub(crate) fn change_limits(&mut self, rates: &[Rate]) {
        self.keyless = Keyless::new(rates);
    }

    /// On text from Windows, before its first item is looked at: it may begin with a byte order mark, which selectors
    /// and commands take for part of the item, or be in UTF-16, which they cannot read. The input has this `beginning`,
    /// if nothing has been taken from it.
    pub(crate) fn on_encoding(&mut self, beginning: Option<&[u8]>, is_read: bool) -> Option<String> {
        if !mem::replace(&mut self.looks_for_mark, false) {
            return None;
        }
        let advice = match beginning.filter(|_| is_read)? {
            [0xef, 0xbb, 0xbf, ..] => {
                "item 1 begins with a byte order mark, which becomes part of it: remove it with tail -c +4"
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                "the items are in UTF-16: convert them with iconv -f UTF-16 -t UTF-8"
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }

    /// On an item that `charger` has just charged. Of `cuts_quotes`, see [`Advice::on_quotes`]. `takes_line_end`: the
    /// command gets a CR at the end of the line, which few expect in an argument.
    pub(crate) fn on_item(
        &mut self,
        item: u64,
        record: &[u8],
        charger: &Charger,
        cuts_quotes: &dyn Fn() -> bool,
        takes_line_end: bool,
    ) -> impl Iterator<Item = String> + use<> {
        let key = self.on_key(charger, item, record);
        let quotes = self.on_quotes(item, record, cuts_quotes);
        let line_end = takes_line_end.then(|| {
            format!(
                "item {item} ends in a carriage return, which COMMAND gets: add --trim, or filter with tr -d '\\r'"
            )
        });
        [key, self.on_member(record), quotes, line_end].into_iter().flatten()
    }

    /// On an item that `charger` has just charged, if it lacks a part that limits go by: all such items have the same
    /// key, so they wait for each other.
    fn on_key(&mut self, charger: &Charger, item: u64, record: &[u8]) -> Option<String> {
        let key = self.keyless.count(charger, item)?;
        let (what, need) = match (key, record.trim_ascii_start().first()?) {
            (Selector::Host, _) => ("has no host".to_owned(), ": URLs need a scheme, such as https://"),
            (Selector::Path(_), first) if !b"{[".contains(first) => {
                ("is no JSON object or array".to_owned(), "")
            }
            _ => (lacking(key), ""),
        };
        let record = excerpt(record);
        Some(format!("item {item} {record} {what}, so key={key} puts it under the empty key{need}"))
    }

    /// On a member or a column of the first item whose name is in braces in the command, without `.` or `col:`.
    fn on_member(&mut self, record: &[u8]) -> Option<String> {
        if self.members.is_empty() {
            return None;
        }
        let members = mem::take(&mut self.members);
        let advice = |typed: &str, what: &str, meant: &str| {
            Some(format!("{{{typed}}} is passed on unchanged: for that {what}, write {{{meant}}}"))
        };
        if let Some(header) = self.table.as_ref().and_then(|table| table.header()) {
            let mut typed = members.iter().map(|member| member.to_string().split_off(1));
            let column = typed.find(|name| header.index(name).is_ok())?;
            return advice(&column, "column", &format!("col:{column}"));
        }
        if !record.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let fields = Fields::new(&members, None);
        let found = fields.select(record, record.len()).position(|part| part.is_some())?;
        let selector = members[found].to_string();
        advice(selector.trim_start_matches('.'), "member of the item", &selector)
    }

    /// On an item of which `cuts` says that a column is looked for without regard to its quotes.
    pub(crate) fn on_quotes(
        &mut self,
        item: u64,
        record: &[u8],
        cuts: impl FnOnce() -> bool,
    ) -> Option<String> {
        if !self.tells_quotes || !cuts() {
            return None;
        }
        self.tells_quotes = false;
        let record = excerpt(record);
        Some(format!(
            "item {item} {record} has a separator inside quotes, where -F cuts it: for CSV, use --csv, or without \
             a header --csv=noheader"
        ))
    }

    /// True for the first line that ends in CR LF, as on Windows.
    pub(crate) fn is_first_line_end(&mut self, record: &[u8]) -> bool {
        self.tells_line_end && record.ends_with(b"\r") && mem::replace(&mut self.tells_line_end, false)
    }

    /// On all items together: limits for a key that never came, which are probably mistakes, if the run
    /// `has_looked_at_all` items; and the number of items without a key.
    pub(crate) fn at_end(&mut self, charger: &Charger, has_looked_at_all: bool) -> Vec<String> {
        if mem::replace(&mut self.has_ended, true) {
            return Vec::new();
        }
        let unmatched = charger.unmatched().filter(|_| has_looked_at_all);
        let unmatched = unmatched.map(|limit| format!("no item matched the limit {limit}"));
        unmatched.chain(self.keyless.told()).collect()
    }
}
