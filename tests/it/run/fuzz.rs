//! Runs the fuzz targets on their seeds and on inputs that once failed.
//!
//! `fuzz/run` searches for more.

#[expect(unreachable_pub, reason = "for the fuzz targets, it is a crate")]
mod checks;

use std::fs;
use std::path::Path;

use fastrand::Rng;

use crate::support::{noise, seeds};

fn check_corpus(name: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    files.iter().for_each(|file| check(&fs::read(file).unwrap()));
}

#[test]
fn a_rate_that_is_understood_is_printed_such_that_it_means_the_same() {
    check_corpus("rate", checks::rate);
}

#[test]
fn records_are_cut_alike_however_they_trickle_in() {
    check_corpus("records", checks::records);
    for seed in 0..200 {
        // Only a few values, so that delimiters are common.
        let bytes: Vec<_> = noise(seed, 60).iter().map(|byte| byte % 4).collect();
        checks::records(&bytes);
    }
}

#[test]
fn a_retry_after_header_means_what_its_value_means() {
    check_corpus("advice", checks::advice);
}

#[test]
fn a_file_is_a_job_log_or_is_left_alone() {
    check_corpus("joblog", checks::joblog);
    for seed in 0..50 {
        checks::joblog(&noise(seed, 60));
    }
}

#[test]
fn limits_that_are_understood_are_printed_such_that_they_mean_the_same() {
    check_corpus("limits", checks::limits);
}

#[test]
fn a_host_is_written_as_in_the_shortest_url_that_has_it() {
    check_corpus("host", checks::host);
}

#[cfg(feature = "sqlite")]
#[test]
fn a_state_file_is_left_as_it_is_or_keeps_the_limits_whatever_is_in_it() {
    check_corpus("state", checks::state);
    for seed in 0..50 {
        checks::state(&noise(seed, 33));
    }
}

#[test]
fn a_value_that_was_changed_is_refused_or_reads_as_it_was_written() {
    check_corpus("value", checks::value);
    for seed in seeds(3000) {
        println!("seed {seed}");
        let length = 1 + 4 * Rng::with_seed(seed).usize(0..5);
        checks::value(&noise(seed, length));
    }
}

#[cfg(feature = "redis")]
#[test]
fn whatever_a_server_answers_there_are_no_slots_but_those_asked_for() {
    check_corpus("server", checks::server);
    for honest in ["booked", "login", "noscript", "key", "many", "limits"] {
        let seed = format!("{}/tests/corpus/server/seed-{honest}", env!("CARGO_MANIFEST_DIR"));
        assert!(checks::slots(&fs::read(seed).unwrap()) > 0, "{honest}");
    }
    let mut booked = 0;
    for seed in seeds(100) {
        println!("seed {seed}");
        let mut bytes = noise(seed, 300);
        // Numbers for well-formed answers; for most, small ones.
        bytes[0] |= 1;
        if seed % 4 > 0 {
            bytes.iter_mut().skip(1).for_each(|byte| *byte %= 16);
        }
        booked += usize::from(checks::slots(&bytes) > 0);
    }
    println!("{booked} of them booked");
    assert!(booked > 0);
}

#[test]
fn what_is_found_in_json_is_what_the_tree_of_it_has() {
    check_corpus("json", checks::json);
    for seed in seeds(1500) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let mut document = document(&mut random, 4).into_bytes();
        document.insert(0, random.u8(..));
        checks::json(&document);
        for _ in 0..4 {
            checks::json(&corrupted(document.clone(), &mut random));
        }
    }
}

/// Uses few names, so that some recur, with spaces and escapes wherever they are allowed.
fn document(random: &mut Rng, depth: usize) -> String {
    let scalars = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "7",
        "-12",
        "1.0",
        "1e2",
        "1.5E-7",
        "18446744073709551615",
        "18446744073709551616",
        "1e999",
        "\"\"",
        "\"x\"",
        "\"\u{fc}\"",
        r#""\n\"\/""#,
        r#""\u00fc\ud83d\ude00""#,
        r#""\ud800""#,
    ];
    let names = ["a", "b", "0", "1", r"\u0061", "aa", ""];
    let space = |random: &mut Rng| [" ", "\n", "", ""][random.usize(..4)];
    let size = random.usize(..4);
    let mut parts: Vec<String> = Vec::new();
    match random.u8(..4) {
        0 if depth > 0 => {
            parts.resize_with(size, || document(random, depth - 1));
            format!("[{}{}]", space(random), parts.join(","))
        }
        1 | 2 if depth > 0 => {
            parts.resize_with(size, || {
                let name = names[random.usize(..names.len())];
                format!("{}\"{name}\"{}:{}", space(random), space(random), document(random, depth - 1))
            });
            format!("{{{}}}{}", parts.join(","), space(random))
        }
        _ => format!("{}{}", space(random), scalars[random.usize(..scalars.len())]),
    }
}

/// Removes, inserts or replaces one byte, or cuts the document off there.
fn corrupted(mut document: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    let at = random.usize(1..document.len());
    let byte = *random.choice(b"{}[],:\"\\0e.-u \n\x00\xff\xc3").expect("some");
    match random.u8(..4) {
        0 => drop(document.remove(at)),
        1 => document.insert(at, byte),
        2 => document[at] = byte,
        _ => document.truncate(at),
    }
    document
}
