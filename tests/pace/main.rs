//! The library, as programs use it.

mod concurrent;
mod flights;
#[path = "../it/random.rs"]
mod random;
mod waits;

use std::time::{Duration, Instant};

use fastrand::Rng;
use throttle::pace::{Admission, Error, ErrorKind, Item, Pace, Pacer};

use crate::random::seeds;

/// The instants at which releases were committed.
type Past = Vec<u64>;

/// Whether something was admitted and, if it was refused, until when.
pub(crate) fn admitted<T: std::fmt::Debug>(answer: &Result<T, Error>) -> Result<(), Option<Instant>> {
    match answer.as_ref().map_err(Error::kind) {
        Ok(_) => Ok(()),
        Err(ErrorKind::Refused(refused)) => Err(refused.until),
        Err(kind) => panic!("{kind:?}"),
    }
}

fn refused(answer: &Result<Admission, Error>) -> Option<ErrorKind> {
    answer.as_ref().err().map(Error::kind)
}

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
        let pace = Pace::new(&limits, origin).unwrap();
        let (mut past, mut by_key) = (Past::new(), vec![Past::new(); 3]);
        let mut now = 0;
        for _ in 0..60 {
            let key = random.usize(..3);
            let item = pace.item(format!("{key} x").as_bytes(), at(now)).unwrap();
            let first = sliding(&past, all, all_period, now);
            let first = first.max(sliding(&by_key[key], each, each_period, now));
            assert_eq!(pace.earliest(&item, at(now)).unwrap(), Some(at(first)), "{limits} at {now}");
            if first > now {
                assert_eq!(admitted(&pace.admit(&item, at(now))), Err(Some(at(first))));
                // Early by one nanosecond.
                assert!(pace.admit(&item, at(first - 1)).is_err());
            }
            now = first + random.u64(..3);
            let admission = pace.admit(&item, at(now)).unwrap();
            if random.u8(..8) == 0 {
                admission.cancel(at(now));
                continue;
            }
            now += random.u64(..10);
            admission.commit(at(now));
            past.push(now);
            by_key[key].push(now);
        }
    }
}

/// Instants that were read long before they are used, as by a task that has to wait for something else, too.
#[test]
fn property_an_instant_before_the_latest_stands_for_that() {
    for seed in seeds(100) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let (count, period) = (random.usize(1..5), random.u64(1..40));
        let origin = Instant::now();
        let at = |nanos: u64| origin + Duration::from_nanos(nanos);
        let pace = Pace::new(&format!("{count}/{period}ns"), origin).unwrap();
        let item = pace.item(b"", origin).unwrap();
        let mut past = Past::new();
        let mut latest = 0;
        for _ in 0..60 {
            let asked = latest + random.u64(..period) - random.u64(..=latest.min(period));
            let now = latest.max(asked);
            let first = sliding(&past, count, period, now);
            assert_eq!(pace.earliest(&item, at(asked)).unwrap(), Some(at(first)));
            let answer = pace.admit(&item, at(asked));
            assert_eq!(admitted(&answer), if first > now { Err(Some(at(first))) } else { Ok(()) });
            if let Ok(admission) = answer {
                // Nor is it charged before it was admitted.
                let ended = now + random.u64(..9) - random.u64(..=now.min(9));
                latest = now.max(ended);
                admission.commit(at(ended));
                past.push(latest);
            }
        }
    }
}

/// A refusal changes nothing, so an earlier instant may be told after it.
#[test]
fn a_refusal_drops_nothing_that_an_earlier_instant_depends_on() {
    let origin = Instant::now();
    let at = |millis: u64| origin + Duration::from_millis(millis);
    let pace = Pace::new("1/s,key=col:1\n1/h,key=col:1,only=b", origin).unwrap();
    for key in ["a", "b"] {
        pace.check((key, 1), at(0)).unwrap();
    }
    assert_eq!(admitted(&pace.check(("b", 1), at(10_000))), Err(Some(at(3_600_000))));
    assert_eq!(admitted(&pace.check(("a", 1), at(500))), Err(Some(at(1000))));
}

