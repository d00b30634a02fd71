//! A sink whose releases are judged as they happen, to be drawn at the end.

use super::Clock;
use crate::audit::Audit;
use crate::charge::Draft;
use crate::config::{Config, Rate};
use crate::sink::{Flushed, Jobs, Sent, Sink};
use crate::source::{Batch, Capacity, Charger, Delimiter, Together};
use crate::time::{Time, Wall};

/// Another sink, watched.
pub struct Watched<S> {
    sink: S,
    /// What tells when a release was over; without it, releases take no time.
    clock: Option<Clock>,
    /// Limits that go by the calendar are judged by what it shows.
    wall: Wall,
    audit: Audit,
    charger: Charger,
    delimiter: Delimiter,
}

impl<S: Sink> Watched<S> {
    /// Judges by `rates` what goes to `sink`.
    pub fn new(sink: S, config: &Config, rates: &[Rate], clock: Option<Clock>, wall: Wall) -> Self {
        Watched {
            sink,
            clock,
            wall,
            audit: Audit::new(rates).traced(),
            charger: Charger::new(rates, config.input.separator.as_deref()).without_bounds(),
            delimiter: Delimiter::new(&config.input.delimiter),
        }
    }

    /// What was seen.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    fn watch(&mut self, at: Time, batch: &Batch, mut items: u64) {
        let mut records = batch.records(&self.delimiter);
        for size in batch.sizes() {
            if items == 0 {
                return;
            }
            let mut release = Together::default();
            for record in records.by_ref().take(usize::try_from(size).unwrap_or(usize::MAX)) {
                let mut item = Draft::default();
                // What was released has a cost; under limits from before a retry, perhaps none.
                let charged = self.charger.charge_into(self.delimiter.trim(record), record.len(), &mut item);
                if charged.is_ok() {
                    release.add(&self.charger, item);
                }
            }
            items = items.saturating_sub(size);
            self.audit.judge_together(batch.first(), self.wall.shows(at), &release.charges(), |_| {});
        }
    }
}

impl<S: Sink> Sink for Watched<S> {
    fn capacity(&self) -> Capacity {
        self.sink.capacity()
    }

    fn send(&mut self, at: Time, batch: &Batch) -> Sent {
        let sent = self.sink.send(at, batch);
        let end = self.clock.map_or(at, Clock::now);
        match sent {
            Sent::All => self.watch(end, batch, batch.items()),
            Sent::Partly(items, _) => self.watch(end, batch, items),
            Sent::Busy { .. } | Sent::TooLong => {}
        }
        sent
    }

    fn trace(&self, batch: &Batch) -> Option<String> {
        self.sink.trace(batch)
    }

    fn finish(&mut self) -> Flushed {
        self.sink.finish()
    }

    fn jobs(&mut self) -> Option<&mut dyn Jobs> {
        self.sink.jobs()
    }
}
