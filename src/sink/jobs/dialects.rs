//! The ways in which services say that a quota is used up, and until when.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::headers::{Headers, date};
use crate::config::{clamped_duration, parse_seconds};
use crate::time::{SECOND, nanos};

/// The fields that say how long to wait, each with its source. The first that can be read counts: milliseconds are
/// more exact.
const WAITS: &[&str] = &[
    // learn.microsoft.com, "Azure App Configuration: Throttling"; OpenAI and Azure OpenAI, whose clients prefer it.
    "retry-after-ms",
    // learn.microsoft.com, "Azure Cosmos DB: Common REST response headers".
    "x-ms-retry-after-ms",
    // RFC 9110, section 10.2.3. As in RFC 3339: developers.zoom.us, "Rate limits".
    "Retry-After",
    // openskynetwork.github.io, "REST API"; github.com/MarcGiffing/bucket4j-spring-boot-starter.
    "X-Rate-Limit-Retry-After-Seconds",
];

/// What stands in place of `remaining` in the field that says when there will be more of a quota; of several, the first
/// that can be read counts.
const RESETS: &[&str] = &[
    // In seconds from now, with decimals: docs.discord.com, "Rate Limits".
    "reset-after",
    // In seconds from now: draft-ietf-httpapi-ratelimit-headers-06; support.reddithelp.com, "Reddit Data API Wiki";
    // developers.brevo.com, "Rate limit headers"; inference-docs.cerebras.ai, "Rate Limits". Since 1970:
    // docs.github.com, "Rate limits for the REST API"; docs.gitlab.com, "User and IP rate limits"; docs.x.com, "Rate
    // limits"; in milliseconds: linear.app/developers/rate-limiting. As a date: developer.vimeo.com, "Rate limiting";
    // developer.atlassian.com, "Rate limiting"; platform.claude.com, "Rate limits". As durations, such as 6m0s:
    // developers.openai.com, "Rate limits"; console.groq.com, "Rate Limits".
    "reset",
    // As a date: docs.developer.yelp.com, "Rate Limiting".
    "resettime",
    // Since 1970: symfony.com, "Rate Limiter".
    "retry-after",
    // As a date: techdocs.akamai.com, "Rate limiting".
    "next",
    // The length of the window: developers.hubspot.com, "API usage guidelines"; developer.atlassian.com/cloud/trello,
    // "Rate Limits".
    "interval-milliseconds",
    "interval-ms",
];

/// Quotas whose fields have other names: the field that says how much is left, and the one that says when there will be
/// more; each with its source.
const OTHER_QUOTAS: &[(&str, &str)] = &[
    // Since 1970: developer-specs.company-information.service.gov.uk, "Rate limiting".
    ("x-ratelimit-remain", "x-ratelimit-reset"),
    // In seconds from now: ip-api.com, "JSON".
    ("x-rl", "x-ttl"),
    // The same: www.contentful.com/developers/docs, "Content Management API".
    ("x-contentful-ratelimit-second-remaining", "x-contentful-ratelimit-reset"),
    ("x-contentful-ratelimit-hour-remaining", "x-contentful-ratelimit-reset"),
    // From now: docs.bigcommerce.com, "API Rate Limits".
    ("x-rate-limit-requests-left", "x-rate-limit-time-reset-ms"),
];

/// A number of seconds below this (31 years) is a delay; above, an instant since 1970.
const LONGEST_DELAY: u128 = 1_000_000_000 * SECOND as u128;

/// From here on, a number is in milliseconds since 1970 (in seconds, it would be the year 5138).
const MILLISECONDS: u128 = 100 * LONGEST_DELAY;

/// The wait in nanoseconds that a response asks for.
///
/// # Errors
/// The field that asks for one, if none can be read.
pub(super) fn asked_for(headers: &Headers, now: SystemTime) -> Result<Option<u64>, Box<str>> {
    let asked = || WAITS.iter().filter_map(|name| Some((*name, headers.get(name)?)));
    let wait = asked().find_map(|(name, value)| read(name, value, |value| wait(value, now)));
    match asked().find(|(_, value)| !value.is_empty()) {
        Some((name, value)) if wait.is_none() => Err(format!("{name}: {value}").into()),
        _ => Ok(wait),
    }
}

/// The value of `Retry-After` as a wait in nanoseconds: a number or a date. The size of a number shows whether it
/// counts from now or, against the RFC (developer.moneybird.com, "Throttling"), from 1970.
pub(super) fn wait(value: &str, now: SystemTime) -> Option<u64> {
    let since_1970 = |nanos| wait_until(UNIX_EPOCH + Duration::from_nanos(clamped(nanos)), now);
    match number(value) {
        Some(nanos) if nanos < LONGEST_DELAY => Some(clamped(nanos)),
        Some(nanos) if nanos < MILLISECONDS => Some(since_1970(nanos)),
        Some(nanos) if nanos < 1000 * MILLISECONDS => Some(since_1970(nanos / 1000)),
        Some(_) => Some(u64::MAX),
        None => date(value).map(|at| wait_until(at, now)),
    }
}

