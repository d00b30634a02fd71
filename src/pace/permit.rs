//! A permit, which is charged when it is dropped.

use std::time::Instant;

use super::admission::Admission;

/// Permission for one release. Drop it once the release has happened: that charges it, at the time of the drop.
///
/// What happens to a task or a thread does not matter: a permit that is dropped by a panic or with a future has been
/// used.
///
/// [Owned](Permit::into_owned), it may be kept for longer than its [`Pacer`](super::Pacer).
#[derive(Debug)]
#[must_use = "the release is charged when this is dropped"]
pub struct Permit<'a> {
    admission: Admission<'a>,
}

impl<'a> Permit<'a> {
    pub(super) fn new(admission: Admission<'a>) -> Self {
        Permit { admission }
    }

    /// Gives up the release, which has not happened: nothing is charged.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?;
    /// pacer.wait(("", 1))?.cancel();
    /// assert!(pacer.try_now(("", 1)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(mut self) {
        self.admission.withdraw(Instant::now());
    }

    /// The same, to be kept for longer than the pacer that it is of.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::{Error, Pacer, Permit};
    /// fn first(limits: &str) -> Result<Permit<'static>, Error> {
    ///     Ok(Pacer::new(limits)?.wait(("", 1))?.into_owned())
    /// }
    /// drop(first("1/h")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_owned(mut self) -> Permit<'static> {
        Permit { admission: self.admission.take() }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.admission.end(Instant::now());
    }
}
