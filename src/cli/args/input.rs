//! The items.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::choice;
use crate::config::{Cleaning, InputOptions, OnBad, Separator, parse_delimiter, parse_size};

/// Where items come from, and where each ends.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools)]
pub(crate) struct InputArgs {
    /// Read items from FILE and leave stdin to COMMAND
    ///
    /// Without it, the standard input of COMMAND is /dev/null.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) arg_file: Option<PathBuf>,

    /// Items end at NUL, as from find -print0
    #[arg(short = '0', long, conflicts_with = "delimiter")]
    pub(crate) null: bool,

    /// Items end at D [default: \n]
    ///
    /// One or more bytes, with C escapes such as \t, \0 or \x1e.
    #[arg(short, long, value_name = "D", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<DelimiterBytes>,

    /// What separates fields, for col:N [default: blanks]
    ///
    /// One or more bytes, with C escapes such as \t. Every one of them ends a field, so fields may be empty.
    /// Without it, runs of blanks separate fields, as in awk.
    #[arg(short = 'F', long, value_name = "S", value_parser = parse_delimiter, hide_short_help = true)]
    pub(crate) field_separator: Option<DelimiterBytes>,

    /// Fields are those of CSV, which may be in quotes
    ///
    /// col:N is without the quotes around it, and \"\" in them stands for one. The separator is a comma, or the byte of
    /// -F. Items still end at the delimiter, even in quotes.
    #[arg(long, hide_short_help = true)]
    pub(crate) csv: bool,

    /// Longest item allowed [default: 64Mi]
    ///
    /// In bytes, without the delimiter. A longer one is an error and ends the input.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    pub(crate) max_record: Option<u64>,

    /// Remove white space around items, such as a CR
    ///
    /// Blanks, tabs and carriage returns at both ends, such as the CR of files from Windows. Costs, keys, COMMAND and
    /// the output get the rest. An item may become empty: see --skip-blank.
    #[arg(long)]
    pub(crate) trim: bool,

    /// Skip items that are empty or only white space
    ///
    /// They are neither released nor charged, and appear in no count. The other items keep the numbers of their lines.
    #[arg(long, hide_short_help = true)]
    pub(crate) skip_blank: bool,

    /// Item without a valid cost: fail (default) or skip
    ///
    /// The same applies to an item that lacks what a selector in braces in COMMAND selects.
    ///
    /// fail: the items before it are released, then the run ends with status 1.
    ///
    /// skip: it is named, counted as failed (for --halt as well) and not released; the run goes on, and ends with
    /// status 1 if nothing worse happens, even with -q.
    #[arg(long, value_name = "WHAT", hide_possible_values = true, hide_short_help = true)]
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
        match self.csv {
            true => Separator::csv(given.as_deref()).map(Some),
            false => Ok(given.map(Separator::Text)),
        }
    }
}
