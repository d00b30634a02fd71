//! The run of `--audit`: judges each record by the instant at which it says that it was released.

use std::io::{self, IsTerminal};

use anyhow::Result;

use super::real_world::RealWorld;
use super::world::{Event, Wait, Wake, World};
use crate::audit::{Audit, Violation};
use crate::charge::{Charge, Draft};
use crate::config::{self, Arrivals, Rate, Selector};
use crate::exit::Exit;
use crate::records::{InOrder, Moment};
use crate::source::{Charger, Delimiter, ReleaseCharges, Segment, bad_item};
use crate::time::Time;
use crate::ui::audit::AuditReport;

/// Records on their way from an input to an audit.
pub(crate) struct Review {
    /// Records with their charges; none, if it is the charge of every item.
    in_order: InOrder<Vec<Draft>>,
    charger: Charger,
    /// The charge of every item, if all have the same.
    uniform: Option<Draft>,
    delimiter: Delimiter,
    /// True if some costs are lengths.
    counts_bytes: bool,
    /// If so, the rows with the last item of each log.
    ends: Vec<End>,
    pub(crate) audit: Audit,
}

/// A row with the last item of a log.
struct End {
    /// The log and the number of the item.
    last: (u64, u64),
    row: (Time, u64),
    /// The charges of the row if that item had no delimiter.
    charges: Vec<Draft>,
}

impl Review {
    /// Judges by `rates`; `arrivals` says where records give their instants.
    pub(crate) fn new(rates: &[Rate], arrivals: &Arrivals, input: &config::InputOptions) -> Self {
        let charger = Charger::new(rates, input.separator.as_deref()).without_bounds();
        let draft = |Charge { costs, keys }: &Charge| Draft { costs: costs.to_vec(), keys: keys.to_vec() };
        Review {
            in_order: InOrder::new(arrivals, input),
            uniform: charger.uniform().map(draft),
            charger,
            delimiter: Delimiter::new(&input.delimiter),
            ends: Vec::new(),
            counts_bytes: rates.iter().any(|rate| rate.cost == Some(Selector::Bytes)),
            audit: Audit::new(rates),
        }
    }

    /// Judges all records, until the input ends or the run is to stop. Findings are reported whenever the input pauses,
    /// and at once to a terminal.
    ///
    /// # Errors
    /// The input cannot be read or is out of order, a record does not give its instant or cost, or the report cannot be
    /// written.
    pub(crate) fn run(&mut self, world: &mut RealWorld, report: &mut AuditReport) -> Result<Exit> {
        let (stop, result) = match self.judge_all(world, report) {
            Ok(stop) => (stop, self.finish(report)),
            Err(error) => (None, Err(error)),
        };
        // A stop that has come since events were last looked at takes precedence over the result.
        match stop.or_else(|| world.last_stop()) {
            Some(Exit::READER_GONE) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            Some(exit) => Ok(exit),
            None => result.map(|()| if self.audit.too_early > 0 { Exit::Refused } else { Exit::Done }),
        }
    }

    /// Judges records until the input ends or the run is to stop.
    fn judge_all(&mut self, world: &mut RealWorld, report: &mut AuditReport) -> Result<Option<Exit>> {
        let is_watched = io::stdout().is_terminal();
        let mut until = Some(Time::ZERO);
        loop {
            match world.wait(Wait { until, accepting: true, ..Wait::default() }) {
                Wake::Input(block) => {
                    self.judge_block(&block, report)?;
                    if is_watched {
                        report.flush()?;
                    }
                    until = Some(Time::ZERO);
                }
                Wake::End(None) => return Ok(None),
                Wake::End(Some(error)) => return Err(error),
                Wake::Event(Event::Stop(exit)) => return Ok(Some(exit)),
                Wake::Event(_) => {}
                Wake::Due | Wake::Soon | Wake::Output | Wake::Stalled => {
                    report.flush()?;
                    until = None;
                }
            }
        }
    }

    fn judge_block(&mut self, block: &Segment, report: &mut AuditReport) -> Result<()> {
        let delimiter = self.delimiter.clone();
        for whole in delimiter.split_inclusive(block.bytes()) {
            let record = delimiter.trim(whole);
            let Some(moment) = self.in_order.read(record)? else { continue };
            let ending = whole.len() - record.len();
            let charges = match (&self.uniform, &moment.items[..]) {
                (Some(_), [_]) => Vec::new(),
                _ => charge(&mut self.charger, &moment, ending, ending)?,
            };
            if let Some(last) = moment.last.filter(|_| self.counts_bytes) {
                self.note_end(last, &moment, ending)?;
            }
            self.in_order.put(moment.at, moment.number, charges)?;
            self.judge(report)?;
            report.is_calendar = moment.is_calendar;
            report.has_batches |= moment.items.len() > 1;
        }
        Ok(())
    }

    /// Notes a row if its last item is the last of its log so far.
    fn note_end(&mut self, last: (u64, u64), moment: &Moment, delimiter: usize) -> Result<()> {
        let known = self.ends.last().map(|end| end.last);
        if known.is_none_or(|known| known <= last) {
            self.ends.retain(|end| end.last.0 < last.0 || end.last == last);
            let charges = charge(&mut self.charger, moment, delimiter, 0)?;
            self.ends.push(End { last, row: (moment.at, moment.number), charges });
        }
        Ok(())
    }

    fn finish(&mut self, report: &mut AuditReport) -> Result<()> {
        // A log does not say whether the last item of the input had a delimiter; nothing is called too early for that.
        for End { row: (at, number), charges, .. } in self.ends.drain(..) {
            self.in_order.replace(at, number, charges);
        }
        self.in_order.end();
        self.judge(report)?;
        Ok(report.summary(&self.audit)?)
    }

    /// Judges the records whose turn it is.
    fn judge(&mut self, report: &mut AuditReport) -> Result<()> {
        for (at, number, charges) in self.in_order.by_ref() {
            let charges = if charges.is_empty() { self.uniform.as_slice() } else { &charges };
            let mut told = Ok(());
            let tell = |violation: &Violation| {
                if told.is_ok() {
                    told = report.violation(violation);
                }
            };
            let charges = charges.iter().map(|Draft { costs, keys }| (costs.as_slice(), keys.as_slice()));
            self.audit.judge_together(number, at, charges, tell);
            told?;
        }
        Ok(())
    }
}

/// The charges of a row whose items have delimiters of this length, and the last of them one of the length `last`.
fn charge(charger: &mut Charger, moment: &Moment, delimiter: usize, last: usize) -> Result<Vec<Draft>> {
    let mut release = ReleaseCharges::default();
    for (place, item) in moment.items.iter().enumerate() {
        let mut draft = Draft::default();
        let ending = if place + 1 == moment.items.len() { last } else { delimiter };
        let result = charger.charge_into(item, item.len() + ending, &mut draft);
        result.map_err(|why| bad_item(moment.number, &why))?;
        release.add(charger, draft);
    }
    Ok(release.charges)
}
