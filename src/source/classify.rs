//! What a record asks of the limits: its costs and its keys.

use std::rc::Rc;

use super::select::Extractor;
use crate::charge::{Charge, Draft, Key};
use crate::config::{Rate, Selector, keys};

/// Tells what records ask of a set of limits.
pub struct Charger {
    keys: Vec<Extractor>,
    limits: Vec<Rule>,
    /// What every record asks, if all ask the same.
    uniform: Option<Charge>,
}

/// One limit, as far as it concerns a record.
struct Rule {
    name: String,
    cost: Cost,
    /// Applies only to records whose key number so-and-so is this.
    only: Option<(usize, Vec<u8>)>,
    /// The most a record may ask.
    most: Option<u64>,
}

enum Cost {
    Always(u64),
    Selected(Box<Extractor>, Selector),
}

impl Charger {
    /// For these limits, and `separator` between the fields of a record.
    pub fn new(limits: &[Rate], separator: Option<&[u8]>) -> Self {
        let selectors = keys(limits);
        let rule = |rate: &Rate| {
            let key = rate.key.as_ref().and_then(|key| selectors.iter().position(|known| *known == key));
            Rule {
                name: rate.to_string(),
                cost: match &rate.cost {
                    None => Cost::Always(1),
                    Some(Selector::Constant(cost)) => Cost::Always(*cost),
                    Some(selector) => {
                        Cost::Selected(Box::new(Extractor::new(selector, separator)), selector.clone())
                    }
                },
                only: key.zip(rate.only.as_ref().map(|only| only.clone().into_bytes())),
                most: rate.most(),
            }
        };
        let limits: Vec<_> = limits.iter().map(rule).collect();
        let keys: Vec<_> = selectors.iter().map(|key| Extractor::new(key, separator)).collect();
        let mut classifier = Charger { keys, limits, uniform: None };
        classifier.uniform = classifier.common_class();
        classifier
    }

    /// What every record asks, if all ask the same and may.
    pub fn uniform(&self) -> Option<&Charge> {
        self.uniform.as_ref()
    }

    fn common_class(&self) -> Option<Charge> {
        let is_uniform =
            self.keys.is_empty() && self.limits.iter().all(|rule| matches!(rule.cost, Cost::Always(_)));
        if is_uniform { self.classify(b"", 0).ok() } else { None }
    }

    /// What `record`, without its delimiter, asks; with the delimiter it is `length` bytes long.
    ///
    /// # Errors
    /// Why there is no cost, or none that can ever be admitted.
    pub fn classify(&self, record: &[u8], length: usize) -> Result<Charge, String> {
        if let Some(class) = &self.uniform {
            return Ok(class.clone());
        }
        let keys = self.keys(record, length);
        let costs = self.limits.iter().map(|rule| rule.cost(&keys, record, length));
        Ok(Charge { costs: costs.collect::<Result<_, _>>()?, keys })
    }

    /// As [`Charger::classify`], for what cannot be refused any more: it costs nothing where it should be.
    pub(crate) fn charge_leniently(&self, record: &[u8], length: usize) -> Charge {
        let keys = self.keys(record, length);
        let costs = self.limits.iter().map(|rule| rule.cost(&keys, record, length).unwrap_or(0));
        Charge { costs: costs.collect(), keys }
    }

    /// As [`Charger::classify`], into `draft`.
    ///
    /// # Errors
    /// As there.
    pub fn charge_into(&self, record: &[u8], length: usize, draft: &mut Draft) -> Result<(), String> {
        let charge = self.classify(record, length)?;
        draft.costs.clear();
        draft.costs.extend_from_slice(&charge.costs);
        draft.keys.clear();
        draft.keys.extend_from_slice(&charge.keys);
        Ok(())
    }

    fn keys(&self, record: &[u8], length: usize) -> Rc<[Key]> {
        let key = |key: &Extractor| Key::from_slice(&key.select(record, length).unwrap_or_default());
        self.keys.iter().map(key).collect()
    }
}

impl Rule {
    fn cost(&self, keys: &[Key], record: &[u8], length: usize) -> Result<u64, String> {
        if self.only.as_ref().is_some_and(|(key, only)| keys[*key].as_slice() != only) {
            return Ok(0);
        }
        let cost = match &self.cost {
            Cost::Always(cost) => *cost,
            Cost::Selected(extractor, selector) => {
                let text = extractor
                    .select(record, length)
                    .ok_or_else(|| format!("has no {selector} to take its cost from"))?;
                parse(&text).ok_or_else(|| {
                    format!("its cost, {selector}, is '{}', not a whole number", text.escape_ascii())
                })?
            }
        };
        match self.most {
            Some(most) if cost > most => {
                Err(format!("its cost of {cost} is more than the limit {} ever admits", self.name))
            }
            _ => Ok(cost),
        }
    }
}

/// Digits and nothing else.
fn parse(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, RateText};

    fn classifier(rates: &[&str]) -> Charger {
        let resolve = |rate: &&str| rate.parse::<RateText>().unwrap().resolve(&Defaults::default()).unwrap();
        Charger::new(&rates.iter().map(resolve).collect::<Vec<_>>(), None)
    }

    fn classify(rates: &[&str], record: &[u8]) -> Result<(Vec<u64>, Vec<Vec<u8>>), String> {
        let class = classifier(rates).classify(record, record.len() + 1)?;
        Ok((class.costs.to_vec(), class.keys.iter().map(|key| key.to_vec()).collect()))
    }

    #[test]
    fn costs_and_keys() {
        assert_eq!(classify(&["9/s", "9/s,cost=2"], b"x"), Ok((vec![1, 2], vec![])));
        assert_eq!(classify(&["9/s,cost=col:1,key=col:2"], b"3 b"), Ok((vec![3], vec![b"b".to_vec()])));
        assert_eq!(classify(&["9/s,key=col:2"], b"3"), Ok((vec![1], vec![b"".to_vec()])));
        let rates = ["9/s,key=col:1,only=a", "9/s,key=col:1,only=b,cost=col:9", "9/s,key=col:2"];
        assert_eq!(classify(&rates, b"a c"), Ok((vec![1, 0, 1], vec![b"a".to_vec(), b"c".to_vec()])));
    }

    #[test]
    fn what_all_ask_is_known_in_advance() {
        assert!(classifier(&["9/s", "9/s,cost=2"]).uniform().is_some());
        assert!(classifier(&["9/s,cost=10"]).uniform().is_none());
        assert!(classifier(&["9/s,key=col:1"]).uniform().is_none());
        assert!(classifier(&["9/s,cost=bytes"]).uniform().is_none());
    }

    #[test]
    fn bad_costs_say_why() {
        for (rate, record, why) in [
            ("9/s,cost=col:2", &b"x"[..], "has no col:2"),
            ("9/s,cost=col:1", b"-1", "'-1', not a whole number"),
            ("9/s,cost=col:1", b"1.5", "'1.5', not a whole number"),
            ("9/s,cost=col:1", b"+1", "not a whole number"),
            ("9/s,cost=col:1", b"\x1b[2J", "'\\x1b[2J'"),
            ("9/s,cost=col:1", b"10", "9/1s,algo=sliding,cost=col:1 ever admits"),
            ("9/s,cost=10", b"", "more than the limit"),
        ] {
            let error = classify(&[rate], record).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(classify(&["9/s,cost=col:1,algo=bucket"], b"10"), Ok((vec![10], vec![])));
    }
}
