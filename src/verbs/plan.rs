//! `--dry-run`: the instant at which each item would be released, computed at once.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::drawing::{Drawing, after_drawing};
use super::{Setup, done};
use crate::config::{Arrivals, Feed, Until};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::records::stamped;
use crate::runtime::sim::{Sim, SimClock};
use crate::runtime::{Driver, World};
use crate::schedule::Schedule;
use crate::sink::{Commands, DryRun, Expander, Stdout};
use crate::source::{Capacity, Delimiter};
use crate::time::{Time, shown};

/// Prints the instant at which each item would be released if it arrives as `arrivals` say, or else at once. The wall
/// clock starts at `at`.
pub(crate) fn plan(setup: Setup, arrivals: Option<&Arrivals>, at: Option<Time>) -> Result<Exit> {
    setup.check_no_pause("the dry run would never end")?;
    let Setup { config, rates, reader, reporter, .. } = setup;
    let delimiter = Delimiter::of(&config.input);
    let stamped: Box<dyn Iterator<Item = _>> = match arrivals {
        None => Box::new(reader),
        Some(arrivals) => Box::new(stamped(reader, arrivals, &config.input)),
    };
    let mut world = Sim::new(SimClock::default(), stamped);
    ensure!(at.is_none() || !world.is_dated(), "--arrivals give the date and the time: leave out --at");
    if !world.is_dated() {
        world.set_wall(at.unwrap_or_else(shown));
    }
    let has_date = arrivals.is_none() || at.is_some() || world.is_dated();
    let wall = has_date.then(|| world.wall());
    let by_date = matches!(config.queue.until, Some(Until::At(_) | Until::Next(_)));
    ensure!(has_date || !by_date, "--arrivals have no date to compare with --until: add --at TIME");
    let interrupt = Arc::new(Interrupt::for_this_thread());
    let capacity =
        config.command.as_ref().map_or(Capacity::UNLIMITED, |run| Commands::capacity_of(run, &delimiter));
    let on_line = config.command.as_ref().filter(|run| run.stdin != Feed::Items);
    let expander = on_line.map(|run| Expander::new(run.template.clone(), &config.input));
    let end_of_line = if expander.is_some() { Delimiter::new(b"\n") } else { delimiter.clone() };
    let stdout = Stdout::new(end_of_line, Arc::clone(&interrupt));
    let mut sink = DryRun::new(stdout, delimiter, capacity, expander);
    let mut schedule = Schedule::new(config, rates.clone(), world.now(), world.wall());
    done(config)?.into_iter().for_each(|done| schedule.skip(done));
    let drawing = Drawing::begin(config, &rates, world.wall(), &mut schedule);
    let exit = Driver::new(&mut world, &mut sink, &reporter).run(&mut schedule);
    reporter.dry_summary(&schedule, world.now(), exit, wall);
    let drawn = drawing.map_or(Ok(()), |drawing| drawing.draw(interrupt));
    let exit = after_drawing(exit, None, drawn).unwrap_or_else(|error| reporter.end_by(&error));
    reporter.json(&schedule, world.now(), exit);
    Ok(exit)
}
