//! The count of a limit with a period of its own: `-n`.

use anyhow::{Error, Result};

use super::amount::Amount;
use super::duration::format_duration;
use super::quantity::parse_count;
use super::rate_text::RateText;

/// Parses the count of a limit with a period of its own, which is whole.
///
/// # Errors
/// Not a whole number; if it is a rate, how to write it.
pub fn parse_limit_count(text: &str) -> Result<u64> {
    parse_count(text).map_err(|error| match Amount::parse(&format!("{text}/s")) {
        Ok(Amount { count, period, .. }) => {
            let period = format_duration(period);
            Error::msg(format!("{error}: for {text} a second, use -n {count} -p {period} or -r {text}/s"))
        }
        Err(_) if text.parse::<RateText>().is_ok() => Error::msg(format!("that is a rate: write -r {text}")),
        Err(_) => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_not_whole_names_the_rate() {
        let error = parse_limit_count("1.5").unwrap_err().to_string();
        assert!(error.ends_with("use -n 3 -p 2s or -r 1.5/s"), "{error}");
        assert_eq!(parse_limit_count("1.5k").unwrap(), 1500);
        assert!(!parse_limit_count("x").unwrap_err().to_string().contains("-r"));
    }
}
