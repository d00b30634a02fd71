//! Choices that are typed by name.

use anyhow::{Context, Result};

/// A choice among a few, each of which has a name.
pub trait Named: Copy + 'static {
    /// All of them.
    const NAMES: &'static [(&'static str, Self)];

    /// The one with this name.
    ///
    /// # Errors
    /// There is none; there are these.
    fn named(text: &str) -> Result<Self> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, choice)| *choice).with_context(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            let (last, others) = names.split_last().expect("a choice");
            format!("there are {} and {last}", others.join(", "))
        })
    }
}
