//! The size and timing of orders for slots.

use super::ahead::Ahead;
use super::key_claims::KeyClaims;
use super::lease::{DemandRun, Lease};
use super::losses::Losses;
use super::order::{Answer, Slot, Turn, Wanted};
use super::usable::Usable;
use super::{BookingTerms, Demand};
use crate::time::{SECOND, Time};

/// The nanoseconds by which the next slots are ordered before the last one held is due; more if answers take longer.
const LEAD: u64 = SECOND / 20;

/// How much more than for 50 ms is ordered at once if it takes longer to book slots than the limits do.
const BEHIND: u64 = 8;

/// The longest time, in nanoseconds, without an answer while something waits: the limits may have changed.
const LONGEST_UNASKED: u64 = 5 * SECOND;

/// A release that does not wait, and came too late for its slot, gets another one within this number of nanoseconds.
const REPLACED_WITHIN: u64 = SECOND;

/// The most runs of equal releases of a lane for which slots are booked at the same time.
const MAX_RUNS: usize = 128;

/// Nanoseconds to wait after an answer without slots before asking again.
const PAUSE: u64 = SECOND / 100;

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
    /// The most slots that were booked at once since the last time that these were fewer than asked for.
    booked: u64,
    /// The slots that the last order and those that it follows have got.
    got: u64,
    /// All of these were due before more are ordered: it takes longer to book slots than the limits do.
    is_behind: bool,
    /// The number of times that the span is halved, as no slot came in time.
    halvings: u32,
    losses: Losses,
    pub(super) usable: Usable,
    ahead: Ahead,
}

impl Pacing {
    pub(super) fn new(terms: &BookingTerms, waits: bool) -> Self {
        let &BookingTerms { span, longest_span, .. } = terms;
        Pacing {
            span,
            longest_span: longest_span.max(span),
            waits,
            coming: 0,
            took: 0,
            booked: span,
            got: 0,
            is_behind: false,
            halvings: 0,
            losses: Losses::default(),
            usable: Usable::new(2 * longest_span.max(span)),
            ahead: Ahead::new(terms),
        }
    }

    /// Notes that a slot was used, by a release that was over at `now`.
    pub(super) fn note_use(&mut self, slot: Slot, now: Time) {
        self.losses.use_slot();
        self.usable.note(slot, now);
    }

    /// Notes that slots were not used in time.
    pub(super) fn note_loss(&mut self, now: Time) {
        self.losses.lose(now);
        self.usable.lose();
    }

    /// As [`Reservations::have_lost`](super::Reservations::have_lost).
    pub(super) fn have_lost(&self) -> bool {
        self.losses.lost_since_use()
    }

    /// As [`Reservations::slack`](super::Reservations::slack): some for the answer, and as much for what it lacks.
    pub(super) fn slack(&self) -> u64 {
        self.ahead.nanos.saturating_mul(2)
    }

    /// The nanoseconds by which a slot is ordered or checked before it is due.
    pub(super) fn lead(&self) -> u64 {
        LEAD.saturating_add(self.took.max(self.ahead.nanos))
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
        if self.waits { MAX_RUNS } else { 1 }
    }

    /// The number of slots that a lane holds: those of two orders, but no more than are of use until others have come.
    fn stock(&self) -> u64 {
        (2 * self.span()).min(self.usable.most().saturating_mul(self.ahead.slots_in_turn()))
    }

    /// The part of a demand for which slots are ordered now.
    pub(super) fn near(&self, demand: &Demand) -> u64 {
        let stock = self.stock();
        let most = if demand.before == 0 { stock } else { self.losses.following(stock) };
        demand.count.min(most.saturating_sub(demand.before))
    }

    /// The number of slots that a lease needs soon and lacks.
    pub(super) fn lacking(&self, lease: &Lease) -> u64 {
        lease.demand.near.min(self.stock()).saturating_sub(lease.supply())
    }

    /// The slots to order for a run, when only `vacancies` more slots can be used. Of what is `known` of its key, its
    /// `lease` is for its costs, and needs slots for it and the runs before it.
    ///
    /// # Errors
    /// There is nothing to order now; with the instant at which to look again, if there is one.
    pub(super) fn plan(
        &self,
        now: Time,
        known: &KeyClaims,
        lease: &Lease,
        run: &DemandRun,
        vacancies: u64,
    ) -> Result<Wanted, Option<Time>> {
        if !run.follows && !lease.coming.is_empty() {
            return Err(None);
        }
        let lacking = self.lacking(lease).min(run.near).min(vacancies).min(self.span());
        if lacking == 0 {
            return self.check(now, known, lease, run);
        }
        let look = known.heard.map_or(Time::NEVER, |heard| heard.saturating_add(LONGEST_UNASKED));
        // An item that backs off needs no slot before `eligible_at`.
        let last = if run.follows { known.last() } else { lease.slots.back().map(|last| last.at) };
        let last = last.map(|last| Time(last.0.saturating_sub(self.lead())));
        let when = last.map_or(run.eligible_at, |last| run.eligible_at.max(last));
        let (when, turn) = match lease.not_before {
            Some((not_before, turn)) => (when.max(not_before.min(look)), turn),
            None => (when, None),
        };
        if when > now {
            let check = self.check(now, known, lease, run);
            return check.map_err(|again| again.into_iter().chain([when]).min());
        }
        Ok(self.wanted(lease, run, lacking, turn))
    }

