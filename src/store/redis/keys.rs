//! The keys that a server keeps for a name.

use redis::{RedisResult, cmd};

use super::connection::Connection;

/// The number of keys looked at in one step, so that none takes the server long.
const STEP: u32 = 1000;

/// The keys of a name that a node keeps, some of them perhaps more than once.
pub(super) fn kept(connection: &mut Connection, name: &str) -> RedisResult<Vec<Vec<u8>>> {
    let mut scan = cmd("SCAN");
    scan.cursor_arg(0).arg("MATCH").arg(pattern(name)).arg("COUNT").arg(STEP);
    let keys: Vec<Vec<u8>> = scan.iter(connection)?.collect::<RedisResult<_>>()?;
    Ok(keys.iter().filter_map(|key| limits_key(key, name)).map(<[u8]>::to_owned).collect())
}

/// The key under which the value of a key of a name is kept.
pub(super) fn redis_key(name: &str, key: &[u8]) -> Vec<u8> {
    let slash = if key.is_empty() { "" } else { "/" };
    [b"throttle:", name.as_bytes(), slash.as_bytes(), key].concat()
}

/// A pattern that finds the keys of a name, and others, as it has a wildcard for each special character.
fn pattern(name: &str) -> String {
    format!("throttle:{}*", name.replace(|c| "*?[]\\^-".contains(c), "?"))
}

/// The key of a name whose value is kept under `key`.
fn limits_key<'k>(key: &'k [u8], name: &str) -> Option<&'k [u8]> {
    let rest = key.strip_prefix(redis_key(name, b"").as_slice())?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
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
        assert_eq!(keys.map(|key| limits_key(key.as_bytes(), "web").is_some()), [true, true, false, false]);
    }
}
