//! Rate limits: the library [`pace`], and the program `throttle`, which paces the items of a pipe by the same limits.
//!
//! ```toml
//! [dependencies]
//! throttle-cli = { version = "0.1", default-features = false }
//! ```
//!
//! Without its default features, the crate is the library alone. The rest is the program: see `man throttle`.

// The internals of `throttle`, which paces the items of a pipe: for those who change it.
//
// ```text
//                  events                    actions
// source ─ items ─▶ ┌────────────────────────┐ ─ Send(batch) ─▶ sink: stdout | command
// jobs ─── ends ──▶ │ schedule  (pure)       │ ─ Store(order) ▶ store
// store ── slots ─▶ │  lanes · jobs · gate   │ ─ Wait(until) ─▶ clock
// signals, files ─▶ └────────────────────────┘ ─ Notify ──────▶ ui
// ```
//
// The scheduler in `schedule` makes the decisions and knows no clock, thread or descriptor. Its `gate` decides
// what may leave when, by the algorithms in `rule`. There is one loop, `runtime::Driver`: it asks the scheduler
// what to do and does it.
//
// # Modules
//
// Each top-level module uses only those that `tests/it/cli/modules.rs` allows; no two depend on each other.
//
// - `main`, `lib`, `program`, `verbs`: the wiring; one function per verb: run, plan, audit, once, state, help
// - `runtime`: the driver (the only loop), clock, waiting, threads, signals, files, the simulated world
// - `ui`: messages, progress, statistics, plots
// - `cli`: clap; turns the command line into a `Config`
// - `schedule`: what is released, and in which order: events in, actions out, no I/O. A `Schedule` owns its parts: the
//   `Input` from `source`, `lanes` (items waiting, their order and batches), the gate, `jobs` (running commands,
//   retries), `account` (counts), `ending` (exit and time limits). `poll` decides, `events` takes the events in,
//   `releases` takes an item from the input to its commit; `forecast` and `metrics` compute what `ui` shows
// - `store`: limits shared by processes. `shared` loads a `record`, decides by the `ledger`, and swaps it in a
//   `vault`: a file or a server
// - `audit`: judges past releases by the limits
// - `sink`: standard output, the dry run, commands (`jobs`)
// - `source`: bytes → segments → items, with cost and key; `advice` on their text; time stamps
// - `records`: time-stamped records, put in order; the job log: written, read back, resumed; the items that failed
// - `gate`: what may leave when. `Gate`: the limits of this run, each a `Limit`, with one history or one per key, and
//   `Reservations` for the shared ones: slots booked from a store as waiting items need them, held and given back
// - `config`: what the options mean: rates, selectors, quantities, where state is kept
// - `rule`: everything about an algorithm, in one file: when a release is allowed and how it is charged
//   (`Rule`), for a run's own limits and for shared ones; name, options and everything else (`Spec`)
// - `pace`: the same limits for other programs: a library with a stable interface; all that is built without the
//   feature `cli`
// - `time`: instants (`Time`), the wall clock (`Wall`), and the calendar: zones, civil periods, hours of the week
// - `exit`, `charge`, `inherited`, `interrupt`, `output`, `pipe`, `printable`, `which`: any module may use these, and
//   `time`
//
// The path of an item: `source::Reader` reads a `Segment`, `Input` cuts it into items and charges them,
// `schedule::lanes` queues them, `schedule::releases` puts those that may go into an `Admission`, the driver hands it
// to the `Sink` and tells the scheduler how many items have left. Items that need not wait skip the lanes and stay in
// their segment.
//
// # To add ...
//
// `tests/it/cli/generated.rs` asks for the generated files, `tests/it/cli/documented.rs` for most descriptions named
// here.
//
// **The headers with which a server states its quota**: a row in `sink/jobs/dialects.rs`, an example in its tests,
// and WHAT A SERVER SAYS in `man/throttle-cookbook.7`.
//
// **An algorithm**: `rule/NAME.rs` (the rule, its spec, its tests), and its name in `rule/any.rs`. Then ALGORITHMS in
// `man/throttle.1.in`. Help and completions come from the spec, and the random tests pick up the name; the compiler
// asks what they are to expect of the rule.
//
// **An option of a RATE**: `config/rate_text.rs` (parse), `config/rate.rs` (print), `gate/limit.rs` and
// `gate/change.rs` (apply), `config/state.rs` (refuse with `-s`) or `store/policy.rs`; `cli/help/rates.txt`, `--rate`
// in `cli/args/limits.rs`, RATES in `man/throttle.1.in`. What tests expect is in `tests/it/rules/property/model.rs`.
//
// **A selector**: `config/selector.rs` (parse, print), `source/select.rs` (find it in the bytes of an item),
// `completions/*.in`, `--cost` and `--key` in `cli/args/limits.rs`, SELECTORS in `man/throttle.1.in`. Commands accept
// it as a placeholder with no further change: `config/template.rs`, `sink/jobs/expander.rs`.
//
// **An output mode**: for commands, `config/command.rs` (`Output`), `cli` (the flag), `sink/jobs/output.rs`; for
// items, `sink/stdout.rs`. For another destination: a new `Sink` in `sink`, and `verbs/run.rs`, which picks it.
//
// **A store**: a module in `store` with a `Vault`, its state in `config/state.rs`, `store/admin.rs`, and
// `tests/it/store/stores.rs`, which runs every store through the same tests.
//
// **An option**: in `cli/args`, in the group `FOR_ITEMS`, `FOR_COMMANDS` or `FOR_RUNS` if it makes no sense without
// these, which `--once` then refuses, and with `conflicts_with_all` for `--audit` (`cli/meaning.rs` if it interacts
// with others); a field in `config`, and where it is used. A warning about a combination: `Config::warnings`. The
// manual's line under OPTIONS is generated from the short help; a section of `man/throttle.1.in` covers the rest.
//
// **Advice on a mistake**: a row in `cli/foreign.tsv` for an option of another program; a function in `cli/advice.rs`
// for what clap accepts; `source/advice.rs` for the text of items. Its message goes into `tests/it/cli/mistakes.rs`.
//
// **A message**: a `Notice` in `schedule/action.rs`, in words in `ui/notice.rs`. **A reason for a wait**: `WaitReason`
// in `schedule/forecast.rs`, in words in `ui/line.rs`, and PROGRESS in `man/throttle-reports.7`.
//
// **A number in the reports**: `schedule/stats.rs`, counted in `schedule/account.rs`; printed in `ui/stats.rs`
// (summary and JSON) and `ui/prometheus.rs`; `man/throttle-reports.7`.
//
// **A column of the job log**: `records/row.rs`, filled in `runtime/driver.rs`; `records/tsv.rs`, `records/json.rs`;
// `--log` in `cli/args/report.rs`, LOG OF COMMANDS in `man/throttle-reports.7`. `--resume` refuses a log with another
// header, so a new column makes users start new logs.

// Without `cli`, what only the program uses is dead code.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]

// Unit tests share helpers with `tests/it`, which name the crate `throttle`.
#[cfg(test)]
extern crate self as throttle;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod audit;
#[doc(hidden)]
pub mod charge;
#[cfg(feature = "cli")]
#[doc(hidden)]
#[allow(rustdoc::invalid_html_tags, reason = "the help of options is plain text")]
pub mod cli;
#[doc(hidden)]
pub mod config;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod exit;
#[doc(hidden)]
pub mod gate;
#[cfg(feature = "cli")]
#[doc(hidden)]
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
#[cfg(test)]
#[path = "../tests/it/random.rs"]
mod random;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod records;
#[doc(hidden)]
pub mod rule;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod runtime;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod schedule;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod sink;
#[doc(hidden)]
pub mod source;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod time;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod ui;
#[cfg(feature = "cli")]
mod verbs;
#[cfg(feature = "cli")]
mod which;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use program::run;
