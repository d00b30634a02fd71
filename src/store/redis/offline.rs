//! Bookings without a server: the answers are already there. For tests of whatever a server may say.

use std::any::Any;
use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;

use super::ServerVault;
use super::socket::Socket;
use crate::store::{Answer, Order, Store, StoreError, VaultStore};

/// Books by the answers that come over `streams`, one for each connection.
///
/// # Errors
/// As for booking.
pub fn book_over(
    store: &mut VaultStore,
    streams: impl IntoIterator<Item = UnixStream, IntoIter: Send + 'static>,
    order: &Order,
) -> Result<Answer, StoreError> {
    let mut streams = streams.into_iter();
    let vault = <dyn Any>::downcast_mut::<ServerVault>(&mut *store.vault).expect("one on a server");
    vault.client.nodes.connect_by(Box::new(move |_, patience| {
        let stream = streams.next().ok_or(Error::new(ErrorKind::NotConnected, "nobody answers"))?;
        Ok(Socket::over(stream.into(), patience.until()))
    }));
    store.book(order)
}