/// A bucket saves up nothing for one who asks late; what was dropped ends at any instant that is told.
#[test]
fn what_is_told_late_is_as_of_the_latest_instant() {
    let origin = Instant::now();
    let at = |nanos: u64| origin + Duration::from_nanos(nanos);
    let pace = Pace::new("1/9ns,algo=bucket,burst=0", origin).unwrap();
    pace.check(("", 0), at(45)).unwrap();
    assert!(pace.check(("", 1), at(45)).is_err() && pace.check(("", 1), at(0)).is_err());
    let tells: [fn(&Pace, Instant); 2] = [
        |pace, now| pace.admit(("", 1), now).unwrap().cancel(now),
        |pace, now| pace.set_clock(now, std::time::UNIX_EPOCH),
    ];
    for tell in tells {
        let pace = Pace::new("5/12ns", origin).unwrap();
        drop(pace.admit(("", 2), at(1)).unwrap());
        tell(&pace, at(3));
        assert_eq!(pace.earliest(("", 4), at(11)).unwrap(), Some(at(15)));
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
        // A cost may be named by a selector, or just be given.
        let cost = random.choice([",cost=col:2", ""]).unwrap();
        let limit = format!("{count}/{}ms,algo={algorithm},start={start},margin=20ms{cost}", 100 * period);
        let origin = Instant::now();
        // Idle histories are not looked for more often than once a second.
        let at = |tenths: u64| origin + Duration::from_millis(100 * tenths);
        let keyed = Pace::new(&format!("{limit},key=col:1"), origin).unwrap();
        let alone: Vec<_> = (0..4).map(|_| Pace::new(&limit, origin).unwrap()).collect();
        let mut waiting = Vec::new();
        let mut now = 0;
        for _ in 0..60 {
            let most = if random.u8(..6) == 0 { period * 4 } else { 6 };
            now += random.u64(..most);
            if waiting.is_empty() || random.bool() {
                let key = random.usize(..alone.len());
                // Only a bucket and a gap serve what costs more.
                let dearest = if ["sliding", "fixed"].contains(&algorithm) { count } else { 9 };
                let price = random.u64(..=dearest);
                let item = |pace: &Pace| match cost {
                    "" => pace.keyed(key.to_string().as_bytes(), price, at(now)).unwrap(),
                    _ => pace.item(format!("{key} {price}").as_bytes(), at(now)).unwrap(),
                };
                waiting.push((key, item(&keyed), item(&alone[key])));
            }
            // Not the first: others have to wait while many are released.
            let next = random.usize(..waiting.len());
            let (key, item, own) = &waiting[next];
            let earliest = |pace: &Pace, item| pace.earliest(item, at(now)).unwrap();
            assert_eq!(earliest(&keyed, item), earliest(&alone[*key], own), "{limit} at {now}");
            let (one, other) = (keyed.admit(item, at(now)), alone[*key].admit(own, at(now)));
            assert_eq!(refused(&one), refused(&other), "{limit} at {now}");
            if let (Ok(one), Ok(other)) = (one, other) {
                now += random.u64(..4);
                one.commit(at(now));
                other.commit(at(now));
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
    let pace = Pace::new("1/s,algo=bucket,burst=1,key=col:1,cost=col:2", origin).unwrap();
    let admit = |text: &[u8], now| {
        let item = pace.item(text, at(now)).unwrap();
        pace.admit(&item, at(now)).unwrap()
    };
    let first = admit(b"a 1", 0);
    first.commit(at(0));
    let dear = pace.item(b"a 3", at(0)).unwrap();
    let [second, third] = [&b"b 1"[..], b"c 1"].map(|text| admit(text, 1500));
    second.commit(at(1500));
    assert_eq!(pace.earliest(&dear, at(1500)).unwrap(), Some(at(3000)));
    drop(dear);
    let fourth = admit(b"d 1", 3000);
    fourth.commit(at(3000));
    third.commit(at(3100));
    let next = pace.item(b"c 1", at(3100)).unwrap();
    assert_eq!(pace.earliest(&next, at(3100)).unwrap(), Some(at(4100)));
}

#[test]
fn a_pacer_is_not_early_and_cancelled_permits_are_free() {
    let pacer = Pacer::new("2/60ms").unwrap();
    let start = Instant::now();
    (0..9).for_each(|_| pacer.wait(("", 1)).unwrap().cancel());
    (0..5).for_each(|_| drop(pacer.wait(("", 1)).unwrap()));
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[test]
fn mistakes_are_told() {
    let now = Instant::now();
    let mistake = |limits: &str| {
        let error = Pace::new(limits, now).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        (error.kind(), source.unwrap_or_else(|| error.to_string()))
    };
    let none = "no limit given: add one, such as 10/s".to_owned();
    assert_eq!(mistake(" # none\n"), (ErrorKind::InvalidLimits, none));
    let (kind, why) = mistake("5/s\n10");
    assert!(kind == ErrorKind::InvalidLimits && why.starts_with("line 2: '10'"), "{why}");
    for limit in ["5/s\n2/running,key=host", "1..5/s,algo=interval"] {
        assert_eq!(mistake(limit).0, ErrorKind::Unsupported, "{limit}");
    }
    let pace = Pace::new("10/s,cost=col:2,key=col:1", now).unwrap();
    let kind = |item: Result<_, Error>| item.map(|_| ()).unwrap_err().kind();
    assert_eq!(kind(pace.item(b"a", now)), ErrorKind::InvalidItem);
    assert_eq!(kind(pace.item(b"a x", now)), ErrorKind::InvalidItem);
    assert_eq!(kind(pace.item(b"a 11", now)), ErrorKind::ExceedsLimit);
    assert_eq!(kind(pace.keyed(b"a", 11, now)), ErrorKind::ExceedsLimit);
    assert_eq!(kind(pace.named(&[("col:3", b"a")], &[("col:2", 1)], now)), ErrorKind::InvalidItem);
    assert_eq!(kind(pace.named(&[("col:1", b"a")], &[], now)), ErrorKind::InvalidItem);
    let paused = Pace::new("0/s", now).unwrap();
    assert_eq!(paused.earliest(("", 1), now).unwrap(), None);
    assert_eq!(refused(&paused.admit(("", 1), now)), Some(ErrorKind::Never));
}

/// By name, by one key, and from a text, the same is charged.
#[test]
fn values_charge_what_the_text_would() {
    let now = Instant::now();
    let limits = "9/s,key=col:1,cost=col:2\n9/s,key=col:1,only=b,cost=2\n9/s,key=col:3";
    let pace = Pace::new(limits, now).unwrap();
    let left = |item: Result<Item, Error>| pace.left(item.unwrap(), now).unwrap();
    assert_eq!(left(pace.item(b"a 4 x", now)), 2);
    let by_name = |key: &[u8], cost| pace.named(&[("col:1", key), ("col:3", b"x")], &[("col:2", cost)], now);
    assert_eq!(left(by_name(b"a", 4)), 2);
    assert_eq!([left(pace.item(b"b 1 x", now)), left(by_name(b"b", 1))], [4, 4]);
    let admission = pace.admit(by_name(b"a", 4).unwrap(), now).unwrap();
    assert_eq!(left(pace.item(b"a 3 y", now)), 1);
    assert_eq!(left(pace.item(b"c 1 x", now)), 8);
    admission.cancel(now);
    assert_eq!(left(pace.item(b"a 3 y", now)), 3);
    assert_eq!(left(pace.keyed(b"z", 3, now)), 3);
    let pace = Pace::new("9/s,cost=.n", now).unwrap();
    let costs = ["3", "3.0", "30e-1"].map(|number| pace.item(format!("{{\"n\": {number}}}").as_bytes(), now));
    assert_eq!(costs.map(|item| pace.left(item.unwrap(), now).unwrap()), [3; 3]);
    assert!(pace.item(b"{\"n\": 3.1}", now).is_err());
}

/// With and without the parser that the program has.
#[test]
fn all_spellings_of_a_host_are_one_key() {
    let now = Instant::now();
    let pace = Pace::new("9/s,key=host", now).unwrap();
    let hosts = ["http://a.example", "https://A.Example:8080/x", "http://me:pw@a.example.?q=b.example"];
    let mut open = Vec::new();
    for (before, host) in hosts.iter().enumerate() {
        let item = pace.item(host.as_bytes(), now).unwrap();
        assert_eq!(pace.left(&item, now).unwrap(), 9 - before as u64, "{host}");
        open.push(pace.admit(item, now).unwrap());
    }
    for other in ["http://b.example/http://a.example", "http://[::1]:80/", "a.example"] {
        assert_eq!(pace.left(pace.item(other.as_bytes(), now).unwrap(), now).unwrap(), 9, "{other}");
    }
}

#[test]
fn an_item_of_other_limits_is_refused() {
    let now = Instant::now();
    let [one, other] = ["1/s", "1/s"].map(|limits| Pace::new(limits, now).unwrap());
    let item = one.keyed(b"", 1, now).unwrap();
    assert_eq!(refused(&other.admit(&item, now)), Some(ErrorKind::ForeignItem));
    assert_eq!(other.earliest(&item, now).unwrap_err().kind(), ErrorKind::ForeignItem);
    assert_eq!(other.left(&item, now).unwrap_err().kind(), ErrorKind::ForeignItem);
    assert!(one.clone().admit(&item, now).is_ok());
}

#[test]
fn a_limit_that_goes_by_the_calendar_is_told_the_clock() {
    let now = Instant::now();
    let pace = Pace::new("1/d,algo=calendar,tz=UTC", now).unwrap();
    let noon = std::time::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400 + 43_200);
    pace.set_clock(now, noon);
    let item = pace.item(b"", now).unwrap();
    let admission = pace.admit(&item, now).unwrap();
    admission.commit(now);
    assert_eq!(pace.earliest(&item, now).unwrap(), Some(now + Duration::from_secs(43_200)));
}

#[test]
fn a_clock_of_ones_own_is_the_one_that_limits_start_by() {
    let now = Instant::now();
    let pace = Pace::new("1/d,algo=calendar,tz=UTC,start=empty", now).unwrap();
    let noon = std::time::UNIX_EPOCH + Duration::from_secs(43_200);
    pace.set_clock(now, noon);
    let item = pace.item(b"", now).unwrap();
    assert_eq!(pace.earliest(&item, now).unwrap(), Some(now + Duration::from_secs(43_200)));
}

/// What the command line has options for is here written in lines.
#[test]
fn no_message_speaks_of_the_command_line() {
    let limits = [
        "",
        "10",
        "x",
        "1/s,5/m",
        "10/s 5/m",
        "1/s,key=col:1,key=col:2",
        "1/s,burst=3",
        "0/s,5/m",
        "limits.conf",
        "@limits.conf",
        "./limits",
        "1/s,host",
        "1/s,algo=x",
        "1/s,from=exit,algo=bucket",
        "2/running",
        "1..9/s",
        "1/s,tz=UTC",
        "1/s,margin=600y",
        "1/s,only=x",
        "1/s,start=half",
        "1/x",
        "1/s,cost=x",
        "1/s,key=3",
    ];
    for limits in limits {
        let error = Pacer::new(limits).unwrap_err();
        let mut next: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = next {
            let text = error.to_string();
            let is_option = |word: &str| word.starts_with('-') && word.len() > 1;
            assert!(!text.is_empty() && !text.split([' ', '\'']).any(is_option), "{limits}: {text}");
            next = error.source();
        }
    }
}

/// Costs at the ends of what is possible are admitted or refused at once; none makes anyone wait for ever.
#[test]
fn costs_of_nothing_and_of_too_much_are_answered_at_once() {
    let pacer = Pacer::new("2/h\n9/h,key=col:1").unwrap();
    let kind = |cost| pacer.wait(("a", cost)).map(drop).map_err(|error| error.kind());
    for cost in [3, 9, 10, u64::MAX] {
        assert_eq!(kind(cost), Err(ErrorKind::ExceedsLimit), "{cost}");
    }
    assert_eq!(kind(2), Ok(()));
    assert_eq!(kind(0), Ok(()));
    assert!(pacer.left(("a", 0)).unwrap() > 1_000_000 && pacer.check(("a", 0)).is_ok());
    let bucket = Pacer::new("1/h,algo=bucket,burst=1").unwrap();
    assert_eq!(bucket.wait(("", u64::MAX)).unwrap_err().kind(), ErrorKind::Never);
    assert_eq!(Pacer::new("0/s").unwrap().wait(("", 1)).unwrap_err().kind(), ErrorKind::Never);
    let key = vec![b'x'; 1 << 20];
    assert!(pacer.check((&key, 2)).is_err() && pacer.left((&key, 1)).unwrap() == 0);
}
