//! The items that a log knows, so that a later run can skip them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::file::lines;
use super::log::{found, start};
use super::row::Noted;
use super::{json, tsv};
use crate::config::{LogFormat, Resume};

/// Items that need not be run again.
#[derive(Debug, Default)]
pub struct Completed {
    /// The number of times that each item was completed, less the times that it was taken.
    items: HashMap<Box<[u8]>, u64>,
}

impl Completed {
    /// The items that a log has as completed with status 0 or, with [`Resume::New`], all that it has. If there is no
    /// log, there are none. The log is only read.
    ///
    /// # Errors
    /// The file cannot be read, or is not a log.
    pub fn look(path: &Path, resume: Resume) -> Result<Self> {
        let Some(format) = found(path) else { return Ok(Completed::default()) };
        let (mut items, mut known) = (HashMap::new(), Known::default());
        for line in lines(path, start(format))? {
            let line = line.context("cannot read the log")?;
            let noted = match format {
                LogFormat::Tsv => tsv::noted(&line),
                LogFormat::Json => json::noted(&line),
            };
            let Some(noted) = noted else { continue };
            match resume {
                Resume::New => known.add(noted),
                Resume::Unfinished if noted.is_completed => {
                    let completed = noted.items.into_iter();
                    completed.for_each(|(_, item)| *items.entry(item.into()).or_default() += 1);
                }
                Resume::Unfinished => {}
            }
        }
        let known = known.items.into_iter().map(|(item, known)| (item, known.count));
        Ok(Completed { items: items.into_iter().chain(known).collect() })
    }

    /// Returns true if this occurrence of an item has been completed. Each completion counts for one occurrence.
    pub fn take(&mut self, item: &[u8]) -> bool {
        let left = self.items.get_mut(item).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }
}

/// How often each item was attempted, though it may have a row for each attempt, in one run and in others.
///
/// An item that failed may be another one in a later run or the same, whose number has changed with the input: it
/// counts as the same, as no item may be skipped that was never run. A log does not tell where a run begins, but rows
/// do that cannot be of the same one.
#[derive(Default)]
struct Known {
    items: HashMap<Box<[u8]>, Attempted>,
    /// The items of the present run by their numbers, with their last attempts, and whether that was successful.
    seqs: HashMap<u64, (Box<[u8]>, u64, bool)>,
    run: u64,
}

/// What is known of an item.
#[derive(Default)]
struct Attempted {
    /// The number of times that it was there.
    count: u64,
    /// The run of the last row.
    run: u64,
    /// In this run: the number of times that it was there, completed and in all, with those completed before.
    completed: u64,
    in_all: u64,
}

impl Known {
    fn add(&mut self, noted: Noted) {
        if self.begins_run(&noted) {
            self.seqs.clear();
            self.run += 1;
        }
        for (seq, item) in noted.items {
            let item = Box::<[u8]>::from(item);
            let known = self.items.entry(item.clone()).or_default();
            if known.run != self.run {
                (known.run, known.in_all) = (self.run, known.completed);
            }
            let before = self.seqs.insert(seq, (item, noted.attempt, noted.is_completed));
            known.in_all += u64::from(before.is_none());
            known.completed += u64::from(noted.is_completed);
            known.count = known.count.max(known.in_all);
        }
    }

