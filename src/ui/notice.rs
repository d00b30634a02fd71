//! The scheduler's notices in words.

use anyhow::anyhow;

use super::number::items;
use super::report::Reporter;
use super::wall::clock_to_the_second;
use crate::config::{HaltOn, Rate, Report, rounded_duration};
use crate::exit::End;
use crate::printable::excerpt;
use crate::schedule::{Failed, Failure, HoldBegun, Notice};
use crate::time::{Time, Wall};

impl Reporter {
    /// Prints a notice. `wall` turns its instants, which are on the same time line as `now`, into clock times.
    pub(crate) fn notify(&self, notice: &Notice, wall: Wall, now: Time) {
        match notice {
            Notice::Failed(failed) => {
                let is_last = failed.why == Failure::Ended(End::Exited(255));
                self.failed(failed, if is_last { ", which ends the run" } else { "" });
            }
            Notice::FailedSoFar(failed) => self.failed(failed, "; the run ended before it was retried"),
            Notice::BadItem(error, _) => self.say_failed(Report::Normal, 1, &format!("{error}; skipped")),
            Notice::Refused { item, text, limit, early } => {
                let counts_exits = limit.as_ref().is_some_and(Rate::counts_exits);
                let how = match early {
                    Some(early) => format!("came {} too early for", rounded_duration(*early)),
                    None if counts_exits => "came while too many commands were running for".to_owned(),
                    None if limit.as_ref().is_some_and(Rate::pauses) => "came during a pause by".to_owned(),
                    None => "can never be released under".to_owned(),
                };
                let limit = limit.as_ref().map(|limit| format!("the limit {limit}"));
                let limit = limit.as_deref().unwrap_or("the shared limits");
                self.error(&anyhow!("item {item} {} {how} {limit}", excerpt(text)));
            }
            Notice::Hold(hold) => self.hold(hold, wall, now),
            Notice::Unread { item, text, said } => {
                let what = "$THROTTLE_HEADERS needs HTTP headers, seconds or an HTTP date";
                let said = excerpt(said.as_bytes());
                self.notice(&format_args!("item {item} {}: {what}, so {said} sets no hold", excerpt(text)));
            }
            Notice::Overlooked(item, http) => self.notice(&format_args!(
                "item {item}: HTTP {http} is not retried, as the command exited with 0: make it fail, as with curl -f"
            )),
            Notice::SharedHold(until) => {
                let until = clock_to_the_second(wall, now, *until);
                self.notice(&format_args!("the shared limits are held until {until}: see --status"));
            }
            Notice::Expired { item, text, limit } => {
                let limit = limit.as_ref().map(|limit| format!(": it waits for the limit {limit}"));
                let (text, limit) = (excerpt(text), limit.unwrap_or_default());
                self.error(&anyhow!("item {item} {text}: not released within --max-wait{limit}"));
            }
            Notice::TimeUp => self.notice(&"--until has passed"),
            Notice::TooLong { late, had_slot } => self.too_long(*late, *had_slot),
            Notice::Halted { items: count, on } => {
                let how = match on {
                    HaltOn::Failed => "failed",
                    HaltOn::Succeeded => "succeeded",
                    HaltOn::Done => "done",
                };
                self.notice(&format_args!("{} {how}: --halt ends the run", items(*count)));
            }
            Notice::Limits(rates) => self.limits(rates),
            Notice::Warning(text) => self.notice(text),
            Notice::StateLost { what, silent } => {
                let until = silent.map(|silent| clock_to_the_second(wall, now, now.saturating_add(silent)));
                let silent = until.map_or("for a while".to_owned(), |until| format!("until {until}"));
                let why = "because unknown slots may have been booked";
                self.notice(&format_args!("{what}: nothing is released {silent}, {why}"));
            }
            Notice::Error(error) => self.error(error),
        }
    }

    fn too_long(&self, late: Option<u64>, had_slot: bool) {
        let what = match late.map(rounded_duration) {
            Some(away) => format!("the next release is {away} away: longer than --max-wait"),
            None => "there is no release within --max-wait".to_owned(),
        };
        let slot =
            "; a slot expired before this busy machine used it: with a larger margin=, slots last longer";
        self.notice(&format_args!("{what}{}", if had_slot { slot } else { "" }));
    }

    fn hold(&self, hold: &HoldBegun, wall: Wall, now: Time) {
        let HoldBegun { item, text, asked, held, until, by_key } = hold;
        let most = (held < asked).then(|| format!(", --max-hold allows {}", rounded_duration(*held)));
        let what = if *by_key { "all items with its keys" } else { "all items" };
        let until = clock_to_the_second(wall, now, *until);
        self.notice(&format_args!(
            "item {item} {}: the server asks for a pause of {}{}: {what} wait until {until}",
            excerpt(text),
            rounded_duration(*asked),
            most.unwrap_or_default()
        ));
    }

    /// `ends` is what follows from the failure.
    fn failed(&self, Failed { item, items, text, why, .. }: &Failed, ends: &str) {
        let more = if *items > 1 { format!(" and {} more", items - 1) } else { String::new() };
        // A command that was not even started is an error.
        let is_error = matches!(why, Failure::ArgumentError(_));
        let level = if is_error { Report::Quiet } else { Report::Normal };
        self.say_failed(
            level,
            *items,
            &format!("item {item} {}{more}: {}{ends}", excerpt(text), reason(*why)),
        );
    }
}

fn reason(why: Failure) -> String {
    match why {
        Failure::Ended(end) => end.to_string(),
        Failure::TimedOut => "ran longer than --timeout and was ended".to_owned(),
        Failure::ArgumentError(argument_error) => format!("not run: {argument_error}"),
    }
}
