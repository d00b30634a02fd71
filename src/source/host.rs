//! The host of a URL in a canonical form: all spellings of a host are one key.

use std::net::Ipv4Addr;

#[cfg(feature = "cli")]
use url::{Host, Url};

use super::part::Selected;

/// The host in lower case, with international names in ASCII, addresses in their shortest form, and no final dots.
pub(super) fn host(record: &[u8]) -> Selected<'_> {
    plain_host(record).map_or_else(|| parsed_host(record), Selected::borrowed)
}

/// A host given by itself, in the form that [`host`] returns.
pub(crate) fn canonical_host(name: &str) -> Vec<u8> {
    canonical(name).unwrap_or_else(|| without_dots(name.to_ascii_lowercase().as_bytes()).to_vec())
}

/// Removes dots at the end first, as what is left may be an address.
#[cfg(feature = "cli")]
fn canonical(name: &str) -> Option<Vec<u8>> {
    let host = Host::parse(name.trim_end_matches('.')).ok()?.to_string();
    Some(without_dots(host.as_bytes()).to_vec())
}

/// The host, if it can be found without parsing the whole URL: no user, only lower-case ASCII, and already canonical.
fn plain_host(record: &[u8]) -> Option<&[u8]> {
    let rest = record.strip_prefix(b"http")?;
    let rest = rest.strip_prefix(b"s").unwrap_or(rest).strip_prefix(b"://")?;
    let end = rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(end);
    let is_whole = match rest.split_first() {
        None | Some((b'/' | b'?' | b'#', _)) => true,
        Some((b':', rest)) => is_port(rest),
        Some(_) => false,
    };
    let host = without_dots(host);
    Some(host).filter(|host| is_whole && is_canonical(host))
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.')
}

/// True if only a port of up to four digits comes before the path.
fn is_port(rest: &[u8]) -> bool {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    end <= 4 && matches!(rest.get(end), None | Some(b'/' | b'?' | b'#'))
}

/// True if the host is neither encoded nor an address in an unusual spelling.
fn is_canonical(host: &[u8]) -> bool {
    let last = host.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
    match last.first() {
        None => false,
        Some(b'0'..=b'9') => str::from_utf8(host).is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok()),
        Some(_) => memchr::memmem::find(host, b"xn--").is_none(),
    }
}

fn without_dots(host: &[u8]) -> &[u8] {
    let end = host.iter().rposition(|&byte| byte != b'.').map_or(0, |last| last + 1);
    &host[..end]
}

/// In the library alone: in lower case, without final dots; international names and addresses stay as they are written.
#[cfg(not(feature = "cli"))]
#[expect(clippy::unnecessary_wraps, reason = "not every name has a canonical form in the program")]
fn canonical(name: &str) -> Option<Vec<u8>> {
    Some(without_dots(name.to_ascii_lowercase().as_bytes()).to_vec())
}

/// In the library alone: what stands between the scheme, or a user, and the port or path.
#[cfg(not(feature = "cli"))]
fn parsed_host(record: &[u8]) -> Selected<'static> {
    let text = String::from_utf8_lossy(record);
    let authority = text.trim().split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = host.rfind(':').filter(|colon| host[*colon..].find(']').is_none());
    let host = canonical(&host[..port.unwrap_or(host.len())]);
    host.filter(|host| !host.is_empty()).map_or(Selected::Missing, Selected::owned)
}

#[cfg(feature = "cli")]
fn parsed_host(record: &[u8]) -> Selected<'static> {
    // Invalid UTF-8 makes no difference in a path, and makes a host invalid.
    let url = Url::parse(String::from_utf8_lossy(record).trim()).ok();
    let host = url.as_ref().and_then(Url::host_str).and_then(canonical).filter(|host| !host.is_empty());
    host.map_or(Selected::Missing, Selected::owned)
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    fn key(url: &[u8]) -> Option<String> {
        host(url).into_text().map(|host| String::from_utf8(host.into_owned()).unwrap())
    }

    #[test]
    fn one_host_is_one_key_however_it_is_written() {
        let table: [(&str, &[&[u8]]); 8] = [
            (
                "a.b",
                &[
                    b"http://a.b/1",
                    b"http://a.b/\xff",
                    b"http://a.b./2",
                    b"http://A.B/\xff",
                    b"HTTPS://a.B.",
                    b"http://a.b:80?q",
                    b"https://a.b:443#f",
                    b"http://a.b:8080/",
                    b"http://a.b:65535/",
                    b"http://u:p@a.b/",
                    b"http://\xff@a.b/",
                    b"http://%61.b/",
                    b"http:\\\\a.b\\x",
                    b" http://a.b\r",
                    b"ftp://a.b/",
                    b"git://A.b./x",
                ],
            ),
            (
                "xn--bcher-kva.example",
                &[
                    "http://b\u{fc}cher.example/".as_bytes(),
                    "http://B\u{dc}CHER.example./".as_bytes(),
                    "http://bu\u{308}cher\u{3002}example/".as_bytes(),
                    "git://b\u{fc}cher.example/".as_bytes(),
                    b"http://b%C3%BCcher.example/",
                    b"http://xn--bcher-kva.example/",
                    b"http://XN--BCHER-KVA.example/",
                ],
            ),
            (
                "[::1]",
                &[
                    b"http://[::1]/",
                    b"http://[0:0:0:0:0:0:0:1]:80/",
                    b"http://[0000::0.0.0.1]",
                    b"git://[::0:1]/",
                ],
            ),
            ("[2001:db8::a]", &[b"http://[2001:db8::a]/", b"http://[2001:0DB8:0:0::000A]/"]),
            (
                "127.0.0.1",
                &[b"http://127.0.0.1/", b"http://127.0.0.1./", b"http://127.1", b"http://0x7f000001/"],
            ),
            ("a_b-c.example", &[b"http://a_b-c.example/", b"http://A_b-c.example/"]),
            ("localhost", &[b"http://localhost", b"http://LocalHost:1"]),
            // Found by fuzzing.
            ("0.0.0.72", &[b"http://72..", b"http://72"]),
        ];
        for (expected, urls) in table {
            for url in urls {
                assert_eq!(key(url).as_deref(), Some(expected), "{}", url.escape_ascii());
            }
        }
    }

    #[test]
    fn what_has_no_host() {
        let table: [&[u8]; 11] = [
            b"",
            b"http://",
            b"http:///",
            b"http://./",
            b"http://\xff.b/",
            b"http://a b/",
            b"http://a.b:65536/",
            b"http://a.b:x/",
            b"http://xn--/",
            b"http://1.2.3.256/",
            b"file:///etc/passwd",
        ];
        for url in table {
            assert_eq!(key(url), None, "{}", url.escape_ascii());
        }
    }

    #[test]
    fn a_host_that_is_told_at_a_glance_is_that_of_the_whole_url() {
        let pieces = [
            "a", "7", "0x1f", "xn--", "256", "www", "-", "_", ".", ".", ":80", ":", "/", "?", "#", "@",
            "%41", "\\",
        ];
        let (mut random, mut told) = (fastrand::Rng::with_seed(7), 0);
        for _ in 0..20_000 {
            let rest: String =
                (0..random.usize(1..7)).map(|_| pieces[random.usize(..pieces.len())]).collect();
            let url = format!("http{}://{rest}", if random.bool() { "s" } else { "" });
            if let Some(host) = plain_host(url.as_bytes()) {
                told += 1;
                assert_eq!(Selected::borrowed(host), parsed_host(url.as_bytes()), "{url}");
            }
        }
        assert!(told > 1000, "{told}");
    }
}
