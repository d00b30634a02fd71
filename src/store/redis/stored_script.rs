//! A script that servers keep, and that is called by its digest.

use redis::{Cmd, ErrorKind, RedisError, Script, ServerErrorKind, Value, cmd};

use super::connection::Connection;
use super::failure::ServerFailure;

const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);

pub(super) struct StoredScript {
    code: String,
    digest: String,
}

impl StoredScript {
    pub(super) fn new(code: String) -> Self {
        let digest = Script::new(&code).get_hash().to_owned();
        StoredScript { code, digest }
    }

    /// A call for `key`, without arguments yet.
    pub(super) fn call(&self, key: &[u8]) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.digest).arg(1).arg(key);
        call
    }

    /// Sends a call; and the script, to a server that does not have it.
    pub(super) fn ask(&self, connection: &mut Connection, call: &Cmd) -> Result<Value, ServerFailure> {
        let mut value = connection.ask(call);
        if value.as_ref().is_err_and(|error: &RedisError| error.kind() == NO_SCRIPT) {
            // Its reply does not matter: the next answer shows whether it has the script.
            let loaded = connection.ask(&self.load());
            value = loaded.and_then(|_| connection.ask(call));
        }
        value.map_err(|error| connection.failure(&error))
    }

    /// The command that sends the script, for calls that are made in another way.
    pub(super) fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(&self.code);
        load
    }
}
