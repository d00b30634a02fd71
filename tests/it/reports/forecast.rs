//! The forecast of a run matches what then happens.

use std::fs;

use fastrand::Rng;
use nix::sys::signal::Signal::SIGTERM;
use throttle::exit::{End, JobEnd};
use throttle::schedule::{Action, Forecast, Precision, Schedule, Total, WaitReason};
use throttle::source::{Capacity, Segment};
use throttle::time::{SECOND, Time, Wall};

use crate::support::{Directory, Running, eventually, of_any_period, seeds, text, throttle};

/// A run that starts at 0 with all its items present, and knows the end of input if `is_whole`.
struct Run {
    schedule: Schedule,
    now: Time,
    last: Time,
}

impl Run {
    fn new(args: &[&str], items: &[u8], is_whole: bool) -> Self {
        let args = ["throttle"].iter().chain(args).map(std::convert::Into::into);
        let config = throttle::cli::parse(args).unwrap_or_else(|_| panic!("a command line"));
        let rates = config.limits.given().expect("limits");
        let mut schedule = Schedule::new(&config, rates, Time::ZERO, Wall::EPOCH);
        let count = items.split_inclusive(|byte| *byte == b'\n').count();
        schedule.input(Segment::of(items.to_vec(), count as u64, Time::ZERO));
        if is_whole {
            schedule.end_of_input(Time::ZERO, None);
        }
        Run { schedule, now: Time::ZERO, last: Time::ZERO }
    }

    /// Releases whatever may go before the next wait. Returns the end of that wait.
    fn step(&mut self) -> Option<Time> {
        loop {
            match self.schedule.poll(self.now, Capacity::UNLIMITED) {
                Action::Send(admission) => {
                    let items = admission.batch().items();
                    self.schedule.sent(self.now, admission, items);
                    self.last = self.now;
                }
                // More may arrive at this instant, but nothing does.
                Action::Wait { until, .. } if until == Some(self.now) => self.schedule.due(),
                Action::Wait { until, .. } => return until,
                Action::Finish(_) => return None,
                other => panic!("{other:?}"),
            }
        }
    }

    fn forecast(&self) -> Forecast {
        self.schedule.forecast(self.now, None)
    }

    /// Runs through this number of waits.
    fn advance(&mut self, waits: usize) {
        for _ in 0..waits {
            let Some(until) = self.step() else { return };
            self.now = until;
            self.schedule.due();
        }
        self.step();
    }

    /// The instant at which the last item left.
    fn finish(mut self) -> Time {
        self.advance(usize::MAX);
        self.last
    }
}

fn lines(count: u64) -> Vec<u8> {
    (0..count).flat_map(|number| format!("{} {}\n", number % 7, number % 5 + 1).into_bytes()).collect()
}

#[test]
fn the_end_that_is_expected_comes_to_pass() {
    let table: [(&[&str], Precision); 11] = [
        (&["-r20/1m"], Precision::Exact),
        (&["-r20/1m", "-r100/1h"], Precision::Exact),
        (&["-r20/1m,algo=bucket,burst=3"], Precision::Exact),
        (&["-r20/1m,algo=interval"], Precision::Exact),
        (&["-r20/1m,algo=fixed", "-r3/s"], Precision::Exact),
        (&["-r20/1m,start=empty", "-r1/s,algo=interval"], Precision::Exact),
        (&["-r20/1m", "-c", "3"], Precision::Exact),
        (&["-r20/1m,algo=bucket,burst=2", "-c", "3"], Precision::Exact),
        (&["-r20/1m,algo=interval", "-B", "10"], Precision::About),
        (&["-r200/1m,algo=interval,cost=bytes"], Precision::About),
        (&["-r200/1m,algo=bucket,cost=col:2"], Precision::About),
    ];
    for (args, precision) in table {
        for waits in [0, 1, 4] {
            let mut run = Run::new(args, &lines(300), true);
            run.advance(waits);
            let expected = run.forecast().ends.expect("an end");
            let end = run.finish();
            assert_eq!(expected.1, precision, "{args:?}");
            match precision {
                Precision::Exact => assert_eq!(expected.0, end, "{args:?} after {waits}"),
                _ => assert!(
                    expected.0.0.abs_diff(end.0) < 10 * SECOND + end.0 / 20,
                    "{args:?} after {waits}: {end} is not {}",
                    expected.0
                ),
            }
        }
    }
}

