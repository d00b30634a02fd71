//! Everything that touches the outside: the clock, waiting, threads, signals, files, and the simulated world.

mod booking;
mod clock;
mod count;
mod driver;
mod input;
mod limits;
mod listener;
mod precise;
mod readable;
mod real_world;
mod reaper;
mod review;
mod signals;
pub mod sim;
mod stdout_reader;
mod text_file;
mod waker;
mod world;

use std::thread;

use anyhow::{Context, Result};

pub(crate) use self::clock::Clock;
pub(crate) use self::count::ItemCounter;
pub use self::driver::Driver;
pub(crate) use self::input::{InputFile, InputPosition, are_same, is_at};
pub(crate) use self::limits::LimitsFiles;
pub(crate) use self::precise::sharpen;
pub(crate) use self::real_world::RealWorld;
pub(crate) use self::review::Review;
pub use self::text_file::TextFile;
pub use self::world::{Event, Wait, Wake, World};
use crate::inherited::Uninterrupted;

/// The bytes of a thread's stack. What is never used takes no memory; a handshake with a server needs the most.
const STACK: usize = 1 << 20;

/// Starts a detached thread. Signals reach only the main thread.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let _main_only = Uninterrupted::begin();
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
    thread.spawn(run).map(drop).context("cannot start a thread")
}
