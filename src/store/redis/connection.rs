//! A connection that can neither hang nor fill the memory, whatever the other end does.
//!
//! The crate's own connections bound neither: their timeout restarts with every byte, and an answer may have any
//! length. So only its commands and its parser are used here, over our own streams.

use redis::{
    Cmd, FromRedisValue, Parser, Pipeline, RedisError, RedisResult, Value, cmd, from_redis_value, pipe,
};

use super::failure::ServerFailure;
use super::socket::{Socket, Stream, Timeouts};
#[cfg(feature = "tls")]
use super::tls;
use crate::config::{Address, Server};

pub(super) struct Access<'a> {
    /// Holds the user and password.
    pub(super) server: &'a Server,
    pub(super) patience: Timeouts,
}

/// A connection over which one question is asked at a time.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    parser: Parser,
    pub(super) patience: Timeouts,
    /// True if it has not answered yet, perhaps because it wants TLS.
    may_want_tls: bool,
    has_replicas: bool,
    /// True if it is asked for a key that is being moved to it.
    pub(super) is_asking: bool,
}

impl Connection {
    /// Connects to `address` and presents user and password.
    pub(super) fn open(address: &Address, access: &Access) -> Result<Self, ServerFailure> {
        let socket = Socket::open(address, access.patience)?;
        match address {
            #[cfg(feature = "tls")]
            Address::Tcp { host, has_tls: true, .. } => {
                Connection::over(tls::handshake(host, socket)?, false, access)
            }
            Address::Tcp { .. } => Connection::over(socket, true, access),
            Address::Unix(_) => Connection::over(socket, false, access),
        }
    }

    /// Uses an open stream to a server, and presents user and password.
    pub(super) fn over(
        stream: impl Stream + 'static,
        may_want_tls: bool,
        &Access { server, patience, .. }: &Access,
    ) -> Result<Self, ServerFailure> {
        let mut connection = Connection {
            stream: Box::new(stream),
            parser: Parser::new(),
            patience,
            may_want_tls,
            has_replicas: false,
            is_asking: false,
        };
        if server.has_credentials() {
            let mut login = cmd("AUTH");
            login.arg(&server.user).arg(server.password.as_deref().unwrap_or_default());
            connection.ask(&login).map_err(|error| match error.code() {
                Some(code) => ServerFailure::of_presenting(code),
                None => connection.failure(&error),
            })?;
        }
        if server.db > 0 {
            connection.ask(cmd("SELECT").arg(server.db)).map_err(|error| match error.code() {
                Some("ERR") => ServerFailure::refused(format!("it has no database {} to select", server.db)),
                _ => connection.failure(&error),
            })?;
        }
        Ok(connection)
    }

    pub(super) fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut commands = pipe();
        if self.is_asking {
            commands.cmd("ASKING");
        }
        let mut values = self.ask_all(commands.add_command(command.clone()))?;
        values.pop().unwrap_or(Value::Nil).extract_error()
    }

    pub(super) fn ask_all(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        self.stream.socket().expect_answer(self.patience.until());
        self.stream.write_all(&commands.get_packed_pipeline()).and_then(|()| self.stream.flush())?;
        let receive = |_| self.parser.parse_value(&mut self.stream);
        let values = (0..commands.len()).map(receive).collect::<RedisResult<_>>()?;
        self.may_want_tls = false;
        Ok(values)
    }

    /// Asks a question to which an answer of another type makes no sense.
    pub(super) fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, ServerFailure> {
        let value = self.ask(command).map_err(|error| self.failure(&error))?;
        from_redis_value(value).map_err(|_| ServerFailure::nonsense())
    }

    /// Waits until `count` replicas have everything that was written by this connection. Before anything `is_written`,
    /// checks once that there are enough, as otherwise all would be booked in vain.
    pub(super) fn replicate(&mut self, count: u32, is_written: bool) -> Result<(), ServerFailure> {
        if count == 0 || (self.has_replicas && !is_written) {
            return Ok(());
        }
        // Half of the time allowed for an answer.
        let millis = u64::try_from(self.patience.each.as_millis() / 2).unwrap_or(u64::MAX);
        match self.ask(cmd("WAIT").arg(count).arg(millis.max(1))) {
            Ok(Value::Int(found)) if found >= count.into() => {
                self.has_replicas = true;
                Ok(())
            }
            Ok(Value::Int(found)) => {
                Err(ServerFailure::away(format!("only {found} of {count} replicas have the bookings")))
            }
            Ok(_) => Err(ServerFailure::nonsense()),
            // A replica answers like this. The booking will name its master.
            Err(error) if !is_written && error.code() == Some("ERR") => Ok(()),
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// The failure that an error of this connection means.
    pub(super) fn failure(&self, error: &RedisError) -> ServerFailure {
        match ServerFailure::of(error) {
            ServerFailure::Away(why) if self.may_want_tls && !error.is_timeout() => {
                ServerFailure::Away(format!("{why}; if that port is for TLS, write rediss://"))
            }
            failure => failure,
        }
    }
}
