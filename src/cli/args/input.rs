//! The items.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use super::{FOR_ITEMS, choice};
use crate::config::{Cleaning, InputOptions, OnBad, Separator, Table, parse_delimiter, parse_size};

/// Where items come from, and where each ends.
#[derive(Args, Debug)]
#[group(id = FOR_ITEMS)]
pub(crate) struct InputArgs {
    /// Read items from FILE and leave stdin to COMMAND
    #[arg(short, long, value_name = "FILE")]
    pub(crate) arg_file: Option<PathBuf>,

    /// Items end at NUL, as from find -print0
    #[arg(short = '0', long, conflicts_with = "delimiter")]
    pub(crate) null: bool,

    /// Items end at D, such as \0 or \r\n [default: \n]
    #[arg(short, long, value_name = "D", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<DelimiterBytes>,

    /// Separator of fields, for col:N [default: blanks]
    #[arg(short = 'F', long, value_name = "S", value_parser = parse_delimiter, hide_short_help = true)]
    pub(crate) field_separator: Option<DelimiterBytes>,

    /// Items are records of CSV, after a header
    ///
    /// The header is written first and charged to nothing; it names the columns for col:NAME. =noheader: there is none.
    #[arg(long, value_name = "HEADER", num_args = 0..=1, require_equals = true, default_missing_value = "header")]
    #[arg(value_parser = choice(&[("header", true), ("noheader", false)]))]
    #[arg(hide_short_help = true)]
    pub(crate) csv: Option<bool>,

    /// Longest item allowed [default: 64Mi]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    pub(crate) max_record: Option<u64>,

    /// Remove white space around items, such as a CR
    #[arg(long)]
    pub(crate) trim: bool,

    /// Skip items that are empty or only white space
    #[arg(long, hide_short_help = true)]
    pub(crate) skip_blank: bool,

    /// Item without a valid cost: fail (default) or skip
    ///
    /// The same applies to an item without the part that a selector in COMMAND selects. fail: the run ends with status
    /// 1, after the items before it. skip: the item is named, counted as failed, and skipped.
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    #[arg(value_parser = choice(&[("fail", OnBad::Fail), ("skip", OnBad::Skip)]))]
    pub(crate) on_bad: Option<OnBad>,
}

/// An alias for clap, which would take a field of type `Vec` for a list of values.
type DelimiterBytes = Vec<u8>;

impl InputArgs {
    /// The file that items are read from, if it is not standard input.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.arg_file.as_ref().filter(|file| file.as_os_str() != "-")
    }

    pub(crate) fn options(&self) -> Result<InputOptions> {
        let delimiter = match &self.delimiter {
            Some(delimiter) => delimiter.clone(),
            None if self.null => vec![0],
            None => vec![b'\n'],
        };
        let max_record = usize::try_from(self.max_record.unwrap_or(64 << 20)).unwrap_or(usize::MAX);
        let separator = self.separator()?;
        let cleaning = Cleaning { trim: self.trim, skip_blank: self.skip_blank };
        let on_bad = self.on_bad.unwrap_or_default();
        let file = self.file().cloned();
        Ok(InputOptions { file, delimiter, separator, max_record, cleaning, on_bad })
    }

    fn separator(&self) -> Result<Option<Separator>> {
        let given = self.field_separator.clone();
        let Some(has_header) = self.csv else { return Ok(given.map(Separator::Text)) };
        ensure!(
            !self.null && self.delimiter.is_none(),
            "--csv cuts records at newlines outside quotes: leave out {}",
            if self.null { "-0" } else { "-d" }
        );
        ensure!(
            !self.trim || !given.as_ref().is_some_and(|given| given.trim_ascii().is_empty()),
            "--trim would remove empty fields of the table with their separators: leave it out"
        );
        Ok(Some(Separator::Csv(Table::new(given.as_deref(), has_header)?.into())))
    }
}
