//! `--until`: the end of releases.

use std::str::FromStr;

use anyhow::{Error, Result};

use super::{parse_duration, parse_instant};
use crate::time::Time;

/// The last instant at which something may be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The wall clock shows this, since 1970.
    At(Time),
    /// This number of nanoseconds after the start of the run.
    After(u64),
}

impl FromStr for Until {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // A date has what no duration has.
        let is_time = text.contains(['-', ':']) && !text.starts_with('-');
        if is_time { parse_instant(text).map(Until::At) } else { parse_duration(text).map(Until::After) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn a_time_or_a_duration() {
        let until = |text: &str| text.parse::<Until>().unwrap();
        assert_eq!(until("1h30m"), Until::After(5400 * SECOND));
        assert_eq!(until("0"), Until::After(0));
        assert_eq!(until("2023-11-14T22:13:20Z"), Until::At(Time(1_700_000_000 * SECOND)));
        for (text, why) in [("-1s", "duration"), ("tomorrow", "duration"), ("17:00", "from 1970 to 2554")] {
            let error = text.parse::<Until>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
