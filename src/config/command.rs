//! Commands: their arguments, input and output, retries and log.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};

use super::duration::parse_duration;
use super::named::named;
use super::template::Template;
use crate::exit::JobEnd;
use crate::time::SECOND;

/// The command that is run for each release.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The command and its arguments, with places for items.
    pub template: Template,
    /// The most commands that run at once.
    pub jobs: NonZeroUsize,
    /// Where their output goes, and in which order.
    pub output: Output,
    /// The source of their stdin.
    pub stdin: Feed,
    /// If they stay, and get one item after another: what their answers mean.
    pub worker: Option<Answers>,
    /// True if each is printed before it runs.
    pub trace: bool,
    /// The longest that each may run, in nanoseconds.
    pub timeout: Option<u64>,
    /// Further attempts after a failure.
    pub retry: Retry,
    /// Which ends of commands end the run, besides an exit with 255.
    pub halt: Option<Halt>,
    /// The file to which the items that failed are written.
    pub failed: Option<PathBuf>,
    /// The log in which their ends are noted.
    pub log: Option<PathBuf>,
    /// The format of a new log.
    pub log_format: Option<LogFormat>,
    /// Printed before each line of their output.
    pub tag: Option<Template>,
    /// Which items in the log are not run again; without it, all are run.
    pub resume: Option<Resume>,
}

impl Run {
    /// True if running commands may be asked to end, other than with the run.
    pub fn ends_commands(&self) -> bool {
        self.timeout.is_some() || self.halt.is_some_and(|halt| halt.now)
    }
}

/// The format of a job log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// As tab-separated values, with a header.
    #[default]
    Tsv,
    /// As JSON lines.
    Json,
}

/// Which items of a log are not run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// Those that were completed.
    Unfinished,
    /// All that are in the log.
    New,
}

/// Where the output of commands goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// To our own stdout, which commands inherit; the output of several may mix.
    Shared,
    /// Printed line by line, as it comes.
    Lines,
    /// Printed whole when the command has ended.
    Whole,
    /// Like `Whole`, in the order of the input.
    InOrder,
}

/// The stdin of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feed {
    /// Nothing: `/dev/null`.
    Nothing,
    /// Our own stdin.
    Ours,
    /// Their items, with delimiters.
    Items,
}

/// What the lines mean with which a worker answers items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// Each is the output of an item that has succeeded.
    Plain,
    /// Each begins with an exit status.
    Status,
}

/// The response to a command that fails or asks for a hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retry {
    /// The most attempts after the first one.
    pub times: u64,
    /// The wait before each, and which failures to retry. Without it, no wait, and all but an exit with 255.
    pub backoff: Option<Backoff>,
    /// The longest hold, in nanoseconds, whatever a server asks for.
    pub max_hold: u64,
}

impl Retry {
    /// True of a command that a server has throttled: it exited with a status that `--backoff` lists, or with 75 if
    /// that lists none, or was answered with an HTTP status that says so, or asked to wait.
    pub fn is_throttled(&self, ended: &JobEnd) -> bool {
        let exit = ended.end.code();
        let on = self.backoff.as_ref().map_or(&[][..], |backoff| &backoff.on);
        let by_exit = if on.is_empty() { exit == 75 } else { on.contains(&RetryOn::Exit(exit)) };
        by_exit || matches!(ended.http, Some(429 | 503)) || ended.retry_after.is_some()
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry { times: 0, backoff: None, max_hold: 3600 * SECOND }
    }
}

/// The wait before an item is tried again, drawn from a range that grows with each attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// The failures to retry; if empty, all but an exit with 255.
    pub on: Vec<RetryOn>,
    /// The shortest wait, in nanoseconds.
    pub least: u64,
    /// The longest wait, in nanoseconds.
    pub most: u64,
}

impl Backoff {
    /// Warns about a wait that was probably meant to be the HTTP status to retry.
    pub(super) fn warning(&self) -> Option<String> {
        let seconds = self.least / SECOND;
        let is_meant = self.on.is_empty()
            && self.least == self.most
            && [403, 404, 408, 425, 429, 500, 502, 503, 504]
                .map(|status| status * SECOND)
                .contains(&self.least);
        is_meant.then(|| {
            format!("--backoff {seconds} waits for {seconds} s: for the HTTP status, write --backoff {seconds}=1s..5m")
        })
    }
}

