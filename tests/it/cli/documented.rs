//! What has a name in the options, logs and reports is described under this name on the pages.

use std::fs;

use serde_json::Value;
use throttle::config::{RateText, Selector};

use crate::support::{Directory, fed, text, throttle};

const OPTIONS: &str = include_str!("../../../man/throttle.1");
const REPORTS: &str = include_str!("../../../man/throttle-reports.7");
const TOPIC: &str = include_str!("../../../src/cli/help/rates.txt");

const COMPLETIONS: [&str; 3] = [
    include_str!("../../../completions/throttle.bash.in"),
    include_str!("../../../completions/_throttle.in"),
    include_str!("../../../completions/throttle.fish.in"),
];

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
    fed(&args, "a\nb\n").success();
    fs::read_to_string(file).expect("a file")
}

/// `throttle --help` without its line breaks.
fn help() -> String {
    let help = throttle(&["--help"]).output().unwrap().stdout;
    text(&help).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn members(object: &Value) -> Vec<&String> {
    object.as_object().expect("an object").keys().collect()
}

#[test]
fn each_option_of_a_rate() {
    let help = help();
    for option in RateText::OPTIONS {
        let is_described = section(OPTIONS, "RATES").contains(&format!("\n\\fB{option}="));
        assert!(is_described, "describe {option}= in man/throttle.1.in, RATES");
        assert!(TOPIC.contains(&format!("\n  {option}=")), "describe {option}= in src/cli/help/rates.txt");
        assert!(help.contains(&format!(" {option}=")), "describe {option}= in src/cli/args/limits.rs, rate");
    }
}

/// The selectors are those that a message names.
#[test]
fn each_selector() {
    let message = "".parse::<Selector>().unwrap_err().to_string();
    let known = message.strip_prefix("use ").and_then(|rest| rest.split(" or, ").next()).expect("a list");
    for selector in known.split(", ") {
        let name = selector.split(' ').next().unwrap_or_default().trim_end_matches(char::is_uppercase);
        let is_described = section(OPTIONS, "SELECTORS").contains(&format!("\n\\fB{name}"));
        assert!(is_described, "describe {name} in man/throttle.1.in, SELECTORS");
        let (word, files) = (name.trim_end_matches(':'), COMPLETIONS);
        let completes = |text: &str| text.split(|c: char| !c.is_alphabetic()).any(|other| other == word);
        let all_do = name.starts_with('.') || files.into_iter().all(completes);
        assert!(all_do, "complete {name} in completions/*.in");
    }
}

#[test]
fn each_column_of_the_job_log() {
    let log = written("--log=", &[]);
    let header = log.lines().next().expect("a header");
    check("LOG OF COMMANDS", header.split('\t'));
    assert!(help().contains(&header.replace('\t', ", ")), "list the columns in src/cli/args/report.rs, log");
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
fn each_member_of_an_audit() {
    let args = ["-q", "-r9/s", "-r9/s,key=col:1", "--audit", "--stats=json"];
    let output = throttle(&args).write_stdin("1\n2\n").output().unwrap();
    let audit: Value = serde_json::from_str(&text(&output.stderr)).expect("JSON");
    let limit = &audit["limits"][1];
    for object in [&audit, limit, &limit["worst_window"], &limit["worst_keys"][0]] {
        check("AUDITS", members(object));
    }
}

#[test]
fn each_metric() {
    let page = written("--stats=prom:", &[]);
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    check("METRICS FOR PROMETHEUS", names);
}