    /// True if a row is of another run than those before it: it has another item or no later attempt under a number
    /// that was there.
    fn begins_run(&self, noted: &Noted) -> bool {
        let is_other = |(seq, item): &(u64, Cow<[u8]>)| {
            let known = self.seqs.get(seq);
            known.is_some_and(|(known, attempt, is_completed)| {
                known[..] != item[..] || *attempt >= noted.attempt || *is_completed
            })
        };
        noted.items.iter().any(is_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of times that a log of these rows has an item: the number, the attempt, the status, the item.
    fn known(rows: &[(u64, u64, u8, &str)], item: &str) -> u64 {
        let mut known = Known::default();
        for &(seq, attempt, status, item) in rows {
            let items = vec![(seq, item.as_bytes().into())];
            known.add(Noted { attempt, is_completed: status == 0, items });
        }
        known.items.get(item.as_bytes()).map_or(0, |known| known.count)
    }

    #[test]
    fn an_item_is_known_as_often_as_it_certainly_was_there() {
        for (rows, expected) in [
            (&[(1, 1, 1, "a"), (2, 1, 1, "a")][..], 2),
            // Tried again: in the same run, and in others with other numbers.
            (&[(1, 1, 1, "a"), (1, 2, 1, "a"), (1, 3, 0, "a")], 1),
            (&[(1, 1, 1, "a"), (2, 1, 1, "b"), (1, 1, 1, "b"), (2, 1, 1, "a")], 1),
            (&[(1, 1, 1, "b"), (2, 1, 1, "a"), (2, 1, 1, "a"), (3, 1, 1, "a")], 2),
            // Lanes leave in another order.
            (&[(2, 1, 1, "a"), (1, 1, 1, "a")], 2),
            // What was completed is not run again, so it is another one.
            (&[(1, 1, 0, "x"), (2, 1, 0, "a"), (2, 1, 0, "a")], 2),
            (&[(1, 1, 0, "a"), (1, 1, 1, "a"), (1, 1, 1, "a")], 2),
        ] {
            assert_eq!(known(rows, "a"), expected, "{rows:?}");
        }
    }

    /// Random runs of inputs that are edited in between: nothing is skipped that was not run, and once all that is
    /// there was completed, nothing is run. Now and then, the rows of two runs look like those of one.
    #[test]
    fn each_item_is_run_at_least_once_and_in_the_end_not_again() {
        let mut doubtful = 0;
        for seed in 0..2000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut rows = Vec::new();
            // How often each item was run for the first time at most: of those that failed, which is not known.
            let mut there = HashMap::<&str, u64>::new();
            let mut input: Vec<&str> =
                (0..random.usize(1..5)).map(|_| random.choice(["a", "b", "c"]).unwrap()).collect();
            for _ in 0..random.usize(1..5) {
                let is_new = random.bool();
                let mut left: HashMap<&str, u64> = ["a", "b", "c"]
                    .into_iter()
                    .map(|item| {
                        let completed =
                            rows.iter().filter(|row: &&(_, _, u8, &str)| row.2 == 0 && row.3 == item);
                        (item, if is_new { known(&rows, item) } else { completed.count() as u64 })
                    })
                    .collect();
                let is_right = left.iter().all(|(item, left)| left <= there.get(item).unwrap_or(&0));
                doubtful += u32::from(is_new && !is_right);
                let mut ran = HashMap::<&str, u64>::new();
                for (seq, &item) in (1..).zip(&input) {
                    let skipped = left.get_mut(item).filter(|left| **left > 0);
                    *ran.entry(item).or_default() += 1;
                    if let Some(left) = skipped {
                        *left -= 1;
                        continue;
                    }
                    rows.push((seq, 1, random.u8(0..2), item));
                }
                ran.into_iter().for_each(|(item, ran)| {
                    let there = there.entry(item).or_default();
                    *there = ran.max(*there);
                });
                let more = (0..random.usize(0..3)).map(|_| random.choice(["a", "b", "c"]).unwrap());
                input.extend(more.collect::<Vec<_>>());
                random.shuffle(&mut input);
            }
            for (seq, item) in (1..).zip(&input) {
                let copies = input[..seq].iter().filter(|other| *other == item).count();
                let completed = |row: &&(u64, u64, u8, &str)| row.2 == 0 && row.3 == *item;
                if rows.iter().filter(completed).count() < copies {
                    rows.push((seq as u64, 1, 0, item));
                }
            }
            for item in &input {
                let copies = input.iter().filter(|other| *other == item).count() as u64;
                assert!(known(&rows, item) >= copies, "{seed}: {rows:?}");
            }
        }
        assert!(doubtful <= 10, "{doubtful} of 2000");
    }
}
