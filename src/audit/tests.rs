use super::distinct::KeyCount;
use super::tally::Worst;
use super::*;
use crate::config::Rate;
use crate::time::Time;

fn rate(text: &str) -> Rate {
    text.parse::<Rate>().unwrap()
}

/// The violations, as (number of the release, count in its window, how early it is).
fn violations(limit: &str, releases: &[(u64, u64)]) -> Vec<(u64, u64, Option<u64>)> {
    let mut audit = Audit::new(&[rate(limit)]);
    let mut found = Vec::new();
    for (&(at, cost), number) in releases.iter().zip(1..) {
        audit.judge(number, Time(at), &[cost], &[], |violation| {
            found.push((violation.number, violation.count, violation.early));
        });
    }
    assert_eq!(audit.too_early, found.len() as u64);
    found
}

fn at(instants: &[u64]) -> Vec<(u64, u64)> {
    instants.iter().map(|&at| (at, 1)).collect()
}

#[test]
fn sliding_no_window_holds_more_than_the_count() {
    assert_eq!(violations("2/10ns", &at(&[0, 3, 10, 13, 20])), []);
    assert_eq!(violations("2/10ns", &at(&[0, 3, 9, 13])), [(3, 3, Some(1))]);
    // Releases that were too early still count.
    assert_eq!(
        violations("2/10ns", &at(&[0, 3, 4, 10, 13])),
        [(3, 3, Some(6)), (4, 3, Some(3)), (5, 3, Some(1))]
    );
    assert_eq!(violations("2/10ns", &at(&[5; 4])), [(3, 3, Some(10)), (4, 4, Some(10))]);
    assert_eq!(violations("2/10ns,margin=2ns", &at(&[0, 3, 11])), [(3, 3, Some(1))]);
}

#[test]
fn sliding_costs_wait_for_enough_to_leave() {
    assert_eq!(violations("10/100ns", &[(0, 4), (1, 4), (100, 3), (200, 10)]), []);
    let found = violations("10/100ns", &[(0, 4), (1, 4), (99, 3), (99, 9), (99, 11)]);
    assert_eq!(found, [(3, 11, Some(1)), (4, 20, Some(100)), (5, 31, None)]);
}

#[test]
fn interval_no_two_are_closer_than_the_gap() {
    assert_eq!(violations("3/10ns,algo=interval", &at(&[0, 4, 8, 100, 104])), []);
    assert_eq!(violations("3/10ns,algo=interval", &at(&[0, 3, 7])), [(2, 2, Some(1))]);
    assert_eq!(violations("1/10ns,algo=interval", &[(0, 3), (29, 1), (39, 1)]), [(2, 1, Some(1))]);
}

#[test]
fn bucket_no_window_holds_more_than_the_burst_and_what_accrues() {
    assert_eq!(violations("1/10ns,algo=bucket,burst=3", &at(&[0, 0, 0, 10, 20, 100, 100, 100])), []);
    let found = violations("1/10ns,algo=bucket,burst=3", &at(&[0, 0, 0, 9, 10]));
    assert_eq!(found, [(4, 4, Some(1)), (5, 2, Some(10))]);
    // Overdrawn amounts stay owed.
    let found = violations("1/10ns,algo=bucket,burst=1", &at(&[0, 0, 0, 10, 30]));
    assert_eq!(found, [(2, 2, Some(10)), (3, 3, Some(20)), (4, 1, Some(20)), (5, 1, Some(10))]);
    assert_eq!(violations("1/2ns,algo=bucket,burst=10", &[(0, 5), (30, 20), (32, 1), (34, 1)]), []);
}

#[test]
fn fixed_no_window_of_its_own_holds_more_than_the_count() {
    assert_eq!(violations("2/10ns,algo=fixed", &at(&[0, 9, 10, 11, 25])), []);
    assert_eq!(violations("2/10ns,algo=fixed", &at(&[0, 5, 9])), [(3, 3, Some(1))]);
    assert_eq!(violations("2/10ns,algo=fixed", &[(0, 3)]), [(1, 3, None)]);
}

#[test]
fn a_limit_of_its_own_for_each_key() {
    let mut audit = Audit::new(&[rate("1/10ns,key=col:1"), rate("9/10ns")]);
    let mut found = Vec::new();
    let key = |text: &str| [Key::from_slice(text.as_bytes())];
    for (number, at, name) in [(1, 0, "a"), (2, 1, "b"), (3, 5, "a"), (4, 11, "b"), (5, 12, "a")] {
        let tell =
            |violation: &Violation| found.push((number, violation.key.map(<[u8]>::to_vec), violation.early));
        audit.judge(number, Time(at), &[1, 1], &key(name), tell);
    }
    let a = Some(b"a".to_vec());
    assert_eq!(found, [(3, a.clone(), Some(5)), (5, a, Some(3))]);
    let [keyed, common] = &audit.limits[..] else { panic!() };
    assert_eq!((keyed.keys(), common.keys()), (Some(KeyCount { number: 2, is_exact: true }), None));
    let worst = keyed.worst_keys(1);
    assert_eq!((worst.len(), worst[0].0, worst[0].1.violations), (1, &b"a"[..], 2));
    let tally = keyed.tally;
    let worst = Worst { count: 2, start: Time(0), end: Time(5), number: 3 };
    assert_eq!(tally.findings, Findings { releases: 5, violations: 2, earliest: 5, worst });
    assert_eq!(tally.span(), 12);
}