impl FromStr for Backoff {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (on, range) = match text.split_once('=') {
            Some((codes, range)) => (codes.split(',').map(str::parse).collect::<Result<_>>()?, range),
            None => (Vec::new(), text),
        };
        let (least, most) = range.split_once("..").unwrap_or((range, range));
        let wait = |text| {
            parse_duration(text)
                .map_err(|error| anyhow!("{error}; for a range, write MIN..MAX, as in 1s..5m"))
        };
        let (least, most) = (wait(least)?, wait(most)?);
        ensure!(least <= most, "the range is reversed: put the shorter wait first");
        Ok(Backoff { on, least, most })
    }
}

/// A failure to retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryOn {
    /// An exit with this status; 128 plus its number for a signal.
    Exit(i32),
    /// An HTTP answer with this status.
    Http(u16),
    /// An HTTP answer with a status of this class: 5 for `5xx`.
    Class(u16),
}

impl RetryOn {
    /// True of a command that failed with the status `exit`, or was answered with the HTTP status `http`.
    pub fn includes(self, exit: Option<i32>, http: Option<u16>) -> bool {
        match self {
            RetryOn::Exit(status) => exit == Some(status),
            RetryOn::Http(status) => http == Some(status),
            RetryOn::Class(class) => http.is_some_and(|http| http / 100 == class),
        }
    }
}

impl FromStr for RetryOn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let exit = |text: &str| text.parse::<u8>().ok().filter(|&status| status > 0).map(i32::from);
        if let Some(status) = text.strip_prefix("exit:") {
            return exit(status).map(RetryOn::Exit).context("exit statuses are 1 to 255");
        }
        if let Some(class) = text.strip_suffix("xx").or(text.strip_suffix("XX")) {
            let class = class.parse().ok().filter(|class| (2..=5).contains(class));
            return class.map(RetryOn::Class).context("the classes of HTTP statuses are 2xx to 5xx");
        }
        match text.parse::<u16>() {
            Ok(status @ 1..100) => Ok(RetryOn::Exit(status.into())),
            // No final answer is informational, and no success has such a number: this was meant for an exit status.
            Ok(status @ (100..200 | 255)) => {
                bail!("{status} is no HTTP status: for the exit status, write exit:{status}")
            }
            Ok(status @ 200..600) => Ok(RetryOn::Http(status)),
            _ => bail!(
                "give exit statuses from 1 to 99, HTTP statuses from 200 to 599 or as 5xx, or exit:N, as in \
                 7,429,5xx=1s..5m"
            ),
        }
    }
}

/// Ends the run once enough items have ended in some way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Halt {
    /// True if running commands are ended as well.
    pub now: bool,
    /// Which items count.
    pub on: HaltOn,
    /// The number of them that ends the run.
    pub share: Share,
}

/// Which items count for the end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HaltOn {
    /// Those that failed.
    Failed,
    /// Those that did not fail.
    Succeeded,
    /// All that have ended.
    Done,
}

/// A number of items, absolute or relative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// This number of items.
    Count(u64),
    /// This percentage of the items.
    Percent(u64),
}

impl FromStr for Halt {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const FORMS: &str = "write soon or now, then fail=N, success=N or done=N, where N is a number of \
                             items or a percentage, as in soon,fail=3 or now,fail=10%";
        ensure!(
            text.contains(',') || format!("soon,{text}").parse::<Halt>().is_err(),
            "write soon,{text} to start no more commands, or now,{text} to end the running ones as well"
        );
        let parts = text.split_once(',').and_then(|(when, what)| Some((when, what.split_once('=')?)));
        let (when, (on, share)) = parts.context(FORMS)?;
        let now = named(&[("soon", false), ("now", true)], when).ok().context(FORMS)?;
        let choices = [("fail", HaltOn::Failed), ("success", HaltOn::Succeeded), ("done", HaltOn::Done)];
        let on = named(&choices, on).ok().context(FORMS)?;
        let percent = share.strip_suffix('%');
        let number = percent.unwrap_or(share).parse().ok().context(FORMS)?;
        ensure!(number > 0, "the minimum is 1");
        ensure!(percent.is_none() || number <= 100, "the maximum is 100%");
        let share = if percent.is_some() { Share::Percent(number) } else { Share::Count(number) };
        Ok(Halt { now, on, share })
    }
}

