//! The booking protocol (`throttle::store`), model-checked: every interleaving of three processes that share a limit.
//!
//! Slots, deadlines and silences are those of the program: the model asks `store::ledger::BookingRules`,
//! `store::Policy` and `gate::Slots` itself. Time is discrete. At any point any process may act, or time may pass: so
//! whoever wakes up may be late by any time. States that differ only in when they are count as one, so runs of any
//! length are covered.
//!
//! Some processes book ahead, others take only what is free at once (`--on-limit drop`).
//!
//! Slots are given back as in the program, too: which ones is up to `gate::Slots`, what becomes of them to the ledger.
//!
//! A release may take any time, as a write that is blocked does: if it was late for its slot, that is reported, and
//! others learn of it with what they ask next. It counts from its end for those who know, whoever made it among them.
//! They know no more of a report once the state that held it was lost.
//!
//! Assumed, not checked: between its last look at the clock and the release a process is not stopped, clocks agree, and
//! a process that starts does not ask between a loss and the first one who knew what was lost. Who notices a loss is
//! modelled, too (`model::Protocol::visit`), and so is that a store knows none of the slots that were booked before
//! one: in the program both are part of each store. Both stores use the ledger here: that the server's scripts and the
//! ledger agree with the limiters is tested elsewhere (`redis::model`, `ledger::tests`).
//!
//! The explorer is ours, for two reasons: `stateright` always brings a web server along, and its "eventually" misses
//! runs that go in circles; what `spin` checks would be a copy of the rules in another language.
//!
//! `THROTTLE_MODEL=large` checks more, as CI does.

mod explore;
mod log;
mod model;
mod process;
mod slots;

use std::env;

use self::explore::Graph;
use self::log::Terms;
use self::model::{Action, Broken, Fault, Protocol, Store};

/// More than these are a mistake in the model.
const MOST: usize = 3_000_000;

const LEAVING: &[Fault] = &[Fault::Death, Fault::End, Fault::MessageLoss];
const RETURNING: &[Fault] = &[Fault::Surplus, Fault::StateLoss];
const DELAYING: &[Fault] = &[Fault::Delay, Fault::Death, Fault::End];
const STALLING: &[Fault] = &[Fault::Stall, Fault::Death, Fault::End];
const STALLED_AND_LOST: &[Fault] = &[Fault::Stall, Fault::StateLoss];
const LOSING: &[Fault] = &[Fault::StateLoss, Fault::End, Fault::MessageLoss];

fn is_large() -> bool {
    env::var_os("THROTTLE_MODEL").is_some_and(|size| size == "large")
}

fn protocol(store: Store, faults: &'static [Fault]) -> Protocol {
    let terms = Terms::new(1, 2, 4, 1);
    Protocol { terms, store, processes: 3, polices: &[], faults, broken: None, first_is_live: false }
}

fn explore(protocol: &Protocol) -> Graph<Action> {
    let graph = Graph::explore(protocol, MOST);
    println!("{:?}, {:?}: {} states", protocol.store, protocol.faults, graph.states());
    graph
}

/// Searches all that can happen under limits of N, P, horizon and span.
fn no_window_is_exceeded(store: Store, processes: usize, limits: &[[u64; 4]]) {
    for &[count, period, horizon, span] in limits {
        for faults in [LEAVING, LOSING, RETURNING] {
            let terms = Terms::new(count, period, horizon, span);
            let graph = explore(&Protocol { terms, processes, ..protocol(store, faults) });
            if let Some(way) = graph.way_to_bad() {
                panic!("more than {count} in {period} ticks: {way:?}");
            }
            assert!(graph.has(|action| matches!(action, Action::Release(_))));
            assert!(graph.has(|action| matches!(action, Action::Wake(_))), "no slot is ever missed");
            let is_given_back = |action| matches!(action, Action::GiveBack(_) | Action::End(_));
            assert!(graph.has(is_given_back), "no slot is ever given back");
        }
    }
}

#[test]
fn no_window_is_exceeded_with_a_file() {
    let small = [[1, 2, 4, 1], [2, 2, 3, 1]];
    let large = [[1, 3, 8, 1], [2, 3, 6, 1], [3, 2, 3, 1], [1, 2, 4, 2]];
    no_window_is_exceeded(Store::File, 3, if is_large() { &large } else { &small });
}

#[test]
fn no_window_is_exceeded_with_a_server() {
    match is_large() {
        true => no_window_is_exceeded(Store::Server, 3, &[[1, 2, 3, 1], [1, 3, 6, 1], [2, 2, 3, 1]]),
        false => no_window_is_exceeded(Store::Server, 2, &[[1, 2, 3, 1], [1, 3, 6, 1]]),
    }
}

