//! Command lines, quoted for a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::is_printable;

/// The shell command line that runs this command. It contains nothing that a terminal would interpret.
pub(crate) fn quoted(line: &[OsString]) -> String {
    line.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(" ")
}

fn quote(arg: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:,+@%=".contains(byte);
    match arg.to_str() {
        // zsh expands =NAME to a path.
        Some(text) if arg.as_bytes().iter().all(is_plain) && !text.is_empty() && !text.starts_with('=') => {
            text.to_owned()
        }
        _ => in_quotes(arg.as_bytes()),
    }
}

/// Quotes a text as one word, even if it needs no quotes.
pub(super) fn in_quotes(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) if text.chars().all(is_printable) => format!("'{}'", text.replace('\'', r"'\''")),
        // Understood by bash, ksh and zsh; in POSIX since 2024.
        _ => format!("$'{}'", text.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_is_quoted() {
        for (arg, typed) in [
            (&b"plain-1.0/a,b=c"[..], "plain-1.0/a,b=c"),
            (b"", "''"),
            (b"=ls", "'=ls'"),
            (b"two words", "'two words'"),
            (b"it's $HOME", r"'it'\''s $HOME'"),
            ("\u{e9}".as_bytes(), "'\u{e9}'"),
            (b"\x1b[2J", r"$'\x1b[2J'"),
            (b"a\nb'c", r"$'a\nb\'c'"),
            (b"\xff", r"$'\xff'"),
            ("\u{202e}a".as_bytes(), r"$'\xe2\x80\xaea'"),
        ] {
            assert_eq!(quote(OsStr::from_bytes(arg)), typed);
        }
    }
}
