//! Quotas of the calendar and limits with hours, in a server that knows no zones.

use throttle::config::{Shared, State};
use throttle::store::{Admin, Order, Policy, Store, VaultStore};
use throttle::time::Time;

use super::booking::Frozen;
use super::client::{policy, some};

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

fn two_a_day(more: &str) -> Policy {
    Policy { span: 100, ..policy(&[&format!("2/d,algo=calendar,tz=UTC,margin=10s{more}")]) }
}

fn slots(store: &mut VaultStore, frozen: &Frozen, count: u64) -> Vec<u64> {
    let slots = store.book(&some(count)).unwrap().slots;
    slots.iter().map(|&slot| frozen.server_time(slot)).collect()
}

/// Not before the next period, whoever asks, and whatever the server's clock shows until then.
#[test]
fn a_period_never_begins_a_second_time() {
    for is_forgotten in [false, true] {
        let Some(mut frozen) = Frozen::start() else { return };
        let mut store = frozen.store("web", two_a_day(""));
        let now = frozen.micros();
        let midnight = (now / DAY + 1) * DAY;
        assert_eq!(slots(&mut store, &frozen, 3), [now, now]);
        // Two days back. If the state is lost, all that is known of it is what the process has seen.
        if is_forgotten {
            frozen.server.ask::<()>("FLUSHALL");
        }
        frozen.pass(1000);
        for back in [2 * DAY, 2 * DAY - HOUR, DAY, 3 * HOUR, 1000] {
            frozen.set(now - back);
            assert_eq!(store.book(&some(1)).unwrap().slots, [], "{back} before");
            let mut other = frozen.store("web", two_a_day(""));
            assert_eq!(other.book(&some(1)).unwrap().slots, [], "{back} before");
        }
        frozen.pass(midnight - 1000 - frozen.micros());
        let expected = [midnight + 10_000_000; 2];
        assert_eq!(slots(&mut store, &frozen, 3), expected);
        // By its own clock, whatever the process's clock showed before.
        let mut other = frozen.store("web", two_a_day(""));
        assert_eq!(slots(&mut other, &frozen, 1).len(), 0);
    }
}

#[test]
fn what_is_lost_counts_as_used_until_the_period_ends() {
    let Some(mut frozen) = Frozen::start() else { return };
    let mut store = frozen.store("web", two_a_day(""));
    let midnight = (frozen.micros() / DAY + 1) * DAY;
    assert_eq!(slots(&mut store, &frozen, 1).len(), 1);
    frozen.server.ask::<()>("FLUSHALL");
    let answer = store.book(&some(1)).unwrap();
    assert_eq!((answer.slots.len(), answer.warning.is_some()), (0, true));
    frozen.pass(midnight - HOUR / 4 - frozen.micros());
    assert_eq!(slots(&mut store, &frozen, 3), [midnight + 10_000_000; 2]);
}

/// The process takes the server's clock to agree with its own wall clock, and it is years ahead.
#[test]
fn a_new_state_may_begin_with_a_period_that_is_used_up() {
    let Some(mut frozen) = Frozen::start() else { return };
    let mut store = frozen.store("web", two_a_day(",start=empty"));
    let midnight = (frozen.micros() / DAY + 1) * DAY;
    let again = store.book(&some(1)).unwrap().ask_again.unwrap();
    frozen.pass(midnight - HOUR / 4 - frozen.micros());
    // An hour before the slot, which is 10 s after midnight.
    let waited = frozen.local_time().since(again) / 1_000_000_000;
    assert!((2689..=2690).contains(&waited), "{waited}");
    assert_eq!(slots(&mut store, &frozen, 2), [midnight + 10_000_000; 2]);
}

/// In the hours nothing goes; outside them any number goes at any cost, and a log keeps what it has room for.
#[test]
fn a_pause_lets_nothing_through_and_then_everything() {
    let Some(mut frozen) = Frozen::start() else { return };
    // 2033-05-18 is a Wednesday, and it is 03:33:20.
    let limits = ["0/s,during=Wed@03:00-05:00,tz=UTC,margin=1s", "3/h,during=03:00-06:00,tz=UTC,margin=1s"];
    // Without their texts, no limit bounds how much is booked at once.
    let mut store = frozen.store("web", Policy { span: 100, rates: Vec::new(), ..policy(&limits) });
    let midnight = frozen.micros() / DAY * DAY;
    let mut book = |frozen: &mut Frozen, at: u64, count, cost: u64| {
        frozen.pass(midnight + at - frozen.micros());
        let slots = store.book(&Order { costs: [cost, cost].into(), ..some(count) }).unwrap().slots;
        slots.iter().map(|&slot| frozen.server_time(slot) - midnight).collect::<Vec<_>>()
    };
    let half = HOUR / 2;
    assert!(book(&mut frozen, 3 * HOUR + half + half / 2, 1, 1).is_empty(), "beyond the horizon");
    // Slots keep a second from the end of the hours, for which the fourth waits.
    let second = 1_000_000;
    assert_eq!(book(&mut frozen, 4 * HOUR + half, 4, 1), [5 * HOUR + second; 3]);
    assert_eq!(book(&mut frozen, 5 * HOUR + half, 1, 9), [6 * HOUR + second]);
    assert_eq!(book(&mut frozen, 6 * HOUR + second, 50, 2), [6 * HOUR + second; 50]);
    // On the next day, a late release would fall into the hours, where an expensive one waits for their end.
    let before = 24 * HOUR + 3 * HOUR - 2 * second;
    assert_eq!(book(&mut frozen, before - 1, 2, 9), [before - 1; 2]);
    assert!(book(&mut frozen, before, 1, 1).is_empty(), "there is no end within the horizon");
}

#[test]
fn the_status_says_how_much_of_a_period_is_left() {
    let Some(mut frozen) = Frozen::start() else { return };
    let shared = Shared { state: State::parse(&frozen.server.url("web")).unwrap(), timeout: 20_000_000_000 };
    let limits = ["2/d,algo=calendar,tz=UTC,margin=10s", "5/h,during=Wed@03:00-05:00,tz=UTC,margin=10s"];
    let mut store = frozen.store("web", policy(&limits));
    let told = || {
        let status = Admin::of(&shared).unwrap().status(Box::new(|| Time(0))).unwrap().expect("a state");
        status.limits.iter().map(|limit| (limit.capacity, limit.free, limit.next_in)).collect::<Vec<_>>()
    };
    let order = Order { costs: [1, 3].into(), ..some(1) };
    store.book(&order).unwrap();
    assert_eq!(told(), [(2, 1, 0), (5, 2, 0)]);
    store.book(&Order { costs: [1, 2].into(), ..some(1) }).unwrap();
    // It is 03:33:20 on a Wednesday.
    let second = 1_000_000_000;
    let midnight = (20 * 3600 + 26 * 60 + 50) * second;
    assert_eq!(told(), [(2, 0, midnight), (5, 0, 3610 * second)]);
    frozen.pass(HOUR / 2);
    assert_eq!(told()[1], (5, 0, 1810 * second));
    // Outside the hours.
    frozen.pass(2 * HOUR);
    assert_eq!(told()[1], (5, 5, 0));
}
