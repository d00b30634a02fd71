//! The scheduler, as tables of instant, event and expected actions.

mod batches;
mod commands;
mod counts;
mod forecast;
mod holds;
mod lanes;
mod metrics;
mod shared;

use super::{Action, Notice, Schedule};
use crate::charge::Key;
use crate::cli;
use crate::config::{Defaults, Rate, RateText};
use crate::exit::{End, Exit, JobEnd};
use crate::gate::{Answer, BookingTerms, Order, Slot, Task, Wanted};
use crate::source::{Capacity, CommandLine, Delimiter, Segment};
use crate::time::{Time, Wall};
use nix::sys::signal::Signal;

enum Event {
    /// Items arrive, in one block.
    Input(&'static str),
    EndOfInput,
    /// The awaited instant has come.
    Due,
    /// The command of this item ended with this code.
    Ended(u64, i32),
    /// As before, and it asks for a pause of this length.
    EndedAndAsks(u64, i32, u64),
    /// These limits hold from now on.
    Limits(&'static str),
    /// Slots at these instants have been booked, each good for 5.
    Booked(&'static [u64]),
    /// As before, for a key and a cost.
    BookedFor(&'static str, u64, &'static [u64]),
    /// For a cost, slots at these instants were free at once; the instant of the next one.
    Free(u64, &'static [u64], u64),
    ReaderGone,
    Interrupt,
}

use Event::{
    Booked, BookedFor, Due, EndOfInput, Ended, EndedAndAsks, Free, Input, Interrupt, Limits, ReaderGone,
};

/// Books this number of slots ahead, for limits that ever admit at most this at once.
fn booking_terms(span: u64, most: &[u64]) -> BookingTerms {
    BookingTerms { span, longest_span: span, most: most.into(), patience: 20, ..BookingTerms::default() }
}

/// A scheduler, and a sink that may take less than it is given.
struct Scene {
    schedule: Schedule,
    capacity: Capacity,
    /// The number of items of a batch that leave.
    takes: u64,
    /// The time that a batch takes to leave.
    slowness: u64,
    /// The most items that are not too long for the system.
    longest: u64,
    /// The time for which the sink is busy, the first time.
    busy: Option<u64>,
    running: u64,
}

impl Scene {
    /// Without the margin for commands, so that instants are round.
    fn new(args: &str) -> Self {
        let words = ["throttle", "--margin=0"].into_iter().chain(args.split_whitespace());
        let config = cli::parse(words.map(Into::into)).unwrap();
        let rates = config.limits.given().unwrap();
        let mut schedule = Schedule::new(&config, rates, Time(0), Wall::EPOCH);
        let mut capacity = Capacity::UNLIMITED;
        if let Some(run) = &config.command {
            schedule = schedule.with_commands(run, 7);
            capacity = Capacity { vacancies: run.jobs.get() as u64, at_once: 1, ..capacity };
        }
        Scene { schedule, capacity, takes: u64::MAX, slowness: 0, longest: u64::MAX, busy: None, running: 0 }
    }

    /// Books slots on these terms.
    fn booking(args: &str, terms: BookingTerms) -> Self {
        let scene = Scene::new(args);
        Scene { schedule: scene.schedule.with_bookings(terms), ..scene }
    }

    /// Books slots, up to two at a time; the end of the run waits 20 for an answer.
    fn shared(args: &str) -> Self {
        Scene::booking(args, booking_terms(2, &[9]))
    }

    /// Waits for a release for at most this time, from 0 on.
    fn patient(self, wait: u64) -> Self {
        Scene { schedule: self.schedule.with_patience(Time(0), wait), ..self }
    }

    /// Checks what is done after each event.
    fn check(mut self, table: &[(u64, Event, &str)]) -> Schedule {
        self.follow(table);
        self.schedule
    }

    /// As [`Scene::check`], and goes on.
    fn follow(&mut self, table: &[(u64, Event, &str)]) {
        for (row, (at, event, expected)) in table.iter().enumerate() {
            self.happens(Time(*at), event);
            assert_eq!(self.actions(*at), *expected, "row {row}, at {at}");
        }
    }

    /// As [`Scene::follow`], whatever is done.
    fn go_through(&mut self, events: &[(u64, Event)]) {
        for (at, event) in events {
            self.happens(Time(*at), event);
            self.actions(*at);
        }
    }

    /// A store answers an order with slots at these instants, and perhaps with that of the next one.
    fn answered(&mut self, now: Time, order: &Order, instants: &[u64], next: Option<u64>) {
        let slots = instants.iter().map(|&at| Slot { at: Time(at), until: Time(at + 5) }).collect();
        let next = next.map(Time);
        self.schedule.booked(now, order, Answer { slots, ask_again: next, next, ..Answer::default() });
    }

    fn happens(&mut self, now: Time, event: &Event) {
        let schedule = &mut self.schedule;
        let mut ended = |first, code, retry_after| {
            self.running -= 1;
            let end = End::Exited(code);
            schedule.job_ended(now, &JobEnd { retry_after, ..JobEnd::new(first, end) });
        };
        match *event {
            Input(text) => {
                let records = Delimiter::new(b"\n").whole(text.as_bytes()).0;
                schedule.input(Segment::of(text.into(), records, now));
            }
            EndOfInput => schedule.end_of_input(now, None),
            Due => schedule.due(),
            Ended(first, code) => ended(first, code, None),
            EndedAndAsks(first, code, wait) => ended(first, code, Some(wait)),
            Limits(rates) => schedule.change_limits(now, rates.split_whitespace().map(rate).collect()),
            Booked(instants) => self.happens(now, &BookedFor("", 1, instants)),
            BookedFor(key, cost, instants) => {
                let order = Order::new(Key::from_slice(key.as_bytes()), [cost], instants.len() as u64);
                self.answered(now, &order, instants, None);
            }
            Free(cost, instants, next) => {
                let task = Task::Book(Wanted { count: 2, ..Wanted::default() });
                self.answered(now, &Order::new(Key::new(), [cost], 2).with(task), instants, Some(next));
            }
            ReaderGone => schedule.stop(Exit::READER_GONE),
            Interrupt => schedule.stop(Exit::Signal(Signal::SIGINT as i32)),
        }
    }

    /// All actions until the first wait, in words.
    fn actions(&mut self, mut now: u64) -> String {
        let mut words = Vec::new();
        loop {
            let vacancies = self.capacity.vacancies.saturating_sub(self.running);
            let capacity = Capacity { vacancies, ..self.capacity };
            let (word, is_last) = match self.schedule.poll(Time(now), capacity) {
                Action::Send(admission) => (self.send(&mut now, admission), false),
                Action::Store(orders) => {
                    let asked: Vec<_> = orders.iter().map(|order| asked(&order.task)).collect();
                    (asked.join("; "), false)
                }
                Action::Terminate => ("SIGTERM".to_owned(), false),
                Action::Kill => ("SIGKILL".to_owned(), false),
                Action::Retire { first, next } => (format!("retire {first} {next}"), false),
                Action::Notify(notice) => (told(&notice), false),
                Action::Wait { until, accepting } => {
                    let until = until.map_or("-".to_owned(), |until| until.0.to_string());
                    (format!("wait {until}{}", if accepting { " or input" } else { "" }), true)
                }
                Action::Finish(exit) => (format!("finish {}", exit.status()), true),
            };
            words.push(word);
            if is_last {
                return words.join("; ");
            }
        }
    }

    fn send(&mut self, now: &mut u64, admission: Box<super::Admission>) -> String {
        let batch = admission.batch();
        let delimiter = Delimiter::new(b"\n");
        let records =
            batch.records(&delimiter).map(|record| String::from_utf8_lossy(record).trim().to_owned());
        let word = format!("send {}", records.collect::<Vec<_>>().join(" "));
        if batch.items() > self.longest {
            self.schedule.too_long(Time(*now), admission);
            return word.replace("send", "too long");
        }
        if let Some(pause) = self.busy.take() {
            self.schedule.busy(Time(*now), admission, pause);
            return word.replace("send", "busy");
        }
        let items = batch.items().min(self.takes);
        *now += self.slowness;
        self.running += u64::from(self.capacity.vacancies < u64::MAX);
        self.schedule.sent(Time(*now), admission, items);
        word
    }
}

fn rate(text: &str) -> Rate {
    RateText::parse_pausing(text).unwrap().resolve(&Defaults::default()).unwrap()
}

/// The number of waits for each limit.
fn waits(schedule: &Schedule) -> Vec<u64> {
    schedule.limit_stats().iter().map(|limit| limit.waits).collect()
}

fn asked(task: &Task) -> String {
    match task {
        Task::Book(Wanted { count, within: 0, .. }) => format!("ask for {count}"),
        Task::Book(Wanted { count, .. }) => format!("book {count}"),
        Task::GiveBack(slots, _) => {
            let instants: Vec<_> = slots.iter().map(|slot| slot.at.0.to_string()).collect();
            format!("give back {}", instants.join(" "))
        }
        Task::Late(count, at) => format!("{count} late at {}", at.0),
        Task::Hold(until) => format!("hold until {}", until.0),
    }
}

fn told(notice: &Notice) -> String {
    match notice {
        Notice::Failed(failed) => format!("failed {}", failed.item),
        Notice::FailedSoFar(failed) => format!("failed {} so far", failed.item),
        Notice::BadItem(error, _) => format!("bad {error}"),
        Notice::Refused { item, early, .. } => format!("refused {item} early by {early:?}"),
        Notice::Hold(hold) => format!("item {} holds {} until {}", hold.item, hold.held, hold.until.0),
        Notice::Unread { item, said, .. } => format!("item {item}: cannot read {said}"),
        Notice::Overlooked(item, http) => format!("overlooked {http} of item {item}"),
        Notice::SharedHold(until) => format!("held until {}", until.0),
        Notice::Expired { item, .. } => format!("expired {item}"),
        Notice::TimeUp => "time is up".to_owned(),
        Notice::TooLong { late, had_slot } => {
            format!("too long by {late:?}{}", if *had_slot { ", a slot was lost" } else { "" })
        }
        Notice::Halted { items, .. } => format!("halted after {items}"),
        Notice::Limits(_) => "limits".to_owned(),
        Notice::Warning(text) => format!("warning {text}"),
        Notice::StateLost { what, silent } => format!("lost {what}, silent for {silent:?}"),
        Notice::Error(error) => format!("error {error}"),
    }
}

#[test]
fn what_may_go_at_one_instant_leaves_together_and_the_rest_waits() {
    Scene::new("-r 2/100ns").check(&[
        (5, Input("a\nb\nc\nd\n"), "send a b; wait 105 or input"),
        (105, Due, "send c d; wait - or input"),
        (106, EndOfInput, "finish 0"),
    ]);
}

#[test]
fn what_is_charged_is_the_instant_after_it_left() {
    let scene = Scene::new("-r 1/100ns");
    Scene { slowness: 30, ..scene }.check(&[
        (0, Input("a\nb\n"), "send a; wait 130 or input"),
        (130, Due, "send b; wait - or input"),
        (161, Input("c\n"), "wait 260 or input"),
    ]);
}

#[test]
fn what_did_not_leave_is_put_back_and_not_charged() {
    let scene = Scene::new("-r 3/100ns,cost=col:1");
    Scene { takes: 1, ..scene }.check(&[
        // The sink took one item of two at a time.
        (0, Input("1 a\n1 b\n1 c\n1 d\n"), "send 1 a 1 b 1 c; send 1 b 1 c; send 1 c; wait 100 or input"),
        (100, Due, "send 1 d; wait - or input"),
    ]);
}

#[test]
fn the_first_that_comes_too_early_ends_an_enforced_run() {
    Scene::new("-r 1/100ns --on-limit fail").check(&[
        (0, Input("a\n"), "send a; wait - or input"),
        (40, Input("b\nc\n"), "refused 2 early by Some(60); finish 75"),
    ]);
}

#[test]
fn other_limits_go_on_with_what_is_known() {
    Scene::new("-r 1/100ns").check(&[
        (0, Input("a\nb\nc\n"), "send a; wait 100 or input"),
        (50, Limits("2/100ns"), "limits; send b; wait 100 or input"),
        (100, Due, "send c; wait - or input"),
    ]);
}

#[test]
fn a_bad_item_ends_the_input_after_what_came_before_it() {
    Scene::new("-r 9/100ns,cost=col:1").check(&[
        (0, Input("9\n1\nx\n2\n"), "send 9; wait 100"),
        (100, Due, "send 1; error item 3: its cost, col:1, is 'x', not a whole number: 'x'; finish 1"),
    ]);
}

#[test]
fn a_bad_item_may_be_skipped() {
    let bad = "bad item 2: its cost, col:1, is 'x', not a whole number: 'x'";
    let schedule = Scene::new("-r 2/100ns,cost=col:1 --on-bad skip").check(&[
        (0, Input("1\nx\n1\n1\n"), &format!("send 1 1; {bad}; wait 100 or input")),
        (100, Due, "send 1; wait - or input"),
        (101, EndOfInput, "finish 1"),
    ]);
    assert_eq!((schedule.stats().failed, schedule.stats().settled), (1, 4));
    Scene::new("-r 2/100ns,cost=col:1 --on-bad skip -- cmd").check(&[
        (0, Input("1\nx\n"), "send 1; wait -"),
        (5, Ended(1, 1), &format!("failed 1; {bad}; wait - or input")),
        (6, EndOfInput, "finish 123"),
    ]);
}

#[test]
fn white_space_and_blank_items_may_be_left_out() {
    let schedule = Scene::new("-r 1/100ns,key=col:1 --skip-blank --trim").check(&[
        (0, Input(" a\n\n \t\na \n"), "send a; wait 100 or input"),
        (100, Due, "send a; wait 1000000000 or input"),
    ]);
    assert_eq!(schedule.stats().read, 2);
}

#[test]
fn an_item_without_the_host_that_a_limit_goes_by_is_told_once() {
    let warning = "warning item 3 'b.example/1' has no host, so key=host puts it under the empty key: \
                   URLs need a scheme, such as https://";
    let wait = "wait 1000000000 or input";
    Scene::new("-r 9/100ns,key=host").check(&[
        (0, Input("http://a.example/\n\n"), &format!("send http://a.example/ ; {wait}")),
        (1, Input("b.example/1\nc.example/1\n"), &format!("send b.example/1 c.example/1; {warning}; {wait}")),
    ]);
}

#[test]
fn an_item_that_is_not_the_json_that_a_limit_goes_by_is_told_once() {
    let warning = "warning item 2 '7' is no JSON object or array, so key=.to puts it under the empty key";
    let wait = "wait 1000000000 or input";
    Scene::new("-r 9/100ns,key=.to").check(&[
        (0, Input("{\"to\":1}\n"), &format!("send {{\"to\":1}}; {wait}")),
        (1, Input("7\nc\n"), &format!("send 7 c; {warning}; {wait}")),
        (2, EndOfInput, "warning 2 of 3 items have no .to: they share the empty key; finish 0"),
    ]);
}

#[test]
fn a_limit_that_no_item_matched_is_told_at_the_end() {
    Scene::new("-r 1/100ns,key=col:1,only=a").check(&[
        (0, Input("b\n"), "send b; wait - or input"),
        (9, EndOfInput, "warning no item matched the limit 1/100ns,algo=sliding,key=col:1,only=a; finish 0"),
    ]);
}

#[test]
fn a_bad_item_is_told_once_those_before_it_are_done() {
    let bad = "bad item 3: its cost, col:1, is 'x', not a whole number: 'x'";
    Scene::new("-r 1/100ns,cost=col:1 --on-bad skip --on-limit drop").check(&[
        (0, Input("1\n"), "send 1; wait - or input"),
        (10, Input("1\nx\n"), &format!("{bad}; wait - or input")),
    ]);
    // After a stop, it is left.
    Scene::new("-r 1/100ns,cost=col:1")
        .check(&[(0, Input("1\n1\nx\n"), "send 1; wait 100"), (5, Interrupt, "SIGTERM; finish 130")]);
}
