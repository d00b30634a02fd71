//! The releases of a window, in as little memory as possible: with many keys, each look elsewhere in memory counts.

use std::collections::VecDeque;

use super::Usage;
use super::packed::{pack, unpack};
use crate::time::Time;

/// Past releases as runs of `(instant, cost)`, oldest first. Releases at the same instant share a run, so a burst takes
/// one entry. A large count allocates nothing in advance.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "cli", serde(try_from = "String", into = "String"))]
pub struct ReleaseLog {
    runs: Runs,
}

#[derive(Clone, Debug)]
enum Runs {
    /// One run; there is none if its cost is 0.
    One(Usage),
    Ones(Ones),
    Many(Box<Many>),
}

/// Two to four runs of cost 1: the newest instant, and the gaps before it, the latest first.
#[derive(Clone, Copy, Debug)]
struct Ones {
    newest: Time,
    gaps: [Gap; 3],
    count: RunCount,
}

/// For at least this number of runs there is memory once they need any.
const CAPACITY: usize = 4;

/// Nanoseconds below 2^40, which is 18 minutes.
type Gap = [u8; 5];

/// Not a number, so that the kind of runs is told by the byte that it leaves unused.
#[derive(Clone, Copy, Debug)]
enum RunCount {
    Two,
    Three,
    Four,
}

#[derive(Clone, Debug)]
struct Many {
    /// The sum of their costs.
    used: u64,
    runs: VecDeque<Usage>,
}

impl ReleaseLog {
    /// A log of one run.
    pub(super) fn of(at: Time, cost: u64) -> Self {
        ReleaseLog { runs: Runs::One(Usage { at, cost }) }
    }