/// The value of a field in nanoseconds: of milliseconds if its name ends so, or else by `otherwise`.
fn read(name: &str, value: &str, otherwise: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
    match name.ends_with("-ms") || name.ends_with("-milliseconds") {
        true => number(value).map(|nanos| clamped(nanos / 1000)),
        false => otherwise(value),
    }
}

/// The nanoseconds until an exhausted quota has more; of several, the longest. `None` if all of them have more by now:
/// a failed command is then tried again after its backoff, as this may be due to a clock that is off.
pub(super) fn exhausted_for(headers: &Headers, now: SystemTime) -> Option<u64> {
    let is_exhausted = |remaining: &str| headers.get(remaining).is_some_and(is_none_left);
    let reset = |name: &str| read(name, headers.get(name)?, |value| reset_in(value, now));
    let alike = headers.names().filter(|name| name.contains("limit") && name.contains("remaining"));
    let alike = alike.filter(|remaining| is_exhausted(remaining)).filter_map(|remaining| {
        RESETS.iter().find_map(|other| reset(&remaining.replacen("remaining", other, 1)))
    });
    let others = OTHER_QUOTAS.iter().filter(|(remaining, _)| is_exhausted(remaining));
    let others = others.filter_map(|(_, other)| reset(other));
    alike.chain(others).chain(structured(headers)).max().filter(|wait| *wait > 0)
}

/// The same for the field `RateLimit`: a list of quotas with what is left (r) and for how many seconds (t), as in
/// `"default";r=0;t=30` (draft-ietf-httpapi-ratelimit-headers-10); or one quota, as in `limit=9, remaining=0, reset=30`
/// (draft 07).
fn structured(headers: &Headers) -> Option<u64> {
    let members: Vec<_> = headers.all("ratelimit").flat_map(|value| split(value, ',')).collect();
    let older = parameter(&members, "remaining").is_some_and(is_none_left);
    let older = parameter(&members, "reset").filter(|_| older).and_then(seconds);
    // Found at once: a server may send thousands of each.
    let windows = LazyCell::new(|| windows(headers));
    let exhausted = members.iter().filter_map(|member| {
        let parts: Vec<_> = split(member, ';').collect();
        is_none_left(parameter(&parts, "r")?).then_some(())?;
        seconds(parameter(&parts, "t").or_else(|| *windows.get(parts.first()?)?)?)
    });
    exhausted.chain(older).max()
}

/// The lengths of the windows (w) of policies, by name. If nothing says when there is more, there is by their end.
fn windows<'a>(headers: &Headers<'a>) -> HashMap<&'a str, Option<&'a str>> {
    let mut windows = HashMap::new();
    for policy in headers.all("ratelimit-policy").flat_map(|value| split(value, ',')) {
        let parts: Vec<_> = split(policy, ';').collect();
        windows.entry(parts[0]).or_insert_with(|| parameter(&parts, "w"));
    }
    windows
}

fn parameter<'a>(parts: &[&'a str], name: &str) -> Option<&'a str> {
    let values = parts.iter().filter_map(|part| part.split_once('='));
    values.rev().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The parts of a structured field (RFC 9651); inside quotes, `separator` is text.
fn split(value: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = value.split(move |c| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && is_quoted && !is_escaped;
        c == separator && !is_quoted
    });
    parts.map(str::trim)
}

/// True of `0`, `0.0` and, as at Docker Hub, `0;w=21600`. A negative number means that there is no limit.
fn is_none_left(value: &str) -> bool {
    let number = value.split(';').next().unwrap_or_default().trim();
    parse_seconds(number).ok() == Some(0)
}

fn seconds(value: &str) -> Option<u64> {
    number(value).map(clamped)
}

/// A number of seconds, in nanoseconds, saturating.
fn number(value: &str) -> Option<u128> {
    let digits = value.replacen('.', "", 1);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| parse_seconds(value).unwrap_or(u128::MAX))
}

