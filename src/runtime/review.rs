//! The run of `--audit`: every record is judged by when it says that it was released.

use std::io::{Read, Write};

use anyhow::{Error, Result};

use crate::audit::Audit;
use crate::charge::{Draft, Key};
use crate::config::{Arrivals, Input, Rate};
use crate::exit::Exit;
use crate::source::{Charger, Delimiter, InOrder, Reader, SourceError};
use crate::time::Time;
use crate::ui::audit::AuditReport;

/// Records on their way from an input to an audit.
pub struct Review {
    in_order: InOrder<Option<Box<Draft>>>,
    charger: Charger,
    delimiter: Delimiter,
    audit: Audit,
}

impl Review {
    /// Judges by `rates`; `arrivals` says where instants are.
    pub fn new(rates: &[Rate], arrivals: &Arrivals, input: &Input) -> Self {
        let separator = input.separator.as_deref();
        Review {
            in_order: InOrder::new(arrivals, separator),
            charger: Charger::new(rates, separator).without_bounds(),
            delimiter: Delimiter::new(&input.delimiter),
            audit: Audit::new(rates),
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

    /// Judges all that is read.
    ///
    /// # Errors
    /// The input cannot be read or is out of order, a record does not tell its instant or cost, or the report cannot be
    /// written.
    pub fn run<R: Read, W: Write>(&mut self, reader: Reader<R>, report: &mut AuditReport<W>) -> Result<Exit> {
        let Review { in_order, charger, delimiter, audit } = self;
        let uniform = charger.uniform().cloned();
        let mut judge = |is_calendar, at, number, draft: Option<Box<Draft>>| {
            let (costs, keys) = match (&draft, &uniform) {
                (Some(draft), _) => (draft.costs.as_slice(), draft.keys.as_slice()),
                (None, Some(charge)) => (&*charge.costs, &*charge.keys),
                (None, None) => unreachable!("what is not charged alike has a charge of its own"),
            };
            judge(audit, report, is_calendar, (number, at), costs, keys)
        };
        let mut charge = |number, item: &[u8]| {
            if uniform.is_some() {
                return Ok(None);
            }
            let mut draft = Box::<Draft>::default();
            let charged = charger.charge_into(item, item.len() + delimiter.len(), &mut draft);
            charged.map_err(|error| SourceError::Item { record: number, why: error.to_string() })?;
            Ok::<_, Error>(Some(draft))
        };
        let mut is_calendar = false;
        for block in reader {
            for record in delimiter.split(block?.bytes()) {
                in_order.push(record, &mut charge, &mut |at, number, draft| {
                    judge(is_calendar, at, number, draft)
                })?;
                is_calendar = in_order.is_calendar();
            }
        }
        in_order.finish(&mut |at, number, draft| judge(is_calendar, at, number, draft))?;
        report.summary(audit, is_calendar)?;
        Ok(if audit.too_early() > 0 { Exit::Refused } else { Exit::Done })
    }
}

fn judge<W: Write>(
    audit: &mut Audit,
    report: &mut AuditReport<W>,
    is_calendar: bool,
    (number, at): (u64, Time),
    costs: &[u64],
    keys: &[Key],
) -> Result<()> {
    let mut told = Ok(());
    audit.judge(number, at, costs, keys, |violation| {
        if told.is_ok() {
            told = report.violation(violation, is_calendar);
        }
    });
    Ok(told?)
}
