//! Hours and civil periods, compared with what clocks show minute by minute.

use std::ops::Range;

use fastrand::Rng;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use throttle::time::{Civil, Hours, SECOND, Week, Zone};

use crate::support::{for_each_seed, seeds};

/// Zones with half hours, with skipped and repeated midnights and dates, and with several clock changes a year.
const ZONES: [&str; 24] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Asia/Gaza",
    "America/Havana",
    "Antarctica/Troll",
    "Pacific/Kwajalein",
    "Asia/Amman",
    "Africa/Cairo",
    "America/Asuncion",
    "Africa/Monrovia",
    "Pacific/Kiritimati",
    "Asia/Pyongyang",
    "America/Caracas",
    "America/Scoresbysund",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Antarctica/Casey",
    "UTC",
];

const MINUTE: i128 = 60 * SECOND as i128;
const DAY: i128 = 1440 * MINUTE;

/// A zone and an instant, mostly near a clock change.
pub(crate) fn place(random: &mut Rng) -> (&'static str, TimeZone, i128) {
    let name = random.choice(ZONES).expect("a zone");
    let zone = TimeZone::get(name).expect("a zone of the system");
    let year = Timestamp::from_second(random.i64(0..3_000_000_000)).expect("before 2070");
    let change = zone.following(year).next().map_or(year, |change| change.timestamp());
    let at = if random.u8(0..5) == 0 { year } else { change };
    let near = at.as_second() + random.i64(-200_000..200_000);
    (name, zone, (i128::from(near.max(0)) * i128::from(SECOND) / MINUTE * MINUTE).max(0))
}

pub(crate) fn shown(zone: &TimeZone, at: i128) -> ZonedDateTime {
    Timestamp::from_nanosecond(at).expect("an instant").to_zoned_datetime(zone.clone())
}

/// The first minute at which clocks show this date or a later one.
pub(crate) fn first_of(zone: &TimeZone, date: Date) -> i128 {
    let from =
        date.to_zoned_datetime(TimeZone::UTC).expect("a date").timestamp().as_nanosecond() - 15 * 60 * MINUTE;
    let minutes = (0..54 * 120).map(|half| from + half * MINUTE / 2);
    let date_at = |at: i128| zone.to_datetime(Timestamp::from_nanosecond(at).expect("an instant")).date();
    minutes.into_iter().find(|at| date_at(*at) >= date).expect("it comes")
}

#[test]
fn civil_periods_are_those_that_clocks_show() {
    let hour = 3600 * SECOND;
    for_each_seed(12, |random| {
        let (name, rules, at) = place(random);
        let at = at + i128::from(random.u64(0..60 * SECOND));
        let own: Zone = name.parse().expect("a zone");
        let date = shown(&rules, at).date();
        let days: Vec<_> = (-3..=3).map(|days| first_of(&rules, date.saturating_add(days.days()))).collect();
        let day = around(&days, at);
        assert_eq!(Civil::Day.around(own, at), day, "{name} {at}");
        for period in [random.u64(1..=12) * hour, random.u64(1..=60) * SECOND, 1500 * SECOND / 1000] {
            if let Some(part) = Civil::new(period).filter(|civil| matches!(civil, Civil::Part(_))) {
                let parts = (0..).map(|k| day.start + k * i128::from(period)).take_while(|at| *at < day.end);
                let parts: Vec<_> = parts.chain([day.end]).collect();
                assert_eq!(part.around(own, at), around(&parts, at), "{name} {at} {part:?}");
            }
        }
        let monday = date.tomorrow().unwrap().nth_weekday(-1, Weekday::Monday).expect("a Monday");
        let week: Vec<_> = (-1..=2).map(|week| monday.saturating_add(week.weeks())).collect();
        let month: Vec<_> =
            (-1..=2).map(|month| date.first_of_month().saturating_add(month.months())).collect();
        let year: Vec<_> = (-1..=2).map(|year| date.first_of_year().saturating_add(year.years())).collect();
        for (civil, dates) in [(Civil::Week, week), (Civil::Month, month), (Civil::Year, year)] {
            let starts: Vec<_> = dates.into_iter().map(|date| first_of(&rules, date)).collect();
            assert_eq!(civil.around(own, at), around(&starts, at), "{name} {at} {civil:?}");
        }
    });
}

