//! `--audit`: judges releases by their time stamps.

use serde_json::Value;

use nix::sys::signal::Signal;
use predicates::str::{contains, starts_with};
use std::os::unix::process::ExitStatusExt;

use crate::support::{Directory, Running, fed, is_ignored, sh, text, throttle};

#[track_caller]
fn audit(args: &[&str], input: &str, status: i32) -> String {
    let output = throttle(args).arg("--audit").write_stdin(input).output().unwrap();
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{told}");
    told
}

#[test]
fn each_item_that_is_too_early_is_named_and_the_status_tells() {
    let report = audit(&["-n2", "-p1s"], "0 a\n0.4 b\n0.5 c\n1.4 d\n", 75);
    let wanted = "\
item 3 at 0.500000000: 500ms too early, 3 in 1s, limit 2/1s,algo=sliding
limit 2/1s,algo=sliding: 1 of 4 items too early, by up to 500ms
  worst window  3 in 1s: 0.000000000 to 0.500000000, item 3
  limit used    150% at most, 83% on average
  rate          3.0/1s at most, 3.0/1s on average
";
    assert_eq!(report, wanted);
    let report = audit(&["-n2", "-p1s"], "0 a\n0.4 b\n1 c\n1.4 d\n", 0);
    assert!(report.starts_with("limit 2/1s,algo=sliding: 0 of 4 items too early\n"), "{report}");
    assert_eq!(audit(&["-q", "-n1"], "0\n0\n", 75), "");
    assert!(audit(&["-n1"], "", 0).ends_with("0 of 0 items too early\nthrottle: no items to audit\n"));
    assert_eq!(audit(&["-q", "-n1"], "", 0), "");
    // The rate is per period of the limit.
    let report = audit(&["-r90/m"], "0 a\n30 b\n90 c\n", 0);
    assert!(report.ends_with("  rate          2.0/1m at most, 2.0/1m on average\n"), "{report}");
}

#[test]
fn what_is_left_out_of_items_is_left_out_of_an_audit() {
    let trimmed = audit(&["-r1/s,key=col:2", "-F,", "--trim"], " 0,a\r\n0,a\n", 75);
    assert!(trimmed.starts_with("item 2 at 0.000000000: 1s too early"), "{trimmed}");
    // Items keep their numbers.
    let skipped = audit(&["-r1/s", "--skip-blank"], "\n0 a\n \t\n0 b\n", 75);
    assert!(skipped.starts_with("item 4 at 0.000000000: 1s too early"), "{skipped}");
    let skipped = audit(&["-r1/s", "-d,", "--skip-blank"], "0 a,, ,0 b,", 75);
    assert!(skipped.starts_with("item 4 at"), "{skipped}");
}

#[test]
fn an_audit_says_what_it_could_not_tell_apart() {
    let args = ["-r2/s,key=re:k(.)", "--stats=json"];
    let report = audit(&args, "0 k1\n0 k2\n0 x\n0 y\n0 z\n0 ka\n", 75);
    assert!(
        report.contains("\n  without key   3 items, judged as one key; the first is item 3\n"),
        "{report}"
    );
    assert!(report.contains("\"without_key\":3"), "{report}");
    assert!(!audit(&args, "0 k1\n1 k2\n", 0).contains("without key"));
    let report = audit(&["-r2/s,key=col:2", "-F,"], "0,\"a,b\"\n", 0);
    assert!(report.contains("throttle: item 1 '0,\"a,b\"' has a separator inside quotes"), "{report}");
    assert!(!audit(&["-r2/s,key=col:2", "-F,", "--csv=noheader"], "0,\"a,b\"\n", 0).contains("quotes"));
}

