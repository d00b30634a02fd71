//! The charge of a record: its costs and its keys.

use std::borrow::Cow;

use super::fields::{Fields, NOT_JSON, ParsedItem};
use super::host::canonical_host;
use super::part::Selected;
use crate::charge::{Charge, Draft, Key};
use crate::config::{CountFrom, Rate, Selector, Separator, key_indices, keys, lacking};
use crate::printable::excerpt;

/// Works out the charges of records for a set of limits.
pub struct Charger {
    /// The keys, followed by the selected costs.
    fields: Fields,
    /// The number of keys.
    keys: usize,
    /// The keys that some limit goes by for all items, not `only` for one key.
    needed: Vec<bool>,
    /// Those of these that the last record lacks.
    lacking: Vec<usize>,
    pub(super) limits: Vec<ChargeRule>,
    separator: Option<Separator>,
    /// The charge of every record, if all have the same.
    uniform: Option<Charge>,
}

/// The rule by which one limit charges a record.
pub(super) struct ChargeRule {
    name: String,
    cost: Cost,
    /// True if costs of records released together are added up; otherwise the highest counts.
    pub(super) sums: bool,
    /// The index of its key, if it has one.
    pub(super) key: Option<usize>,
    only: Option<Only>,
    most: Option<u64>,
    /// What would admit more, in parentheses.
    remedy: Cow<'static, str>,
}

/// The one key that a limit applies to.
struct Only {
    key: Vec<u8>,
    /// True if a record with this key has come.
    matched: bool,
}

/// The only key that a limit applies to, if there is one. The selector gives hosts in their canonical form.
pub(crate) fn only_key(rate: &Rate) -> Option<Vec<u8>> {
    let only = rate.only.as_ref()?;
    let is_host = rate.key == Some(Selector::Host);
    Some(if is_host { canonical_host(only) } else { only.clone().into_bytes() })
}

enum Cost {
    Always(u64),
    /// The index among the fields.
    Selected(usize),
}

impl Charger {
    /// A charger for these limits. Without `separator`, runs of blanks separate columns.
    pub fn new(limits: &[Rate], separator: Option<&Separator>) -> Self {
        let selectors = keys(limits);
        let mut fields = Fields::new(selectors.iter().copied(), separator);
        let rule = |(rate, key): (&Rate, Option<usize>)| ChargeRule {
            name: rate.to_string(),
            cost: Cost::new(rate.cost.as_ref(), separator, &mut fields),
            sums: rate.cost.is_some(),
            key,
            only: only_key(rate).map(|key| Only { key, matched: false }),
            most: rate.most(),
            remedy: Cow::Borrowed(match rate.from {
                CountFrom::Start => " (it waits with algo=bucket; with -s, algo=interval)",
                CountFrom::Exit => " (it waits with algo=interval)",
                CountFrom::Running => "",
            }),
        };
        let limits: Vec<_> = limits.iter().zip(key_indices(limits)).map(rule).collect();
        let is_needed = |key| limits.iter().any(|rule| rule.key == Some(key) && rule.only.is_none());
        let needed = (0..selectors.len()).map(is_needed).collect();
        let keys = selectors.len();
        let (lacking, separator) = (Vec::new(), separator.cloned());
        let mut charger = Charger { fields, keys, needed, lacking, limits, separator, uniform: None };
        charger.uniform = charger.common_charge();
        charger
    }

    /// Also charges records that cost more than a limit ever admits.
    pub(crate) fn without_bounds(mut self) -> Self {
        self.limits.iter_mut().for_each(|rule| rule.most = None);
        self.uniform = self.common_charge();
        self
    }

    /// Lowers the most that a record may cost to what slots of each limit may.
    pub(crate) fn bound(&mut self, most: &[u64]) {
        for (rule, &most) in self.limits.iter_mut().zip(most) {
            if rule.most.is_none_or(|own| own > most) {
                rule.most = Some(most);
                rule.remedy = format!(" if shared, {most} (a higher burst would)").into();
            }
        }
        self.uniform = self.common_charge();
    }

    /// The charge of every record, if all have the same and it can be admitted.
    pub(crate) fn uniform(&self) -> Option<&Charge> {
        self.uniform.as_ref()
    }