    /// Slots booked long ago may be too close to a later overrun, so the store is asked before they are used.
    fn check(
        &self,
        now: Time,
        known: &KeyClaims,
        lease: &Lease,
        run: &DemandRun,
    ) -> Result<Wanted, Option<Time>> {
        let first = lease.slots.front().map(|first| first.at);
        let (first, heard) = first.zip(known.heard).ok_or(None)?;
        let is_fresh = known.confirms(first) && first.since(heard) <= self.lead().saturating_mul(2);
        if is_fresh || !lease.coming.is_empty() {
            return Err(None);
        }
        let when = Time(first.0.saturating_sub(self.lead())).min(heard.saturating_add(LONGEST_UNASKED));
        if when > now { Err(Some(when)) } else { Ok(self.wanted(lease, run, 0, None)) }
    }

    /// True if releases that do not wait came too late for their slots, and get others. Otherwise they would be refused
    /// for their own slots, which count although nobody has used them.
    pub(super) fn replaces_lost(&self, lease: &Lease) -> bool {
        !self.waits && lease.lost > 0
    }

    fn wanted(&self, lease: &Lease, run: &DemandRun, count: u64, turn: Option<Turn>) -> Wanted {
        let DemandRun { within, follows, .. } = *run;
        // What goes before them may turn out to take longer.
        let within = if follows { within.min(2 * self.lead()) } else { within };
        // Half of a short wait is left for the answer itself.
        let (count, within, ahead) = match self.waits {
            true => (count, within, self.ahead.nanos.min(within / 2)),
            false if self.replaces_lost(lease) => (count.min(lease.lost), REPLACED_WITHIN, self.ahead.nanos),
            false => (count, self.ahead.nanos, self.ahead.nanos),
        };
        Wanted { count, within, ahead, follows, turn, ..Wanted::default() }
    }

