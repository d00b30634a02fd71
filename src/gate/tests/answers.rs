//! How long an answer of a gate stands.

use fastrand::Rng;

use super::*;
use crate::time::SECOND;

const LIMITS: [&str; 15] = [
    "2/10s",
    "2/10s,from=exit",
    "1/4s,algo=interval,cost=col:1",
    "4/20s,algo=bucket,burst=2,cost=col:1",
    "3/1m,algo=calendar,tz=UTC",
    "1/m,during=00:01-00:02+00:04-00:06,tz=UTC",
    "1/30s,from=exit,during=00:02-00:05,tz=UTC",
    "2/running",
    "1..9/30s",
    "1/9s,key=col:1",
    "2/15s,key=col:2",
    "3/20s,key=col:1,from=exit",
    "3/20s,algo=fixed,key=col:1",
    "1/running,key=col:2",
    "1..9/30s,key=col:2",
];

/// A lane, or a running command, as far as a gate is concerned.
#[derive(Clone)]
struct Waiting {
    eligible_at: Time,
    costs: Vec<u64>,
    keys: [Key; 2],
    /// It does not ask the limits by key before this.
    bound: Time,
    kept: [(Scope, u64, Opening); 3],
}

impl Waiting {
    fn new([a, b]: [u8; 2]) -> Self {
        let keys = [Key::from_slice(&[a]), Key::from_slice(&[b])];
        let kept = [Scope::Common, Scope::Keyed, Scope::All].map(|scope| (scope, u64::MAX, Opening::NEVER));
        Waiting { eligible_at: Time(0), costs: Vec::new(), keys, bound: Time(0), kept }
    }

    fn request(&self) -> Request<'_> {
        Request { eligible_at: self.eligible_at, costs: &self.costs, keys: &self.keys, waits: true }
    }

    fn place(&mut self, gate: &Gate) {
        self.bound = gate.opening(Scope::Keyed, &self.request(), Time::ZERO).from;
    }

    fn ask(&mut self, gate: &Gate, now: Time) {
        self.kept = self
            .kept
            .map(|(scope, ..)| (scope, gate.version(scope), gate.opening(scope, &self.request(), now)));
    }

    /// Whether what was kept is what the gate would answer.
    fn is_up_to_date(&self, gate: &Gate, now: Time) -> bool {
        // The rate that is found may rise without news.
        let finds = gate.rates().iter().any(|rate| rate.least.is_some());
        self.kept.iter().all(|(scope, version, opening)| {
            let stands = *version == gate.version(*scope) && !opening.is_over(now);
            let answer = gate.opening(*scope, &self.request(), now).from.max(now);
            let kept = opening.from.max(now);
            !stands || kept == answer || (finds && kept > answer)
        })
    }
}

struct Lanes {
    random: Rng,
    gate: Gate,
    /// The first limit, which is shared if `are_shared`.
    first: &'static str,
    are_shared: bool,
    wall: Wall,
    waiting: Vec<Waiting>,
    running: Vec<(Waiting, Time)>,
    /// The second, number and lane of each event.
    log: Vec<(u64, u8, usize)>,
}

