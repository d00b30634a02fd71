//! A canonical form of JSON values: equal values become equal text.

use std::collections::BTreeMap;

use serde::de::Error;
use serde_json::Value;
use serde_json::value::RawValue;

/// The limit of `serde_json`: deeper nesting could overflow the stack.
const MOST_NESTED: usize = 128;

/// `json` without white space, with the members of objects sorted by name. If several have the same name, the last
/// counts. Numbers without an exponent stay as written, as a float would round them.
///
/// # Errors
/// A string in it has half of a surrogate pair, or it is nested too deeply.
pub(super) fn canonical(json: &str) -> serde_json::Result<String> {
    nested(json, MOST_NESTED)
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
        _ => Ok(scalar(json)),
    }
}

/// A scalar as written, except that a number loses its exponent unless it is very large or small.
fn scalar(json: &str) -> String {
    let float = json.parse().ok().filter(|float: &f64| json.contains(['e', 'E']) && float.is_finite());
    float.map_or_else(|| json.to_owned(), |float| Value::from(float).to_string())
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
            ("[1e3, 1.0E3]", "[1000.0,1000.0]"),
        ] {
            assert_eq!(canonical(json).unwrap(), text);
        }
    }

    #[test]
    fn digits_are_kept() {
        for json in ["[125282.07792847767]", "[12345678901234567890123]", r#"{"a":[1.10,-0]}"#, "1e400"] {
            assert_eq!(canonical(json).unwrap(), json);
        }
        assert_eq!(canonical("1.2528207792847767e5").unwrap(), "125282.07792847767");
    }

    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        let lists = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(canonical(&lists(MOST_NESTED)).unwrap(), lists(MOST_NESTED));
        assert!(canonical(&lists(100_000)).is_err());
    }
}
