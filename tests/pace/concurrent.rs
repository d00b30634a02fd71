//! Threads that share limits.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use throttle::pace::Pacer;

const PERIOD: Duration = Duration::from_millis(20);

/// Stamps are taken while the permit is held.
fn most_in_a_window(mut stamps: Vec<Instant>) -> usize {
    stamps.sort();
    let in_window =
        |first: usize| stamps[first..].iter().take_while(|at| **at - stamps[first] < PERIOD).count();
    (0..stamps.len()).map(in_window).max().unwrap_or(0)
}

/// Some give up, some cancel, some hold the permit for longer than a period, some panic.
#[test]
fn no_window_has_more_under_eight_threads() {
    for limit in ["10/20ms", "10/20ms,key=col:1"] {
        let pacer = Pacer::new(limit).unwrap();
        let (stamps, start) = (Mutex::new(Vec::new()), Instant::now());
        thread::scope(|scope| {
            for seed in 0..8 {
                let (pacer, stamps) = (pacer.clone(), &stamps);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed);
                    while start.elapsed() < 20 * PERIOD {
                        let Ok(permit) = pacer.wait_timeout(("a", 1), random.u32(1..4) * PERIOD) else {
                            continue;
                        };
                        match random.u8(..20) {
                            0 => {
                                permit.cancel();
                                continue;
                            }
                            1 => thread::sleep(PERIOD * 3 / 2),
                            2 => {
                                stamps.lock().unwrap().push(Instant::now());
                                let panicked = std::panic::catch_unwind(move || {
                                    let _permit = permit;
                                    std::panic::resume_unwind(Box::new(()));
                                });
                                assert!(panicked.is_err());
                                continue;
                            }
                            _ => {}
                        }
                        let at = Instant::now();
                        stamps.lock().unwrap().push(at);
                        drop(permit);
                    }
                });
            }
        });
        let stamps = stamps.into_inner().unwrap();
        assert!(stamps.len() > 20, "only {}", stamps.len());
        assert!(most_in_a_window(stamps) <= 10);
        // Nothing is left under way.
        thread::sleep(PERIOD);
        assert_eq!(pacer.left(("a", 1)).unwrap(), 10);
    }
}

#[test]
fn what_is_shared_is_send_and_sync() {
    fn check<T: Send + Sync + Clone + std::fmt::Debug>(_: &T) {}
    let pacer = Pacer::new("1/s").unwrap();
    check(&pacer);
    check(&pacer.item(b"").unwrap());
    thread::spawn(move || pacer.try_now(("", 1)).unwrap().into_owned()).join().unwrap().cancel();
}
