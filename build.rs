//! Finds out of which commit this is, for `throttle -V`, and makes the released program smaller.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=THROTTLE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = env::var("THROTTLE_COMMIT").ok().or_else(packed).or_else(checked_out);
    println!("cargo::rustc-env=THROTTLE_COMMIT={}", commit.unwrap_or_default());
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        if packs_relocations() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
        let is = |name, what| env::var(name).is_ok_and(|value| value == what);
        if is("CARGO_CFG_TARGET_OS", "linux") {
            drop_unwind_tables();
            if is("CARGO_CFG_TARGET_ENV", "gnu") && env::var("HOST") == env::var("TARGET") {
                link_unwinder();
            }
        }
    }
}

/// They are a twelfth of the program, which aborts where others would unwind, and is stripped of the names that a
/// backtrace would have. rustc can leave them out neither of one profile only, nor of what it brings along. Without
/// them the unwinder aborts, so none is asked for a backtrace: see `main.rs`.
fn drop_unwind_tables() {
    const DISCARD: &str = "SECTIONS { /DISCARD/ : { *(.eh_frame .eh_frame.* .gcc_except_table .gcc_except_table.*) } } \
                           INSERT AFTER .text;\n";
    let script = Path::new(&env::var_os("OUT_DIR").expect("cargo tells")).join("discard.ld");
    fs::write(&script, DISCARD).expect("the directory is there");
    println!("cargo::rustc-link-arg-bins=-T{}", script.display());
    println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr,--wrap=_Unwind_Backtrace");
}

/// Loading `libgcc_s` takes a tenth of the time that the program needs to start.
fn link_unwinder() {
    let file = told("cc", &["-print-file-name=libgcc_eh.a"]).map(PathBuf::from);
    if let Some(directory) = file.as_deref().filter(|file| file.is_absolute()).and_then(Path::parent) {
        println!("cargo::rustc-link-search=native={}", directory.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Packed relocations make the program a twentieth smaller, but need glibc 2.36 where it is linked and where it runs.
/// `RUSTFLAGS` that mention them take precedence.
fn packs_relocations() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let libc = || told("getconf", &["GNU_LIBC_VERSION"])?.strip_prefix("glibc 2.")?.parse().ok();
    let newer = libc().is_some_and(|minor: u32| minor >= 36);
    newer && env::var("HOST") == env::var("TARGET") && !flags.contains("pack-relative-relocs")
}

/// What `cargo package` noted down.
fn packed() -> Option<String> {
    let noted = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let commit =
        noted.split('"').find(|word| word.len() >= 40 && word.bytes().all(|b| b.is_ascii_hexdigit()))?;
    Some(commit[..9].to_owned())
}

/// That of this directory, not of one above it in which it may lie.
fn checked_out() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root).canonicalize().ok()? != env::current_dir().ok()?.canonicalize().ok()? {
        return None;
    }
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "--short=9", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    told("git", args)
}

fn told(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let told = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| told.trim().to_owned())
}
