//! A reader of the Prometheus text format that accepts only what the format allows.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of a page, by name and labels as written.
#[derive(PartialEq, Debug)]
pub(crate) struct Page(BTreeMap<String, f64>);

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The line that is not valid, and why.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_suffix('\n').ok_or("the last line is torn")?;
        let mut reader = Reader::default();
        for line in text.split('\n') {
            reader.read(line).map_err(|why| format!("'{line}': {why}"))?;
        }
        reader.check_end()?;
        Ok(Page(reader.samples))
    }

    /// The value of a series.
    #[track_caller]
    pub(crate) fn value(&self, series: &str) -> f64 {
        self.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    pub(crate) fn get(&self, series: &str) -> Option<f64> {
        self.0.get(series).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[derive(Default)]
struct Reader {
    samples: BTreeMap<String, f64>,
    /// The metrics so far; each may have only one group.
    seen: BTreeSet<String>,
    /// The metric of the current group, and its type once that is known.
    group: String,
    kind: Option<String>,
    /// The number of samples in the group.
    size: usize,
}

impl Reader {
    fn read(&mut self, line: &str) -> Result<(), String> {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').ok_or("no help")?;
            self.check_end()?;
            is_name(name).then_some(()).ok_or("no name of a metric")?;
            self.seen.insert(name.to_owned()).then_some(()).ok_or("a second group")?;
            is_escaped(text, false).then_some(()).ok_or("not escaped")?;
            (self.group, self.kind, self.size) = (name.to_owned(), None, 0);
            return Ok(());
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or("no type")?;
            let is_next = name == self.group && self.kind.is_none();
            is_next.then_some(()).ok_or("the type of another metric")?;
            ["counter", "gauge"].contains(&kind).then_some(()).ok_or("an unknown type")?;
            (kind == "counter" || !name.ends_with("_total")).then_some(()).ok_or("the name of a counter")?;
            (kind == "gauge" || name.ends_with("_total")).then_some(()).ok_or("not the name of a counter")?;
            self.kind = Some(kind.to_owned());
            return Ok(());
        }
        self.sample(line)
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
        let (name, labels) = series.split_once('{').ok_or("no labels")?;
        (name == self.group).then_some(()).ok_or("a sample of another metric")?;
        check_labels(labels)?;
        let number = match value {
            "+Inf" => f64::INFINITY,
            _ => value.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or("no number")?,
        };
        let is_counter = self.kind.as_deref().ok_or("no type before it")? == "counter";
        (!is_counter || number >= 0.0).then_some(()).ok_or("a counter below 0")?;
        self.size += 1;
        match self.samples.insert(series.to_owned(), number) {
            Some(_) => Err("a series that is there already".to_owned()),
            None => Ok(()),
        }
    }

    fn check_end(&self) -> Result<(), String> {
        let is_empty = self.size == 0 && !self.group.is_empty();
        if is_empty { Err(format!("{} has no samples", self.group)) } else { Ok(()) }
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Checks labels up to the closing brace.
fn check_labels(mut rest: &str) -> Result<(), String> {
    let mut names = BTreeSet::new();
    loop {
        let (name, value) = rest.split_once("=\"").ok_or("no label")?;
        let is_valid = is_name(name) && !name.contains(':') && names.insert(name);
        is_valid.then_some(()).ok_or("no name of a label, or one that is there already")?;
        let end = end_of_value(value).ok_or("a value that does not end")?;
        is_escaped(&value[..end], true).then_some(()).ok_or("an unknown escape")?;
        match &value[end + 1..] {
            "}" => return Ok(()),
            more => rest = more.strip_prefix(',').ok_or("neither , nor } after a label")?,
        }
    }
}

/// The position of the first quotation mark that is not escaped.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

/// Whether each backslash starts a known escape.
fn is_escaped(text: &str, is_quoted: bool) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let is_known = |c| c == '\\' || c == 'n' || (is_quoted && c == '"');
        if c == '\\' && !chars.next().is_some_and(is_known) {
            return false;
        }
    }
    true
}

#[test]
fn what_is_not_valid_is_refused() {
    let head = "# HELP a_total x\n# TYPE a_total counter\n";
    let good = ["a_total{b=\"c\\\\\\\"\\n,}\",d=\"\"} 1.5\n", "a_total{b=\"\u{e9}{\"} 0\n"];
    good.iter()
        .for_each(|sample| assert_eq!(Page::parse(&format!("{head}{sample}")).map(|p| p.len()), Ok(1)));
    let bad = [
        "",
        "a_total{b=\"c\"} 1",
        "a_total{b=\"c\"} -1\n",
        "a_total{b=\"c\"} x\n",
        "a_total{b=\"c\"} 1\na_total{b=\"c\"} 2\n",
        "a_total{b=\"c\",b=\"d\"} 1\n",
        "a_total{b=\"\\d\"} 1\n",
        "a_total{b=\"c\"d\"} 1\n",
        "a_total{b=\"c} 1\n",
        "a_total{1=\"c\"} 1\n",
        "b_total{b=\"c\"} 1\n",
        "a_total{b=\"c\"} 1\n# HELP a_total x\n",
        "a_total{b=\"c\"} 1\n# HELP b x\n# TYPE b counter\nb{c=\"d\"} 1\n",
        "a_total{b=\"c\"} 1\n# HELP b_total x\n# TYPE b_total gauge\nb_total{c=\"d\"} 1\n",
    ];
    for sample in bad {
        assert!(Page::parse(&format!("{head}{sample}")).is_err(), "{sample}");
    }
}
