//! The program: parses the command line and runs a verb.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use crate::cli::{self, Instead};
use crate::config::{Config, Report, Verb};
use crate::exit::Exit;
use crate::store::StoreError;
use crate::ui::report::Reporter;
use crate::verbs::{self, Setup};

/// Runs the program with these arguments; the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let done = match cli::parse(args) {
        Ok(config) => with_items(&config),
        Err(Instead::State(upkeep)) => verbs::state(&upkeep),
        Err(Instead::Help(text)) => verbs::help(&text),
        Err(Instead::Mistake(text)) => {
            Reporter::new(Report::Normal).notice(&text);
            return Exit::Usage;
        }
    };
    done.unwrap_or_else(|error| {
        Reporter::new(Report::Normal).error(&error);
        error.downcast_ref::<StoreError>().map_or(Exit::Error, |error| error.exit)
    })
}

fn with_items(config: &Config) -> anyhow::Result<Exit> {
    // An empty $TMPDIR would be the current directory.
    if env::var_os("TMPDIR").is_some_and(|directory| directory.is_empty()) {
        _ = tempfile::env::override_temp_dir(Path::new("/tmp"));
    }
    let setup = Setup::new(config)?;
    match &config.action {
        Verb::Run => verbs::run(setup),
        Verb::Once(once) => verbs::once(setup, once),
        Verb::DryRun { arrivals, at } => verbs::plan(setup, arrivals.as_ref(), *at),
        Verb::Audit { arrivals, at } => verbs::audit(setup, arrivals, *at),
    }
}
