//! Booking for several orders at once: all get the same, as far as they want it.

use super::crowd::Crowd;
use super::{BookingRules, Debit, Ledger};
use crate::store::{Answer, Order, Task, Wanted};
use crate::time::{SECOND, Time};

/// The most slots that are booked in turn: it should not take long, as others wait.
const MAX_SLOTS: u64 = 16384;

/// Of slots that are more nanoseconds ahead than this, each gets two thirds of its share: others may ask before they
/// are due.
const NEAR: u64 = SECOND / 10;

/// Orders of one process, each of which follows the one before it.
struct Chain<'a> {
    orders: &'a [Order],
    /// Those so far.
    answers: Vec<Answer>,
    /// The most slots that it may get, and those that it has got.
    share: u64,
    got: u64,
}

impl BookingRules {
    /// Books for orders at `now`, each as [`BookingRules::book`] does, but no slot before `from`. One that is alone
    /// gets what it wants.
    pub fn deal(&self, ledger: &mut Ledger, now: Time, from: Time, orders: &[Order]) -> Vec<Answer> {
        let by = |order: &Order| order.wanted().map(|wanted| wanted.by);
        let mut crowd = ledger.crowd.with(now, orders.iter().filter_map(by));
        let chain = |orders| {
            let share = self.share(&crowd, orders);
            Chain { orders, answers: Vec::new(), share, got: 0 }
        };
        let mut chains: Vec<_> = orders.chunk_by(|before, order| order.follows(before)).map(chain).collect();
        self.deal_out(ledger, now, from, &mut chains, crowd.is_one());
        let answers: Vec<_> = chains.into_iter().flat_map(Chain::answered).collect();
        if answers.iter().any(|answer| !answer.slots.is_empty()) {
            for (order, answer) in orders.iter().zip(&answers) {
                by(order).into_iter().for_each(|process| crowd.count(process, answer.slots.len() as u64));
            }
            ledger.crowd = crowd;
        }
        answers
    }

    /// Books a few slots for each chain in turn, and more up to the share of its process, so that all get the same.
    fn deal_out(&self, ledger: &mut Ledger, now: Time, from: Time, chains: &mut [Chain], is_one: bool) {
        let (most, few) = match chains {
            [_] if is_one => (u64::MAX, u64::MAX),
            _ => {
                let most = (MAX_SLOTS / chains.len().max(1) as u64).max(1);
                (most, self.policy.few().min(most))
            }
        };
        chains.iter_mut().for_each(|chain| self.serve(ledger, now, from, chain, few));
        let near = NEAR.max(from.since(now));
        let mut is_over = false;
        while !is_over {
            is_over = true;
            for chain in chains.iter_mut().filter(|chain| chain.got > 0) {
                let Some(next) = chain.next() else { continue };
                let is_near = self.earliest(ledger, from, &chain.orders[next].costs).since(from) <= near;
                let share = if is_near { chain.share } else { chain.share - chain.share / 3 };
                let had = chain.got;
                self.serve(ledger, now, from, chain, few.min(share.min(most).saturating_sub(had)));
                is_over &= chain.got == had;
            }
        }
    }

    /// Books up to `count` more slots for a chain.
    fn serve(&self, ledger: &mut Ledger, now: Time, from: Time, chain: &mut Chain, mut count: u64) {
        while count > 0
            && let Some(at) = chain.next()
        {
            let order = &chain.orders[at];
            let has = chain.answers.get(at).map_or(0, |answer| answer.slots.len() as u64);
            // None is before those that it follows.
            let after = chain.answers[..at]
                .last()
                .and_then(|before| before.slots.last())
                .map_or(from, |last| last.at);
            let wanted = order.wanted().map(|wanted| {
                let ahead = wanted.ahead.max(after.since(from));
                Wanted { count: wanted.count.min(has.saturating_add(count)), ahead, ..wanted }
            });
            if let Some(answer) = chain.answers.get_mut(at) {
                self.add_slots(ledger, from, &order.costs, wanted.unwrap_or_default(), answer);
            } else {
                let task = wanted.map_or_else(|| order.task.clone(), Task::Book);
                chain.answers.push(self.book_from(ledger, now, from, &order.with(task)));
            }
            let got = chain.answers[at].slots.len() as u64 - has;
            (count, chain.got) = (count - got, chain.got + got);
            if got == 0 && wanted.is_some_and(|wanted| wanted.count > 0) {
                break;
            }
        }
    }

