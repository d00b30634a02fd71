//! All limits of a run: some given on the command line, some in files that may change.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

use super::rate::{Defaults, Rate};
use super::rate_text::RateText;

/// Where limits come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A RATE.
    Rate(RateText),
    /// `@FILE`: one RATE a line, `#` begins a comment.
    File(LimitsFile),
}

/// A file of limits, which may change if it is a regular one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitsFile {
    path: PathBuf,
    /// What it held, if it can be read only once, as a pipe can.
    read: OnceLock<String>,
}

impl LimitsFile {
    fn new(path: &str) -> Self {
        LimitsFile { path: path.into(), read: OnceLock::new() }
    }

    fn may_change(&self) -> bool {
        self.read.get().is_none()
    }

    fn text(&self) -> io::Result<String> {
        if let Some(text) = self.read.get() {
            return Ok(text.clone());
        }
        let mut file = File::open(&self.path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        if !file.metadata()?.is_file() {
            let _ = self.read.set(text.clone());
        }
        Ok(text)
    }
}

impl std::str::FromStr for Source {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix('@') {
            Some(path) => {
                ensure!(!path.is_empty(), "the name of a file is needed, as in @limits.conf");
                Ok(Source::File(LimitsFile::new(path)))
            }
            None => text.parse().map(Source::Rate),
        }
    }
}

/// All limits of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Where they come from; at least one.
    pub sources: Vec<Source>,
    /// What they are where they do not say.
    pub defaults: Defaults,
}

impl Limits {
    /// The limits as they are now; files are read.
    ///
    /// # Errors
    /// A file that cannot be read or holds no limit, or a limit that makes no sense, with its place.
    pub fn load(&self) -> Result<Vec<Rate>> {
        let mut rates = Vec::new();
        for source in &self.sources {
            match source {
                Source::Rate(rate) => rates.push(rate.resolve(&self.defaults)?),
                Source::File(file) => rates.extend(self.read(file)?),
            }
        }
        Ok(rates)
    }

    /// Checks the limits that do not come from files.
    ///
    /// # Errors
    /// One that makes no sense.
    pub fn check(&self) -> Result<()> {
        self.rates().try_for_each(|rate| rate.resolve(&self.defaults).map(drop))
    }

    /// Whether one with a burst is among them, or may be in a file.
    pub fn may_have_burst(&self) -> bool {
        self.sources.iter().any(|source| match source {
            Source::Rate(rate) => rate.algorithm(&self.defaults).facts().has_burst,
            Source::File(_) => true,
        })
    }

    /// Whether one that does not come from a file counts commands until they exit.
    pub fn count_exits(&self) -> bool {
        self.rates().any(RateText::counts_exits)
    }

    /// What the user may not have meant, in limits that do not come from files.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.rates().filter_map(RateText::warning)
    }

    fn rates(&self) -> impl Iterator<Item = &RateText> {
        self.sources.iter().filter_map(|source| match source {
            Source::Rate(rate) => Some(rate),
            Source::File(_) => None,
        })
    }

    /// The files among the sources that may change, once they are loaded.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().filter_map(|source| match source {
            Source::File(file) if file.may_change() => Some(file.path.as_path()),
            Source::File(_) | Source::Rate(_) => None,
        })
    }

    fn read(&self, file: &LimitsFile) -> Result<Vec<Rate>> {
        let name = file.path.display();
        let text = file.text().with_context(|| format!("cannot read {name}"))?;
        let rates = self.parse(&text).with_context(|| name.to_string())?;
        // It may just be being written; and with no limit at all everything would go at once.
        ensure!(!rates.is_empty(), "{name} holds no RATE: to pause, write 0/s");
        Ok(rates)
    }

    /// The limits in a file that holds `text`.
    ///
    /// # Errors
    /// A line that is no RATE, with its number.
    pub fn parse(&self, text: &str) -> Result<Vec<Rate>> {
        let lines = text.lines().map(|line| without_comment(line).trim());
        let rates = lines.zip(1..).filter(|(line, _)| !line.is_empty());
        let parse = |line: &str| {
            ensure!(!line.starts_with('@'), "a file cannot name another: give each with its own -r");
            RateText::parse_pausing(line)?.resolve(&self.defaults)
        };
        rates
            .map(|(line, number)| {
                parse(line).with_context(|| format!("line {number}: '{}'", line.escape_debug()))
            })
            .collect()
    }
}

/// A `#` begins a comment where a word could begin; in a regular expression it may be itself.
fn without_comment(line: &str) -> &str {
    let begins = |&(at, _): &(usize, &str)| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices('#').find(begins);
    comment.map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_a_rate_a_line() {
        let limits = Limits { sources: Vec::new(), defaults: Defaults::default() };
        let rates =
            limits.parse("# policy\n10/s\n\n  100/m,algo=bucket # and\n0/s\n5/s,key=re:a#b\n").unwrap();
        let printed: Vec<_> = rates.iter().map(Rate::to_string).collect();
        assert_eq!(
            printed,
            [
                "10/1s,algo=sliding",
                "100/1m,algo=bucket,burst=100",
                "0/1s,algo=sliding",
                "5/1s,algo=sliding,key=re:a#b"
            ]
        );
        let error = limits.parse("10/s\n\n10\n").unwrap_err();
        assert!(format!("{error:#}").starts_with("line 3: '10': a rate says per what"), "{error:#}");
    }
}
