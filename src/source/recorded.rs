//! Records that tell when they happened: lines with a stamp, and logs of jobs.

use std::borrow::Cow;

use memchr::memmem;
use serde_json::Value;

use super::stamp::{Fault, Stamps};
use super::{Extractor, SourceError, excerpt};
use crate::config::{Arrivals, Selector};
use crate::time::Time;

/// Reads when each record of an input happened.
pub(super) struct Recorded {
    stamps: Stamps,
    selector: Selector,
    extractor: Extractor,
    /// How the records are laid out; not known before the first, unless a selector was given.
    layout: Option<Layout>,
    /// The user said where the stamp is.
    is_told: bool,
    /// Records read so far.
    number: u64,
}

/// Where the stamp and the item of a record are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// In the record that is the item.
    Item,
    /// A log of jobs: the columns of the start and of the item.
    Table { start: usize, item: usize, is_ours: bool },
    /// A log of jobs, as JSON lines.
    Json,
}

/// A record that happened.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    /// Its number in the input, counted from 1.
    pub(super) number: u64,
    /// When it happened.
    pub(super) at: Time,
    /// What costs and keys are taken from.
    pub(super) item: Cow<'a, [u8]>,
}

/// What a log of jobs begins with, as JSON lines.
const JSON_START: &[u8] = br#"{"seq":"#;

impl Recorded {
    /// Reads stamps where `arrivals` says; `separator` stands between the fields of a record.
    pub(super) fn new(arrivals: &Arrivals, separator: Option<&[u8]>) -> Self {
        let selector = arrivals.selector.clone().unwrap_or(Selector::Column(std::num::NonZero::<usize>::MIN));
        Recorded {
            stamps: Stamps::new(arrivals.zone.clone(), arrivals.year.map(i64::from)),
            extractor: Extractor::new(&selector, separator),
            selector,
            layout: arrivals.selector.as_ref().map(|_| Layout::Item),
            is_told: arrivals.selector.is_some(),
            number: 0,
        }
    }

    /// Whether stamps are dates and times, not numbers.
    pub(super) fn is_calendar(&self) -> bool {
        self.stamps.is_calendar()
    }

    /// Whether it is a log of jobs, which is in the order of their ends.
    pub(super) fn is_log(&self) -> bool {
        matches!(self.layout, Some(Layout::Table { .. } | Layout::Json))
    }

    /// What the stamps are taken from, for messages.
    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// When `record`, which is without its delimiter, happened; nothing, if it is the header of a log.
    ///
    /// # Errors
    /// It does not say.
    pub(super) fn read<'a>(&mut self, record: &'a [u8]) -> Result<Option<Moment<'a>>, SourceError> {
        self.number += 1;
        let number = self.number;
        if self.layout.is_none() {
            self.layout = Some(Layout::of(record));
            if let Some(Layout::Table { .. }) = self.layout {
                return Ok(None);
            }
        }
        let read = match self.layout {
            Some(Layout::Table { start, item, is_ours }) => self.read_table(record, start, item, is_ours),
            Some(Layout::Json) => self.read_json(record),
            Some(Layout::Item) | None => self.read_item(record).map(|at| (at, Cow::Borrowed(record))),
        };
        match read {
            Ok((at, item)) => Ok(Some(Moment { number, at, item })),
            Err(why) => Err(SourceError::Item { record: number, why }),
        }
    }

    fn read_item(&mut self, record: &[u8]) -> Result<Time, String> {
        let selector = &self.selector;
        let field =
            self.extractor.select(record, record.len()).ok_or_else(|| format!("has no {selector}"))?;
        // A stamp may go on in the fields after it.
        let text = match &field {
            Cow::Borrowed(field) => {
                let start = field.as_ptr().addr().checked_sub(record.as_ptr().addr());
                start.and_then(|start| record.get(start..)).unwrap_or(field)
            }
            Cow::Owned(field) => field,
        };
        let hint =
            if self.is_told { "" } else { "; to say where it is, add --arrivals, as in --arrivals col:4" };
        self.stamps.read(&field, text).map_err(|fault| describe(selector, &field, fault) + hint)
    }

    fn read_table<'a>(
        &mut self,
        record: &'a [u8],
        start: usize,
        item: usize,
        is_ours: bool,
    ) -> Result<(Time, Cow<'a, [u8]>), String> {
        let mut fields = record.splitn(item + 1, |&byte| byte == b'\t').skip(start);
        let (Some(stamp), Some(item)) = (fields.next(), fields.nth(item - start - 1)) else {
            return Err("is no line of the log that its header announces".to_owned());
        };
        let stamp = stamp.trim_ascii();
        let at = self.stamps.read(stamp, stamp).map_err(|fault| describe(&"the start", stamp, fault))?;
        Ok((at, if is_ours { unescape(item) } else { Cow::Borrowed(item) }))
    }

    /// The stamp is read as text: a float would round it.
    fn read_json<'a>(&mut self, record: &'a [u8]) -> Result<(Time, Cow<'a, [u8]>), String> {
        const START: &[u8] = b"\"start\":";
        let from = memmem::find(record, START).ok_or("has no start")? + START.len();
        let length = record[from..].iter().take_while(|byte| !matches!(byte, b',' | b'}')).count();
        let stamp = &record[from..from + length];
        let at = self.stamps.read(stamp, stamp).map_err(|fault| describe(&"the start", stamp, fault))?;
        let item =
            serde_json::from_slice(record).ok().and_then(|mut line: Value| match line["item"].take() {
                Value::String(text) => Some(text.into_bytes()),
                Value::Array(bytes) => bytes.iter().map(|byte| byte.as_u64()?.try_into().ok()).collect(),
                _ => None,
            });
        Ok((at, Cow::Owned(item.ok_or("has no item")?)))
    }
}

