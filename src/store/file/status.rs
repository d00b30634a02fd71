//! How much of the limits in a state is used, without using any of it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::Setting;
use super::body::Body;
use super::lock::{self, Locker, NoLock};
use super::refusal::{bad, no_lock, unusable};
use crate::charge::Key;
use crate::config::{Algorithm, Defaults, Rate, RateText};
use crate::store::ledger::{BookingRules, Ledger, Marks};
use crate::store::{Order, Policy, Reserve, StoreError};
use crate::time::Time;

/// So many free slots are counted of a limit, at most.
const MOST_COUNTED: u64 = 1_000_000;

/// What a state says of its limits.
#[derive(Debug)]
pub struct Status {
    /// The limits as they are kept: their periods have the reserve for late wake-ups as a margin. Empty in a state that
    /// was reset.
    pub limits: Vec<LimitStatus>,
    /// The process that holds the lock, and whether it is stopped.
    pub holder: Option<(u32, bool)>,
}

/// What a state says of one limit.
#[derive(Debug)]
pub struct LimitStatus {
    /// The limit.
    pub rate: Rate,
    /// How many releases may have slots at one instant.
    pub capacity: u64,
    /// How many would have one right now.
    pub free: u64,
    /// How long it takes until the next slot, in nanoseconds.
    pub next_in: u64,
}

/// The status of the state at `path`, as of `now`; `None` if there is none. Nothing is booked or written.
///
/// # Errors
/// It is damaged, or not to be trusted.
pub(in crate::store) fn status(path: &Path, now: Time) -> Result<Option<Status>, StoreError> {
    let setting = Setting::ours(path)?;
    let Some(body) = Body::open(path)? else { return Ok(None) };
    // Without the lock, what is read is as of some moment ago: the header is written as a whole.
    let (_lock, holder) = match Locker::lock_at_once(body.file()) {
        Ok(lock) => (Some(lock), None),
        Err(NoLock::Held) => (None, lock::holder(body.file()).map(|pid| (pid, lock::is_stopped(pid)))),
        Err(why) => return Err(no_lock(&body, setting.patience, why)),
    };
    let header = body.read()?.map_err(|flaw| bad(path, &unusable(path, flaw)))?.header;
    let rate = |text: &str| RateText::parse_pausing(text)?.resolve(&Defaults::default());
    let rates: Result<Vec<_>, _> = header.text.split_whitespace().map(rate).collect();
    let rates = rates.map_err(|error| bad(path, &format!("its limits cannot be read: {error:#}")))?;
    let rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    let mut preview = Preview { body: &body, written: HashMap::new() };
    let ledger = match header.domain == setting.domain || rates.is_empty() {
        true => header.ledger,
        false if setting.domain.counts_from_boot() => rules.restart(&header.ledger, &mut preview)?,
        false => rules.silence(now),
    };
    let limit = |at: usize| limit_status(&rules, &ledger, &preview, now, at, &rates);
    let limits = (0..rates.len()).map(limit).collect::<Result<_, _>>()?;
    Ok(Some(Status { limits, holder }))
}

fn limit_status(
    rules: &BookingRules,
    ledger: &Ledger,
    preview: &Preview,
    now: Time,
    at: usize,
    rates: &[Rate],
) -> Result<LimitStatus, StoreError> {
    let (mut ledger, mut preview) = (ledger.clone(), preview.clone());
    let costs = (0..rates.len()).map(|other| u64::from(other == at)).collect();
    let order = Order { key: Key::new(), costs, count: 1 };
    let mut free = 0;
    let next = loop {
        let answer = rules.book(&mut ledger, &mut preview, now, &order)?;
        match answer.slots.first() {
            Some(slot) if slot.at <= now && free < MOST_COUNTED => free += 1,
            Some(slot) => break slot.at,
            // Beyond the horizon, it is not said how far.
            None => break Time(answer.ask_again.unwrap_or(now).0.saturating_add(rules.policy().horizon)),
        }
    };
    let next_in = if free > 0 { 0 } else { next.since(now) };
    let capacity = match rates[at].algorithm {
        Algorithm::Interval => 1,
        _ => rules.policy().quotas[at].most(),
    };
    Ok(LimitStatus { rate: rates[at].clone(), capacity, free, next_in })
}

/// The marks of a file, with what would be written kept apart.
#[derive(Clone)]
struct Preview<'a> {
    body: &'a Body,
    written: HashMap<u64, u64>,
}

impl Marks for Preview<'_> {
    fn get(&mut self, place: u64) -> Result<u64, StoreError> {
        self.written.get(&place).map_or_else(|| (&mut &*self.body).get(place), |mark| Ok(*mark))
    }

    fn fill(&mut self, places: Range<u64>, mark: u64) -> Result<(), StoreError> {
        self.written.extend(places.map(|place| (place, mark)));
        Ok(())
    }
}
