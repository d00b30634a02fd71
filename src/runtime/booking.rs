//! Asks a store for slots on a thread of its own: a store may take as long as a network does.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::waker::Waker;
use super::world::Event;
use crate::interrupt::Interrupt;
use crate::store::{Order, Store, Task};

/// Takes orders and slots to give back; answers come as events. When it is dropped, the store does everything that it
/// was asked and is closed, if that does not take long.
pub(super) struct BookingThread {
    /// `None` once no more are accepted.
    orders: Option<Sender<Vec<Order>>>,
    /// Disconnected once the store is closed.
    closed: Receiver<Infallible>,
    /// The time that the end of a run waits for a slow store, such as one on a server that is away.
    patience: Duration,
    /// The number of reports not yet made. Other runs must know of them to keep the limit, so the end of the run waits
    /// longer for them.
    reports: Arc<AtomicUsize>,
    /// Raised when the run is to stop: it has no time to wait longer.
    interrupt: Arc<Interrupt>,
}

/// The end of a run waits a second for its reports, in pauses. These are counted, not timed, as the machine may stand
/// still.
const PAUSE: Duration = Duration::from_millis(10);
const REPORT_PAUSES: u128 = 100;

impl BookingThread {
    pub(super) fn open(store: Box<dyn Store>, waker: Waker, patience: Duration) -> Result<Self> {
        let interrupt = Arc::clone(&waker.interrupt);
        let (orders, taken) = unbounded();
        let (open, closed) = bounded(0);
        let reports = Arc::<AtomicUsize>::default();
        let left = Arc::clone(&reports);
        super::spawn("store", move || {
            serve(store, &taken, &left, &waker);
            drop(open);
        })?;
        Ok(BookingThread { orders: Some(orders), closed, patience, reports, interrupt })
    }

    pub(super) fn take(&self, orders: Vec<Order>) {
        let reports = orders.iter().filter(|order| order.is_report()).count();
        self.reports.fetch_add(reports, Ordering::Relaxed);
        // If the thread is gone, it has reported its error.
        let _ = self.orders.as_ref().map(|sender| sender.send(orders));
    }

    /// A report is still to be made, and there is time for it.
    fn has_reports(&self) -> bool {
        self.reports.load(Ordering::Relaxed) > 0 && !self.interrupt.is_raised()
    }
}

impl Drop for BookingThread {
    fn drop(&mut self) {
        self.orders = None;
        let mut for_reports = REPORT_PAUSES;
        let mut for_slots = self.patience.as_millis().div_ceil(PAUSE.as_millis());
        loop {
            let left = if self.has_reports() { &mut for_reports } else { &mut for_slots };
            if *left == 0 || self.closed.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            *left -= 1;
        }
    }
}

fn serve(mut store: Box<dyn Store>, orders: &Receiver<Vec<Order>>, reports: &AtomicUsize, waker: &Waker) {
    let told = waker.clone();
    store.warn_of_waits_by(Arc::new(move |why| _ = told.send(Event::BookingWaits(why))));
    let (mut is_heard, mut waiting) = (true, VecDeque::new());
    loop {
        let Some(order) = waiting.pop_front() else {
            let Ok(more) = orders.recv() else { return };
            waiting.extend(more);
            continue;
        };
        match order.task {
            // Once the run is over, no one uses slots, but other runs need its reports.
            Task::Book(_) if !is_heard => {}
            // If this fails, the slots stay booked: that costs throughput but never breaks the limit. The next order
            // reports why.
            Task::GiveBack(..) => _ = store.give_back(&order),
            _ => {
                waiting.push_front(order);
                waiting.extend(orders.try_iter().flatten());
                // Those that are answered, up to the first that is not.
                let is_answered = |order: &&Order| !matches!(order.task, Task::GiveBack(..));
                let together = waiting.iter().take_while(is_answered).count();
                match store.book_some(&waiting.make_contiguous()[..together]) {
                    Ok(answers) => {
                        let answers: Vec<_> = waiting.drain(..answers.len()).zip(answers).collect();
                        let made = answers.iter().filter(|(order, _)| order.is_report()).count();
                        reports.fetch_sub(made, Ordering::Relaxed);
                        is_heard = waker.send(Event::Booked(answers));
                    }
                    Err(refusal) => {
                        waker.send(Event::BookingFailed(refusal));
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::charge::Key;
    use crate::runtime::waker::Events;
    use crate::store::{Answer, StoreError};
    use crate::time::Time;

    /// Takes this long for each order, and notes it.
    struct Noting(Duration, Sender<Order>);

    impl Store for Noting {
        fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
            thread::sleep(self.0);
            self.1.send(order.clone()).unwrap();
            Ok(Answer::default())
        }
    }

    #[test]
    fn all_reports_of_a_run_that_is_over_are_made() {
        let events = Events::for_this_thread();
        let (noting, noted) = unbounded();
        // Far longer than slots are waited for.
        let store = Noting(Duration::from_millis(100), noting);
        let (waker, patience) = (events.waker.clone(), Duration::from_millis(1));
        let thread = BookingThread::open(Box::new(store), waker, patience).unwrap();
        drop(events);
        let order = Order::new(Key::new(), [1], 1);
        let late = order.with(Task::Late(1, Time(5)));
        let hold = order.with(Task::Hold(Time(9)));
        [&late, &order, &hold].into_iter().for_each(|order| thread.take(vec![order.clone()]));
        drop(thread);
        assert_eq!(noted.iter().collect::<Vec<_>>(), [late, hold]);
    }

    /// A server that is away at the end does not keep a run longer because one was made before.
    #[test]
    fn a_report_that_was_made_is_not_waited_for() {
        let events = Events::for_this_thread();
        let (noting, _noted) = unbounded();
        let store = Noting(Duration::ZERO, noting);
        let thread =
            BookingThread::open(Box::new(store), events.waker.clone(), Duration::from_millis(1)).unwrap();
        thread.take(vec![Order::new(Key::new(), [1], 1).with(Task::Late(1, Time(5)))]);
        while events.next().is_none() {
            thread::yield_now();
        }
        assert!(!thread.has_reports());
    }
}
