//! The keys that a server keeps for a name.

use redis::{Cmd, Value, cmd, pipe};

use super::connection::Connection;
use super::failure::ServerFailure;
use super::script::redis_key;

/// The number of keys looked at in one step, so that none takes the server long.
const STEP: u32 = 1000;

/// Sends a command for each key of a name that a node keeps. Calls `hear` with the key and the reply, for some keys
/// perhaps more than once.
pub(super) fn for_each_key(
    connection: &mut Connection,
    name: &str,
    command: impl Fn(&[u8]) -> Cmd,
    mut hear: impl FnMut(Vec<u8>, Value),
) -> Result<(), ServerFailure> {
    let pattern = pattern(name);
    let mut cursor = 0;
    loop {
        let mut step = cmd("SCAN");
        step.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
        let (next, keys): (u64, Vec<Vec<u8>>) = connection.query(&step)?;
        // One command for each, but all at once: a cluster takes no command for keys of several slots.
        let mut commands = pipe();
        let ours: Vec<_> = keys.into_iter().filter(|key| is_of(key, name)).collect();
        ours.iter().for_each(|key| _ = commands.add_command(command(key)));
        let replies = connection.ask_all(&commands).map_err(|error| connection.failure(&error))?;
        for (key, reply) in ours.into_iter().zip(replies) {
            hear(key, reply.extract_error().map_err(|error| connection.failure(&error))?);
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

/// A pattern that finds the keys of a name, and others, as it has a wildcard for each special character.
fn pattern(name: &str) -> String {
    format!("throttle:{}*", name.replace(|c| "*?[]\\^-".contains(c), "?"))
}

/// True of the key of a name, and of the keys of its limits.
fn is_of(key: &[u8], name: &str) -> bool {
    key == redis_key(name, b"") || limits_key(key, name).is_some()
}

/// The key of limits whose state is kept under `key`.
pub(super) fn limits_key<'k>(key: &'k [u8], name: &str) -> Option<&'k [u8]> {
    key.strip_prefix(redis_key(name, b"").as_slice())?.strip_prefix(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_special_in_a_pattern() {
        assert_eq!(pattern("a*b[c-d]?\\"), "throttle:a?b?c?d???*");
    }

    #[test]
    fn a_name_is_not_the_one_that_it_begins() {
        let keys = ["throttle:web", "throttle:web/k/", "throttle:web2", "throttle:we"];
        assert_eq!(keys.map(|key| is_of(key.as_bytes(), "web")), [true, true, false, false]);
    }
}
