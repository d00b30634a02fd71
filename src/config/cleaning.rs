//! Cleaning of the input: `--trim` and `--skip-blank`.

/// The parts of the input to leave out before anything else is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaning {
    /// White space around items.
    pub trim: bool,
    /// Items that are empty, or nothing but white space.
    pub skip_blank: bool,
}

impl Cleaning {
    /// A record without the white space around it, if that is left out.
    pub(crate) fn trim(self, record: &[u8]) -> &[u8] {
        if !self.trim {
            return record;
        }
        let end = record.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
        let start = record[..end].iter().position(|&byte| !is_space(byte)).unwrap_or(end);
        &record[start..end]
    }

    /// True of a record that is left out.
    pub(crate) fn skips(self, record: &[u8]) -> bool {
        self.skip_blank && record.iter().all(|&byte| is_space(byte))
    }
}

/// White space as in C, which includes vertical tabs.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_blank_is_trimmed_to_nothing() {
        let cleaning = Cleaning { trim: true, skip_blank: true };
        let table: [(&[u8], &[u8]); 5] = [
            (b"", b""),
            (b" \t\n\r\x0b\x0c", b""),
            (b"\x0b a\x0b b \x0b", b"a\x0b b"),
            (b"\0 ", b"\0"),
            (b"\xc2\xa0", b"\xc2\xa0"),
        ];
        for (record, trimmed) in table {
            assert_eq!(cleaning.trim(record), trimmed, "{}", record.escape_ascii());
            assert_eq!(cleaning.skips(record), trimmed.is_empty(), "{}", record.escape_ascii());
        }
    }
}
