//! Cleaning of the input: `--trim` and `--skip-blank`.

/// Parts of the input that are left out before anything else is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaning {
    /// White space around items.
    pub trim: bool,
    /// Items that are empty, or nothing but white space.
    pub skip_blank: bool,
}

impl Cleaning {
    /// A record without what is left out around it.
    pub(crate) fn trim(self, record: &[u8]) -> &[u8] {
        if self.trim { record.trim_ascii() } else { record }
    }

    /// True of a record that is left out. White space is as C has it: also vertical tabs.
    pub(crate) fn skips(self, record: &[u8]) -> bool {
        self.skip_blank && record.iter().all(|&byte| byte.is_ascii_whitespace() || byte == b'\x0b')
    }
}
