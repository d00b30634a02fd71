//! `--once`: one release for a script.

use anyhow::{Result, bail, ensure};

use super::args::{Cli, FOR_COMMANDS, FOR_ITEMS, FOR_RUNS};
use crate::config::{HEADERS, Once, Rate, Selector, Verb};

/// The release that was asked for. Options about items make no sense with it.
pub(super) fn once(cli: Cli, rates: &[Rate]) -> Result<Verb> {
    let cost = if let Some(Selector::Constant(cost)) = cli.limits.cost { Some(cost) } else { None };
    // A constant cost needs no items.
    let needs_items = |option: &&str| *option != "-c" || cost.is_none();
    if let Some(option) = cli.given(FOR_ITEMS).find(needs_items) {
        bail!("--once reads no items: leave out {}", with_remedy(option));
    }
    // COMMAND can be printed before it is run.
    let for_command = cli.given(FOR_COMMANDS).find(|option| *option != "-t");
    if let Some(option) = for_command.or_else(|| cli.given(FOR_RUNS).next()) {
        bail!("--once releases once and becomes COMMAND: leave out {}", with_remedy(option));
    }
    ensure!(
        !cli.command.iter().any(|arg| arg.to_string_lossy().contains(HEADERS)),
        "--once becomes COMMAND, so nothing would read {HEADERS}: pipe in one item instead of --once"
    );
    rates.iter().try_for_each(Once::check)?;
    Ok(Verb::Once(Once {
        command: cli.command,
        trace: cli.report.trace,
        cost,
        max_wait: cli.control.max_wait,
    }))
}

fn with_remedy(option: &str) -> &str {
    match option {
        "-c" => "-c SEL, or give a number",
        "--on-limit" => "--on-limit, or use --max-wait 0",
        "--retries" => "--retries, or pipe in one item instead of --once",
        "--until" => "--until, or use --max-wait",
        option => option,
    }
}
