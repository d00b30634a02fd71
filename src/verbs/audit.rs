//! `--audit`: finds releases that were too early.

use std::io;

use super::Setup;
use super::drawing::after_drawing;
use crate::config::{Arrivals, CountFrom, Report, check_auditable};
use crate::exit::Exit;
use crate::output::Target;
use crate::printable::escaped_json;
use crate::runtime::{Clock, RealWorld, Review};
use crate::sink::TextWriter;
use crate::ui::audit::{AuditReport, json as audit_json};
use crate::ui::{plot, stderr};
use anyhow::{Error, Result};

/// Judges releases at the instants that `arrivals` selects.
pub(crate) fn audit(mut setup: Setup, arrivals: &Arrivals) -> Result<Exit> {
    setup.check_no_pause("there is nothing to audit")?;
    check_auditable(&setup.rates, false)?;
    // No record says how many commands were running.
    setup.rates.retain(|rate| rate.from != CountFrom::Running);
    let Setup { config, rates, reader, reporter, .. } = setup;
    let mut review = Review::new(&rates, arrivals, &config.input);
    if config.plot.is_some() {
        review.audit = review.audit.traced();
    }
    let mut world = RealWorld::start(reader, Clock::start())?;
    if config.report != Report::Quiet {
        world.watch_reader()?;
    }
    let stdout = TextWriter { target: Target::Stdout, interrupt: world.interrupt() };
    let mut report = AuditReport::new(config.report, stdout.clone());
    let exit = review.run(&mut world, &mut report).and_then(|exit| {
        if exit == Exit::Done && review.audit.releases == 0 {
            reporter.notice(&"no items to audit");
        }
        let drawn = config.plot.as_ref().map_or(Ok(()), |path| plot::draw(&review.audit, path, stdout));
        let exit = after_drawing(exit, world.last_stop(), drawn)?;
        if config.as_json {
            let json = audit_json(&review.audit, exit).to_string();
            stderr::tell(&format!("{}\n", escaped_json(&json)));
        }
        Ok(exit)
    });
    match exit {
        Err(error) if is_broken_pipe(&error) => Ok(Exit::READER_GONE),
        exit => exit,
    }
}

fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