fn clamped(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// The nanoseconds until there is more, which may also be given as a duration.
fn reset_in(value: &str, now: SystemTime) -> Option<u64> {
    wait(value, now).or_else(|| clamped_duration(value).ok())
}

fn wait_until(at: SystemTime, now: SystemTime) -> u64 {
    nanos(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::hold::parse;
    use super::*;

    /// The examples that services give.
    #[test]
    fn services_say_until_when_a_quota_is_used_up() {
        let table: &[(&str, Option<f64>)] = &[
            ("x-ratelimit-limit: 5000\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1700000060", Some(60.0)),
            ("x-ratelimit-limit: 5000\nx-ratelimit-remaining: 7\nx-ratelimit-reset: 1700000060", None),
            // `Retry-After` wins, though it is shorter.
            ("retry-after: 1\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1700000060", Some(1.0)),
            ("RateLimit-Remaining: 0\nRateLimit-Reset: 1700000060\nRateLimit-ResetTime: x", Some(60.0)),
            ("RateLimit-Limit: 100, 100;w=60\nRateLimit-Remaining: 0\nRateLimit-Reset: 50", Some(50.0)),
            ("ratelimit-remaining: 0;w=21600", None),
            ("x-ratelimit-remaining: 0.0\nx-ratelimit-reset: 251\nx-ratelimit-used: 600", Some(251.0)),
            (
                "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1700000001.5\nX-RateLimit-Reset-After: 1.25",
                Some(1.25),
            ),
            ("x-rate-limit-remaining: 0\nx-rate-limit-reset: 1700000900", Some(900.0)),
            ("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2023-11-14T22:13:30+00:00", Some(10.0)),
            ("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: Tue, 14 Nov 2023 22:13:30 GMT", Some(10.0)),
            ("x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 6m0s", Some(360.0)),
            (
                "x-ratelimit-remaining-requests: 1\nx-ratelimit-remaining-tokens: 0\n\
                 x-ratelimit-reset-requests: 1s\nx-ratelimit-reset-tokens: 7.66s",
                Some(7.66),
            ),
            (
                "x-ratelimit-remaining-requests: 0\nx-ratelimit-remaining-tokens: 0\n\
                 x-ratelimit-reset-requests: 1h2m3s\nx-ratelimit-reset-tokens: 120ms",
                Some(3723.0),
            ),
            ("x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 2m59.56s", Some(179.56)),
            ("x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 250µs", Some(0.000_25)),
            ("x-ratelimit-requests-remaining: 0\nx-ratelimit-requests-reset: 1700000002500", Some(2.5)),
            (
                "anthropic-ratelimit-requests-remaining: 0\nanthropic-ratelimit-requests-reset: 2023-11-14T22:13:25Z",
                Some(5.0),
            ),
            ("RateLimit-Policy: \"default\";q=100;w=10\nRateLimit: \"default\";r=0;t=5", Some(5.0)),
            ("RateLimit: \"default\";r=50;t=30", None),
            ("RateLimit: \"day\";r=9;t=30, \"hour\" ; t=20 ; r=0", Some(20.0)),
            ("RateLimit: \"day\";r=0;t=30\nRateLimit: \"hour\";r=0;t=20", Some(30.0)),
            ("RateLimit: \"a,\\\";r=0;t=9\";r=1;t=2, x;r=0;t=3", Some(3.0)),
            // Nothing says when: by the end of the window.
            ("RateLimit-Policy: \"a\";w=10, \"b\";q=7;w=60\nRateLimit: \"b\";r=0", Some(60.0)),
            ("RateLimit: \"b\";r=0", None),
            ("RateLimit: limit=100, remaining=0, reset=5", Some(5.0)),
            ("RateLimit: limit=100, remaining=1, reset=5", None),
            ("x-ratelimit-remaining: -1\nx-ratelimit-reset: 60", None),
            ("x-ratelimit-remaining: 0\nx-ratelimit-reset: 1600000000", None),
            ("RateLimit: \"default\";r=0;t=0", None),
            // The first reset that can be read counts.
            (
                "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2023-11-14 22:13:30\nX-RateLimit-Retry-After: 7",
                Some(7.0),
            ),
            ("x-ratelimit-remaining: 0\nx-ratelimit-reset: soon", None),
            ("x-ratelimit-remaining: 0\nx-ratelimit-reset: 1.2.3", None),
            ("x-ratelimit-remaining: 0\nx-ratelimit-reset: .", None),
        ];
        assert_waits(table);
    }

    #[test]
    fn some_services_have_fields_of_their_own() {
        assert_waits(&[
            (
                "x-rate-limit-remaining: 99\nx-rate-limit-reset: 1700000900\n\
                 x-app-limit-24hour-remaining: 0\nx-app-limit-24hour-reset: 1700080000",
                Some(80_000.0),
            ),
            (
                "RateLimit-DailyLimit: 500\nRateLimit-Remaining: 0\nRateLimit-ResetTime: 2023-11-15T00:00:00+00:00",
                Some(6400.0),
            ),
            ("X-Ratelimit-Remain: 0\nX-Ratelimit-Window: 5m\nX-Ratelimit-Reset: 1700000300", Some(300.0)),
            ("Fastly-RateLimit-Remaining: 0\nFastly-RateLimit-Reset: 1700003600", Some(3600.0)),
            ("X-Sentry-Rate-Limit-Remaining: 0\nX-Sentry-Rate-Limit-Reset: 1700000001", Some(1.0)),
            ("x-sib-ratelimit-remaining: 0\nx-sib-ratelimit-reset: 591", Some(591.0)),
            ("fitbit-rate-limit-remaining: 0\nfitbit-rate-limit-reset: 2216", Some(2216.0)),
            ("X-Rl: 0\nX-Ttl: 45", Some(45.0)),
            // Of a service that nobody knows.
            ("X-Api-Limit-Remaining-Writes: 0\nX-API-Limit-Reset-Writes: 9", Some(9.0)),
            ("Remaining: 0\nReset: 9", None),
            ("ratelimitbysize-remaining: 0\nratelimitbysize-reset: 28", Some(28.0)),
            ("X-Contentful-RateLimit-Second-Remaining: 0\nX-Contentful-RateLimit-Reset: 1", Some(1.0)),
            ("X-Rate-Limit-Requests-Left: 0\nX-Rate-Limit-Time-Reset-Ms: 15000", Some(15.0)),
            (
                "X-HubSpot-RateLimit-Remaining: 0\nX-HubSpot-RateLimit-Interval-Milliseconds: 10000",
                Some(10.0),
            ),
            (
                "x-rate-limit-api-key-interval-ms: 10000\nx-rate-limit-api-key-remaining: 290\n\
                 x-rate-limit-api-token-interval-ms: 9000\nx-rate-limit-api-token-remaining: 0",
                Some(9.0),
            ),
            ("x-ratelimit-remaining-project-tokens: 0\nx-ratelimit-reset-project-tokens: 3s", Some(3.0)),
            (
                "x-ratelimit-remaining-requests-day: 0\nx-ratelimit-reset-requests-day: 33011.382867",
                Some(33_011.382_867),
            ),
            (
                "X-RateLimit-Endpoint-Requests-Remaining: 0\nX-RateLimit-Endpoint-Requests-Reset: 1700000060000",
                Some(60.0),
            ),
            // Whatever the quotas say.
            (
                "retry-after-ms: 250\nretry-after: 1\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 60",
                Some(0.25),
            ),
            ("x-ms-retry-after-ms: 50\nx-ms-substatus: 3200", Some(0.05)),
            ("X-RateLimit-Remaining: 0\nRetry-After: 2023-11-15T00:00:00Z", Some(6400.0)),
            ("X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Retry-After-Seconds: 3600", Some(3600.0)),
            ("retry-after-ms: soon\nretry-after: 2", Some(2.0)),
            ("Retry-After: 1700000007", Some(7.0)),
        ]);
    }

    /// Checks what each text says at 1700000000, in seconds.
    fn assert_waits(table: &[(&str, Option<f64>)]) {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (text, seconds) in table {
            let wait =
                seconds.map(|seconds| u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap());
            assert_eq!(parse(text, now).unwrap_or_default(), wait, "{text}");
        }
    }

    /// All at once: comparing each quota with each policy would take minutes.
    #[test]
    fn a_server_may_have_any_number_of_quotas() {
        let list =
            |from, end| (from..from + 20_000).map(|n| format!("\"{n}\";{end}")).collect::<Vec<_>>().join(",");
        let text = format!("RateLimit: {}\nRateLimit-Policy: {}", list(0, "r=0"), list(19_999, "w=60"));
        assert_eq!(parse(&text, UNIX_EPOCH), Ok(Some(60 * SECOND)));
        let quota = |n| format!("{n}-limit-remaining: 0\n{n}-limit-reset: 60\n");
        let text: String = (0..20_000).map(quota).collect();
        assert_eq!(parse(&text, UNIX_EPOCH), Ok(Some(60 * SECOND)));
    }

    #[test]
    fn what_is_too_large_is_the_longest_wait() {
        let large = "9".repeat(40);
        for number in ["18446744074", "99999999999", "18446744074000", &large[..19], &large[..38], &large] {
            for header in ["retry-after: ", "", "RateLimit: limit=9, remaining=0, reset="] {
                assert_eq!(
                    parse(&format!("{header}{number}"), UNIX_EPOCH),
                    Ok(Some(u64::MAX)),
                    "{header}{number}"
                );
            }
        }
        assert_eq!(parse(&format!("retry-after-ms: {large}"), UNIX_EPOCH), Ok(Some(u64::MAX)));
        let reset = "x-ratelimit-remaining: 0\nx-ratelimit-reset: ";
        for value in [
            "18446744074",
            "99999999999",
            "18446744074000",
            &large[..19],
            &large,
            "600y",
            "99999999999999999999h",
        ] {
            assert_eq!(parse(&format!("{reset}{value}"), UNIX_EPOCH), Ok(Some(u64::MAX)), "{value}");
        }
    }
}
