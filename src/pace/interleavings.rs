//! All interleavings, up to a bound, of threads and tasks that share limits. No time passes: the period is an hour, and
//! what is canceled makes room.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Instant;

use loom::future::block_on;
use loom::thread;

use super::{AsyncPacer, Pacer, Permit};

/// All interleavings are tried in which threads are preempted up to this number of times, or `LOOM_MAX_PREEMPTIONS`.
const PREEMPTIONS: usize = 2;

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(PREEMPTIONS);
    model.check(check);
}

/// Counts those that are admitted, and fails if there are too many at once.
#[derive(Clone)]
struct Count {
    most: usize,
    held: Arc<AtomicUsize>,
}

impl Count {
    fn new(most: usize) -> Self {
        Count { most, held: Arc::default() }
    }

    /// Not an atomic of loom: what is counted is not to order what is tested.
    fn hold(&self, permit: Permit) {
        let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(held <= self.most, "{held} at once");
        thread::yield_now();
        self.held.fetch_sub(1, Ordering::SeqCst);
        permit.cancel();
    }
}

fn tasks(pacer: &Pacer) -> AsyncPacer<impl Fn(std::time::Duration) -> std::future::Pending<()> + use<>> {
    pacer.sleeping(|_| pending())
}

/// All go in the end: no wake-up is lost.
#[test]
fn those_who_wait_are_never_more_than_the_limit_and_all_go() {
    model(|| {
        let (pacer, count) = (Pacer::new("1/h").unwrap(), Count::new(1));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (pacer, count) = (pacer.clone(), count.clone());
                thread::spawn(move || count.hold(pacer.wait(("", 1)).unwrap()))
            })
            .collect();
        count.hold(block_on(tasks(&pacer).ready(("", 1))).unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pacer.left(("", 1)).unwrap(), 1);
    });
}

/// What was charged is never charged less than it was, whoever asks without waiting meanwhile.
#[test]
fn those_who_do_not_wait_are_never_more_than_the_limit() {
    model(|| {
        let pacer = Pacer::new("2/h").unwrap();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let pacer = pacer.clone();
                thread::spawn(move || {
                    let permit = pacer.try_now(("", 1)).ok();
                    usize::from(permit.is_some()) + usize::from(pacer.check(("", 1)).is_ok())
                })
            })
            .collect();
        let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!((admitted, pacer.left(("", 1)).unwrap()), (2, 0));
    });
}

/// A refusal that is known without the lock does not outlive a cancellation. Its instant is known, as one was charged.
#[test]
fn a_refusal_is_forgotten_when_something_is_canceled() {
    model(|| {
        let pacer = Pacer::new("2/h").unwrap();
        pacer.check(("", 1)).unwrap();
        let permit = pacer.try_now(("", 1)).unwrap();
        let other = {
            let pacer = pacer.clone();
            thread::spawn(move || drop(pacer.try_now(("", 1)).map(Permit::cancel)))
        };
        permit.cancel();
        other.join().unwrap();
        assert!(pacer.try_now(("", 1)).is_ok());
    });
}

/// Dropped while it waits, or once it was admitted and not told.
#[test]
fn a_future_that_is_dropped_leaves_its_place_to_others() {
    model(|| {
        let (pacer, count) = (Pacer::new("1/h").unwrap(), Count::new(1));
        let permit = pacer.try_now(("", 1)).unwrap();
        let waits = {
            let (pacer, count) = (pacer.clone(), count.clone());
            thread::spawn(move || count.hold(pacer.wait(("", 1)).unwrap()))
        };
        let gives_up = {
            let pacer = pacer.clone();
            thread::spawn(move || {
                let pacer = tasks(&pacer);
                let mut given_up = pin!(pacer.ready(("", 1)));
                let _ = given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(|permit| {
                    permit.unwrap().cancel();
                });
            })
        };
        permit.cancel();
        waits.join().unwrap();
        gives_up.join().unwrap();
        assert_eq!(pacer.left(("", 1)).unwrap(), 1);
    });
}

/// Behind another who waits for a limit of its own, too.
#[test]
fn several_limits_hold_up_no_one_who_may_go() {
    model(|| {
        let pacer = Pacer::new("2/h\n1/h,key=col:1").unwrap();
        let count = Count::new(2);
        let of_a = Count::new(1);
        let permit = pacer.try_now(("a", 1)).unwrap();
        let thread = {
            let (pacer, count, of_a) = (pacer.clone(), count.clone(), of_a.clone());
            thread::spawn(move || {
                let permit = pacer.wait(("a", 1)).unwrap();
                of_a.held.fetch_add(1, Ordering::SeqCst);
                count.hold(permit);
            })
        };
        count.hold(pacer.wait(("b", 1)).unwrap());
        assert_eq!(of_a.held.load(Ordering::SeqCst), 0);
        permit.cancel();
        thread.join().unwrap();
        assert_eq!(pacer.left(("b", 1)).unwrap(), 1);
    });
}

/// Deadlines are told by the clock alone.
#[test]
fn a_deadline_in_the_past_is_not_waited_for() {
    model(|| {
        let pacer = Pacer::new("1/h").unwrap();
        let permit = pacer.try_now(("", 1)).unwrap();
        let other = {
            let pacer = pacer.clone();
            thread::spawn(move || pacer.wait_deadline(("", 1), Instant::now()).map(Permit::cancel).is_ok())
        };
        permit.cancel();
        let _ = other.join().unwrap();
        assert_eq!(pacer.left(("", 1)).unwrap(), 1);
    });
}
