//! Pacing a program of one's own, by the limits that the command line knows.
//!
//! A limit is written as on the command line: `10/s`, `5000/h,algo=bucket,burst=50`, `1/s,key=host`. What `key=` and
//! `cost=` select is found in an *item*, some bytes that stand for a request: its URL, a line of words, a JSON
//! document.
//!
//! A loop that may block uses a [`Pacer`]:
//!
//! ```
//! # fn main() -> Result<(), throttle::pace::Error> {
//! use throttle::pace::Pacer;
//!
//! let mut pacer = Pacer::new("20/100ms\n1/10ms,key=host")?;
//! for url in ["https://a.example/1", "https://b.example/1", "https://a.example/2"] {
//!     let permit = pacer.wait(url.as_bytes())?;
//!     // The request is made here.
//!     drop(permit);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A program that has a timer and a clock of its own, asynchronous or simulated, uses [`Pace`], which has neither: it
//! is told the time, and answers with an instant. Three steps, as nothing that really happens happens at an instant:
//! *admit* what may go at an instant read before, do it, and *commit* it at an instant read after. So the distance
//! between the end of one and the start of the one that had to wait for it is what the limit says, and never less.
//!
//! ```
//! # fn main() -> Result<(), throttle::pace::Error> {
//! use std::time::{Duration, Instant};
//! use throttle::pace::{Pace, Refusal};
//!
//! let start = Instant::now();
//! let mut pace = Pace::new("2/1s", start)?;
//! let item = pace.item(b"", start)?;
//! for _ in 0..2 {
//!     let admission = pace.admit(&item, start).expect("the first two go at once");
//!     pace.commit(admission, start + Duration::from_millis(5));
//! }
//! let refusal = pace.admit(&item, start).unwrap_err();
//! assert_eq!(refusal, Refusal::Until(start + Duration::from_millis(1005)));
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! What `throttle(1)` says of its algorithms holds for what is committed: with the default one, no window of the period
//! has more than the limit between the end of a release and the start of another. Items are asked about one by one;
//! which of several goes first is the caller's to decide. Nothing is shared with other processes.
//!
//! # Beside others
//!
//! | | this | `governor` 0.10 | Go's `x/time/rate` |
//! |---|---|---|---|
//! | at most N in any window | yes, the default | no | no |
//! | token bucket | yes | yes (GCRA) | yes |
//! | minimum gap, fixed windows, calendar days | yes | gap by GCRA | gap by a burst of 1 |
//! | several limits agree on one instant | yes | one after the other | one after the other |
//! | limits as text | yes | no | no |
//! | one limit for each key | yes, what is idle is dropped | yes, `retain_recent` | no |
//! | charged by when it really happened | yes | when it was allowed | when it was allowed |
//! | a reservation ahead of time | no: ask again | no | yes, `Reserve` |
//! | used by many threads at once | no: a thread owns it | lock-free | yes |
//! | arithmetic | whole nanoseconds | whole nanoseconds | floating point |
//!
//! `cargo bench --bench pace` measures a decision beside governor's.
//!
//! This module keeps to semantic versioning. The rest of the crate is the program `throttle`, and may change at any
//! time.

use std::fmt;
use std::rc::{Rc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::charge::Charge;
use crate::config::{Defaults, LimitOptions};
use crate::gate::{Charges, Gate, Own, OwnedRequest, Part};
use crate::source::Charger;
use crate::time::{Time, Wall, nanos};

/// Limits that make no sense, or an item that they never admit. Prints what is wrong, and what to do.
#[derive(Debug)]
pub struct Error(anyhow::Error);

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// The request of an item: its costs and keys, and the instant since which it is next in line.
#[derive(Clone, Debug)]
pub struct Item(Rc<OwnedRequest>);

/// A release that was admitted, and has to be [committed](Pace::commit) once it has happened. One that is dropped has
/// not happened, and charges nothing.
#[derive(Debug)]
#[must_use = "what is not committed is not charged"]
pub struct Admission(Item);

/// Answer to an item that was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// This is the first instant at which it may be, if nothing else is committed before.
    Until(Instant),
    /// It never is: its limit pauses, as `0/s`.
    Never,
}

/// Limits and what they have admitted, without a clock.
pub struct Pace {
    gate: Own,
    charger: Charger,
    origin: Instant,
    /// The items that there are, if it matters since when they wait.
    waiting: Vec<Weak<OwnedRequest>>,
    /// Nothing was asked for yet.
    is_new: bool,
}

impl Pace {
    /// Nothing was released before `now`. `limits` has one limit a line; `#` begins a comment.
    ///
    /// # Errors
    /// A line that is no limit, or none at all.
    pub fn new(limits: &str, now: Instant) -> Result<Self, Error> {
        let rates = LimitOptions { sources: Vec::new(), defaults: Defaults::default() }
            .parse(limits)
            .map_err(Error)?;
        if rates.is_empty() {
            return Err(Error(anyhow::anyhow!("no limit given: add one, such as 10/s")));
        }
        let charger = Charger::new(&rates, None);
        let gate = Own::new(rates, Time::ZERO);
        let mut pace = Pace { gate, charger, origin: now, waiting: Vec::new(), is_new: true };
        pace.set_clock(now, SystemTime::now());
        Ok(pace)
    }

