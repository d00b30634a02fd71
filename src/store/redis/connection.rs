//! A connection that cannot hang and cannot fill the memory, whatever the other end does.
//!
//! The crate's own connections bound neither: their timeout begins anew with every byte, and an answer may be of any
//! length. So only its commands and its parser are used here, over streams of our own.

use std::io::{self, Read, Write};

use redis::{Cmd, ConnectionLike, Parser, RedisError, RedisResult, Value, cmd};

use super::failure::Failure;
use super::socket::{Patience, Socket, Unreachable};
#[cfg(feature = "tls")]
use super::tls;
#[cfg(feature = "tls")]
use crate::config::Address;
use crate::config::Server;

/// A connection over which one question is asked at a time.
pub(super) struct Connection {
    stream: Stream,
    parser: Parser,
    patience: Patience,
    db: u32,
}

impl Connection {
    /// Connects, and presents user and password.
    ///
    /// A name of a host that there is not is a mistake, unless the server `was_there`.
    pub(super) fn open(server: &Server, was_there: bool, patience: Patience) -> Result<Self, Failure> {
        let socket = Socket::open(&server.address, patience).map_err(|error| match error {
            Unreachable::NoSuchHost(error) if !was_there => Failure::refused(error),
            Unreachable::NoSuchHost(error) | Unreachable::Io(error) => Failure::of_connecting(&error),
        })?;
        let stream = match &server.address {
            #[cfg(feature = "tls")]
            Address::Tcp { host, has_tls: true, .. } => {
                Stream::Tls(Box::new(tls::shake_hands(host, socket)?))
            }
            _ => Stream::Plain(socket),
        };
        Connection::over(stream, server, patience)
    }

    /// To whoever is at the other end of a stream: presents user and password.
    pub(super) fn over(stream: Stream, server: &Server, patience: Patience) -> Result<Self, Failure> {
        let mut connection = Connection { stream, parser: Parser::new(), patience, db: server.db };
        connection.present(server).map_err(|error| Failure::of_presenting(&error))?;
        if server.db > 0 {
            connection.select().map_err(|error| match error.code() {
                Some("ERR") => Failure::refused(format!("it has no database {} to select", server.db)),
                _ => Failure::of(&error),
            })?;
        }
        Ok(connection)
    }

    pub(super) fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    pub(super) fn ping(&mut self) -> Result<(), Failure> {
        cmd("PING").exec(self).map_err(|error| Failure::of(&error))
    }

    fn present(&mut self, server: &Server) -> RedisResult<()> {
        let password = server.password.as_deref().unwrap_or_default();
        match &server.user {
            Some(user) => cmd("AUTH").arg(user).arg(password).exec(self),
            None if server.has_password() => cmd("AUTH").arg(password).exec(self),
            None => Ok(()),
        }
    }

    fn select(&mut self) -> RedisResult<()> {
        cmd("SELECT").arg(self.db).exec(self)
    }

    fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.stream)
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.req_packed_commands(command, 0, 1)?.pop().unwrap_or(Value::Nil).extract_error()
    }

    fn req_packed_commands(&mut self, commands: &[u8], skip: usize, count: usize) -> RedisResult<Vec<Value>> {
        let until = self.patience.until();
        self.stream.socket().expect_answer(until);
        self.stream.write_all(commands).and_then(|()| self.stream.flush()).map_err(RedisError::from)?;
        for _ in 0..skip {
            self.receive()?;
        }
        (0..count).map(|_| self.receive()).collect()
    }

    fn get_db(&self) -> i64 {
        self.db.into()
    }

    fn check_connection(&mut self) -> bool {
        Cmd::new().arg("PING").exec(self).is_ok()
    }

    fn is_open(&self) -> bool {
        true
    }
}

/// What bytes go through, encrypted or not.
pub(super) enum Stream {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Tls(Box<tls::Encrypted>),
}

impl Stream {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Stream::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Stream::Tls(encrypted) => &mut encrypted.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            #[cfg(feature = "tls")]
            Stream::Tls(encrypted) => encrypted.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(encrypted) => encrypted.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            #[cfg(feature = "tls")]
            Stream::Tls(encrypted) => encrypted.flush(),
        }
    }
}
