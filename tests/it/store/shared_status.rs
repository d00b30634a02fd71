//! What is left of shared limits, and which states there are.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use predicates::str::contains;
use serde_json::{Value, json};

use crate::support::{Directory, fed, numbers, text, throttle};

#[test]
fn the_status_of_a_state_says_what_is_used_and_uses_nothing() {
    let directory = Directory::new();
    let state = directory.path().join("state").display().to_string();
    let status = || {
        let output = throttle(&["-s", &state, "--status"]).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
        text(&output.stdout)
    };
    let is_absent = || {
        let told = format!("throttle: there is no state {state}: a run with limits creates it\n");
        throttle(&["-s", &state, "--status"]).assert().code(1).stdout("").stderr(told);
    };
    is_absent();
    let limit = ["-n5", "-p1h", "-s", &state];
    fed(&limit, numbers(3)).success();
    let expected = "5/1h,algo=sliding,margin=2s: 3 used, 2 free, next slot now\nlock: free\n";
    assert_eq!([status(), status()], [expected, expected]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "it leaves nothing behind");
    fed(&limit, numbers(2)).success();
    let used_up = status();
    assert!(used_up.starts_with("5/1h,algo=sliding,margin=2s: 5 used, 0 free, next slot in "), "{used_up}");
    throttle(&["-s", &state, "--reset-state"]).assert().success();
    is_absent();
}

#[test]
fn the_status_of_limits_per_key_names_the_fullest_keys() {
    let directory = Directory::new();
    let state = directory.path().join("state").display().to_string();
    let status = || text(&throttle(&["-s", &state, "--status"]).output().unwrap().stdout);
    let run = |items: &str| {
        let limits = ["-s", &state, "-r5/h,key=col:1", "-r9/h,key=col:1"];
        fed(&limits, items).success();
    };
    let shown = |one: &str, two: &str| {
        let limit =
            |n: u32, of: &str| format!("{n}/1h,algo=sliding,margin=2s,key=col:1: {n} for each key; {of}\n");
        assert_eq!(status(), limit(5, one) + &limit(9, two) + "lock: free\n");
    };
    run("");
    shown("no key in use", "no key in use");
    run("b\n");
    shown("1 key in use, the fullest: 'b' 1 of 5", "1 key in use, the fullest: 'b' 1 of 9");
    run("a\na\na\nb\n\x1b\nc\nc\nc\nc\n\n");
    shown(
        "5 keys in use, the fullest: 'c' 4 of 5, 'a' 3 of 5, 'b' 2 of 5",
        "5 keys in use, the fullest: 'c' 4 of 9, 'a' 3 of 9, 'b' 2 of 9",
    );
}

#[test]
fn what_is_remarked_on_limits_is_told_when_they_are_set() {
    let directory = Directory::new();
    let state = directory.path().join("state").display().to_string();
    let set = |rate: &str| throttle(&["-s", &state, "--set-limits", rate]).assert().success();
    set("-r5/h").stderr("");
    set("-r99.99/s").stderr(contains("99.99/s is 9999/1m40s, of which 9999 may go at once"));
    set("-r99.99/s,algo=interval").stderr("");
    set("-r5/M").stderr(contains("'5/M': M is a month"));
}