#[test]
fn seconds_since_1970_are_also_told_as_dates() {
    let report = audit(&["-r1/s"], "1700000000 a\n1700000000.5 b\n", 75);
    let wanted = "item 2 at 1700000000.500000000 (2023-11-14T22:13:20.5Z): 500ms too early, 2 in 1s";
    assert!(report.starts_with(wanted), "{report}");
    assert!(report.contains(" 1700000000.000000000 (2023-11-14T22:13:20Z) to 1700000000.5"), "{report}");
}

#[test]
fn items_judged_on_arrival_pass_at_once_and_the_findings_come_at_the_end() {
    let mut run = Running::throttle(&["-n1", "-p1h", "--audit", "--arrivals", "now"]);
    for item in ["a\n", "b\r\n"] {
        run.write(item);
        assert_eq!(run.line(), item);
    }
    run.write("c");
    let output = run.finish();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(75), "c"));
    let told = text(&output.stderr);
    assert_eq!(told.lines().filter(|line| line.starts_with("item ")).count(), 2, "{told}");
    assert!(told.starts_with("item 2 at 20") && told.contains("2 of 3 items too early, by up to "), "{told}");
}

#[test]
fn items_judged_on_arrival_end_with_their_reader_and_with_signals_as_in_a_run() {
    let judge = "throttle -n1 -p1h --audit --arrivals now";
    // The reader leaves after the first item; what was wrong by then is told.
    let script = format!(
        "{{ printf 'a\\nb\\n'; sleep 2; }} | {{ {judge}; echo $? >status; }} | head -n 1; cat status"
    );
    let directory = Directory::new();
    let output = directory.sh(&script).output().unwrap();
    assert_eq!(text(&output.stdout), "a\n141\n");
    assert!(text(&output.stderr).starts_with("item 2 at "), "{}", text(&output.stderr));
    let quiet = sh(&format!("yes | {{ {judge} -q; echo $? >&2; }} | head -n 1")).output().unwrap();
    assert_eq!((text(&quiet.stdout).as_str(), text(&quiet.stderr).as_str()), ("y\n", "141\n"));

    let mut run = Running::fed(&["-n1", "-p1h", "--audit", "--arrivals", "now"], "a\nb\n");
    assert_eq!([run.line(), run.line()], ["a\n", "b\n"]);
    run.signal(Signal::SIGINT);
    let output = run.collect();
    assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32));
    assert!(text(&output.stderr).contains("limit 1/1h,algo=sliding: 1 of 2 items too early"));
    throttle(&["-n1", "--dry-run", "--arrivals", "now"]).assert().code(2);
    throttle(&["-n1", "--audit", "--arrivals", "now", "--unsorted", "1s"]).assert().code(2);
}

#[test]
fn of_a_limit_that_allows_nothing_no_share_is_used() {
    // A Thursday.
    let limit = "-r0/s,during=Mon,tz=UTC";
    assert!(!audit(&[limit], "0\n1\n", 0).contains("limit used"));
    let report = audit(&[limit, "-q", "--stats=json"], "0\n1\n", 0);
    let limit = &serde_json::from_str::<Value>(&report).unwrap()["limits"][0];
    assert!(limit["highest_share"].is_null() && limit["mean_share"].is_null(), "{limit}");
}

#[test]
fn a_margin_makes_no_period_of_the_calendar_longer() {
    let report = audit(&["-r1/d,algo=calendar,tz=UTC,margin=10s"], "0\n", 75);
    assert!(report.starts_with("item 1 at 0.000000000: 10s too early, 1 in 1day, limit"), "{report}");
}

#[test]
fn the_last_item_may_have_no_delimiter() {
    audit(&["-r5/s,cost=bytes"], "0 aaa", 0);
    audit(&["-r5/s,cost=bytes"], "0 aaa\n", 75);
    audit(&["-r5/s,cost=bytes", "--trim"], " 0 aa \n", 0);
}

