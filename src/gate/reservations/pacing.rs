//! The size and timing of orders for slots.

use super::lease::{Lease, TotalDemand};
use super::order::{Answer, Ordered, Turn, Wanted};
use super::{BookingTerms, Demand};
use crate::time::{SECOND, Time};

/// The nanoseconds by which the next slots are ordered before the last one held is due; more if answers take longer.
const LEAD: u64 = SECOND / 20;

/// How much more than for 50 ms is ordered at once if it takes longer to book slots than the limits do.
const BEHIND: u64 = 8;

/// The longest time, in nanoseconds, without an answer while something waits: the limits may have changed.
const LONGEST_UNASKED: u64 = 5 * SECOND;

/// Slots are booked at most this number of nanoseconds ahead so that they come in time.
const MAX_AHEAD: u64 = SECOND / 2;

/// A release that does not wait, and came too late for its slot, gets another one within this number of nanoseconds.
const REPLACED_WITHIN: u64 = SECOND;

/// After an answer that came in time, slots are booked less far ahead, by one part in this many.
const DECAY: u64 = 16;

/// The most runs of equal releases of a lane for which slots are booked at the same time, if answers take long or not.
const MAX_RUNS: usize = 64;
const NEAR_RUNS: usize = 16;

/// Nanoseconds to wait after an answer without slots before asking again.
const PAUSE: u64 = SECOND / 100;

/// The instant of an answer, and its `confirm_from`.
pub(super) type Heard = (Time, Option<Time>);

/// The pacing of orders, for all claims.
#[derive(Clone)]
pub(super) struct Pacing {
    /// As [`BookingTerms::span`](super::BookingTerms::span).
    span: u64,
    longest_span: u64,
    /// Future slots are booked, too.
    waits: bool,
    /// The number of slots in unanswered orders.
    pub(super) coming: u64,
    /// Nanoseconds that the last answer took.
    took: u64,
    /// The most slots that were booked at once since the last order that got fewer than it asked for.
    booked: u64,
    /// All of these were due before more are ordered: it takes longer to book slots than the limits do.
    is_behind: bool,
    /// The number of times that the span is halved, as no slot came in time.
    halvings: u32,
    /// The nanoseconds after a booking from which slots come in time, and the least of them: 0 if slots are good for
    /// longer than answers take.
    ahead: u64,
    least_ahead: u64,
    /// As [`BookingTerms::validity`].
    validity: u64,
}

impl Pacing {
    pub(super) fn new(terms: &BookingTerms, waits: bool) -> Self {
        let &BookingTerms { span, longest_span, answers_within, validity, .. } = terms;
        let (longest_span, least_ahead) = (longest_span.max(span), answers_within.saturating_sub(validity));
        Pacing {
            span,
            longest_span,
            waits,
            coming: 0,
            took: 0,
            booked: span,
            is_behind: false,
            halvings: 0,
            ahead: least_ahead,
            least_ahead,
            validity,
        }
    }

    /// As [`Reservations::slack`](super::Reservations::slack): some for the answer, and as much for what it lacks.
    pub(super) fn slack(&self) -> u64 {
        self.ahead.saturating_mul(2)
    }

    /// The nanoseconds by which a slot is ordered or checked before it is due.
    pub(super) fn lead(&self) -> u64 {
        LEAD.saturating_add(self.took.max(self.ahead))
    }

    /// The number of slots to ask for at once: enough for 50 ms, for many times that if they come too slowly, or for
    /// three times the time that an answer takes. It at most doubles from one order to the next: those who share the
    /// limit may just be about to ask.
    fn span(&self) -> u64 {
        let behind =
            if self.is_behind { self.span.saturating_mul(BEHIND).min(self.longest_span / 4) } else { 0 };
        let times = self.took.saturating_mul(3).div_ceil(LEAD).max(1);
        let span = self.span.saturating_mul(times).min(self.longest_span).max(behind);
        (span.min(self.booked.saturating_mul(2)) >> self.halvings).max(1)
    }

    /// The most slots that can be held for the same costs: those of two orders.
    pub(super) fn most(&self) -> u64 {
        2 * self.longest_span
    }

    /// The most runs of equal releases of a lane for which slots are booked at the same time. What does not wait is
    /// decided one by one.
    pub(super) fn most_runs(&self) -> usize {
        match (self.waits, self.is_distant()) {
            (false, _) => 1,
            (true, false) => NEAR_RUNS,
            (true, true) => MAX_RUNS,
        }
    }