#[test]
fn what_cannot_be_known_is_no_later_than_it_is() {
    let table: [(&[&str], bool); 4] = [
        (&["-r20/1m,key=col:1"], true),
        (&["-r20/1m,key=col:1", "-r1/s"], true),
        (&["-r20/1m,key=col:1,cost=col:2"], true),
        (&["-r20/1m"], false),
    ];
    for (args, is_whole) in table {
        let mut run = Run::new(args, &lines(300), is_whole);
        run.advance(1);
        let Forecast { ends, next, .. } = run.forecast();
        let (at, precision) = ends.expect("an end");
        assert!(next.is_none_or(|next| next <= at), "{args:?}");
        run.schedule.end_of_input(run.now, None);
        let end = run.finish();
        assert!(at <= end && precision == Precision::AtLeast, "{args:?}: {at} and {end}");
    }
}

fn random_limits(random: &mut Rng) -> Vec<String> {
    let limit = |random: &mut Rng| {
        let (count, algorithm) = (random.u64(1..=9), random.choice(of_any_period()).expect("one"));
        let burst =
            if algorithm == "bucket" { format!(",burst={}", random.u64(1..=9)) } else { String::new() };
        let start = random.choice(["", "", ",start=empty", ",margin=3ns"]).expect("one");
        let cost =
            random.choice(["", "", "", ",cost=0", ",cost=1", ",key=col:1", ",cost=col:2"]).expect("one");
        // No item may cost more than a window allows, and a rate above 1/ns cannot be resolved.
        let count = if cost == ",cost=col:2" { count + 5 } else { count };
        format!("-r{count}/{}ns,algo={algorithm}{burst}{start}{cost}", random.u64(20..=100))
    };
    (0..random.u8(1..=3)).map(|_| limit(random)).collect()
}

#[test]
fn no_end_that_is_expected_is_later_than_it_is_and_what_is_exact_comes_to_pass() {
    let mut exact = 0;
    for seed in seeds(300) {
        let mut random = Rng::with_seed(seed);
        let limits = random_limits(&mut random);
        let limits: Vec<_> = limits.iter().map(String::as_str).collect();
        let mut run = Run::new(&limits, &lines(random.u64(1..=60)), true);
        run.advance(random.usize(0..6));
        let Forecast { ends, next, left, .. } = run.forecast();
        let (expected, precision) = ends.expect("an end");
        let what = format!("THROTTLE_SEED={seed}: {limits:?}, {left} left at {}", run.now);
        if left == 0 {
            continue;
        }
        let before = run.last;
        let soonest = next.expect("a wait");
        while run.last == before {
            run.advance(1);
        }
        assert_eq!(soonest, run.last, "the next release, {what}");
        let end = run.finish();
        match precision {
            Precision::Exact => assert_eq!(expected, end, "{what}"),
            // Where costs differ, the forecast is based on means.
            Precision::AtLeast if !what.contains("cost=col:2") => {
                assert!(expected <= end, "{expected} is after {end}, {what}");
            }
            _ => {}
        }
        exact += u32::from(precision == Precision::Exact);
    }
    assert!(exact > 50 || seeds(300).count() < 300, "{exact} were exact");
}

fn random_modes(random: &mut Rng) -> Vec<String> {
    let linger = if random.bool() { format!(",{}ns", random.u64(1..=50)) } else { String::new() };
    let batch = format!("-B{}{linger}", random.u64(2..=5));
    let lookahead = format!("--lookahead={}", random.u64(1..=5));
    let jitter = format!("--jitter={}ns,seed={}", random.u64(0..=40), random.u8(..));
    let modes = ["--in-order".to_owned(), lookahead, batch, jitter, "--on-limit=latest".to_owned()];
    modes.into_iter().filter(|_| random.u8(0..6) == 0).collect()
}

