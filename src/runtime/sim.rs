//! The simulated world: a clock that jumps to whatever is waited for.
//!
//! It is what `--dry-run` runs on, and the tests.

use std::cell::Cell;
use std::io::Read;
use std::iter::Peekable;
use std::rc::Rc;

use super::world::{Wait, Wake, World};
use crate::config::{Selector, parse_decimal};
use crate::source::{Block, Delimiter, Extractor, Reader, SourceError};
use crate::time::Time;

/// A clock that stands still until it is set.
#[derive(Clone, Debug, Default)]
pub struct Clock(Rc<Cell<Time>>);

impl Clock {
    /// What it shows.
    pub fn now(&self) -> Time {
        self.0.get()
    }

    /// Sets it to `at`, unless it is later already.
    pub fn reach(&self, at: Time) {
        self.0.set(self.now().max(at));
    }
}

/// A world with arrivals that are known in advance.
pub struct Sim<I: Iterator<Item = Result<Block, SourceError>>> {
    clock: Clock,
    arrivals: Peekable<I>,
    ended: bool,
}

impl<I: Iterator<Item = Result<Block, SourceError>>> Sim<I> {
    /// A world that starts with its first arrival, or at `clock` if that is later.
    pub fn new(clock: Clock, arrivals: I) -> Self {
        let mut arrivals = arrivals.peekable();
        if let Some(Ok(first)) = arrivals.peek() {
            clock.reach(first.arrival());
        }
        Sim { clock, arrivals, ended: false }
    }

    /// What arrives by `until`, or at all.
    fn arrival(&mut self, until: Option<Time>) -> Option<Wake> {
        let is_due = |block: &Block| until.is_none_or(|until| block.arrival() <= until);
        match self.arrivals.next_if(|next| next.as_ref().map_or(true, is_due)) {
            Some(Ok(block)) => {
                self.clock.reach(block.arrival());
                Some(Wake::Input(block))
            }
            Some(Err(error)) => Some(self.end(Some(error))),
            None if self.arrivals.peek().is_none() => Some(self.end(None)),
            None => None,
        }
    }

    fn end(&mut self, error: Option<SourceError>) -> Wake {
        self.ended = true;
        Wake::End(error)
    }
}

impl<I: Iterator<Item = Result<Block, SourceError>>> World for Sim<I> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        let until = wait.until.map(|until| until.max(self.now()));
        if wait.accepting
            && !self.ended
            && let Some(wake) = self.arrival(until)
        {
            return wake;
        }
        let Some(until) = until else { return Wake::Stalled };
        self.clock.reach(until);
        Wake::Due
    }
}

/// Each record on its own, arrived when it says in the part that `selector` selects.
pub fn stamped<R: Read>(
    reader: Reader<R>,
    delimiter: Delimiter,
    selector: Selector,
    separator: Option<&[u8]>,
    skip_blank: bool,
) -> impl Iterator<Item = Result<Block, SourceError>> + use<R> {
    let extractor = Extractor::new(&selector, separator);
    let records = reader.flat_map(move |block| split(block, &delimiter));
    let (mut number, mut previous) = (0, Time::ZERO);
    records.map(move |record| {
        let (bytes, trimmed) = record?;
        number += 1;
        if skip_blank && bytes.trim_ascii().is_empty() {
            return Ok(Block::of(bytes, 1, previous));
        }
        let arrival = arrival(&bytes[..trimmed], &extractor, &selector, previous);
        previous = arrival.map_err(|why| SourceError::Item { record: number, why })?;
        Ok(Block::of(bytes, 1, previous))
    })
}

/// The records of a block, each with its length without delimiter.
fn split(
    block: Result<Block, SourceError>,
    delimiter: &Delimiter,
) -> Vec<Result<(Vec<u8>, usize), SourceError>> {
    match block {
        Ok(block) => {
            let records = delimiter.split_inclusive(block.bytes());
            records.map(|record| Ok((record.to_vec(), delimiter.trim(record).len()))).collect()
        }
        Err(error) => vec![Err(error)],
    }
}

fn arrival(
    record: &[u8],
    extractor: &Extractor,
    selector: &Selector,
    previous: Time,
) -> Result<Time, String> {
    let field = extractor.select(record, record.len()).ok_or_else(|| format!("has no {selector}"))?;
    let shown = field.escape_ascii();
    let arrival = str::from_utf8(&field).ok().and_then(parse_seconds);
    let arrival =
        arrival.ok_or_else(|| format!("{selector} is '{shown}', not seconds with up to 9 decimals"))?;
    if arrival < previous {
        return Err(format!(
            "arrival {arrival} is before the one before it, {previous}: sort the input by {selector}"
        ));
    }
    Ok(arrival)
}

/// Seconds with up to nine decimals.
fn parse_seconds(text: &str) -> Option<Time> {
    let (digits, decimals) = parse_decimal(text).ok()?;
    let nanos = digits.checked_mul(10u128.pow(9u32.checked_sub(decimals)?))?;
    u64::try_from(nanos).ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_decimal_seconds() {
        let table = [
            ("0", Some(0)),
            ("1.5", Some(1_500_000_000)),
            ("1700000000.000000001", Some(1_700_000_000_000_000_001)),
            ("0.0000000001", None),
            ("-1", None),
            ("x", None),
            ("18446744073.709551616", None),
        ];
        for (text, nanos) in table {
            assert_eq!(parse_seconds(text), nanos.map(Time), "{text}");
        }
    }
}
