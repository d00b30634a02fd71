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
use crate::config::{Address, Server};

/// A connection over which one question is asked at a time.
pub(super) struct Connection {
    stream: Stream,
    parser: Parser,
    patience: Patience,
    db: u32,
    has_answered: bool,
    has_replicas: bool,
}

impl Connection {
    /// Connects to `address`, and presents user and password.
    ///
    /// A name of a host that there is not is a mistake, unless the server `was_there`.
    pub(super) fn open(
        address: &Address,
        server: &Server,
        was_there: bool,
        patience: Patience,
    ) -> Result<Self, Failure> {
        let socket = Socket::open(address, patience).map_err(|error| match error {
            Unreachable::NoSuchHost(error) if !was_there => Failure::refused(error),
            Unreachable::NoSuchHost(error) | Unreachable::Io(error) => Failure::of_connecting(&error),
        })?;
        let stream = match address {
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
        let mut connection = Connection {
            stream,
            parser: Parser::new(),
            patience,
            db: server.db,
            has_answered: false,
            has_replicas: false,
        };
        connection.present(server).map_err(|error| match error.code() {
            Some(code) => Failure::of_presenting(code),
            None => connection.failure(&error),
        })?;
        if server.db > 0 {
            connection.select().map_err(|error| match error.code() {
                Some("ERR") => Failure::refused(format!("it has no database {} to select", server.db)),
                _ => connection.failure(&error),
            })?;
        }
        Ok(connection)
    }

    pub(super) fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    pub(super) fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        command.query(self)
    }

    pub(super) fn exec(&mut self, command: &Cmd) -> Result<(), Failure> {
        self.query(command).map(drop).map_err(|error| self.failure(&error))
    }

    /// Before the first booking: whether there are so many replicas, as otherwise all would be booked in vain.
    pub(super) fn ensure_replicas(&mut self, count: u32) -> Result<(), Failure> {
        if self.has_replicas || count == 0 {
            return Ok(());
        }
        match self.query(&self.wait(count)) {
            // As it is a replica itself: the booking will tell who is not.
            Err(error) if error.code() == Some("ERR") => Ok(()),
            reply => self.has_been_replicated(reply, count),
        }
    }

    /// Waits until so many replicas have all that was written by this connection.
    pub(super) fn replicate(&mut self, count: u32) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let reply = self.query(&self.wait(count));
        self.has_been_replicated(reply, count)
    }

    /// With half of the time that an answer may take.
    fn wait(&self, count: u32) -> Cmd {
        let millis = u64::try_from(self.patience.each.as_millis() / 2).unwrap_or(u64::MAX);
        cmd("WAIT").arg(count).arg(millis.max(1)).to_owned()
    }

    fn has_been_replicated(&mut self, reply: RedisResult<Value>, count: u32) -> Result<(), Failure> {
        match reply.map_err(|error| self.failure(&error))? {
            Value::Int(found) if found >= count.into() => {
                self.has_replicas = true;
                Ok(())
            }
            Value::Int(found) => {
                Err(Failure::away(format!("{found} of {count} replicas have what was booked")))
            }
            _ => Err(Failure::away("its answer makes no sense")),
        }
    }

    /// What an error means that came of this connection.
    pub(super) fn failure(&self, error: &RedisError) -> Failure {
        let may_want_tls =
            !self.has_answered && matches!(&self.stream, Stream::Plain(socket) if socket.is_tcp());
        match Failure::of(error) {
            Failure::Away(why) if may_want_tls && !error.is_timeout() => {
                Failure::Away(format!("{why}; if that port is for TLS, write rediss://"))
            }
            failure => failure,
        }
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
        let value = self.parser.parse_value(&mut self.stream);
        self.has_answered |= value.is_ok();
        value
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