impl Layout {
    /// That of the log whose first line this is.
    fn of(record: &[u8]) -> Layout {
        if record.starts_with(JSON_START) && memmem::find(record, b"\"start\":").is_some() {
            return Layout::Json;
        }
        let names: Vec<_> = record.split(|&byte| byte == b'\t').collect();
        let column = |name: &[u8]| names.iter().position(|other| *other == name);
        let is_ours = names[0] == b"seq";
        let columns = match names[0] {
            b"seq" => column(b"start").zip(column(b"item")),
            b"Seq" => column(b"Starttime").zip(column(b"Command")),
            _ => None,
        };
        let columns = columns.filter(|(start, item)| start < item);
        columns.map_or(Layout::Item, |(start, item)| Layout::Table { start, item, is_ours })
    }
}

fn describe(what: &dyn std::fmt::Display, field: &[u8], fault: Fault) -> String {
    format!("{what} is '{}', {fault}", excerpt(field))
}

/// An item as it was before it was written to a log: `\t`, `\n`, `\r`, `\\`, `\xff` and `\u{1b}` stand for one character.
fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut item, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, tail)) = rest.split_first() {
        let (bytes, tail) = if byte == b'\\' { escape(tail) } else { (None, tail) };
        match bytes {
            Some(bytes) => item.extend_from_slice(&bytes),
            None => item.push(byte),
        }
        rest = tail;
    }
    Cow::Owned(item)
}

/// What the text after a backslash stands for, and what follows it.
fn escape(text: &[u8]) -> (Option<Vec<u8>>, &[u8]) {
    let hex = |digits: &[u8]| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let read = match text {
        [b't', rest @ ..] => Some((vec![b'\t'], rest)),
        [b'n', rest @ ..] => Some((vec![b'\n'], rest)),
        [b'r', rest @ ..] => Some((vec![b'\r'], rest)),
        [b'\\', rest @ ..] => Some((vec![b'\\'], rest)),
        [b'x', high, low, rest @ ..] => {
            hex(&[*high, *low]).and_then(|byte| u8::try_from(byte).ok()).map(|byte| (vec![byte], rest))
        }
        [b'u', b'{', rest @ ..] => rest.iter().position(|&byte| byte == b'}').and_then(|end| {
            let c = hex(&rest[..end]).and_then(char::from_u32)?;
            Some((c.to_string().into_bytes(), &rest[end + 1..]))
        }),
        _ => None,
    };
    read.map_or((None, text), |(bytes, rest)| (Some(bytes), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Vec<Result<(u64, u64, String), String>> {
        let mut recorded = Recorded::new(&Arrivals::default(), None);
        let moments = lines.iter().filter_map(|line| match recorded.read(line.as_bytes()) {
            Ok(moment) => moment
                .map(|Moment { number, at, item }| Ok((number, at.0, String::from_utf8_lossy(&item).into()))),
            Err(error) => Some(Err(error.to_string())),
        });
        moments.collect()
    }

    #[test]
    fn the_first_field_is_the_stamp_unless_told_otherwise() {
        assert_eq!(read(&["0.5 a b"]), [Ok((1, 500_000_000, "0.5 a b".to_owned()))]);
        let error = read(&["0 a", "x\u{1b} b"]).pop().unwrap().unwrap_err();
        assert!(error.starts_with("item 2: col:1 is 'x\\x1b', not a time"), "{error}");
        assert!(error.ends_with("add --arrivals, as in --arrivals col:4"), "{error}");
    }

    #[test]
    fn logs_of_jobs_are_read_as_they_are() {
        let ours = [
            "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem",
            "2\t1.500000000\t0.0\t0.1\t1\t0\t0\ta b\\tc\\\\\\x41\\u{e9}",
        ];
        assert_eq!(read(&ours), [Ok((2, 1_500_000_000, "a b\tc\\A\u{e9}".to_owned()))]);
        let parallel = [
            "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand",
            "1\t:\t1700000000.500\t     0.002\t0\t0\t0\t0\techo 1\tx",
        ];
        assert_eq!(read(&parallel), [Ok((2, 1_700_000_000_500_000_000, "echo 1\tx".to_owned()))]);
        let json = [r#"{"seq":1,"start":1700000000.123456789,"exit":0,"item":"a\"b\t"}"#];
        assert_eq!(read(&json), [Ok((1, 1_700_000_000_123_456_789, "a\"b\t".to_owned()))]);
    }

    #[test]
    fn a_broken_log_says_so() {
        let header = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem";
        for line in ["1\t2", "1\tx\t0\t0\t0\t0\t0\ta"] {
            assert!(read(&[header, line])[0].as_ref().unwrap_err().starts_with("item 2: "), "{line}");
        }
    }
}
