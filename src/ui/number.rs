//! Numbers in messages and in JSON.

use crate::time::SECOND;

/// `1 item`, `2 items`.
pub(crate) fn items(count: u64) -> String {
    count_of(count, "item")
}

pub(super) fn count_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Seconds, as a number that is printed with no more than nine decimals.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of 104 days are exact")]
pub(super) fn in_seconds(nanos: u64) -> f64 {
    nanos as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_more_digits_than_nanoseconds() {
        for nanos in (1..10_000).map(|at| at * 1_795_019_026 + 3) {
            let text = in_seconds(nanos).to_string();
            let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            assert!(decimals <= 9, "{nanos}: {text}");
        }
    }
}
