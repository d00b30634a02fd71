//! What packagers need is in the program.

use std::fs;
use std::path::Path;

use crate::support::{text, throttle};

#[test]
fn the_version_tells_commit_and_features() {
    let told = text(&throttle(&["-V"]).assert().success().get_output().stdout);
    assert_eq!(told, text(&throttle(&["--version"]).output().unwrap().stdout));
    let [version, features] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    let commit = version.strip_prefix(concat!("throttle ", env!("CARGO_PKG_VERSION"))).unwrap();
    let commit = commit.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    // An archive may not know its commit.
    assert!(commit.is_none_or(|commit| u64::from_str_radix(commit, 16).is_ok()), "{version}");
    assert_eq!(commit.is_some(), version.contains('('));
    let compiled_in = [cfg!(feature = "sqlite"), cfg!(feature = "redis"), cfg!(feature = "tls")];
    let compiled_in = compiled_in.map(|is_in| if is_in { '+' } else { '-' });
    let [sqlite, redis, tls] = compiled_in;
    assert_eq!(features, format!("{sqlite}sqlite {redis}redis {tls}tls"));
}

#[test]
fn pages_and_completions_are_in_the_program() {
    let files = [
        ("man", "man/throttle.1"),
        ("state", "man/throttle-state.7"),
        ("reports", "man/throttle-reports.7"),
        ("cookbook", "man/throttle-cookbook.7"),
        ("complete-bash", "completions/throttle.bash"),
        ("complete-zsh", "completions/_throttle"),
        ("complete-fish", "completions/throttle.fish"),
    ];
    for (name, path) in files {
        let printed = throttle(&["--generate", name]).assert().success().get_output().stdout.clone();
        let file = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        assert!(text(&printed) == file, "{name} is not {path}");
    }
    let refused = throttle(&["--generate", "nonsense"]).assert().code(2).get_output().stderr.clone();
    assert!(files.iter().all(|(name, _)| text(&refused).contains(name)), "{}", text(&refused));
}
