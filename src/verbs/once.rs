//! `--once`: waits for one release, then becomes a command.

use std::env;
use std::ffi::OsString;

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::run::{open, share, shared_among};
use crate::config::{Once, Rate, Selector};
use crate::exit::Exit;
use crate::printable::quoted;
use crate::runtime::{Clock, Driver, RealWorld, World};
use crate::schedule::Schedule;
use crate::sink::{PermitSink, exec};
use crate::store::{Answer, Order, Store, StoreError, Warn};
use crate::ui::stderr;

/// Waits until the limits admit a release, and charges it. Returns only if there is no command, if it could not be run,
/// or if there was no release.
pub(crate) fn once(setup: Setup, once: &Once) -> Result<Exit> {
    let Setup { config, files, rates, reader, reporter, .. } = setup;
    let reporter = reporter.with_explanation();
    let clock = if config.shared.is_some() { Clock::Boot } else { Clock::start() };
    let rates: Vec<_> = rates.iter().map(|rate| priced(rate, once)).collect();
    let plain: Vec<_> = rates.iter().map(|rate| plain(rate, once)).collect();
    let shared = shared_among(&plain);
    let store = config.shared.as_ref().map(|state| open(state, shared, clock)).transpose()?;
    let store = store.map(|(store, policy)| {
        let priced = Priced { store, once: once.clone() };
        (Box::new(priced) as Box<dyn Store>, policy)
    });
    let mut world = RealWorld::start(reader, clock)?;
    world.watch_limits(files, &rates)?;
    let mut schedule = Schedule::new(config, rates.clone(), world.now(), world.wall());
    if let Some((state, store)) = config.shared.as_ref().zip(store) {
        let terms = share(state, shared, store, &mut world, &reporter)?;
        rates.iter().zip(&terms.most).try_for_each(|(rate, most)| check_shared_cost(rate, *most))?;
        schedule = schedule.with_bookings(terms);
    }
    if let Some(wait) = once.max_wait {
        schedule = schedule.with_patience(world.now(), wait);
    }
    let is_traced = once.trace && !once.command.is_empty();
    let mut permit = PermitSink { trace: is_traced.then(|| quoted(&once.command)) };
    let exit = Driver::new(&mut world, &mut permit, &reporter).run(&mut schedule);
    if exit != Exit::Done || once.command.is_empty() {
        return Ok(exit);
    }
    // Waiting for messages that nobody reads would waste one slot after another.
    if schedule.good_until().is_none() || !stderr::is_stuck() {
        stderr::flush(exit);
    }
    if let Some(signal) = world.last_stop() {
        return Ok(signal);
    }
    // The release was charged at the instant of its commit. If the slot has expired since, it is wasted, and the wait
    // starts again.
    let is_late = schedule.good_until().is_some_and(|until| world.now() > until);
    let (exit, error) = if is_late { exec(&ourselves()?) } else { exec(&once.command) };
    reporter.error(&error);
    Ok(exit)
}

/// A store whose limits are those of a single release, whatever they are replaced by.
struct Priced {
    store: Box<dyn Store>,
    once: Once,
}

impl Store for Priced {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        let mut answer = self.store.book(order)?;
        for rate in answer.limits.iter_mut().flat_map(|limits| &mut limits.rates) {
            *rate = priced(rate, &self.once);
            Once::check(rate).map_err(|error| StoreError { exit: Exit::BadState, error })?;
        }
        Ok(answer)
    }

    fn warn_of_waits_by(&mut self, warn: Warn) {
        self.store.warn_of_waits_by(warn);
    }

    fn give_back(&mut self, order: &Order) -> Result<(), StoreError> {
        self.store.give_back(order)
    }
}

/// Checks that slots of a limit can be for the cost of this release, of which there are at most `most`.
///
/// # Errors
/// They cannot.
fn check_shared_cost(rate: &Rate, most: u64) -> Result<()> {
    rate.check_cost()?;
    let cost = rate.common_cost().unwrap_or(1);
    ensure!(
        cost <= most,
        "a cost of {cost} is more than the limit {rate} ever admits if shared, {most} (a higher burst would)"
    );
    Ok(())
}

/// A limit with the cost of this release.
fn priced(rate: &Rate, once: &Once) -> Rate {
    Rate { cost: rate.cost.clone().or(once.cost.map(Selector::Constant)), ..rate.clone() }
}

/// A limit as others share it, without the cost of this release.
fn plain(rate: &Rate, once: &Once) -> Rate {
    let cost = rate.cost.clone().filter(|cost| once.cost.map(Selector::Constant).as_ref() != Some(cost));
    Rate { cost, ..rate.clone() }
}

fn ourselves() -> Result<Vec<OsString>> {
    let program = env::current_exe().context("cannot start again")?;
    Ok([program.into_os_string()].into_iter().chain(env::args_os().skip(1)).collect())
}
