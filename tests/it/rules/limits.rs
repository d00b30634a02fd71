//! Limits as services have them: per key, by cost, several at once, and enforced.

use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};
use throttle::time::SECOND;

use crate::simulated::{Simulation, block};
use crate::support::{
    Directory, Running, UNLIMITED, fed, keeps_its_pace_after_a_stop, numbers, sh, text, throttle, with_mount,
};

/// The output of a dry run as `INSTANT ITEM; INSTANT ITEM`, with no more decimals than needed.
fn dry_run(args: &[&str], items: &[&str]) -> String {
    let output = throttle(&[&["--dry-run"], args].concat()).write_stdin(lines(items)).output().unwrap();
    text(&output.stdout).lines().map(short).collect::<Vec<_>>().join("; ")
}

fn lines(items: &[&str]) -> String {
    items.iter().flat_map(|item| [item, "\n"]).collect()
}

fn short(line: &str) -> String {
    let (instant, item) = line.split_once('\t').expect("a tab");
    format!("{} {item}", instant.trim_end_matches('0').trim_end_matches('.'))
}

#[test]
fn a_key_is_selected_in_many_ways() {
    // The first two items have the same key, the third has another.
    let table: &[(&[&str], [&str; 3])] = &[
        (&["-K", "col:2"], ["a k", "b  k", "c l"]),
        (&["-K", "col:2", "-F", ","], ["a,k k,x", "b,k k", "c,k"]),
        (&["-K", "col:2", "-F", "::"], ["a::k", "b::k::x", "c::l"]),
        (&["-K", "col:2", "-F", "\\t"], ["a\tk 1", "b\tk 1", "c\tk 2"]),
        (&["-K", "host"], ["http://k.org/1", "https://u@K.ORG:8080/2", "http://l.org"]),
        (&["-K", ".user.id"], [r#"{"user":{"id":7}}"#, r#"{"n":1,"user":{"id":7}}"#, r#"{"user":{"id":8}}"#]),
        (&["-K", ".0"], ["[7,1]", "[7,2]", "[8,1]"]),
        (&["-K", "re:id=(\\w+)"], ["x id=7", "id=7 y", "id=8"]),
        (&["-K", "re:^[a-z]+"], ["k1", "k2", "l1"]),
        (&["-K", "bytes"], ["aa", "bb", "c"]),
    ];
    for (args, items) in table {
        let [one, two, three] = items;
        let wanted = format!("0 {one}; 0 {three}; 1 {two}");
        assert_eq!(dry_run(&[&["-n1"], *args].concat(), items), wanted, "{args:?}");
    }
}

#[test]
fn a_cost_is_selected_in_many_ways() {
    // They cost 2, 2 and 1.
    let table: &[(&[&str], [&str; 3])] = &[
        (&["-c", "col:2"], ["a 2", "b  2 x", "c 1"]),
        (&["-c", "col:1", "-F", ";"], ["2;a b", "2", "1;"]),
        (&["-c", "bytes"], ["a", "b", ""]),
        (&["-c", ".usage.tokens"], [r#"{"usage":{"tokens":2}}"#; 3]),
        (&["-c", "re:[0-9]+"], ["a2b", "2", "c1"]),
        (&["-c", "re:cost=([0-9]+)"], ["9 cost=2", "cost=2", "cost=1"]),
    ];
    for (args, items) in table {
        let [one, two, three] = items;
        let last = if one == three { 2 } else { 1 };
        let wanted = format!("0 {one}; 1 {two}; {last} {three}");
        assert_eq!(dry_run(&[&["-n3"], *args].concat(), items), wanted, "{args:?}");
    }
}

#[test]
fn what_has_no_key_has_the_empty_key() {
    assert_eq!(dry_run(&["-n1", "-K", "col:2"], &["a", "b k", "c", "d"]), "0 a; 0 b k; 1 c; 2 d");
    assert_eq!(dry_run(&["-n1", "-K", "host"], &["not a URL", "nor this"]), "0 not a URL; 1 nor this");
}

#[test]
fn a_limit_for_one_key_only_leaves_the_others_alone() {
    let items = &["1 a", "2 a", "3 b", "4 b", "5 b"];
    let limits = &["-r", "2/s,key=col:2,only=b", "-r", "1/m,key=col:2,only=c"];
    assert_eq!(dry_run(limits, items), "0 1 a; 0 2 a; 0 3 b; 0 4 b; 1 5 b");
    throttle(&["-r1/s,only=b"]).assert().code(2).stderr(contains("add key="));
}

#[test]
fn a_regular_expression_and_a_value_may_hold_commas() {
    let limits = &["-r", "1/s,key=re:[a-z]{1,2},margin=1s", "-r", "1/m,key=col:2,only=x,y"];
    assert_eq!(dry_run(limits, &["ab1", "ab2", "a x,y", "b x,y"]), "0 ab1; 0 a x,y; 2 ab2; 60 b x,y");
}

#[test]
fn a_blocked_key_holds_up_no_other() {
    let items = &["1 a", "2 a", "3 a", "4 b", "5 c"];
    assert_eq!(dry_run(&["-n1", "-K", "col:2"], items), "0 1 a; 0 4 b; 0 5 c; 1 2 a; 2 3 a");
    assert_eq!(dry_run(&["-n1", "-K", "col:2", "--in-order"], items), "0 1 a; 1 2 a; 2 3 a; 2 4 b; 2 5 c");
    // With room for two, the third item of a blocked key is read only when the second leaves.
    let small = &["-n1", "-K", "col:2", "--lookahead", "2"];
    assert_eq!(dry_run(small, items), "0 1 a; 1 2 a; 1 4 b; 1 5 c; 2 3 a");
}

/// While it waits to be let in, the history of its key before its arrival is kept.
#[test]
fn an_item_for_which_there_is_no_room_finds_the_limits_as_they_were() {
    let limit = &["-r1/s,algo=bucket,burst=1,cost=col:3,key=col:2", "--lookahead=1", "--arrivals=col:1"];
    let items = &["0 a 1", "0 b 1", "0 b 2", "0 b 3", "0.5 a 7"];
    assert_eq!(dry_run(limit, items), "0 0 a 1; 0 0 b 1; 2 0 b 2; 5 0 b 3; 7 0.5 a 7");
}

#[test]
fn requests_and_tokens_are_limited_together() {
    let limits = &["-r", "2/s", "-r", "10/m,cost=col:1"];
    assert_eq!(dry_run(limits, &["4 a", "4 b", "2 c", "1 d"]), "0 4 a; 0 4 b; 1 2 c; 60 1 d");
}

#[test]
fn a_fraction_of_an_item_per_second_is_exact() {
    let items = ["a", "b", "c", "d"];
    assert_eq!(dry_run(&["-r", "1.5/s"], &items), "0 a; 0 b; 0 c; 2 d");
    assert_eq!(dry_run(&["-r", "1.5 per second,algo=bucket,burst=1"], &items[..2]), "0 a; 0.666666667 b");
}

#[test]
fn a_month_that_may_be_minutes_warns() {
    let month = "throttle: '100/M': M is a month, so the period is 1month; for minutes, write 100/m\n";
    fed(&["-r", "100/M"], "a\n").success().stdout("a\n").stderr(month);
    fed(&["-q", "-r", "100/M"], "a\n").success().stderr("");
}

/// A record, and why its cost is invalid.
#[test]
fn a_bad_cost_ends_the_run_and_says_where_and_why() {
    let table: &[(&str, &str, &str)] = &[
        ("col:2", "x", "item 3: has no col:2 for its cost"),
        ("col:2", "x -1", "item 3: its cost, col:2, is '-1', not a whole number"),
        ("col:2", "x 1.5", "item 3: its cost, col:2, is '1.5', not a whole number"),
        ("col:2", "x \u{1b}[2J", "item 3: its cost, col:2, is $'\\x1b[2J', not a whole number"),
        ("re:[0-9]+", "x", "item 3: has no re:[0-9]+ for its cost"),
        (".n", "{}", "item 3: has no .n for its cost"),
        (
            "bytes",
            "0123456789012345678",
            "item 3: its cost of 20 is more than the limit 19/1s,algo=sliding,cost=bytes ever admits (it waits \
             with algo=bucket; with -s, algo=interval)",
        ),
    ];
    for (selector, bad, why) in table {
        let good = lines(&["x 1 {}", "y 2"].map(|item| if *selector == ".n" { r#"{"n":1}"# } else { item }));
        let dollar = if bad.contains('\x1b') { "$" } else { "" };
        for mode in ["wait", "drop", "latest"] {
            let released =
                if mode == "latest" { good.lines().last().map(|line| format!("{line}\n")) } else { None };
            fed(&["-q", "-n19", "-c", selector, "--on-limit", mode], format!("{good}{bad}\nz 1\n"))
                .code(1)
                .stdout(released.unwrap_or_else(|| good.clone()))
                .stderr(format!("throttle: {why}: {dollar}'{}'\n", bad.replace('\x1b', "\\x1b")));
        }
    }
}

#[test]
fn a_cost_too_dear_for_a_window_is_named_and_a_bucket_serves_it_later() {
    let items = &["1 a", "5 b", "1 c"];
    for algorithm in ["sliding", "fixed"] {
        let limit = format!("3/s,algo={algorithm},cost=col:1");
        let named = format!("item 2: its cost of 5 is more than the limit 3/1s,algo={algorithm},cost=col:1");
        fed(&["-r9/s", "-r", &limit], lines(items)).code(1).stdout("1 a\n").stderr(contains(named));
    }
    assert_eq!(dry_run(&["-r1/s,algo=bucket,burst=2,cost=col:1"], items), "0 1 a; 4 5 b; 5 1 c");
    assert_eq!(dry_run(&["-r1/s,algo=interval,cost=col:1"], items), "0 1 a; 1 5 b; 6 1 c");
}

mod ancestors {
    //! Faults of this program's predecessors.

    use super::*;

    /// It released items at 0, 501 and 1001 ms, and others in between.
    #[test]
    fn three_a_second_are_three_in_any_second() {
        let items = &["0 a", "0 b", "0.5 c", "0.5 d", "0.5 e"];
        let wanted = "0 0 a; 0 0 b; 0.5 0.5 c; 1 0.5 d; 1 0.5 e";
        assert_eq!(dry_run(&["-r3/s", "--arrivals", "col:1"], items), wanted);
    }

    /// Its successor kept the order and the overall limit, but broke the channel's.
    #[test]
    fn order_breaks_no_channels_limit() {
        let limits = &["-r2/s", "-r1/s,key=col:2,only=b"][..];
        let items = &["1 b", "2 b", "3 a", "4 a"];
        assert_eq!(dry_run(limits, items), "0 1 b; 0 3 a; 1 2 b; 1 4 a");
        assert_eq!(dry_run(&[limits, &["--in-order"]].concat(), items), "0 1 b; 1 2 b; 1 3 a; 2 4 a");
    }

    /// It took the tokens first, and then checked whether there were enough.
    #[test]
    fn a_refused_item_takes_no_tokens() {
        let drop = &["-r3/s,algo=bucket,cost=col:1", "--on-limit", "drop"];
        assert_eq!(dry_run(drop, &["2 a", "2 b", "1 c", "1 d"]), "0 2 a; 0 1 c");
        // Nor any of another limit that would have admitted it.
        let both = &["-r2/s", "-r1/s,key=col:2", "--on-limit", "drop"];
        assert_eq!(dry_run(both, &["1 a", "2 a", "3 b", "4 c"]), "0 1 a; 0 3 b");
    }

    /// It waited forever.
    #[test]
    fn an_oversized_item_waits_for_as_long_as_it_takes() {
        let bucket = &["-r1/s,algo=bucket,burst=2,cost=bytes"];
        assert_eq!(dry_run(bucket, &["123456789", "1"]), "8 123456789; 10 1");
    }

    /// It counted the windows that had passed, and made up for them.
    #[test]
    fn a_fixed_window_does_not_catch_up() {
        let idle = &["0 a", "10 b", "10 c", "10 d", "10 e"];
        let wanted = "0 0 a; 10 10 b; 10 10 c; 11 10 d; 11 10 e";
        assert_eq!(dry_run(&["-n2", "-Afixed", "--arrivals", "col:1"], idle), wanted);
        keeps_its_pace_after_a_stop(&["-n1", "-p200ms", "-Afixed"]);
    }
}

#[test]
fn what_is_dropped_is_counted() {
    fed(&["-r2/h", "--on-limit", "drop", "-v"], numbers(5))
        .success()
        .stdout("1\n2\n")
        .stderr(contains("2 of 5 items released").and(contains(", 3 refused")));
}

#[test]
fn what_is_dropped_holds_up_nothing_of_another_key() {
    fed(&["-r1/h,key=col:2", "--on-limit=drop"], "1 a\n2 a\n3 b\n4 a\n5 c\n")
        .success()
        .stdout("1 a\n3 b\n5 c\n");
}

/// Writes one item and, once that has left, three together. Returns the next line, which is not early.
fn next_after_one_and_three(args: &[&str]) -> String {
    let started = Instant::now();
    let mut running = Running::fed(&[&["-n1", "-p300ms", "--on-limit=latest", "-v"], args].concat(), "1\n");
    assert_eq!(running.line(), "1\n");
    running.write("2\n3\n4\n");
    let next = running.line();
    assert!(started.elapsed() >= Duration::from_millis(300));
    let told = contains("2 of 4 items released").and(contains(", 2 refused"));
    running.ends().success().stdout("").stderr(told);
    next
}

#[test]
fn only_the_latest_waits() {
    assert_eq!(next_after_one_and_three(&[]), "4\n");
    assert_eq!(next_after_one_and_three(&["--", "echo"]), "4\n");
}

/// As a build does that is to start once nothing has changed for a while.
#[test]
fn the_latest_waits_for_a_pause_with_a_batch_that_lingers() {
    fed(
        &["-n9", "-B2,3s", "--on-limit=latest", "--dry-run", "--arrivals=col:1"],
        "0 a\n2 b\n4 c\n8 d\n12 e\n",
    )
    .success()
    .stdout("7.000000000\t4 c\n11.000000000\t8 d\n12.000000000\t12 e\n");
}

#[test]
fn only_the_latest_waits_while_a_command_runs() {
    let directory = Directory::new();
    let go = directory.path().join("go");
    let wait = format!("echo $0; while ! test -e '{}'; do sleep 0.01; done", go.display());
    let mut running = Running::fed(&[UNLIMITED, "--on-limit=latest", "--", "sh", "-c", &wait], "1\n");
    assert_eq!(running.line(), "1\n");
    running.write("2\n3\n4\n");
    directory.file("go", "");
    assert_eq!(running.line(), "4\n");
    assert_eq!(text(&running.finish().stdout), "");
}

#[test]
fn an_item_too_early_ends_an_enforced_run() {
    for (limit, status, released) in [("-n3", 0, "1\n2\n3\n"), ("-n2", 75, "1\n2\n"), ("-n1", 75, "1\n")] {
        let message = match status {
            0 => is_empty().boxed(),
            _ => starts_with("throttle: item ").and(contains(" too early for the limit")).boxed(),
        };
        fed(&[limit, "-p1h", "--on-limit", "fail"], numbers(3)).code(status).stdout(released).stderr(message);
    }
    let script = "seq 9 | throttle -n5 -p1h --on-limit fail >/dev/null 2>&1 && echo kept || echo $?";
    sh(script).assert().stdout("75\n");
}

#[test]
fn an_old_log_is_audited() {
    let log = "1700000000.1 GET a\n1700000000.6 GET b\n1700000001.0999 GET a\n1700000002 GET a\n";
    let audit = |limit: &str, mode: &str| {
        let args = ["--dry-run", "--arrivals", "col:1", "-r", limit, "--on-limit", mode];
        let output = throttle(&args).write_stdin(log).output().unwrap();
        let released = text(&output.stdout).lines().count();
        (output.status.code().unwrap(), released, text(&output.stderr))
    };
    assert_eq!(audit("3/s", "fail"), (0, 4, String::new()));
    let (status, released, told) = audit("2/s", "fail");
    assert_eq!((status, released), (75, 2));
    assert!(
        told.starts_with("throttle: item 3 '1700000001.0999 GET a' came 100us too early for the limit 2/1s"),
        "{told}"
    );
    assert_eq!(audit("1/s,key=col:3", "fail").0, 75);
    assert_eq!(audit("2/s", "drop"), (0, 3, String::new()));
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn utc_needs_no_database_of_time_zones() {
    let table = [
        ("", "tz=UTC", "limit 5/1day,algo=calendar,tz=UTC\n"),
        ("TZ=UTC", "tz=local", "limit 5/1day,algo=calendar,tz=UTC\n"),
        ("TZ=Etc/UTC", "tz=local", "limit 5/1day,algo=calendar,tz=UTC\n"),
        (
            "",
            "tz=Asia/Tokyo",
            "the system has no time zones in /usr/share/zoneinfo: install tzdata, or use UTC",
        ),
        ("TZ=Asia/Tokyo", "tz=local", "install tzdata, or use UTC; or add tz="),
    ];
    for (environment, zone, told) in table {
        let script = format!("env {environment} throttle -v --dry-run -r 5/d,algo=calendar,{zone}");
        let Some(output) = with_mount("none /usr/share/zoneinfo", &script) else { return };
        assert!(text(&output.stderr).contains(told), "{script}: {}", text(&output.stderr));
    }
}

#[test]
fn a_zone_of_the_environment_that_is_none_is_told_by_what_it_may_be() {
    let table: [&[&str]; 4] = [
        &["-r5/d,algo=calendar"],
        &["-r1/s", "--until=06:00"],
        &["-r1/s", "--until=2036-11-21T09:00"],
        &["-r1/s", "--arrivals=col:1,tz=local"],
    ];
    for args in table {
        let output = throttle(&[&["--dry-run"], args].concat()).env("TZ", "Mars").output().unwrap();
        let told = "$TZ is not a time zone: unknown zone: use UTC or one in /usr/share/zoneinfo, such as \
                    Europe/Berlin; or add tz=";
        assert!(text(&output.stderr).contains(told), "{args:?}: {}", text(&output.stderr));
    }
    for until in ["06:00,tz=UTC", "2036-11-21T09:00+01:00", "9h"] {
        let until = format!("--until={until}");
        throttle(&["--dry-run", "-r1/s", &until]).env("TZ", "Mars").assert().success();
    }
}

/// An item may ask as of an instant before any that is known when the limits of its key are evicted.
#[test]
fn what_a_key_has_used_is_known_to_items_that_are_read_long_after_their_arrival() {
    let args = ["-r1/s,algo=bucket,burst=1,key=col:1,cost=col:2", "-r1/100s", "--lookahead=1"];
    let blocks = ["a 1", "b 1", "b 1", "a 400"].map(|line| block(0, &[line]));
    let releases = Simulation::new(&args).run(blocks.into()).releases;
    let starts: Vec<_> = releases.iter().map(|release| release.start / SECOND).collect();
    assert_eq!(starts, [0, 100, 200, 400]);
}
