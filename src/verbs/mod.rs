//! The verbs of the program: it runs, plans a run, audits one, waits once, maintains state, or prints help.

mod audit;
mod drawing;
mod help;
mod once;
mod plan;
mod run;
mod state;

use std::io;

use anyhow::{Result, ensure};

pub(crate) use self::audit::audit;
pub(crate) use self::help::help;
pub(crate) use self::once::once;
pub(crate) use self::plan::plan;
pub(crate) use self::run::run;
pub(crate) use self::state::state;
use crate::config::{Config, Once, Rate, Shared, State, Verb};
use crate::output::Target;
use crate::records::Completed;
use crate::runtime::{InputFile, InputPosition, LimitsFiles, are_same, is_at};
use crate::source::{Done, Reader, header_taker};
use crate::store;
use crate::ui::plot;
use crate::ui::report::Reporter;

/// The limits, the input and the reporter of a verb that reads items.
pub(crate) struct Setup<'a> {
    config: &'a Config,
    files: LimitsFiles,
    rates: Vec<Rate>,
    reader: Reader<InputFile>,
    position: InputPosition,
    reporter: Reporter,
}

impl<'a> Setup<'a> {
    /// Loads the limits and opens the input.
    ///
    /// # Errors
    /// The limits or the input cannot be read, or the plot cannot be written.
    pub(crate) fn new(config: &'a Config) -> Result<Self> {
        let reporter = Reporter::of(config);
        config.warnings().for_each(|warning| reporter.notice(&warning));
        if let Some(Shared { state: State::Name(name), .. }) = &config.shared
            && store::is_in_current_directory(name)
        {
            reporter
                .notice(&format_args!("-s {name} is a name, not the file here: for that, write -s ./{name}"));
        }
        let mut files = LimitsFiles::new(config.limits.clone(), check_for(config));
        let mut rates = files.load()?;
        if let Some(shared) = config.shared.as_ref().filter(|_| rates.iter().all(Rate::is_local)) {
            let stored = state::stored_limits(shared, &config.queue)?;
            stored.iter().try_for_each(check_for(config))?;
            rates.extend(stored);
        }
        if config.shared.is_some() {
            // A gate has those first that it shares.
            rates.sort_by_key(Rate::is_local);
        }
        reporter.limits(&rates);
        if let Some(jitter) = config.queue.jitter {
            reporter.detail(&format_args!("each release is delayed at random: --jitter {jitter}"));
        }
        let input = match config.action {
            Verb::Once(_) => InputFile::blank()?,
            _ => InputFile::open(config.input.file.as_deref())?,
        };
        if config.input.file.is_none() && !matches!(config.action, Verb::Once(_)) {
            reporter.reads_terminal();
        }
        let writes_items = match &config.action {
            Verb::DryRun { .. } => true,
            Verb::Run => config.command.is_none(),
            Verb::Audit { arrivals, .. } => arrivals.is_now,
            Verb::Once(_) => false,
        };
        ensure!(
            !writes_items || !input.is_fed_by_stdout(),
            "the input is also the output, so it would never end: write to another file"
        );
        check_written(config, &input)?;
        // It creates the file, so all other checks come first.
        config.plot.as_deref().map(plot::check).transpose()?;
        let position = InputPosition::of(&input);
        let reader = Reader::of(
            input,
            &config.input,
            header_taker(&config.input, config.selectors(&rates).cloned().collect()),
        );
        Ok(Setup { config, files, rates, reader, position, reporter })
    }

    /// Checks that no limit pauses, as nothing would end the pause.
    fn check_no_pause(&self, so: &str) -> Result<()> {
        ensure!(!self.rates.iter().any(Rate::pauses), "a limit of 0 pauses, so {so}");
        Ok(())
    }
}

/// Checks that no file is written that is the input, keeps limits, or is written to by others.
fn check_written(config: &Config, input: &InputFile) -> Result<()> {
    let state = config.shared.as_ref().and_then(|shared| match &shared.state {
        State::File(file) => Some(file.as_path()),
        State::Name(_) | State::Server(_) => None,
    });
    let written: Vec<_> = config.written().collect();
    for (at, (option, path)) in written.iter().enumerate() {
        let shown = path.display();
        ensure!(!is_at(input, path), "{option} would write to the input, {shown}: name another file");
        let keeps_limits = config.limits.files().chain(state).any(|file| are_same(file, path));
        ensure!(!keeps_limits, "{option} would overwrite {shown}, where limits are kept: name another file");
        let other = written[..at].iter().find(|(_, other)| are_same(other, path));
        ensure!(other.is_none(), "{option} would overwrite {shown} of another option: name another file");
        let is_output = match *option {
            // A command may print nothing.
            "--plot" => config.command.is_none() && is_at(Target::Stdout.fd(), path),
            _ => is_at(Target::Stdout.fd(), path) || is_at(io::stderr(), path),
        };
        ensure!(!is_output, "{option} would write to {shown}, where outputs go: name another file");
    }
    Ok(())
}

/// With `--resume`, tells which items the log shows as completed.
fn done(config: &Config) -> Result<Option<Done>> {
    let log = config.command.as_ref().and_then(|run| run.log.as_ref().zip(run.resume));
    let completed = log.map(|(log, resume)| Completed::look(log, resume)).transpose()?;
    Ok(completed.map(|mut completed| -> Done { Box::new(move |item| completed.take(item)) }))
}

/// The check of each limit, applied whenever limits are read from files.
fn check_for(config: &Config) -> impl Fn(&Rate) -> Result<()> + Send + use<> {
    let check: fn(&Rate) -> Result<()> = match config.action {
        Verb::Run | Verb::DryRun { .. } if config.command.is_none() => |rate| {
            ensure!(!rate.is_for_commands(), "{rate} is for a command: add one, such as -- curl");
            Ok(())
        },
        Verb::Once(_) => Once::check,
        _ => |_| Ok(()),
    };
    let input = config.input.clone();
    move |rate| rate.selectors().try_for_each(|selector| input.check(selector)).and_then(|()| check(rate))
}