    /// True if answers take a good part of the time for which slots are good.
    fn is_distant(&self) -> bool {
        self.took >= self.validity / 4
    }

    /// The part of a demand for which slots are ordered now: that of two orders for its lane.
    pub(super) fn near(&self, demand: &Demand) -> u64 {
        demand.count.min((2 * self.span()).saturating_sub(demand.before))
    }

    /// The slots to order of what a key's lease needs, when only `vacancies` more slots can be used. `last` is the
    /// instant of the last slot of the key; `heard` that at which the store last answered for it, as of which slots
    /// before another instant are good.
    ///
    /// # Errors
    /// There is nothing to order now; with the instant at which to look again, if there is one.
    pub(super) fn plan(
        &self,
        now: Time,
        lease: &Lease,
        last: Option<Time>,
        heard: Option<Heard>,
        vacancies: u64,
    ) -> Result<Wanted, Option<Time>> {
        let TotalDemand { near, follows, eligible_at, .. } = lease.demand;
        let held = lease.slots.len() as u64;
        let lacking = near.min(2 * self.span()).saturating_sub(held).min(vacancies).min(self.span());
        if lacking == 0 {
            return self.check(now, lease, heard);
        }
        let look = heard.map_or(Time(u64::MAX), |(heard, _)| heard.saturating_add(LONGEST_UNASKED));
        // An item that backs off needs no slot before `eligible_at`.
        let last = if follows { last } else { lease.slots.back().map(|last| last.at) };
        let last = last.map(|last| Time(last.0.saturating_sub(self.lead())));
        let when = last.map_or(eligible_at, |last| eligible_at.max(last));
        let (when, turn) = match lease.ordered {
            Some(Ordered::Coming(..)) => return Err(None),
            Some(Ordered::NotBefore(not_before, turn)) => (when.max(not_before.min(look)), turn),
            None => (when, None),
        };
        if when > now {
            let check = self.check(now, lease, heard);
            return check.map_err(|again| again.into_iter().chain([when]).min());
        }
        Ok(self.wanted(lease, lacking, turn))
    }

    /// Slots booked long ago may be too close to a later overrun, so the store is asked before they are used.
    fn check(&self, now: Time, lease: &Lease, heard: Option<Heard>) -> Result<Wanted, Option<Time>> {
        let first = lease.slots.front().map(|first| first.at);
        let (first, (heard, confirm_from)) = first.zip(heard).ok_or(None)?;
        let is_confirmed = confirm_from.is_none_or(|from| first < from);
        let is_fresh = is_confirmed && first.since(heard) <= self.lead().saturating_mul(2);
        if is_fresh || matches!(lease.ordered, Some(Ordered::Coming(..))) {
            return Err(None);
        }
        let when = Time(first.0.saturating_sub(self.lead())).min(heard.saturating_add(LONGEST_UNASKED));
        if when > now { Err(Some(when)) } else { Ok(self.wanted(lease, 0, None)) }
    }

    /// True if releases that do not wait came too late for their slots, and get others. Otherwise they would be refused
    /// for their own slots, which count although nobody has used them.
    pub(super) fn replaces_lost(&self, lease: &Lease) -> bool {
        !self.waits && lease.lost > 0
    }

    fn wanted(&self, lease: &Lease, count: u64, turn: Option<Turn>) -> Wanted {
        let TotalDemand { within, follows, .. } = lease.demand;
        // As runs are booked one after the other, a slot may be before those of earlier releases: it must still be
        // good after these.
        let longest = if self.is_distant() { 2 * self.lead() } else { self.validity / 4 };
        let within = if follows { within.min(longest) } else { within };
        // Half of a short wait is left for the answer itself.
        let (count, within, ahead) = match self.waits {
            true => (count, within, self.ahead.min(within / 2)),
            false if self.replaces_lost(lease) => (count.min(lease.lost), REPLACED_WITHIN, self.ahead),
            false => (count, self.ahead, self.ahead),
        };
        Wanted { count, within, ahead, turn, ..Wanted::default() }
    }

