//! Numbers: seconds, milliseconds, microseconds or nanoseconds since 1970.

use super::Fault;
use crate::time::Time;

/// For each unit: the first whole number that is too large for it, its nanoseconds, and its most decimals. Seconds
/// until 2554 have at most 11 digits; the other units have had more since 1973.
const UNITS: [(u64, u64, usize); 3] = [
    (100_000_000_000, 1_000_000_000, 9),
    (100_000_000_000_000, 1_000_000, 6),
    (100_000_000_000_000_000, 1000, 3),
];

/// Reads a decimal number; `None` if the text is not one.
///
/// # Errors
/// The number is too large.
pub(super) fn read(text: &[u8]) -> Option<Result<Time, Fault>> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let decimals = match &text[digits..] {
        [] => &[],
        [b'.', decimals @ ..] if decimals.len() <= 9 && decimals.iter().all(u8::is_ascii_digit) => decimals,
        _ => return None,
    };
    if digits + decimals.len() == 0 {
        return None;
    }
    if digits > 19 {
        return Some(Err(Fault::OutOfRange));
    }
    let whole = number(&text[..digits]);
    let unit = UNITS.into_iter().find(|(end, ..)| whole < *end);
    let (_, nanos, most) = unit.unwrap_or((0, 1, 0));
    if decimals.len() > most {
        return None;
    }
    let scale = 10u64.pow(u32::try_from(most - decimals.len()).unwrap_or(0));
    let fraction = number(decimals) * scale;
    let at = whole.checked_mul(nanos).and_then(|whole| whole.checked_add(fraction));
    Some(at.map(Time).ok_or(Fault::OutOfRange))
}

/// The value of at most 19 digits, which always fits.
fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_up_to_nine_decimals() {
        let table = [
            ("0", Some(0)),
            ("1.5", Some(1_500_000_000)),
            (".5", Some(500_000_000)),
            ("1700000000.000000001", Some(1_700_000_000_000_000_001)),
            ("18446744073.709551615", Some(u64::MAX)),
            ("18446744073.709551616", None),
        ];
        for (text, nanos) in table {
            assert_eq!(read(text.as_bytes()), Some(nanos.map(Time).ok_or(Fault::OutOfRange)), "{text}");
        }
        for text in ["", ".", "0.0000000001", "-1", "x", "1e3", "1700000000123.1234567"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
