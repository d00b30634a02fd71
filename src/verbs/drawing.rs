//! Releases that are drawn at the end.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use smallvec::SmallVec;

use crate::audit::Audit;
use crate::charge::Key;
use crate::config::{Config, CountFrom, Rate, keys};
use crate::schedule::{Release, Schedule};
use crate::time::Wall;
use crate::ui::plot;

/// The releases of a run, and the file that they are drawn to.
pub(super) struct Drawing<'a> {
    audit: Rc<RefCell<Audit>>,
    path: &'a Path,
}

impl<'a> Drawing<'a> {
    /// Has `schedule` tell its releases, if they are to be drawn.
    pub(super) fn begin(
        config: &'a Config,
        rates: &[Rate],
        wall: Wall,
        schedule: &mut Schedule,
    ) -> Option<Self> {
        let path = config.plot.as_deref()?;
        let windowed = Windowed::of(rates);
        let audit = Rc::new(RefCell::new(Audit::new(&windowed.rates).traced()));
        let judge = Rc::clone(&audit);
        schedule.observe(Box::new(move |Release { at, costs, keys }| {
            let (costs, keys) = (windowed.costs(costs), windowed.keys(keys));
            judge.borrow_mut().judge(0, wall.shows(at), &costs, &keys, |_| {});
        }));
        Some(Drawing { audit, path })
    }

    pub(super) fn draw(&self) -> Result<()> {
        plot::draw(&self.audit.borrow(), self.path, io::stderr().lock())
    }
}

/// The limits that have windows: how many commands run is no matter of these.
struct Windowed {
    rates: Vec<Rate>,
    /// Their indices among all limits, and those of their keys among all keys.
    limits: Vec<usize>,
    keys: Vec<usize>,
}

impl Windowed {
    fn of(all: &[Rate]) -> Self {
        let limits = (0..all.len()).filter(|&at| all[at].from != CountFrom::Running).collect::<Vec<_>>();
        let rates = limits.iter().map(|&at| all[at].clone()).collect::<Vec<_>>();
        let known = keys(all);
        let place = |key| known.iter().position(|other| *other == key);
        let keys = keys(&rates).into_iter().filter_map(place).collect();
        Windowed { rates, limits, keys }
    }

    fn costs(&self, costs: &[u64]) -> SmallVec<[u64; 4]> {
        self.limits.iter().map(|&at| costs[at]).collect()
    }

    fn keys(&self, keys: &[Key]) -> SmallVec<[Key; 2]> {
        self.keys.iter().map(|&at| keys[at].clone()).collect()
    }
}
