//! Delimiters of records, with escapes.

use anyhow::{Context, Result, bail, ensure};

/// Parses a delimiter of one or more bytes with C escapes: `\n`, `\t`, `\0`, `\\`, `\x1e`, `\036`.
///
/// # Errors
/// The text is empty, or has an escape that is not valid in C.
pub fn parse_delimiter(text: &str) -> Result<Vec<u8>> {
    ensure!(!text.is_empty(), "a delimiter is needed, such as ',' or '\\t'; '\\0' is NUL");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        bytes.push(if first == b'\\' { unescape_byte(&mut rest)? } else { first });
    }
    Ok(bytes)
}

/// Reads what follows a backslash from the front of `rest`, as in C.
pub(crate) fn unescape_byte(rest: &mut &[u8]) -> Result<u8> {
    let (&letter, tail) =
        rest.split_first().context("a lone backslash at the end: for a backslash, write '\\\\'")?;
    let byte = match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' => letter,
        b'0'..=b'7' => return number(rest, 8, 3),
        b'x' => {
            *rest = tail;
            return number(rest, 16, 2);
        }
        _ => bail!("unknown escape '\\{}': use \\n \\t \\r \\0 \\\\ \\xHH", letter.escape_ascii()),
    };
    *rest = tail;
    Ok(byte)
}

/// Reads a number of at most `most` digits from the front of `rest`.
fn number(rest: &mut &[u8], radix: u32, most: usize) -> Result<u8> {
    let is_digit = |&&byte: &&u8| char::from(byte).is_digit(radix);
    let length = rest.iter().take(most).take_while(is_digit).count();
    let (digits, tail) = rest.split_at(length);
    *rest = tail;
    let digits = str::from_utf8(digits)?;
    u8::from_str_radix(digits, radix)
        .ok()
        .context("an escape needs digits that fit a byte, as in \\x1e or \\036")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        let good: [(&str, &[u8]); 10] = [
            (",", b","),
            ("\\n", b"\n"),
            ("\\0", b"\0"),
            ("\\x1e", b"\x1e"),
            ("\\036", b"\x1e"),
            ("\\\\", b"\\"),
            ("--\\r\\n", b"--\r\n"),
            ("\\a\\b\\f\\v", b"\x07\x08\x0c\x0b"),
            ("\\0000", b"\x000"),
            ("é", "é".as_bytes()),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_delimiter(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "\\", "\\q", "\\x", "\\777"] {
            assert!(parse_delimiter(text).is_err(), "{text}");
        }
    }
}