    /// Sets the time that the clock on the wall shows `now`: needed again when that was set, by limits that go by the
    /// calendar or have hours. Before the first item, it takes the place of the system's clock.
    pub fn set_clock(&mut self, now: Instant, shown: SystemTime) {
        if self.is_new {
            // With `start=empty`, a period of another clock would be used up.
            self.gate = Own::new(self.gate.rates().to_vec(), Time::ZERO);
        }
        let shown = nanos(shown.duration_since(UNIX_EPOCH).unwrap_or_default());
        let now = self.time(now);
        self.gate.set_wall(now, Wall::new(now, Time(shown)));
    }

    /// An item that becomes next in line at `since`: from then on it waits, and a bucket saves up for it.
    ///
    /// # Errors
    /// It has no cost where a limit selects one, or a cost that a limit never admits.
    pub fn item(&mut self, item: &[u8], since: Instant) -> Result<Item, Error> {
        self.is_new = false;
        let charged = self.charger.charge(item, item.len());
        let Charge { costs, keys } = charged.map_err(|why| Error(anyhow::Error::msg(why)))?;
        let item = Rc::new(OwnedRequest { costs, keys, since: self.time(since) });
        if self.gate.properties().depends_on_since {
            self.wait(&item);
        }
        Ok(Item(item))
    }

    fn wait(&mut self, item: &Rc<OwnedRequest>) {
        if self.waiting.len() == self.waiting.capacity() {
            self.waiting.retain(|item| item.strong_count() > 0);
        }
        self.waiting.push(Rc::downgrade(item));
    }

    /// The first instant from `now` on at which `item` may be released, if there is one and nothing else is committed
    /// before.
    pub fn earliest(&self, item: &Item, now: Instant) -> Option<Instant> {
        let at = self.gate.ask(Part::All, &item.0.request(), self.time(now)).from.instant()?;
        self.origin.checked_add(Duration::from_nanos(at.0))
    }

    /// Admits `item` at `now`, an instant read before it is released. It counts once it is committed, so commit it, or
    /// drop it, before the next one is admitted.
    ///
    /// # Errors
    /// It may not be released yet.
    pub fn admit(&mut self, item: &Item, now: Instant) -> Result<Admission, Refusal> {
        let at = self.time(now);
        if at >= item.0.since && self.gate.fits(&mut Charges::default(), at, &item.0.request()) {
            return Ok(Admission(item.clone()));
        }
        Err(self.earliest(item, now.max(self.instant(item.0.since))).map_or(Refusal::Never, Refusal::Until))
    }

    /// Charges what was admitted, at `now`, an instant read after it was released.
    pub fn commit(&mut self, Admission(item): Admission, now: Instant) {
        let now = self.time(now);
        self.gate.charge(now, &item.0.request());
        // It waits no more.
        drop(item);
        if self.gate.next_change().is_some_and(|at| at <= now) {
            let waiting = self.waiting.iter().filter_map(Weak::upgrade);
            let horizon = waiting.map(|item| item.since).fold(now, Time::min);
            self.gate.forget(now, horizon);
        }
    }

    fn time(&self, at: Instant) -> Time {
        Time(nanos(at.saturating_duration_since(self.origin)))
    }

    fn instant(&self, at: Time) -> Instant {
        self.origin + Duration::from_nanos(at.0)
    }
}

/// A [`Pace`] by the monotonic clock, for a loop that may block.
pub struct Pacer(Pace);

impl Pacer {
    /// Nothing was released before now. `limits` has one limit a line.
    ///
    /// # Errors
    /// A line that is no limit, or none at all.
    pub fn new(limits: &str) -> Result<Self, Error> {
        Pace::new(limits, Instant::now()).map(Pacer)
    }

    /// Blocks until `item` may be released.
    ///
    /// # Errors
    /// It never may.
    pub fn wait(&mut self, item: &[u8]) -> Result<Permit<'_>, Error> {
        let item = self.0.item(item, Instant::now())?;
        loop {
            match self.0.admit(&item, Instant::now()) {
                Ok(admission) => return Ok(Permit { pace: &mut self.0, admission: Some(admission) }),
                Err(Refusal::Until(at)) => thread::sleep(at.saturating_duration_since(Instant::now())),
                Err(Refusal::Never) => return Err(Error(anyhow::anyhow!("a limit of 0 admits nothing"))),
            }
        }
    }
}

/// Leave for one release. It is charged when this is dropped, by the clock then: so drop it once the release has
/// happened.
#[must_use = "the release is charged when this is dropped"]
pub struct Permit<'a> {
    pace: &'a mut Pace,
    admission: Option<Admission>,
}

impl Permit<'_> {
    /// The release has not happened; nothing is charged.
    pub fn cancel(mut self) {
        self.admission = None;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            self.pace.commit(admission, Instant::now());
        }
    }
}
