//! Choices that are typed by name.

use anyhow::{Context, Result};

/// The one of a few choices, each with its name, that `text` names.
///
/// # Errors
/// There is none; there are these.
pub(crate) fn named<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T> {
    let known = choices.iter().find(|(name, _)| *name == text);
    known.map(|(_, choice)| *choice).with_context(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a choice");
        format!("there are {} and {last}", others.join(", "))
    })
}
