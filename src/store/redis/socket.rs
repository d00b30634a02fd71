//! Bytes to and from a server, limited in time and length.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use socket2::{SockAddr, Type};

use crate::config::Address;

/// The longest answer, in bytes. No honest one is as long, unless a thousand keys have more than 16 KiB each.
const LONGEST_ANSWER: usize = 1 << 24;

/// Limits on the wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For one answer.
    pub(super) each: Duration,
    /// For all of them.
    pub(super) end: Instant,
}

impl Timeouts {
    pub(super) fn until(self) -> Instant {
        self.end.min(Instant::now() + self.each)
    }
}

/// A socket whose reads and writes end by one instant, and whose answers are limited in length.
pub(super) struct Socket {
    inner: socket2::Socket,
    until: Instant,
    left: usize,
}

impl Socket {
    /// Connects to `address`.
    pub(super) fn open(address: &Address, patience: Timeouts) -> io::Result<Self> {
        let until = patience.until();
        let addresses = match address {
            Address::Tcp { host, port, .. } => {
                (host.trim_matches(['[', ']']), *port).to_socket_addrs()?.map(Into::into).collect()
            }
            Address::Unix(path) => vec![SockAddr::unix(path)?],
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in addresses {
            match connect(&address, until) {
                Ok(inner) => return Ok(Socket::over(inner, until)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Uses a socket that is already open.
    pub(super) fn over(inner: socket2::Socket, until: Instant) -> Self {
        Socket { inner, until, left: LONGEST_ANSWER }
    }

    /// Sets the limits for the next question.
    pub(super) fn expect_answer(&mut self, until: Instant) {
        (self.until, self.left) = (until, LONGEST_ANSWER);
    }
}

/// A stream of bytes, encrypted or not.
pub(super) trait Stream: Read + Write + Send {
    fn socket(&mut self) -> &mut Socket;
}

impl Stream for Socket {
    fn socket(&mut self) -> &mut Socket {
        self
    }
}

fn connect(address: &SockAddr, until: Instant) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(address.domain(), Type::STREAM, None)?;
    if address.is_unix() {
        // While others wait to be accepted, there may be no room for one more.
        in_time(|| {
            socket.set_write_timeout(Some(time_left(until)?))?;
            socket.connect(address)
        })?;
    } else {
        socket.connect_timeout(address, time_left(until)?)?;
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

/// The time that is left. Less than a microsecond counts as none, as a socket would take it for no limit at all.
fn time_left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.as_micros() == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its reply has no end"));
        }
        let fitting = buffer.len().min(self.left);
        let read = in_time(|| {
            self.inner.set_read_timeout(Some(time_left(self.until)?))?;
            self.inner.read(&mut buffer[..fitting])
        })?;
        self.left -= read;
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        in_time(|| {
            self.inner.set_write_timeout(Some(time_left(self.until)?))?;
            self.inner.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Repeats a call that a signal interrupts: stopping and continuing a process does, even if it handles no signals. A
/// socket reports a timeout as if it were non-blocking.
fn in_time<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use socket2::Domain;

    use super::*;

    fn pair(patience: Duration) -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Socket::over(ours.into(), Instant::now() + patience), theirs)
    }

    #[test]
    fn so_much_is_read_of_an_answer_and_no_more() {
        let (mut socket, mut theirs) = pair(Duration::from_secs(60));
        let endless = thread::spawn(move || while theirs.write_all(&[b'+'; 4096]).is_ok() {});
        let mut read = Vec::new();
        let error = socket.read_to_end(&mut read).unwrap_err();
        assert_eq!((error.kind(), read.len()), (io::ErrorKind::InvalidData, LONGEST_ANSWER));
        socket.expect_answer(Instant::now() + Duration::from_secs(60));
        assert_eq!(socket.read(&mut [0; 7]).unwrap(), 7);
        drop(socket);
        endless.join().unwrap();
    }

    #[test]
    fn an_answer_that_goes_on_and_on_ends_in_time() {
        let start = Instant::now();
        let (mut socket, mut theirs) = pair(Duration::from_millis(200));
        let slow = thread::spawn(move || {
            while theirs.write_all(b"+").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let error = socket.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Less than a microsecond counts as none.
        assert!(start.elapsed() >= Duration::from_micros(199_999));
        drop(socket);
        slow.join().unwrap();
    }

    /// The socket has no room for another connection that waits to be accepted.
    #[test]
    fn a_server_that_accepts_nobody_is_not_waited_for_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        let (done, opened) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let each = Duration::from_millis(50);
            let patience = Timeouts { each, end: Instant::now() + each };
            let error = Socket::open(&Address::Unix(path), patience).err().expect("no room");
            done.send(redis::RedisError::from(error).is_timeout()).unwrap();
        });
        assert_eq!(opened.recv_timeout(Duration::from_secs(20)), Ok(true));
    }

    #[test]
    fn a_server_that_does_not_listen_is_not_told_for_ever() {
        let (mut socket, _theirs) = pair(Duration::from_millis(200));
        let error = socket.write_all(&vec![0; 1 << 26]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
