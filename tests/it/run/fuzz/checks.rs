//! Properties that hold for any bytes. The fuzz targets search for counterexamples; the tests check the corpus.

#[cfg(feature = "redis")]
#[path = "server.rs"]
mod server;
#[cfg(feature = "sqlite")]
#[path = "state.rs"]
mod state;
#[path = "value.rs"]
mod value;

use std::fs;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::NamedTempFile;
use throttle::config::{Defaults, Rate, RateText, Resume, parse_limits};
use throttle::exit::End;
use throttle::records::{Completed, Entry, JobLog};
use throttle::sink::parse_headers;
use throttle::source::{Delimiter, Fields, Reader};
use throttle::time::Time;

#[cfg(feature = "redis")]
pub use server::{server, slots};
#[cfg(feature = "sqlite")]
pub use state::state;
pub use value::value;

/// A RATE is parsed or rejected; a parsed one is printed as text with the same meaning.
///
/// # Panics
/// If that is not so.
pub fn rate(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Some(rate) = resolved(text) {
        let printed = rate.to_string();
        assert_eq!(resolved(&printed), Some(rate), "{text:?} is printed as {printed:?}");
    }
}

fn resolved(text: &str) -> Option<Rate> {
    RateText::parse_pausing(text).ok()?.resolve(&Defaults::default()).ok().map(without_remark)
}

/// What is remarked on a text need not be remarked on what is printed.
fn without_remark(rate: Rate) -> Rate {
    Rate { remarks: Vec::new(), ..rate }
}

/// A file of limits is parsed or rejected; a parsed one, printed line by line, means the same.
///
/// # Panics
/// If that is not so.
pub fn limits(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let parse = |text: &str| parse_limits(text, &Defaults::default());
    if let Ok(rates) = parse(text) {
        let printed = rates.iter().map(Rate::to_string).collect::<Vec<_>>().join("\n");
        let read = parse(&printed).unwrap_or_else(|error| panic!("{printed:?}: {error:#}"));
        let plain = |rates: Vec<Rate>| rates.into_iter().map(without_remark).collect::<Vec<_>>();
        assert_eq!(plain(read), plain(rates), "{text:?} is printed as {printed:?}");
    }
}

/// A host is the same as in the shortest URL that contains it.
///
/// # Panics
/// If that is not so.
pub fn host(data: &[u8]) {
    let fields = Fields::new(&["host".parse().expect("a selector")], None);
    let host = |url: &[u8]| fields.select(url, url.len()).next().flatten().map(std::borrow::Cow::into_owned);
    let url = [b"http://", data].concat();
    if let Some(found) = host(&url) {
        let shortest = [b"http://", &found[..]].concat();
        assert_eq!(host(&shortest), Some(found), "{}", url.escape_ascii());
    }
}

/// The paths to look for; the first byte of the input chooses one.
pub const PATHS: [&str; 6] = [".a", ".a.b", ".a.0", ".a.1.b", ".b", ".0"];

/// The value found at a path is the one in the tree of the whole document. In an invalid document a value may be found
/// only if the error is within a part that is skipped.
///
/// # Panics
/// If that is not so.
pub fn json(data: &[u8]) {
    let Some((first, document)) = data.split_first() else { return };
    let path = PATHS[usize::from(*first) % PATHS.len()];
    let fields = Fields::new(&[path.parse().expect("a selector")], None);
    let found = fields.select(document, document.len()).next().flatten();
    match serde_json::from_slice::<Value>(document) {
        Ok(tree) => {
            let value = value_at(&tree, path);
            let found = found.as_deref().map(|found| taken(found, value, document));
            let value = value.filter(|value| !value.is_null()).cloned();
            // Without its exponent, a number may be whole.
            let alike = |value: Value| if has_exponent(document) { as_floats(value) } else { value };
            assert_eq!(found.map(alike), value.map(alike), "{path} of {tree}");
        }
        Err(error) => assert!(
            found.is_none() || serde_json::from_slice::<serde::de::IgnoredAny>(document).is_ok(),
            "{path} of {}: {error}",
            document.escape_ascii()
        ),
    }
}

