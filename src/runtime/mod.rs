//! Everything that touches the outside: the clock, waiting, threads, signals, files, and the simulated world.

mod clock;
mod driver;
mod input;
pub mod joblog;
mod limits;
mod notices;
mod outlet;
mod precise;
mod readable;
mod real;
mod reaper;
mod review;
mod signals;
pub mod sim;
mod store;
mod teller;
mod watched;
mod world;

use std::thread;

pub use self::clock::Clock;
pub use self::driver::Driver;
pub use self::input::{Input, Position};
pub use self::real::Real;
pub use self::review::Review;
pub use self::watched::Watched;
pub use self::world::{Event, Wait, Wake, World};

/// Starts a thread that runs until the process ends.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<thread::JoinHandle<()>> {
    spawn_with(64 << 10, name, run)
}

/// As [`spawn`], with so many bytes of stack.
fn spawn_with(
    stack: usize,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run)
}
