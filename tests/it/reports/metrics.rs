//! `--stats prom:FILE`: the numbers of a run, kept up to date for Prometheus.

#![expect(clippy::float_cmp, reason = "what is compared are whole numbers, or the same one")]

mod exposition;

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::rc::Rc;

use nix::sys::signal::Signal;
use throttle::exit::Exit;
use throttle::time::SECOND;

use self::exposition::Page;
use crate::simulated::{Simulation, block};
use crate::support::{Directory, Running, eventually, fed, numbers, sh, text, throttle};

fn page(path: &Path) -> Page {
    let text = fs::read_to_string(path).expect("a file");
    Page::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

/// `--stats` for a file.
fn prom(path: &Path) -> String {
    format!("--stats=prom:{}", path.display())
}

#[test]
fn a_run_leaves_its_numbers() {
    let directory = Directory::new();
    let file = directory.path().join("mail.prom");
    let args = [&prom(&file), "--stats=json", "-r3/100ms", "-r9/s,cost=2", "-r3/100ms"];
    let output = throttle(&args).write_stdin(numbers(4)).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), numbers(4)));
    assert!(text(&output.stderr).starts_with("{\"bytes\":8,"), "{}", text(&output.stderr));
    let page = page(&file);
    for (series, value) in [
        ("throttle_read_total{run=\"mail\"}", 4.0),
        ("throttle_released_total{run=\"mail\"}", 4.0),
        ("throttle_waiting_items{run=\"mail\"}", 0.0),
        ("throttle_exit_status{run=\"mail\"}", 0.0),
        ("throttle_limit_released_total{run=\"mail\",limit=\"3/100ms\",index=\"2\"}", 4.0),
        ("throttle_limit_cost_total{run=\"mail\",limit=\"9/1s,cost=2\"}", 8.0),
        ("throttle_limit_available{run=\"mail\",limit=\"9/1s,cost=2\"}", 1.0),
        ("throttle_limit_waits_total{run=\"mail\",limit=\"3/100ms\",index=\"1\"}", 1.0),
    ] {
        assert_eq!(page.value(series), value, "{series}");
    }
    let waited = page.value("throttle_waiting_seconds_total{run=\"mail\"}");
    assert!(waited >= 0.05, "{waited}");
    let binding = "throttle_limit_waiting_seconds_total{run=\"mail\",limit=\"3/100ms\",index=\"1\"}";
    assert_eq!(page.value(binding), waited);
}

#[test]
fn what_becomes_of_items_is_told_of_the_run_and_of_each_limit() {
    let directory = Directory::new();
    let file = directory.path().join("m");
    let args = [
        &prom(&file),
        "-r1k/s,key=col:1,only=b",
        "-r1k/s",
        "--margin=0",
        "--retries=1",
        "--",
        "test",
        "a",
        "=",
    ];
    fed(&args, "a\nb\n").code(123);
    let jobs = page(&file);
    for (name, all, only) in [("released", 3.0, 2.0), ("retried", 1.0, 1.0), ("failed", 1.0, 1.0)] {
        let series = |limit| format!("throttle_limit_{name}_total{{run=\"m\",limit=\"{limit}\"}}");
        assert_eq!(jobs.value(&series("1000/1s")), all, "{name}");
        assert_eq!(jobs.value(&series("1000/1s,key=col:1,only=b")), only, "{name}");
    }
    assert_eq!(jobs.value("throttle_retried_total{run=\"m\"}"), 1.0);
    assert_eq!(jobs.value("throttle_failed_total{run=\"m\"}"), 1.0);
    let args = [&prom(&file), "-r9/s", "-r2/h,key=col:1", "--on-limit=drop"];
    fed(&args, "a\na\na\nb\n").success().stdout("a\na\nb\n");
    let dropped = page(&file);
    for (series, value) in [
        ("throttle_refused_total{run=\"m\"}", 1.0),
        ("throttle_limit_refused_total{run=\"m\",limit=\"9/1s\"}", 0.0),
        ("throttle_limit_refused_total{run=\"m\",limit=\"2/1h,key=col:1\"}", 1.0),
        ("throttle_limit_keys{run=\"m\",limit=\"2/1h,key=col:1\"}", 2.0),
    ] {
        assert_eq!(dropped.value(series), value, "{series}");
    }
}

