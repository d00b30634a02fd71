//! What holds for any bytes holds for those that a fuzzer starts from, and for those that it once found it not to.
//!
//! `fuzz/run` searches for more.

#[expect(unreachable_pub, reason = "for the fuzz targets, it is a crate")]
mod checks;

use std::fs;
use std::path::Path;

use crate::support::noise;

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
        // Few values, so that delimiters are common.
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