impl Halt {
    /// True if the run ends with an item that has just ended. Including that one, `failed` of the `ended` items have
    /// failed; `all` is the number of all items, if known.
    pub fn is_reached(self, has_failed: bool, failed: u64, ended: u64, all: Option<u64>) -> bool {
        let (counts, count) = match self.on {
            HaltOn::Failed => (has_failed, failed),
            HaltOn::Succeeded => (!has_failed, ended - failed),
            HaltOn::Done => (true, ended),
        };
        let is_share =
            |all: u64, percent: u64| u128::from(count) * 100 >= u128::from(all) * u128::from(percent);
        counts
            && match (self.share, all) {
                (Share::Count(least), _) => count >= least,
                (Share::Percent(percent), Some(all)) => is_share(all, percent),
                // As in GNU parallel, one of one is not a trend. With `done`, all items that have ended would count.
                (Share::Percent(percent), None) => {
                    self.on != HaltOn::Done && ended >= 3 && is_share(ended, percent)
                }
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn backoffs() {
        let backoff: Backoff = "22,75=1s..5m".parse().unwrap();
        let on = vec![RetryOn::Exit(22), RetryOn::Exit(75)];
        assert_eq!(backoff, Backoff { on, least: SECOND, most: 300 * SECOND });
        let backoff: Backoff = "0.5..2".parse().unwrap();
        assert_eq!(backoff, Backoff { on: vec![], least: SECOND / 2, most: 2 * SECOND });
        let backoff: Backoff = "22=1s".parse().unwrap();
        assert_eq!(backoff, Backoff { on: vec![RetryOn::Exit(22)], least: SECOND, most: SECOND });
        for text in ["", "5s..1s", "x=1s..2s", "=1s..2s", "22,=1s..2s", "1s..x"] {
            assert!(text.parse::<Backoff>().is_err(), "{text}");
        }
    }

    #[test]
    fn three_digits_are_an_http_status() {
        let good = [
            ("1", RetryOn::Exit(1)),
            ("99", RetryOn::Exit(99)),
            ("exit:7", RetryOn::Exit(7)),
            ("exit:137", RetryOn::Exit(137)),
            ("exit:255", RetryOn::Exit(255)),
            ("200", RetryOn::Http(200)),
            ("429", RetryOn::Http(429)),
            ("599", RetryOn::Http(599)),
            ("5xx", RetryOn::Class(5)),
            ("4XX", RetryOn::Class(4)),
        ];
        for (text, on) in good {
            assert_eq!(text.parse::<RetryOn>().unwrap(), on, "{text}");
        }
        let bad = [
            ("100", "write exit:100"),
            ("137", "137 is no HTTP status: for the exit status, write exit:137"),
            ("255", "write exit:255"),
            ("0", "exit statuses from 1 to 99"),
            ("-1", "or exit:N"),
            ("600", "HTTP statuses from 200 to 599"),
            ("429 ", "as in 7,429,5xx=1s..5m"),
            ("exit:0", "1 to 255"),
            ("exit:256", "1 to 255"),
            ("1xx", "2xx to 5xx"),
            ("6xx", "2xx to 5xx"),
            ("xx", "2xx to 5xx"),
            ("5x", "as 5xx"),
        ];
        for (text, why) in bad {
            let error = text.parse::<RetryOn>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn halts() {
        let table = [
            ("now,fail=1", true, 0, 5, None, false),
            ("now,fail=1", true, 1, 5, None, true),
            ("now,fail=1", false, 1, 5, None, false),
            ("soon,fail=3", true, 2, 5, None, false),
            ("soon,fail=50%", true, 1, 1, None, false),
            ("soon,fail=50%", true, 2, 4, None, true),
            ("soon,fail=50%", true, 1, 3, None, false),
            ("soon,fail=50%", true, 2, 4, Some(5), false),
            ("soon,fail=50%", true, 3, 4, Some(5), true),
            ("soon,fail=50%", true, 1, 1, Some(2), true),
            ("now,success=1", false, 4, 5, None, true),
            ("now,success=1", true, 4, 5, None, false),
            ("now,success=2", false, 4, 5, None, false),
            ("now,success=50%", false, 2, 4, None, true),
            ("soon,done=5", true, 4, 5, None, true),
            ("soon,done=6", true, 4, 5, None, false),
            ("soon,done=50%", true, 4, 5, None, false),
            ("soon,done=50%", true, 4, 5, Some(10), true),
        ];
        for (text, has_failed, failed, ended, all, is_reached) in table {
            let halt = text.parse::<Halt>().unwrap();
            assert_eq!(halt.is_reached(has_failed, failed, ended, all), is_reached, "{text}");
        }
        for text in [
            "",
            "now",
            "later,fail=1",
            "now,fail=0",
            "now,fail=x",
            "now,won=1",
            "soon,fail=1,x",
            "soon,fail=101%",
        ] {
            assert!(text.parse::<Halt>().is_err(), "{text}");
        }
    }
}
