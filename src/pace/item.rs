//! What is asked for: an item, or a key and a cost.

use std::borrow::Cow;

use super::limits::Waiting;
use super::shared::SharedPace;
use super::{Error, ErrorKind};
use crate::time::Time;

/// The charges of a request under the limits of one [`Pace`], and the instant from which it waits.
///
/// Made by [`Pace::item`], [`Pace::keyed`] and [`Pace::named`], or the same methods of a [`Pacer`](super::Pacer).
///
/// [`Pace`]: super::Pace
/// [`Pace::item`]: super::Pace::item
/// [`Pace::keyed`]: super::Pace::keyed
/// [`Pace::named`]: super::Pace::named
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
    #[doc(hidden)]
    type Key: AsRef<[u8]>;

    #[doc(hidden)]
    fn asked(self) -> Asked<'a, Self::Key>;
}

/// An item, or a key and a cost.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asked<'a, K> {
    Item(Cow<'a, Item>),
    Values(K, u64),
}

impl<'a> Ask<'a> for Item {
    type Key = [u8; 0];

    fn asked(self) -> Asked<'a, [u8; 0]> {
        Asked::Item(Cow::Owned(self))
    }
}

impl<'a> Ask<'a> for &'a Item {
    type Key = [u8; 0];

    fn asked(self) -> Asked<'a, [u8; 0]> {
        Asked::Item(Cow::Borrowed(self))
    }
}

impl<'a, K: AsRef<[u8]>> Ask<'a> for (K, u64) {
    type Key = K;

    fn asked(self) -> Asked<'a, K> {
        Asked::Values(self.0, self.1)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Item {}
    impl Sealed for &super::Item {}
    impl<K: AsRef<[u8]>> Sealed for (K, u64) {}
}

impl<'a, K: AsRef<[u8]>> Asked<'a, K> {
    /// True if it is a key with a cost of 1, which waits from now on.
    pub(super) fn is_one(&self) -> bool {
        matches!(self, Asked::Values(_, 1))
    }

    /// What waits, from `now` on if it is new.
    pub(super) fn waiting(self, shared: &SharedPace, now: Time) -> Result<Cow<'a, Waiting>, Error> {
        match self {
            Asked::Values(key, cost) => {
                let charges = shared.values.of(key.as_ref(), cost)?;
                Ok(Cow::Owned(shared.waiting(charges, now)))
            }
            Asked::Item(item) if item.owner != shared.id => Err(ErrorKind::ForeignItem.into()),
            Asked::Item(Cow::Owned(item)) => Ok(Cow::Owned(item.waiting)),
            Asked::Item(Cow::Borrowed(item)) => Ok(Cow::Borrowed(&item.waiting)),
        }
    }
}
