//! Asks a sentinel for the current master.

use redis::{RedisResult, cmd};

use super::connection::Connection;
use super::failure::{away, of_stream};
use super::socket::{Socket, Timeouts};
use crate::config::{Address, Server};
use crate::printable::escaped;

/// The address of the master of this name. The sentinel gets the password of the servers if it asks for one.
pub(super) fn master(
    name: &str,
    sentinel: &Address,
    server: &Server,
    patience: Timeouts,
) -> RedisResult<Address> {
    let ask = |server: &Server| -> RedisResult<Option<(String, u16)>> {
        let socket = Socket::open(sentinel, patience).map_err(of_stream)?;
        let mut connection = Connection::over(socket, sentinel, server, patience)?;
        cmd("SENTINEL").arg("get-master-addr-by-name").arg(name).query(&mut connection)
    };
    let found = match ask(&server.without_credentials()) {
        Err(error) if error.code() == Some("NOAUTH") => ask(server),
        found => found,
    };
    let unknown = || away(format!("the sentinel knows no master '{}'", escaped(name)));
    let (host, port) = found?.ok_or_else(unknown)?;
    let has_tls = matches!(sentinel, Address::Tcp { has_tls: true, .. });
    Ok(Address::Tcp { host, port, has_tls })
}