#[test]
fn a_dry_run_keeps_every_limit_to_the_nanosecond() {
    let limits = [
        "3/s",
        "7/3s,algo=interval",
        "3/s,algo=bucket,burst=2",
        "7/s,algo=fixed",
        "5/s,cost=col:2,margin=1ms",
    ];
    let lines = (0..200).map(|item| format!("{}.{:02} {}\n", item / 40, item % 40, item % 4 + 1));
    let input = lines.collect::<Vec<_>>().concat();
    for limit in limits {
        let dry_run =
            throttle(&["--dry-run", "--arrivals=col:1", "-r", limit]).write_stdin(input.clone()).output();
        let releases = text(&dry_run.unwrap().stdout);
        let limit = limit.replace("col:2", "col:3");
        audit(&["-r", &limit], &releases, 0);
        // The last release had to wait; one nanosecond earlier is too early.
        let last = releases.lines().last().unwrap();
        let (at, item) = last.split_once('\t').unwrap();
        let earlier = at.replace('.', "").parse::<u64>().unwrap() - 1;
        let earlier = format!("{}.{:09}\t{item}\n", earlier / 1_000_000_000, earlier % 1_000_000_000);
        let releases = releases.replace(&format!("{last}\n"), &earlier);
        audit(&["-r", &limit, "--unsorted=1s"], &releases, 75);
    }
}

/// Stamps that do not count from 1970 need the date for limits that go by the calendar.
#[test]
fn a_dry_run_that_starts_at_a_time_is_audited_from_it() {
    let limits =
        ["2/1h,algo=calendar,tz=UTC", "3/d,algo=calendar,tz=Europe/Berlin", "1/7m,during=09:00-17:00,tz=UTC"];
    let starts = ["2026-11-21T09:59Z", "2026-03-28T22:59:59.5Z", "1999-12-31T23:00Z"];
    for (limit, start) in limits.iter().flat_map(|limit| starts.map(|start| (limit, start))) {
        let (limit, at) = (format!("-r{limit}"), format!("--at={start}"));
        let planned = throttle(&["--dry-run", &limit, &at]).write_stdin("a\n".repeat(30)).output();
        let planned = text(&planned.unwrap().stdout);
        assert!(audit(&[&limit, &at], &planned, 0).contains(": 0 of 30 items too early"));
    }
    let hints = |rates: &[&str], input, status| audit(rates, input, status).contains("add --at TIME");
    let by_day = "-r1/d,algo=calendar,tz=UTC";
    assert!(hints(&[by_day], "0\n1\n", 75));
    assert!(!hints(&[by_day], "0\n90000\n", 0) && !hints(&[by_day, "-r1/s"], "86399.5\n86400\n", 75));
    assert!(!hints(&["-r1/d"], "0\n1\n", 75));
    assert!(!hints(&[by_day], "2026-11-21T09:59Z\n2026-11-21T09:59Z\n", 75));
}

#[test]
fn a_common_log_just_works() {
    let line = |second: u32, zone: &str| {
        format!("192.0.2.1 - - [14/Nov/2023:22:13:{second:02} {zone}] \"GET / HTTP/1.1\" 200 5\n")
    };
    let log = line(20, "+0000") + &line(21, "+0000");
    audit(&["-r1/s", "--arrivals=col:4"], &log, 0);
    let report = audit(&["-r1/2s", "--arrivals=col:4"], &log, 75);
    assert!(report.starts_with("item 2 at 2023-11-14T22:13:21Z: 1s too early, 2 in 2s"), "{report}");
    // One hour further east, the same time is an hour earlier.
    let error = audit(&["-r1/s", "--arrivals=col:4"], &(line(20, "+0000") + &line(25, "+0100")), 1);
    assert!(error.contains("item 2: arrival") && error.contains("sort the input by col:4"), "{error}");
}

