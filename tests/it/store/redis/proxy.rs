//! What lies between us and a server: a long way, or a change of servers. And servers that only pretend to be one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Passes connections on to a server, with a delay in each direction.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    target: u16,
    delay: Duration,
    open: Vec<TcpStream>,
}

impl Proxy {
    pub(crate) fn new(target: u16, delay: Duration) -> Self {
        let shared = Arc::new(Mutex::new(Shared { target, delay, open: Vec::new() }));
        let for_thread = Arc::clone(&shared);
        let port = listen(move |here| {
            let mut shared = for_thread.lock().unwrap();
            // The other end sees a closed connection if there is no server.
            let Ok(there) = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.target)) else { return };
            shared.open.extend([here.try_clone().unwrap(), there.try_clone().unwrap()]);
            drop(shared);
            for (from, to) in [(&here, &there), (&there, &here)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let shared = Arc::clone(&for_thread);
                thread::spawn(move || pass(from, to, &shared));
            }
        });
        Proxy { port, shared }
    }

    /// Ends all connections; new ones go to another server.
    pub(crate) fn lead_to(&self, target: u16) {
        let mut shared = self.shared.lock().unwrap();
        shared.target = target;
        for stream in shared.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.shared.lock().unwrap().delay = delay;
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, shared: &Mutex<Shared>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let delay = shared.lock().unwrap().delay;
        thread::sleep(delay);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A server that handles each connection with `serve`, on its own port. It ends with the process.
pub(crate) fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream.expect("a connection")));
        }
    });
    port
}
