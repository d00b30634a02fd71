//! What was admitted and counts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, mem};

use super::limits::Waiting;
use super::shared::{Locked, SharedPace};
use crate::time::Time;

/// A release that was admitted and counts. [Commit](Admission::commit) it once it has happened, or
/// [cancel](Admission::cancel) it if it did not.
///
/// Dropped, it has been used: it counts as having happened by the next instant that any method is given. Leaked
/// ([`std::mem::forget`]), it counts for ever.
#[must_use = "dropped, it has been used"]
pub struct Admission<'a> {
    shared: Cow<'a, Arc<SharedPace>>,
    item: Waiting,
    at: Time,
    /// It was neither committed nor canceled.
    is_open: bool,
}

impl<'a> Admission<'a> {
    pub(super) fn new(shared: &'a Arc<SharedPace>, item: Waiting, at: Time) -> Self {
        Admission { shared: Cow::Borrowed(shared), item, at, is_open: true }
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
    /// assert_eq!(pace.earliest(("", 1), end)?, Some(end + Duration::from_secs(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit(mut self, now: Instant) {
        self.end(now);
    }

    pub(super) fn end(&mut self, now: Instant) {
        if !mem::replace(&mut self.is_open, false) {
            return;
        }
        let (now, item) = (self.shared.time(now), &mut self.item);
        // It no longer waits.
        item.mark = None;
        self.shared.change(|Locked { limits, queue }, woken| {
            limits.finish(item, self.at, now);
            if !queue.is_empty() {
                queue.advance_for(item, limits, now, woken);
            }
        });
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
        self.withdraw(now);
    }

    pub(super) fn withdraw(&mut self, now: Instant) {
        if !mem::replace(&mut self.is_open, false) {
            return;
        }
        let now = self.shared.time(now);
        self.shared.change(|Locked { limits, queue }, woken| {
            limits.withdraw(&self.item, now);
            queue.advance_for(&self.item, limits, now, woken);
        });
    }

    /// The same, to be kept for longer than the [`Pace`](super::Pace) that it is of.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// use std::time::Instant;
    /// use throttle::pace::{Admission, Error, Pace};
    ///
    /// fn first(limits: &str, now: Instant) -> Result<Admission<'static>, Error> {
    ///     Ok(Pace::new(limits, now)?.admit(("", 1), now)?.into_owned())
    /// }
    /// let now = Instant::now();
    /// first("1/h", now)?.commit(now);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_owned(mut self) -> Admission<'static> {
        self.take()
    }

    /// Leaves nothing behind.
    pub(super) fn take(&mut self) -> Admission<'static> {
        let shared = Cow::Owned(Arc::clone(&self.shared));
        let is_open = mem::replace(&mut self.is_open, false);
        Admission { shared, item: mem::take(&mut self.item), at: self.at, is_open }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.shared.lock().limits.finish_soon(mem::take(&mut self.item));
        }
    }
}

impl fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}
