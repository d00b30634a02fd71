//! Records with the arrivals that they tell, in the order of these.

use std::io::Read;

use super::recorded::{Moment, Recorded};
use super::reorder::ReorderBuffer;
use crate::config::{Arrivals, format_duration};
use crate::source::{Block, Delimiter, Reader, SourceError, is_blank};
use crate::time::Time;

/// Puts values made of records in the order of the instants that the records tell.
pub(crate) struct InOrder<T> {
    recorded: Recorded,
    order: ReorderBuffer<T>,
    /// The slack as it was given, for messages.
    slack: Option<u64>,
}

impl<T> InOrder<T> {
    /// As `arrivals` says, with `separator` between the fields.
    pub(crate) fn new(arrivals: &Arrivals, separator: Option<&[u8]>) -> Self {
        let slack = arrivals.unsorted;
        InOrder {
            recorded: Recorded::new(arrivals, separator),
            order: ReorderBuffer::new(slack.unwrap_or(0)),
            slack,
        }
    }

    /// Reads a record, which is without its delimiter; `None`, if it is the header of a log.
    ///
    /// # Errors
    /// It does not tell its instant.
    pub(crate) fn read<'a>(&mut self, record: &'a [u8]) -> Result<Option<Moment<'a>>, SourceError> {
        let moment = self.recorded.read(record)?;
        if self.recorded.is_log() && self.slack.is_none() {
            // A log is in the order of ends, and one job may have run all the time.
            self.order.set_slack(u64::MAX);
        }
        Ok(moment)
    }

    /// Puts what was made of the record with this number, which happened at `at`, in its place. All whose turn it is
    /// have to be taken before the next.
    ///
    /// # Errors
    /// It is out of order by more than is allowed.
    pub(crate) fn put(&mut self, at: Time, number: u64, value: T) -> Result<(), SourceError> {
        self.order
            .push(at, number, value)
            .map_err(|last| SourceError::Item { record: number, why: self.out_of_order(at, last) })
    }

    /// The input is over: the rest has its turn.
    pub(crate) fn end(&mut self) {
        self.order.set_slack(0);
    }

    fn out_of_order(&self, at: Time, last: Time) -> String {
        let selector = self.recorded.selector();
        let hint = match self.slack {
            None => "or say by how much it is out of order with --unsorted".to_owned(),
            Some(slack) => format!("or raise --unsorted, which is {}", format_duration(slack)),
        };
        format!(
            "arrival {at} is before that of an earlier item, {last}: sort the input by {selector}, {hint}"
        )
    }
}

/// Those whose turn it is, with their instants and numbers.
impl<T> Iterator for InOrder<T> {
    type Item = (Time, u64, T);

    fn next(&mut self) -> Option<Self::Item> {
        self.order.pop()
    }
}

/// Makes a block of each record, which arrives when the record says; with `skip_blank`, of none that is blank.
pub(crate) fn stamped<R: Read>(
    mut reader: Reader<R>,
    delimiter: Delimiter,
    arrivals: &Arrivals,
    separator: Option<&[u8]>,
    skip_blank: bool,
) -> impl Iterator<Item = Result<Block, SourceError>> + use<R> {
    let mut in_order = InOrder::new(arrivals, separator);
    let mut ready = std::collections::VecDeque::new();
    let mut is_over = false;
    std::iter::from_fn(move || {
        while ready.is_empty() && !is_over {
            let block = |(at, _, bytes)| Ok(Block::of(bytes, 1, at));
            let result = match reader.next() {
                Some(Ok(read)) => delimiter.split_inclusive(read.bytes()).try_for_each(|record| {
                    if skip_blank && is_blank(record) {
                        return Ok(());
                    }
                    if let Some(moment) = in_order.read(delimiter.trim(record))? {
                        in_order.put(moment.at, moment.number, record.to_vec())?;
                        ready.extend(in_order.by_ref().map(block));
                    }
                    Ok(())
                }),
                Some(Err(error)) => Err(error),
                None => {
                    is_over = true;
                    in_order.end();
                    ready.extend(in_order.by_ref().map(block));
                    Ok(())
                }
            };
            if let Err(error) = result {
                is_over = true;
                ready.push_back(Err(error));
            }
        }
        ready.pop_front()
    })
}
