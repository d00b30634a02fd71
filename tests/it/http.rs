//! HTTP servers with scripted answers.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// Starts a server on a free port. It reads the head of each request and then answers it, one request at a time, until
/// the process ends.
pub(crate) fn serve(mut answer: impl FnMut(&mut TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let lines = BufReader::new(&stream).lines();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            answer(&mut stream);
        }
    });
    port
}
