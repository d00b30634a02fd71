//! Why something is no state, in words.

use super::StoreError;
use crate::exit::Exit;

/// Why what is kept must not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It does not look as if it ever was a state.
    Foreign,
    /// It was altered.
    Damaged,
    /// It is whole, but written by an incompatible version.
    Format(u32),
}

impl Flaw {
    /// The refusal of a state, called `name` in messages, and what to do about it. The user names it `state` after
    /// `-s`, as in [`command`].
    pub(super) fn refusal(self, name: &str, state: Option<&str>) -> StoreError {
        let reset = command("--reset-state", state);
        let why = match self {
            Flaw::Foreign => {
                "this is not a state of throttle, and is left unchanged: use another name, or remove it"
                    .to_owned()
            }
            Flaw::Damaged => {
                format!("this state is damaged, and is left unchanged: start a new one with '{reset}'")
            }
            Flaw::Format(format) => format!(
                "this state is in format {format}, of another version of throttle: use that version, or start \
                 a new state with '{reset}'"
            ),
        };
        StoreError::new(Exit::BadState, name, why)
    }
}

/// A command with this option, for what the user names `state` after `-s`; without, if that may not be on the command
/// line.
pub(super) fn command(option: &str, state: Option<&str>) -> String {
    let state = state.map(|state| format!(" -s {state}")).unwrap_or_default();
    format!("throttle {option}{state}")
}
