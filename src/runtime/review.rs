//! The run of `--audit`: every record is judged by when it says that it was released.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;

use super::input::Input;
use super::listener::Listener;
use crate::audit::Audit;
use crate::charge::{Charge, Draft};
use crate::config::{self, Arrivals, Rate};
use crate::exit::Exit;
use crate::records::InOrder;
use crate::source::{Block, Charger, Delimiter, Reader, SourceError};
use crate::time::Time;
use crate::ui::audit::AuditReport;

/// Records on their way from an input to an audit.
pub struct Review {
    in_order: InOrder<Option<Box<Draft>>>,
    charger: Charger,
    /// What all cost, if that is the same.
    uniform: Option<Charge>,
    delimiter: Delimiter,
    audit: Audit,
    /// Stamps are dates and times, not numbers.
    is_calendar: bool,
}

impl Review {
    /// Judges by `rates`; `arrivals` says where instants are.
    pub fn new(rates: &[Rate], arrivals: &Arrivals, input: &config::InputOptions) -> Self {
        let separator = input.separator.as_deref();
        let charger = Charger::new(rates, separator).without_bounds();
        Review {
            in_order: InOrder::new(arrivals, separator),
            uniform: charger.uniform().cloned(),
            charger,
            delimiter: Delimiter::new(&input.delimiter),
            audit: Audit::new(rates),
            is_calendar: false,
        }
    }

    /// Keeps what is needed to draw it.
    pub fn traced(mut self) -> Self {
        self.audit = self.audit.traced();
        self
    }

    /// What was found.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Judges all that is read, to the end or until it is to stop. What is found is told whenever the input pauses, and
    /// at once to a terminal.
    ///
    /// # Errors
    /// The input cannot be read or is out of order, a record does not tell its instant or cost, or the report cannot be
    /// written.
    pub fn run<W: Write>(
        &mut self,
        mut reader: Reader<Input>,
        listener: &mut Listener,
        report: &mut AuditReport<W>,
    ) -> Result<Exit> {
        let result = self.judge_all(&mut reader, listener, report);
        // What it was about to tell may not have been read.
        match listener.stopped()? {
            Some(exit) => Ok(exit),
            None => result.map(|()| if self.audit.too_early() > 0 { Exit::Refused } else { Exit::Done }),
        }
    }

    fn judge_all<W: Write>(
        &mut self,
        reader: &mut Reader<Input>,
        listener: &mut Listener,
        report: &mut AuditReport<W>,
    ) -> Result<()> {
        let is_watched = io::stdout().is_terminal();
        while !reader.is_over() && listener.stopped()?.is_none() {
            if reader.is_waiting() && !listener.wait(reader.input(), Some(Duration::ZERO)) {
                report.flush()?;
                listener.wait(reader.input(), None);
            } else if let Some(block) = reader.read_once()? {
                self.judge_block(&block, report)?;
                if is_watched {
                    report.flush()?;
                }
            }
        }
        self.finish(report)
    }

    fn judge_block<W: Write>(&mut self, block: &Block, report: &mut AuditReport<W>) -> Result<()> {
        let Review { in_order, charger, uniform, delimiter, audit, is_calendar } = self;
        for record in delimiter.split(block.bytes()) {
            let charge = |number, item: &[u8]| match uniform {
                Some(_) => Ok(None),
                None => charge(charger, number, item, delimiter.len()).map(Some),
            };
            in_order.push(record, charge, &mut |at, number, draft| {
                judge(audit, report, *is_calendar, (number, at), draft.as_deref(), uniform.as_ref())
            })?;
            *is_calendar = in_order.is_calendar();
        }
        Ok(())
    }

    fn finish<W: Write>(&mut self, report: &mut AuditReport<W>) -> Result<()> {
        let Review { in_order, uniform, audit, is_calendar, .. } = self;
        in_order.finish(&mut |at, number, draft: Option<Box<Draft>>| {
            judge(audit, report, *is_calendar, (number, at), draft.as_deref(), uniform.as_ref())
        })?;
        Ok(report.summary(audit, *is_calendar)?)
    }
}

fn charge(charger: &mut Charger, number: u64, item: &[u8], delimiter: usize) -> Result<Box<Draft>> {
    let mut draft = Box::<Draft>::default();
    charger
        .charge_into(item, item.len() + delimiter, &mut draft)
        .map_err(|error| SourceError::Item { record: number, why: error.to_string() })?;
    Ok(draft)
}

fn judge<W: Write>(
    audit: &mut Audit,
    report: &mut AuditReport<W>,
    is_calendar: bool,
    (number, at): (u64, Time),
    draft: Option<&Draft>,
    uniform: Option<&Charge>,
) -> Result<()> {
    let (costs, keys) = match (draft, uniform) {
        (Some(draft), _) => (draft.costs.as_slice(), draft.keys.as_slice()),
        (None, Some(charge)) => (&*charge.costs, &*charge.keys),
        (None, None) => unreachable!("what is not charged alike has a charge of its own"),
    };
    let mut told = Ok(());
    audit.judge(number, at, costs, keys, |violation| {
        if told.is_ok() {
            told = report.violation(violation, is_calendar);
        }
    });
    Ok(told?)
}
