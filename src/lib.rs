//! The works of `throttle`, which paces the items of a pipe.
//!
//! ```text
//!                  events                    actions
//! source ─ items ─▶ ┌────────────────────────┐ ─ Send(batch) ─▶ sink: stdout | command
//! jobs ─── ends ──▶ │ schedule  (pure)       │ ─ Book(order) ─▶ store
//! store ── slots ─▶ │  queue · batch · gate  │ ─ Wait(until) ─▶ clock
//! signals, files ─▶ └────────────────────────┘ ─ Tell ────────▶ ui
//! ```
//!
//! The scheduler in [`schedule`] decides, and knows no clock, thread or descriptor; what may leave when is up to its
//! [`gate`], and the rules are in [`rule`]. The one loop, which asks the scheduler what to do and does it, is
//! [`runtime::Driver`].
//!
//! Without the feature `cli` there is only [`pace`]: limits for programs of one's own, and what they need.

// What only the program uses.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]

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
pub mod interrupt;
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
