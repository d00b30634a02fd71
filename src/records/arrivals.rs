//! Records with the arrivals that they tell, in the order of these.

use std::borrow::Cow;
use std::io::Read;

use super::recorded::Recorded;
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

    pub(crate) fn is_calendar(&self) -> bool {
        self.recorded.is_calendar()
    }

    pub(crate) fn has_batches(&self) -> bool {
        self.recorded.has_batches()
    }

    /// Takes a record without its delimiter, makes of its items the value to be kept, and calls `each` with those whose
    /// turn it is.
    ///
    /// # Errors
    /// The record does not tell its instant, or is out of order by more than is allowed; or `make` or `each` fail.
    pub(crate) fn push<E: From<SourceError>>(
        &mut self,
        record: &[u8],
        make: impl FnOnce(u64, &[Cow<'_, [u8]>]) -> Result<T, E>,
        each: &mut impl FnMut(Time, u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(moment) = self.recorded.read(record)? else { return Ok(()) };
        if self.recorded.is_log() && self.slack.is_none() {
            // A log is in the order of ends, and one job may have run all the time.
            self.order.set_slack(u64::MAX);
        }
        let value = make(moment.number, &moment.items)?;
        if self.order.passes(moment.at) {
            return each(moment.at, moment.number, value);
        }
        if let Err(last) = self.order.push(moment.at, moment.number, value) {
            let why = self.out_of_order(moment.at, last);
            return Err(SourceError::Item { record: moment.number, why }.into());
        }
        self.pop(false, each)
    }

    /// Calls `each` with the rest, when the input is over.
    ///
    /// # Errors
    /// `each` fails.
    pub(crate) fn finish<E>(
        &mut self,
        each: &mut impl FnMut(Time, u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pop(true, each)
    }

    fn pop<E>(
        &mut self,
        is_over: bool,
        each: &mut impl FnMut(Time, u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((at, number, value)) = self.order.pop(is_over) {
            each(at, number, value)?;
        }
        Ok(())
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
            let mut keep = |at, _, bytes| {
                ready.push_back(Ok(Block::of(bytes, 1, at)));
                Ok(())
            };
            let result = match reader.next() {
                Some(Ok(block)) => delimiter.split_inclusive(block.bytes()).try_for_each(|record| {
                    if skip_blank && is_blank(record) {
                        return Ok(());
                    }
                    in_order.push(delimiter.trim(record), |_, _| Ok(record.to_vec()), &mut keep)
                }),
                Some(Err(error)) => Err(error),
                None => {
                    is_over = true;
                    in_order.finish(&mut keep)
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
