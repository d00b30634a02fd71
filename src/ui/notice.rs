//! What the scheduler has to tell, in words.

use super::report::Reporter;
use super::stats::items;
use super::wall::clock_to_the_second;
use crate::config::format_duration;
use crate::exit::End;
use crate::schedule::{Failed, Failure, Notice};
use crate::source::excerpt;

impl Reporter {
    /// Tells what the scheduler has to tell.
    pub fn tell(&self, notice: &Notice) {
        match notice {
            Notice::Failed(failed) => self.failed(failed),
            Notice::BadItem(error) => self.say_failed(false, &format!("{error}; skipped")),
            Notice::Refused { item, text, limit, early } => {
                let early = early.map_or_else(
                    || "can never go".to_owned(),
                    |early| format!("came {} too early", format_duration(early)),
                );
                let limit = limit
                    .as_ref()
                    .map_or_else(|| "the shared limits".to_owned(), |limit| format!("the limit {limit}"));
                self.error(&anyhow::anyhow!("item {item} '{}' {early} for {limit}", excerpt(text)));
            }
            Notice::Halted { failed } => {
                self.notice(&format_args!("{} failed: --halt ends the run", items(*failed)));
            }
            Notice::Limits(rates) => self.limits(rates),
            Notice::Warning(text) => self.notice(text),
            Notice::StateLost { what, silent } => {
                let until = silent.map(|silent| format!(": silent until {}", clock_to_the_second(silent)));
                let why = ", as slots may have been booked that nobody knows of";
                self.notice(&format_args!("{what}{}{why}", until.unwrap_or_default()));
            }
            Notice::Error(error) => self.error(error),
        }
    }

    fn failed(&self, failed: &Failed) {
        let Failed { item, items, text, why } = failed;
        let which = match items {
            1 => format!("item {item} '{}'", excerpt(text)),
            _ => format!("items {item} to {}, '{}' and so on", item + items - 1, excerpt(text)),
        };
        let text = format!("{which}: {}", reason(*why));
        match why {
            // It was not even tried.
            Failure::Misfit(_) => self.say_failed(true, &text),
            _ => self.say_failed(false, &text),
        }
    }
}

fn reason(why: Failure) -> String {
    match why {
        Failure::Ended(End::Exited(255)) => "exited with 255, which ends the run".to_owned(),
        Failure::Ended(End::Exited(code)) => format!("exited with {code}"),
        Failure::Ended(End::Killed(signal)) => format!("was killed by {}", signal_name(signal)),
        Failure::TimedOut => "ran longer than --timeout and was ended".to_owned(),
        Failure::Misfit(misfit) => format!("not run: {misfit}"),
    }
}

fn signal_name(number: i32) -> String {
    let known = nix::sys::signal::Signal::try_from(number);
    known.map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}