#[test]
fn stamps_without_a_zone_need_one() {
    let log = "2023-11-14 22:13:20 a\n2023-11-14 22:13:21 b\n";
    let error = audit(&["-r1/s"], log, 1);
    assert!(error.contains("item 1: col:1 is '2023-11-14', a time without a zone"), "{error}");
    audit(&["-r1/s", "--arrivals=tz=Europe/Berlin"], log, 0);
    audit(&["-r1/2s", "--arrivals=col:1,tz=+01:00"], log, 75);
    let output = throttle(&["-r1/s", "--audit", "--arrivals=tz=Nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no time zone 'Nowhere'"));
}

#[test]
fn syslog_is_read_by_its_own_stamps() {
    let line = |time: &str| format!("{time} host app[1]: x\n");
    let log = line("Dec 31 23:59:59") + &line("Jan  1 00:00:00") + &line("Jan  1 00:00:00");
    let error = audit(&["-r2/s"], &log, 1);
    assert!(error.contains("item 1: col:1 is 'Dec', a time without a zone"), "{error}");
    assert!(error.ends_with("as in --arrivals col:1,tz=UTC\n"), "{error}");
    let error = audit(&["-r2/s", "--arrivals=re:.*"], &log, 1);
    assert!(error.ends_with("a time without a zone: add one, as in --arrivals 're:.*',tz=UTC\n"), "{error}");
    audit(&["-r2/s", "--arrivals=tz=UTC"], &log, 0);
    let report = audit(&["-r1/s", "--arrivals=tz=UTC,year=2023"], &log, 75);
    assert!(report.starts_with("item 3 at 2024-01-01T00:00:00Z: 1s too early, 2 in 1s"), "{report}");
    let log = "<34>1 2026-01-01T00:00:00Z host x\n<34>1 2026-01-01T00:00:01Z host x\n";
    audit(&["-r1/s"], log, 0);
    audit(&["-r1/s", "--arrivals=re:.*"], log, 0);
    let log = "<34>Feb 29 10:00:00 host x\n<34>Feb 29 10:00:02 host x\n";
    audit(&["-r1/2s", "--arrivals=re:.*,tz=UTC"], log, 0);
    let error = audit(&["-r1/2s", "--arrivals=re:.*,tz=UTC,year=2026"], log, 1);
    assert!(
        error.contains("give the year of the first, as in --arrivals 're:.*',tz=UTC,year=2024"),
        "{error}"
    );
}

#[test]
fn what_is_out_of_order_is_sorted_as_far_as_told() {
    let log = "0 a\n3 c\n2 b\n4 d\n";
    let error = audit(&["-r1/s"], log, 1);
    let wanted = "item 3: arrival 2.000000000 is before that of an earlier item, 3.000000000: sort the input \
        by col:1, or say by how much";
    assert!(error.contains(wanted), "{error}");
    audit(&["-r1/s", "--unsorted=1s"], log, 0);
    let error = audit(&["-r1/s", "--unsorted=500ms"], "0 a\n3 c\n3.6 d\n2 b\n", 1);
    assert!(error.contains("or raise --unsorted, which is 500ms"), "{error}");
    let dry_run = ["-r1/s", "--dry-run", "--arrivals=col:1", "--unsorted=1s"];
    fed(&dry_run, log).success().stdout(contains("2.000000000\t2 b\n3.0"));
}

#[test]
fn costs_and_keys_are_judged() {
    let report = audit(&["-r5/s,key=col:2,cost=col:3"], "0 a 3\n0 b 5\n0.5 a 3\n0.7 b 9\n", 75);
    let told: Vec<_> = report.lines().take(3).collect();
    assert_eq!(
        told,
        [
            "item 3 at 0.500000000: 500ms too early, 6 in 1s, limit 5/1s,algo=sliding,cost=col:3,key=col:2 for 'a'",
            "item 4 at 0.700000000: more than is ever allowed, 14 in 1s, limit \
             5/1s,algo=sliding,cost=col:3,key=col:2 for 'b'",
            "limit 5/1s,algo=sliding,cost=col:3,key=col:2: 2 of 4 items too early, by up to 500ms",
        ]
    );
    assert!(report.ends_with("keys          2, most in a window: 'b' 14, 'a' 6\n"), "{report}");
    let error = audit(&["-r5/s,cost=col:2"], "0 x\n", 1);
    assert!(error.contains("item 1: its cost, col:2, is 'x', not a whole number"), "{error}");
}

