//! The keeper of a key: the only server, or the nodes of a cluster, any of which may be named.
//!
//! A node that does not keep a key names the one that does. The map of slots, which is requested on connecting to the
//! named node, only serves to know other nodes after a fail-over, and to find all keys.
//!
//! The crate's own cluster connection knows no way back if the master that it asks has failed: it reads the map again
//! only when a node that answers tells it to. Nor does it say which node has answered, and slots depend on the clock of
//! that node.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError, RedisResult, Value, cmd, from_redis_value_ref};

use super::connection::Connection;
use super::failure::{away, meaning, of_stream};
use super::sentinel;
use super::socket::{Socket, Timeouts};
use crate::config::{Address, Server};
use crate::exit::Exit;
use crate::printable::escaped;

/// The most times that one question is redirected.
const REDIRECTS: usize = 5;

/// More than any cluster has: the largest have a thousand.
const MAX_NODES: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct NodeId(usize);

struct Node {
    address: Address,
    connection: Option<Connection>,
}

/// The known nodes. The first is the one that was named.
pub(super) struct Nodes {
    pub(super) server: Server,
    /// The timeouts of the questions that follow.
    pub(super) patience: Timeouts,
    known: Vec<Node>,
    /// The node to ask for a key whose keeper is not known.
    entry: NodeId,
    dial: Dial,
}

/// Connects to an address, as [`Socket::open`] does.
pub(super) type Dial = Box<dyn FnMut(&Address, Timeouts) -> io::Result<Socket> + Send>;

impl Nodes {
    pub(super) fn new(server: Server) -> Self {
        let named = Node { address: server.address.clone(), connection: None };
        let patience = Timeouts { each: Duration::ZERO, end: Instant::now() };
        let dial = Box::new(Socket::open);
        Nodes { server, patience, known: vec![named], entry: NodeId(0), dial }
    }

    /// Connects in this way from now on, even to nodes that it was connected to.
    pub(super) fn connect_by(&mut self, dial: Dial) {
        self.known.iter_mut().for_each(|node| node.connection = None);
        self.dial = dial;
    }

