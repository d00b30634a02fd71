//! Messages about a state.

use super::*;
use crate::config::{Defaults, Rate, RateText};
use crate::store::Status;

pub(super) fn rate(text: &str) -> Rate {
    text.parse::<RateText>().unwrap().resolve(&Defaults::default()).unwrap()
}

#[test]
fn nobody_waits_once_all_who_were_turned_away_have_given_up() {
    for rates in [&["1/h"][..], &["3/10m,algo=interval"], &["7/m,algo=bucket,burst=2"], &["5/h,algo=fixed"]] {
        let stage = Stage::new();
        let rates: Vec<_> = rates.iter().map(|text| rate(text)).collect();
        let policy = Policy::new(&rates, Reserve::LOCAL);
        let mut store = VaultStore::over(stage.real_vault(), policy).expect("a state");
        let order = Order::new(Key::new(), [1], 1);
        let mut turns = Vec::new();
        while turns.len() < 3 {
            turns.extend(store.book(&order).expect("booked").turn);
        }
        let waits = || {
            let now = Time(stage.clock.load(Relaxed));
            let vault = FileVault::new(&stage.path(), Box::new(move || now)).expect("a vault");
            Status::of(Box::new(vault)).expect("read").expect("a state").last_turn.is_some()
        };
        let wait = turns.into_iter().map(|turn| {
            let waits = waits();
            store.give_back(&order.with(Task::GiveBack(Vec::new(), Some(turn)))).expect("given back");
            waits
        });
        assert_eq!(wait.collect::<Vec<_>>(), [true; 3], "{rates:?}");
        assert!(!waits(), "{rates:?}");
    }
}

/// A process that was turned away may have ended since, leaving only its turn behind.
#[test]
fn property_the_next_slot_is_the_same_however_many_were_turned_away() {
    let mut random = fastrand::Rng::with_seed(1);
    for rates in
        [&["1/h"][..], &["3/10m,algo=interval"], &["7/m,algo=bucket,burst=2", "9/h"], &["5/h,algo=fixed"]]
    {
        let stage = Stage::new();
        let rates: Vec<_> = rates.iter().map(|text| rate(text)).collect();
        let costs: Box<[u64]> = vec![1; rates.len()].into();
        let policy = Policy::new(&rates, Reserve::LOCAL);
        let mut store = VaultStore::over(stage.real_vault(), policy).expect("a state");
        let mut book = || store.book(&Order::new(Key::new(), costs.clone(), 1)).expect("booked");
        while book().turn.is_none() {}
        let told = |now| {
            let vault = FileVault::new(&stage.path(), Box::new(move || now)).expect("a vault");
            let status = Status::of(Box::new(vault)).expect("read").expect("a state");
            let limits = status.limits.iter().map(|limit| (limit.free, limit.next_in));
            (limits.collect::<Vec<_>>(), status.last_turn)
        };
        for _ in 0..5 {
            let now = Time(stage.clock.load(Relaxed));
            let (limits, last_turn) = told(now);
            assert!(limits.iter().any(|(_, next_in)| *next_in > 0));
            assert!(book().slots.is_empty());
            let (after, later) = told(now);
            assert_eq!(after, limits, "{rates:?}");
            assert!(later > last_turn, "{rates:?}: {last_turn:?} {later:?}");
            stage.wait(random.u64(0..SECOND));
        }
    }
}