    /// Notes the answer to an order for slots that was `placed` then, for this number of them. Returns the instant
    /// before which it is no use asking, and the turn, if it was turned away.
    pub(super) fn answered(
        &mut self,
        now: Time,
        placed: Option<(Time, u64)>,
        Wanted { count: wanted, follows, .. }: Wanted,
        answer: &Answer,
    ) -> Option<(Time, Option<Turn>)> {
        if let Some((since, count)) = placed {
            self.took = now.since(since);
            self.ahead.measure(self.took);
            // Saturates, as it is 0 once the store has failed.
            self.coming = self.coming.saturating_sub(count);
        }
        // The more slots are booked at once, the longer the answer takes.
        let is_in_time = answer.slots.iter().any(|slot| slot.until >= now);
        let booked = answer.slots.len() as u64;
        self.got = if follows { self.got + booked } else { booked };
        if booked > 0 {
            self.booked = if booked < wanted { self.got } else { self.booked.max(self.got) };
            let next = now.saturating_add(LEAD);
            let are_due = answer.slots.iter().all(|slot| slot.at <= next);
            self.is_behind = is_in_time && are_due && booked == wanted;
        }
        if is_in_time {
            self.losses.regain(now);
            self.halvings = self.halvings.saturating_sub(1);
            self.ahead.came_in_time(self.took);
        } else if !answer.slots.is_empty() {
            self.halvings = (self.halvings + 1).min(16);
            self.ahead.came_late(self.took);
        }
        let pause = if answer.slots.is_empty() && wanted > 0 { now.checked_add(PAUSE.into()) } else { None };
        answer.ask_again.or(pause).map(|not_before| (not_before, answer.turn))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ahead::MAX_AHEAD;
    use super::super::lease::TotalDemand;
    use super::*;
    use crate::gate::Slot;

    const SECONDS: [Time; 4] = [Time(0), Time(SECOND), Time(2 * SECOND), Time(3 * SECOND)];

    fn pacing(span: u64, longest_span: u64) -> Pacing {
        Pacing::new(&BookingTerms { span, longest_span, ..BookingTerms::default() }, true)
    }

    fn slots_wanted(count: u64) -> Wanted {
        Wanted { count, ..Wanted::default() }
    }

    /// Pacing for one claim.
    struct Asker {
        pacing: Pacing,
        placed: Option<(Time, u64)>,
        not_before: Option<(Time, Option<Turn>)>,
    }

    impl Asker {
        fn new() -> Self {
            Asker { pacing: pacing(20, 30), placed: None, not_before: None }
        }

        fn answered(&mut self, now: Time, wanted: u64, answer: &Answer) {
            self.not_before = self.pacing.answered(now, self.placed.take(), slots_wanted(wanted), answer);
        }
    }

    /// A lease for this number of releases, which holds these slots.
    fn lease(count: u64, held: &[Time]) -> Lease {
        let demand = TotalDemand { count, near: count, ..TotalDemand::default() };
        let slots = held.iter().map(|&at| Slot { at, until: at }).collect();
        Lease { demand, slots, ..Lease::default() }
    }

    fn run(near: u64, eligible_at: Time) -> DemandRun {
        DemandRun { near, eligible_at, within: u64::MAX, ..DemandRun::default() }
    }

    /// The number of slots asked for at an instant, or the instant to look again.
    fn plan(
        Asker { pacing, placed, not_before }: &mut Asker,
        now: Time,
        count: u64,
        vacancies: u64,
        held: &[Time],
    ) -> Result<u64, Option<Time>> {
        let (coming, not_before) = (placed.iter().copied().collect(), *not_before);
        let lease = Lease { coming, not_before, ..lease(count, held) };
        let mut known = KeyClaims::default();
        known.heard = Some(now).filter(|_| !held.is_empty());
        let count = pacing.plan(now, &known, &lease, &run(count, SECONDS[1]), vacancies)?.count;
        pacing.coming += count;
        *placed = Some((now, count));
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
        let one_within = |pacing: &Pacing, within| {
            pacing.wanted(&Lease::default(), &DemandRun { within, ..DemandRun::default() }, 1, None)
        };
        let ahead = |pacing: &Pacing, within| one_within(pacing, within).ahead;
        let mut found = Vec::new();
        for (asked, until) in
            [(100, two), (100, one), (300, one), (250, two), (160, two), (260, two), (SECOND, one)]
        {
            let asked = Some((Time(two.0 - asked), 1));
            let answer = Answer { slots: vec![Slot { at: until, until }], ..Answer::default() };
            pacing.answered(two, asked, slots_wanted(1), &answer);
            found.push(ahead(&pacing, three.0));
        }
        // No less than twice what the last answer took.
        assert_eq!(found, [0, 200, 600, 563, 528, 520, MAX_AHEAD]);
        // A short wait is for the answer, too; what does not wait takes only a slot that is free at once.
        assert_eq!(ahead(&pacing, 7), 3);
        let at_once = one_within(&Pacing { waits: false, ..pacing }, 7);
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
            pacing.answered(one, None, slots_wanted(asked), &answer);
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
            pacing.answered(Time(now), None, slots_wanted(wanted), &Answer { slots, ..Answer::default() });
            assert_eq!((pacing.is_behind, pacing.halvings), (is_behind, halvings), "{wanted}");
        }
        // One that only asked about overruns was not turned away.
        assert_eq!(Asker::new().pacing.answered(Time(now), None, slots_wanted(0), &Answer::default()), None);
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
        let plan = |now, eligible_at, lease: Lease, confirm_from: Option<u64>| {
            let run = run(lease.demand.near, Time(eligible_at));
            let mut known = KeyClaims::default();
            (known.heard, known.confirm_from) = (Some(Time(0)), confirm_from.map(Time));
            let planned = pacing.plan(Time(now), &known, &lease, &run, 99).map(|wanted| wanted.count);
            planned.map_err(|again| again.map(|at| at.0))
        };
        for (now, first, confirm_from, expected) in table {
            let found = plan(now, 0, lease(1, &[Time(first)]), confirm_from);
            assert_eq!(found, expected, "{first} at {now}");
        }
        let asking = Lease { coming: [(Time(0), 1)].into(), ..lease(1, &[Time(FAR)]) };
        assert_eq!(plan(LONGEST_UNASKED, 0, asking, None), Err(None));
        // One that was turned away asks when it was told to, but at least so often, and not before it is needed.
        let turned_away = |until| Lease { not_before: Some((Time(until), None)), ..lease(3, &[]) };
        assert_eq!(plan(1, 0, turned_away(FAR), None), Err(Some(LONGEST_UNASKED)));
        assert_eq!(plan(LONGEST_UNASKED, 0, turned_away(FAR), None), Ok(3));
        assert_eq!(plan(3, 7, turned_away(2), None), Err(Some(7)));
        // A slot is held for the first; the others are needed later.
        assert_eq!(plan(1, 4 * SECOND, lease(3, &[SECONDS[1]]), None), Err(Some(SECOND - LEAD)));
        assert_eq!(plan(SECOND - LEAD, 4 * SECOND, lease(3, &[SECONDS[1]]), None), Ok(0));
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
