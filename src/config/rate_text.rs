//! RATE: `N/[M]UNIT[,option=value]...`, such as `10/s`, `100/2m`, `5000/h,algo=bucket,burst=50`.

use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};

use super::amount::{NO_PERIOD, parse_amount};
use super::duration::{format_duration, parse_duration};
use super::named::named;
use super::nearest::nearest;
use super::quantity::parse_count;
use super::rate::{CountFrom, Defaults, LOCAL, RUNNING, Rate};
use super::remark::Remark;
use super::selector::Selector;
use crate::rule::{Algorithm, Extra};
use crate::time::{Hours, SECOND, Week, Zone};

/// A RATE as written, before options that it leaves out are filled in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RateText {
    /// The limit, as far as it follows from the text alone.
    rate: Rate,
    algorithm: Option<Algorithm>,
    margin: Option<u64>,
    during: Option<Week>,
}

impl RateText {
    /// The names of all options that have a value.
    pub const OPTIONS: [&str; 10] =
        ["algo", "burst", "margin", "start", "from", "cost", "key", "only", "during", "tz"];

    /// The options that say how a rate is counted. N/running takes none of them.
    pub const OF_RATES: [&str; 5] = ["algo", "burst", "margin", "start", "from"];

    /// `count` per period, which is one second by default, without options.
    ///
    /// # Errors
    /// A count or a period of 0.
    pub fn new(count: u64, period: Option<Rate>) -> Result<Self> {
        ensure!(count > 0, "a count of 0 would release nothing: the minimum is 1");
        let rate = period.unwrap_or_else(|| Rate { period: SECOND, ..Rate::default() });
        ensure!(rate.period > 0, NO_PERIOD);
        Ok(RateText { rate: Rate { count, ..rate }, ..RateText::default() })
    }

    /// Parses a RATE that may have a count of 0, which pauses until it is changed.
    ///
    /// # Errors
    /// As for a RATE, except that 0 is valid.
    pub fn parse_pausing(text: &str) -> Result<Self> {
        let parts = split_options(text, &Self::OPTIONS);
        let amount = parse_amount(parts[0]).map_err(|error| nearest(text, &error, is_rate))?;
        RateText::with_options(amount, &parts[1..])
    }

    fn with_options(amount: Rate, options: &[&str]) -> Result<Self> {
        let mut rate = RateText { rate: amount, ..RateText::default() };
        for (at, option) in options.iter().enumerate() {
            let option = option.trim();
            ensure!(!option.is_empty(), "no option follows a comma: leave the comma out");
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let is_repeated =
                options[..at].iter().any(|other| other.trim_start().split('=').next() == Some(name));
            ensure!(
                !is_repeated,
                "'{option}': {name}= is given twice; for several limits, give each its own option or line"
            );
            // One message instead of a chain, as clap prints no causes.
            rate.set(name, value).map_err(|error| anyhow!("'{option}': {error:#}"))?;
        }
        Ok(rate)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let rate = &mut self.rate;
        ensure!(
            rate.from != CountFrom::Running || !Self::OF_RATES.contains(&name),
            "N/{RUNNING} is a number of commands, not a rate: it takes cost=, key=, only=, during= and tz="
        );
        match name {
            "algo" => self.algorithm = Some(value.parse()?),
            "burst" => rate.burst = Some(parse_count(value)?),
            "margin" => self.margin = Some(parse_duration(value)?),
            "during" => self.during = Some(value.parse()?),
            "tz" => rate.zone = Some(value.parse()?),
            "start" => rate.starts_empty = named(&[("full", false), ("empty", true)], value)?,
            "from" => rate.from = named(&[("start", CountFrom::Start), ("exit", CountFrom::Exit)], value)?,
            "cost" => rate.cost = Some(value.parse()?),
            "key" => rate.key = Some(Selector::parse_part(value)?),
            "only" => rate.only = Some(value.to_owned()),
            LOCAL => {
                ensure!(value.is_empty(), "{LOCAL} has no value");
                rate.local = true;
            }
            _ if Self::OPTIONS.contains(&name.trim_end()) => {
                bail!("leave out the white space: write {}={}", name.trim_end(), value.trim())
            }
            _ if value.is_empty() && is_rate(name) => {
                bail!("for several limits, give each its own option or line")
            }
            _ if name.parse::<Algorithm>().is_ok() => bail!("for an algorithm, write algo={name}"),
            "host" if value.is_empty() => bail!("for a limit per host, write key=host"),
            "per" | "by" if !value.is_empty() => bail!("for a limit per {value}, write key={value}"),
            _ if value.is_empty() && name.parse::<Week>().is_ok() => match &self.during {
                Some(week) => bail!("several hours are joined by +: write during={week}+{name}"),
                None => bail!("for hours, write during={name}"),
            },
            _ => {
                let is_meant = |option: &str| option.starts_with(name) || name.starts_with(option);
                let meant = Self::OPTIONS.into_iter().find(|option| name.len() > 1 && is_meant(option));
                let meant = meant.map(|option| format!("try {option}=; ")).unwrap_or_default();
                bail!("unknown option: {meant}the options are {}= and {LOCAL}", Self::OPTIONS.join("=, "))
            }
        }
        Ok(())
    }

