//! Puts records in the order of their arrivals.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::Result;

use super::recorded::{Moment, Recorded};
use crate::config::{Arrivals, InputOptions, format_duration};
use crate::source::{Delimiter, Reader, Segment, bad_item};
use crate::time::Time;

/// Puts values in the order of the instants of their records: holds each until no earlier one can come.
pub(crate) struct ReorderBuffer<T> {
    recorded: Recorded,
    /// The most nanoseconds by which records may be out of order: in force, and as given.
    slack: u64,
    given: Option<u64>,
    /// A value that need not wait, as records have to be in order.
    ready: Option<(Time, u64, T)>,
    /// By instant and number.
    waiting: BTreeMap<(Time, u64), T>,
    newest: Time,
    /// The instant of the value returned last.
    last: Time,
}

impl<T> ReorderBuffer<T> {
    /// Reads the records of `input` as `arrivals` says.
    pub(crate) fn new(arrivals: &Arrivals, input: &InputOptions) -> Self {
        ReorderBuffer {
            recorded: Recorded::new(arrivals, input.separator.as_ref(), input.cleaning),
            slack: arrivals.unsorted.unwrap_or(0),
            given: arrivals.unsorted,
            ready: None,
            waiting: BTreeMap::new(),
            newest: Time::ZERO,
            last: Time::ZERO,
        }
    }

    /// Reads a record, which is without its delimiter, by its stamp unless it is known to have `arrived` at an instant;
    /// `None` if it is the header of a log, or left out.
    ///
    /// # Errors
    /// The stamp or the item is missing or invalid.
    pub(crate) fn read<'a>(&mut self, record: &'a [u8], arrived: Option<Time>) -> Result<Option<Moment<'a>>> {
        let moment = self.recorded.read(record, arrived)?;
        if self.recorded.is_log() && self.given.is_none() {
            // A job log is in the order of ends, and one job may have run the whole time.
            self.slack = u64::MAX;
        }
        Ok(moment)
    }

    /// Adds the value of the record with this number, which happened at `at`. All values that are due must be taken
    /// before the next is added. Values of one instant keep the order of their numbers.
    ///
    /// # Errors
    /// The record is out of order by more than is allowed: a later value has been returned.
    pub(crate) fn put(&mut self, at: Time, number: u64, value: T) -> Result<()> {
        if at < self.last {
            return Err(bad_item(number, &self.out_of_order(at)));
        }
        self.newest = self.newest.max(at);
        if self.slack == 0 {
            self.ready = Some((at, number, value));
        } else {
            self.waiting.insert((at, number), value);
        }
        Ok(())
    }

    /// Replaces a value that has not been returned yet.
    pub(crate) fn replace(&mut self, at: Time, number: u64, value: T) {
        self.waiting.entry((at, number)).and_modify(|waiting| *waiting = value);
    }

    /// Ends the input: the rest is due.
    pub(crate) fn end(&mut self) {
        self.slack = 0;
    }

    fn pop_waiting(&mut self) -> Option<(Time, u64, T)> {
        let first = self.waiting.first_entry()?;
        let (at, number) = *first.key();
        let is_due = self.newest.0.checked_sub(self.slack).is_some_and(|due| at.0 <= due);
        is_due.then(|| (at, number, first.remove()))
    }

    fn out_of_order(&self, at: Time) -> String {
        let (selector, last) = (self.recorded.selector(), self.last);
        let hint = match self.given {
            None => "or say by how much it is out of order with --unsorted".to_owned(),
            Some(slack) => format!("or raise --unsorted, which is {}", format_duration(slack)),
        };
        format!(
            "arrival {at} is before that of an earlier item, {last}: sort the input by {selector}, {hint}"
        )
    }
}

/// The values that are due, with their instants and numbers.
impl<T> Iterator for ReorderBuffer<T> {
    type Item = (Time, u64, T);

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.ready.take().or_else(|| self.pop_waiting())?;
        self.last = next.0;
        Some(next)
    }
}

/// Makes a segment of each record, with the arrival that the record gives. Records that are left out count as items,
/// and are in the segment of the next one that is not.
pub(crate) fn stamped<R: Read>(
    reader: Reader<R>,
    arrivals: &Arrivals,
    input: &InputOptions,
) -> impl Iterator<Item = Result<Segment>> + use<R> {
    let mut reorder = ReorderBuffer::new(arrivals, input);
    let (delimiter, cleaning) = (Delimiter::of(input), input.cleaning);
    let mut gathered = (Vec::new(), 0);
    reader.map(Some).chain([None]).flat_map(move |read| {
        let mut stamped = Vec::new();
        let segment = |(at, _, (bytes, records))| Ok(Segment::of(bytes, records, at));
        let result = read.transpose().and_then(|read| {
            let Some(read) = read else {
                reorder.end();
                stamped.extend(reorder.by_ref().map(segment));
                return Ok(());
            };
            delimiter.split_inclusive(read.bytes()).try_for_each(|whole| {
                let record = delimiter.trim(whole);
                let moment = reorder.read(record, None)?;
                if moment.is_some() || cleaning.skips(record) {
                    gathered.0.extend_from_slice(whole);
                    gathered.1 += 1;
                }
                if let Some(moment) = moment {
                    reorder.put(moment.at, moment.number, std::mem::take(&mut gathered))?;
                    stamped.extend(reorder.by_ref().map(segment));
                }
                Ok(())
            })
        });
        stamped.extend(result.err().map(Err));
        stamped
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn sorted(slack: u64, instants: &[u64]) -> Result<Vec<u64>, String> {
        let input = cli::parse(["throttle", "-r", "1/s"].map(Into::into)).unwrap().input;
        let arrivals = Arrivals { unsorted: Some(slack), ..Arrivals::default() };
        let (mut order, mut out) = (ReorderBuffer::new(&arrivals, &input), Vec::new());
        for (&at, number) in instants.iter().zip(1..) {
            order.put(Time(at), number, ()).map_err(|error| error.to_string())?;
            out.extend(order.by_ref().map(|(_, number, ())| number));
        }
        order.end();
        out.extend(order.map(|(_, number, ())| number));
        Ok(out)
    }

    #[test]
    fn records_come_in_order_within_the_slack() {
        let late = |slack, instants, last: u64| {
            let error = sorted(slack, instants).unwrap_err();
            assert!(error.contains(&format!("before that of an earlier item, {}:", Time(last))), "{error}");
        };
        assert_eq!(sorted(0, &[1, 2, 2, 3]), Ok(vec![1, 2, 3, 4]));
        late(0, &[1, 3, 2], 3);
        assert_eq!(sorted(1, &[1, 3, 2, 2, 4]), Ok(vec![1, 3, 4, 2, 5]));
        assert_eq!(sorted(1, &[1, 4, 2]), Ok(vec![1, 3, 2]));
        late(1, &[1, 4, 6, 3], 4);
        assert_eq!(sorted(u64::MAX, &[9, 1, 5]), Ok(vec![2, 3, 1]));
    }
}