    /// What is left of the share of the process that orders in what its crowd gets at the mean of these costs: all that
    /// can be had at once, or in a second.
    fn share(&self, crowd: &Crowd, orders: &[Order]) -> u64 {
        if crowd.is_one() {
            return u64::MAX;
        }
        let supply = |Debit { limit, quota, .. }: Debit| {
            let costs: u64 = orders.iter().map(|order| order.costs[limit]).fold(0, u64::saturating_add);
            let supply = quota.at_once().max(quota.in_second());
            u64::try_from(u128::from(supply) * orders.len() as u128 / u128::from(costs)).unwrap_or(u64::MAX)
        };
        let supply = self.debits(&orders[0].costs).map(supply).min().unwrap_or(u64::MAX);
        let got = orders[0].wanted().map_or(0, |wanted| crowd.got(wanted.by));
        supply.div_ceil(crowd.size() as u64).saturating_sub(got)
    }
}

impl Chain<'_> {
    /// The order that gets the next slot. `None` if all have what they want, or one has to ask again.
    fn next(&self) -> Option<usize> {
        let Some(last) = self.answers.last() else { return Some(0) };
        let at = self.answers.len() - 1;
        let wanted = self.orders[at].wanted().unwrap_or_default();
        match wanted.count > last.slots.len() as u64 {
            true => Some(at).filter(|_| last.ask_again.is_none()),
            false => Some(at + 1).filter(|next| *next < self.orders.len()),
        }
    }

    /// All answers. Nothing was decided on what follows an order that lacks slots.
    fn answered(self) -> Vec<Answer> {
        let Chain { orders, mut answers, .. } = self;
        let last = answers.last().cloned().unwrap_or_default();
        answers.resize(
            orders.len(),
            Answer { slots: Vec::new(), ask_again: None, next: None, turn: None, ..last },
        );
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;
    use crate::config::Rate;
    use crate::store::{Policy, Reserve};

    fn rules(rate: &str) -> BookingRules {
        BookingRules::new(Policy::new(&[rate.parse::<Rate>().unwrap()], Reserve::REMOTE))
    }

    /// Random orders at random instants, alone or together: no window has more slots than the limit allows, and of
    /// those who ask together for the same, nobody gets more than a few more.
    #[test]
    fn all_get_the_same_and_no_window_has_more() {
        let mut random = fastrand::Rng::with_seed(1);
        for (rate, count, period) in
            [("40/s", 40, 1_000_000_000), ("7/100ms", 7, 100_000_000), ("500/s", 500, 1_000_000_000)]
        {
            for _ in 0..40 {
                let rules = rules(rate);
                let few = rules.policy().few();
                let (mut now, mut instants) = (Time(1 << 40), Vec::new());
                let mut ledger = rules.begin(now);
                for _ in 0..60 {
                    now = now.saturating_add(random.u64(0..period / 4));
                    let from = now.saturating_add(random.u64(0..50_000_000));
                    let wanted = random.u64(1..30);
                    let within = random.choice([u64::MAX, 0, period / 8, period]).unwrap();
                    let book = Task::Book(Wanted { count: wanted, within, ..Wanted::default() });
                    let order = Order::new(Key::new(), [1], 0).with(book);
                    let orders = vec![order; random.usize(1..9)];
                    let answers = rules.deal(&mut ledger, now, from, &orders);
                    let got: Vec<_> = answers.iter().map(|answer| answer.slots.len() as u64).collect();
                    let is_cut = answers.iter().any(|answer| answer.ask_again.is_some());
                    let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
                    assert!(is_cut || most - least <= few, "{rate}: {got:?}");
                    assert!(*most <= wanted);
                    let slots = answers.iter().flat_map(|answer| &answer.slots).map(|slot| slot.at);
                    instants.extend(slots.inspect(|at| assert!(*at >= from)));
                    // Some are given back, and others get them.
                    let surplus: Vec<_> =
                        instants.iter().copied().filter(|at| *at > now && random.u8(0..16) == 0).collect();
                    surplus.iter().for_each(|at| {
                        let place = instants.iter().position(|known| known == at).unwrap();
                        instants.swap_remove(place);
                    });
                    rules.give_back(&mut ledger, now, &[1], surplus);
                }
                instants.sort_unstable();
                let windows = instants.windows(count + 1);
                assert!(windows.into_iter().all(|window| window[count].since(window[0]) > period), "{rate}");
            }
        }
    }

    /// Random orders of several processes, each for some of different costs in a row.
    #[test]
    fn what_follows_gets_nothing_before_what_it_follows_has_all() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let rules = rules("40/s,cost=col:1");
            let mut now = Time(1 << 40);
            let mut ledger = rules.begin(now);
            for _ in 0..20 {
                now = now.saturating_add(random.u64(0..400_000_000));
                let mut orders = Vec::new();
                for by in 0..random.u32(1..5) {
                    for at in 0..random.u64(1..9) {
                        let within = random.choice([0, 100_000_000, u64::MAX]).unwrap();
                        let (count, ahead) = (random.u64(1..4), random.u64(0..9));
                        let wanted = Wanted { count, within, ahead, follows: at > 0, by, turn: None };
                        orders.push(Order::new(Key::new(), [random.u64(1..5)], 0).with(Task::Book(wanted)));
                    }
                }
                let answers = rules.deal(&mut ledger, now, now, &orders);
                assert_eq!(answers.len(), orders.len());
                let all: Vec<_> = orders.iter().zip(&answers).collect();
                for pair in all.windows(2).filter(|pair| pair[1].0.follows(pair[0].0)) {
                    let [(before, first), (_, next)] = [pair[0], pair[1]];
                    let has_all = first.slots.len() as u64 == before.wanted().unwrap().count;
                    assert!(has_all || next.slots.is_empty(), "seed {seed}");
                    let last = first.slots.last().zip(next.slots.first());
                    assert!(last.is_none_or(|(last, first)| last.at <= first.at), "seed {seed}");
                }
                for (order, answer) in &all {
                    let surplus = answer.slots.iter().map(|slot| slot.at).filter(|_| random.u8(0..4) == 0);
                    rules.give_back(&mut ledger, now, &order.costs, surplus.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn what_is_dealt_out_at_once_is_bounded() {
        let rules = rules("1M/s");
        let now = Time(1 << 40);
        for count in [40, 300] {
            let orders = vec![Order::new(Key::new(), [1], 1000); count];
            let answers = rules.deal(&mut rules.begin(now), now, now, &orders);
            let most = answers.iter().map(|answer| answer.slots.len() as u64).max();
            assert_eq!(most, Some(MAX_SLOTS / count as u64));
        }
    }

    #[test]
    fn what_is_near_is_dealt_out_until_nobody_wants_more() {
        let rules = rules("800/s");
        let mut ledger = rules.begin(Time(1 << 40));
        let now = Time(1 << 40);
        let orders = [100, 3, 400].map(|count| Order::new(Key::new(), [1], count));
        let answers = rules.deal(&mut ledger, now, now, &orders);
        assert_eq!(answers.iter().map(|answer| answer.slots.len()).collect::<Vec<_>>(), [100, 3, 400]);
        let far = rules.deal(&mut ledger, now, now, &[orders[2].clone(), orders[2].clone()]);
        let few = usize::try_from(rules.policy().few()).unwrap();
        let got: Vec<_> = far.iter().map(|answer| answer.slots.len()).collect();
        assert!(got.iter().sum::<usize>() >= 297 && got[0].abs_diff(got[1]) <= few, "{got:?}");
    }
    /// However few slots each gets in turn.
    #[test]
    fn what_is_reported_with_the_orders_of_others_is_charged_in_full() {
        let rules = rules("10/s");
        let now = Time(1 << 40);
        let mut ledger = rules.begin(now);
        let report = Order::new(Key::new(), [1], 0).with(Task::Late(9, now));
        let answers = rules.deal(&mut ledger, now, now, &[report, Order::new(Key::new(), [1], 1)]);
        assert!(rules.policy().few() < 9);
        assert_eq!(answers[0].overruns.costs, [9].into());
    }
}
