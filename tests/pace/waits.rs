//! Those who wait: in turn, until a deadline, and given up.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use async_executor::{Executor, LocalExecutor};
use async_io::{Timer, block_on};
use throttle::pace::{ErrorKind, Pacer};

use crate::random::for_each_seed;

const PERIOD: Duration = Duration::from_millis(30);

/// Fifty tasks with a request between the permit and its end.
#[test]
fn tasks_that_are_under_way_count() {
    let pacer = Pacer::new("10/h").unwrap().sleeping(Timer::after);
    let executor = Executor::new();
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let pacer = pacer.clone();
            executor.spawn(async move {
                let permit = pacer.ready_timeout(("", 1), PERIOD).await.ok()?;
                Timer::after(PERIOD / 3).await;
                Some(permit.into_owned())
            })
        })
        .collect();
    let released = block_on(executor.run(async {
        let mut released = Vec::new();
        for task in tasks {
            released.extend(task.await);
        }
        released
    }));
    assert_eq!(released.len(), 10);
}

#[test]
fn tasks_go_in_the_order_in_which_they_began_to_wait() {
    let pacer = Pacer::new("3/30ms").unwrap().sleeping(Timer::after);
    let order = Rc::new(RefCell::new(Vec::new()));
    let executor = LocalExecutor::new();
    let start = Instant::now();
    let tasks: Vec<_> = (0..20u64)
        .map(|number| {
            let (pacer, order) = (&pacer, Rc::clone(&order));
            executor.spawn(async move {
                // One that costs much is not passed by others.
                let _permit = pacer.ready(("", 1 + number % 3)).await.unwrap();
                order.borrow_mut().push(number);
            })
        })
        .collect();
    block_on(executor.run(async {
        for task in tasks {
            task.await;
        }
    }));
    assert_eq!(*order.borrow(), (0..20).collect::<Vec<_>>());
    // 39 units, of which no window has more than 3.
    assert!(start.elapsed() >= 12 * PERIOD);
}

#[test]
fn a_wait_for_one_key_lets_others_pass() {
    let pacer = Pacer::new("1/h,key=col:1").unwrap().sleeping(Timer::after);
    drop(pacer.pacer().try_now(("a", 1)).unwrap());
    block_on(async {
        let mut waiting = pin!(pacer.ready(("a", 1)));
        assert!(poll_once(waiting.as_mut()).is_pending());
        assert!(pacer.ready(("b", 1)).await.is_ok());
        // Nor does one that does not wait go before.
        assert!(pacer.pacer().try_now(("a", 1)).is_err());
    });
}

/// Whatever blocked them, and however the limits are ordered.
#[test]
fn of_two_who_are_freed_at_once_the_one_who_waits_longer_goes() {
    for limits in ["2/h\n1/h,key=col:1", "1/h,key=col:1\n2/h"] {
        let pacer = Pacer::new(limits).unwrap();
        let tasks = pacer.sleeping(|_| std::future::pending::<()>());
        let first = pacer.try_now(("a", 1)).unwrap();
        let mut by_key = pin!(tasks.ready(("a", 1)));
        assert!(poll_once(by_key.as_mut()).is_pending());
        let _second = pacer.try_now(("b", 1)).unwrap();
        let mut by_all = pin!(tasks.ready(("c", 1)));
        assert!(poll_once(by_all.as_mut()).is_pending());
        first.cancel();
        assert!(poll_once(by_all.as_mut()).is_pending() && poll_once(by_key.as_mut()).is_ready(), "{limits}");
    }
}

/// There is room for it, but not for the one before it; no instant tells when that one has gone.
#[test]
fn one_who_does_not_wait_is_refused_behind_one_who_does() {
    let pacer = Pacer::new("3/h").unwrap();
    let permit = pacer.try_now(("", 2)).unwrap();
    let tasks = pacer.sleeping(Timer::after);
    let mut waiting = Box::pin(tasks.ready(("", 2)));
    assert!(poll_once(waiting.as_mut()).is_pending());
    let ErrorKind::Refused(refused) = pacer.check(("", 1)).unwrap_err().kind() else { panic!() };
    assert_eq!((refused.until, refused.by), (None, Some(0)));
    drop(waiting);
    assert!(pacer.check(("", 1)).is_ok());
    permit.cancel();
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Nobody))))
}

/// The first in line is given up while it waits, or once it was admitted without having been told.
#[test]
fn a_future_that_is_dropped_gives_up_its_place_and_what_it_was_admitted() {
    let pacer = Pacer::new("1/30ms").unwrap().sleeping(Timer::after);
    let permit = pacer.pacer().try_now(("", 1)).unwrap();
    let mut first = Box::pin(pacer.ready(("", 1)));
    let mut second = Box::pin(pacer.ready(("", 1)));
    assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
    permit.cancel();
    // The first was admitted by that.
    assert_eq!(pacer.pacer().left(("", 1)).unwrap(), 0);
    assert!(pacer.pacer().try_now(("", 1)).is_err());
    drop(first);
    drop(block_on(second).unwrap());
}

