//! What a command passes on of a server's answer: the wait, as seconds, a date or HTTP headers, and the status.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use nix::libc::{O_NOCTTY, O_NONBLOCK};

use super::dialects;
use super::headers::Headers;

/// The number of bytes at the end of a file in which headers are looked for: the last response counts.
const MAX_BYTES_READ: u64 = 1 << 20;

/// The end of the file at `path`, if it can be read. The file is removed.
pub(super) fn take(path: &Path) -> Option<String> {
    let text = match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        text => text,
    };
    let _ = fs::remove_file(path);
    Some(String::from_utf8_lossy(&text.ok()?).into_owned())
}

/// The status of the last HTTP answer in `text`: with redirections, there are several.
pub fn status(text: &str) -> Option<u16> {
    Headers::last(text).status
}

/// Reads the end of a file. The command may have replaced it with anything: a FIFO would block, a device may never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let skipped = metadata.len().saturating_sub(MAX_BYTES_READ);
    file.seek(SeekFrom::Start(skipped))?;
    let mut text = Vec::new();
    // The file may be growing, however fast.
    file.take(MAX_BYTES_READ).read_to_end(&mut text)?;
    if skipped > 0 {
        // The first line may be cut.
        let first = memchr::memchr(b'\n', &text).map_or(text.len(), |at| at + 1);
        text.drain(..first);
    }
    Ok(text)
}

/// The wait that `text` asks for as of `now`, in nanoseconds, if any: the value of a `Retry-After`, or blocks of
/// headers.
///
/// # Errors
/// The line that should say so, and cannot be read.
pub fn parse(text: &str, now: SystemTime) -> Result<Option<u64>, Box<str>> {
    // A date looks like a field: `2026-01-01T00` has all the bytes of a name.
    if let Some(wait) = dialects::wait(text.trim(), now) {
        return Ok(Some(wait));
    }
    let headers = Headers::last(text);
    if headers.is_empty() {
        return without_headers(text.trim());
    }
    let now = headers.server_time().unwrap_or(now);
    match dialects::asked_for(&headers, now) {
        Ok(Some(wait)) => Ok(Some(wait)),
        otherwise => dialects::exhausted_for(&headers, now).map_or(otherwise, |wait| Ok(Some(wait))),
    }
}

