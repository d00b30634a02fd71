//! Limits without a clock.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::admission::Admission;
use super::item::Ask;
use super::limits::{Limits, Waiting};
use super::shared::{Locked, SharedPace};
use super::turn::QueuePlace;
use super::values::{Charges, Values};
use super::{Error, ErrorKind, Item};
use crate::config::{CountFrom, Defaults, Rate, parse_limits};
use crate::time::{Time, Wall, nanos, shown};

/// Limits with their past releases, without a clock. All clones share them, in any thread.
#[derive(Clone)]
pub struct Pace {
    pub(super) shared: Arc<SharedPace>,
}

impl Pace {
    /// Limits under which nothing was released before `now`. `limits` has one limit per line; `#` begins a comment.
    ///
    /// ```
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let pace = Pace::new("100/s # for all\n5/s,key=host", Instant::now());
    /// assert!(pace.is_ok());
    /// ```
    ///
    /// # Errors
    /// A line is not a limit, there is none, or one is for commands alone (`N/running`, `A..B/s`).
    pub fn new(limits: &str, now: Instant) -> Result<Self, Error> {
        let rates = parse_limits(limits, &Defaults::default())
            .map_err(|why| Error::caused(ErrorKind::InvalidLimits, "the limits are invalid", why))?;
        if rates.is_empty() {
            return Err(Error::new(ErrorKind::InvalidLimits, "no limit given: add one, such as 10/s"));
        }
        let is_unsupported = |rate: &&Rate| rate.from == CountFrom::Running || rate.least.is_some();
        if let Some(rate) = rates.iter().find(is_unsupported) {
            let why = format!("{rate} is for commands, and none run here: leave it out");
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        let values = Values::new(&rates);
        let limits = Limits::new(rates, Wall::EPOCH);
        let pace = Pace { shared: Arc::new(SharedPace::new(limits, values, now)) };
        pace.set_clock(now, SystemTime::now());
        Ok(pace)
    }

    /// Sets the time that the wall clock shows `now`. Call it again after the wall clock was set, if a limit goes by
    /// the calendar or has hours. Called before the first item, it replaces the system's clock.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant, UNIX_EPOCH};
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/d,algo=calendar,tz=UTC", now)?;
    /// let hour = Duration::from_secs(3600);
    /// pace.set_clock(now, UNIX_EPOCH + 18 * hour);
    /// pace.check(("", 1), now)?;
    /// assert_eq!(pace.earliest(("", 1), now)?, Some(now + 6 * hour));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_clock(&self, now: Instant, shown: SystemTime) {
        let shown = nanos(shown.duration_since(UNIX_EPOCH).unwrap_or_default());
        let at = self.shared.time(now);
        self.shared.lock().limits.set_wall(at, Wall::new(at, Time(shown)));
    }

    /// The present instant. If the wall clock matters and was set, the limits learn of it.
    pub(super) fn now(&self) -> Instant {
        let before = Instant::now();
        if !self.shared.takes_look_at_clock(before) {
            return before;
        }
        let (shown, now) = (shown(), Instant::now());
        let within = nanos(now.saturating_duration_since(before));
        self.shared.lock().limits.follow(self.shared.time(now), shown, within);
        now
    }

    /// The item that a text stands for: `key=` and `cost=` select from it. It waits from `since` on, and a bucket saves
    /// up for it.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/s,key=host", now)?;
    /// let [one, other] = ["https://a.example/1", "https://b.example/1"].map(|url| pace.item(url.as_bytes(), now));
    /// assert!(pace.admit(one?, now).is_ok() && pace.admit(other?, now).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The item has no cost where a limit selects one, or costs more than a limit ever admits.
    pub fn item(&self, text: &[u8], since: Instant) -> Result<Item, Error> {
        self.shared.values.selected(text).map(|charges| self.waiting(charges, since))
    }

    /// The item with a key, which counts for all limits by key, and a cost for all limits, except for those with a
    /// constant one, such as `cost=2`.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("5/s,key=col:1", now)?;
    /// let item = pace.keyed(b"alice", 3, now)?;
    /// assert!(pace.admit(&item, now).is_ok());
    /// assert!(pace.admit(&item, now).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The item costs more than a limit ever admits.
    pub fn keyed(&self, key: &[u8], cost: u64, since: Instant) -> Result<Item, Error> {
        self.shared.values.of(key, cost).map(|charges| self.waiting(charges, since))
    }

    /// The item with these keys and costs, by the names after `key=` and `cost=`. A key that is not given is empty; a
    /// limit without `cost=` is charged 1.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("100/s,key=.user\n5000/min,key=.model,cost=.tokens", now)?;
    /// let item = pace.named(&[(".user", b"alice"), (".model", b"small")], &[(".tokens", 1200)], now)?;
    /// assert_eq!(pace.left(&item, now)?, 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No limit has such a name, a cost is missing, or it is more than a limit ever admits.
    pub fn named(
        &self,
        keys: &[(&str, &[u8])],
        costs: &[(&str, u64)],
        since: Instant,
    ) -> Result<Item, Error> {
        self.shared.values.named(keys, costs).map(|charges| self.waiting(charges, since))
    }

