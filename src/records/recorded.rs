//! Records with the instants at which they happened: lines with a stamp, and job logs.

use std::borrow::Cow;
use std::fmt::Display;

use anyhow::Result;

use super::json;
use super::row::{LoggedJob, RowItems};
use super::tsv::LogColumns;
use crate::config::{Arrivals, Cleaning, Selector, Separator, lacking};
use crate::printable::{excerpt, quoted};
use crate::source::{Fault, Fields, Stamps, bad_item};
use crate::time::Time;

/// Reads the instant at which each record of an input happened.
pub(super) struct Recorded {
    stamps: Stamps,
    selector: Selector,
    /// Selects the stamp.
    field: Fields,
    /// `None` before the first record, unless a selector was given.
    layout: Option<Layout>,
    /// True if the user said where the stamp is.
    is_told: bool,
    cleaning: Cleaning,
    /// The number of items read so far.
    number: u64,
    /// The number of headers read so far.
    headers: u64,
}

/// Where the stamp and the item of a record are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// The stamp is in the record, and the record is the item.
    Item,
    /// A job log, in columns.
    Table(LogColumns),
    /// A job log, as JSON lines.
    Json,
}

#[derive(Debug)]
pub(crate) struct Moment<'a> {
    /// The number of the record in the input, counted from 1, without headers.
    pub(crate) number: u64,
    pub(crate) at: Time,
    /// True if the stamp was a date and a time, not a number.
    pub(crate) is_calendar: bool,
    /// The items, from which costs and keys are taken.
    pub(crate) items: RowItems<'a>,
    /// In a log of ours, the log and the number of the last item.
    pub(crate) last: Option<(u64, u64)>,
}

/// What a record says: the instant, the items, and in a log of ours, the number of the last one.
type Read<'a> = (Time, RowItems<'a>, Option<u64>);

impl Recorded {
    /// Reads stamps as `arrivals` says. Without `separator`, runs of blanks separate columns.
    pub(super) fn new(arrivals: &Arrivals, separator: Option<&Separator>, cleaning: Cleaning) -> Self {
        let selector = arrivals.selector.clone().unwrap_or(Selector::Column(std::num::NonZero::<usize>::MIN));
        Recorded {
            stamps: Stamps::new(arrivals),
            field: Fields::new([&selector], separator),
            selector,
            layout: arrivals.selector.as_ref().map(|_| Layout::Item),
            is_told: arrivals.selector.is_some(),
            cleaning,
            number: 0,
            headers: 0,
        }
    }

    /// True of a job log, which is in the order in which jobs ended.
    pub(super) fn is_log(&self) -> bool {
        matches!(self.layout, Some(Layout::Table(_) | Layout::Json))
    }

    /// The selector of the stamps, for messages.
    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Reads a record, which is without its delimiter, by its stamp unless it is known to have `arrived` at an instant;
    /// `None` if it is the header of a log, or left out.
    ///
    /// # Errors
    /// The stamp or the item is missing or invalid.
    pub(super) fn read<'a>(&mut self, record: &'a [u8], arrived: Option<Time>) -> Result<Option<Moment<'a>>> {
        self.number += 1;
        let number = self.number;
        if self.cleaning.skips(record) {
            return Ok(None);
        }
        if let Some(at) = arrived {
            let items = RowItems::from_buf([self.cleaning.trim(record).into()]);
            return Ok(Some(Moment { number, at, is_calendar: true, items, last: None }));
        }
        // Logs joined by cat(1) may be of several formats. Their headers are not items.
        if self.layout != Some(Layout::Item) {
            if let Some(columns) = LogColumns::of(record) {
                self.layout = Some(Layout::Table(columns));
                self.number -= 1;
                self.headers += 1;
                return Ok(None);
            }
            if json::is_first(record) {
                self.layout = Some(Layout::Json);
            }
        }
        let layout = *self.layout.get_or_insert(Layout::Item);
        let read = match layout {
            Layout::Table(columns) => self.read_job(columns.job(record)),
            Layout::Json => self.read_job(json::job(record)),
            Layout::Item => self.read_item(self.cleaning.trim(record)),
        };
        let (at, items, last) = read.map_err(|why| bad_item(number, &why))?;
        let last = last.map(|last| (self.headers, last));
        Ok(Some(Moment { number, at, is_calendar: self.stamps.is_calendar(), items, last }))
    }

    fn read_item<'a>(&mut self, record: &'a [u8]) -> Result<Read<'a>, String> {
        let selector = &self.selector;
        let field = self.field.select(record, record.len()).next().flatten();
        let field = field.ok_or_else(|| lacking(selector))?;
        // A stamp may continue in the fields after it.
        let text = match &field {
            Cow::Borrowed(field) => {
                let start = field.as_ptr().addr().checked_sub(record.as_ptr().addr());
                start.and_then(|start| record.get(start..)).unwrap_or(field)
            }
            Cow::Owned(field) => field,
        };
        let at = self.stamps.read(&field, text).map_err(|fault| {
            // What lacks its zone or year is a time.
            let is_elsewhere = !self.is_told && !fault.is_incomplete();
            let elsewhere = "; if it is elsewhere, add --arrivals, as in --arrivals col:4";
            describe(selector, &field, fault, selector) + if is_elsewhere { elsewhere } else { "" }
        })?;
        Ok((at, RowItems::from_buf([record.into()]), None))
    }

    fn read_job<'a>(&mut self, job: Result<LoggedJob<'a>, String>) -> Result<Read<'a>, String> {
        let job = job?;
        let at = self.stamps.read(job.start, job.start);
        let at = at.map_err(|fault| describe(&"the start", job.start, fault, &self.selector))?;
        Ok((at, job.items, job.last))
    }
}

