//! Text that is safe to show on a terminal: names, limits and items may contain control sequences.

mod shell;

use std::fmt::Write;

use self::shell::in_quotes;
pub(crate) use self::shell::quoted;

/// The number of bytes shown of a text from the input.
const SHOWN: usize = 60;

/// True of a character that a terminal only shows. False of control characters, and of format characters, which change
/// the direction of a text or hide part of it (Unicode categories Cc, Cf, Zl and Zp).
pub(crate) fn is_printable(c: char) -> bool {
    let formats = matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}');
    !c.is_control() && !formats
}

/// Escapes everything unprintable in a text, which makes it one line.
pub(crate) fn escaped(text: &str) -> String {
    replaced(text, |escaped, c| escaped.extend(c.escape_default()))
}

/// Escapes everything unprintable in JSON. Such characters occur only in strings.
pub(crate) fn escaped_json(json: &str) -> String {
    replaced(json, |escaped, c| {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(escaped, "\\u{unit:04x}"));
    })
}

/// A text in which `escape` writes each unprintable character.
fn replaced(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut replaced = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) { replaced.push(c) } else { escape(&mut replaced, c) }
    }
    replaced
}

/// The beginning of a text from the input, in shell quotes.
pub(crate) fn excerpt(text: &[u8]) -> String {
    if text.len() <= SHOWN {
        return in_quotes(text);
    }
    // Does not cut a character in half.
    let end = (SHOWN - 3..=SHOWN).rev().find(|&end| text[end] & 0xc0 != 0x80).unwrap_or(SHOWN);
    format!("{}...", in_quotes(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_orders_to_a_terminal_or_turns_a_text_does_not_pass() {
        let escaped = escaped("a\x1b[2J\nb\u{9b}\u{e9}\u{202e}txt\u{2066}\u{feff}\u{e0041}\u{2028}");
        let expected = "a\\u{1b}[2J\\nb\\u{9b}\u{e9}\\u{202e}txt\\u{2066}\\u{feff}\\u{e0041}\\u{2028}";
        assert_eq!(escaped, expected);
    }

    #[test]
    fn what_people_write_passes() {
        for text in
            ["it's \"quoted\" \\", "e\u{301}", "\u{e0a}\u{e37}\u{e48}\u{e2d}", "\u{5d0}\u{644}", "\u{1f600}"]
        {
            assert_eq!(escaped(text), text);
        }
    }

    #[test]
    fn escaped_json_says_the_same() {
        let value = serde_json::json!({ "a\u{9b}\u{202e}": "\u{e0041}\x1b\"\u{e9}" });
        let text = escaped_json(&value.to_string());
        assert!(text.chars().all(is_printable), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn excerpts_are_short_and_escaped() {
        assert_eq!(excerpt(b"\x1b[2J"), r"$'\x1b[2J'");
        assert_eq!(excerpt(b"it's \"x\""), r#"'it'\''s "x"'"#);
        assert_eq!(excerpt(&[b'x'; 60]), format!("'{}'", "x".repeat(60)));
        assert_eq!(excerpt(&[b'x'; 61]), format!("'{}'...", "x".repeat(60)));
        assert_eq!(excerpt(&[b'\x80'; 61]), format!("$'{}'...", r"\x80".repeat(60)));
        let euros = "\u{20ac}".repeat(21);
        assert_eq!(excerpt(euros.as_bytes()), format!("'{}'...", "\u{20ac}".repeat(20)));
        assert_eq!(excerpt(format!("x{euros}").as_bytes()), format!("'x{}'...", "\u{20ac}".repeat(19)));
    }
}
