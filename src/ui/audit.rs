//! The findings of an audit: each release that was too early, and statistics for each limit.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

use super::number::{count_of, in_seconds, items};
use crate::audit::{Audit, AuditedLimit, Findings, Violation};
use crate::config::{Report, format_duration, rounded_duration};
use crate::exit::Exit;
use crate::printable::{escaped, excerpt};
use crate::source::Keyless;
use crate::time::Time;

/// The number of keys that are named, at most.
const MAX_KEYS: usize = 5;

pub(crate) struct AuditReport {
    out: BufWriter<Box<dyn Write>>,
    is_quiet: bool,
    /// Time stamps are dates and times, not numbers.
    pub(crate) is_calendar: bool,
    /// Some records have several items, so releases are judged.
    pub(crate) has_batches: bool,
}

impl AuditReport {
    /// Writes to `out`, unless quiet.
    pub(crate) fn new(level: Report, out: impl Write + 'static) -> Self {
        AuditReport {
            out: BufWriter::with_capacity(64 << 10, Box::new(out)),
            is_quiet: level == Report::Quiet,
            is_calendar: false,
            has_batches: false,
        }
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A release that was too early, on one line.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn violation(&mut self, violation: &Violation) -> io::Result<()> {
        if self.is_quiet {
            return Ok(());
        }
        let Violation { number, at, rate, key, count, early } = *violation;
        let limit = escaped(&rate.to_string());
        let (noun, at) = (self.noun(), self.instant(at));
        let key = key.map_or(String::new(), |key| format!(" for {}", excerpt(key)));
        let period = format_duration(rate.padded_terms().period);
        let how = early.map_or_else(
            || "more than is ever allowed".to_owned(),
            |early| format!("{} too early", rounded_duration(early)),
        );
        writeln!(self.out, "{noun} {number} at {at}: {how}, {count} in {period}, limit {limit}{key}")
    }

    /// The statistics of each limit, at the end.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn summary(&mut self, audit: &Audit, keyless: &Keyless) -> io::Result<()> {
        if !self.is_quiet {
            audit.limits.iter().try_for_each(|limit| self.limit(limit, keyless))?;
        }
        self.out.flush()
    }

    fn limit(&mut self, limit: &AuditedLimit, keyless: &Keyless) -> io::Result<()> {
        let noun = self.noun();
        let Findings { releases, violations, earliest, worst } = limit.tally.findings;
        let by = (earliest > 0).then(|| format!(", by up to {}", rounded_duration(earliest)));
        let by = by.unwrap_or_default();
        let (rate, all) = (escaped(&limit.rate.to_string()), count_of(releases, noun));
        writeln!(self.out, "limit {rate}: {violations} of {all} too early{by}")?;
        if releases == 0 {
            return Ok(());
        }
        let period = format_duration(limit.terms.period);
        let (count, number) = (worst.count, worst.number);
        let (start, end) = (self.instant(worst.start), self.instant(worst.end));
        let out = &mut self.out;
        writeln!(out, "  worst window  {count} in {period}: {start} to {end}, {noun} {number}")?;
        let [one, all] = if limit.rate.key.is_some() { [" for one key", " for all"] } else { [""; 2] };
        if let Some(share) = limit.highest_share() {
            let mean = limit.mean_share().map(|mean| format!(", {} on average", percent(mean)));
            let mean = mean.unwrap_or_default();
            writeln!(out, "  limit used    {} at most{one}{mean}", percent(share))?;
        }
        let per = limit.rate.period;
        let mean =
            limit.mean_rate().map_or(String::new(), |mean| format!(", {} on average{all}", pace(mean, per)));
        writeln!(out, "  rate          {} at most{one}{mean}", pace(limit.highest_rate(), per))?;
        if let Some(keys) = limit.keys() {
            let worst = limit.worst_keys(MAX_KEYS);
            let worst = worst.iter().map(|(key, of)| format!("{} {}", excerpt(key), of.worst.count));
            let worst = worst.collect::<Vec<_>>().join(", ");
            let about = if keys.is_exact { "" } else { "about " };
            writeln!(out, "  keys          {about}{}, most in a window: {worst}", keys.number)?;
        }
        if let Some((count, first)) = limit.key().and_then(|key| keyless.of(key)) {
            let items = items(count);
            writeln!(out, "  without key   {items}, judged as one key; the first is item {first}")?;
        }
        Ok(())
    }

    fn noun(&self) -> &'static str {
        if self.has_batches { "release" } else { "item" }
    }

    /// A date and a time in UTC; seconds if the time stamps are, with the date if they count from 1970.
    fn instant(&self, at: Time) -> String {
        match jiff::Timestamp::from_nanosecond(at.0.into()) {
            Ok(timestamp) if self.is_calendar => timestamp.to_string(),
            Ok(timestamp) if at.is_dated() => format!("{at} ({timestamp})"),
            _ => at.to_string(),
        }
    }
}

/// The statistics as one JSON object. Instants are text, since numbers would lose digits.
pub(crate) fn json(audit: &Audit, keyless: &Keyless, exit: Exit) -> Value {
    json!({
        "read": audit.releases,
        "too_early": audit.too_early,
        "limits": audit.limits.iter().map(|limit| limit_json(limit, keyless)).collect::<Vec<_>>(),
        "exit": exit.status(),
    })
}

fn limit_json(limit: &AuditedLimit, keyless: &Keyless) -> Value {
    let mut findings = findings_json(limit, limit.tally.findings);
    findings["limit"] = limit.rate.to_string().into();
    findings["highest_share"] = limit.highest_share().into();
    findings["mean_share"] = limit.mean_share().into();
    findings["highest_rate"] = limit.highest_rate().into();
    findings["mean_rate"] = limit.mean_rate().into();
    if let Some(keys) = limit.keys() {
        let worst_keys = limit.worst_keys(MAX_KEYS).into_iter().map(|(key, of)| {
            let mut findings = findings_json(limit, of);
            findings["key"] = String::from_utf8_lossy(key).into();
            findings
        });
        findings["worst_keys"] = worst_keys.collect();
        findings["keys"] = keys.number.into();
        let keyless = limit.key().and_then(|key| keyless.of(key));
        findings["without_key"] = keyless.map_or(0, |(count, _)| count).into();
    }
    findings
}

fn findings_json(limit: &AuditedLimit, findings: Findings) -> Value {
    let worst = findings.worst;
    json!({
        "items": findings.releases,
        "too_early": findings.violations,
        "seconds_too_early": in_seconds(findings.earliest),
        "worst_window": (worst.count > 0).then(|| json!({
            "count": worst.count,
            "first": worst.start.to_string(),
            "last": worst.end.to_string(),
            "item": worst.number,
        })),
        "highest_share": limit.share(worst.count),
        "highest_rate": limit.rate_of(worst.count),
    })
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// A rate per period of the limit, which it is compared with.
fn pace(per_second: f64, period: u64) -> String {
    let rate = per_second * in_seconds(period);
    let decimals = if rate < 1.0 { 3 } else { usize::from(rate < 100.0) };
    format!("{rate:.decimals$}/{}", format_duration(period))
}