    fn waiting(&self, charges: Charges, since: Instant) -> Item {
        let waiting = self.shared.waiting(charges, self.shared.time(since));
        Item { owner: self.shared.id, waiting }
    }

    /// The first instant from `now` on at which a release may be admitted, if nothing that was admitted is committed or
    /// canceled before; `None` if there is none. If limits by the calendar have agreed on nothing for a thousand of
    /// their periods, it is the instant from which to ask again.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant};
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/s", now)?;
    /// pace.check(("", 1), now)?;
    /// assert_eq!(pace.earliest(("", 1), now)?, Some(now + Duration::from_secs(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::keyed`].
    pub fn earliest<'a>(&self, ask: impl Ask<'a>, now: Instant) -> Result<Option<Instant>, Error> {
        let now = self.shared.time(now);
        let item = ask.asked().waiting(&self.shared, now)?;
        let earliest = self.shared.lock().limits.earliest(&item, now);
        Ok(earliest.and_then(|at| self.shared.instant(at)))
    }

    /// Admits a release at `now`, an instant read before it. From now on it counts, until it is committed, canceled or
    /// dropped. Does not go before those who wait for the same limits.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant};
    /// use throttle::pace::{ErrorKind, Pace};
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/s", now)?;
    /// let until = |pace: &Pace| match pace.admit(("", 1), now).unwrap_err().kind() {
    ///     ErrorKind::Refused(refused) => refused.until,
    ///     _ => panic!(),
    /// };
    /// let admission = pace.admit(("", 1), now)?;
    /// assert_eq!(until(&pace), None);
    /// admission.commit(now);
    /// assert_eq!(until(&pace), Some(now + Duration::from_secs(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It may not be released yet, or as for [`Pace::keyed`].
    pub fn admit<'a>(&self, ask: impl Ask<'a>, now: Instant) -> Result<Admission<'_>, Error> {
        let now = self.shared.time(now);
        let (item, at) = self.pass(ask, now, false)?;
        Ok(Admission::new(&self.shared, item.into_owned(), at))
    }

    /// Admits and commits a release that takes no time, such as a request that is let in.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/s", now)?;
    /// assert!(pace.check(("", 1), now).is_ok());
    /// assert!(pace.check(("", 1), now).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::admit`].
    pub fn check<'a>(&self, ask: impl Ask<'a>, now: Instant) -> Result<(), Error> {
        self.pass(ask, self.shared.time(now), true).map(|_| ())
    }

    /// Admits a release, which counts from now on or is `over` at once.
    fn pass<'a>(&self, ask: impl Ask<'a>, now: Time, over: bool) -> Result<(Cow<'a, Waiting>, Time), Error> {
        let asked = ask.asked();
        if asked.is_one()
            && let Some(refused) = self.shared.known_refusal(now)
        {
            return Err(ErrorKind::Refused(refused).into());
        }
        let item = asked.waiting(&self.shared, now)?;
        let admitted = self.shared.change(|state, woken| {
            let Locked { limits, queue } = state;
            let admitted = queue.admit(&item, limits, (now, over), woken);
            admitted.map_err(|blocked| self.shared.refuse(state, &item, blocked, now))
        });
        admitted.map(|at| (item, at))
    }

    /// Admits a release at `now` if it may be, or else begins to wait for it.
    pub(super) fn admit_or_wait<'a>(
        &self,
        ask: impl Ask<'a>,
        now: Instant,
    ) -> Result<Result<Admission<'_>, QueuePlace<'_>>, Error> {
        let now = self.shared.time(now);
        let item = ask.asked().waiting(&self.shared, now)?;
        Ok(self.shared.change(|Locked { limits, queue }, woken| {
            match queue.admit(&item, limits, (now, false), woken) {
                Ok(at) => Ok(Admission::new(&self.shared, item.into_owned(), at)),
                Err(blocked) => {
                    let ticket = queue.join(item.into_owned(), blocked, limits, now);
                    Err(QueuePlace::new(&self.shared, ticket))
                }
            }
        }))
    }

    /// The number of releases like this that the limits allow at `now`, one after the other.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("10/s,key=host", now)?;
    /// assert_eq!(pace.left(("a.example", 3), now)?, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::keyed`].
    pub fn left<'a>(&self, ask: impl Ask<'a>, now: Instant) -> Result<u64, Error> {
        let now = self.shared.time(now);
        let item = ask.asked().waiting(&self.shared, now)?;
        Ok(self.shared.lock().limits.left(&item, now))
    }

    /// Admits nothing before `until`, such as after an answer with `Retry-After`. Of several such instants, the latest
    /// counts.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant};
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("10/s", now)?;
    /// pace.pause_until(now + Duration::from_secs(30));
    /// assert_eq!(pace.earliest(("", 1), now)?, Some(now + Duration::from_secs(30)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_until(&self, until: Instant) {
        let until = self.shared.time(until);
        self.shared.lock().limits.pause(until);
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").finish_non_exhaustive()
    }
}
