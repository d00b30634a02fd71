//! The run of `--audit`: every record is judged by the instant at which it says that it was released.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;

use super::input::Input;
use super::listener::Listener;
use crate::audit::{Audit, Violation};
use crate::charge::{Charge, Draft};
use crate::config::{self, Arrivals, Rate};
use crate::exit::Exit;
use crate::records::InOrder;
use crate::source::{Block, Charger, Delimiter, Reader, SourceError, Together};
use crate::time::Time;
use crate::ui::audit::{AuditReport, Form};

/// Records on their way from an input to an audit.
pub(crate) struct Review {
    in_order: InOrder<Option<Box<[Draft]>>>,
    charger: Charger,
    /// The charge of every item, if it is the same.
    uniform: Option<Charge>,
    delimiter: Delimiter,
    audit: Audit,
    form: Form,
}

impl Review {
    /// Judges by `rates`; `arrivals` says where records tell their instants.
    pub(crate) fn new(rates: &[Rate], arrivals: &Arrivals, input: &config::InputOptions) -> Self {
        let separator = input.separator.as_deref();
        let charger = Charger::new(rates, separator).without_bounds();
        Review {
            in_order: InOrder::new(arrivals, separator),
            uniform: charger.uniform().cloned(),
            charger,
            delimiter: Delimiter::new(&input.delimiter),
            audit: Audit::new(rates),
            form: Form::default(),
        }
    }

    /// Keeps what is needed to draw it.
    pub(crate) fn traced(mut self) -> Self {
        self.audit = self.audit.traced();
        self
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Judges all that is read, to the end or until it is to stop. Findings are told whenever the input pauses, and at
    /// once to a terminal.
    ///
    /// # Errors
    /// The input cannot be read or is out of order, a record does not tell its instant or cost, or the report cannot be
    /// written.
    pub(crate) fn run<W: Write>(
        &mut self,
        mut reader: Reader<Input>,
        listener: &mut Listener,
        report: &mut AuditReport<W>,
    ) -> Result<Exit> {
        let result = self.judge_all(&mut reader, listener, report);
        // A stop that has come since the last look counts before the result.
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
        let Review { in_order, charger, uniform, delimiter, audit, form } = self;
        for record in delimiter.split(block.bytes()) {
            let charge = |number, items: &[Cow<[u8]>]| match (&uniform, items) {
                (Some(_), [_]) => Ok(None),
                _ => charge(charger, number, items, delimiter.len()).map(Some),
            };
            in_order.push(record, charge, &mut |at, number, charges| {
                judge(audit, report, *form, (number, at), charges.as_deref(), uniform.as_ref())
            })?;
            *form = Form { is_calendar: in_order.is_calendar(), has_batches: in_order.has_batches() };
        }
        Ok(())
    }

    fn finish<W: Write>(&mut self, report: &mut AuditReport<W>) -> Result<()> {
        let Review { in_order, uniform, audit, form, .. } = self;
        in_order.finish(&mut |at, number, charges: Option<Box<[Draft]>>| {
            judge(audit, report, *form, (number, at), charges.as_deref(), uniform.as_ref())
        })?;
        Ok(report.summary(audit, *form)?)
    }
}

fn charge(charger: &mut Charger, number: u64, items: &[Cow<[u8]>], delimiter: usize) -> Result<Box<[Draft]>> {
    if let [item] = items {
        return Ok(Box::new([charge_item(charger, number, item, delimiter)?]));
    }
    let mut release = Together::default();
    for item in items {
        let draft = charge_item(charger, number, item, delimiter)?;
        release.add(charger, draft);
    }
    Ok(release.charges().into())
}

fn charge_item(charger: &mut Charger, number: u64, item: &[u8], delimiter: usize) -> Result<Draft> {
    let mut draft = Draft::default();
    charger
        .charge_into(item, item.len() + delimiter, &mut draft)
        .map_err(|error| SourceError::Item { record: number, why: error.to_string() })?;
    Ok(draft)
}

/// Without charges of its own, a release is charged as all are.
fn judge<W: Write>(
    audit: &mut Audit,
    report: &mut AuditReport<W>,
    form: Form,
    (number, at): (u64, Time),
    charges: Option<&[Draft]>,
    uniform: Option<&Charge>,
) -> Result<()> {
    let mut told = Ok(());
    let tell = |violation: &Violation| {
        if told.is_ok() {
            told = report.violation(violation, form);
        }
    };
    match (charges, uniform) {
        (Some(charges), _) => {
            let charges = charges.iter().map(|Draft { costs, keys }| (costs.as_slice(), keys.as_slice()));
            audit.judge_together(number, at, charges, tell);
        }
        (None, Some(Charge { costs, keys })) => audit.judge(number, at, costs, keys, tell),
        (None, None) => unreachable!("what is not charged alike has a charge of its own"),
    }
    Ok(told?)
}