#[test]
fn a_steady_rate_is_that_rate() {
    let mut audit = Audit::new(&[rate("10/s")]);
    for number in 0..20 {
        audit.judge(number + 1, Time(number * 100_000_000), &[1], &[], |_| panic!("too early"));
    }
    assert_eq!(audit.limits[0].mean_rate(), Some(10.0));
    assert_eq!(audit.limits[0].tally.findings.worst.count, 10);
}

/// The mean rate is that of whole periods, and a civil period or a burst may be a small part of what is allowed.
#[test]
fn no_mean_is_above_the_highest() {
    let (s, day) = (1_000_000_000, 86_400_000_000_000);
    let steady: Vec<_> = (0..4).map(|second| (second * s, 10)).collect();
    let around_midnight = [(day - s, 3), (day, 3), (2 * day - s, 1)];
    let table: [(&str, &[(u64, u64)], [f64; 2], [f64; 2]); 5] = [
        ("10/s", &[(0, 10), (s, 9), (s + s / 2, 1)], [1.0, 0.8], [10.0, 10.0]),
        ("10/s", &steady, [1.0, 1.0], [10.0, 10.0]),
        ("10/s,algo=bucket", &steady, [1.0, 1.0], [10.0, 10.0]),
        ("10/s,algo=interval", &[(0, 1), (s, 1)], [2.0 / 11.0, 2.0 / 11.0], [1.0, 1.0]),
        ("3/d,algo=calendar,tz=UTC", &around_midnight, [4.0 / 3.0, 7.0 / 6.0], [6.0 / 86_400.0; 2]),
    ];
    for (limit, releases, shares, rates) in table {
        let audit = audited(limit, releases);
        let limit = &audit.limits[0];
        let found =
            [Some(limit.highest_rate()), limit.mean_rate(), limit.highest_share(), limit.mean_share()];
        let is_it = |(found, wanted): (Option<f64>, f64)| (found.unwrap() - wanted).abs() < 1e-9;
        assert!(
            found.into_iter().zip(rates.into_iter().chain(shares)).all(is_it),
            "{}: {found:?}",
            limit.rate
        );
    }
}

fn audited(limit: &str, releases: &[(u64, u64)]) -> Audit {
    let mut audit = Audit::new(&[rate(limit)]);
    releases.iter().for_each(|&(at, cost)| audit.judge(1, Time(at), &[cost], &[], |_| {}));
    audit
}

fn share(limit: &str, releases: &[(u64, u64)]) -> (f64, Option<f64>) {
    let audit = audited(limit, releases);
    let limit = &audit.limits[0];
    (limit.mean_share().expect("a share"), limit.mean_rate())
}

#[test]
fn a_short_record_has_a_share_of_the_burst_and_no_rate() {
    let seconds = |instants: &[f64]| {
        let nanos = |at: &f64| std::time::Duration::from_secs_f64(*at).as_nanos();
        instants.iter().map(|at| (u64::try_from(nanos(at)).unwrap(), 1)).collect::<Vec<_>>()
    };
    let table: [(&str, &[f64], f64, Option<f64>); 8] = [
        ("10/s", &[0.0, 0.25, 0.5], 0.2, None),
        ("2/s", &[0.0, 0.25, 0.5], 1.0, None),
        // One release more than may go at once.
        ("2/s", &[0.0, 0.0, 0.0], 1.5, None),
        ("2/s", &[7.0], 0.5, None),
        ("2/s", &[0.0, 0.0, 1.0, 1.0], 1.0, Some(2.0)),
        ("1/s,algo=bucket,burst=4", &[0.0; 4], 1.0, None),
        ("4/s,algo=interval", &[0.0, 0.25, 0.5], 1.0, None),
        ("2/s,algo=fixed", &[0.0, 1.0, 1.0, 1.0], 1.0, Some(1.0)),
    ];
    for (limit, instants, mean_share, mean_rate) in table {
        assert_eq!(share(limit, &seconds(instants)), (mean_share, mean_rate), "{limit} {instants:?}");
    }
}