    fn common_charge(&mut self) -> Option<Charge> {
        self.uniform = None;
        let is_uniform =
            self.keys == 0 && self.limits.iter().all(|rule| matches!(rule.cost, Cost::Always(_)));
        if is_uniform { self.charge(b"", 0).ok() } else { None }
    }

    /// The charge of `record`, which is without its delimiter; `length` includes it.
    ///
    /// # Errors
    /// As [`Charger::charge_into`].
    pub fn charge(&mut self, record: &[u8], length: usize) -> Result<Charge, String> {
        let mut draft = Draft::default();
        self.charge_into(record, length, &mut draft).map(|()| draft.charge())
    }

    /// Like [`Charger::charge`], but overwrites a draft.
    ///
    /// # Errors
    /// The reason, with an excerpt of the record, if it has no valid cost or one that is never admitted. In the draft,
    /// that cost is then 0.
    pub fn charge_into(&mut self, record: &[u8], length: usize, draft: &mut Draft) -> Result<(), String> {
        if let Some(charge) = &self.uniform {
            draft.costs.clear();
            draft.costs.extend_from_slice(&charge.costs);
            draft.keys.clear();
            return Ok(());
        }
        let record = self.fields.look(record, length);
        draft.keys.resize_with(self.keys, Key::new);
        self.lacking.clear();
        for (index, key) in draft.keys.iter_mut().enumerate() {
            let part = record.part(index);
            part.write_to(key);
            // Blank lines are seldom meant as items.
            if part == Selected::Missing && self.needed[index] && !record.bytes.trim_ascii().is_empty() {
                self.lacking.push(index);
            }
        }
        draft.costs.clear();
        let mut charged = Ok(());
        for rule in &mut self.limits {
            let cost = rule.cost(&draft.keys, &record);
            draft.costs.push(*cost.as_ref().unwrap_or(&0));
            if let (Err(why), Ok(())) = (cost, &charged) {
                charged = Err(record.bad(&why));
            }
        }
        charged
    }

    /// The keys that the last record lacks, by their indices.
    pub(crate) fn lacking(&self) -> &[usize] {
        &self.lacking
    }

    /// True if a column of this record is looked for without regard to its quotes.
    pub(crate) fn cuts_quotes(&self, record: &[u8]) -> bool {
        self.fields.cuts_quotes(record)
    }

    /// The limits with an `only=` that no record has matched so far.
    pub(crate) fn unmatched(&self) -> impl Iterator<Item = &str> {
        let is_unmatched = |rule: &&ChargeRule| rule.only.as_ref().is_some_and(|only| !only.matched);
        self.limits.iter().filter(is_unmatched).map(|rule| rule.name.as_str())
    }

    /// Charges under other limits from now on. Those that were there before keep whether they have been matched.
    pub(crate) fn change_limits(&mut self, limits: &[Rate]) {
        let before = std::mem::replace(self, Charger::new(limits, self.separator.as_ref()));
        for rule in &mut self.limits {
            let was_matched = |old: &ChargeRule| {
                old.name == rule.name && old.only.as_ref().is_some_and(|only| only.matched)
            };
            if let Some(only) = &mut rule.only {
                only.matched |= before.limits.iter().any(was_matched);
            }
        }
    }
}

impl Cost {
    fn new(cost: Option<&Selector>, separator: Option<&Separator>, fields: &mut Fields) -> Self {
        match cost {
            None => Cost::Always(1),
            Some(Selector::Constant(cost)) => Cost::Always(*cost),
            Some(selector) => Cost::Selected(fields.add(selector, separator)),
        }
    }

    fn of(&self, record: &ParsedItem) -> Result<u64, String> {
        match *self {
            Cost::Always(cost) => Ok(cost),
            Cost::Selected(index) if record.lacks_json(index) => Err(NOT_JSON.to_owned()),
            Cost::Selected(index) => {
                let part = record.part(index);
                let selector = record.selector(index);
                part.cost(selector).ok_or_else(|| why_no_cost(selector, &part))
            }
        }
    }
}

#[cold]
fn why_no_cost(selector: &Selector, part: &Selected) -> String {
    match part {
        Selected::Text(text) if is_too_large(text) => {
            format!("its cost, {selector}, is more than 2^64-1")
        }
        Selected::Text(text) => format!("its cost, {selector}, is {}, not a whole number", excerpt(text)),
        Selected::Missing | Selected::Number(_) => lacking(selector) + " for its cost",
    }
}