fn value_at<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    path[1..].split('.').try_fold(tree, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

fn has_exponent(document: &[u8]) -> bool {
    document.iter().any(|byte| b"eE".contains(byte))
}

/// The value with floats for all its numbers.
fn as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(as_floats).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, as_floats(value))).collect())
        }
        other => other,
    }
}

/// The found text as a value, to compare with `value` from the tree of the document. Numbers are copied from the
/// document, except those with an exponent.
fn taken(found: &[u8], value: Option<&Value>, document: &[u8]) -> Value {
    if let Some(Value::String(_)) = value {
        return String::from_utf8_lossy(found).into();
    }
    if let Some(Value::Number(_)) = value
        && !has_exponent(document)
    {
        assert!(document.windows(found.len()).any(|text| text == found), "{}", found.escape_ascii());
    }
    serde_json::from_slice(found).expect("JSON")
}

/// However the input trickles in, its records are those of a simple split, up to the first one that is too long.
///
/// # Panics
/// If that is not so.
pub fn records(data: &[u8]) {
    let Some(case) = Case::new(data) else { return };
    assert_eq!(case.read(), case.cut(), "delimiter {}", case.delimiter.escape_ascii());
}

/// A `Retry-After` header means the same as its value alone, whatever else the block contains.
///
/// # Panics
/// If that is not so.
pub fn advice(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    // The errors show what could not be read.
    let wait = |text: &str| parse_headers(text, now).ok().flatten();
    let Some(value) = text.lines().next().filter(|_| text.lines().count() == 1) else { return };
    // The part of a date before its first colon is not a name.
    if value.split_once(':').is_some_and(|(name, _)| !name.trim().contains(' ')) {
        return;
    }
    for block in [
        format!("HTTP/1.1 429 x\r\nretry-after:{value}\r\nDate: x\r\n\r\n"),
        format!("HTTP/1.1 302 x\r\nRetry-After: 1\r\n\r\nHTTP/1.1 503 x\r\nRETRY-AFTER: {value}\n\n"),
    ] {
        assert_eq!(wait(&block), wait(&text), "{block:?}");
    }
}

/// A file is opened as a job log, keeping its whole lines, or left unchanged; entries added to a log are found later.
///
/// # Panics
/// If that is not so.
pub fn joblog(data: &[u8]) {
    let file = NamedTempFile::new().expect("a file");
    drop(JobLog::open(file.path(), None, false).expect("an empty file becomes a log"));
    let header = fs::read(file.path()).expect("a log");
    // Few inputs would start like a log.
    let (is_log, content) = match data.split_first() {
        Some((b'=', rest)) => (false, rest.to_vec()),
        _ => (true, [&header, data].concat()),
    };
    fs::write(file.path(), &content).expect("a file");
    let Ok(mut log) = JobLog::open(file.path(), None, false) else {
        assert!(!is_log && fs::read(file.path()).expect("a file") == content);
        return;
    };
    let kept = fs::read(file.path()).expect("a log");
    assert!(kept.ends_with(b"\n") && kept.starts_with(&header));
    assert!(content.starts_with(&kept) || header.starts_with(&content));
    let before = count(Completed::look(file.path(), Resume::Unfinished).expect("readable"), data);
    // Two items of a batch do not equal one item that contains the log's delimiter.
    let items = vec![(1, data), (3, data)];
    let entry = Entry { started: Time::ZERO, wait: 0, runtime: 0, attempt: 1, end: End::Exited(0), items };
    log.note(&entry).expect("writable");
    log.printed(1).expect("writable");
    assert_eq!(count(Completed::look(file.path(), Resume::Unfinished).expect("readable"), data), before + 2);
}

