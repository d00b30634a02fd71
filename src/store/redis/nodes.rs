//! Who keeps a key: the one server that there is, or the nodes of a cluster, of which any may be named.
//!
//! A node that does not keep a key names the one that does. So the map of slots, which is asked for when the named node
//! is connected to, need not be right, nor does a node have to tell it; but after a fail-over somebody else has to be
//! known.

use std::collections::{BTreeSet, HashMap};

use redis::{Value, cmd};

use super::connection::Connection;
use super::failure::{Failure, Redirect};
use super::hash_slot::hash_slot;
use super::sentinel;
use super::socket::Patience;
use crate::config::{Address, Server};

/// So often one question is passed on.
const REDIRECTS: usize = 5;

/// The largest clusters have a thousand.
const MOST_NODES: u16 = 4096;

/// One of the nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct NodeId(pub(super) u16);

struct Node {
    address: Address,
    connection: Option<Connection>,
}

/// The nodes that are known. The first is the one that was named.
pub(super) struct Nodes {
    server: Server,
    known: Vec<Node>,
    by_slot: HashMap<u16, NodeId>,
    /// Who is asked if it is not known who keeps a key.
    entry: NodeId,
    was_there: bool,
    dial: Dial,
}

/// Connects to an address, as [`Connection::open`] does.
pub(super) type Dial =
    Box<dyn FnMut(&Address, &Server, bool, Patience) -> Result<Connection, Failure> + Send>;

impl Nodes {
    pub(super) fn new(server: Server) -> Self {
        let named = Node { address: server.address.clone(), connection: None };
        Nodes {
            server,
            known: vec![named],
            by_slot: HashMap::new(),
            entry: NodeId(0),
            was_there: false,
            dial: Box::new(Connection::open),
        }
    }

    /// Connects in this way from now on, also to nodes that it was connected to.
    pub(super) fn connect_by(&mut self, dial: Dial) {
        self.known.iter_mut().for_each(|node| node.connection = None);
        self.dial = dial;
    }

