//! Limits without a clock.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use smallvec::SmallVec;

use super::item::Ask;
use super::limits::{Limits, No, Waiting};
use super::queue::Standing;
use super::shared::{Shared, State};
use super::values::{Charges, Values};
use super::{Error, ErrorKind, Item, Refusal};
use crate::config::{CountFrom, Defaults, Rate, parse_limits};
use crate::gate::Gate;
use crate::time::{Time, Wall, nanos};

/// Limits with their past releases, without a clock. All clones share them, in any thread.
#[derive(Clone)]
pub struct Pace {
    pub(super) shared: Arc<Shared>,
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
        let limits = Limits::new(Gate::new(rates, Time::ZERO, Wall::EPOCH));
        let pace = Pace { shared: Arc::new(Shared::new(limits, values, now)) };
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
    /// pace.admit(("", 1), now)?.commit(now);
    /// let next = pace.keyed(b"", 1, now)?;
    /// assert_eq!(pace.earliest(&next, now), Some(now + 6 * hour));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_clock(&self, now: Instant, shown: SystemTime) {
        let shown = nanos(shown.duration_since(UNIX_EPOCH).unwrap_or_default());
        let at = self.shared.time(now);
        self.shared.change(|| now, |limits| limits.set_wall(at, Wall::new(at, Time(shown))));
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
    /// assert_eq!(pace.left(&item, now), 4);
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
        let since = self.shared.time(since);
        let mark = self.shared.saves_up.then(|| self.shared.lock().limits.mark(since));
        Item { owner: self.shared.id, waiting: Waiting { since, charges, mark } }
    }

    /// The first instant from `now` on at which `item` may be released, if nothing that was admitted is committed or
    /// canceled before; `None` if there is none.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant};
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/s", now)?;
    /// pace.admit(("", 1), now)?.commit(now);
    /// let next = pace.keyed(b"", 1, now)?;
    /// assert_eq!(pace.earliest(&next, now), Some(now + Duration::from_secs(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn earliest(&self, item: &Item, now: Instant) -> Option<Instant> {
        if !self.is_own(item) {
            return None;
        }
        let now = self.shared.time(now);
        match self.shared.lock().limits.answer(&item.waiting, now) {
            No::Until(at) => self.shared.instant(at),
            No::Busy | No::Never => None,
        }
    }

    /// Admits a release at `now`, an instant read before it. From now on it counts, until it is committed, canceled or
    /// dropped. Does not go before those who wait for the same limits.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant};
    /// use throttle::pace::{ErrorKind, Pace, Refusal};
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/s", now)?;
    /// let admission = pace.admit(("", 1), now)?;
    /// let refused = pace.admit(("", 1), now).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Refused(Refusal::Busy));
    /// admission.commit(now);
    /// let refused = pace.admit(("", 1), now).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Refused(Refusal::Until(now + Duration::from_secs(1))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It may not be released yet, or as for [`Pace::keyed`].
    pub fn admit<'a>(&self, ask: impl Ask<'a>, now: Instant) -> Result<Admission, Error> {
        if ask.is_one()
            && let Some(until) = self.shared.known_refusal(now)
        {
            return Err(No::Until(until).refusal(|at| self.shared.instant(at)).into());
        }
        let item = ask.into_item(self, now)?;
        self.try_admit(item, now).map_err(|(_, refusal)| refusal.into())
    }

    /// As [`Pace::admit`]. Returns what is refused.
    pub(super) fn try_admit<'a>(
        &self,
        item: Cow<'a, Item>,
        now: Instant,
    ) -> Result<Admission, (Cow<'a, Item>, Refusal)> {
        if !self.is_own(&item) {
            return Err((item, Refusal::Foreign));
        }
        let now = self.shared.time(now);
        let mut state = self.shared.lock();
        let State { limits, queue } = &mut *state;
        let turn = if queue.is_empty() { limits.admit(&item.waiting, now).ok() } else { None };
        if let Some(at) = turn {
            drop(state);
            return Ok(Admission::new(Arc::clone(&self.shared), item.into_owned().waiting, at));
        }
        let (standing, woken) = match queue.is_empty() {
            true => (Standing::Refused(limits.answer(&item.waiting, now)), SmallVec::new()),
            false => queue.try_one(limits, &item.waiting, now),
        };
        if let Standing::Refused(No::Until(until)) = standing
            && item.waiting.since <= now
        {
            self.shared.refused_until(&item.waiting.charges, until, &state);
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        match standing {
            Standing::Admitted(at) => {
                Ok(Admission::new(Arc::clone(&self.shared), item.into_owned().waiting, at))
            }
            Standing::Refused(no) => Err((item, no.refusal(|at| self.shared.instant(at)))),
            Standing::Behind => Err((item, Refusal::Busy)),
        }
    }

    /// The number of releases like `item` that may be admitted at `now`, one after the other.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("10/s,key=host", now)?;
    /// let item = pace.keyed(b"a.example", 3, now)?;
    /// assert_eq!(pace.left(&item, now), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn left(&self, item: &Item, now: Instant) -> u64 {
        let now = self.shared.time(now);
        if self.is_own(item) { self.shared.lock().limits.left(&item.waiting, now) } else { 0 }
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
    /// let item = pace.keyed(b"", 1, now)?;
    /// assert_eq!(pace.earliest(&item, now), Some(now + Duration::from_secs(30)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_until(&self, until: Instant) {
        let until = self.shared.time(until);
        self.shared.lock().limits.pause(until);
    }

    pub(super) fn is_own(&self, item: &Item) -> bool {
        item.owner == self.shared.id
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").finish_non_exhaustive()
    }
}

/// A release that was admitted and counts. [Commit](Admission::commit) it once it has happened, or
/// [cancel](Admission::cancel) it if it did not.
///
/// Dropped, it has been used: it counts as having happened by the next instant that any method is given. Leaked
/// ([`std::mem::forget`]), it counts for ever.
#[must_use = "dropped, it has been used"]
pub struct Admission {
    shared: Arc<Shared>,
    /// Nothing once it was committed or canceled.
    item: Option<Waiting>,
    at: Time,
}

impl Admission {
    pub(super) fn new(shared: Arc<Shared>, item: Waiting, at: Time) -> Self {
        Admission { shared, item: Some(item), at }
    }

    /// Charges the release at `now`, an instant read after it, so not before it was admitted.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::{Duration, Instant};
    /// use throttle::pace::Pace;
    ///
    /// let start = Instant::now();
    /// let pace = Pace::new("1/s", start)?;
    /// let end = start + Duration::from_millis(300);
    /// pace.admit(("", 1), start)?.commit(end);
    /// let next = pace.keyed(b"", 1, end)?;
    /// assert_eq!(pace.earliest(&next, end), Some(end + Duration::from_secs(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit(mut self, now: Instant) {
        self.commit_by(now);
    }

    pub(super) fn commit_by(&mut self, now: Instant) {
        let Some(item) = self.item.take() else { return };
        let (admitted, ended) = (self.at, self.shared.time(now));
        self.shared.change(|| now, |limits| limits.finish(item, admitted, ended));
    }

    /// Takes the release back: nothing is charged.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::Pace;
    ///
    /// let now = Instant::now();
    /// let pace = Pace::new("1/h", now)?;
    /// pace.admit(("", 1), now)?.cancel(now);
    /// assert!(pace.admit(("", 1), now).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(mut self, now: Instant) {
        if let Some(item) = self.item.take() {
            self.shared.change(|| now, |limits| limits.withdraw(&item));
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.shared.lock().limits.finish_soon(item);
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}