fn describe(what: &dyn Display, field: &[u8], fault: Fault, selector: &Selector) -> String {
    let typed = quoted(&[selector.to_string().into()]);
    format!("{what} is {}, {}", excerpt(field), fault.explain(&typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Vec<Result<(u64, u64, String), String>> {
        let mut recorded = Recorded::new(&Arrivals::default(), None, Cleaning::default());
        let moments = lines.iter().filter_map(|line| match recorded.read(line.as_bytes(), None) {
            Ok(moment) => moment.map(|Moment { number, at, items, .. }| {
                let items: Vec<_> = items.iter().map(|item| String::from_utf8_lossy(item)).collect();
                Ok((number, at.0, items.join("|")))
            }),
            Err(error) => Some(Err(error.to_string())),
        });
        moments.collect()
    }

    #[test]
    fn the_first_field_is_the_stamp_unless_told_otherwise() {
        assert_eq!(read(&["0.5 a b"]), [Ok((1, 500_000_000, "0.5 a b".to_owned()))]);
        let error = read(&["0 a", "x\u{1b} b"]).pop().unwrap().unwrap_err();
        assert!(error.starts_with("item 2: col:1 is $'x\\x1b', not a time"), "{error}");
        assert!(error.ends_with("add --arrivals, as in --arrivals col:4"), "{error}");
    }

    #[test]
    fn logs_of_jobs_are_read_as_they_are() {
        let ours = [
            "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem",
            "2\t1.500000000\t0.0\t0.1\t1\t0\t0\ta b\\tc\\\\\\x41\\u{e9}",
            "3-4,7\t2\t0.0\t0.1\t1\t0\t0\ta\t\tb\\tc",
        ];
        let batch = Ok((2, 2_000_000_000, "a||b\tc".to_owned()));
        assert_eq!(read(&ours), [Ok((1, 1_500_000_000, "a b\tc\\A\u{e9}".to_owned())), batch]);
        let parallel = [
            "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand",
            "1\t:\t1700000000.500\t     0.002\t0\t0\t0\t0\techo 1\tx",
        ];
        assert_eq!(read(&parallel), [Ok((1, 1_700_000_000_500_000_000, "echo 1\tx".to_owned()))]);
        // As by `cut -f 1,2,8`.
        let cut = ["seq\tstart\titem", "2\t1.5\ta b"];
        assert_eq!(read(&cut), [Ok((1, 1_500_000_000, "a b".to_owned()))]);
        assert!(read(&["seq\tstart\tend", "1\t2\t3"])[0].is_err(), "a table of something else");
        // Two logs, joined.
        let numbers: Vec<_> =
            read(&[ours, [ours[0], ours[1], ours[1]]].concat()).into_iter().map(Result::unwrap).collect();
        assert_eq!(numbers.iter().map(|moment| moment.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let json = [r#"{"seq":1,"start":1700000000.123456789,"exit":0,"item":"a\"b\t"}"#];
        assert_eq!(read(&json), [Ok((1, 1_700_000_000_123_456_789, "a\"b\t".to_owned()))]);
        let json = [r#"{"seq":1,"start":2,"exit":0,"items":["a\t",[98],""],"seqs":[1,2,3]}"#];
        assert_eq!(read(&json), [Ok((1, 2_000_000_000, "a\t|b|".to_owned()))]);
        // Logs of all formats, joined.
        let joined = [&json[..], &ours, &json, &parallel, &json].concat();
        let numbers: Vec<_> = read(&joined).into_iter().map(|moment| moment.unwrap().0).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_broken_log_says_so() {
        let header = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem";
        for line in ["1\t2", "1\tx\t0\t0\t0\t0\t0\ta"] {
            assert!(read(&[header, line])[0].as_ref().unwrap_err().starts_with("item 1: "), "{line}");
        }
        assert_eq!(read(&[r#"{"seq":1,"start":2}"#]), [Err("item 1: has no item".to_owned())]);
    }
}
