//! A limit, with the tally of the releases under it.

use std::cmp::Reverse;

use super::Violation;
use super::distinct::{Distinct, KeyCount};
use super::judge::{Judged, Released, Ruling};
use super::ranked::Ranked;
use super::tally::{Findings, Tally, Worst};
use super::trace::Trace;
use crate::charge::Key;
use crate::config::Rate;
use crate::gate::Accounts;
use crate::rule::{Spec, Stairs, Terms};
use crate::time::{SECOND, Time, Wall};

/// While there are fewer keys than this, none is forgotten.
const FEW_KEYS: usize = 4096;

pub(crate) struct AuditedLimit {
    pub(crate) rate: Rate,
    /// With the margin.
    pub(crate) terms: Terms,
    /// The index of its cost among those of a release.
    index: usize,
    /// The index of its key, if it has one.
    key: Option<usize>,
    ruling: Ruling,
    /// The releases of all keys together, or of each key until they are forgotten.
    released: Accounts<Released>,
    /// The findings of all keys together; the worst window is that of one key.
    pub(crate) tally: Tally,
    /// The keys with a high cost in a window; of their other findings, only those of what is forgotten.
    worst_keys: Ranked<Findings>,
    /// The keys whose releases are forgotten, and the number that are remembered before more are forgotten.
    forgotten: Distinct,
    evict_at: usize,
    /// The histories to draw, of each key or of all, if they are kept.
    traces: Option<Ranked<Trace>>,
}

impl AuditedLimit {
    /// A limit without releases so far. `index` is the index of its cost, and `key` that of its key.
    pub(super) fn new(rate: &Rate, wall: Wall, index: usize, key: Option<usize>) -> Self {
        let terms = Terms { wall, ..rate.padded_terms() };
        let ruling = Ruling::new(rate, terms);
        AuditedLimit {
            rate: rate.clone(),
            terms,
            index,
            key,
            released: Accounts::new(ruling.unused(), rate.key.is_some()),
            ruling,
            tally: Tally::default(),
            worst_keys: Ranked::by(|findings: &Findings| findings.worst.count.into()),
            forgotten: Distinct::default(),
            evict_at: FEW_KEYS,
            traces: None,
        }
    }

    /// Keeps what is needed to draw the histories.
    pub(super) fn trace(&mut self) {
        self.traces = Some(Ranked::by(Trace::total));
    }

