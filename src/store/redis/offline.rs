//! Bookings without a server: the answers are there already. For tests of what a server may say.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::RedisStore;
use super::connection::{Connection, Stream};
use super::failure::Failure;
use super::socket::{Patience, Socket};
use crate::exit::Exit;
use crate::store::{Answer, Order, StoreError};

impl RedisStore {
    /// Books by the answers that come over `stream`, and asks once only.
    ///
    /// # Errors
    /// As for booking; [`Exit::StoreAway`] where booking would try again.
    pub fn book_over(&mut self, stream: UnixStream, order: &Order) -> Result<Answer, StoreError> {
        let answer = self.attempt_over(stream, order);
        self.connection = None;
        answer.map_err(|failure| match failure {
            Failure::Final(error) => error,
            Failure::Away(why) => StoreError { exit: Exit::StoreAway, error: anyhow!(why) },
        })
    }

    fn attempt_over(&mut self, stream: UnixStream, order: &Order) -> Result<Answer, Failure> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let patience = Patience { each: PATIENCE, end: Instant::now() + PATIENCE };
        let socket = Socket::over(stream, patience.until());
        self.connection = Some(Connection::over(Stream::Plain(socket), &self.server, patience)?);
        self.attempt(order, patience)
    }
}