#[test]
fn a_wait_for_the_end_of_a_command_counts_for_the_limit_that_demands_it() {
    let directory = Directory::new();
    let file = directory.path().join("m");
    // The first command ends once the wait shows in the file.
    let is_noted = "/limit_waiting_seconds.*from=exit/ && $2 >= 0.05 {found = 1} END {exit !found}";
    let wait = format!("until awk '{is_noted}' {}; do sleep 0.05; done", file.display());
    let args = [&prom(&file), "-r9/s,margin=0", "-r1/1ms,from=exit", "-j2", "--", "sh", "-c", &wait];
    fed(&args, "1\n2\n").success();
    let page = page(&file);
    let waited =
        |limit| page.value(&format!("throttle_limit_waiting_seconds_total{{run=\"m\",limit=\"{limit}\"}}"));
    assert!(waited("1/1ms,from=exit") >= 0.05, "{}", waited("1/1ms,from=exit"));
    assert_eq!(waited("9/1s"), 0.0);
}

#[test]
fn text_that_was_typed_is_escaped() {
    let directory = Directory::new();
    let file = directory.path().join("a\"b\\c\nd.prom");
    fed(&[&prom(&file), "-r9/s,key=re:\"(\\d+)\""], "1\n").success();
    let series = r#"throttle_limit_released_total{run="a\"b\\c\nd",limit="9/1s,key=re:\"(\\d+)\""}"#;
    assert_eq!(page(&file).value(series), 1.0);
}

#[test]
fn a_million_keys_are_few_lines() {
    let directory = Directory::new();
    let file = directory.path().join("m");
    let keys = |count| {
        fed(&[&prom(&file), "-r1/h,key=col:1"], numbers(count)).success();
        page(&file)
    };
    let (few, many) = (keys(1), keys(20_000));
    assert_eq!(many.value("throttle_limit_keys{run=\"m\",limit=\"1/1h,key=col:1\"}"), 20_000.0);
    assert_eq!(many.len(), few.len());
}

#[test]
fn a_shared_limit_tells_what_this_run_knows() {
    let directory = Directory::new();
    let file = directory.path().join("m");
    let state = directory.path().join("state").display().to_string();
    fed(&["-s", &state, &prom(&file), "-r3/s,cost=2"], numbers(2)).success();
    let page = page(&file);
    let labels = "{run=\"m\",limit=\"3/1s,cost=2\"}";
    assert_eq!(page.value(&format!("throttle_limit_released_total{labels}")), 2.0);
    assert_eq!(page.value(&format!("throttle_limit_cost_total{labels}")), 4.0);
    assert!(page.value(&format!("throttle_limit_waiting_seconds_total{labels}")) > 0.9);
    assert_eq!(page.get(&format!("throttle_limit_available{labels}")), None);
}

#[test]
fn a_long_wait_is_followed_and_a_signal_ends_it() {
    let directory = Directory::new();
    let file = directory.path().join("m.prom");
    let mut running = Running::fed(&[&prom(&file), "-r1/h"], "1\n2\n");
    assert_eq!(running.line(), "1\n");
    let waiting = "throttle_limit_waiting_seconds_total{run=\"m\",limit=\"1/1h\"}";
    eventually("the wait has been told", || page(&file).value(waiting) > 0.0);
    let before = page(&file);
    assert_eq!(before.value("throttle_limit_available{run=\"m\",limit=\"1/1h\"}"), 0.0);
    let next = before.value("throttle_next_release_timestamp_seconds{run=\"m\"}");
    let started = before.value("throttle_start_time_seconds{run=\"m\"}");
    assert!(next - started >= 3600.0, "{next} {started}");
    assert_eq!(before.get("throttle_exit_status{run=\"m\"}"), None);
    running.signal(Signal::SIGTERM);
    running.collect();
    let after = page(&file);
    assert_eq!(after.value("throttle_exit_status{run=\"m\"}"), 143.0);
    assert_eq!(after.value("throttle_waiting_items{run=\"m\"}"), 1.0);
    assert!(after.value(waiting) >= before.value(waiting));
}

