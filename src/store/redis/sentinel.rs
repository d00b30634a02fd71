//! Asks a sentinel for the current master.

use redis::{cmd, from_redis_value};

use super::connection::{Access, Connection};
use super::failure::ServerFailure;
use crate::config::Address;
use crate::printable::escaped;

/// The address of the master of this name. The sentinel gets the password of the servers if it asks for one.
pub(super) fn master(name: &str, sentinel: &Address, access: &Access) -> Result<Address, ServerFailure> {
    let mut question = cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name);
    let stranger = Access { server: &access.server.without_credentials(), ..*access };
    let mut connection = Connection::open(sentinel, &stranger)?;
    let mut answer = connection.ask(&question);
    if matches!(&answer, Err(error) if error.code() == Some("NOAUTH")) {
        connection = Connection::open(sentinel, access)?;
        answer = connection.ask(&question);
    }
    let answer = answer.map_err(|error| connection.failure(&error))?;
    let found: Option<(String, u16)> = from_redis_value(answer).map_err(|_| ServerFailure::nonsense())?;
    let unknown = || ServerFailure::away(format!("the sentinel knows no master '{}'", escaped(name)));
    let (host, port) = found.ok_or_else(unknown)?;
    let has_tls = matches!(sentinel, Address::Tcp { has_tls: true, .. });
    Ok(Address::Tcp { host, port, has_tls })
}
