//! What has a name in the options, logs and reports is described under this name on the pages.

use std::fs;

use serde_json::Value;
use throttle::config::RateText;

use crate::support::{Directory, text, throttle};

const OPTIONS: &str = include_str!("../../man/throttle.1");
const REPORTS: &str = include_str!("../../man/throttle-reports.7");
const TOPIC: &str = include_str!("../../src/cli/help/rates.txt");

/// The section of a page with this heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let mut sections = page.split("\n.SH ").filter_map(|section| section.strip_prefix(heading));
    sections.next().unwrap_or_else(|| panic!("no section {heading}"))
}

/// Checks that each name is described in a section of `man/throttle-reports.7`.
fn check<T: AsRef<str>>(heading: &str, names: impl IntoIterator<Item = T>) {
    let section = section(REPORTS, heading);
    for name in names {
        let is_described = section.contains(&format!("\\fB{}\\fR", name.as_ref()));
        assert!(is_described, "describe {} in man/throttle-reports.7, {heading}", name.as_ref());
    }
}

/// The lines of a file that a run with `option` writes, of two items and a limit with keys.
fn written(option: &str, more: &[&str]) -> String {
    let directory = Directory::new();
    let file = directory.path().join("file");
    let option = format!("{option}{}", file.display());
    let args = ["-q", "-r9/s", "-r9/s,key=col:1", &option].into_iter().chain(more.iter().copied());
    let args: Vec<_> = args.chain(["--", "true"]).collect();
    throttle(&args).write_stdin("a\nb\n").assert().success();
    fs::read_to_string(file).expect("a file")
}

fn members(object: &Value) -> Vec<&String> {
    object.as_object().expect("an object").keys().collect()
}

#[test]
fn each_option_of_a_rate() {
    for option in RateText::OPTIONS {
        let is_described = section(OPTIONS, "RATES").contains(&format!("\n\\fB{option}="));
        assert!(is_described, "describe {option}= in man/throttle.1.in, RATES");
        assert!(TOPIC.contains(&format!("\n  {option}=")), "describe {option}= in src/cli/help/rates.txt");
    }
}

#[test]
fn each_column_of_the_job_log() {
    let log = written("--log=", &[]);
    check("LOG OF COMMANDS", log.lines().next().expect("a header").split('\t'));
    for more in [&["--log-format=json"][..], &["--log-format=json", "-B2"]] {
        let line = written("--log=", more).lines().next().map(str::to_owned).expect("a line");
        check("LOG OF COMMANDS", members(&serde_json::from_str(&line).expect("JSON")));
    }
}

#[test]
fn each_member_of_the_statistics() {
    let output = throttle(&["-q", "-r9/s", "--stats=json"]).write_stdin("a\n").output().unwrap();
    let stats: Value = serde_json::from_str(&text(&output.stderr)).expect("JSON");
    check("STATISTICS AS JSON", members(&stats));
    check("STATISTICS AS JSON", members(&stats["limits"][0]));
}

#[test]
fn each_metric() {
    let page = written("--stats=prom:", &[]);
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    check("METRICS FOR PROMETHEUS", names);
}
