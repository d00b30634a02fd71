//! Rates as fractions of whole numbers.

/// The number of digits of a rate needed to round it. With one less, the last digit may be more than 1e-17 of the rate.
const DIGITS: u32 = 18;

/// A count, and the nanoseconds in which it is reached.
type Fraction = (u64, u64);

/// `count / scale` per `period`, as the smallest count for a multiple of the period, if the numbers are not too large.
pub fn exact(count: u128, scale: u128, period: u64) -> Option<Fraction> {
    let divisor = greatest_common_divisor(count, scale);
    let period = (scale / divisor).checked_mul(period.into())?;
    whole(count / divisor, period)
}

/// `count / scale` per `period`, rounded down by at most 1e-15 of it. The scale is a power of 10.
///
/// The period becomes any number of nanoseconds that is not below the one given: a shorter one would let a rate that is
/// not a whole number release nearly twice as much in one period. The count is then as low as possible.
pub(super) fn round_down(count: u128, scale: u128, period: u64) -> Option<Fraction> {
    let (most, span) = with_enough_digits(count, scale, period)?;
    // A tenth of the tolerance is left for digits that are cut off.
    let least = most - most / 10u128.pow(16) * 9;
    let (count, nanos) = simplest_between((least, span), (most, span));
    let times = u128::from(period).div_ceil(nanos);
    whole(count.checked_mul(times)?, nanos.checked_mul(times)?)
}

fn whole(count: u128, period: u128) -> Option<Fraction> {
    u64::try_from(count).ok().zip(u64::try_from(period).ok())
}

/// The same rate as a fraction, rounded down, with at least [`DIGITS`] digits and no more than fit.
fn with_enough_digits(mut count: u128, mut scale: u128, period: u64) -> Option<(u128, u128)> {
    while count < 10u128.pow(DIGITS - 1) {
        (count, scale) = (count * 10, scale.checked_mul(10)?);
    }
    loop {
        match scale.checked_mul(period.into()) {
            Some(span) => return Some((count, span)),
            None if count < 10u128.pow(DIGITS) => return None,
            None => (count, scale) = (count / 10, scale / 10),
        }
    }
}

/// The fraction with the smallest denominator that is neither below `low` nor above `high`, by continued fractions.
fn simplest_between(low: (u128, u128), high: (u128, u128)) -> (u128, u128) {
    let (whole, rest) = (low.0 / low.1, low.0 % low.1);
    if rest == 0 {
        return (whole, 1);
    }
    if whole < high.0 / high.1 {
        return (whole + 1, 1);
    }
    let (denominator, numerator) = simplest_between((high.1, high.0 % high.1), (low.1, rest));
    (whole * denominator + numerator, denominator)
}

pub(super) fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_fraction_is_found() {
        for low in 1..40 {
            for high in low..40 {
                let is_between = |n: u128, d: u128| n * 17 >= low * d && n * 17 <= high * d;
                let least = (1..=17).find_map(|d| (1..=60).find(|&n| is_between(n, d)).map(|n| (n, d)));
                assert_eq!(Some(simplest_between((low, 17), (high, 17))), least, "{low}/17 to {high}/17");
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let (digits, scale) = (10u128.pow(38) - 1, 10u128.pow(38));
        assert_eq!(round_down(digits, 1, 1), None);
        assert_eq!(round_down(1, scale, 1), None);
        assert_eq!(round_down(u128::MAX, scale, u64::MAX), None);
        assert_eq!(round_down(u128::MAX, scale, u64::MAX / 2), Some((4, 10_842_021_724_855_044_340)));
        assert_eq!(round_down(digits, 10u128.pow(20), 1), Some((999_999_999_999_999_101, 1)));
    }
}
