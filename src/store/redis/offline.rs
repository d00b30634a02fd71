//! Bookings without a server: the answers are already there. For tests of whatever a server may say.

use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;

use super::RedisStore;
use super::socket::Socket;
use crate::store::{Answer, Order, Store, StoreError};

/// Books by the answers that come over `streams`, one for each connection.
///
/// # Errors
/// As for booking.
pub fn book_over(
    store: &mut RedisStore,
    streams: impl IntoIterator<Item = UnixStream, IntoIter: Send + 'static>,
    order: &Order,
) -> Result<Answer, StoreError> {
    let mut streams = streams.into_iter();
    store.vault.nodes.connect_by(Box::new(move |_, patience| {
        let stream = streams.next().ok_or(Error::new(ErrorKind::NotConnected, "nobody answers"))?;
        Ok(Socket::over(stream.into(), patience.until()))
    }));
    store.book(order)
}
