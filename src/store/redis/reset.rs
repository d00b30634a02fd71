//! Forgetting all that a server keeps under a name.

use std::time::Duration;

use redis::cmd;

use super::connection::Connection;
use super::failure::Failure;
use super::retries::persist;
use super::socket::Patience;
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
    persist(server, timeout, |patience| forget(server, patience))
}

fn forget(server: &Server, patience: Patience) -> Result<(), Failure> {
    let mut connection = Connection::open(server, false, patience)?;
    let away = |error: redis::RedisError| Failure::of(&error);
    let kept = format!("throttle:{{{}}}", server.name());
    cmd("UNLINK").arg(&kept).exec(&mut connection).map_err(away)?;
    let pattern = format!("{}:*", escaped(&kept));
    let mut cursor = 0;
    loop {
        let step = cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP).to_owned();
        let (next, keys): (u64, Vec<Vec<u8>>) = step.query(&mut connection).map_err(away)?;
        if !keys.is_empty() {
            cmd("UNLINK").arg(keys).exec(&mut connection).map_err(away)?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
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
}