    /// All runs, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Usage> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The number of runs.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.runs {
            Runs::One(run) => usize::from(run.cost > 0),
            Runs::Ones(ones) => ones.count.number(),
            Runs::Many(many) => many.runs.len(),
        }
    }

    /// A run, by its index from the oldest.
    #[inline]
    fn get(&self, index: usize) -> Usage {
        match &self.runs {
            Runs::One(run) => *run,
            Runs::Ones(ones) => ones.get(index),
            Runs::Many(many) => many.runs[index],
        }
    }

    /// The sum of the costs of all runs.
    #[inline]
    pub(super) fn used(&self) -> u64 {
        match &self.runs {
            Runs::One(run) => run.cost,
            Runs::Ones(ones) => ones.count.number() as u64,
            Runs::Many(many) => many.used,
        }
    }

    /// The oldest run, if there is any.
    #[inline]
    pub(super) fn oldest(&self) -> Option<Usage> {
        match &self.runs {
            Runs::One(run) => Some(*run).filter(|run| run.cost > 0),
            Runs::Ones(ones) => Some(ones.get(0)),
            Runs::Many(many) => many.runs.front().copied(),
        }
    }

    /// The newest run; there is none if its cost is 0.
    #[inline]
    pub(super) fn newest(&self) -> Usage {
        match &self.runs {
            Runs::One(run) => *run,
            Runs::Ones(ones) => Usage { at: ones.newest, cost: 1 },
            Runs::Many(many) => many.runs.back().copied().unwrap_or_default(),
        }
    }

    /// The sum of the costs, without those of the oldest runs for which `is_over` is true.
    #[inline]
    pub(super) fn used_without(&self, is_over: impl Fn(&Usage) -> bool) -> u64 {
        match &self.runs {
            Runs::Many(many) => {
                let over = many.runs.iter().take_while(|run| is_over(run));
                over.fold(many.used, |used, run| used - run.cost)
            }
            _ => self.iter().take_while(|run| is_over(run)).fold(self.used(), |used, run| used - run.cost),
        }
    }

    /// True if one more run may take more memory.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        match &self.runs {
            Runs::One(_) => true,
            Runs::Ones(ones) => matches!(ones.count, RunCount::Four),
            Runs::Many(many) => many.runs.len() == many.runs.capacity(),
        }
    }

    /// Adds a run that is not earlier than any other.
    #[inline]
    pub(super) fn push(&mut self, run: Usage) {
        match &mut self.runs {
            Runs::One(none) if none.cost == 0 => *none = run,
            Runs::One(one) => match Ones::new(*one, run) {
                Some(ones) => self.runs = Runs::Ones(ones),
                None => self.many().push(run),
            },
            Runs::Ones(ones) => {
                if !ones.push(run) {
                    self.many().push(run);
                }
            }
            Runs::Many(many) => many.push(run),
        }
    }

    /// Replaces the newest run by one that is not earlier.
    #[inline]
    pub(super) fn replace_newest(&mut self, run: Usage) {
        if let Runs::One(newest) = &mut self.runs {
            *newest = run;
            return;
        }
        let many = self.many();
        let before = many.runs.pop_back().unwrap_or_default();
        many.used -= before.cost;
        many.push(run);
    }

    /// Merges the newest run into the one before it, as of the instant of that, if they are less than `apart`.
    pub(super) fn merge_newest(&mut self, apart: u64) {
        let Runs::Many(many) = &mut self.runs else { return };
        if let Some(run) = many.runs.pop_back() {
            match many.runs.back_mut().filter(|before| run.at.since(before.at) < apart) {
                Some(before) => before.cost += run.cost,
                None => many.runs.push_back(run),
            }
        }
    }

    /// Adds a cost to the oldest run.
    pub(super) fn add_to_oldest(&mut self, cost: u64) {
        if let Runs::One(run) = &mut self.runs {
            run.cost += cost;
            return;
        }
        let many = self.many();
        many.used += cost;
        many.runs.front_mut().into_iter().for_each(|run| run.cost += cost);
    }

    /// Forgets the oldest runs for which `is_over` is true.
    #[inline]
    pub(super) fn expire(&mut self, is_over: impl Fn(&Usage) -> bool) {
        if let Runs::Many(many) = &mut self.runs {
            while let Some(run) = many.runs.front().filter(|run| is_over(run)) {
                many.used -= run.cost;
                many.runs.pop_front();
            }
            if many.runs.len() == 2
                && let Some(ones) = Ones::new(many.runs[0], many.runs[1])
            {
                self.runs = Runs::Ones(ones);
            }
            return;
        }
        while self.oldest().is_some_and(|run| is_over(&run)) {
            self.pop_oldest();
        }
    }

    #[inline]
    pub(super) fn pop_oldest(&mut self) {
        match &mut self.runs {
            Runs::One(run) => run.cost = 0,
            Runs::Ones(ones) => match ones.count {
                RunCount::Two => self.runs = Runs::One(Usage { at: ones.newest, cost: 1 }),
                RunCount::Three => ones.count = RunCount::Two,
                RunCount::Four => ones.count = RunCount::Three,
            },
            Runs::Many(many) => many.used -= many.runs.pop_front().map_or(0, |run| run.cost),
        }
    }

    fn many(&mut self) -> &mut Many {
        if !matches!(self.runs, Runs::Many(_)) {
            let mut runs = VecDeque::with_capacity(CAPACITY);
            runs.extend(self.iter());
            self.runs = Runs::Many(Box::new(Many { used: self.used(), runs }));
        }
        match &mut self.runs {
            Runs::Many(many) => many,
            Runs::One(_) | Runs::Ones(_) => unreachable!("they were converted"),
        }
    }
}

impl Many {
    fn push(&mut self, run: Usage) {
        self.used += run.cost;
        self.runs.push_back(run);
    }
}

impl Ones {
    /// Both runs, if they can be kept so.
    fn new(older: Usage, newer: Usage) -> Option<Self> {
        let gap = gap(older.at, newer.at).filter(|_| (older.cost, newer.cost) == (1, 1))?;
        Some(Ones { newest: newer.at, gaps: [gap, Gap::default(), Gap::default()], count: RunCount::Two })
    }

    fn get(&self, index: usize) -> Usage {
        let later = &self.gaps[..self.count.number() - 1 - index];
        let at = later.iter().fold(self.newest.0, |at, gap| at - nanos(*gap));
        Usage { at: Time(at), cost: 1 }
    }

