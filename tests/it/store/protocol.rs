//! The booking protocol (`throttle::store`), model-checked: every interleaving of three processes that share a limit.
//!
//! The slots, deadlines and quarantines are the program's own: the model calls `store::ledger::BookingRules`,
//! `store::Policy` and `gate::Gate` directly. Time is discrete. At any point any process may act, or time may pass, so
//! a process may wake up late by any time. States that differ only by a shift in time count as one, so runs of any
//! length are covered.
//!
//! Some processes book ahead; others take only what is free at once (`--on-limit drop`).
//!
//! Whatever keeps the limit (`store::vault::Vault`), a process *loads* what is kept and the time, *decides*, and
//! *swaps* it for the outcome. In between, others may act, time may pass, and the process may die. If the value is
//! newer by then, the swap is refused: the process is told the newer one and the time, and decides again. A swap may be
//! made and its answer be lost: then the process asks again and finds the value as it left it, or a newer one; or it
//! never learns of it, and its slots stay booked. A file, which is locked from the load to the swap, and a server
//! differ only in which of these can happen.
//!
//! A swap may also decide on what others want, who wait for their replies: these are answers like any other, whatever
//! happens to the process that made the swap.
//!
//! Slots are given back as in the program: `gate::Reservations` decide which, and the ledger what becomes of them.
//!
//! A release may take any time, as a blocked write does. If it was late for its slot, it is reported, and others learn
//! of it with their next request. For all who know, including the process that made it, it counts from its end. A
//! report is forgotten once the state that held it is lost.
//!
//! Limits may be replaced while they are in use: first in the head of the state, which all processes load with the log
//! of a key, then in the log. Whoever does that may die in between. The log may be evicted as soon as it is idle.
//!
//! Assumed, not checked: a process that wants to swap is not refused for ever; slots are given back by the clock as it
//! is when that is swapped; a process is not stopped between its last look at the clock and the release; clocks agree;
//! and after a loss, a new process does not ask before the first one that knew what was lost. Who notices a loss is
//! modelled too (`model::Protocol::notice`), and so is that a store does not know the slots that were booked before a
//! loss: in the program both are part of `store::shared`. That the ledger agrees with the limiters is tested elsewhere
//! (`ledger::tests`).
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
use self::model::{Action, Broken, Fault, Protocol};

/// More states than this mean a mistake in the model.
const MOST: usize = 3_000_000;

const LEAVING: &[Fault] = &[Fault::Death, Fault::End, Fault::MessageLoss];
const RETURNING: &[Fault] = &[Fault::Surplus, Fault::StateLoss];
const DELAYING: &[Fault] = &[Fault::Delay, Fault::Death, Fault::End, Fault::MessageLoss];
const DELAYING_AND_LOSING: &[Fault] = &[Fault::Delay, Fault::StateLoss, Fault::End, Fault::MessageLoss];
const STALLING: &[Fault] = &[Fault::Stall, Fault::Death, Fault::End];
const STALLED_AND_LOST: &[Fault] = &[Fault::Stall, Fault::StateLoss];
const LOSING: &[Fault] = &[Fault::StateLoss, Fault::End, Fault::MessageLoss];

fn is_large() -> bool {
    env::var_os("THROTTLE_MODEL").is_some_and(|size| size == "large")
}

fn protocol(faults: &'static [Fault]) -> Protocol {
    let terms = Terms::new(1, 2, 4, 1);
    let new_terms = terms.clone();
    Protocol { terms, new_terms, processes: 3, polices: &[], faults, broken: None, first_is_live: false }
}

fn explore(protocol: &Protocol) -> Graph<Action> {
    let graph = Graph::explore(protocol, MOST);
    println!("{:?}, {} processes: {} states", protocol.faults, protocol.processes, graph.states());
    graph
}

