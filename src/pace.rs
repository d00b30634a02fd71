//! Pacing for your own program, with the limits of the command line.
//!
//! A limit is written as on the command line: `10/s`, `5000/h,algo=bucket,burst=50`, `1/s,key=host`. `key=` and `cost=`
//! select from an *item*, the bytes that stand for a request: its URL, a line of words, a JSON document.
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
//! A program with its own timer and clock, asynchronous or simulated, uses [`Pace`], which has neither: it is given the
//! time and answers with an instant. A release takes time, so there are three steps: *admit* an item at an instant read
//! before, make the release, and *commit* it at an instant read after. So the time from the end of one release to the
//! start of the one that had to wait for it is never less than the limit demands.
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
//! What `throttle(1)` promises of its algorithms holds for committed releases: with the default one, no window as long
//! as the period has more releases than the limit, measured from the end of one release to the start of another. Items
//! are admitted one at a time; the caller decides which goes first. Time does not go back: an instant before the last
//! commit stands for that commit. Nothing is shared with other processes.
//!
//! # Comparison
//!
//! | | `throttle` | `governor` 0.10 | Go's `x/time/rate` |
//! |---|---|---|---|
//! | at most N in any window | yes, the default | no | no |
//! | token bucket | yes | yes (GCRA) | yes |
//! | minimum gap, fixed windows, calendar days | yes | gap by GCRA | gap by a burst of 1 |
//! | several limits agree on one instant | yes | one after the other | one after the other |
//! | limits as text | yes | no | no |
//! | one limit per key | yes, idle keys are dropped | yes, `retain_recent` | no |
//! | charged when the release happened | yes | when it was allowed | when it was allowed |
//! | a reservation ahead of time | no: ask again | no | yes, `Reserve` |
//! | shared by several threads | no: one thread owns it | lock-free | yes |
//! | arithmetic | whole nanoseconds | whole nanoseconds | floating point |
//!
//! `cargo bench --bench pace` compares the cost of a decision with governor's.
//!
//! This module follows semantic versioning. The rest of the crate is the program `throttle` and may change at any time.

use std::fmt;
use std::rc::{Rc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::charge::Charge;
use crate::config::{CountFrom, Defaults, parse_limits};
use crate::gate::{Gate, Pending, Request, Scope};
use crate::source::Charger;
use crate::time::{Time, Wall, nanos};

/// Invalid limits, or an item that they never admit. Prints what is wrong and what to do.
#[derive(Debug)]
pub struct Error(anyhow::Error);

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// An item's request: its costs and keys, and the instant at which it became next in line.
#[derive(Clone, Debug)]
pub struct Item(Rc<(Time, Charge)>);

impl Item {
    fn request(&self) -> Request<'_> {
        Request::new(self.0.0, &self.0.1)
    }
}

/// A release that was admitted. [Commit](Pace::commit) it once it has happened; dropped, it charges nothing.
#[derive(Debug)]
#[must_use = "what is not committed is not charged"]
pub struct Admission {
    item: Item,
    at: Time,
}

/// Why an item was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It may be at this instant and no earlier, if nothing else is committed before.
    Until(Instant),
    /// It never will be: a limit pauses, such as `0/s`.
    Never,
}

/// Limits with their past releases, without a clock.
pub struct Pace {
    gate: Gate,
    charger: Charger,
    origin: Instant,
    /// The latest commit. What is asked for after it cannot happen before it.
    latest: Time,
    /// The items that are waiting; kept only if an answer depends on when they became next in line.
    waiting: Vec<Weak<(Time, Charge)>>,
    /// Nothing was asked for yet.
    is_new: bool,
}

impl Pace {
    /// Limits under which nothing was released before `now`. `limits` has one limit per line; `#` begins a comment.
    ///
    /// # Errors
    /// A line is not a limit, or limits running commands (`N/running`), or there is none.
    pub fn new(limits: &str, now: Instant) -> Result<Self, Error> {
        let rates = parse_limits(limits, &Defaults::default()).map_err(Error)?;
        if rates.is_empty() {
            return Err(Error(anyhow::anyhow!("no limit given: add one, such as 10/s")));
        }
        if let Some(rate) = rates.iter().find(|rate| rate.from == CountFrom::Running) {
            return Err(Error(anyhow::anyhow!("{rate} is for commands, and none run here: leave it out")));
        }
        let charger = Charger::new(&rates, None);
        let gate = Gate::new(rates, Time::ZERO, Wall::EPOCH);
        let latest = Time::ZERO;
        let mut pace = Pace { gate, charger, origin: now, latest, waiting: Vec::new(), is_new: true };
        pace.set_clock(now, SystemTime::now());
        Ok(pace)
    }

