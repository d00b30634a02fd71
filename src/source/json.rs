//! The values at some paths of a JSON text. Everything else is skipped.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

use super::canonical::canonical;
use super::part::Selected;

/// Paths as a tree of names: one pass over the text finds all values.
#[derive(Default)]
pub(super) struct Paths {
    root: PathNode,
    count: usize,
}

/// One value for each path, in the order in which the paths were added.
pub(super) type PathValues<'a> = SmallVec<[Selected<'a>; 4]>;

#[derive(Default)]
struct PathNode {
    name: String,
    /// The name as an array index.
    index: Option<usize>,
    /// The number of the path that ends here.
    path: Option<usize>,
    children: Vec<PathNode>,
}

impl Paths {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a path of names and, in arrays, indices. Returns its number.
    pub(super) fn add(&mut self, path: &[String]) -> usize {
        let end = path.iter().fold(&mut self.root, |node, name| node.child(name));
        let number = *end.path.get_or_insert(self.count);
        self.count = self.count.max(number + 1);
        number
    }

    /// The values in `text`: strings without quotes, numbers as written but without their exponent, other values as
    /// canonical JSON. `null` is missing. If several members have the same name, the last counts.
    ///
    /// # Errors
    /// It is not JSON, as far as can be told without decoding what is skipped.
    pub(super) fn values<'a>(&self, text: &'a [u8]) -> Result<PathValues<'a>, serde_json::Error> {
        // A number where a path goes on is read as a float, which may be too large.
        self.read(text, false).or_else(|_| self.read(text, true))
    }

    fn read<'a>(&self, text: &'a [u8], twice: bool) -> Result<PathValues<'a>, serde_json::Error> {
        let mut values = smallvec![Selected::Missing; self.count];
        let mut json = serde_json::Deserializer::from_slice(text);
        At { node: &self.root, values: &mut values, twice }.deserialize(&mut json)?;
        json.end()?;
        Ok(values)
    }
}

impl PathNode {
    fn child(&mut self, name: &str) -> &mut PathNode {
        let at = self.children.iter().position(|child| child.name == name).unwrap_or_else(|| {
            // Only one spelling of a number is an index, not `+1` or `01`: no two children have the same index.
            let index = name.parse().ok().filter(|index: &usize| index.to_string() == name);
            self.children.push(PathNode { name: name.to_owned(), index, ..PathNode::default() });
            self.children.len() - 1
        });
        &mut self.children[at]
    }

    /// Clears the values at this node and below, as a later member of the same name replaces them.
    fn clear(&self, values: &mut PathValues<'_>) {
        self.path.iter().for_each(|&path| values[path] = Selected::Missing);
        self.children.iter().for_each(|child| child.clear(values));
    }
}

/// The selected part for a JSON value.
fn part(json: &str) -> serde_json::Result<Selected<'_>> {
    Ok(match json.as_bytes() {
        b"null" => Selected::Missing,
        [b'"', text @ .., b'"'] if !text.contains(&b'\\') => Selected::borrowed(text),
        [b'"', ..] => Selected::owned(serde_json::from_str::<String>(json)?),
        // Objects, arrays, and numbers with an exponent get a canonical form.
        _ if json.contains(['{', '[', 'e', 'E']) => Selected::owned(canonical(json)?),
        scalar => Selected::borrowed(scalar),
    })
}

/// Reads the value at a node of the paths.
struct At<'n, 'v, 'a> {
    node: &'n PathNode,
    values: &'v mut PathValues<'a>,
    /// Each value is delimited before an object or array is read a second time, so that no number is read as a float.
    twice: bool,
}

impl<'a> DeserializeSeed<'a> for At<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        if self.node.path.is_none() && !self.twice {
            return json.deserialize_any(self);
        }
        let value = <&RawValue>::deserialize(json)?.get();
        if let Some(path) = self.node.path {
            self.values[path] = part(value).map_err(D::Error::custom)?;
        }
        if self.node.children.is_empty() || !value.starts_with(['{', '[']) {
            return Ok(());
        }
        serde_json::Deserializer::from_str(value).deserialize_any(self).map_err(D::Error::custom)
    }
}

macro_rules! ignore {
    ($($visit:ident($scalar:ty)),*) => {
        $(fn $visit<E: Error>(self, _: $scalar) -> Result<(), E> {
            Ok(())
        })*
    };
}