/// True for a number, however it is written, that is more than 64 bits hold, as far as a float can tell.
fn is_too_large(text: &[u8]) -> bool {
    let number =
        str::from_utf8(text).ok().filter(|text| text.starts_with(|first: char| first.is_ascii_digit()));
    number
        .and_then(|text| text.parse().ok())
        .is_some_and(|number: f64| number >= 18_446_744_073_709_551_616.0)
}

impl ChargeRule {
    fn cost(&mut self, keys: &[Key], record: &ParsedItem) -> Result<u64, String> {
        if let Some((only, key)) = self.only.as_mut().zip(self.key) {
            if keys[key].as_slice() != only.key {
                return Ok(0);
            }
            only.matched = true;
        }
        let cost = self.cost.of(record)?;
        if self.most.is_some_and(|most| cost > most) {
            let (limit, remedy) = (&self.name, &self.remedy);
            return Err(format!("its cost of {cost} is more than the limit {limit} ever admits{remedy}"));
        }
        Ok(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charger(rates: &[&str]) -> Charger {
        let resolve = |rate: &&str| rate.parse::<Rate>().unwrap();
        Charger::new(&rates.iter().map(resolve).collect::<Vec<_>>(), None)
    }

    fn charge(rates: &[&str], record: &[u8]) -> Result<(Vec<u64>, Vec<Vec<u8>>), String> {
        let charge = charger(rates).charge(record, record.len() + 1)?;
        Ok((charge.costs.to_vec(), charge.keys.iter().map(|key| key.to_vec()).collect()))
    }

    #[test]
    fn costs_and_keys() {
        assert_eq!(charge(&["9/s", "9/s,cost=2"], b"x"), Ok((vec![1, 2], vec![])));
        assert_eq!(charge(&["9/s,cost=col:1,key=col:2"], b"3 b"), Ok((vec![3], vec![b"b".to_vec()])));
        assert_eq!(charge(&["9/s,key=col:2"], b"3"), Ok((vec![1], vec![b"".to_vec()])));
        for number in ["3", "3.0", "3.000", "30e-1", "0.3e1", "300E-2"] {
            let record = format!("{{\"n\": {number}}}");
            assert_eq!(charge(&["9/s,cost=.n"], record.as_bytes()), Ok((vec![3], vec![])), "{number}");
        }
        let rates = ["9/s,key=col:1,only=a", "9/s,key=col:1,only=b,cost=col:9", "9/s,key=col:2"];
        assert_eq!(charge(&rates, b"a c"), Ok((vec![1, 0, 1], vec![b"a".to_vec(), b"c".to_vec()])));
    }

    #[test]
    fn what_all_ask_is_known_in_advance() {
        assert!(charger(&["9/s", "9/s,cost=2"]).uniform().is_some());
        assert!(charger(&["9/s,cost=10"]).uniform().is_none());
        assert!(charger(&["9/s,key=col:1"]).uniform().is_none());
        assert!(charger(&["9/s,cost=bytes"]).uniform().is_none());
    }

    #[test]
    fn bad_costs_say_why() {
        for (rate, record, why) in [
            ("9/s,cost=col:2", &b"x"[..], "has no col:2"),
            ("9/s,cost=col:1", b"-1", "'-1', not a whole number"),
            ("9/s,cost=col:1", b"1.5", "'1.5', not a whole number"),
            ("9/s,cost=col:1", b"+1", "not a whole number"),
            ("9/s,cost=col:1", b"18446744073709551616", "its cost, col:1, is more than 2^64-1: '18"),
            ("9/s,cost=col:1", b"\x1b[2J", "'\\x1b[2J'"),
            ("9/s,cost=col:1", b"10", "9/1s,algo=sliding,cost=col:1 ever admits (it waits with algo=bucket;"),
            ("9/s,cost=col:1,from=exit", b"10", "ever admits (it waits with algo=interval): '10'"),
            ("9/running,cost=col:1", b"10", "9/running,cost=col:1 ever admits: '10'"),
            ("9/s,cost=10", b"", "more than the limit"),
            ("9/s,cost=.n", b"bad", "not JSON: 'bad'"),
            ("9/s,cost=.n", b"{\"m\": 1}", "has no .n for its cost: '{\"m\": 1}'"),
            ("9/s,cost=.n", b"{\"n\": 1e400}", "its cost, .n, is more than 2^64-1"),
            ("9/s,cost=.n", b"{\"n\": 1.5}", "'1.5', not a whole number"),
            ("9/s,cost=.n", b"{\"n\": 15e-1}", "'1.5', not a whole number"),
            ("9/s,cost=.n", b"{\"n\": \"3.\\u0030x\"}", "'3.0x', not a whole number"),
            ("9/s,cost=.n", b"{\"n\": \"3.\"}", "'3.', not a whole number"),
            ("9/s,cost=col:1", b"3.0", "'3.0', not a whole number"),
        ] {
            let error = charge(&[rate], record).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(charge(&["9/s,cost=col:1,algo=bucket"], b"10"), Ok((vec![10], vec![])));
    }

    #[test]
    fn slots_may_admit_less() {
        for cost in ["10", "col:1"] {
            let mut charger = charger(&[&format!("10/s,algo=bucket,cost={cost}")]);
            charger.bound(&[10]);
            assert!(charger.charge(b"10", 3).is_ok());
            charger.bound(&[9]);
            let error = charger.charge(b"10", 3).unwrap_err();
            assert!(error.contains(" ever admits if shared, 9 (a higher burst would): '10'"), "{error}");
            assert_eq!(charger.uniform(), None);
        }
    }

    #[test]
    fn a_draft_is_used_again() {
        let mut charger = charger(&["9/s,cost=.n,key=.a.id", "9/s,key=bytes"]);
        let mut draft = Draft::default();
        for (record, cost, id) in [
            (
                &br#"{"n": 3, "a": {"id": "a-key-that-needs-memory-of-its-own"}}"#[..],
                3,
                "a-key-that-needs-memory-of-its-own",
            ),
            (br#"{"n": "4", "a": {"id": 7}}"#, 4, "7"),
            (br#"{"n": 0}"#, 0, ""),
        ] {
            charger.charge_into(record, 5, &mut draft).unwrap();
            assert_eq!(draft.costs, [cost, 1]);
            assert_eq!(draft.keys, [Key::from_slice(id.as_bytes()), Key::from_slice(b"5")]);
        }
        assert!(charger.charge_into(b"bad", 5, &mut draft).is_err());
        charger.charge_into(br#"{"n": 1}"#, 5, &mut draft).unwrap();
        assert_eq!(draft.charge(), charger.charge(br#"{"n": 1}"#, 5).unwrap());
    }

    #[test]
    fn a_limit_for_one_host_only_is_for_it_however_either_is_written() {
        for only in ["example.org", "Example.ORG."] {
            let costs = |url| charge(&[&format!("9/s,key=host,only={only}")], url).unwrap().0;
            assert_eq!(costs(b"http://example.org/"), [1]);
            assert_eq!(costs(b"http://EXAMPLE.org:80/"), [1]);
            assert_eq!(costs(b"http://example.com/"), [0]);
        }
    }

    #[test]
    fn limits_for_one_key_that_never_came_are_known() {
        let rates = ["9/s", "9/s,key=col:1,only=a", "9/s,key=col:1,only=b", "9/s,key=col:2,only=b"];
        let names = |charger: &Charger| charger.unmatched().map(str::to_owned).collect::<Vec<_>>();
        let mut first = charger(&rates);
        assert_eq!(names(&first).len(), 3);
        first.charge(b"a x", 4).unwrap();
        let unmatched = ["9/1s,algo=sliding,key=col:1,only=b", "9/1s,algo=sliding,key=col:2,only=b"];
        assert_eq!(names(&first), unmatched);

        let rates = ["9/s,key=col:1,only=a", "9/s,key=col:1,only=b", "9/s,key=col:1,only=c"];
        first.change_limits(&rates.map(|rate| rate.parse().unwrap()));
        let unmatched = ["9/1s,algo=sliding,key=col:1,only=b", "9/1s,algo=sliding,key=col:1,only=c"];
        assert_eq!(names(&first), unmatched);
    }

    #[test]
    fn what_is_not_json_has_empty_keys() {
        assert_eq!(charge(&["9/s,key=.id"], b"bad"), Ok((vec![1], vec![vec![]])));
    }
}
