//! Cases taken from other rate limiters' tests, to the nanosecond.

use serde_json::Value;

use crate::support::{text, throttle};

#[test]
fn every_vector_comes_out_to_the_nanosecond() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../../vectors.json")).expect("JSON");
    let wrong: Vec<_> = vectors.iter().filter_map(check).collect();
    assert!(!vectors.is_empty());
    assert!(wrong.is_empty(), "{} vectors differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The differences, if there are any.
fn check(vector: &Value) -> Option<String> {
    let args = strings(&vector["args"]);
    let output = throttle(&args).write_stdin(lines(&vector["stdin"])).output().expect("it runs");
    let found = (output.status.code().map(i64::from), text(&output.stdout));
    let wanted = (vector["exit"].as_i64(), lines(&vector["stdout"]));
    (found != wanted).then(|| format!("{} {args:?}\nwanted {wanted:?}\nfound  {found:?}", vector["id"]))
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|item| item.as_str().expect("a string")).collect()
}

fn lines(list: &Value) -> String {
    strings(list).into_iter().flat_map(|line| [line, "\n"]).collect()
}