    /// Notes the answer to an order for this number of slots. Returns what is `ordered` for its claim from now on.
    pub(super) fn answered(
        &mut self,
        now: Time,
        ordered: Option<Ordered>,
        wanted: u64,
        answer: &Answer,
    ) -> Option<Ordered> {
        if let Some(Ordered::Coming(since, count)) = ordered {
            self.took = now.since(since);
            // Saturates, as it is 0 once the store has failed.
            self.coming = self.coming.saturating_sub(count);
        }
        // The more slots are booked at once, the longer the answer takes.
        let is_in_time = answer.slots.iter().any(|slot| slot.until >= now);
        if !answer.slots.is_empty() {
            let booked = answer.slots.len() as u64;
            self.booked = if booked < wanted { booked } else { self.booked.max(booked) };
            let next = now.saturating_add(LEAD);
            let are_due = answer.slots.iter().all(|slot| slot.at <= next);
            self.is_behind = is_in_time && are_due && booked == wanted;
        }
        if is_in_time {
            self.halvings = self.halvings.saturating_sub(1);
            let needed = self.took.saturating_mul(2).saturating_sub(self.validity).min(self.ahead);
            self.ahead = (self.ahead - self.ahead / DECAY).max(needed).max(self.least_ahead);
        } else if !answer.slots.is_empty() {
            self.halvings = (self.halvings + 1).min(16);
            self.ahead = self.ahead.max(self.took).saturating_mul(2).min(MAX_AHEAD);
        }
        let pause = if answer.slots.is_empty() && wanted > 0 { now.checked_add(PAUSE.into()) } else { None };
        answer.ask_again.or(pause).map(|not_before| Ordered::NotBefore(not_before, answer.turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Slot;

    const SECONDS: [Time; 4] = [Time(0), Time(SECOND), Time(2 * SECOND), Time(3 * SECOND)];

    fn pacing(span: u64, longest_span: u64) -> Pacing {
        Pacing::new(&BookingTerms { span, longest_span, ..BookingTerms::default() }, true)
    }

    /// Pacing for one claim.
    struct Asker {
        pacing: Pacing,
        ordered: Option<Ordered>,
    }

    impl Asker {
        fn new() -> Self {
            Asker { pacing: pacing(20, 30), ordered: None }
        }

        fn answered(&mut self, now: Time, wanted: u64, answer: &Answer) {
            self.ordered = self.pacing.answered(now, self.ordered, wanted, answer);
        }
    }

    /// The number of slots asked for at an instant, or the instant to look again.
    fn plan(
        Asker { pacing, ordered }: &mut Asker,
        now: Time,
        count: u64,
        vacancies: u64,
        held: &[Time],
    ) -> Result<u64, Option<Time>> {
        let demand =
            TotalDemand { count, near: count, follows: false, eligible_at: SECONDS[1], within: u64::MAX };
        let heard = Some((now, None)).filter(|_| !held.is_empty());
        let slots = held.iter().map(|&at| Slot { at, until: at }).collect();
        let lease = Lease { costs: [1].into(), demand, slots, ordered: *ordered, ..Lease::default() };
        let Wanted { count, .. } = pacing.plan(now, &lease, None, heard, vacancies)?;
        pacing.coming += count;
        *ordered = Some(Ordered::Coming(now, count));
        Ok(count)
    }

    #[test]
    fn no_more_is_booked_than_can_be_used() {
        let [zero, one, two, _] = SECONDS;
        let table: [(Time, u64, u64, &[Time], Result<u64, Option<Time>>); 9] = [
            (one, 3, 9, &[], Ok(3)),
            (one, 99, 99, &[], Ok(20)),
            // Commands run, and more cannot be started.
            (one, 3, 0, &[], Err(None)),
            (one, 3, 2, &[], Ok(2)),
            (one, 1, 9, &[one], Err(None)),
            // The last slot is far off; the next is ordered shortly before it.
            (one, 3, 9, &[two], Err(Some(Time(1_950_000_000)))),
            (two, 3, 9, &[two], Ok(2)),
            // No more than those of two orders.
            (two, 99, 99, &[two; 35], Ok(5)),
            // The item backs off until 1 s.
            (zero, 3, 9, &[], Err(Some(one))),
        ];
        for (now, wanted, vacancies, held, expected) in table {
            let found = plan(&mut Asker::new(), now, wanted, vacancies, held);
            assert_eq!(found, expected, "{wanted} of {vacancies}, {held:?}");
        }
    }

    #[test]
    fn less_is_asked_for_while_slots_come_too_late() {
        let [_, one, two, three] = SECONDS;
        let mut asker = Asker::new();
        let slots = |until| Answer { slots: vec![Slot { at: until, until }; 20], ..Answer::default() };
        let mut spans = Vec::new();
        for until in [one, one, three, three] {
            asker.answered(two, 20, &slots(until));
            spans.push(asker.pacing.span());
        }
        assert_eq!(spans, [10, 5, 10, 20]);
    }

    /// Otherwise a gap that is shorter than an answer would never be met.
    #[test]
    fn slots_are_wanted_later_while_they_come_too_late() {
        let [_, one, two, three] = SECONDS;
        let mut pacing = pacing(20, 30);
        let lease =
            |within| Lease { demand: TotalDemand { within, ..TotalDemand::default() }, ..Lease::default() };
        let ahead = |pacing: &Pacing, within| pacing.wanted(&lease(within), 1, None).ahead;
        let mut found = Vec::new();
        for (asked, until) in
            [(100, two), (100, one), (300, one), (250, two), (160, two), (260, two), (SECOND, one)]
        {
            let asked = Some(Ordered::Coming(Time(two.0 - asked), 1));
            let answer = Answer { slots: vec![Slot { at: until, until }], ..Answer::default() };
            pacing.answered(two, asked, 1, &answer);
            found.push(ahead(&pacing, three.0));
        }
        // No less than twice what the last answer took.
        assert_eq!(found, [0, 200, 600, 563, 528, 520, MAX_AHEAD]);
        // A short wait is for the answer, too; what does not wait takes only a slot that is free at once.
        assert_eq!(ahead(&pacing, 7), 3);
        let at_once = Pacing { waits: false, ..pacing }.wanted(&lease(7), 1, None);
        assert!(at_once.is_at_once() && at_once.ahead == MAX_AHEAD);
        // What is known before the first answer.
        for (validity, expected) in [(0, 50), (20, 30), (60, 0)] {
            let terms = BookingTerms { answers_within: 50, validity, ..BookingTerms::default() };
            assert_eq!(ahead(&Pacing::new(&terms, true), u64::MAX), expected);
        }
    }

    #[test]
    fn more_is_asked_for_while_all_of_it_is_due_and_comes() {
        let [_, one, two, _] = SECONDS;
        let mut pacing = pacing(10, 4000);
        let mut answered = |(asked, got, at): (u64, usize, Time)| {
            let answer = Answer { slots: vec![Slot { at, until: two }; got], ..Answer::default() };
            pacing.answered(one, None, asked, &answer);
            pacing.span()
        };
        let all_due = [(10, 10, one), (20, 20, one), (40, 40, one), (320, 320, one), (640, 640, one)];
        assert_eq!(all_due.map(&mut answered), [20, 40, 80, 80, 80]);
        // That little was needed says nothing; that little was left does.
        let rest = [(3, 3, one), (320, 7, one), (10, 2, two), (4, 4, two)];
        assert_eq!(rest.map(&mut answered), [80, 10, 4, 8]);
    }

    #[test]
    fn more_is_asked_for_if_answers_take_longer() {
        let slow = |took| Pacing { took, booked: 4000, ..pacing(10, 4000) }.span();
        assert_eq!([0, LEAD / 3, LEAD / 2, 10 * LEAD, u64::MAX].map(slow), [10, 10, 20, 300, 4000]);
        let behind = |span| Pacing { is_behind: true, booked: 4000, ..pacing(span, 4000) };
        assert_eq!([10, 900].map(|span| behind(span).span()), [80, 1000]);
        assert_eq!(Pacing { halvings: 9, ..pacing(10, 4000) }.span(), 1);
        assert_eq!(pacing(20, 3).most(), 40);
    }

    #[test]
    fn an_answer_tells_whether_slots_come_in_time_and_whether_more_are_needed() {
        let (now, due, later) = (SECOND, SECOND + LEAD, SECOND + LEAD + 1);
        // Where slots begin and end, how many were wanted; whether more are needed, and how often the number is halved
        // that was halved once.
        let table: [(&[(u64, u64)], u64, bool, u32); 8] = [
            (&[(due, due)], 1, true, 0),
            (&[(due, due)], 2, false, 0),
            (&[(due, due), (later, later)], 2, false, 0),
            (&[(later, later)], 1, false, 0),
            (&[(0, now)], 1, true, 0),
            (&[(0, now - 1)], 1, false, 2),
            (&[(0, now - 1), (due, due)], 2, true, 0),
            (&[], 1, false, 1),
        ];
        for (slots, wanted, is_behind, halvings) in table {
            let mut pacing = Pacing { halvings: 1, ..pacing(10, 4000) };
            let slots = slots.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }).collect();
            pacing.answered(Time(now), None, wanted, &Answer { slots, ..Answer::default() });
            assert_eq!((pacing.is_behind, pacing.halvings), (is_behind, halvings), "{wanted}");
        }
        // One that only asked about overruns was not turned away.
        assert_eq!(Asker::new().pacing.answered(Time(now), None, 0, &Answer::default()), None);
    }

    #[test]
    fn a_slot_is_checked_shortly_before_it_is_due_unless_the_last_answer_is_fresh() {
        const FAR: u64 = 60 * SECOND;
        // The time, the first slot, `confirm_from` of the answer at 0; what is done.
        let table = [
            (0, 2 * LEAD, None, Err(None)),
            (LEAD, 2 * LEAD + 1, None, Err(Some(LEAD + 1))),
            (LEAD + 1, 2 * LEAD + 1, None, Ok(0)),
            (0, LEAD + 5, Some(LEAD + 6), Err(None)),
            (4, LEAD + 5, Some(LEAD + 5), Err(Some(5))),
            (5, LEAD + 5, Some(LEAD + 5), Ok(0)),
            (0, FAR, None, Err(Some(LONGEST_UNASKED))),
            (LONGEST_UNASKED, FAR, None, Ok(0)),
        ];
        let pacing = pacing(20, 30);
        let lease = |count, eligible_at, at: &[u64], ordered| {
            let demand = TotalDemand {
                count,
                near: count,
                follows: false,
                eligible_at: Time(eligible_at),
                within: u64::MAX,
            };
            let slots = at.iter().map(|&at| Slot { at: Time(at), until: Time(at) }).collect();
            Lease { costs: [1].into(), demand, slots, ordered, ..Lease::default() }
        };
        let plan = |now, lease: &Lease, confirm_from: Option<u64>| {
            let heard = Some((Time(0), confirm_from.map(Time)));
            let planned = pacing.plan(Time(now), lease, None, heard, 99).map(|wanted| wanted.count);
            planned.map_err(|again| again.map(|at| at.0))
        };
        for (now, first, confirm_from, expected) in table {
            let found = plan(now, &lease(1, 0, &[first], None), confirm_from);
            assert_eq!(found, expected, "{first} at {now}");
        }
        let coming = Some(Ordered::Coming(Time(0), 1));
        assert_eq!(plan(LONGEST_UNASKED, &lease(1, 0, &[FAR], coming), None), Err(None));
        // One that was turned away asks when it was told to, but at least so often, and not before it is needed.
        let turned_away = |not_before| Some(Ordered::NotBefore(Time(not_before), None));
        assert_eq!(plan(1, &lease(3, 0, &[], turned_away(FAR)), None), Err(Some(LONGEST_UNASKED)));
        assert_eq!(plan(LONGEST_UNASKED, &lease(3, 0, &[], turned_away(FAR)), None), Ok(3));
        assert_eq!(plan(3, &lease(3, 7, &[], turned_away(2)), None), Err(Some(7)));
        // A slot is held for the first; the others are needed later.
        assert_eq!(plan(1, &lease(3, 4 * SECOND, &[SECOND], None), None), Err(Some(SECOND - LEAD)));
        assert_eq!(plan(SECOND - LEAD, &lease(3, 4 * SECOND, &[SECOND], None), None), Ok(0));
    }

    #[test]
    fn one_order_at_a_time_and_none_before_it_makes_sense() {
        let [_, one, two, three] = SECONDS;
        let mut asker = Asker::new();
        assert_eq!(plan(&mut asker, one, 3, 9, &[]), Ok(3));
        assert_eq!((plan(&mut asker, one, 9, 9, &[]), asker.pacing.coming), (Err(None), 3));
        asker.answered(two, 3, &Answer { ask_again: Some(three), ..Answer::default() });
        assert_eq!(plan(&mut asker, two, 3, 9, &[]), Err(Some(three)));
        assert_eq!(plan(&mut asker, three, 3, 9, &[]), Ok(3));
        // After an answer without slots, it does not ask again at once.
        asker.answered(three, 3, &Answer::default());
        assert_eq!(plan(&mut asker, three, 3, 9, &[]), Err(Some(Time(3_010_000_000))));
        // The second that the first answer took no longer counts.
        assert_eq!((asker.pacing.took, asker.pacing.lead()), (0, LEAD));
    }
}
