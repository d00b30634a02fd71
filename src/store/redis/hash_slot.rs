//! The slot of a cluster that a key is in.

const SLOTS: u16 = 16384;

/// By the part of the key in braces, if it is not empty; otherwise by all of it.
pub(super) fn hash_slot(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).map(|open| &key[open + 1..]);
    let tag = tag.and_then(|rest| memchr::memchr(b'}', rest).map(|close| &rest[..close]));
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// The one of XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        let shifted = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        (0..8).fold(crc ^ u16::from(byte) << 8, shifted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let same = |a: &[u8], b: &[u8]| hash_slot(a) == hash_slot(b);
        assert!(same(b"{user1000}.following", b"user1000"));
        assert!(same(b"foo{{bar}}zap", b"{bar"));
        assert!(same(b"foo{bar}{zap}", b"bar"));
        assert!(!same(b"foo{}{bar}", b"bar"));
        assert_eq!(hash_slot(b"foo"), 12182);
    }
}
