//! What a command says about when to try again: seconds, an HTTP date, or HTTP headers with `Retry-After`.
//!
//! RFC 9110, section 10.2.3.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use nix::libc::{O_NOCTTY, O_NONBLOCK};

use crate::config::parse_duration;

/// A file larger than this holds no headers.
const MOST: u64 = 1 << 20;

/// The wait that the file at `path` asks for as of `now`, in nanoseconds. The file is removed.
pub(super) fn take(path: &Path, now: SystemTime) -> Option<u64> {
    let text = read(path);
    let _ = fs::remove_file(path);
    parse(&String::from_utf8_lossy(&text?), now)
}

/// What a file holds. The command may have put anything in its place: a FIFO would block, a device may never end.
fn read(path: &Path) -> Option<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if metadata.is_file() && metadata.len() <= MOST { read_at_most(file) } else { None }
}

/// Nothing, if it has grown since its size was looked at.
fn read_at_most(file: File) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let length = file.take(MOST + 1).read_to_end(&mut text).ok()?;
    (length as u64 <= MOST).then_some(text)
}

/// The wait that `text` asks for as of `now`, in nanoseconds.
pub fn parse(text: &str, now: SystemTime) -> Option<u64> {
    let value = header(text).unwrap_or(text).trim();
    if value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return parse_duration(value).ok();
    }
    let wait = httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_nanos()).ok()
}

/// The value of the last `Retry-After` header: there are several blocks of them after a redirection.
fn header(text: &str) -> Option<&str> {
    let headers = text.lines().filter_map(|line| line.split_once(':'));
    headers.rev().find(|(name, _)| name.trim().eq_ignore_ascii_case("retry-after")).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::SECOND;

    #[test]
    #[cfg(target_os = "linux")]
    fn only_regular_files_of_some_size_are_read() {
        use std::os::unix::fs::symlink;

        use nix::sys::stat::Mode;
        use nix::unistd::mkfifo;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("advice");
        let take = |make: &dyn Fn()| {
            make();
            let wait = take(&path, SystemTime::now());
            assert!(fs::symlink_metadata(&path).is_err());
            wait
        };
        let padded =
            |length: u64| [b" ".repeat(usize::try_from(length - 1).unwrap()), b"7".to_vec()].concat();
        assert_eq!(take(&|| fs::write(&path, padded(MOST)).unwrap()), Some(7 * SECOND));
        assert_eq!(take(&|| fs::write(&path, padded(MOST + 1)).unwrap()), None);
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
            ("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nDate: x\r\n\r\n", Some(7 * SECOND)),
            (
                "HTTP/1.1 302 Found\r\nretry-after: 1\r\n\r\nHTTP/1.1 503 x\r\nretry-after: 2\r\n\r\n",
                Some(2 * SECOND),
            ),
            ("HTTP/1.1 500 x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", None),
            ("", None),
            ("soon", None),
        ];
        for (text, wait) in table {
            assert_eq!(parse(text, now), wait, "{text:?}");
        }
        assert_eq!(
            parse("Sun, 06 Nov 1994 08:49:37 GMT", now - Duration::from_millis(500)),
            Some(SECOND / 2)
        );
    }
}
