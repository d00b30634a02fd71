//! Keys in as little memory as possible.

/// A key that is kept: up to 22 bytes take no memory of their own.
#[derive(Clone)]
pub(super) enum CompactKey {
    Inline(u8, [u8; INLINE]),
    Boxed(Box<[u8]>),
}

const INLINE: usize = 22;

impl CompactKey {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            CompactKey::Inline(length, bytes) => &bytes[..usize::from(*length)],
            CompactKey::Boxed(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for CompactKey {
    fn from(key: &[u8]) -> Self {
        let mut bytes = [0; INLINE];
        match (bytes.get_mut(..key.len()), u8::try_from(key.len())) {
            (Some(start), Ok(length)) => {
                start.copy_from_slice(key);
                CompactKey::Inline(length, bytes)
            }
            _ => CompactKey::Boxed(key.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_whatever_its_length() {
        assert_eq!(size_of::<CompactKey>(), 24);
        for length in 0..300 {
            let key: Vec<u8> = (0..length).map(|at: usize| at.to_le_bytes()[0]).collect();
            assert_eq!(CompactKey::from(key.as_slice()).as_slice(), key);
        }
    }
}
