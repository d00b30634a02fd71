//! The host of a URL.

use std::net::Ipv4Addr;

use url::Url;

use super::part::Part;

/// The host, in lower case as in DNS.
pub(super) fn host(record: &[u8]) -> Part<'_> {
    plain_host(record).map_or_else(|| parsed_host(record), Part::borrowed)
}

/// The host, if it can be told without parsing all of the URL: it has no user, is in lower-case ASCII, and is
/// written as it would be printed.
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
    Some(host).filter(|host| is_whole && is_as_printed(host))
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.')
}

/// Whether a port of up to four digits is all that comes before the path.
fn is_port(rest: &[u8]) -> bool {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    end <= 4 && matches!(rest.get(end), None | Some(b'/' | b'?' | b'#'))
}

/// Whether a plain host is neither encoded nor an address in an unusual spelling.
fn is_as_printed(host: &[u8]) -> bool {
    let last = host.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
    match last.first() {
        None => false,
        Some(b'0'..=b'9') => str::from_utf8(host).is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok()),
        Some(_) => memchr::memmem::find(host, b"xn--").is_none(),
    }
}

fn parsed_host(record: &[u8]) -> Part<'static> {
    let url = str::from_utf8(record).ok().and_then(|text| Url::parse(text.trim()).ok());
    let host = url.as_ref().and_then(Url::host_str);
    host.map_or(Part::Missing, |host| Part::owned(host.to_ascii_lowercase()))
}
