//! What a worker answers: a line that ends its item.

use std::time::SystemTime;

use super::dialects::wait;
use crate::config::{Answers, parse_duration};

/// An answer to an item.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct WorkerAnswer<'a> {
    pub(super) status: u8,
    /// The hold that it asks for, in nanoseconds.
    pub(super) hold: Option<u64>,
    /// What seems to ask for one and cannot be read.
    pub(super) unread: Option<&'a str>,
    /// What is printed, with its newline.
    pub(super) text: &'a [u8],
}

impl<'a> WorkerAnswer<'a> {
    /// Reads a line that ends with a newline; `None` if it has no status, but should.
    pub(super) fn read(line: &'a [u8], answers: Answers) -> Option<Self> {
        if answers == Answers::Plain {
            return Some(WorkerAnswer { status: 0, hold: None, unread: None, text: line });
        }
        let (status, rest) = field(line);
        let status = status.strip_suffix('\r').unwrap_or(status);
        let status = status.bytes().all(|byte| byte.is_ascii_digit()).then(|| status.parse().ok())??;
        let (asks, after) = field(rest);
        let asked = asks.strip_prefix("wait=").map(str::trim);
        let hold = asked.and_then(|asked| {
            let as_in_http = || wait(asked, SystemTime::now());
            parse_duration(asked).ok().or_else(as_in_http)
        });
        let unread = asked.filter(|_| hold.is_none());
        Some(WorkerAnswer { status, hold, unread, text: if hold.is_some() { after } else { rest } })
    }
}

/// The text up to the first tab, if that is UTF-8, and what follows. Without a tab, nothing follows.
fn field(line: &[u8]) -> (&str, &[u8]) {
    let end = memchr::memchr2(b'\t', b'\n', line).unwrap_or(line.len());
    let after = line.get(end..).and_then(|rest| rest.strip_prefix(b"\t")).unwrap_or_default();
    (str::from_utf8(&line[..end]).unwrap_or_default(), after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn an_answer_may_begin_with_a_status_and_ask_for_a_hold() {
        let second = Some(SECOND);
        let table: [(&str, Option<(u8, Option<u64>, &str)>); 21] = [
            ("0\ttext\n", Some((0, None, "text\n"))),
            ("22\tnot found\n", Some((22, None, "not found\n"))),
            ("255\t\n", Some((255, None, "\n"))),
            ("0\n", Some((0, None, ""))),
            ("7\ta\tb\n", Some((7, None, "a\tb\n"))),
            ("75\twait=1\ttry later\n", Some((75, second, "try later\n"))),
            ("75\twait=0.5\t\n", Some((75, Some(SECOND / 2), "\n"))),
            ("75\twait=1\n", Some((75, second, ""))),
            ("0\twait=1\tit is done\n", Some((0, second, "it is done\n"))),
            ("75\twait=Sun, 06 Nov 1994 08:49:37 GMT\tx\n", Some((75, Some(0), "x\n"))),
            ("75\twait=soon\tx\n", Some((75, None, "wait=soon\tx\n"))),
            ("75\twait=-1\tx\n", Some((75, None, "wait=-1\tx\n"))),
            ("75\twait=\n", Some((75, None, "wait=\n"))),
            ("75\twait= 1 \tx\n", Some((75, second, "x\n"))),
            // As a program on Windows or a terminal ends lines.
            ("0\r\n", Some((0, None, ""))),
            ("75\twait=1\r\n", Some((75, second, ""))),
            ("256\tx\n", None),
            ("-1\tx\n", None),
            ("ok\tx\n", None),
            ("\n", None),
            (" 0\tx\n", None),
        ];
        for (line, expected) in table {
            let answer = WorkerAnswer::read(line.as_bytes(), Answers::Status);
            let expected = expected.map(|(status, hold, text)| {
                let unread = text.strip_prefix("wait=").map(|rest| rest.split(['\t', '\n']).next().unwrap());
                WorkerAnswer { status, hold, unread, text: text.as_bytes() }
            });
            assert_eq!(answer, expected, "{line:?}");
            let plain = WorkerAnswer { status: 0, hold: None, unread: None, text: line.as_bytes() };
            assert_eq!(WorkerAnswer::read(line.as_bytes(), Answers::Plain), Some(plain));
        }
    }
}
