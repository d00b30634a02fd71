//! Bookings without a server: the answers are already there. For tests of whatever a server may say.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::RedisStore;
use super::connection::Connection;
use super::failure::ServerFailure;
use super::socket::{Socket, Timeouts};
use crate::store::{Answer, Order, Store, StoreError};

/// The wait for an answer, which is already there or will never come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Books by the answers that come over `streams`, one for each connection. Asks only once.
///
/// # Errors
/// As for booking; [`Exit::StoreAway`](crate::exit::Exit::StoreAway) where booking would try again.
pub fn book_over(
    store: &mut RedisStore,
    streams: impl IntoIterator<Item = UnixStream, IntoIter: Send + 'static>,
    order: &Order,
) -> Result<Answer, StoreError> {
    let mut streams = streams.into_iter();
    store.vault.nodes.connect_by(Box::new(move |_, access| {
        let stream = streams.next().ok_or_else(|| ServerFailure::away("nobody answers"))?;
        Connection::over(Socket::over(stream.into(), access.patience.until()), false, access)
    }));
    store.vault.once = Some(Timeouts::within(PATIENCE));
    store.book(order)
}