    /// True if the rate is to be found.
    pub(super) fn is_range(&self) -> bool {
        self.rate.least.is_some()
    }

    /// Fills in the options that were left out.
    ///
    /// # Errors
    /// Options that contradict each other or the algorithm, or a margin that makes the period too long.
    pub fn resolve(&self, defaults: &Defaults) -> Result<Rate> {
        let written = &self.rate;
        let is_rate = written.from != CountFrom::Running;
        let algorithm = if is_rate { self.algorithm(defaults)? } else { Algorithm::Sliding };
        let margin = self.margin.or(defaults.margin).filter(|_| is_rate);
        let margin = margin.unwrap_or_else(|| self.default_margin(algorithm, defaults));
        let has_burst = algorithm.spec().has_burst();
        ensure!(
            has_burst || written.burst.is_none(),
            "burst= is for {0}: add algo={0}, or leave it out",
            Algorithm::taking(Extra::Burst, " or ")
        );
        ensure!(
            written.from == CountFrom::Start || algorithm.spec().takes(Extra::FromExit),
            "from=exit is for {}: a {algorithm} limit frees its place before the command ends",
            Algorithm::taking(Extra::FromExit, " and ")
        );
        ensure!(written.period.checked_add(margin).is_some(), "period and margin together exceed 584 years");
        let (during, zone) = self.hours(algorithm)?;
        let burst = written.burst.or(defaults.burst).unwrap_or(written.count);
        let key = written.key.as_ref().or(defaults.key.as_ref());
        ensure!(written.only.is_none() || key.is_some(), "only= needs a key to compare with: add key=");
        let mut rate = Rate {
            algorithm,
            burst: has_burst.then_some(burst),
            margin,
            during,
            zone,
            cost: written.cost.as_ref().or(defaults.cost.as_ref()).cloned(),
            key: key.cloned(),
            ..written.clone()
        };
        (algorithm.spec().check)(&rate.padded_terms())?;
        let is_burst = |remark: &Remark| matches!(remark, Remark::Burst(_));
        let has_burst = (algorithm.spec().burst)(&rate.terms()) >= rate.count;
        rate.remarks.retain(|remark| has_burst || !is_burst(remark));
        Ok(rate)
    }

    /// The algorithm that is written, or else the default one if the limit takes it.
    ///
    /// # Errors
    /// The algorithm or an option is not for a rate that is to be found.
    fn algorithm(&self, defaults: &Defaults) -> Result<Algorithm> {
        if self.rate.least.is_none() {
            return Ok(self.algorithm.or(defaults.algorithm).unwrap_or_default());
        }
        let paces = |algorithm: &Algorithm| [Algorithm::Interval, Algorithm::Sliding].contains(algorithm);
        let algorithm = self.algorithm.or(defaults.algorithm.filter(paces)).unwrap_or(Algorithm::Interval);
        let unfit = match self.rate.burst {
            _ if !paces(&algorithm) => Some(format!("algo={algorithm}")),
            burst => burst.map(|_| "burst=".to_owned()),
        };
        match unfit {
            Some(unfit) => {
                bail!("a rate that is to be found is paced by interval or sliding: leave out {unfit}")
            }
            None => Ok(algorithm),
        }
    }

