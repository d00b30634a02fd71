//! Each example in the manual pages and the README runs, and does what it says.

mod expected;
mod setting;
mod text;

use std::sync::Mutex;
use std::thread;

use self::expected::{EXPECTED, Example, Shows};
use self::setting::{Programs, Setting};
use crate::support;

const PASSWORD: &str = "secret";

/// Examples with this host need a server; they have a test of their own.
const REMOTE: &str = "quota.internal";

#[test]
fn each_example_does_what_it_says() {
    let is_meant =
        |script: &String| !script.contains(REMOTE) && (cfg!(feature = "sqlite") || !script.contains("-s "));
    let (programs, scripts) = (Programs::new(), Mutex::new(text::scripts().into_iter().filter(is_meant)));
    let next = || scripts.lock().expect("no panic").next();
    // Some of them wait for a second.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(script) = next() {
                    check(&script, &Setting::new(&programs));
                }
            });
        }
    });
}

fn check(script: &str, setting: &Setting) {
    let example = EXPECTED.iter().find(|example| script.contains(example.part)).unwrap_or(&Example::PLAIN);
    if !example.needs.is_empty() && support::needs_program(example.needs).is_none() {
        return;
    }
    example.inputs.iter().for_each(|(name, content)| setting.file(name, content));
    assert!(setting.run(example.before).status.success(), "{script}: before it");
    let (from, to) = example.changed;
    let output = setting.run(&script.replace(from, to));
    let (stdout, stderr) = (support::text(&output.stdout), support::text(&output.stderr));
    assert!(output.status.success(), "{script}: {}: {stderr}", output.status);
    let is_told = example.shows.iter().any(|shows| matches!(shows, Shows::Error(_)));
    assert!(is_told || stderr.is_empty(), "{script}: {stderr}");
    let calls = setting.calls();
    for shows in example.shows {
        match *shows {
            Shows::Output(whole) => assert_eq!(stdout, whole, "{script}"),
            Shows::InOutput(part) => assert!(stdout.contains(part), "{script}: {stdout}"),
            Shows::Error(part) => assert!(stderr.contains(part), "{script}: {stderr}"),
            Shows::Calls(all) => assert_eq!(sorted(&calls), sorted(all), "{script}"),
            Shows::File(name, part) => {
                let content = setting.read(name).unwrap_or_else(|| panic!("{script}: no {name}"));
                assert!(content.contains(part), "{script}: {name}");
            }
        }
    }
    let shown = stdout + &calls;
    for item in text::input_of(script).iter().flat_map(|name| setting.items(name)) {
        assert!(example.loses_items || shown.contains(&item), "{script}: where is {item}?\n{shown}");
    }
}

/// Some examples run commands side by side.
fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

/// One state has one limit in all documents.
#[cfg(feature = "sqlite")]
#[test]
fn examples_with_one_state_can_be_tried_one_after_the_other() {
    let programs = Programs::new();
    let setting = Setting::new(&programs);
    let scripts: Vec<_> = text::scripts().into_iter().filter(|script| script.contains("-s api ")).collect();
    assert!(scripts.len() > 4, "{scripts:?}");
    for script in scripts {
        let output = setting.run(&script);
        assert!(output.status.success(), "{script}: {}", support::text(&output.stderr));
    }
}

#[test]
fn what_is_expected_is_of_some_example() {
    let scripts = text::scripts();
    for Example { part, .. } in EXPECTED {
        assert!(scripts.iter().any(|script| script.contains(part)), "there is no example with {part}");
    }
}

/// Examples that share limits between machines, without their TLS.
#[cfg(feature = "redis")]
#[test]
fn each_example_with_a_server_does_what_it_says() {
    use crate::store::redis::server::RedisServer;

    let Some(server) = RedisServer::start_with(&["--requirepass", PASSWORD]) else { return };
    let address = format!("redis://:$PASSWORD@127.0.0.1:{}", server.port);
    let remote: Vec<_> = text::scripts().into_iter().filter(|script| script.contains(REMOTE)).collect();
    assert_eq!(remote.len(), 1, "{remote:?}");
    for script in remote {
        let script = script.replace(&format!("rediss://:$PASSWORD@{REMOTE}"), &address);
        check(&script, &Setting::new(&Programs::new()));
    }
}