#[test]
fn a_status_is_also_json() {
    let directory = Directory::new();
    let state = |name: &str| directory.path().join(name).display().to_string();
    let status = |name: &str| -> Value {
        let output = throttle(&["-s", &state(name), "--status", "--json"]).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    fed(&["-n5", "-p1h", "-s", &state("plain")], numbers(5)).success();
    let hold = ["-s", &state("plain"), "--hold", "10m"];
    throttle(&hold).assert().success();
    // Until a hold is over, there is no next slot.
    throttle(&["-s", &state("idle"), "--set-limits", "-r5/h"]).assert().success();
    throttle(&["-s", &state("idle"), "--hold", "10m"]).assert().success();
    let idle = &status("idle")["limits"][0];
    assert!(idle["free"] == 5 && idle["next_in_seconds"].as_f64().unwrap() > 300.0, "{idle}");
    let mut plain = status("plain");
    let next = plain["limits"][0]["next_in_seconds"].take().as_f64().unwrap();
    let left = plain["held"][0]["seconds"].take().as_f64().unwrap();
    assert!(next > 0.0 && next < 3700.0 && left > 0.0 && left <= 600.0, "{next} {left}");
    let limit = json!({
        "limit": "5/1h,algo=sliding,margin=2s",
        "capacity": 5,
        "used": 5,
        "free": 0,
        "next_in_seconds": null,
    });
    let all = json!({
        "limits": [limit],
        "held": [{"key": null, "seconds": null}],
        "booked_seconds": null,
        "queued_seconds": null,
        "lock": {"pid": null, "stopped": false},
    });
    assert_eq!(plain, all);
    fed(&["-r5/h,key=col:1", "-s", &state("keyed")], "a\na\nb\n").success();
    let limit = json!({
        "limit": "5/1h,algo=sliding,margin=2s,key=col:1",
        "capacity": 5,
        "keys": 2,
        "fullest_keys": [{"key": "a", "used": 2}, {"key": "b", "used": 1}],
    });
    assert_eq!(status("keyed")["limits"], json!([limit]));
    let mut names = throttle(&["--status", "--json"]);
    names.env("XDG_STATE_HOME", directory.path()).env("HOME", directory.path());
    let names = names.output().unwrap();
    assert!(serde_json::from_slice::<Vec<String>>(&names.stdout).is_ok(), "{names:?}");
    throttle(&["-n1", "--json"]).assert().code(2);
}

#[test]
fn a_state_option_alone_lists_the_states_there_are() {
    let home = Directory::new();
    let home = home.path();
    let run = |args: &[&str]| {
        let mut command = throttle(args);
        command.env("HOME", home).env_remove("XDG_STATE_HOME").env_remove("STATE_DIRECTORY");
        command.write_stdin("1\n").output().unwrap()
    };
    assert_eq!(text(&run(&["-s"]).stdout), "");
    for name in ["github", "api"] {
        assert!(run(&["-n9", "-s", name]).status.success());
    }
    // What a service may keep in the same directory.
    let states = home.join(".local/state/throttle");
    fs::create_dir(states.join("cache")).unwrap();
    fs::write(states.join("settings"), "no state\n").unwrap();
    nix::unistd::mkfifo(&states.join("queue"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for args in [&["-s"][..], &["--status"]] {
        assert_eq!(text(&run(args).stdout), "api\ngithub\n");
    }
}

#[test]
fn a_name_that_may_be_meant_as_a_file_is_told() {
    let home = Directory::new();
    let run = |state: &str| {
        let mut command = throttle(&["-n9", "-s", state]);
        command.current_dir(home.path()).env("XDG_STATE_HOME", home.path().join("states"));
        text(&command.write_stdin("1\n").output().unwrap().stderr)
    };
    home.file("api", "no state\n");
    assert_eq!([run("api"), run("./t.db")], ["", ""]);
    let told = "throttle: -s t.db is a name, not the file here: for that, write -s ./t.db\n";
    assert_eq!(run("t.db"), told);
    // A service may work where its states are.
    let mut service = throttle(&["-n9", "-s", "t.db"]);
    service.current_dir(home.path()).env_remove("XDG_STATE_HOME").env("STATE_DIRECTORY", home.path());
    service.write_stdin("1\n").assert().success().stderr("");
}

#[test]
fn a_state_in_a_directory_of_a_group_is_for_the_group() {
    let directory = Directory::new();
    let shared = directory.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o2770)).unwrap();
    let state = shared.join("state");
    fed(&["-n9", "-s", &state.display().to_string()], "1\n").success();
    assert_eq!(mode(&state), 0o660);
    let own = directory.path().join("own");
    fed(&["-n9", "-s", &own.display().to_string()], "1\n").success();
    assert_eq!(mode(&own), 0o600);
}