#[test]
fn a_deadline_that_cannot_be_met_is_not_waited_for() {
    let pacer = Pacer::new("1/h").unwrap();
    let permit = pacer.wait(("", 1)).unwrap();
    let start = Instant::now();
    let kind = |answer: Result<_, throttle::pace::Error>| answer.map(drop).unwrap_err().kind();
    // While the first is under way, it may be canceled.
    assert_eq!(kind(pacer.wait_timeout(("", 1), PERIOD)), ErrorKind::TimedOut);
    assert!(start.elapsed() >= PERIOD);
    drop(permit);
    assert_eq!(kind(pacer.wait_deadline(("", 1), start + 900 * PERIOD)), ErrorKind::TimedOut);
    let tasks = pacer.sleeping(Timer::after);
    assert_eq!(kind(block_on(tasks.ready_timeout(("", 1), 900 * PERIOD))), ErrorKind::TimedOut);
    assert!(start.elapsed() < 900 * PERIOD);
    // No one is left waiting.
    assert!(pacer.wait_deadline(("", 1), start).is_err());
}

/// Each would go some time, but never all of them at once.
#[test]
fn what_limits_never_agree_on_is_never_waited_for() {
    for limits in [
        "0/s,during=Mon-Fri,tz=UTC\n0/s,during=Sat-Sun,tz=UTC",
        "0/s,during=00:00-12:00,tz=UTC\n0/s,during=12:00-24:00,tz=UTC\n9/s",
    ] {
        let pacer = Pacer::new(limits).unwrap();
        let (tasks, timeout) = (pacer.sleeping(Timer::after), Duration::from_secs(3600));
        let kinds = [
            pacer.wait(("", 1)).map(drop),
            pacer.wait_timeout(("", 1), timeout).map(drop),
            block_on(tasks.ready_timeout(("", 1), timeout)).map(drop),
            pacer.try_now(("", 1)).map(drop),
            pacer.check(("", 1)),
        ];
        assert_eq!(kinds.map(|answer| answer.unwrap_err().kind()), [ErrorKind::Never; 5], "{limits}");
    }
    // One that is under way may be canceled; until then, nothing is known.
    let pacer = Pacer::new("1/h\n1/h,key=col:1").unwrap();
    let permit = pacer.wait(("a", 1)).unwrap();
    assert_eq!(pacer.wait_timeout(("a", 1), PERIOD).unwrap_err().kind(), ErrorKind::TimedOut);
    permit.cancel();
    assert!(pacer.wait_timeout(("a", 1), PERIOD).is_ok());
}

#[test]
fn a_pause_holds_for_those_who_wait_already() {
    let pacer = Pacer::new("1/10ms").unwrap();
    let permit = pacer.wait(("", 1)).unwrap();
    let until = Instant::now() + 3 * PERIOD;
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            drop(pacer.wait(("", 1)).unwrap());
            Instant::now()
        });
        pacer.pause_until(until);
        drop(permit);
        assert!(waits.join().unwrap() >= until);
    });
    assert!(pacer.wait(("", 1)).is_ok());
}

/// Tasks on two threads that wait, give up, cancel and hold on; in the end, all have gone and nothing is under way.
#[test]
fn property_no_one_is_forgotten() {
    for_each_seed(8, |random| {
        let limits =
            random.choice(["2/2ms", "3/2ms,algo=bucket", "5/2ms\n1/1ms,key=col:1", "9/3ms,algo=interval"]);
        let pacer = Pacer::new(limits.unwrap()).unwrap().sleeping(Timer::after);
        let executor = Executor::new();
        let tasks: Vec<_> = (0..40)
            .map(|_| {
                let (pacer, mut random) = (pacer.clone(), random.fork());
                executor.spawn(async move {
                    let name = random.u8(..3).to_string();
                    if random.u8(..4) == 0 {
                        let mut given_up = Box::pin(pacer.ready((&name, 1)));
                        let _ = poll_once(given_up.as_mut());
                        Timer::after(Duration::from_micros(random.u64(..900))).await;
                    }
                    let permit = pacer.ready((&name, 1)).await.unwrap();
                    match random.u8(..4) {
                        0 => permit.cancel(),
                        1 => _ = Timer::after(Duration::from_micros(random.u64(..900))).await,
                        _ => drop(permit),
                    }
                })
            })
            .collect();
        thread::scope(|scope| {
            let (stop, stopped) = async_executor_stop();
            let executor = &executor;
            scope.spawn(move || block_on(executor.run(stopped)));
            block_on(executor.run(async {
                for task in tasks {
                    task.await;
                }
            }));
            drop(stop);
        });
        thread::sleep(Duration::from_millis(4));
        assert!(pacer.pacer().try_now(("0", 1)).is_ok());
    });
}

/// A future that is ready once the other is dropped.
fn async_executor_stop() -> (Arc<()>, impl Future<Output = ()> + Send) {
    let stop = Arc::new(());
    let seen = Arc::downgrade(&stop);
    (stop, async move {
        while seen.strong_count() > 0 {
            Timer::after(Duration::from_millis(1)).await;
        }
    })
}