/// A text that asks for no wait, or cannot be read. A response may have no headers, and jq prints null for what is
/// missing.
fn without_headers(text: &str) -> Result<Option<u64>, Box<str>> {
    match ["", "null"].contains(&text) || text.starts_with("HTTP/") {
        true => Ok(None),
        false => Err(text.lines().next().unwrap_or_default().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::SECOND;

    #[test]
    #[cfg(target_os = "linux")]
    fn only_regular_files_are_read_and_only_their_end() {
        use std::os::unix::fs::symlink;

        use nix::sys::stat::Mode;
        use nix::unistd::mkfifo;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headers");
        let take = |make: &dyn Fn()| {
            make();
            let text = take(&path);
            assert!(fs::symlink_metadata(&path).is_err());
            parse(&text?, SystemTime::now()).ok().flatten()
        };
        let padded = |length: u64, end: &str| b" ".repeat(usize::try_from(length).unwrap() - end.len());
        let padded = |length, end: &str| [padded(length, end), end.as_bytes().to_vec()].concat();
        assert_eq!(take(&|| fs::write(&path, padded(MAX_BYTES_READ, "7")).unwrap()), Some(7 * SECOND));
        assert_eq!(take(&|| fs::write(&path, padded(MAX_BYTES_READ + 1, "7")).unwrap()), None);
        let response = "\nHTTP/2 429\r\nretry-after: 7\r\n\r\n";
        assert_eq!(
            take(&|| fs::write(&path, padded(9 * MAX_BYTES_READ, response)).unwrap()),
            Some(7 * SECOND)
        );
        // A sparse file is long, but takes no space.
        let sparse = || fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(take(&sparse), None);
        assert_eq!(take(&|| mkfifo(&path, Mode::S_IRWXU).unwrap()), None);
        assert_eq!(take(&|| symlink("/dev/zero", &path).unwrap()), None);
        assert_eq!(take(&|| {}), None);
    }

    #[test]
    fn waits() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let table = [
            ("3", Some(3 * SECOND)),
            (" 0.5\n", Some(SECOND / 2)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3 * SECOND)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("Sunday, 06-Nov-94 08:49:40 GMT", Some(3 * SECOND)),
            ("Sun Nov  6 08:49:40 1994", Some(3 * SECOND)),
            // As in e-mail, and with a wrong weekday.
            ("Sun, 6 Nov 1994 08:49:40 UTC", Some(3 * SECOND)),
            ("sun, 06 nov 1994 09:49:40 +0100", Some(3 * SECOND)),
            ("6 Nov 1994 03:49:40 EST", Some(3 * SECOND)),
            ("Mon, 06 Nov 1994 08:49:40 GMT", Some(3 * SECOND)),
            ("1994-11-06T08:49:40Z", Some(3 * SECOND)),
            // A leap second.
            ("Sun, 06 Nov 1994 08:49:60 GMT", Some(23 * SECOND)),
            ("1994-11-06T08:49:60.5Z", Some(23 * SECOND + SECOND / 2)),
            ("Sun, 06 Nov 1994 08:60:40 GMT", None),
            ("Sun, 06 Nov 1994 08:60:60 GMT", None),
            (&":60".repeat(100_000), None),
            ("Sun, 31 Nov 1994 08:49:40 GMT", None),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(u64::MAX)),
            ("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nDate: x\r\n\r\n", Some(7 * SECOND)),
            (
                "HTTP/1.1 302 x\r\nretry-after: 1\r\n\r\nHTTP/1.1 503 x\r\nretry-after: 2\r\n\r\n",
                Some(2 * SECOND),
            ),
            ("HTTP/1.1 302 x\r\nretry-after: 1\r\n\r\nHTTP/1.1 200 x\r\nserver: x\r\n\r\n", None),
            // What follows a block is content.
            ("HTTP/1.1 200 x\r\nserver: x\r\n\r\nretry-after: 1\n", None),
            ("retry-after: 1\n\nretry-after: 2\n\n\n", Some(2 * SECOND)),
            // As wget -S writes it.
            (
                "--1994-11-06 08:49:37--  http://x/\nHTTP request sent, awaiting response... \n  HTTP/1.1 302 Found\n  \
                 Retry-After: 1\nReusing existing connection to x:80.\n  HTTP/1.1 429 Too Many\n  Retry-After: 2\n\
                 1994-11-06 08:49:37 ERROR 429: Too Many.\n\n",
                Some(2 * SECOND),
            ),
            ("HTTP/1.1 500 x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", None),
            // By the server's clock, which is ahead of ours.
            ("retry-after: Sun, 06 Nov 1994 09:00:01 GMT\ndate: Sun, 06 Nov 1994 09:00:00 GMT", Some(SECOND)),
            // The response is 9 s old, and so is its date.
            (
                "retry-after: Sun, 06 Nov 1994 09:00:10 GMT\ndate: Sun, 06 Nov 1994 09:00:00 GMT\nage: 9",
                Some(SECOND),
            ),
            ("retry-after: soon\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 5", Some(5 * SECOND)),
            ("", None),
            ("soon", None),
            ("\0", None),
        ];
        for (text, wait) in table {
            assert_eq!(parse(text, now).unwrap_or_default(), wait, "{text:?}");
        }
        assert_eq!(
            parse("Sun, 06 Nov 1994 08:49:37 GMT", now - Duration::from_millis(500)),
            Ok(Some(SECOND / 2))
        );
    }

    #[test]
    fn the_last_status_line_counts() {
        let table = [
            ("HTTP/1.1 429 Too Many Requests\r\n\r\n", Some(429)),
            ("HTTP/2 503 \r\nretry-after: 1\r\n\r\n", Some(503)),
            ("HTTP/1.1 301 x\r\nlocation: /\r\n\r\nHTTP/1.1 404\r\n\r\n", Some(404)),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nserver: x\r\n\r\nbody\n", Some(200)),
            ("HTTP/1.0 200 Connection established\r\n\r\nHTTP/2 502\r\n", Some(502)),
            // As wget -S writes it.
            (
                "--1994--  http://x/\n  HTTP/1.1 302 Found\n  Location: y\n  HTTP/1.1 410 Gone\n  Server: z\n",
                Some(410),
            ),
            ("HTTP/1.1 200 OK\n\nHTTP/1.1\n", None),
            ("HTTP/2 5030\n", None),
            ("HTTP/2 50\n", None),
            ("429\n", None),
            ("retry-after: 429\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(status(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_reported() {
        let table = [
            ("junk\nmore", Err("junk")),
            ("1m\n", Err("1m")),
            ("{\"error\": 429}", Err("{\"error\": 429}")),
            ("HTTP/2 429\r\nretry-after: 1m\r\n\r\n", Err("Retry-After: 1m")),
            ("retry-after: 1m\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 5", Ok(Some(5 * SECOND))),
            ("Retry-After: \nretry-after-ms: 1s", Err("retry-after-ms: 1s")),
            ("HTTP/2 200\r\nserver: x\r\n\r\n", Ok(None)),
            ("HTTP/1.0 200 OK\r\n\r\n", Ok(None)),
            (" \n", Ok(None)),
            ("null\n", Ok(None)),
            ("Retry-After: \n", Ok(None)),
        ];
        for (text, said) in table {
            assert_eq!(parse(text, SystemTime::now()), said.map_err(Box::from), "{text:?}");
        }
    }
}