/// Quotas are used up per day of the zone, not per 24 hours; and other hours are free.
#[test]
fn what_keeps_to_a_limit_never_uses_more_than_all_of_it() {
    let tail = |limit: &str, input: &str| {
        let report = audit(&["-r", limit], input, 0);
        report.lines().skip(2).map(str::trim_start).collect::<Vec<_>>().join("; ")
    };
    let two_days = "86398 a\n86399 a\n86400 a\n86401 a\n";
    let told = "limit used    100% at most, 100% on average; rate          2.0/1day at most";
    assert_eq!(tail("2/d,algo=calendar,tz=UTC", two_days), told);
    // 2026-10-25 has 25 hours in Berlin, and so three periods of 12 hours or less.
    let long_day = "1792879200 a\n1792969199 a\n";
    let told =
        "limit used    100% at most, 67% on average; rate          1.0/12h at most, 0.500/12h on average";
    assert_eq!(tail("1/12h,algo=calendar,tz=Europe/Berlin", long_day), told);
    for limit in ["1/h,during=00:00-23:00,tz=UTC", "0/s,during=00:00-23:00,tz=UTC"] {
        assert!(tail(limit, "82800 a\n86399 a\n").starts_with("rate          "), "{limit}");
    }
}

#[test]
fn the_numbers_are_told_as_json() {
    let output = throttle(&["--audit", "--stats=json", "-q", "-r2/s", "-r9/s,key=col:2"])
        .write_stdin("1.5 a\n1.75 b\n2 a\n")
        .output()
        .unwrap();
    let numbers: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(
        (&numbers["read"], &numbers["too_early"], &numbers["exit"]),
        (&3.into(), &1.into(), &75.into())
    );
    let limit = &numbers["limits"][0];
    assert_eq!(limit["limit"], "2/1s,algo=sliding");
    assert_eq!(limit["seconds_too_early"], 0.5);
    assert_eq!(limit["worst_window"]["first"], "1.500000000");
    assert_eq!((&limit["worst_window"]["count"], &limit["worst_window"]["item"]), (&3.into(), &3.into()));
    assert_eq!((&limit["highest_share"], &limit["mean_rate"]), (&1.5.into(), &Value::Null));
    assert_eq!(limit["mean_share"], 1.0);
    assert_eq!(numbers["limits"][1]["worst_keys"][0]["key"], "a");
    assert_eq!(numbers["limits"][1]["mean_share"], Value::Null);
}

