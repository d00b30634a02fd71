//! The library, as programs use it.

use std::time::{Duration, Instant};

use fastrand::Rng;
use throttle::pace::{Pace, Pacer, Refusal};

use crate::support::seeds;

/// The instants at which releases were committed.
type Past = Vec<u64>;

/// The instant from which a sliding window admits one more, asked at `now`.
fn sliding(past: &Past, count: usize, period: u64, now: u64) -> u64 {
    let deciding = past.len().checked_sub(count).map(|at| past[at]);
    deciding.map_or(now, |at| now.max(at + period))
}

/// A limit for all and one per key, compared with lists of commits, with ties and slow releases.
#[test]
fn property_a_release_is_admitted_from_the_first_instant_on_that_all_limits_allow() {
    for seed in seeds(200) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let [all, each] = [random.usize(1..5), random.usize(1..4)];
        let [all_period, each_period] = [random.u64(1..40), random.u64(1..40)];
        let limits = format!("{all}/{all_period}ns\n{each}/{each_period}ns,key=col:1 # of each");
        let origin = Instant::now();
        let at = |nanos: u64| origin + Duration::from_nanos(nanos);
        let mut pace = Pace::new(&limits, origin).unwrap();
        let (mut past, mut by_key) = (Past::new(), vec![Past::new(); 3]);
        let mut now = 0;
        for _ in 0..60 {
            let key = random.usize(..3);
            let item = pace.item(format!("{key} x").as_bytes(), at(now)).unwrap();
            let first = sliding(&past, all, all_period, now);
            let first = first.max(sliding(&by_key[key], each, each_period, now));
            assert_eq!(pace.earliest(&item, at(now)), Some(at(first)), "{limits} at {now}");
            if first > now {
                assert_eq!(pace.admit(&item, at(now)).unwrap_err(), Refusal::Until(at(first)));
                // Early by one nanosecond.
                assert!(pace.admit(&item, at(first - 1)).is_err());
            }
            now = first + random.u64(..3);
            let admission = pace.admit(&item, at(now)).unwrap();
            if random.u8(..8) == 0 {
                drop(admission);
                continue;
            }
            now += random.u64(..10);
            pace.commit(admission, at(now));
            past.push(now);
            by_key[key].push(now);
        }
    }
}

/// Instants that were read long before they are used, as by a task that has to wait for something else, too.
#[test]
fn property_an_instant_before_the_last_commit_stands_for_that_commit() {
    for seed in seeds(100) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let (count, period) = (random.usize(1..5), random.u64(1..40));
        let origin = Instant::now();
        let at = |nanos: u64| origin + Duration::from_nanos(nanos);
        let mut pace = Pace::new(&format!("{count}/{period}ns"), origin).unwrap();
        let item = pace.item(b"", origin).unwrap();
        let mut past = Past::new();
        let mut latest = 0;
        for _ in 0..60 {
            let asked = latest + random.u64(..period) - random.u64(..=latest.min(period));
            let now = latest.max(asked);
            let first = sliding(&past, count, period, now);
            assert_eq!(pace.earliest(&item, at(asked)), Some(at(first)));
            let admitted = pace.admit(&item, at(asked));
            assert_eq!(admitted.as_ref().err(), Some(&Refusal::Until(at(first))).filter(|_| first > now));
            if let Ok(admission) = admitted {
                // Nor is it charged before it was admitted.
                let ended = now + random.u64(..9) - random.u64(..=now.min(9));
                latest = now.max(ended);
                pace.commit(admission, at(ended));
                past.push(latest);
            }
        }
    }
}

/// With keys, idle histories are dropped; a limit without a key keeps its history.
#[test]
fn property_a_key_is_limited_as_if_it_had_a_limit_of_its_own() {
    for seed in seeds(200) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let algorithm = random.choice(["sliding", "bucket", "bucket,burst=2", "interval", "fixed"]).unwrap();
        let start = random.choice(["full", "empty"]).unwrap();
        let (count, period) = (random.u64(1..5), random.u64(1..40));
        let limit =
            format!("{count}/{}ms,algo={algorithm},start={start},margin=20ms,cost=col:2", 100 * period);
        let origin = Instant::now();
        // Idle histories are not looked for more often than once a second.
        let at = |tenths: u64| origin + Duration::from_millis(100 * tenths);
        let mut keyed = Pace::new(&format!("{limit},key=col:1"), origin).unwrap();
        let mut alone: Vec<_> = (0..4).map(|_| Pace::new(&limit, origin).unwrap()).collect();
        let mut waiting = Vec::new();
        let mut now = 0;
        for _ in 0..60 {
            let most = if random.u8(..6) == 0 { period * 4 } else { 6 };
            now += random.u64(..most);
            if waiting.is_empty() || random.bool() {
                let key = random.usize(..alone.len());
                // Only a bucket and a gap serve what costs more.
                let dearest = if ["sliding", "fixed"].contains(&algorithm) { count } else { 9 };
                let text = format!("{key} {}", random.u64(..=dearest));
                let item = |pace: &mut Pace| pace.item(text.as_bytes(), at(now)).unwrap();
                waiting.push((key, item(&mut keyed), item(&mut alone[key])));
            }
            // Not the first: others have to wait while many are released.
            let next = random.usize(..waiting.len());
            let (key, item, own) = &waiting[next];
            assert_eq!(keyed.earliest(item, at(now)), alone[*key].earliest(own, at(now)), "{limit} at {now}");
            let (one, other) = (keyed.admit(item, at(now)), alone[*key].admit(own, at(now)));
            assert_eq!(one.as_ref().err(), other.as_ref().err(), "{limit} at {now}");
            if let (Ok(one), Ok(other)) = (one, other) {
                now += random.u64(..4);
                keyed.commit(one, at(now));
                alone[*key].commit(other, at(now));
                waiting.swap_remove(next);
            }
        }
    }
}

