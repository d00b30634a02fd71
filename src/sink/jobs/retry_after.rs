//! What a command says about when to try again: seconds, an HTTP date, or HTTP headers with `Retry-After`.
//!
//! RFC 9110, section 10.2.3.

use std::time::SystemTime;

use crate::config::parse_duration;

/// The wait that `text` asks for as of `now`, in nanoseconds.
pub(super) fn parse(text: &str, now: SystemTime) -> Option<u64> {
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