/// Some use a slot and die, while others are on the way to it. What nobody can have used is handed on.
#[test]
fn no_window_is_exceeded_by_what_the_dead_leave_behind() {
    let (small, large) = ([[1, 2, 4, 1]], [[1, 2, 4, 1], [2, 2, 3, 1], [1, 3, 8, 1]]);
    for [count, period, horizon, span] in if is_large() { large.to_vec() } else { small.to_vec() } {
        let terms = Terms::new(count, period, horizon, span);
        let delayed = |broken| Protocol { terms: terms.clone(), broken, ..protocol(Store::File, DELAYING) };
        let graph = explore(&delayed(None));
        assert!(graph.way_to_bad().is_none(), "{:?}", graph.way_to_bad());
        let way = explore(&delayed(Some(Broken::Inheritance))).way_to_bad();
        assert!(way.is_some_and(|way| way.iter().any(|action| matches!(action, Action::Die(_)))));
    }
}

/// Limits of N, P, horizon and span.
fn stalling(store: Store, [count, period, horizon, span]: [u64; 4], faults: &'static [Fault]) -> Protocol {
    let terms = Terms::new(count, period, horizon, span);
    Protocol { terms, processes: 2, ..protocol(store, faults) }
}

/// A release that was late for its slot counts from its end, for whoever made it and for all who have been told.
#[test]
fn no_release_is_too_close_to_one_that_was_blocked() {
    let small = [
        (Store::File, [1, 2, 6, 2], STALLING),
        (Store::File, [1, 2, 3, 1], STALLED_AND_LOST),
        (Store::Server, [1, 1, 2, 1], &[Fault::Stall]),
    ];
    let large = [
        (Store::File, [2, 2, 3, 2], STALLING),
        (Store::File, [1, 2, 6, 2], STALLED_AND_LOST),
        (Store::File, [2, 2, 3, 2], STALLED_AND_LOST),
        (Store::Server, [1, 2, 3, 1], &[Fault::Stall]),
        (Store::Server, [1, 2, 3, 1], &[Fault::Stall, Fault::End, Fault::MessageLoss]),
    ];
    for (store, limits, faults) in if is_large() { large.to_vec() } else { small.to_vec() } {
        let graph = explore(&stalling(store, limits, faults));
        assert!(graph.way_to_bad().is_none(), "{store:?}, {limits:?}: {:?}", graph.way_to_bad());
        assert!(graph.has(|action| matches!(action, Action::Finish(_))), "no release is ever blocked");
    }
}

/// As what is reported must not be left out, nor that it is looked at.
#[test]
fn a_release_that_was_blocked_must_be_known_of() {
    for (store, broken) in [
        (Store::File, Broken::Report),
        (Store::Server, Broken::Report),
        (Store::Server, Broken::Patience),
        (Store::File, Broken::Overruns),
    ] {
        let graph = explore(&Protocol { broken: Some(broken), ..stalling(store, [1, 2, 6, 2], STALLING) });
        let way = graph.way_to_bad().expect("a release that is too close");
        assert!(
            way.iter().any(|action| matches!(action, Action::Finish(_))),
            "{store:?}, {broken:?}: {way:?}"
        );
    }
}

/// Beside processes that book ahead, in between them, and on its own.
#[test]
fn no_window_is_exceeded_by_what_is_taken_at_once() {
    for (store, processes) in [(Store::File, 3), (Store::Server, 2)] {
        for (polices, faults) in [(&[1][..], LEAVING), (&[1], LOSING), (&[0, 1], LOSING)] {
            let graph = explore(&Protocol { processes, polices, ..protocol(store, faults) });
            assert!(graph.way_to_bad().is_none(), "{store:?}, {polices:?}: {:?}", graph.way_to_bad());
            assert!(graph.has(|action| action == Action::Release(1)), "nothing is ever free at once");
        }
    }
}

/// Those who take what is free at once do not keep others from booking, nor are they kept from it for good.
#[test]
fn who_waits_and_who_does_not_are_both_served() {
    for store in [Store::File, Store::Server] {
        let beside = Protocol { polices: &[1, 2], ..of_a_live_process(store, &[Fault::End], 9) };
        let graph = explore(&beside);
        let circle = graph.endless(is_served, is_tick);
        assert!(circle.is_none(), "{store:?}: over and over: {:?}", circle.map(|state| graph.way_to(state)));
        let alone = Protocol { polices: &[0], processes: 2, ..of_a_live_process(store, LEAVING, 4) };
        let graph = explore(&alone);
        let end = graph.dead_end(is_served);
        assert!(end.is_none(), "{store:?}: never again: {:?}", end.map(|state| graph.way_to(state)));
    }
}

