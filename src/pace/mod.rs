//! Rate limits for your own program, exact, shared by threads and tasks.
//!
//! ```toml
//! [dependencies]
//! throttle-cli = { version = "0.1", default-features = false }
//! ```
//!
//! The package is `throttle-cli` and its library `throttle`, as the package `throttle` is another one. If you use both,
//! rename this one: `exact = { package = "throttle-cli", version = "0.1", default-features = false }`.
//!
//! A [`Pacer`] is shared by clones. It hands out a [`Permit`] for each release; while that is held, the release counts,
//! and once it is dropped, it counts as of then.
//!
//! ```
//! # fn main() -> Result<(), throttle::pace::Error> {
//! use throttle::pace::Pacer;
//!
//! let pacer = Pacer::new("20/100ms\n1/10ms,key=host")?;
//! let threads: Vec<_> = ["a.example", "b.example", "a.example"]
//!     .map(|host| (host, pacer.clone()))
//!     .map(|(host, pacer)| {
//!         std::thread::spawn(move || {
//!             let permit = pacer.wait((host, 1))?;
//!             // The request is made here.
//!             drop(permit);
//!             Ok(())
//!         })
//!     })
//!     .into();
//! threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
//! # }
//! ```
//!
//! | | a release that takes time | that takes none | how many |
//! |---|---|---|---|
//! | now or not at all | [`try_now`](Pacer::try_now) | [`check`](Pacer::check) | [`left`](Pacer::left) |
//! | blocking | [`wait`](Pacer::wait), `wait_timeout`, `wait_deadline` | | |
//! | in a task | [`ready`](AsyncPacer::ready), `ready_timeout`, `ready_deadline` | | |
//!
//! Tasks wait through the timer of their runtime, whichever it is: [`Pacer::sleeping`]. After an answer with
//! `Retry-After`: [`Pacer::pause_until`].
//!
//! Limits are text, one a line: `10/s`, `5000/h,algo=bucket,burst=50`, `1/s,key=host`. Ask for a key and a cost
//! ([`Ask`]), several by name ([`Pacer::named`]), or a text from which `key=` and `cost=` select ([`Pacer::item`]):
//! a URL, a line of words, a JSON document. What costs 0 passes all limits; what costs more than a limit ever admits is
//! an error at once.
//!
//! The library alone compares the hosts of URLs in lower case, without user and port; with the feature `cli`, also in
//! all spellings of addresses and international names. A key that is given in a pair is compared as it is.
//!
//! A program with a clock of its own, such as a simulation, uses [`Pace`], which is given the time. A release takes
//! time, so there are three steps: *admit* it at an instant read before, make it, and *commit* it at an instant read
//! after.
//!
//! # What is promised
//!
//! Whenever a release happens between its admission and its end, no window as long as the period has more releases than
//! the limit, with the default algorithm; the others keep what `throttle(1)` promises of them. So a release that is
//! under way counts for as long as it is, and then for a period. With `algo=interval`, none begins while another is
//! under way: end a request that is sent, do not wait for its answer.
//!
//! Those who wait go in turn: no one before another who began to wait before and is blocked by the same limit. A future
//! may be dropped at any time. What ends wakes those who may go, and at most one more for each limit.
//!
//! Time does not go back: an instant before the latest at which something was admitted, committed or counted
//! ([`Pace::left`]) stands for that one. An admission that is dropped has been used; one that is leaked counts for
//! ever. A key that was asked for takes some 60 bytes until it is idle, and for up to a period, or a second if that is
//! more, after that; as long as all is refused, none that was admitted gets idle. Nothing is shared with other
//! processes.
//!
//! # Comparison
//!
//! | | `throttle` | `governor` 0.10 | `ratelimit` 2.0 | `leaky-bucket` 1.1 |
//! |---|---|---|---|---|
//! | at most N in any window | yes, the default | no: up to 2 N | no: up to 2 N | no: up to 2 N |
//! | other algorithms | token bucket, minimum gap, fixed windows, calendar | GCRA | token bucket | token bucket |
//! | several limits | agree on one instant | one after the other | no | no |
//! | limits as text | yes | no | no | no |
//! | one limit per key | yes, idle keys are dropped | yes, `retain_recent` | no | no |
//! | charged | when the release ended | when it was allowed | when it was allowed | when it was allowed |
//! | waits | threads, tasks of any runtime | tasks of any runtime | no | tasks of tokio |
//! | fair among those who wait | yes | no | – | yes |
//! | shared by threads | a lock | lock-free | lock-free | a lock |
//!
//! `cargo bench --bench pace` compares the cost of a decision, and what each lets through in a window.
//!
//! This module follows semantic versioning. The rest of the crate is the program `throttle` and may change at any time.

mod admission;
mod clockless;
mod error;
#[cfg(test)]
mod interleavings;
mod item;
mod limits;
mod pacer;
mod permit;
mod queue;
mod shared;
mod sync;
mod tasks;
#[cfg(test)]
mod tests;
mod turn;
mod values;

pub use admission::Admission;
pub use clockless::Pace;
pub use error::{Error, ErrorKind, Refused};
#[doc(hidden)]
pub use item::Asked;
pub use item::{Ask, Item};
pub use pacer::Pacer;
pub use permit::Permit;
pub use tasks::AsyncPacer;
