//! `--audit`: finds releases that were too early.

use std::io::{self, Seek, Write};

use super::Setup;
use super::drawing::after_drawing;
use crate::config::{Arrivals, CountFrom, Report, check_auditable};
use crate::exit::Exit;
use crate::output::Target;
use crate::printable::escaped_json;
use crate::runtime::{Clock, RealWorld, Review, World};
use crate::sink::{Stdout, TextWriter};
use crate::source::Delimiter;
use crate::time::Time;
use crate::ui::audit::{AuditReport, json as audit_json};
use crate::ui::{plot, stderr};
use anyhow::{Context, Error, Result};
use tempfile::tempfile;

/// Judges releases at the instants that `arrivals` selects. If these do not count from 1970, the wall clock shows `at`
/// at 0.
pub(crate) fn audit(mut setup: Setup, arrivals: &Arrivals, at: Option<Time>) -> Result<Exit> {
    setup.check_no_pause("there is nothing to audit")?;
    check_auditable(&setup.rates, false)?;
    // No record says how many commands were running.
    setup.rates.retain(|rate| rate.from != CountFrom::Running);
    let Setup { config, rates, reader, position, reporter, .. } = setup;
    let mut review = Review::new(&rates, arrivals, &config.input, at);
    if config.plot.is_some() {
        review.audit = review.audit.traced();
    }
    let mut world = RealWorld::start(reader, Clock::start())?;
    if arrivals.is_now || config.report != Report::Quiet {
        world.watch_reader()?;
    }
    let target = if arrivals.is_now { Target::Stderr } else { Target::Stdout };
    let out = TextWriter { target, interrupt: world.interrupt() };
    // Findings about items that are passed on come at the end, however many there are.
    let kept = arrivals.is_now.then(tempfile).transpose().context("cannot create a temporary file")?;
    let findings: Box<dyn Write> = match &kept {
        Some(kept) => Box::new(kept.try_clone()?),
        None => Box::new(out.clone()),
    };
    let mut report = AuditReport::new(config.report, findings);
    if arrivals.is_now {
        let delimiter = Delimiter::of(&config.input);
        review = review.passing_on(Stdout::new(delimiter, world.interrupt()).with_header(&config.input));
    }
    let exit = review.run(&mut world, &mut report);
    if let Some(mut kept) = kept {
        report.flush().and_then(|()| kept.rewind())?;
        // A reader that went away wants to know only what was wrong.
        if review.audit.too_early > 0 || !matches!(&exit, Err(error) if is_broken_pipe(error)) {
            io::copy(&mut kept, &mut out.clone())?;
        }
    }
    if position.is_shared() && arrivals.is_now {
        position.advance(config.input.head_length() + review.passed());
    }
    review.told.iter().for_each(|text| reporter.notice(text));
    let exit = exit.and_then(|exit| {
        if exit == Exit::Done && review.audit.releases == 0 {
            reporter.notice(&"no items to audit");
        }
        let drawn = config.plot.as_ref().map_or(Ok(()), |path| plot::draw(&review.audit, path, out));
        let exit = after_drawing(exit, world.last_stop(), drawn)?;
        if config.as_json {
            let json = audit_json(&review.audit, &review.advice.keyless, exit).to_string();
            stderr::print(&format!("{}\n", escaped_json(&json)));
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
