//! The runs of a log, oldest first.

use std::collections::VecDeque;

use super::Usage;

/// Runs, of which few need no memory beyond their own: with many keys, each look elsewhere in memory counts.
#[derive(Clone, Debug)]
pub(super) enum Runs {
    Few(usize, [Usage; FEW]),
    Many(VecDeque<Usage>),
}

const FEW: usize = 3;

impl Runs {
    pub(super) fn len(&self) -> usize {
        match self {
            Runs::Few(count, _) => *count,
            Runs::Many(runs) => runs.len(),
        }
    }

    /// True if one more takes more memory.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Runs::Few(count, _) => *count == FEW,
            Runs::Many(runs) => runs.len() == runs.capacity(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Usage> {
        let (first, second) = match self {
            Runs::Few(count, runs) => (&runs[..*count], &[][..]),
            Runs::Many(runs) => runs.as_slices(),
        };
        first.iter().chain(second)
    }

    pub(super) fn front(&self) -> Option<&Usage> {
        match self {
            Runs::Few(count, runs) => runs[..*count].first(),
            Runs::Many(runs) => runs.front(),
        }
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Usage> {
        match self {
            Runs::Few(count, runs) => runs[..*count].first_mut(),
            Runs::Many(runs) => runs.front_mut(),
        }
    }

    pub(super) fn pop_front(&mut self) {
        match self {
            Runs::Few(count, runs) => {
                *count = count.saturating_sub(1);
                runs.copy_within(1.., 0);
            }
            Runs::Many(runs) => _ = runs.pop_front(),
        }
    }

    pub(super) fn push_back(&mut self, run: Usage) {
        match self {
            Runs::Few(count, runs) if *count < FEW => {
                runs[*count] = run;
                *count += 1;
            }
            _ => self.as_many().push_back(run),
        }
    }

    pub(super) fn push_front(&mut self, run: Usage) {
        self.as_many().push_front(run);
    }

    fn as_many(&mut self) -> &mut VecDeque<Usage> {
        if let Runs::Few(count, runs) = self {
            *self = Runs::Many(runs[..*count].iter().copied().collect());
        }
        match self {
            Runs::Many(runs) => runs,
            Runs::Few(..) => unreachable!("they were converted"),
        }
    }
}

impl Default for Runs {
    fn default() -> Self {
        Runs::Few(0, [Usage::default(); FEW])
    }
}

impl PartialEq for Runs {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl FromIterator<Usage> for Runs {
    fn from_iter<I: IntoIterator<Item = Usage>>(runs: I) -> Self {
        let mut all = Runs::default();
        runs.into_iter().for_each(|run| all.push_back(run));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn runs_are_those_of_a_queue() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let (mut runs, mut queue) = (Runs::default(), VecDeque::new());
            for at in 0..random.u64(..30) {
                let run = Usage { at: Time(at), cost: 1 + at };
                match random.u8(..8) {
                    0 => (runs.push_front(run), queue.push_front(run)).0,
                    1..=4 => (runs.push_back(run), queue.push_back(run)).0,
                    5 => runs.front_mut().zip(queue.front_mut()).into_iter().for_each(|(one, other)| {
                        one.cost += 1;
                        other.cost += 1;
                    }),
                    _ => (runs.pop_front(), queue.pop_front()).0,
                }
                assert!(runs.iter().eq(&queue) && runs == queue.iter().copied().collect());
                assert_eq!((runs.len(), runs.front()), (queue.len(), queue.front()));
            }
        }
    }
}
