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

impl BookingRules {
    /// Books for orders at `now`, each as [`BookingRules::book`] does, but no slot before `from`. One that is alone
    /// gets what it wants.
    pub fn deal(&self, ledger: &mut Ledger, now: Time, from: Time, orders: &[Order]) -> Vec<Answer> {
        let by = |order: &Order| order.wanted().map(|wanted| wanted.by);
        let mut crowd = ledger.crowd.with(now, orders.iter().filter_map(by));
        let answers = match orders {
            [order] if crowd.is_one() => vec![self.book_from(ledger, now, from, order)],
            _ => self.deal_out(ledger, now, from, orders, &crowd),
        };
        if answers.iter().any(|answer| !answer.slots.is_empty()) {
            for (order, answer) in orders.iter().zip(&answers) {
                by(order).into_iter().for_each(|process| crowd.count(process, answer.slots.len() as u64));
            }
            ledger.crowd = crowd;
        }
        answers
    }

    /// Books a few slots for each in turn, and more up to the share of its process, so that all get the same.
    fn deal_out(
        &self,
        ledger: &mut Ledger,
        now: Time,
        from: Time,
        orders: &[Order],
        crowd: &Crowd,
    ) -> Vec<Answer> {
        let most = (MAX_SLOTS / orders.len().max(1) as u64).max(1);
        let (few, near) = (self.policy.few().min(most), NEAR.max(from.since(now)));
        let first = |order: &Order| {
            let task = order.wanted().map(|wanted| Task::Book(up_to(few, wanted)));
            self.book_from(ledger, now, from, &order.with(task.unwrap_or_else(|| order.task.clone())))
        };
        let mut answers: Vec<_> = orders.iter().map(first).collect();
        let shares: Vec<_> = orders.iter().map(|order| self.share(crowd, order).min(most)).collect();
        let mut is_over = false;
        while !is_over {
            is_over = true;
            for ((order, share), answer) in orders.iter().zip(&shares).zip(&mut answers) {
                let (has, wanted) = (answer.slots.len() as u64, order.wanted().unwrap_or_default());
                if !(1..wanted.count.min(*share)).contains(&has) || answer.ask_again.is_some() {
                    continue;
                }
                let is_near = self.earliest(ledger, from, &order.costs).since(from) <= near;
                let most = if is_near { *share } else { share - share / 3 };
                self.add_slots(ledger, from, &order.costs, up_to(most.min(has + few), wanted), answer);
                is_over &= answer.slots.len() as u64 == has;
            }
        }
        answers
    }

    /// What is left of the share of the process that orders in what its crowd gets at these costs: all that can be had
    /// at once, or in a second.
    fn share(&self, crowd: &Crowd, order: &Order) -> u64 {
        if crowd.is_one() {
            return u64::MAX;
        }
        let supply = |Debit { quota, cost, .. }: Debit| quota.at_once().max(quota.in_second()) / cost;
        let supply = self.debits(&order.costs).map(supply).min().unwrap_or(u64::MAX);
        let got = order.wanted().map_or(0, |wanted| crowd.got(wanted.by));
        supply.div_ceil(crowd.size() as u64).saturating_sub(got)
    }
}

fn up_to(count: u64, wanted: Wanted) -> Wanted {
    Wanted { count: wanted.count.min(count), ..wanted }
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