    /// Asks whoever keeps `key`.
    pub(super) fn ask<T>(
        &mut self,
        key: &[u8],
        patience: Patience,
        mut question: impl FnMut(NodeId, &mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let slot = hash_slot(key);
        let mut node = self.keeper(slot, patience)?;
        let mut is_for_once = false;
        for _ in 0..=REDIRECTS {
            let answer = self.ask_node(node, patience, |connection| {
                if is_for_once {
                    connection.exec(&cmd("ASKING"))?;
                }
                question(node, connection)
            });
            let Err(Failure::Redirect(redirect)) = answer else { return answer };
            is_for_once = redirect.is_for_once;
            node = self.node_at(node, &redirect.host, redirect.port)?;
            if !is_for_once {
                self.by_slot.insert(slot, node);
            }
        }
        Err(Failure::away("its nodes name each other as the one to ask"))
    }

    /// Asks each node that keeps keys.
    pub(super) fn ask_all(
        &mut self,
        patience: Patience,
        mut question: impl FnMut(&mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.by_slot.clear();
        self.ask_node(self.entry, patience, |_| Ok(()))?;
        self.learn(self.entry)?;
        let keepers: BTreeSet<_> = self.by_slot.values().copied().collect();
        let keepers = if keepers.is_empty() { BTreeSet::from([self.entry]) } else { keepers };
        keepers.into_iter().try_for_each(|node| self.ask_node(node, patience, &mut question))
    }

    fn keeper(&mut self, slot: u16, patience: Patience) -> Result<NodeId, Failure> {
        if !self.by_slot.contains_key(&slot) && self.node(self.entry).connection.is_none() {
            self.ask_node(self.entry, patience, |_| Ok(()))?;
            // Who may not ask for the map is told by and by.
            match self.learn(self.entry) {
                Err(Failure::Away(why)) => return Err(Failure::Away(why)),
                Ok(()) | Err(Failure::Final(_) | Failure::Redirect(_)) => {}
            }
        }
        Ok(self.by_slot.get(&slot).copied().unwrap_or(self.entry))
    }

    fn ask_node<T>(
        &mut self,
        node: NodeId,
        patience: Patience,
        question: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let answer = self.connect(node, patience).and_then(question);
        answer.map_err(|failure| match failure {
            Failure::Redirect(_) => failure,
            _ => self.lose(node, failure),
        })
    }

    fn connect(&mut self, node: NodeId, patience: Patience) -> Result<&mut Connection, Failure> {
        let Node { address, connection } = &mut self.known[usize::from(node.0)];
        if connection.is_none() {
            let mut open = |address: &Address| (self.dial)(address, &self.server, self.was_there, patience);
            let opened = match &self.server.master {
                Some(master) => {
                    open(&sentinel::master(master, address, &self.server, self.was_there, patience)?)
                }
                None => open(address),
            };
            *connection = Some(opened?);
            self.was_there = true;
        }
        let connection = connection.as_mut().expect("it was opened");
        connection.set_patience(patience);
        Ok(connection)
    }

    /// After a failure a node is not asked by what is known, but whichever comes next, who knows better.
    fn lose(&mut self, node: NodeId, failure: Failure) -> Failure {
        self.node(node).connection = None;
        self.by_slot.retain(|_, keeper| *keeper != node);
        let count = u16::try_from(self.known.len()).unwrap_or(MOST_NODES);
        if self.entry == node {
            self.entry = NodeId((node.0 + 1) % count);
        }
        match (failure, &self.node(node).address) {
            (Failure::Away(why), Address::Tcp { host, port, .. }) if count > 1 => {
                Failure::Away(format!("node {}:{port}: {why}", host.escape_debug()))
            }
            (failure, _) => failure,
        }
    }

    /// Learns from a node who the nodes are, and what they keep.
    fn learn(&mut self, teller: NodeId) -> Result<(), Failure> {
        let Some(connection) = &mut self.node(teller).connection else { return Ok(()) };
        let ranges = match connection.query(cmd("CLUSTER").arg("SLOTS")) {
            Ok(Value::Array(ranges)) => ranges,
            // It is not of a cluster.
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some("ERR") => return Ok(()),
            Err(error) => {
                return Err(match connection.failure(&error) {
                    Failure::Away(why) => self.lose(teller, Failure::Away(why)),
                    failure => failure,
                });
            }
        };
        for (first, last, nodes) in ranges.iter().filter_map(range) {
            for (is_replica, (host, port)) in nodes.into_iter().enumerate() {
                let node = self.node_at(teller, &host, port)?;
                if is_replica == 0 {
                    self.by_slot.extend((first..=last).map(|slot| (slot, node)));
                }
            }
        }
        Ok(())
    }

    /// The node that `teller` calls by this name.
    fn node_at(&mut self, teller: NodeId, host: &str, port: u16) -> Result<NodeId, Failure> {
        let (here, has_tls) = match &self.node(teller).address {
            Address::Tcp { host, has_tls, .. } => (host.as_str(), *has_tls),
            Address::Unix(_) => ("127.0.0.1", false),
        };
        // A node that does not know its own address says nothing, or this.
        let host = if host.is_empty() || host == "?" { here } else { host };
        let address = Address::Tcp { host: host.to_owned(), port, has_tls };
        let found = self.known.iter().position(|node| node.address == address);
        let number = u16::try_from(found.unwrap_or(self.known.len())).ok();
        let number = number.filter(|&number| number < MOST_NODES);
        let number = number.ok_or_else(|| Failure::away("it names more and more nodes"))?;
        if found.is_none() {
            self.known.push(Node { address, connection: None });
        }
        Ok(NodeId(number))
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        &mut self.known[usize::from(node.0)]
    }
}

/// First and last slot, and those who keep them: the master, then its replicas.
fn range(value: &Value) -> Option<(u16, u16, Vec<(String, u16)>)> {
    let Value::Array(parts) = value else { return None };
    let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else { return None };
    let nodes = nodes.iter().filter_map(endpoint).collect();
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, nodes))
}

fn endpoint(value: &Value) -> Option<(String, u16)> {
    let Value::Array(parts) = value else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        _ => String::new(),
    };
    Some((host, u16::try_from(*port).ok()?))
}

impl Redirect {
    /// Of an error that says `HOST:PORT`, of which the host may be missing.
    pub(super) fn to(node: &str, is_for_once: bool) -> Option<Self> {
        let (host, port) = node.rsplit_once(':')?;
        Some(Redirect { host: host.to_owned(), port: port.parse().ok()?, is_for_once })
    }
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
        for (url, named, address) in table {
            let mut nodes = Nodes::new(url.parse().unwrap());
            let to = Redirect::to(named, false).unwrap();
            let node = nodes.node_at(NodeId(0), &to.host, to.port).ok().unwrap();
            assert!(nodes.node(node).address == address, "{url} {named}");
            assert_eq!(nodes.node_at(node, &to.host, to.port).ok(), Some(node), "{url} {named}");
        }
    }

    #[test]
    fn nodes_without_end_are_not_believed() {
        let mut nodes = Nodes::new("redis://h/n".parse().unwrap());
        let mut name = |port| nodes.node_at(NodeId(0), "", port).is_ok();
        assert!((10_000..10_000 + MOST_NODES - 1).all(&mut name));
        assert!(!name(9000));
    }
}