#[test]
fn an_error_is_told_as_the_end() {
    let directory = Directory::new();
    let file = directory.path().join("m");
    fed(&[&prom(&file), "-n9", "-c", "col:2"], "a 1\nb\n").code(1).stdout("a 1\n");
    assert_eq!(page(&file).value("throttle_exit_status{run=\"m\"}"), 1.0);
    fed(&[&prom(&file), "-n9", "--", "./nothing"], "1\n").code(127);
    assert_eq!(page(&file).value("throttle_exit_status{run=\"m\"}"), 127.0);
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_released() {
    let directory = Directory::new();
    let path = directory.path().display();
    let no_file = format!("{path}/nothing/m");
    let table = [
        (no_file.clone(), format!("throttle: cannot write metrics to {no_file}: No such file or directory")),
        (path.to_string(), format!("throttle: {path} is a directory: name a file in it")),
        ("/dev/null".to_owned(), "throttle: /dev/null is not a regular file: name another one".to_owned()),
    ];
    for (file, message) in table {
        let output = throttle(&[&prom(file.as_ref()), "-n9"]).write_stdin("1\n").output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{file}");
        assert!(text(&output.stderr).starts_with(&message), "{}", text(&output.stderr));
    }
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_file_that_can_no_longer_be_written_is_told_once_and_ends_nothing() {
    let directory = Directory::new();
    let gone = directory.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let mut running = Running::fed(&[&prom(&gone.join("m")), "-r2/s", "-Ainterval"], "1\n");
    assert_eq!(running.line(), "1\n");
    fs::remove_dir_all(&gone).unwrap();
    running.write(numbers(3));
    let output = running.finish();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), numbers(3)));
    let errors = text(&output.stderr);
    assert!(
        errors.starts_with("throttle: cannot write metrics to ") && errors.lines().count() == 1,
        "{errors}"
    );
}

#[test]
fn the_file_is_as_any_new_one_and_a_link_to_it_stays() {
    let directory = Directory::new();
    let (file, link) = (directory.file("file", "old"), directory.path().join("link"));
    symlink(&file, &link).unwrap();
    let script = format!("umask 027; echo | throttle -n9 {}", prom(&link));
    sh(&script).assert().success();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(page(&file).value("throttle_released_total{run=\"link\"}"), 1.0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let table = [
        (&["--stats=prom:"][..], "prom: needs a file"),
        (&["--stats=xml"], "use json or prom:FILE"),
        (&["--stats=prom:a", "--stats=prom:b"], "may be given only once"),
        (&["--stats=prom:a", "--dry-run"], "--dry-run releases nothing"),
        (&["--stats=prom:a", "--audit"], "--audit releases nothing"),
    ];
    for (args, message) in table {
        let output = throttle(args).arg("-n9").write_stdin("").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

/// How often a run waited, and how often its file was replaced, as the inode shows.
fn watched(limit: &str, arrivals: &[(u64, u32)], has_metrics: bool) -> (u64, u64) {
    let directory = Directory::new();
    let file = directory.path().join("m");
    let args = ["-r", limit].map(str::to_owned).into_iter().chain(has_metrics.then(|| prom(&file)));
    let seen = Rc::new(Cell::new((0, 0)));
    let (count, mut last) = (Rc::clone(&seen), 0);
    let simulation = Simulation::new(&args.collect::<Vec<_>>()).on_wait(move || {
        let version = fs::metadata(&file).map_or(0, |file| file.ino());
        let (waits, versions) = count.get();
        count.set((waits + 1, versions + u64::from(version != last)));
        last = version;
    });
    let lines = |count| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>();
    let outcome = simulation.run(arrivals.iter().map(|&(at, count)| block(at, &lines(count))).collect());
    assert_eq!(outcome.exit, Exit::Done);
    seen.get()
}

#[test]
fn it_is_written_once_a_second_in_a_long_wait_and_costs_nothing_unless_asked_for() {
    let hour = [(0, 2)];
    let (waits, versions) = watched("1/h", &hour, true);
    assert!((3600..=3610).contains(&waits), "{waits}");
    assert!((3600..=3601).contains(&versions), "{versions}");
    let (waits, versions) = watched("1/h", &hour, false);
    assert!(waits <= 5 && versions == 0, "{waits} {versions}");
}

#[test]
fn a_wait_is_counted_while_it_goes_on() {
    let directory = Directory::new();
    let file = directory.path().join("m");
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (waited, args) = (Rc::clone(&seen), ["-r1/m".to_owned(), prom(&file)]);
    let simulation = Simulation::new(&args).on_wait(move || {
        let page = file.exists().then(|| page(&file));
        waited.borrow_mut().extend(page.map(|page| page.value("throttle_waiting_seconds_total{run=\"m\"}")));
    });
    simulation.run(vec![block(0, &["1".to_owned(), "2".to_owned()])]);
    let seen = seen.take();
    assert!(seen.is_sorted() && seen.iter().any(|waited| (29.0..31.0).contains(waited)), "{seen:?}");
}

#[test]
fn it_is_written_once_a_second_however_much_happens() {
    let arrivals: Vec<_> = (0..3000).map(|n| (n * SECOND / 1000, 1)).collect();
    let (waits, versions) = watched("1k/s", &arrivals, true);
    assert!(waits >= 3000 && versions <= 4, "{waits} {versions}");
}