#[test]
fn nothing_is_expected_later_than_it_is_in_any_mode() {
    for seed in seeds(200) {
        let mut random = Rng::with_seed(seed);
        let args = [random_limits(&mut random), random_modes(&mut random)].concat();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let mut run = Run::new(&args, &lines(random.u64(1..=60)), random.bool());
        run.advance(random.usize(0..12));
        if let Some(until) = run.step() {
            // In the middle of a wait.
            run.now = Time(random.u64(run.now.0..=until.0));
            run.step();
        }
        let Forecast { ends, next, left, .. } = run.forecast();
        let what = format!("THROTTLE_SEED={seed}: {args:?}, {left} left at {}", run.now);
        if left > 0 {
            let ((expected, precision), next) = (ends.expect("an end"), next.expect("a wait"));
            let before = run.schedule.stats().released;
            while run.schedule.stats().released == before {
                run.advance(1);
            }
            // A random delay begins when the limits allow the release.
            let is_known = !what.contains("--jitter");
            assert!(
                next == run.last || next < run.last && !is_known,
                "next {next}, not {}, {what}",
                run.last
            );
            run.schedule.end_of_input(run.now, None);
            let end = run.finish();
            // Where costs or batches differ, the forecast is based on means.
            let is_estimate = ["cost=col:2", "-B"].iter().any(|part| what.contains(part));
            match precision {
                Precision::Exact => assert_eq!(expected, end, "{what}"),
                Precision::AtLeast if !is_estimate => {
                    assert!(expected <= end, "{expected} is after {end}, {what}");
                }
                _ => {}
            }
        }
    }
}

/// A calendar limit, or one with hours.
fn random_civil_limit(random: &mut Rng) -> String {
    let (count, hours) = (random.u64(1..=9), random.u64(0..=23));
    let during = format!(",during={hours:02}:00-{:02}:30", (hours + random.u64(0..=23)) % 24);
    let during = if random.bool() { during } else { String::new() };
    let zone = "tz=Europe/Berlin";
    let cost = random.choice(["", "", ",cost=0", ",cost=1", ",margin=3m", ",start=empty"]).expect("one");
    let algorithm =
        *random.choice(&["sliding", "bucket", "interval", "fixed", "calendar", "calendar"]).expect("one");
    match algorithm {
        "calendar" => {
            let period = random.choice(["d", "w", "6h", "20m", "month"]).expect("one");
            format!("-r{count}/{period},algo=calendar,{zone}{during}{cost}")
        }
        _ if during.is_empty() => format!("-r{count}/{}m,algo={algorithm}{cost}", random.u64(1..=100)),
        _ if random.u8(0..4) == 0 => format!("-r0/s,{zone},during=09:00-17:30"),
        _ => format!("-r{count}/{}m,algo={algorithm},{zone}{during}{cost}", random.u64(1..=100)),
    }
}

#[test]
fn what_is_expected_of_civil_limits_comes_to_pass() {
    let mut exact = 0;
    for seed in seeds(150) {
        let mut random = Rng::with_seed(seed);
        let limits: Vec<_> = (0..random.u8(1..=3)).map(|_| random_civil_limit(&mut random)).collect();
        let limits: Vec<_> = limits.iter().map(String::as_str).collect();
        let mut run = Run::new(&limits, &lines(random.u64(1..=200)), true);
        run.advance(random.usize(0..6));
        let Forecast { ends, left, .. } = run.forecast();
        let what = format!("THROTTLE_SEED={seed}: {limits:?}, {left} left at {}", run.now);
        let (expected, precision) = ends.unwrap_or_else(|| panic!("an end: {what}"));
        if left > 0 {
            let end = run.finish();
            assert!(precision != Precision::Exact || expected == end, "{expected} is not {end}, {what}");
            exact += u32::from(precision == Precision::Exact);
        }
    }
    assert!(exact > 25 || seeds(150).count() < 150, "{exact} were exact");
}