    /// Asks the node that keeps a key: the last known `keeper`, unless it was lost, or whichever is named instead.
    pub(super) fn ask<T>(
        &mut self,
        keeper: Option<NodeId>,
        mut question: impl FnMut(NodeId, &mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let keeper = keeper.filter(|node| self.known[node.0].connection.is_some());
        let (mut node, mut is_asking) = (keeper.map_or_else(|| self.enter(), Ok)?, false);
        for _ in 0..=REDIRECTS {
            let answer = self.ask_node(node, |connection| {
                if is_asking {
                    cmd("ASKING").exec(connection)?;
                }
                question(node, connection)
            });
            let Err(error) = &answer else { return answer };
            let Some((name, _)) = error.redirect_node() else { return answer };
            node = self.node_at(node, name)?;
            // While the key is being moved. That is for one command: if the script was sent first, it is asked again.
            is_asking = error.code() == Some("ASK");
        }
        Err(away("its nodes redirect to each other"))
    }

    /// Asks each node that keeps keys.
    pub(super) fn ask_all<T>(
        &mut self,
        mut question: impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<Vec<T>> {
        let masters = self.learn()?;
        masters.into_iter().map(|node| self.ask_node(node, &mut question)).collect()
    }

    /// The node to ask for a key whose keeper is not known.
    fn enter(&mut self) -> RedisResult<NodeId> {
        if self.known[self.entry.0].connection.is_none() {
            self.ask_node(self.entry, |_| Ok(()))?;
            // Without the permission to ask for the others, they are learned from redirections.
            self.learn().map(drop).or_else(|error| match meaning(&error) {
                (Exit::StoreAway, _) => Err(error),
                _ => Ok(()),
            })?;
        }
        Ok(self.entry)
    }

    fn ask_node<T>(
        &mut self,
        node: NodeId,
        question: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let answer = self.connect(node).and_then(question);
        answer.map_err(|error| match meaning(&error) {
            (Exit::StoreAway, why) if error.redirect_node().is_none() => self.lose(node, why),
            _ => error,
        })
    }

    fn connect(&mut self, node: NodeId) -> RedisResult<&mut Connection> {
        let Nodes { server, patience, known, dial, .. } = self;
        let Node { address, connection } = &mut known[node.0];
        if connection.is_none() {
            let address = match &server.master {
                Some(master) => &sentinel::master(master, address, server, *patience)?,
                None => address,
            };
            let socket = dial(address, *patience).map_err(of_stream)?;
            *connection = Some(Connection::over(socket, address, server, *patience)?);
        }
        let connection = connection.as_mut().expect("it was opened");
        connection.patience = *patience;
        Ok(connection)
    }

    /// Closes the connection to a node that failed. If it was the entry, the next node is from now on.
    fn lose(&mut self, node: NodeId, why: String) -> RedisError {
        self.known[node.0].connection = None;
        if self.entry == node {
            self.entry = NodeId((node.0 + 1) % self.known.len());
        }
        match &self.known[node.0].address {
            Address::Tcp { host, port, .. } if self.known.len() > 1 => {
                away(format!("node {}:{port}: {why}", escaped(host)))
            }
            _ => away(why),
        }
    }

    /// Learns the other nodes from the entry. Returns those that keep keys.
    fn learn(&mut self) -> RedisResult<BTreeSet<NodeId>> {
        let teller = self.entry;
        let ranges = self.ask_node(teller, |connection| {
            match cmd("CLUSTER").arg("SLOTS").query::<Vec<Vec<Value>>>(connection) {
                // It is not in a cluster.
                Err(error) if error.code() == Some("ERR") || error.kind() == ErrorKind::Parse => {
                    Ok(Vec::new())
                }
                ranges => ranges,
            }
        })?;
        let mut masters = BTreeSet::new();
        for range in ranges {
            // The first and last slot, their master, and its replicas.
            for (number, name) in range.iter().skip(2).filter_map(read_name).enumerate() {
                let node = self.node_at(teller, &name)?;
                masters.extend((number == 0).then_some(node));
            }
        }
        if masters.is_empty() {
            masters.insert(teller);
        }
        Ok(masters)
    }

    /// The node that `teller` calls HOST:PORT; the host may be missing.
    pub(super) fn node_at(&mut self, teller: NodeId, name: &str) -> RedisResult<NodeId> {
        let parts = name.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| away("it redirects without an address"))?;
        let (here, has_tls) = match &self.known[teller.0].address {
            Address::Tcp { host, has_tls, .. } => (host.as_str(), *has_tls),
            Address::Unix(_) => ("127.0.0.1", false),
        };
        // A node that does not know its own address sends no host, or `?`.
        let host = if host.is_empty() || host == "?" { here } else { host };
        let address = Address::Tcp { host: host.to_owned(), port, has_tls };
        let number = self.known.iter().position(|node| node.address == address);
        if number.is_none() && self.known.len() == MAX_NODES {
            return Err(away("it keeps naming new nodes"));
        }
        Ok(NodeId(number.unwrap_or_else(|| {
            self.known.push(Node { address, connection: None });
            self.known.len() - 1
        })))
    }
}

/// HOST:PORT; the host may be missing.
fn read_name(node: &Value) -> Option<String> {
    let [host, port, ..] = node.as_sequence()? else { return None };
    let host: Option<String> = from_redis_value_ref(host).ok()?;
    Some(format!("{}:{}", host.unwrap_or_default(), from_redis_value_ref::<u16>(port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_where_another_says_and_encrypted_as_that_is() {
        let tcp = |host: &str, port, has_tls| Address::Tcp { host: host.into(), port, has_tls };
        let table = [
            ("redis://h:7/n", "10.0.0.1:8", tcp("10.0.0.1", 8, false)),
            ("rediss://h:7/n", "node.example:8", tcp("node.example", 8, true)),
            ("rediss://h:7/n", ":8", tcp("h", 8, true)),
            ("redis://h:7/n", "?:8", tcp("h", 8, false)),
            ("redis://h:7/n", "fe80::1:8", tcp("fe80::1", 8, false)),
            ("unix:///s?name=n", ":8", tcp("127.0.0.1", 8, false)),
        ];
        let can_parse = |url: &str| cfg!(feature = "tls") || !url.starts_with("rediss");
        for (url, named, address) in table.into_iter().filter(|(url, ..)| can_parse(url)) {
            let mut nodes = Nodes::new(url.parse().unwrap());
            let node = nodes.node_at(NodeId(0), named).ok().unwrap();
            assert!(nodes.known[node.0].address == address, "{url} {named}");
            assert_eq!(nodes.node_at(node, named).ok(), Some(node), "{url} {named}");
        }
    }

    #[test]
    fn nodes_without_end_are_not_believed() {
        let mut nodes = Nodes::new("redis://h/n".parse().unwrap());
        let mut name = |port| nodes.node_at(NodeId(0), &format!(":{port}")).is_ok();
        assert!((10_000..).take(MAX_NODES - 1).all(&mut name));
        assert!(!name(9000));
    }
}