/// Finds the values below the node: none, unless this value is an object or an array.
impl<'a> Visitor<'a> for At<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    ignore!(visit_bool(bool), visit_u64(u64), visit_i64(i64), visit_f64(f64), visit_str(&str));

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<(), A::Error> {
        let At { node, values, twice } = self;
        for index in 0.. {
            let child = node.children.iter().find(|child| child.index == Some(index));
            let is_there = match child {
                Some(node) => items.next_element_seed(At { node, values, twice })?.is_some(),
                None => items.next_element::<IgnoredAny>()?.is_some(),
            };
            if !is_there {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(child) = members.next_key_seed(Name(self.node))? {
            match child {
                Some(node) => {
                    node.clear(self.values);
                    members.next_value_seed(At { node, values: self.values, twice: self.twice })?;
                }
                None => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Reads the name of a member, and looks up its node.
struct Name<'n>(&'n PathNode);

impl<'a, 'n> DeserializeSeed<'a> for Name<'n> {
    type Value = Option<&'n PathNode>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Name<'n> {
    type Value = Option<&'n PathNode>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().find(|child| child.name == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(paths: &[&str], text: &str) -> Result<Vec<Option<String>>, String> {
        let mut tree = Paths::default();
        let path = |path: &&str| path[1..].split('.').map(str::to_owned).collect::<Vec<_>>();
        for (number, text) in paths.iter().enumerate() {
            assert_eq!(tree.add(&path(text)), number);
        }
        let values = tree.values(text.as_bytes()).map_err(|error| error.to_string())?;
        let text =
            |value: Selected<'_>| value.into_text().map(|text| String::from_utf8(text.into_owned()).unwrap());
        Ok(values.into_iter().map(text).collect())
    }

    #[test]
    fn one_pass_finds_all_paths() {
        let text =
            r#"{"skip": [{"a": 9}, "]"], "user": {"id": "u1", "age": 7}, "tokens": 120, "list": [5, [6]]}"#;
        let paths = [".tokens", ".user.id", ".user", ".user.age", ".list.1.0", ".list.0", ".nothing"];
        let user = r#"{"age":7,"id":"u1"}"#;
        let expected = [Some("120"), Some("u1"), Some(user), Some("7"), Some("6"), Some("5"), None];
        assert_eq!(values(&paths, text).unwrap(), expected.map(|text| text.map(str::to_owned)));
    }

    #[test]
    fn numbers_are_taken_as_they_are_written() {
        for (number, taken) in [
            ("12345678901234567890123", "12345678901234567890123"),
            ("1700000000.123456789", "1700000000.123456789"),
            ("-1.10", "-1.10"),
            ("1.5e3", "1500"),
            ("1e400", "1e400"),
        ] {
            for paths in [&[".a"][..], &[".a", ".a.b"]] {
                let text = format!(r#"{{"a": {number} }}"#);
                assert_eq!(values(paths, &text).unwrap()[0].as_deref(), Some(taken), "{text}");
            }
            let text = format!(r#"{{"l": [0, {number}, {{"n": {number}}}]}}"#);
            let [first, second] = &values(&[".l.1", ".l.2.n"], &text).unwrap()[..] else { panic!() };
            assert_eq!([first, second], [&Some(taken.to_owned()); 2], "{text}");
        }
    }

    #[test]
    fn no_path_goes_through_a_number() {
        for number in ["1", "1e400", "-1E999", "1e-400"] {
            let text = format!(r#"{{"a": {number}, "b": [{number}, {{"c": 5}}]}}"#);
            let found = values(&[".a.b", ".b.0.x", ".b.1.c", ".a"], &text).unwrap();
            assert_eq!(found, [None, None, Some("5".to_owned()), values(&[".a"], &text).unwrap().remove(0)]);
            assert!(
                values(&[".a.b"], &format!("{text} x")).is_err() && values(&[".a.b"], &text[1..]).is_err()
            );
        }
    }

    #[test]
    fn of_several_members_of_one_name_the_last_counts() {
        let value = |path, text| values(&[path], text).unwrap().remove(0);
        assert_eq!(value(".a", r#"{"a": 1, "a": 2}"#).as_deref(), Some("2"));
        assert_eq!(value(".a.b", r#"{"a": {"b": 1}, "a": {"c": 2}}"#), None);
        assert_eq!(value(".a.b", r#"{"a": {"b": 1}, "\u0061": {"b": 3}}"#).as_deref(), Some("3"));
        assert_eq!(value(".a", r#"{"a": 1, "a": null}"#), None);
    }

    #[test]
    fn what_is_not_json_has_no_values() {
        for text in ["", "bad", "{", r#"{"a": 1} x"#, r#"{"a": 1,}"#, r#"{"a": 1}{"a": 2}"#, r#"{"a": 01}"#] {
            assert!(values(&[".a"], text).is_err(), "{text}");
        }
    }
}
