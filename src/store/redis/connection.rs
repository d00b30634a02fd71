//! A connection that can neither hang nor fill the memory, whatever the other end does.
//!
//! The crate's own connections bound neither: their timeout restarts with every byte, and an answer may have any
//! length. Nor can they be cut off from outside, as they do not give away their socket. So the crate's commands run
//! over our own streams.

use redis::{
    Cmd, ConnectionLike, ErrorKind, FromRedisValue, Parser, RedisError, RedisResult, ServerErrorKind, Value,
    cmd, from_redis_value,
};

use super::failure::{away, meaning, of_presenting, of_stream, refused};
use super::socket::{Socket, Stream, Timeouts};
#[cfg(feature = "tls")]
use super::tls;
use crate::config::{Address, Server};
use crate::exit::Exit;

const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);

/// A connection over which one question is asked at a time.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    parser: Parser,
    pub(super) patience: Timeouts,
    /// Whether it is encrypted, until it has answered: perhaps the other end wants the opposite.
    may_want: Option<bool>,
    has_replicas: bool,
}

impl Connection {
    /// Uses a socket that is connected to `address`, and presents the user and password of `server`.
    pub(super) fn over(
        socket: Socket,
        address: &Address,
        server: &Server,
        patience: Timeouts,
    ) -> RedisResult<Self> {
        let (stream, may_want): (Box<dyn Stream>, _) = match address {
            #[cfg(feature = "tls")]
            Address::Tcp { host, has_tls: true, .. } => (Box::new(tls::encrypted(host, socket)?), Some(true)),
            Address::Tcp { .. } => (Box::new(socket), Some(false)),
            Address::Unix(_) => (Box::new(socket), None),
        };
        let mut connection =
            Connection { stream, parser: Parser::new(), patience, may_want, has_replicas: false };
        if server.has_credentials() {
            let mut login = cmd("AUTH");
            login.arg(&server.user).arg(server.password.as_deref().unwrap_or_default());
            login.exec(&mut connection).map_err(of_presenting)?;
        }
        if server.db > 0 {
            let select = cmd("SELECT").arg(server.db).exec(&mut connection);
            select.map_err(|error| match error.code() {
                Some("ERR") => refused(format!("it has no database {} to select", server.db)),
                _ => error,
            })?;
        }
        Ok(connection)
    }

    /// Sends calls of a script, together; and the script, to a server that does not have it.
    pub(super) fn call_each<T: FromRedisValue>(
        &mut self,
        code: &str,
        calls: &[Cmd],
    ) -> RedisResult<Vec<RedisResult<T>>> {
        let mut answers = self.send_each(calls)?;
        let lacks_script =
            |answer: &RedisResult<T>| matches!(answer, Err(error) if error.kind() == NO_SCRIPT);
        if answers.iter().any(lacks_script) {
            // Its reply does not matter: the next answer shows whether it has the script.
            cmd("SCRIPT").arg("LOAD").arg(code).exec(self)?;
            let again: Vec<_> = (0..calls.len()).filter(|&at| lacks_script(&answers[at])).collect();
            let calls: Vec<_> = again.iter().map(|&at| calls[at].clone()).collect();
            again.into_iter().zip(self.send_each(&calls)?).for_each(|(at, answer)| answers[at] = answer);
        }
        Ok(answers)
    }

    fn send_each<T: FromRedisValue>(&mut self, calls: &[Cmd]) -> RedisResult<Vec<RedisResult<T>>> {
        let packed: Vec<u8> = calls.iter().flat_map(Cmd::get_packed_command).collect();
        let answers = self.req_packed_commands(&packed, 0, calls.len())?;
        Ok(answers
            .into_iter()
            .map(|answer| from_redis_value(answer.extract_error()?).map_err(Into::into))
            .collect())
    }

    /// Waits until `count` replicas have everything that was written by this connection. Before anything `is_written`,
    /// checks once that there are enough, as otherwise all would be booked in vain.
    pub(super) fn replicate(&mut self, count: u32, is_written: bool) -> RedisResult<()> {
        if count == 0 || (self.has_replicas && !is_written) {
            return Ok(());
        }
        // Half of the time allowed for an answer.
        let millis = u64::try_from(self.patience.each.as_millis() / 2).unwrap_or(u64::MAX);
        let found = cmd("WAIT").arg(count).arg(millis.max(1)).query::<u32>(self);
        match found {
            Ok(found) if found < count => {
                Err(away(format!("only {found} of {count} replicas have the bookings")))
            }
            // A replica answers like this. The booking will name its master.
            Err(error) if is_written || error.code() != Some("ERR") => Err(error),
            found => {
                self.has_replicas = found.is_ok();
                Ok(())
            }
        }
    }

    /// An error in the stream, with its meaning.
    fn explained(&self, error: &RedisError) -> RedisError {
        let (exit, mut why) = meaning(error);
        if error.kind() == ErrorKind::Parse {
            "its reply is not in the protocol of Redis".clone_into(&mut why);
        }
        match self.may_want {
            _ if exit == Exit::BadStore => refused(why),
            Some(false) if !error.is_timeout() => {
                away(format!("{why}; if that port is for TLS, write rediss://"))
            }
            Some(true) => away(format!("{why}; if that port has no TLS, write redis://")),
            _ => away(why),
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        Ok(self.req_packed_commands(command, 0, 1)?.pop().unwrap_or(Value::Nil))
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let Connection { stream, parser, .. } = self;
        stream.socket().expect_answer(self.patience.until());
        let sent = stream.write_all(commands).and_then(|()| stream.flush());
        let receive = |()| (0..offset + count).map(|_| parser.parse_value(&mut *stream)).collect();
        let answers: RedisResult<Vec<_>> = sent.map_err(of_stream).and_then(receive);
        let mut answers = answers.map_err(|error| self.explained(&error))?;
        self.may_want = None;
        Ok(answers.split_off(offset))
    }

    // The rest is for pools of connections. Here, one that fails is dropped.

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        true
    }

    fn is_open(&self) -> bool {
        true
    }
}