#[test]
fn what_is_still_to_be_read_counts_once_it_is_counted() {
    let mut run = Run::new(&["-r20/1m"], &lines(30), false);
    run.advance(0);
    let counted = Total { items: 300, is_exact: true };
    let Forecast { left, ends, wait_reason, next, .. } = run.schedule.forecast(run.now, Some(counted));
    assert_eq!((left, ends), (280, Some((Time(14 * 60 * SECOND), Precision::Exact))));
    assert_eq!(next, Some(Time(60 * SECOND)));
    let WaitReason::Limit(rate) = wait_reason else { panic!("{wait_reason:?}") };
    assert_eq!(rate.to_string(), "20/1m,algo=sliding");
}

#[test]
fn an_item_that_backs_off_in_order_puts_off_the_end() {
    let args = ["throttle", "-r1/s", "--retries=1", "--backoff=1h..1h", "--in-order", "--", "false"];
    let config = throttle::cli::parse(args.map(Into::into)).unwrap_or_else(|_| panic!("a command line"));
    let rates = config.limits.given().expect("limits");
    let mut schedule = Schedule::new(&config, rates, Time::ZERO, Wall::EPOCH)
        .with_commands(config.command.as_ref().unwrap(), 1);
    schedule.input(Segment::of(b"1\n2\n3\n".to_vec(), 3, Time::ZERO));
    schedule.end_of_input(Time::ZERO, None);
    let capacity = Capacity { vacancies: 1, ..Capacity::UNLIMITED };
    let Action::Send(admission) = schedule.poll(Time::ZERO, capacity) else { panic!("nothing goes") };
    schedule.sent(Time::ZERO, admission, 1);
    let end = JobEnd::new(1, End::Exited(1));
    schedule.job_ended(Time::ZERO, &end);
    schedule.poll(Time::ZERO, capacity);
    let forecast = schedule.forecast(Time::ZERO, None);
    assert_eq!((forecast.wait_reason, forecast.next), (WaitReason::Backoff, Some(Time(3600 * SECOND))));
    assert!(forecast.ends.expect("an end").0 >= Time(3601 * SECOND), "{:?}", forecast.ends);
}

#[test]
fn each_limit_is_counted_once_for_each_instant_that_is_waited_for() {
    let mut run = Run::new(&["-r3/1s", "-r6/1m"], &lines(13), false);
    run.step();
    // An arrival during a wait does not start another one.
    run.schedule.input(Segment::of(b"1 1\n".to_vec(), 1, Time(1)));
    run.now = Time(1);
    run.step();
    run.schedule.end_of_input(Time(1), None);
    run.advance(usize::MAX);
    // Waits end at 0, 1, 60, 61 and 120 s.
    let counts: Vec<_> =
        run.schedule.limit_stats().iter().map(|limit| (limit.rate.count, limit.waits)).collect();
    assert_eq!(counts, [(3, 2), (6, 2)]);
    let stats = run.schedule.stats();
    assert_eq!((stats.times.waited, stats.busiest, stats.times.last), (120 * SECOND, 3, Time(120 * SECOND)));
}

#[test]
fn an_interrupted_run_with_a_log_says_how_to_go_on() {
    let directory = Directory::new();
    let log = directory.path().join("log").display().to_string();
    let running = Running::fed(&["-r1/h", "--log", &log, "--", "true"], "1\n2\n");
    eventually("the log", || fs::read_to_string(&log).is_ok_and(|log| log.lines().count() == 2));
    running.signal(SIGTERM);
    let told = text(&running.collect().stderr);
    assert!(told.ends_with("throttle: to continue, run the same command with --resume\n"), "{told}");
    let output =
        throttle(&["-r9/s", "--log", &log, "--resume", "--", "true"]).write_stdin("1\n").output().unwrap();
    assert_eq!(text(&output.stderr), "throttle: nothing left to do: the log already has 1 item\n");
}
