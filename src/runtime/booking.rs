//! Asking a store for slots, on a thread of its own: it may take as long as a network does.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::waker::Waker;
use super::world::Event;
use crate::store::{Order, Store};

/// Takes orders; the answers are told as events. At the end the store is closed, if that does not take long.
pub(super) struct BookingThread {
    /// None when no more are taken.
    orders: Option<Sender<Order>>,
    /// Disconnected once the store is closed.
    closed: Receiver<Never>,
}

enum Never {}

/// A store that is slow to close, such as one on a server that is away, does not keep the process.
const CLOSING: Duration = Duration::from_millis(20);

impl BookingThread {
    /// Starts the thread.
    pub(super) fn open(store: Box<dyn Store>, waker: Waker) -> io::Result<Self> {
        let (orders, taken) = unbounded();
        let (open, closed) = bounded(0);
        super::spawn_with(STACK, "store", move || {
            serve(store, &taken, &waker);
            drop(open);
        })?;
        Ok(BookingThread { orders: Some(orders), closed })
    }

    pub(super) fn take(&self, order: Order) {
        // Without the thread there was an error, which has been told.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }
}

impl Drop for BookingThread {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.closed.recv_timeout(CLOSING);
    }
}

/// A handshake needs more than reading does.
const STACK: usize = 1 << 20;

fn serve(mut store: Box<dyn Store>, orders: &Receiver<Order>, waker: &Waker) {
    for order in orders {
        let answer = store.book(&order);
        let is_over = answer.is_err();
        if !waker.send(Event::Booked(order, answer)) || is_over {
            break;
        }
    }
}
