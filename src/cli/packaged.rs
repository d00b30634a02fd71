//! The version of the program, and the pages and completions that packages need.

use std::sync::LazyLock;

/// Printed by `-V` after the name: version, commit and features.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = Some(env!("THROTTLE_COMMIT")).filter(|commit| !commit.is_empty());
    let commit = commit.map_or(String::new(), |commit| format!(" ({commit})"));
    let features = [
        ("sqlite", cfg!(feature = "sqlite")),
        ("redis", cfg!(feature = "redis")),
        ("tls", cfg!(feature = "tls")),
    ];
    let features = features.map(|(name, is_in)| format!("{}{name}", if is_in { '+' } else { '-' }));
    format!("{}{commit}\n{}", env!("CARGO_PKG_VERSION"), features.join(" "))
});

/// Printed by `--generate`, by name.
pub(super) const GENERATED: &[(&str, &str)] = &[
    ("man", include_str!("../../man/throttle.1")),
    ("state", include_str!("../../man/throttle-state.7")),
    ("reports", include_str!("../../man/throttle-reports.7")),
    ("cookbook", include_str!("../../man/throttle-cookbook.7")),
    ("complete-bash", include_str!("../../completions/throttle.bash")),
    ("complete-zsh", include_str!("../../completions/_throttle")),
    ("complete-fish", include_str!("../../completions/throttle.fish")),
];