    /// A limit that counts a command to its end needs no margin, and a pause has no use for one.
    fn default_margin(&self, algorithm: Algorithm, defaults: &Defaults) -> u64 {
        let is_shared = defaults.are_shared && !self.rate.is_local();
        let counts_starts = self.rate.from == CountFrom::Start && self.rate.count > 0;
        let needs_one = defaults.are_for_commands && !is_shared && counts_starts;
        if needs_one { algorithm.spec().margin_for_commands(self.rate.period) } else { 0 }
    }

    /// The hours in which it is asked, if not always; and the zone of these or of its calendar, if it has any.
    fn hours(&self, algorithm: Algorithm) -> Result<(Option<Box<Hours>>, Option<Zone>)> {
        let has_calendar = algorithm.spec().is_civil();
        ensure!(
            self.rate.zone.is_none() || self.during.is_some() || has_calendar,
            "tz= is for during= and algo={}: add one of them, or leave it out",
            Algorithm::taking(Extra::Zone, " and algo=")
        );
        let week = self.during.clone().filter(|week| !week.is_all());
        if week.is_none() && !has_calendar {
            return Ok((None, None));
        }
        let zone = self.rate.zone.map_or_else(Zone::local, Ok)?;
        Ok((week.map(|week| Box::new(Hours { week, zone })), Some(zone)))
    }
}

/// Reports whether `text` is a RATE that releases anything. A suggestion has to be.
fn is_rate(text: &str) -> bool {
    let parts = split_options(text, &RateText::OPTIONS);
    let amount = parse_amount(parts[0]).ok().filter(|amount| amount.count > 0);
    let rate = amount.and_then(|amount| RateText::with_options(amount, &parts[1..]).ok());
    rate.is_some_and(|rate| rate.resolve(&Defaults::default()).is_ok())
}

/// Splits at commas; in a regular expression or a value to compare, only before the name of one of the `options`.
pub(super) fn split_options<'a>(text: &'a str, options: &[&str]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(',') {
        let (part, rest) = (&text[start..at], &text[at + 1..]);
        let may_have_commas = part.contains("=re:") || part.starts_with("re:") || part.starts_with("only=");
        let is_option = rest.split_once('=').is_some_and(|(name, _)| options.contains(&name))
            || rest.split(',').next() == Some(LOCAL);
        if is_option || !may_have_commas {
            parts.push(part);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

impl FromStr for RateText {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rate = RateText::parse_pausing(text)?;
        if rate.rate.count == 0 {
            let week = rate.during.as_ref().context(
                "a count of 0 would release nothing: the minimum is 1, but for pauses in -r @FILE or during=",
            )?;
            ensure!(
                !week.is_all(),
                "a count of 0 pauses, and the hours of during= never end: leave some out"
            );
        }
        Ok(rate)
    }
}

/// Fills in what the RATE leaves out with [`Defaults::default`].
impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse::<RateText>()?.resolve(&Defaults::default())
    }
}