    /// Adds a run, if it can be kept so.
    fn push(&mut self, run: Usage) -> bool {
        let count = match self.count {
            RunCount::Two => RunCount::Three,
            RunCount::Three => RunCount::Four,
            RunCount::Four => return false,
        };
        let Some(gap) = gap(self.newest, run.at).filter(|_| run.cost == 1) else { return false };
        let [last, before, _] = self.gaps;
        *self = Ones { newest: run.at, gaps: [gap, last, before], count };
        true
    }
}

impl RunCount {
    fn number(self) -> usize {
        self as usize + 2
    }
}

fn gap(from: Time, to: Time) -> Option<Gap> {
    let [low @ .., 0, 0, 0] = to.since(from).to_le_bytes() else { return None };
    Some(low)
}

fn nanos(gap: Gap) -> u64 {
    let mut bytes = [0; 8];
    bytes[..gap.len()].copy_from_slice(&gap);
    u64::from_le_bytes(bytes)
}

impl Default for Runs {
    fn default() -> Self {
        Runs::One(Usage::default())
    }
}

impl PartialEq for ReleaseLog {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl FromIterator<Usage> for ReleaseLog {
    fn from_iter<I: IntoIterator<Item = Usage>>(runs: I) -> Self {
        let mut log = ReleaseLog::default();
        runs.into_iter().for_each(|run| log.push(run));
        log
    }
}

impl ReleaseLog {
    /// The number of low bits that instants are kept without. A log that is long, and whose runs stand for several
    /// releases each, is of a limit that merges releases; any other is kept exactly.
    fn unit_bits(&self) -> u32 {
        let span = self.newest().at.since(self.oldest().unwrap_or_default().at);
        let is_coarse = self.len() > 512 && self.used() > 1024 && self.get(self.len() / 2).cost > 1;
        (span >> 20).checked_ilog2().filter(|_| is_coarse).unwrap_or(0)
    }
}

/// A number for the form of the log, then the time from each run to the next, each followed by the cost of the run,
/// unless all but the first cost 1.
///
/// A run that stands for many releases may count as later than it was. Its instant is rounded up to a unit of less than
/// a millionth of the time that the log spans, so that a thousand runs fit into 8 kB.
impl From<ReleaseLog> for String {
    fn from(log: ReleaseLog) -> Self {
        let (mut text, mut last) = (String::new(), 0);
        let oldest = log.oldest().unwrap_or_default();
        let (bits, is_ones) = (log.unit_bits(), log.used() - oldest.cost + 1 == log.len() as u64);
        pack(&mut text, u64::from(2 * bits) + u64::from(is_ones));
        for (index, run) in log.iter().enumerate() {
            let units = run.at.0.div_ceil(1 << bits);
            pack(&mut text, units - last);
            if !is_ones || index == 0 {
                pack(&mut text, run.cost);
            }
            last = units;
        }
        text
    }
}

impl TryFrom<String> for ReleaseLog {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (mut log, mut units) = (ReleaseLog::default(), 0u64);
        let mut numbers = unpack(&text);
        let form = numbers.next().flatten().filter(|form| *form < 2 * u64::from(u64::BITS));
        let (unit, is_ones) = form.map(|form| (1 << (form / 2), form % 2 == 1)).ok_or("no form")?;
        while let Some(gap) = numbers.next() {
            let cost = if is_ones && log.len() > 0 { Some(1) } else { numbers.next().flatten() };
            units = units.checked_add(gap.ok_or("no number")?).ok_or("an instant past the end of time")?;
            let cost = cost.filter(|cost| *cost > 0 && log.used().checked_add(*cost).is_some());
            log.push(Usage {
                at: Time(units.saturating_mul(unit)),
                cost: cost.ok_or("a cost that cannot be")?,
            });
        }
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with a plain queue, whatever the gaps and costs are.
    #[test]
    fn a_log_is_a_queue_of_runs() {
        assert_eq!(size_of::<ReleaseLog>(), 24);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..3000 {
            let (mut log, mut queue) = (ReleaseLog::default(), VecDeque::<Usage>::new());
            let (large, mut now) = (random.u8(..8), 1 << 50);
            for _ in 0..random.u64(..30) {
                now += random.u64(..9) << random.choice([0, 0, 0, 37, 41]).unwrap();
                let run = Usage { at: Time(now), cost: if random.u8(..8) < large { 1 } else { 2 } };
                match (random.u8(..10), queue.front().copied()) {
                    (5, Some(_)) => {
                        let now = Time(now - random.u64(..20));
                        log.expire(|run| run.at < now);
                        queue.retain(|run| run.at >= now);
                    }
                    (0 | 1, Some(_)) => {
                        log.replace_newest(run);
                        *queue.back_mut().unwrap() = run;
                    }
                    (2, Some(_)) => {
                        log.add_to_oldest(3);
                        queue.front_mut().unwrap().cost += 3;
                    }
                    (3 | 4, Some(_)) => {
                        log.pop_oldest();
                        queue.pop_front();
                    }
                    _ => {
                        log.push(run);
                        queue.push_back(run);
                    }
                }
                assert!(log.iter().eq(queue.iter().copied()), "{log:?}, not {queue:?}");
                assert_eq!(log.used(), queue.iter().map(|run| run.cost).sum::<u64>());
                assert_eq!((log.len(), log.oldest()), (queue.len(), queue.front().copied()));
                assert_eq!(Some(log.newest()).filter(|run| run.cost > 0), queue.back().copied());
                assert_eq!(log, ReleaseLog::try_from(String::from(log.clone())).unwrap());
                assert_eq!(log, queue.iter().copied().collect());
            }
        }
    }