/// The number of times that an item was completed.
fn count(mut completed: Completed, item: &[u8]) -> u64 {
    let mut count = 0;
    while completed.take(item) {
        count += 1;
    }
    count
}

/// Four bytes per edit: what to do, where (two bytes), and with what value.
fn damaged(mut bytes: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for edit in edits.chunks_exact(4) {
        let &[kind, high, low, value] = edit else { unreachable!("chunks of four") };
        let place = usize::from(u16::from_be_bytes([high, low]));
        let at = place % (bytes.len() + 1);
        let end = (at + usize::from(value)).min(bytes.len());
        let elsewhere = (at / 2).min(bytes.len() - (end - at));
        match kind % 6 {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value),
            1 => bytes.truncate(at),
            2 => bytes.extend([low].repeat(usize::from(value) * 16)),
            3 => bytes[at..end].fill(high),
            4 => drop(bytes.drain(at..end)),
            // Copies one part over another, as an older copy might overwrite a newer one.
            _ => bytes.copy_within(at..end, elsewhere),
        }
    }
    bytes
}

/// An input, and how it is read.
struct Case {
    delimiter: Vec<u8>,
    max_record: usize,
    /// The lengths of the reads, repeated from the start after the last.
    steps: Vec<usize>,
    input: Vec<u8>,
}

/// The records, and the place of the first one that is too long, in words.
type Records = (Vec<Vec<u8>>, Option<String>);

impl Case {
    /// The longest input. Short data is repeated, to get inputs longer than a single read.
    const MOST: usize = 400_000;

    fn new(data: &[u8]) -> Option<Self> {
        let (&[delimiter, max_record, steps, repeat], rest) = data.split_first_chunk()?;
        let (delimiter, rest) = rest.split_at_checked(1 + usize::from(delimiter % 3))?;
        let (steps, input) = rest.split_at_checked(1 + usize::from(steps % 8))?;
        let most = Self::MOST / input.len().max(1);
        Some(Case {
            delimiter: delimiter.to_vec(),
            max_record: square(max_record),
            steps: steps.iter().map(|&step| square(step)).collect(),
            input: input.repeat(square(repeat).min(most.max(1))),
        })
    }

    fn read(&self) -> Records {
        let delimiter = Delimiter::new(&self.delimiter);
        let input = Trickle { rest: &self.input, steps: self.steps.iter().cycle() };
        let mut records = Vec::new();
        for block in Reader::new(input, delimiter.clone(), self.max_record) {
            match block {
                Ok(block) => {
                    let before = records.len() as u64;
                    records.extend(delimiter.split(block.bytes()).map(<[u8]>::to_vec));
                    assert_eq!(before + block.items(), records.len() as u64);
                }
                Err(error) => {
                    let error = error.to_string();
                    let (place, _) = error.split_once(" is longer than").unwrap_or_else(|| panic!("{error}"));
                    return (records, Some(place.to_owned()));
                }
            }
        }
        (records, None)
    }

    fn cut(&self) -> Records {
        let (mut records, mut start) = (Vec::new(), 0);
        while start < self.input.len() {
            let rest = &self.input[start..];
            let end = rest.windows(self.delimiter.len()).position(|bytes| bytes == self.delimiter);
            let record = &rest[..end.unwrap_or(rest.len())];
            if record.len() > self.max_record {
                let number = records.len() as u64 + 1;
                return (records, Some(format!("item {number}, at byte {start},")));
            }
            records.push(record.to_vec());
            start += record.len() + self.delimiter.len();
        }
        (records, None)
    }
}

fn square(byte: u8) -> usize {
    usize::from(byte).pow(2).max(1)
}

/// Gives out its bytes a few at a time.
struct Trickle<'a, S> {
    rest: &'a [u8],
    steps: S,
}

impl<'a, S: Iterator<Item = &'a usize>> Read for Trickle<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = self.steps.next().copied().unwrap_or(1);
        let length = step.min(buffer.len());
        self.rest.read(&mut buffer[..length])
    }
}
