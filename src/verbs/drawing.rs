//! The plot that is drawn at the end.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Result;

use crate::audit::Audit;
use crate::config::{Config, Rate};
use crate::exit::Exit;
use crate::gate::Request;
use crate::interrupt::Interrupt;
use crate::output::Target;
use crate::schedule::Schedule;
use crate::sink::TextWriter;
use crate::time::Wall;
use crate::ui::plot;

/// The releases of a run, and the file to draw them to.
pub(super) struct Drawing<'a> {
    audit: Rc<RefCell<Audit>>,
    path: &'a Path,
}

impl<'a> Drawing<'a> {
    /// Observes the releases of `schedule`, if they are to be drawn.
    pub(super) fn begin(
        config: &'a Config,
        rates: &[Rate],
        wall: Wall,
        schedule: &mut Schedule,
    ) -> Option<Self> {
        let path = config.plot.as_deref()?;
        let audit = Rc::new(RefCell::new(Audit::new(rates).traced()));
        let judge = Rc::clone(&audit);
        schedule.observe(Box::new(move |at, Request { costs, keys, .. }| {
            judge.borrow_mut().judge(0, wall.shows(at), costs, keys, |_| {});
        }));
        Some(Drawing { audit, path })
    }

    /// Draws them, unless interrupted.
    pub(super) fn draw(&self, interrupt: Arc<Interrupt>) -> Result<()> {
        let stderr = TextWriter { target: Target::Stderr, interrupt };
        plot::draw(&self.audit.borrow(), self.path, stderr)
    }
}

/// The exit of a run after its releases were `drawn`. A signal that interrupted the drawing outranks its result, but
/// not the signal that ended the run, which was told.
pub(super) fn after_drawing(exit: Exit, stop: Option<Exit>, drawn: Result<()>) -> Result<Exit> {
    let is_signal = |exit: &Exit| matches!(exit, Exit::Signal(_)) && *exit != Exit::READER_GONE;
    let signal = [exit].into_iter().chain(stop).find(is_signal);
    signal.map_or_else(|| drawn.map(|()| exit), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_outranks_everything() {
        let (int, term) = (Exit::Signal(2), Exit::Signal(15));
        for (exit, stop, end) in [
            (Exit::Done, None, Exit::Done),
            (Exit::Done, Some(term), term),
            (Exit::Done, Some(Exit::READER_GONE), Exit::Done),
            (Exit::READER_GONE, Some(term), term),
            (int, Some(term), int),
        ] {
            assert_eq!(after_drawing(exit, stop, Ok(())).unwrap(), end, "{exit:?}, {stop:?}");
        }
        assert_eq!(after_drawing(Exit::Done, Some(term), Err(anyhow::anyhow!("cut off"))).unwrap(), term);
    }
}
