//! The numbers of a command's items, as written in a column: `1-3,7`.

use std::ops::RangeInclusive;

/// Writes numbers. Consecutive ones make a range.
pub(super) fn text(numbers: impl Iterator<Item = u64>) -> String {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut().filter(|last| last.end().checked_add(1) == Some(number)) {
            Some(last) => *last = *last.start()..=number,
            None => ranges.push(number..=number),
        }
    }
    let text = |range: RangeInclusive<u64>| match range.into_inner() {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Reads numbers. They are neither collected nor counted, as a damaged log may have a huge range.
pub(super) fn read(text: &[u8]) -> Option<impl Iterator<Item = u64>> {
    let ranges = str::from_utf8(text).ok()?.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    Some(ranges.collect::<Option<Vec<_>>>()?.into_iter().flatten())
}

/// Reads only the last number.
pub(super) fn last(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_follows_one_another() {
        for (numbers, expected) in [
            (&[7][..], "7"),
            (&[1, 2], "1-2"),
            (&[1, 3, 4, 5, 9], "1,3-5,9"),
            (&[u64::MAX - 1, u64::MAX], "18446744073709551614-18446744073709551615"),
            (&[5, 4, 4], "5,4,4"),
        ] {
            assert_eq!(text(numbers.iter().copied()), expected);
            assert_eq!(read(expected.as_bytes()).unwrap().collect::<Vec<_>>(), numbers);
            assert_eq!(last(expected.as_bytes()).as_ref(), numbers.last());
        }
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        for text in ["", "a", "1-", "-1", "1,,2", "1-2-3", "\u{e9}"] {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
        // Numbers are made on demand.
        assert_eq!(read(b"0-18446744073709551615").unwrap().nth(9), Some(9));
    }
}