/// Items of random cost, each released as soon as allowed after a random pause.
fn released<R: crate::rule::Rule>(rule: &R, random: &mut fastrand::Rng) -> Vec<(u64, u64)> {
    let (mut state, mut now, count) = (R::State::default(), Time(0), random.usize(1..40));
    let release = |_| {
        let eligible_at = Time(now.0 + random.u64(0..30).saturating_sub(15));
        let ask = crate::rule::Ask { eligible_at, cost: random.u64(1..=3) };
        let Some(at) = rule.earliest(&state, ask).known() else { panic!("never") };
        rule.commit(&mut state, at, ask);
        now = at;
        (at.0, ask.cost)
    };
    (0..count).map(release).collect()
}

#[test]
fn what_keeps_to_a_limit_never_has_more_than_all_of_it() {
    use crate::rule::{Bucket, Fixed, Interval, Rule as _, Sliding, Terms};
    let (terms, mut random) = (Terms::new(3, 10, 2), fastrand::Rng::with_seed(7));
    for _ in 0..500 {
        let runs = [
            ("3/10ns", released(&Sliding::new(terms), &mut random)),
            ("3/10ns,algo=bucket,burst=2", released(&Bucket::new(terms), &mut random)),
            ("3/10ns,algo=interval", released(&Interval::new(terms), &mut random)),
            ("3/10ns,algo=fixed", released(&Fixed::new(terms), &mut random)),
        ];
        for (limit, releases) in runs {
            let (mean, _) = share(limit, &releases);
            assert!(mean <= 1.000_001, "{mean} of {limit}: {releases:?}");
            let audit = audited(limit, &releases);
            let limit = &audit.limits[0];
            assert!(limit.tally.findings.worst.count <= limit.most(), "{}: {releases:?}", limit.rate);
        }
    }
}

#[test]
fn keys_that_are_idle_are_forgotten_and_nothing_is_judged_otherwise_for_it() {
    for limit in ["2/1us", "2/1us,algo=bucket", "2/1us,algo=interval", "2/1us,algo=fixed"] {
        let mut audit = Audit::new(&[rate(&format!("{limit},key=col:1"))]);
        let mut random = fastrand::Rng::with_seed(7);
        let mut alone: std::collections::HashMap<u32, Audit> = std::collections::HashMap::new();
        let mut now = 0;
        for number in 0..40_000 {
            now += random.u64(0..=1);
            let key = random.u32(0..20_000) * random.u32(0..=1);
            let mut found = [None; 2];
            let one = alone.entry(key).or_insert_with(|| Audit::new(&[rate(limit)]));
            one.judge(number, Time(now), &[1], &[], |violation| {
                found[0] = Some((violation.count, violation.early));
            });
            let keys = [Key::from_slice(&key.to_le_bytes())];
            let tell = |violation: &Violation| found[1] = Some((violation.count, violation.early));
            audit.judge(number, Time(now), &[1], &keys, tell);
            assert_eq!(found[0], found[1], "{limit}, key {key}");
        }
        let limit = &audit.limits[0];
        assert!(limit.remembered() < 5500, "{} are remembered", limit.remembered());
        assert_eq!(limit.keys(), Some(KeyCount { number: alone.len() as u64, is_exact: true }));
        let busiest = &limit.worst_keys(1)[0];
        assert_eq!((busiest.0, busiest.1), (&[0; 4][..], alone[&0].limits[0].tally.findings));
        assert_eq!(limit.tally.findings.violations, alone.values().map(|audit| audit.too_early).sum::<u64>());
    }
}

/// A release that costs more than the burst waits from the release before it, however long ago that was.
#[test]
fn no_key_is_forgotten_while_the_next_release_may_depend_on_the_last() {
    let mut audit = Audit::new(&[rate("1/10ns,algo=bucket,burst=3,cost=col:2,key=col:1")]);
    let mut early = Vec::new();
    for key in 0..5000u32 {
        audit.judge(1, Time(key.into()), &[1], &[Key::from_slice(&key.to_le_bytes())], |_| {});
    }
    audit.judge(1, Time(5000), &[600], &[Key::from_slice(&[0; 4])], |violation| early.push(violation.early));
    assert_eq!(early, [Some(980)]);
}

/// Its releases are further apart than the number of other keys whose histories are kept.
#[test]
fn the_histories_that_are_drawn_are_those_of_the_busiest_keys() {
    let mut audit = Audit::new(&[rate("9/1h,key=col:1")]).traced();
    for at in 0..60_000u64 {
        let key = if at % 1500 == 0 { "zz".to_owned() } else { (at % 20_011).to_string() };
        audit.judge(at, Time(at), &[1], &[Key::from_slice(key.as_bytes())], |_| {});
    }
    let traces = audit.limits[0].traces(4);
    let totals: Vec<_> = traces.iter().map(|(key, trace)| (key.unwrap_or_default(), trace.total())).collect();
    assert_eq!(totals[0], (&b"zz"[..], 40));
    assert!(totals[1..].iter().all(|(_, total)| *total == 3), "{totals:?}");
}
