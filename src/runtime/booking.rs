//! Asking a store for slots, on a thread of its own: it may take as long as a network does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::waker::Waker;
use super::world::Event;
use crate::store::{Order, Slot, Store};

/// Takes orders, and slots that go back; answers are told as events. At the end the store is closed, after all that it
/// was asked, if that does not take long.
pub(super) struct BookingThread {
    /// `None` once no more are taken.
    tasks: Option<Sender<Task>>,
    /// Disconnected once the store is closed.
    closed: Receiver<Never>,
    /// A store that is slow, such as one on a server that is away, does not keep the process for longer.
    patience: Duration,
}

enum Task {
    Book(Box<Order>),
    GiveBack(Box<Order>, Vec<Slot>),
}

enum Never {}

impl BookingThread {
    pub(super) fn open(store: Box<dyn Store>, waker: Waker, patience: Duration) -> io::Result<Self> {
        let (tasks, taken) = unbounded();
        let (open, closed) = bounded(0);
        super::spawn_with(STACK, "store", move || {
            serve(store, &taken, &waker);
            drop(open);
        })?;
        Ok(BookingThread { tasks: Some(tasks), closed, patience })
    }

    pub(super) fn book(&self, order: Order) {
        self.take(Task::Book(Box::new(order)));
    }

    pub(super) fn give_back(&self, order: Order, slots: Vec<Slot>) {
        self.take(Task::GiveBack(Box::new(order), slots));
    }

    fn take(&self, task: Task) {
        // A thread that is gone has told its error.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }
}

impl Drop for BookingThread {
    fn drop(&mut self) {
        self.tasks = None;
        let _ = self.closed.recv_timeout(self.patience);
    }
}

/// A handshake needs more than reading does.
const STACK: usize = 1 << 20;

fn serve(mut store: Box<dyn Store>, tasks: &Receiver<Task>, waker: &Waker) {
    let told = waker.clone();
    store.tell_waits_to(Arc::new(move |why| _ = told.send(Event::BookingWaits(why))));
    for task in tasks {
        match task {
            Task::Book(order) => {
                let answer = store.book(&order);
                let is_over = answer.is_err();
                if !waker.send(Event::Booked(order, answer)) || is_over {
                    break;
                }
            }
            // If it fails, the slots stay booked, which costs throughput, never the limit. The next order tells why.
            Task::GiveBack(order, slots) => _ = store.give_back(&order, &slots),
        }
    }
}