    /// Judges a release, unless it costs nothing under this limit.
    pub(super) fn judge<'a>(
        &'a mut self,
        number: u64,
        at: Time,
        costs: &[u64],
        keys: &'a [Key],
    ) -> Option<Violation<'a>> {
        let cost = costs.get(self.index).copied().filter(|&cost| cost > 0)?;
        let key = self.key.map_or(&[][..], |key| keys[key].as_slice());
        if self.released.keys().len() >= self.evict_at {
            self.evict(at);
        }
        let account = self.released.account(key);
        let judged = self.ruling.judge(self.released.get_mut(account), at, cost);
        let Judged { early, count, start, is_worst, total } = judged;
        let is_early = early != Some(0);
        let worst = Worst { count, start, end: at, number };
        let (violations, earliest) = (is_early.into(), early.unwrap_or(0));
        self.tally.add(at, cost, self.terms.period, Findings { releases: 1, violations, earliest, worst });
        if self.key.is_some() && is_worst {
            let entry = self.worst_keys.entry(key, Findings::default);
            *entry = entry.with(Findings { worst, ..Findings::default() });
        }
        if let Some(traces) = &mut self.traces {
            // A key may become one of the busiest only after a while.
            traces.entry(key, || Trace::new(at, (total - cost).into())).push(at, cost, count, is_early);
        }
        let key = self.key.is_some().then_some(key);
        is_early.then_some(Violation { number, at, rate: &self.rate, key, count, early })
    }

    /// Forgets the releases of keys whose next one will be judged the same without them, and keeps their count and the
    /// findings of the worst. No later release may be before `now`.
    fn evict(&mut self, now: Time) {
        let AuditedLimit { ruling, released, worst_keys, forgotten, .. } = self;
        if ruling.forgets() {
            released.retain(|key, account| {
                let is_idle = ruling.is_idle(account, now);
                if is_idle {
                    forgotten.insert(key);
                    if let Some(entry) = worst_keys.get_mut(key) {
                        *entry = entry.with(account.findings());
                    }
                }
                !is_idle
            });
        }
        let left = released.keys().len();
        self.evict_at = FEW_KEYS.max(left + left / 4);
    }

    /// The index of its key, if it has one.
    pub(crate) fn key(&self) -> Option<usize> {
        self.key
    }

    /// The most that the limit allows within one period, for costs up to the highest seen.
    pub(crate) fn most(&self) -> u64 {
        (self.spec().max_per_window)(&self.terms).saturating_add(self.excess())
    }

    /// This cost within one period, as a fraction of the most allowed. `None` with hours, outside which all may go.
    #[expect(clippy::cast_precision_loss)]
    pub(crate) fn share(&self, cost: u64) -> Option<f64> {
        self.rate.during.is_none().then(|| cost as f64 / self.most() as f64)
    }

    /// The stairs for costs up to the highest seen.
    pub(crate) fn stairs(&self) -> Stairs {
        let stairs = self.spec().stairs(&self.terms);
        Stairs { first: stairs.first.saturating_add(self.excess()), ..stairs }
    }

    pub(crate) fn spec(&self) -> &'static Spec {
        self.rate.algorithm.spec()
    }

    /// The histories of the keys with the highest totals, at most `most` of them; or the history of all releases.
    pub(crate) fn traces(&self, most: usize) -> Vec<(Option<&[u8]>, &Trace)> {
        let highest = self.traces.iter().flat_map(|traces| traces.highest(most, |_, _| ()));
        highest.map(|(key, trace)| (self.key.map(|_| key), trace)).collect()
    }

    /// The number of distinct keys; `None` if the limit has no key.
    pub(crate) fn keys(&self) -> Option<KeyCount> {
        self.key?;
        if self.forgotten.count().number == 0 {
            return Some(KeyCount { number: self.released.keys().len() as u64, is_exact: true });
        }
        let mut all = self.forgotten.clone();
        self.released.keys().for_each(|key| all.insert(key));
        Some(all.count())
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.released.keys().len()
    }

    /// The mean cost per second in the whole periods since the first release; `None` for less than one period, where a
    /// burst would pass for the mean. What is left of the last period does not count: so no mean is above the highest
    /// cost in a period.
    #[expect(clippy::cast_precision_loss)]
    pub(crate) fn mean_rate(&self) -> Option<f64> {
        let (periods, cost) = self.tally.whole;
        (periods > 0).then(|| cost as f64 * SECOND as f64 / (periods as f64 * self.terms.period as f64))
    }

    /// The highest cost per second in any period. Civil periods count by themselves, so the mean may be higher than in
    /// each.
    pub(crate) fn highest_rate(&self) -> f64 {
        let mean = self.mean_rate().filter(|_| self.key.is_none());
        self.rate_of(self.tally.findings.worst.count).max(mean.unwrap_or(0.0))
    }

    /// This cost within one period, per second.
    #[expect(clippy::cast_precision_loss)]
    pub(crate) fn rate_of(&self, cost: u64) -> f64 {
        cost as f64 * SECOND as f64 / self.terms.period as f64
    }

    /// The highest share of a period that was used, or that of the whole record: what may go at once counts less in it.
    pub(crate) fn highest_share(&self) -> Option<f64> {
        Some(self.share(self.tally.findings.worst.count)?.max(self.mean_share().unwrap_or(0.0)))
    }

    /// The total cost, as a fraction of the most that the limit allows from the first release to the last, both
    /// included. `None` with keys, as there is no common quota, and with hours.
    ///
    /// The most allowed is what may go at once plus what accrues: releases that respect the limit never exceed it,
    /// however short the time.
    #[expect(clippy::cast_precision_loss)]
    pub(crate) fn mean_share(&self) -> Option<f64> {
        let (tally, count) = (&self.tally, self.terms.count as f64);
        let has_share = self.key.is_none() && self.rate.during.is_none();
        let first = tally.first.filter(|_| has_share)?;
        let allowed = match self.spec().periods(&self.terms, first, tally.last) {
            Some(periods) => count * periods as f64,
            None => self.stairs().first as f64 + count * tally.span() as f64 / self.terms.period as f64,
        };
        Some(tally.cost as f64 / allowed)
    }

    /// The highest cost of a release, beyond what may go at once. If the quota accrues, such a release goes later.
    fn excess(&self) -> u64 {
        let burst = (self.spec().burst)(&self.terms);
        if self.spec().accrues { self.tally.max_cost.saturating_sub(burst) } else { 0 }
    }

    /// The keys with the worst windows, the worst first: at most `most` of them.
    pub(crate) fn worst_keys(&self, most: usize) -> Vec<(&[u8], Findings)> {
        let findings = |key: &[u8], entry: &Findings| entry.with(self.released.of(key).findings());
        let highest = self.worst_keys.highest(most, |key, entry| Reverse(findings(key, entry).violations));
        highest.into_iter().map(|(key, entry)| (key, findings(key, entry))).collect()
    }
}