/// Parses the count of a limit whose period is given separately. It must be whole.
///
/// # Errors
/// Not a whole number. If it is a rate, the error says how to write it.
pub fn parse_limit_count(text: &str) -> Result<u64> {
    parse_count(text).map_err(|error| match parse_amount(&format!("{text}/s")) {
        Ok(Rate { count, period, .. }) => {
            let period = format_duration(period);
            Error::msg(format!("{error}: for {text} a second, use -n {count} -p {period} or -r {text}/s"))
        }
        Err(_) if text.parse::<RateText>().is_ok() => Error::msg(format!("that is a rate: write -r {text}")),
        Err(_) => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn rates() {
        let good = [
            ("10/s", 10, SECOND),
            ("100/2m", 100, 120 * SECOND),
            ("1/500ms", 1, SECOND / 2),
            ("1.5/s", 3, 2 * SECOND),
            ("60rpm", 60, 60 * SECOND),
            ("10 per second", 10, SECOND),
            ("1k/min", 1000, 60 * SECOND),
            ("5/0.5s", 5, SECOND / 2),
            ("19/1000000000ns", 19, SECOND),
        ];
        for (text, count, period) in good {
            let rate = resolved(text);
            assert_eq!((rate.count, rate.period), (count, period), "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "10/s",
            "5000/h,algo=bucket,burst=50",
            "1/1m30s,margin=5ms,start=empty,algo=fixed",
            "9/s,from=exit",
            "1.5/s,algo=interval",
            "2.5rpm,burst=2,algo=bucket",
            "1/month",
            "9/12h,algo=calendar,margin=5s,tz=UTC",
            "9/month,algo=calendar,tz=Europe/Berlin",
            "9/s,during=Sat-Mon+Tue@09:00-24:00,tz=America/New_York",
            "9/s,during=Mon-Sun,tz=America/New_York",
            "9/d,during=00:00-24:00,algo=calendar,tz=UTC",
            "9/s, key=host,  cost=bytes",
            "9/s,cost=bytes,key=re:(a{1,2}),only=a,b",
        ] {
            let rate = resolved(text);
            assert_eq!(resolved(&rate.to_string()), rate, "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_mend() {
        let bad = [
            ("10", "10/s"),
            ("0/s", "minimum is 1, but for pauses"),
            ("1/s,alg=bucket", "try algo="),
            ("1/0s", "minimum is 1ns"),
            ("/s", "try 1/s"),
            ("1/", "1/s"),
            ("1/x", "500ms"),
            ("1/s,algo=magic", "sliding, bucket, interval, fixed"),
            ("1/s,bust=3", "burst="),
            ("1/s,bucket", "algo=bucket"),
            ("1/s,host", "key=host"),
            ("1/s,per=host", "write key=host"),
            ("1/s,5/m", "its own option or line"),
            ("1/s,start=half", "full or empty"),
            ("1/s,burst=3", "algo=bucket"),
            ("1/s,only=x", "add key="),
            ("1/s,tz=UTC", "during= and algo=calendar"),
            ("1/d,algo=calendar,tz=Mars", "unknown zone: use local, UTC"),
            ("1/d,during=Fri@25:00", "from 00:00 to 24:00"),
            ("0/s,during=Mon-Fri@9:00-17:00,Sat", "write during=Mon-Fri@09:00-17:00+Sat"),
            ("0/s,08:00-17:00", "write during=08:00-17:00"),
            ("10ps", "try 10/s"),
            ("limits.conf", "write @limits.conf"),
            ("./limits", "write @./limits"),
            ("10pm", "try 10/m"),
            ("1/7h,algo=calendar", "d, w, month, year, and those from 1s to 12h"),
            ("1/d,algo=calendar,margin=12h", "less than half"),
            ("0/s,during=Mon-Sun", "hours of during= never end"),
            ("0/s,during=00:00-24:00", "hours of during= never end"),
            ("1/s,from=exit,algo=bucket", "for sliding and interval"),
            ("1/s,key=3", "col:3"),
            ("1/s,key=col:1,key=col:2", "its own option or line"),
            ("1/s,cost=col:0", "counted from 1"),
            ("18446744073709551616/s", "2^64-1"),
            ("1/584y,margin=584y", "584 years"),
        ];
        for (text, mend) in bad {
            let rate = text.parse::<Rate>();
            let error = format!("{:#}", rate.unwrap_err());
            assert!(error.contains(mend), "{text}: {error}");
        }
    }

    #[test]
    fn a_count_that_is_not_whole_names_the_rate() {
        let error = parse_limit_count("1.5").unwrap_err().to_string();
        assert!(error.ends_with("use -n 3 -p 2s or -r 1.5/s"), "{error}");
        assert_eq!(parse_limit_count("1.5k").unwrap(), 1500);
        assert!(!parse_limit_count("x").unwrap_err().to_string().contains("-r"));
    }
}