/// Idle histories are dropped when something is committed.
#[test]
fn nothing_is_dropped_that_an_item_or_an_admission_still_depends_on() {
    let origin = Instant::now();
    let at = |millis: u64| origin + Duration::from_millis(millis);
    let mut pace = Pace::new("1/s,algo=bucket,burst=1,key=col:1,cost=col:2", origin).unwrap();
    let admit = |pace: &mut Pace, text: &[u8], now| {
        let item = pace.item(text, at(now)).unwrap();
        pace.admit(&item, at(now)).unwrap()
    };
    let first = admit(&mut pace, b"a 1", 0);
    pace.commit(first, at(0));
    let dear = pace.item(b"a 3", at(0)).unwrap();
    let [second, third] = [&b"b 1"[..], b"c 1"].map(|text| admit(&mut pace, text, 1500));
    pace.commit(second, at(1500));
    assert_eq!(pace.earliest(&dear, at(1500)), Some(at(3000)));
    drop(dear);
    let fourth = admit(&mut pace, b"d 1", 3000);
    pace.commit(fourth, at(3000));
    pace.commit(third, at(3100));
    let next = pace.item(b"c 1", at(3100)).unwrap();
    assert_eq!(pace.earliest(&next, at(3100)), Some(at(4100)));
}

#[test]
fn a_pacer_is_not_early_and_cancelled_permits_are_free() {
    let mut pacer = Pacer::new("2/60ms").unwrap();
    let start = Instant::now();
    (0..9).for_each(|_| pacer.wait(b"").unwrap().cancel());
    (0..5).for_each(|_| drop(pacer.wait(b"").unwrap()));
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[test]
fn mistakes_are_told() {
    let now = Instant::now();
    let mistake = |limits: &str| Pace::new(limits, now).err().unwrap().to_string();
    assert_eq!(mistake(" # none\n"), "no limit given: add one, such as 10/s");
    assert!(mistake("5/s\n10").starts_with("line 2: '10'"));
    assert_eq!(
        mistake("5/s\n2/running,key=host").split(':').next(),
        Some("2/running,key=host is for commands, and none run here")
    );
    let mut pace = Pace::new("10/s,cost=col:2", now).unwrap();
    assert!(pace.item(b"a", now).is_err() && pace.item(b"a 11", now).is_err());
    let paused = Pace::new("0/s", now).and_then(|mut pace| {
        let item = pace.item(b"", now)?;
        Ok((pace.earliest(&item, now), pace.admit(&item, now).err()))
    });
    assert_eq!(paused.unwrap(), (None, Some(Refusal::Never)));
}

#[test]
fn a_limit_that_goes_by_the_calendar_is_told_the_clock() {
    let now = Instant::now();
    let mut pace = Pace::new("1/d,algo=calendar,tz=UTC", now).unwrap();
    let noon = std::time::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400 + 43_200);
    pace.set_clock(now, noon);
    let item = pace.item(b"", now).unwrap();
    let admission = pace.admit(&item, now).unwrap();
    pace.commit(admission, now);
    assert_eq!(pace.earliest(&item, now), Some(now + Duration::from_secs(43_200)));
}

#[test]
fn a_clock_of_ones_own_is_the_one_that_limits_start_by() {
    let now = Instant::now();
    let mut pace = Pace::new("1/d,algo=calendar,tz=UTC,start=empty", now).unwrap();
    let noon = std::time::UNIX_EPOCH + Duration::from_secs(43_200);
    pace.set_clock(now, noon);
    let item = pace.item(b"", now).unwrap();
    assert_eq!(pace.earliest(&item, now), Some(now + Duration::from_secs(43_200)));
}