/// Or else the search would prove nothing.
#[test]
fn whatever_is_left_out_exceeds_a_window() {
    for store in [Store::File, Store::Server] {
        let way = |broken, faults| {
            explore(&Protocol { broken: Some(broken), ..protocol(store, faults) }).way_to_bad()
        };
        for broken in [Broken::Deadline, Broken::GiveBack, Broken::GiveBackTwice] {
            assert!(way(broken, LEAVING).is_some(), "{store:?}: {broken:?}");
        }
        let late = Protocol { polices: &[0, 1], broken: Some(Broken::Deadline), ..protocol(store, LEAVING) };
        assert!(explore(&late).way_to_bad().is_some(), "{store:?}: what was free at once is used later");
        assert!(way(Broken::Silence, LOSING).is_some(), "{store:?}: no silence after a loss");
        let terms = Terms::new(1, 2, 4, 1).without_reserve();
        let graph = explore(&Protocol { terms, ..protocol(store, LEAVING) });
        assert!(graph.way_to_bad().is_some(), "{store:?}: slots a period apart, and no more");
    }
}

/// The promise has this gap, see `throttle::store`.
#[test]
fn a_newcomer_cannot_know_what_was_lost() {
    let faults = &[Fault::StateLoss, Fault::Death, Fault::End];
    let graph = explore(&Protocol { broken: Some(Broken::Newcomers), ..protocol(Store::File, faults) });
    let way = graph.way_to_bad().expect("a window that is exceeded");
    assert!(way.contains(&Action::LoseState), "{way:?}");
}

/// For a process that lives, wakes in time and whose messages arrive, whatever others do.
fn of_a_live_process(store: Store, faults: &'static [Fault], horizon: u64) -> Protocol {
    let terms = Terms::new(1, 2, horizon, 1);
    Protocol { terms, first_is_live: true, ..protocol(store, faults) }
}

fn is_served(action: Action) -> bool {
    action == Action::Release(0)
}

fn is_tick(action: Action) -> bool {
    action == Action::Tick
}

/// However often others are late, end, and ask first.
#[test]
fn a_live_process_is_served_if_all_fit_in_the_horizon() {
    for store in [Store::File, Store::Server] {
        // Three slots, three ticks apart with the deadline.
        let graph = explore(&of_a_live_process(store, &[Fault::End], 9));
        let circle = graph.endless(is_served, is_tick);
        assert!(circle.is_none(), "{store:?}: over and over: {:?}", circle.map(|state| graph.way_to(state)));
    }
}

/// Those who are turned away have turns. Without, whoever asks first is served.
#[test]
fn a_live_process_is_served_even_if_not_all_fit() {
    let races = of_a_live_process(Store::File, &[], 5);
    assert!(explore(&races).endless(is_served, is_tick).is_some());
    let fair = Protocol { terms: Terms { has_turns: true, ..races.terms }, ..races };
    let graph = explore(&fair);
    let circle = graph.endless(is_served, is_tick);
    assert!(circle.is_none(), "over and over: {:?}", circle.map(|state| graph.way_to(state)));
}

/// With deaths and losses, too, unless these and all races are for ever to its harm: it can always still be served.
/// Turns make too many states of these, with processes that leave the queue.
#[test]
fn a_live_process_can_be_served_whatever_has_happened() {
    let without_turns = |store, faults| {
        let fair = of_a_live_process(store, faults, 4);
        let processes = if store == Store::File || is_large() { 3 } else { 2 };
        Protocol { terms: Terms { has_turns: false, ..fair.terms }, processes, ..fair }
    };
    for store in [Store::File, Store::Server] {
        for faults in [LEAVING, LOSING] {
            let graph = explore(&without_turns(store, faults));
            let end = graph.dead_end(is_served);
            assert!(end.is_none(), "{store:?}: never again: {:?}", end.map(|state| graph.way_to(state)));
        }
    }
    let live = without_turns(Store::File, LOSING);
    let graph = explore(&Protocol { broken: Some(Broken::SilenceOnce), ..live });
    assert!(
        graph.dead_end(is_served).is_some(),
        "a silence that is begun anew by all who ask lasts for ever"
    );
}
