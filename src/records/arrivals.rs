//! Records with the arrivals that they tell, in the order of these.

use std::collections::VecDeque;
use std::io::Read;

use super::recorded::{Moment, Recorded};
use super::reorder::ReorderBuffer;
use crate::config::{Arrivals, InputOptions, format_duration};
use crate::source::{Block, Delimiter, Reader, SourceError};
use crate::time::Time;

/// Puts values made of records in the order of the instants that the records tell.
pub(crate) struct InOrder<T> {
    recorded: Recorded,
    order: ReorderBuffer<T>,
    /// The slack as it was given, for messages.
    slack: Option<u64>,
}

impl<T> InOrder<T> {
    /// For the records of `input`, which `arrivals` says how to read.
    pub(crate) fn new(arrivals: &Arrivals, input: &InputOptions) -> Self {
        let slack = arrivals.unsorted;
        InOrder {
            recorded: Recorded::new(arrivals, input.separator.as_deref(), input.cleaning),
            order: ReorderBuffer::new(slack.unwrap_or(0)),
            slack,
        }
    }

    /// Reads a record, which is without its delimiter; `None`, if it is the header of a log, or left out.
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

/// Makes a block of each record, which arrives when the record says. Those that are left out before it, which count as
/// items, are in its block.
pub(crate) fn stamped<R: Read>(
    mut reader: Reader<R>,
    arrivals: &Arrivals,
    input: &InputOptions,
) -> impl Iterator<Item = Result<Block, SourceError>> + use<R> {
    let mut in_order = InOrder::new(arrivals, input);
    let (delimiter, cleaning) = (Delimiter::new(&input.delimiter), input.cleaning);
    let (mut gathered, mut ready) = ((Vec::new(), 0), VecDeque::new());
    let mut is_over = false;
    std::iter::from_fn(move || {
        while ready.is_empty() && !is_over {
            let block = |(at, _, (bytes, records))| Ok(Block::of(bytes, records, at));
            let result = match reader.next() {
                Some(Ok(read)) => delimiter.split_inclusive(read.bytes()).try_for_each(|whole| {
                    let record = delimiter.trim(whole);
                    let moment = in_order.read(record)?;
                    if moment.is_some() || cleaning.skips(record) {
                        gathered.0.extend_from_slice(whole);
                        gathered.1 += 1;
                    }
                    if let Some(moment) = moment {
                        in_order.put(moment.at, moment.number, std::mem::take(&mut gathered))?;
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
