//! Values that are chosen by name.

use anyhow::{Context, Result};

/// The choice with the name `text`.
///
/// # Errors
/// There is no such choice. The error lists the names.
pub(crate) fn named<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T> {
    let known = choices.iter().find(|(name, _)| *name == text);
    known.map(|(_, choice)| *choice).with_context(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a choice");
        format!("use {} or {last}", others.join(", "))
    })
}
