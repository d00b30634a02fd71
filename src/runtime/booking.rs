//! Asking a store for slots, on a thread of its own: it may take as long as a network does.

use std::io;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::waker::Waker;
use super::world::Event;
use crate::store::{Order, Store};

/// Takes orders; the answers are told as events.
pub(super) struct BookingThread {
    orders: Sender<Order>,
}

impl BookingThread {
    /// Starts the thread.
    pub(super) fn open(store: Box<dyn Store>, waker: Waker) -> io::Result<Self> {
        let (orders, taken) = unbounded();
        super::spawn_with(STACK, "store", move || serve(store, &taken, &waker))?;
        Ok(BookingThread { orders })
    }

    pub(super) fn take(&self, order: Order) {
        // Without the thread there was an error, which has been told.
        let _ = self.orders.send(order);
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