/// Explores everything that can happen under limits of N, P, horizon and span.
fn no_window_is_exceeded(faults: &[&'static [Fault]], processes: usize, limits: &[[u64; 4]]) {
    for (&[count, period, horizon, span], faults) in
        limits.iter().flat_map(|limits| faults.iter().map(move |faults| (limits, faults)))
    {
        let terms = Terms::new(count, period, horizon, span);
        let graph = explore(&Protocol { terms, processes, ..protocol(faults) });
        if let Some(way) = graph.way_to_bad() {
            panic!("more than {count} in {period} ticks: {way:?}");
        }
        assert!(graph.has(|action| matches!(action, Action::Release(_))));
        assert!(graph.has(|action| matches!(action, Action::Wake(_))), "no slot is ever missed");
        assert!(graph.has(|action| matches!(action, Action::Refuse(_))), "no swap is ever refused");
        assert!(
            graph.has(|action| matches!(action, Action::SwapForAll(_))),
            "nobody ever decides for others"
        );
        let is_given_back = |action| matches!(action, Action::GiveBack(_) | Action::End(_));
        assert!(graph.has(is_given_back), "no slot is ever given back");
        let is_lost = graph.has(|action| matches!(action, Action::LoseMessage(_)));
        assert!(is_lost || !faults.contains(&Fault::Delay), "no answer is ever lost");
    }
}

#[test]
fn no_window_is_exceeded_by_two_or_three() {
    let faults = [LEAVING, LOSING, RETURNING];
    let (three, two) = match is_large() {
        true => ([1, 2, 4, 1], &[[2, 2, 3, 1], [1, 2, 4, 2], [1, 3, 6, 1], [3, 2, 3, 1]][..]),
        false => ([1, 2, 3, 1], &[[2, 2, 3, 1]][..]),
    };
    no_window_is_exceeded(&faults, 3, &[three]);
    no_window_is_exceeded(&faults, 2, two);
}

/// Also before the load and after the swap.
#[test]
fn no_window_is_exceeded_however_long_an_order_takes() {
    let faults = [DELAYING, DELAYING_AND_LOSING];
    let large = [[1, 2, 3, 1], [1, 3, 6, 1], [2, 2, 3, 1], [1, 2, 4, 2]];
    no_window_is_exceeded(&faults, 2, if is_large() { &large } else { &large[..1] });
}

/// Two processes under limits of N, P, horizon and span.
fn stalling([count, period, horizon, span]: [u64; 4], faults: &'static [Fault]) -> Protocol {
    let terms = Terms::new(count, period, horizon, span);
    Protocol { terms, processes: 2, ..protocol(faults) }
}

/// A release that was late for its slot counts from its end, for the process that made it and all that have been told.
#[test]
fn no_release_is_too_close_to_one_that_was_blocked() {
    let delayed = &[Fault::Stall, Fault::Delay];
    let large = [([1, 1, 2, 1], STALLING), ([1, 1, 2, 1], STALLED_AND_LOST), ([1, 1, 2, 1], delayed)];
    for (limits, faults) in
        if is_large() { large.to_vec() } else { vec![([1, 1, 2, 1], &[Fault::Stall][..])] }
    {
        let graph = explore(&stalling(limits, faults));
        assert!(graph.way_to_bad().is_none(), "{limits:?}: {:?}", graph.way_to_bad());
        assert!(graph.has(|action| matches!(action, Action::Finish(_))), "no release is ever blocked");
    }
}

/// Neither the report nor a look at it may be left out.
#[test]
fn a_release_that_was_blocked_must_be_known_of() {
    for broken in [Broken::Report, Broken::Patience, Broken::Overruns] {
        let graph = explore(&Protocol { broken: Some(broken), ..stalling([1, 2, 6, 2], STALLING) });
        let way = graph.way_to_bad().expect("a release that is too close");
        assert!(way.iter().any(|action| matches!(action, Action::Finish(_))), "{broken:?}: {way:?}");
    }
}

/// Two processes under limits of N, P and horizon that others replace.
fn changing([before, after]: [[u64; 3]; 2], faults: &'static [Fault]) -> Protocol {
    let [terms, new_terms] =
        [before, after].map(|[count, period, horizon]| Terms::new(count, period, horizon, 1));
    Protocol { terms, new_terms, processes: 2, ..protocol(faults) }
}

/// Whoever replaces the limits may die before the log of the key is carried over, which may be evicted, and others may
/// decide by the first limits, or use slots that were booked by these, for any time.
#[test]
fn no_window_is_exceeded_if_limits_are_replaced() {
    let changes =
        [[[1, 1, 2], [1, 3, 3]], [[2, 1, 2], [1, 2, 3]], [[1, 3, 3], [2, 2, 3]], [[1, 2, 3], [1, 1, 2]]];
    let faults = [&[Fault::Change, Fault::Death][..], &[Fault::Change, Fault::Delay]];
    for change in if is_large() { &changes[..] } else { &changes[..1] } {
        for faults in faults {
            let graph = explore(&changing(*change, faults));
            assert!(graph.way_to_bad().is_none(), "{change:?}: {:?}", graph.way_to_bad());
            for action in [Action::Change, Action::CarryOver, Action::Evict] {
                assert!(graph.has(|taken| taken == action), "no {action:?}");
            }
        }
    }
    let forgetful = Protocol { broken: Some(Broken::Forgetful), ..changing(changes[0], faults[0]) };
    let way = explore(&forgetful).way_to_bad().expect("a release that is forgotten");
    assert!(way.contains(&Action::Evict), "{way:?}");
}

/// Next to processes that book ahead, in between them, and on its own.
#[test]
fn no_window_is_exceeded_by_what_is_taken_at_once() {
    for (polices, faults) in [
        (&[1][..], LEAVING),
        (&[1], LOSING),
        (&[0, 1], LOSING),
        (&[1], DELAYING),
        (&[1], DELAYING_AND_LOSING),
    ] {
        let processes = if faults == LEAVING && is_large() { 3 } else { 2 };
        let graph = explore(&Protocol { processes, polices, ..protocol(faults) });
        assert!(graph.way_to_bad().is_none(), "{polices:?}: {:?}", graph.way_to_bad());
        assert!(graph.has(|action| action == Action::Release(1)), "nothing is ever free at once");
    }
}

/// Processes that take only what is free at once do not keep others from booking, and are not kept out for good.
#[test]
fn who_waits_and_who_does_not_are_both_served() {
    let beside = Protocol { polices: &[1, 2], ..of_a_live_process(&[Fault::End], 9) };
    let graph = explore(&beside);
    let circle = graph.endless(is_served, is_tick);
    assert!(circle.is_none(), "over and over: {:?}", circle.map(|state| graph.way_to(state)));
    let alone = Protocol { polices: &[0], processes: 2, ..of_a_live_process(LEAVING, 4) };
    let graph = explore(&alone);
    let end = graph.dead_end(is_served);
    assert!(end.is_none(), "never again: {:?}", end.map(|state| graph.way_to(state)));
}

/// Otherwise the search would prove nothing.
#[test]
fn whatever_is_left_out_exceeds_a_window() {
    let way = |broken, faults| explore(&Protocol { broken: Some(broken), ..protocol(faults) }).way_to_bad();
    for broken in [Broken::Deadline, Broken::GiveBack, Broken::GiveBackTwice] {
        assert!(way(broken, LEAVING).is_some(), "{broken:?}");
    }
    let late = Protocol { polices: &[0, 1], broken: Some(Broken::Deadline), ..protocol(LEAVING) };
    assert!(explore(&late).way_to_bad().is_some(), "what was free at once is used later");
    assert!(way(Broken::Quarantine, LOSING).is_some(), "no quarantine after a loss");
    let blind = way(Broken::Blind, &[]).expect("swaps of what others have replaced");
    assert!(blind.iter().filter(|action| matches!(action, Action::Swap(_))).count() > 1, "{blind:?}");
    let terms = Terms::new(1, 2, 4, 1).without_reserve();
    let graph = explore(&Protocol { terms, ..protocol(LEAVING) });
    assert!(graph.way_to_bad().is_some(), "slots only a period apart");
}

/// The guarantee has this gap; see `throttle::store`.
#[test]
fn a_newcomer_cannot_know_what_was_lost() {
    let faults = &[Fault::StateLoss, Fault::Death, Fault::End];
    let graph = explore(&Protocol { broken: Some(Broken::Newcomers), ..protocol(faults) });
    let way = graph.way_to_bad().expect("a window that is exceeded");
    assert!(way.contains(&Action::LoseState), "{way:?}");
}

/// The first process lives, wakes in time and loses no messages, whatever others do.
fn of_a_live_process(faults: &'static [Fault], horizon: u64) -> Protocol {
    let terms = Terms::new(1, 2, horizon, 1);
    Protocol { terms, first_is_live: true, ..protocol(faults) }
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
    // Three slots, three ticks apart including the deadline.
    for faults in [&[Fault::End][..], &[Fault::End, Fault::Delay]] {
        let graph = explore(&of_a_live_process(faults, 9));
        let circle = graph.endless(is_served, is_tick);
        assert!(circle.is_none(), "over and over: {:?}", circle.map(|state| graph.way_to(state)));
    }
}

/// Processes that are turned away have turns. Without turns, whoever asks first is served.
#[test]
fn a_live_process_is_served_even_if_not_all_fit() {
    let races = of_a_live_process(&[], 5);
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
    let without_turns = |faults| {
        let fair = of_a_live_process(faults, 4);
        Protocol { terms: Terms { has_turns: false, ..fair.terms }, ..fair }
    };
    for faults in [LEAVING, LOSING] {
        let graph = explore(&without_turns(faults));
        let end = graph.dead_end(is_served);
        assert!(end.is_none(), "never again: {:?}", end.map(|state| graph.way_to(state)));
    }
    let graph = explore(&Protocol { broken: Some(Broken::QuarantineOnce), ..without_turns(LOSING) });
    assert!(graph.dead_end(is_served).is_some(), "a quarantine that all who ask restart lasts for ever");
}
