//! Rate limits for your own program, with the limits of the command line: exact, shared by threads and tasks.
//!
//! ```toml
//! [dependencies]
//! throttle-cli = { version = "0.1", default-features = false }
//! ```
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
//! Tasks wait through the timer of their runtime, whichever it is: see [`Pacer::sleeping`].
//!
//! A limit is written as on the command line: `10/s`, `5000/h,algo=bucket,burst=50`, `1/s,key=host`. What is asked for
//! is a key and a cost ([`Ask`]), several by name ([`Pacer::named`]), or a text from which `key=` and `cost=` select
//! ([`Pacer::item`]): a URL, a line of words, a JSON document.
//!
//! The library alone compares hosts in lower case, without user and port; with the feature `cli`, also in all spellings
//! of addresses and international names.
//!
//! A program with a clock of its own, such as a simulation, uses [`Pace`], which is given the time. A release takes
//! time, so there are three steps: *admit* it at an instant read before, make it, and *commit* it at an instant read
//! after.
//!
//! # What is promised
//!
//! What `throttle(1)` promises of its algorithms holds, whenever a release happens between its admission and its
//! commit: with the default one, no window as long as the period has more releases than the limit. So a release that is
//! under way counts for as long as it is, and then for a period. With `algo=interval`, none begins while another is
//! under way: commit a request that is sent, do not wait for its answer.
//!
//! Time does not go back: an instant before the latest at which something was admitted, committed or counted
//! ([`Pace::left`]) stands for that one. An admission that is
//! dropped has been used; one that is leaked counts for ever. Nothing is shared with other processes.
//!
//! # Comparison
//!
//! | | `throttle` | `governor` 0.10 | Go's `x/time/rate` |
//! |---|---|---|---|
//! | at most N in any window | yes, the default | no | no |
//! | token bucket | yes | yes (GCRA) | yes |
//! | minimum gap, fixed windows, calendar days | yes | gap by GCRA | gap by a burst of 1 |
//! | several limits agree on one instant | yes | one after the other | one after the other |
//! | limits as text | yes | no | no |
//! | one limit per key | yes, idle keys are dropped | yes, `retain_recent` | no |
//! | charged when the release happened | yes | when it was allowed | when it was allowed |
//! | a reservation ahead of time | no: wait for it | no | yes, `Reserve` |
//! | fair among those who wait | yes | no | yes |
//! | shared by several threads | a lock | lock-free | a lock |
//! | arithmetic | whole nanoseconds | whole nanoseconds | floating point |
//!
//! `cargo bench --bench pace` compares the cost of a decision with governor's, and what each lets through.
//!
//! This module follows semantic versioning. The rest of the crate is the program `throttle` and may change at any time.
//! The package is `throttle-cli`, as the name `throttle` belongs to another crate; the library is called `throttle`.

mod clockless;
mod error;
mod item;
mod limits;
mod pacer;
mod queue;
mod shared;
mod turn;
mod values;

pub use clockless::{Admission, Pace};
pub use error::{Error, ErrorKind, Refusal};
pub use item::{Ask, Item};
pub use pacer::{AsyncPacer, Pacer, Permit};
