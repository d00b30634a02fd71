//! Numbers and instants as short text: Base64 VLQ, as in the source maps of JavaScript (ECMA-426), without the sign.

use std::mem;

use crate::time::Time;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Set in each digit but the last of a number; the other five bits are its own, the lowest first.
const CONTINUES: u8 = 32;

/// Appends a number.
pub(crate) fn pack(text: &mut String, mut number: u64) {
    loop {
        let low = (number % 32) as u8;
        number /= 32;
        let digit = if number > 0 { low | CONTINUES } else { low };
        text.push(DIGITS[usize::from(digit)].into());
        if number == 0 {
            return;
        }
    }
}

/// The numbers that a text consists of; `None` for one that is no number.
pub(crate) fn unpack(text: &str) -> impl Iterator<Item = Option<u64>> {
    let mut digits = text.bytes();
    std::iter::from_fn(move || {
        let first = digits.next()?;
        Some(number(first, &mut digits))
    })
}

fn number(first: u8, rest: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut byte, mut number, mut shift) = (first, 0u64, 0u32);
    loop {
        let digit = u64::from(digit(byte)?);
        let low = digit % u64::from(CONTINUES);
        number |= low.checked_mul(1u64.checked_shl(shift)?)?;
        if digit < u64::from(CONTINUES) {
            return Some(number);
        }
        shift += 5;
        byte = rest.next()?;
    }
}

/// The place of a byte among [`DIGITS`].
fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Instants as text, in their order: the nanoseconds from each to the next, the first since the clock began, and how
/// many such steps follow each other.
pub(crate) fn pack_instants(instants: impl Iterator<Item = Time>) -> String {
    let (mut text, mut before, mut instants) = (String::new(), Time::ZERO, instants.collect::<Vec<_>>());
    instants.sort_unstable();
    let steps = instants.into_iter().map(|at| at.since(mem::replace(&mut before, at)));
    for steps in steps.collect::<Vec<_>>().chunk_by(u64::eq) {
        pack(&mut text, steps[0]);
        pack(&mut text, steps.len() as u64);
    }
    text
}

/// The instants that a text consists of. `None` for another text, and for more than `most`.
pub(crate) fn unpack_instants(text: &str, most: u64) -> Option<Vec<Time>> {
    let (mut numbers, mut instants, mut at) = (unpack(text), Vec::new(), Time::ZERO);
    while let Some(step) = numbers.next() {
        let (step, count) = (step?, numbers.next()??);
        if count > most - instants.len() as u64 {
            return None;
        }
        instants.extend((0..count).map(|_| {
            at = at.saturating_add(step);
            at
        }));
    }
    Some(instants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let numbers: Vec<u64> =
                (0..random.usize(0..9)).map(|_| random.u64(..) >> random.u32(0..64)).collect();
            let mut text = String::new();
            numbers.iter().for_each(|number| pack(&mut text, *number));
            assert_eq!(unpack(&text).collect::<Option<Vec<_>>>(), Some(numbers), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        let all = |text| unpack(text).collect::<Option<Vec<_>>>();
        let largest = format!("{}P", "/".repeat(12));
        assert_eq!(all(&largest), Some(vec![u64::MAX]));
        for text in ["-", "A A", "g", "Ag", "//////////////", "////////////Q", "ü"] {
            assert_eq!(all(text), None, "{text}");
        }
    }
}
