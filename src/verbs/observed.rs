//! Releases that are drawn at the end.

use std::io;
use std::path::Path;

use anyhow::Result;

use crate::config::{Config, CountFrom, Rate};
use crate::runtime::{Clock, Watched};
use crate::sink::Sink;
use crate::time::Wall;
use crate::ui::plot;

/// A sink, which is watched if its releases are to be drawn.
pub(super) enum Observed<'a> {
    No(Box<dyn Sink>),
    Yes(Box<Watched<Box<dyn Sink>>>, &'a Path),
}

impl<'a> Observed<'a> {
    pub(super) fn new(
        sink: Box<dyn Sink>,
        config: &'a Config,
        rates: &[Rate],
        clock: Option<Clock>,
        wall: Wall,
    ) -> Self {
        match &config.plot {
            None => Observed::No(sink),
            Some(path) => {
                // How many run is no matter of windows.
                let rates: Vec<_> =
                    rates.iter().filter(|rate| rate.from != CountFrom::Running).cloned().collect();
                Observed::Yes(Box::new(Watched::new(sink, config, &rates, clock, wall)), path)
            }
        }
    }

    pub(super) fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Observed::No(sink) => sink.as_mut(),
            Observed::Yes(sink, _) => sink.as_mut(),
        }
    }

    pub(super) fn draw(&self) -> Result<()> {
        match self {
            Observed::No(_) => Ok(()),
            Observed::Yes(sink, path) => plot::draw(sink.audit(), path, io::stderr().lock()),
        }
    }
}
