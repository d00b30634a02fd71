//! The booking protocol (`throttle::store`), model-checked: every interleaving of three processes that share a limit.
//!
//! The slots, deadlines and silences are the program's own: the model calls `store::ledger::BookingRules`,
//! `store::Policy` and `gate::Slots` directly. Time is discrete. At any point any process may act, or time may pass, so
//! a process may wake up late by any time. States that differ only by a shift in time count as one, so runs of any
//! length are covered.
//!
//! Some processes book ahead; others take only what is free at once (`--on-limit drop`).
//!
//! Slots are given back as in the program: `gate::Slots` decides which, and the ledger what becomes of them.
//!
//! A release may take any time, as a blocked write does. If it was late for its slot, it is reported, and others learn
//! of it with their next request. For all who know, including the process that made it, it counts from its end. A
//! report is forgotten once the state that held it is lost.
//!
//! Assumed, not checked: a process is not stopped between its last look at the clock and the release; clocks agree; and
//! after a loss, a new process does not ask before the first one that knew what was lost. Who notices a loss is
//! modelled too (`model::Protocol::visit`), and so is that a store does not know the slots that were booked before a
//! loss: in the program both are part of each store. Both stores use the ledger here; that the server's scripts and the
//! ledger agree with the limiters is tested elsewhere (`redis::model`, `ledger::tests`).
//!
//! The explorer is our own: `stateright` always brings a web server along, and its "eventually" misses runs that go in
//! circles; `spin` would check a copy of the rules in another language.
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

/// More states than this mean a mistake in the model.
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

/// Explores everything that can happen under limits of N, P, horizon and span.
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

/// Some processes use a slot and die while others are visiting the store. Slots that nobody can have used are handed
/// on.
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

/// Two processes under limits of N, P, horizon and span.
fn stalling(store: Store, [count, period, horizon, span]: [u64; 4], faults: &'static [Fault]) -> Protocol {
    let terms = Terms::new(count, period, horizon, span);
    Protocol { terms, processes: 2, ..protocol(store, faults) }
}

/// A release that was late for its slot counts from its end, for the process that made it and all that have been told.
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

/// Neither the report nor a look at it may be left out.
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

/// Next to processes that book ahead, in between them, and on its own.
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

/// Processes that take only what is free at once do not keep others from booking, and are not kept out for good.
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

/// Otherwise the search would prove nothing.
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
        assert!(graph.way_to_bad().is_some(), "{store:?}: slots only a period apart");
    }
}

/// The guarantee has this gap; see `throttle::store`.
#[test]
fn a_newcomer_cannot_know_what_was_lost() {
    let faults = &[Fault::StateLoss, Fault::Death, Fault::End];
    let graph = explore(&Protocol { broken: Some(Broken::Newcomers), ..protocol(Store::File, faults) });
    let way = graph.way_to_bad().expect("a window that is exceeded");
    assert!(way.contains(&Action::LoseState), "{way:?}");
}

/// The first process lives, wakes in time and loses no messages, whatever others do.
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
        // Three slots, three ticks apart including the deadline.
        let graph = explore(&of_a_live_process(store, &[Fault::End], 9));
        let circle = graph.endless(is_served, is_tick);
        assert!(circle.is_none(), "{store:?}: over and over: {:?}", circle.map(|state| graph.way_to(state)));
    }
}

/// Processes that are turned away have turns. Without turns, whoever asks first is served.
#[test]
fn a_live_process_is_served_even_if_not_all_fit() {
    let races = of_a_live_process(Store::File, &[], 5);
    assert!(explore(&races).endless(is_served, is_tick).is_some());
    let fair = Protocol { terms: Terms { has_turns: true, ..races.terms }, ..races };
    let graph = explore(&fair);
    let circle = graph.endless(is_served, is_tick);
    assert!(circle.is_none(), "over and over: {:?}", circle.map(|state| graph.way_to(state)));
}

/// It can always still be served, also after deaths and losses, unless these and all races go against it for ever.
/// Turns are left out, as there would be too many states with processes that leave the queue.
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
    assert!(graph.dead_end(is_served).is_some(), "a silence that all who ask restart lasts for ever");
}
