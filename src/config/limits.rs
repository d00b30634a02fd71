//! All limits of a run: some given on the command line, some in files that may change.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::rate::{CountFrom, Defaults, Rate};
use super::rate_text::RateText;

/// Where limits come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LimitSource {
    /// A RATE.
    Rate(Box<RateText>),
    /// `@FILE`: one RATE per line, `#` begins a comment.
    File(PathBuf),
}

impl std::str::FromStr for LimitSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix('@') {
            Some(path) => {
                ensure!(!path.is_empty(), "a file name is needed, as in @limits.conf");
                Ok(LimitSource::File(path.into()))
            }
            None => text.parse().map(|rate| LimitSource::Rate(Box::new(rate))),
        }
    }
}

/// All limits of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitOptions {
    /// Where they come from; at least one.
    pub sources: Vec<LimitSource>,
    /// The options for limits that leave them out.
    pub defaults: Defaults,
}

impl LimitOptions {
    /// All limits. `read` returns the text of a file.
    ///
    /// # Errors
    /// A file that cannot be read or holds no limit, or a limit that makes no sense, with its place.
    pub fn resolve(&self, mut read: impl FnMut(&Path) -> io::Result<String>) -> Result<Vec<Rate>> {
        let mut rates = Vec::new();
        for source in &self.sources {
            match source {
                LimitSource::Rate(rate) => rates.push(rate.resolve(&self.defaults)?),
                LimitSource::File(file) => rates.extend(self.in_file(file, read(file))?),
            }
        }
        Ok(rates)
    }

    /// The limits that do not come from files.
    ///
    /// # Errors
    /// A limit that makes no sense.
    pub fn given(&self) -> Result<Vec<Rate>> {
        let rates = self.sources.iter().filter_map(|source| match source {
            LimitSource::Rate(rate) => Some(rate.resolve(&self.defaults)),
            LimitSource::File(_) => None,
        });
        rates.collect()
    }

    /// True if a limit that is given is LOW..HIGH.
    pub(super) fn has_range(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, LimitSource::Rate(rate) if rate.is_range()))
    }

    /// The files among the sources.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().filter_map(|source| match source {
            LimitSource::File(file) => Some(file.as_path()),
            LimitSource::Rate(_) => None,
        })
    }

    /// True if some limits are in a file that is read again when it changes; a pipe cannot be.
    pub fn may_change(&self) -> bool {
        self.files().any(Path::is_file)
    }

    fn in_file(&self, file: &Path, text: io::Result<String>) -> Result<Vec<Rate>> {
        let name = file.display();
        let text = text.with_context(|| format!("cannot read {name}"))?;
        let rates = parse_limits(&text, &self.defaults).with_context(|| name.to_string())?;
        // The file may be half written. And without any limit, everything would go at once.
        ensure!(!rates.is_empty(), "{name} contains no RATE: to pause, write 0/s");
        Ok(rates)
    }
}

/// The limits in a file with this text.
///
/// # Errors
/// A line that is not a RATE, with its number.
pub fn parse_limits(text: &str, defaults: &Defaults) -> Result<Vec<Rate>> {
    // Some editors begin a file with a byte-order mark.
    let lines =
        text.strip_prefix('\u{feff}').unwrap_or(text).lines().map(|line| without_comment(line).trim());
    let rates = lines.zip(1..).filter(|(line, _)| !line.is_empty());
    let parse = |line: &str| {
        ensure!(!line.starts_with('@'), "limits in lines cannot name a file: write its limits here");
        RateText::parse_pausing(line)?.resolve(defaults)
    };
    rates.map(|(line, number)| parse(line).with_context(|| format!("line {number}: '{line}'"))).collect()
}

/// Checks that limits can be judged by time stamps, which show neither when commands ended nor how many ran. With
/// `are_others`, there are more limits than these.
///
/// # Errors
/// A limit counts from the end of commands, or all of them count running commands.
pub(crate) fn check_auditable(rates: &[Rate], are_others: bool) -> Result<()> {
    let knows = "an audit knows only when items were released";
    ensure!(!rates.iter().any(|rate| rate.from == CountFrom::Exit), "{knows}: leave out from=exit");
    ensure!(
        are_others || rates.iter().any(|rate| rate.from != CountFrom::Running),
        "{knows}: give a rate as well"
    );
    Ok(())
}

/// A `#` begins a comment only where a word could begin, as it may be part of a regular expression.
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
        let parse = |text| parse_limits(text, &Defaults::default());
        let rates =
            parse("\u{feff}10/s\n\n# policy\n  100/m,algo=bucket # and\n0/s\n5/s,key=re:a#b\n").unwrap();
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
        let error = parse("10/s\n\n10\n").unwrap_err();
        assert!(format!("{error:#}").starts_with("line 3: '10': a rate needs a period"), "{error:#}");
    }
}