    /// Two to four cheap releases, as many keys have, need no memory of their own.
    #[test]
    fn a_log_takes_memory_only_once_it_must() {
        let mut log = ReleaseLog::default();
        let mut are_ones = Vec::new();
        for at in 0..6 {
            log.push(Usage { at: Time(at << 30), cost: 1 });
            are_ones.push((matches!(log.runs, Runs::Ones(_)), log.is_full()));
        }
        let [ones, last] = [(true, false), (true, true)];
        assert_eq!(are_ones, [(false, true), ones, ones, last, (false, false), (false, false)]);
        log.expire(|run| run.at < Time(4 << 30));
        assert!(matches!(log.runs, Runs::Ones(_)) && log.len() == 2);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let packed = |numbers: &[u64]| {
            let mut text = String::new();
            numbers.iter().for_each(|number| pack(&mut text, *number));
            ReleaseLog::try_from(text)
        };
        assert!(
            packed(&[0, 5, 1, 0, 2]).is_ok() && packed(&[1, 5, 2, 0]).is_ok() && packed(&[127, 1, 1]).is_ok()
        );
        for numbers in [
            &[][..],
            &[128, 5, 1],
            &[0, 5],
            &[0, 5, 0],
            &[0, u64::MAX, 1, 1, 1],
            &[0, 5, u64::MAX, 1, 1],
            &[1, 5, 1, u64::MAX],
        ] {
            assert!(packed(numbers).is_err(), "{numbers:?}");
        }
    }

    /// It forgets nothing, is never earlier, and hardly later, however often it is kept.
    #[test]
    fn a_long_log_of_many_releases_takes_8_kb() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let gap = 1 << random.u32(1..42);
            let (mut now, mut log) = (1_800_000_000_000_000_000, ReleaseLog::default());
            let mut push = |log: &mut ReleaseLog| {
                now += random.u64(..2 * gap);
                log.push(Usage { at: Time(now), cost: random.u64(900..2000) });
            };
            (0..1024).for_each(|_| push(&mut log));
            let exact = log.clone();
            let span = log.newest().at.since(log.get(0).at);
            for _ in 0..20 {
                let text = String::from(log);
                assert!(text.len() <= 7200, "{}", text.len());
                log = text.try_into().expect("a log");
            }
            assert_eq!((log.len(), log.used()), (exact.len(), exact.used()));
            for (kept, run) in log.iter().zip(exact.iter()) {
                let late = kept.at.0.checked_sub(run.at.0);
                assert!(kept.cost == run.cost && late.is_some_and(|late| late <= span >> 20), "{late:?}");
            }
        }
    }
}
