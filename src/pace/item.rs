//! What is asked for: an item, or a key and a cost.

use std::borrow::Cow;
use std::time::Instant;

use super::limits::Waiting;
use super::{Error, Pace};

/// The charges of a request under the limits of one [`Pace`], and the instant from which it waits.
///
/// Made by [`Pace::item`], [`Pace::keyed`] and [`Pace::named`], or the same methods of a [`Pacer`](super::Pacer).
#[derive(Clone, Debug)]
pub struct Item {
    /// The limits that it was made for.
    pub(super) owner: u64,
    pub(super) waiting: Waiting,
}

/// What may be asked for: an [`Item`], or a pair of a key and a cost.
///
/// ```
/// # fn main() -> Result<(), throttle::pace::Error> {
/// use throttle::pace::Pacer;
///
/// let pacer = Pacer::new("100/s,key=col:1")?;
/// drop(pacer.wait(("alice", 3))?);
/// let item = pacer.item(b"bob")?;
/// drop(pacer.wait(&item)?);
/// # Ok(())
/// # }
/// ```
pub trait Ask<'a>: sealed::Sealed {
    /// The item, which waits from `since` on if it is new.
    #[doc(hidden)]
    fn into_item(self, pace: &Pace, since: Instant) -> Result<Cow<'a, Item>, Error>;

    /// True if it is a key with a cost of 1, which waits from now on.
    #[doc(hidden)]
    fn is_one(&self) -> bool {
        false
    }
}

impl<'a> Ask<'a> for Item {
    fn into_item(self, _pace: &Pace, _since: Instant) -> Result<Cow<'a, Item>, Error> {
        Ok(Cow::Owned(self))
    }
}

impl<'a> Ask<'a> for &'a Item {
    fn into_item(self, _pace: &Pace, _since: Instant) -> Result<Cow<'a, Item>, Error> {
        Ok(Cow::Borrowed(self))
    }
}

impl<'a, K: AsRef<[u8]>> Ask<'a> for (K, u64) {
    fn into_item(self, pace: &Pace, since: Instant) -> Result<Cow<'a, Item>, Error> {
        pace.keyed(self.0.as_ref(), self.1, since).map(Cow::Owned)
    }

    fn is_one(&self) -> bool {
        self.1 == 1
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Item {}
    impl Sealed for &super::Item {}
    impl<K: AsRef<[u8]>> Sealed for (K, u64) {}
}