    /// Sets the time that the wall clock shows `now`. Call it again after the wall clock was set, if a limit goes by
    /// the calendar or has hours. Called before the first item, it replaces the system's clock.
    pub fn set_clock(&mut self, now: Instant, shown: SystemTime) {
        let shown = nanos(shown.duration_since(UNIX_EPOCH).unwrap_or_default());
        let now = self.time(now);
        let wall = Wall::new(now, Time(shown));
        if self.is_new {
            // With `start=empty`, a period of another clock would be used up.
            self.gate = Gate::new(self.gate.rates().to_vec(), Time::ZERO, wall);
        }
        self.gate.set_wall(now, wall);
    }

    /// An item that becomes next in line at `since`. It waits from then on, and a bucket saves up for it.
    ///
    /// # Errors
    /// The item has no cost where a limit selects one, or costs more than a limit ever admits.
    pub fn item(&mut self, item: &[u8], since: Instant) -> Result<Item, Error> {
        self.is_new = false;
        let charged = self.charger.charge(item, item.len());
        let charge = charged.map_err(|why| Error(anyhow::Error::msg(why)))?;
        let item = Rc::new((self.time(since), charge));
        if self.gate.properties().depends_on_since {
            if self.waiting.len() == self.waiting.capacity() {
                self.waiting.retain(|item| item.strong_count() > 0);
            }
            self.waiting.push(Rc::downgrade(&item));
        }
        Ok(Item(item))
    }

    /// The first instant from `now` on at which `item` may be released, if nothing else is committed before; `None` if
    /// there is none.
    pub fn earliest(&self, item: &Item, now: Instant) -> Option<Instant> {
        let at = self.gate.opening(Scope::All, &item.request(), self.no_earlier(now)).from.known()?;
        self.origin.checked_add(Duration::from_nanos(at.0))
    }

    /// Admits `item` at `now`, an instant read before it is released. It counts once it is committed, so commit it, or
    /// drop it, before the next one is admitted.
    ///
    /// # Errors
    /// The item may not be released yet.
    pub fn admit(&mut self, item: &Item, now: Instant) -> Result<Admission, Refusal> {
        let at = self.no_earlier(now);
        let since = item.request().since;
        if at >= since && self.gate.check(&mut Pending::default(), at, &item.request()).is_ok() {
            return Ok(Admission { item: item.clone(), at });
        }
        Err(self.earliest(item, now.max(self.instant(since))).map_or(Refusal::Never, Refusal::Until))
    }

    /// Charges what was admitted at `now`, an instant read after the release, so not before it was admitted.
    pub fn commit(&mut self, Admission { item, at }: Admission, now: Instant) {
        let now = self.no_earlier(now).max(at);
        self.latest = now;
        self.gate.charge(now, &item.request());
        // It no longer waits, so it must not hold back the horizon below.
        drop(item);
        if self.gate.evict_at() <= now {
            let waiting = self.waiting.iter().filter_map(Weak::upgrade);
            let horizon = waiting.map(|item| item.0).fold(now, Time::min);
            self.gate.evict(now, horizon);
        }
    }

    /// `now`, but not before the latest commit: an instant may have been read long ago.
    fn no_earlier(&self, now: Instant) -> Time {
        self.time(now).max(self.latest)
    }

    fn time(&self, at: Instant) -> Time {
        Time(nanos(at.saturating_duration_since(self.origin)))
    }

    fn instant(&self, at: Time) -> Instant {
        self.origin + Duration::from_nanos(at.0)
    }
}

/// A [`Pace`] driven by the monotonic clock, for a loop that may block.
pub struct Pacer(Pace);

impl Pacer {
    /// Limits under which nothing was released before now. `limits` has one limit per line.
    ///
    /// # Errors
    /// As for [`Pace::new`].
    pub fn new(limits: &str) -> Result<Self, Error> {
        Pace::new(limits, Instant::now()).map(Pacer)
    }

    /// Blocks until `item` may be released.
    ///
    /// # Errors
    /// As for [`Pace::item`], or the item may never be released.
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

/// Permission for one release. Drop it once the release has happened: that charges it, at the time of the drop.
#[must_use = "the release is charged when this is dropped"]
pub struct Permit<'a> {
    pace: &'a mut Pace,
    admission: Option<Admission>,
}

impl Permit<'_> {
    /// Gives up the release: nothing is charged.
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
