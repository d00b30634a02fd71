//! A canonical form of JSON values: equal values become equal text.

use std::collections::BTreeMap;

use serde::de::Error;
use serde_json::Value;
use serde_json::value::RawValue;

/// The limit of `serde_json`: deeper nesting could overflow the stack.
const MAX_NESTED: usize = 128;

/// The most places by which an exponent moves the point.
const MAX_MOVED: usize = 64;

/// `json` without white space, with the members of objects sorted by name. If several have the same name, the last
/// counts. Numbers keep their digits, which a float would round, and lose their exponent unless it is large.
///
/// # Errors
/// A string in it has half of a surrogate pair, or it is nested too deeply.
pub(super) fn canonical(json: &str) -> serde_json::Result<String> {
    nested(json, MAX_NESTED)
}

fn nested(json: &str, most: usize) -> serde_json::Result<String> {
    let below = |value: &RawValue| match most.checked_sub(1) {
        Some(most) => nested(value.get(), most),
        None => Err(Error::custom("nested too deeply")),
    };
    match json.as_bytes().first() {
        Some(b'{') => {
            let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(json)?.into_iter();
            let members = members.map(|(name, value)| Ok(format!("{}:{}", Value::from(name), below(value)?)));
            Ok(format!("{{{}}}", members.collect::<serde_json::Result<Vec<_>>>()?.join(",")))
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(json)?.into_iter().map(below);
            Ok(format!("[{}]", items.collect::<serde_json::Result<Vec<_>>>()?.join(",")))
        }
        Some(b'"') => Ok(Value::from(serde_json::from_str::<String>(json)?).to_string()),
        // A scalar is as written, except that an exponent moves the point instead.
        _ => Ok(written_out(json).unwrap_or_else(|| json.to_owned())),
    }
}

/// The same number without its exponent, digit for digit; `None` if it has none, or one that would take many zeros.
fn written_out(number: &str) -> Option<String> {
    let (mantissa, exponent) = number.split_once(['e', 'E'])?;
    let moved = exponent.parse().ok().filter(|moved: &isize| moved.unsigned_abs() <= MAX_MOVED)?;
    let digits = mantissa.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = "0".repeat(moved.unsigned_abs());
    let digits = [&zeros, whole, fraction, &zeros].concat();
    let (before, after) = digits.split_at_checked((zeros.len() + whole.len()).checked_add_signed(moved)?)?;
    let after = &after[..fraction.len().saturating_add_signed(-moved)];
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let before = Some(before.trim_start_matches('0')).filter(|before| !before.is_empty()).unwrap_or("0");
    Some(if after.is_empty() { format!("{sign}{before}") } else { format!("{sign}{before}.{after}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_equal_text() {
        for (json, text) in [
            (r#"{ "b" : [ 1 , {} ],"a":null }"#, r#"{"a":null,"b":[1,{}]}"#),
            (r#"{"a":1,"\u0061":[]}"#, r#"{"a":[]}"#),
            (r#"["\u0041\/\n\ud83d\ude00","é"]"#, r#"["A/\n😀","é"]"#),
            ("[true, false]", "[true,false]"),
            ("[1e3, 1.0E3, 1000]", "[1000,1000,1000]"),
        ] {
            assert_eq!(canonical(json).unwrap(), text);
        }
    }

    #[test]
    fn digits_are_kept() {
        for json in ["[125282.07792847767]", "[12345678901234567890123]", r#"{"a":[1.10,-0]}"#, "1e400"] {
            assert_eq!(canonical(json).unwrap(), json);
        }
    }

    #[test]
    fn an_exponent_moves_the_point() {
        for (json, text) in [
            ("1.2528207792847767e5", "125282.07792847767"),
            ("12345678901234567890123E0", "12345678901234567890123"),
            ("1.50e+1", "15.0"),
            ("-1.5e3", "-1500"),
            ("12e-1", "1.2"),
            ("1e-7", "0.0000001"),
            ("0.05e1", "0.5"),
            ("0.0e5", "0"),
            ("-0e-2", "-0.00"),
            ("1e-64", &format!("0.{}1", "0".repeat(63))),
            ("1e65", "1e65"),
            ("1e-65", "1e-65"),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ] {
            assert_eq!(canonical(json).unwrap(), text, "{json}");
        }
    }

    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        let lists = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(canonical(&lists(MAX_NESTED)).unwrap(), lists(MAX_NESTED));
        assert!(canonical(&lists(100_000)).is_err());
    }
}