impl Lanes {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let first = random.choice(["9/h", "9/h,key=col:1"]).unwrap();
        let mut gate = Gate::new(draw(&mut random, first), Time(0), Wall::EPOCH);
        let are_shared = random.bool();
        if are_shared {
            gate.share(booking_terms(1), true);
        }
        let waiting = [*b"ax", *b"ay", *b"bx", *b"by"].map(Waiting::new).into();
        let (wall, running, log) = (Wall::EPOCH, vec![], vec![]);
        let mut lanes = Lanes { random, gate, first, are_shared, wall, waiting, running, log };
        lanes.draw_costs();
        lanes.waiting.iter_mut().for_each(|lane| lane.ask(&lanes.gate, Time(0)));
        lanes
    }

    fn found(&self) -> String {
        let texts: Vec<_> = self.gate.rates().iter().map(ToString::to_string).collect();
        format!("{:?} under {texts:?}", self.log)
    }

    fn draw_costs(&mut self) {
        let Lanes { random, gate, waiting, running, .. } = self;
        for lane in waiting.iter_mut().chain(running.iter_mut().map(|(job, _)| job)) {
            let costs = gate.rates().iter().map(|rate| match rate.cost {
                Some(_) => random.u64(0..5),
                None => random.u64(0..6).min(1),
            });
            lane.costs = costs.collect();
        }
        // After a change of limits, all are taken out of their lanes and put back.
        waiting.iter_mut().for_each(|lane| lane.place(gate));
    }

    /// Something happens to a lane. Returns false if the gate has admitted what it would not allow, or vice versa.
    fn happens(&mut self, event: u8, at: usize, now: Time) -> bool {
        let Lanes { random, gate, wall, waiting, running, .. } = self;
        match event {
            0..=4 => return self.release(event == 0, at, now),
            5 if !running.is_empty() => {
                let (job, started) = running.swap_remove(random.usize(0..running.len()));
                match random.u8(0..4) {
                    0 => gate.local_mut().withdraw(&job.request()),
                    answer => {
                        gate.local_mut().finish(now, &job.request());
                        let held_until = now.saturating_add(u64::from(answer == 2) * SECOND);
                        gate.local_mut().learn(
                            now,
                            &job.request(),
                            &Feedback { started, is_throttled: answer == 1, held_until },
                        );
                    }
                }
            }
            6 => {
                *wall = Wall::new(now, wall.shows(now).saturating_add(random.u64(0..300) * SECOND));
                gate.set_wall(now, *wall);
            }
            7 => {
                gate.set_limits(now, draw(random, self.first));
                self.draw_costs();
                self.running.iter().for_each(|(job, _)| self.gate.local_mut().resume(now, &job.request()));
            }
            8 => {
                _ = gate.local_mut().tidy(now, || waiting.iter().map(|lane| lane.eligible_at).min().unwrap());
            }
            _ if self.are_shared => self.hears(event, at, now),
            _ => {}
        }
        true
    }

    fn release(&mut self, begins: bool, at: usize, now: Time) -> bool {
        let (gate, lane, over) = (&mut self.gate, &mut self.waiting[at], self.random.bool());
        let request = lane.request();
        let is_allowed = gate.opening(Scope::All, &request, now).allows(now);
        // What needs no slot is not held by them.
        let is_held = gate.reservations().is_some_and(|slots| slots.held_until(&request) > now);
        let is_admitted = if begins && !self.are_shared {
            gate.local_mut().begin(now, &request, over).is_ok()
        } else {
            let mut pending = Pending::default();
            let is_admitted = gate.admit(&mut pending, now, &request, 1).is_ok();
            let left = self.random.u64(0..5).min(1);
            gate.commit(&mut pending, now, left, over, |_, _, _| ());
            if left == 0 {
                return is_admitted == is_allowed || is_held;
            }
            is_admitted
        };
        if is_admitted {
            if !over {
                self.running.push((lane.clone(), now));
            }
            lane.eligible_at = now;
            lane.place(gate);
            lane.ask(gate, now);
        }
        is_admitted == is_allowed || is_held
    }

    /// Slots come, are held, or expire.
    fn hears(&mut self, event: u8, at: usize, now: Time) {
        let Lanes { random, gate, .. } = self;
        let request = self.waiting[at].request();
        let key = if self.first == "9/h" { Key::new() } else { request.keys[0].clone() };
        let then = now.saturating_add(random.u64(0..9) * SECOND);
        let slots = gate.reservations_mut().unwrap();
        match event {
            9 if request.costs[0] > 0 => {
                let booked = vec![Slot { at: then, until: then.saturating_add(5 * SECOND) }];
                let held = Some(then).filter(|_| random.u8(0..4) == 0);
                let answer = Answer { slots: booked, lost: random.u8(0..4) == 0, held, ..Answer::default() };
                slots.heard(now, &Order::new(key, &request.costs[..1], 1), &answer);
            }
            10 => {
                let order = slots.hold(now, &request, then);
                if random.bool() {
                    slots.heard(now, &order, &Answer::default());
                }
            }
            _ => {
                slots.expire(now);
                if random.bool() {
                    gate.want(now, std::iter::empty(), u64::MAX);
                }
            }
        }
    }

    /// Asks the lanes again that are in the news. Returns false if another one may go sooner than it knows.
    fn follow_news(&mut self, now: Time) -> bool {
        let Lanes { gate, waiting, .. } = self;
        let news = gate.take_news();
        let finds = gate.rates().iter().any(|rate| rate.least.is_some());
        gate.take_news().is_none()
            && waiting.iter_mut().all(|lane| {
                if news.as_ref().is_some_and(|news| lane.bound >= news.from() && news.concerns(&lane.keys)) {
                    lane.place(gate);
                }
                finds || lane.bound <= gate.opening(Scope::Keyed, &lane.request(), now).from.max(now)
            })
    }

    /// Whether requests of one kind get the same answer from the common limits.
    fn are_alike_by_kind(&self, now: Time) -> bool {
        let [a, b] = [0, 3].map(|at: usize| self.waiting[at].request());
        let answer =
            |it, other: Request| self.gate.opening(Scope::Common, it, now).from.max(other.eligible_at);
        self.gate.local().kind(&a) != self.gate.local().kind(&b) || answer(&a, b) == answer(&b, a)
    }
}

fn draw(random: &mut Rng, first: &'static str) -> Vec<Rate> {
    // With these, all have the same keys, so requests keep theirs.
    let mut texts = vec![first, "9/h,key=col:1", "9/h,key=col:2"];
    texts.extend((0..random.usize(1..4)).map(|_| random.choice(LIMITS).unwrap()));
    texts.into_iter().map(|text| text.parse().unwrap()).collect()
}

/// Lanes keep answers, and ask those again that are in the news.
#[test]
fn an_answer_stands_until_its_version_changes_and_becomes_no_sooner_without_news() {
    for seed in 0..300 {
        let (mut lanes, mut now) = (Lanes::new(seed), Time(0));
        for _ in 0..40 {
            now = now.saturating_add(lanes.random.choice([0, 1, 4, 30]).unwrap() * SECOND);
            let (event, at) = (lanes.random.u8(0..12), lanes.random.usize(0..4));
            lanes.log.push((now.0 / SECOND, event, at));
            assert!(lanes.happens(event, at, now), "seed {seed}, decided otherwise: {}", lanes.found());
            let stand = lanes.waiting.iter().all(|lane| lane.is_up_to_date(&lanes.gate, now));
            assert!(stand, "seed {seed}, out of date: {}", lanes.found());
            // Several events may be told as one.
            let is_told = lanes.random.bool() || lanes.follow_news(now);
            assert!(is_told, "seed {seed}, may be sooner: {}", lanes.found());
            assert!(lanes.are_alike_by_kind(now), "seed {seed}, kinds: {}", lanes.found());
            lanes.waiting.iter_mut().for_each(|lane| lane.ask(&lanes.gate, now));
        }
    }
}
