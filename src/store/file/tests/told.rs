//! Messages about a state.

use super::*;
use crate::config::{Defaults, Rate, RateText};
use crate::store::Status;

pub(super) fn rate(text: &str) -> Rate {
    text.parse::<RateText>().unwrap().resolve(&Defaults::default()).unwrap()
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
