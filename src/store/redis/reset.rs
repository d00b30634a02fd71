//! Forgetting all that a server keeps under a name.

use std::time::Duration;

use redis::{ConnectionLike, RedisResult, cmd, pipe};

use super::connection::Connection;
use super::failure::Failure;
use super::nodes::Nodes;
use super::retries::persist;
use super::script::redis_key;
use crate::config::Server;
use crate::store::StoreError;

/// So many keys are looked at in one step: none takes the server long.
const STEP: u32 = 1000;

/// Forgets all that is kept under the name of `server`, tried for as long as `timeout`. Processes that use it notice, and
/// are silent for one window.
///
/// # Errors
/// As for booking.
pub(in super::super) fn reset(server: &Server, timeout: Duration) -> Result<(), StoreError> {
    let mut nodes = Nodes::new(server.clone());
    persist(server, timeout, drop, |patience| {
        nodes.ask_all(patience, |connection| forget(connection, server.name()))
    })
}

fn forget(connection: &mut Connection, name: &str) -> Result<(), Failure> {
    let pattern = format!("throttle:{}*", escaped(name));
    let mut cursor = 0;
    loop {
        let step = cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP).to_owned();
        let found = step.query(connection).map_err(|error| connection.failure(&error))?;
        let (next, keys): (u64, Vec<Vec<u8>>) = found;
        unlink(connection, keys.iter().filter(|key| is_of(key, name)))
            .map_err(|error| connection.failure(&error))?;
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

/// One by one, but all at once: a cluster takes no command for keys of several slots.
fn unlink<'a>(connection: &mut Connection, keys: impl Iterator<Item = &'a Vec<u8>>) -> RedisResult<()> {
    let mut commands = pipe();
    keys.for_each(|key| _ = commands.cmd("UNLINK").arg(key));
    let replies = connection.req_packed_commands(&commands.get_packed_pipeline(), 0, commands.len())?;
    replies.into_iter().try_for_each(|reply| reply.extract_error().map(drop))
}

/// Whether it is the key of a name, or begins with it.
fn is_of(key: &[u8], name: &str) -> bool {
    let after = key.strip_prefix(redis_key(name, b"").as_slice());
    after.is_some_and(|after| after.is_empty() || after.starts_with(b"/"))
}

/// A name as it is, in a pattern.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if "*?[]\\^-".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_itself_in_a_pattern() {
        assert_eq!(escaped("throttle:{a*b[c]?}"), "throttle:{a\\*b\\[c\\]\\?}");
    }

    #[test]
    fn a_name_is_not_the_one_that_it_begins() {
        let keys = ["throttle:web", "throttle:web/k/", "throttle:web2", "throttle:we"];
        assert_eq!(keys.map(|key| is_of(key.as_bytes(), "web")), [true, true, false, false]);
    }
}