#[test]
fn our_log_of_jobs_is_judged_as_it_is() {
    let directory = Directory::new();
    let log = directory.path().join("log");
    let run = ["-r3/100ms", "-j4", "--log", log.to_str().unwrap(), "--", "true"];
    fed(&run, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n").success();
    let log = std::fs::read_to_string(log).unwrap();
    audit(&["-r3/100ms"], &log, 0);
    audit(&["-r1/100ms"], &log, 75);
    // The key comes from the item, not from the whole line.
    audit(&["-r1/h,key=col:1"], &log, 0);
}

#[test]
fn how_early_something_was_is_one_number() {
    let report = audit(&["-r1/s"], "0\n0.003474925\n", 75);
    assert!(report.starts_with("item 2 at 0.003474925: 996.526ms too early, 2 in 1s"), "{report}");
}

#[test]
fn a_log_in_the_order_of_ends_is_sorted_by_starts() {
    let log = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n\
               2\t:\t1700000001.000\t0.1\t0\t0\t0\t0\techo b\n\
               1\t:\t1700000000.000\t9.9\t0\t0\t0\t0\techo a\n";
    audit(&["-r1/s"], log, 0);
    let report = audit(&["-r1/1100ms"], log, 75);
    let early = "item 1 at 1700000001.000000000 (2023-11-14T22:13:21Z): 100ms too early";
    assert!(report.starts_with(early), "{report}");
}

#[test]
fn what_makes_no_sense_with_it_is_refused() {
    for args in [
        &["-r1/s", "--", "echo"][..],
        &["-r1/s", "--dry-run"],
        &["-r1/s", "-s", "x"],
        &["-r1/s", "--on-limit=drop"],
    ] {
        throttle(&["--audit"]).args(args).assert().code(2);
    }
    for (args, told) in [
        (&["-r1/s,from=exit"][..], "leave out from=exit"),
        (&["-r1/s", "-r1/s,from=exit"], "leave out from=exit"),
        (&["-r2/running"], "give a rate as well"),
    ] {
        let told = format!("throttle: an audit knows only when items were released: {told}\n");
        throttle(&["--audit"]).args(args).assert().code(2).stderr(told);
    }
    audit(&["-r2/running", "-r1/s"], "0\n", 0);
    let hint = contains("to read access.log, use <access.log or -a access.log");
    throttle(&["--audit", "-r1/s", "access.log"]).assert().code(2).stderr(hint);
    for args in [
        &["-r1/s", "--arrivals=col:1"][..],
        &["-r1/s", "--unsorted=1s"],
        &["-r1/s", "--dry-run", "--unsorted=1s"],
    ] {
        throttle(args).assert().code(2).stderr(contains("add one of them"));
    }
}

#[test]
fn a_closed_reader_ends_it_quietly() {
    sh("{ yes 1 | head -100000 | throttle -r1/s --audit; echo $? >&2; } | head -1").assert().stderr("141\n");
}

#[test]
fn what_is_found_is_told_when_the_input_pauses() {
    let mut running = Running::fed(&["-r1/s", "--audit"], "0\n0.5\n");
    assert!(running.line().starts_with("item 2 at 0.500000000: 500ms too early, 2 in 1s"));
    running.write("1.25\n");
    assert!(running.line().starts_with("item 3 at 1.250000000: 250ms too early, 2 in 1s"));
    running.ends().code(75).stdout(starts_with("limit 1/1s,algo=sliding: 2 of 3 items too early"));
}

#[test]
fn a_signal_has_the_numbers_so_far_told() {
    let directory = Directory::new();
    let plot = directory.path().join("plot.svg");
    for signal in [Signal::SIGHUP, Signal::SIGTERM].into_iter().filter(|&signal| !is_ignored(signal)) {
        let args = ["-r1/s", "--audit", "--unsorted=1h", "--stats=json", "--plot", plot.to_str().unwrap()];
        let mut running = Running::fed(&args, "0.5\n0\n9000\n");
        assert!(running.line().starts_with("item 1 at 0.500000000: 500ms too early"));
        running.signal(signal);
        let output = running.collect();
        assert_eq!(output.status.signal(), Some(signal as i32));
        let told = text(&output.stdout);
        assert!(
            told.starts_with("limit 1/1s,algo=sliding: 1 of 3 items too early, by up to 500ms"),
            "{told}"
        );
        let numbers: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!((&numbers["read"], &numbers["exit"]), (&3.into(), &(128 + signal as i32).into()));
        assert!(std::fs::read_to_string(&plot).unwrap().ends_with("</svg>\n"));
    }
}

#[test]
fn a_report_that_nobody_reads_keeps_no_signal_out() {
    let mut running = Running::throttle(&["-r1/h", "--audit"]);
    running.fill(b"0\n");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait().signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn an_audit_ends_when_nobody_reads_it_any_more() {
    let mut running = Running::fed(&["-r1/s", "--audit"], "0\n");
    running.close_stdout();
    assert_eq!(running.wait().signal(), Some(Signal::SIGPIPE as i32));
}