/// The stretch from the last of `starts` that is not after `at` to the next one.
fn around(starts: &[i128], at: i128) -> Range<i128> {
    let start = starts.iter().copied().filter(|start| *start <= at).max().expect("one before");
    start..starts.iter().copied().find(|start| *start > at).expect("one after")
}

/// Days, and minutes of the day; the end is on the next day unless it is after the start.
pub(crate) struct Span {
    days: Vec<usize>,
    start: usize,
    end: usize,
}

impl Span {
    pub(crate) fn holds(&self, day: usize, minute: usize) -> bool {
        let (today, yesterday) = (self.days.contains(&day), self.days.contains(&((day + 6) % 7)));
        match self.start < self.end {
            true => today && (self.start..self.end).contains(&minute),
            false => today && minute >= self.start || yesterday && minute < self.end,
        }
    }
}

pub(crate) fn spans(random: &mut Rng) -> (String, Vec<Span>) {
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let spans = (0..random.u8(1..=3)).map(|_| {
        let (first, length) = (random.usize(0..7), random.usize(1..=7));
        let days: Vec<_> = (first..first + length).map(|day| day % 7).collect();
        let (start, end) = (random.usize(0..96) * 15, random.usize(0..=96) * 15);
        let time = |minute: usize| format!("{:02}:{:02}", minute / 60, minute % 60);
        let times = format!("{}-{}", time(start), time(end));
        let of_days = format!("{}-{}", names[first], names[days[length - 1]]);
        match random.u8(0..4) {
            0 => (times, Span { days: (0..7).collect(), start, end }),
            1 if length == 1 => (names[first].to_owned(), Span { days, start: 0, end: 1440 }),
            1 => (of_days, Span { days, start: 0, end: 1440 }),
            _ => (format!("{of_days}@{times}"), Span { days, start, end }),
        }
    });
    let (texts, spans): (Vec<_>, _) = spans.unzip();
    (texts.join("+"), spans)
}

#[test]
fn hours_are_those_at_which_clocks_show_such_a_time() {
    for seed in seeds(8) {
        let random = &mut Rng::with_seed(seed);
        let (name, rules, start) = place(random);
        let (text, spans) = spans(random);
        println!("seed {seed}: {name} {text} from {start}");
        let week: Week = text.parse().expect("hours");
        assert_eq!(week.to_string().parse::<Week>().expect("hours"), week);
        let hours = Hours { week, zone: name.parse().expect("a zone") };
        let step = MINUTE / 2;
        let is_inside: Vec<bool> = (0..9 * DAY / step)
            .map(|minute| {
                let shown = shown(&rules, start + minute * step);
                let day = usize::try_from(shown.weekday().to_monday_zero_offset()).expect("a day");
                let minute = usize::try_from(shown.hour()).expect("an hour") * 60
                    + usize::try_from(shown.minute()).expect("a minute");
                spans.iter().any(|span| span.holds(day, minute))
            })
            .collect();
        for _ in 0..300 {
            let at = random.usize(0..is_inside.len());
            let into = i128::from(random.u64(0..SECOND)) * i128::from(random.bool());
            let instant = start + at as i128 * step + into;
            assert_eq!(hours.contain(instant), is_inside[at], "{instant}");
            for wanted in [true, false] {
                let found = is_inside[at..].iter().position(|inside| *inside == wanted);
                let expected = found.map(|after| match after {
                    0 => instant,
                    _ => start + (at + after) as i128 * step,
                });
                let answer = hours.first(instant, wanted);
                // Later answers are beyond these days.
                let end = start + 9 * DAY;
                assert_eq!(Some(answer).filter(|answer| *answer < end), expected, "{instant} {wanted}");
            }
        }
    }
}
