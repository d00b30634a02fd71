//! What to tell of how a limit was read.

use std::fmt;

use super::report::Report;

/// Words for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remark {
    /// A period of months may have been meant as minutes.
    Months(String),
    /// A rate with many decimals was rounded down.
    Rounded(String),
    /// As decimals make its numbers large, far more may go at once than one would think.
    Burst(String),
}

impl Remark {
    /// The level of reports at which it is told.
    pub fn level(&self) -> Report {
        if matches!(self, Remark::Rounded(_)) { Report::Verbose } else { Report::Normal }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Remark::Months(text) | Remark::Rounded(text) | Remark::Burst(text)) = self;
        f.write_str(text)
    }
}
