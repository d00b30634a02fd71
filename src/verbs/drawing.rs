//! Releases that are drawn at the end.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;

use crate::audit::Audit;
use crate::config::{Config, Rate};
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
        let audit = Rc::new(RefCell::new(Audit::new(rates).traced()));
        let judge = Rc::clone(&audit);
        schedule.observe(Box::new(move |Release { at, costs, keys }| {
            judge.borrow_mut().judge(0, wall.shows(at), costs, keys, |_| {});
        }));
        Some(Drawing { audit, path })
    }

    pub(super) fn draw(&self) -> Result<()> {
        plot::draw(&self.audit.borrow(), self.path, io::stderr().lock())
    }
}
