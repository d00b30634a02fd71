//! The works of `throttle`, which paces the items of a pipe.
//!
//! ```text
//!                  events                    actions
//! source ─ items ─▶ ┌────────────────────────┐ ─ Send(batch) ─▶ sink: stdout | command
//! jobs ─── ends ──▶ │ schedule  (pure)       │ ─ Book(order) ─▶ store
//! store ── slots ─▶ │  lanes · jobs · gate   │ ─ Wait(until) ─▶ clock
//! signals, files ─▶ └────────────────────────┘ ─ Tell ────────▶ ui
//! ```
//!
//! The scheduler in [`schedule`] decides, and knows no clock, thread or descriptor; what may leave when is up to its
//! [`gate`], and the rules are in [`rule`]. The one loop, which asks the scheduler what to do and does it, is
//! [`runtime::Driver`].
//!
//! # The house
//!
//! Each room uses only what `tests/it/rooms.rs` allows; no two need each other.
//!
//! - `main`, `lib`, `program`, `verbs`: wiring, top to bottom: run, plan, audit, state, help
//! - `runtime`: the driver, which is the only loop; clock, waiting, threads, signals, files, the simulated world
//! - `ui`: messages, progress, statistics
//! - `cli`: clap: what was typed becomes a `Config`
//! - `schedule`: what is released in which order: events in, actions out, no I/O. `queue` owns what is still to be
//!   released: `supply` (what was read), `lanes` (what waits, its order and batches), the gate. `results` owns what
//!   becomes of it: `jobs` (what runs, retries), `account` (counts), `course` (what is done next). They meet in
//!   `Schedule::poll`; `events` is what it is told, `releases` the way of an item
//! - `store`: slots that processes share: a file, a server
//! - `sink`: standard output, the dry run, commands (`jobs`)
//! - `source`: bytes → segments → items, with their cost and key; time stamps
//! - `records`: records that tell when they happened, in their order; the log of commands: written, read back, resumed
//! - `gate`: what may leave when. `Own`: the limits of this run (`Limits`), each a rule with its `History`, of all
//!   items or of each key. `Slots`: slots are booked with a store (`orders`) for what waits (`demands`), held and
//!   given back (`claims`, `lease`)
//! - `config`: what it means: rates, selectors, quantities, where state is
//! - `rule`: all that is known of an algorithm, a file and a script each: name and options, when a release may be and
//!   what is charged for it (`Rule`), slots (`SlotRule`), everything else (`Facts`)
//! - `pace`: the same limits for other programs: a library with a stable interface; built alone without the feature
//!   `cli`
//! - `time`: instants (`Time`), the clock on the wall (`Wall`), and the calendar: zones, civil periods, hours of the
//!   week
//! - `exit`, `charge`, `inherited`, `interrupt`, `output`, `pipe`, `printable`: what all may use
//!
//! An item's way: `source::Reader` reads a `Segment`, `Intake` cuts items off it and charges them, `schedule::lanes` has
//! them wait, `schedule::releases` puts what may go into an `Admission`, the driver gives it to the `Sink` and tells
//! the scheduler how many items have left. Items that nothing holds up pass the lanes by, as they lie in their segment.
//!
//! # To add ...
//!
//! **What servers say of their quotas**: a row in `sink/jobs/dialects.rs`.
//!
//! **An algorithm**: `rule/NAME.rs` (the rule, its facts, its slots, its tests), its script `rule/NAME.lua`, and its
//! name in `rule/mod.rs`, in whose match the compiler asks for it. Then ALGORITHMS in `man/throttle.1.in`; help and
//! completions take theirs from the facts, and the random tests the name. What these expect of the rule stands in
//! `tests/it/property` and in `store/ledger/tests/audit.rs`.
//!
//! **A selector**: `config/selector.rs` (parse, print), `source/select.rs` (find it in the bytes of an item), the
//! manual. In a command it is a placeholder without more ado: `config/template.rs`, `sink/jobs/expander.rs`.
//!
//! **An output mode**: `config/command.rs` (`Output`), `cli` (the flag), `sink/jobs/output.rs`; something else than
//! standard output or commands: a `Sink` of its own in `sink`, and `verbs/run.rs`, which picks it.
//!
//! **A store**: a room below `store` with a `Store`, its state in `config/state.rs`, `store/keeper.rs`, and
//! `tests/it/stores.rs`, which holds every store to the same tests.
//!
//! **An option**: its group in `cli/args` (`cli/meaning.rs` if it has to do with other groups), a field in `config`,
//! and where it is used. In the manual, its line under OPTIONS is made of the short help; a section of
//! `man/throttle.1.in` tells the rest.
//!
//! # The library alone
//!
//! Without the feature `cli` there is only [`pace`]: limits for programs of one's own, and what they need.

// Items that only the program uses.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]

// Some of what tests use is that of `tests/it`.
#[cfg(test)]
extern crate self as throttle;

#[cfg(feature = "cli")]
pub mod audit;
pub mod charge;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
#[cfg(feature = "cli")]
pub mod exit;
pub mod gate;
#[cfg(feature = "cli")]
pub mod inherited;
#[cfg(feature = "cli")]
mod interrupt;
#[cfg(feature = "cli")]
mod output;
pub mod pace;
#[cfg(feature = "cli")]
mod pipe;
mod printable;
#[cfg(feature = "cli")]
mod program;
#[cfg(feature = "cli")]
pub mod records;
pub mod rule;
#[cfg(feature = "cli")]
pub mod runtime;
#[cfg(feature = "cli")]
pub mod schedule;
#[cfg(feature = "cli")]
pub mod sink;
pub mod source;
#[cfg(feature = "cli")]
pub mod store;
pub mod time;
#[cfg(feature = "cli")]
pub mod ui;
#[cfg(feature = "cli")]
mod verbs;

#[cfg(feature = "cli")]
pub use program::run;
