//! Times for people: read from the command line, written as RFC 3339 and as a distance from now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use limpet_core::time::Timestamp;

pub(crate) fn now() -> Timestamp {
    // A clock before 1970 counts as 1970.
    Timestamp::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Reads RFC 3339 or whole seconds since 1970.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Timestamp::from_unix_seconds(seconds));
    }
    let time = OffsetDateTime::parse(text, &Rfc3339);
    let millis = time
        .ok()
        .and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok());
    millis
        .map(Timestamp::from_unix_millis)
        .ok_or_else(|| "expected a time from 1970 on, like 2026-01-31T12:00:00Z, or Unix seconds".to_owned())
}

/// RFC 3339 in UTC, to the millisecond.
pub(crate) fn exact(time: Timestamp) -> String {
    let nanos = i128::from(time.unix_millis()) * 1_000_000;
    let written = OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok());
    // RFC 3339 ends with the year 9999; the times of tokens do not.
    written.unwrap_or_else(|| format!("{} seconds after 1970", time.unix_seconds()))
}

/// RFC 3339 in UTC to the second, and how far that is from now: `2026-01-31T12:00:00Z  3m ago`.
pub(crate) fn words(time: Timestamp, now: Timestamp) -> String {
    let second = Timestamp::from_unix_seconds(time.unix_seconds());
    format!("{}  {}", exact(second), distance(time, now))
}

/// `3m ago`, `in 27m`, or `now`.
pub(crate) fn distance(time: Timestamp, now: Timestamp) -> String {
    let (past, future) = (now.since(time), time.since(now));
    if future.as_secs() > 0 {
        format!("in {}", length(future))
    } else if past.as_secs() > 0 {
        format!("{} ago", length(past))
    } else {
        "now".to_owned()
    }
}

/// The two largest units of a duration: `2d 4h`, `27m`, `1m 30s`.
pub(crate) fn length(duration: Duration) -> String {
    let mut rest = duration.as_secs();
    let mut parts = Vec::new();
    for (unit, seconds) in [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if rest >= seconds {
            parts.push(format!("{}{unit}", rest / seconds));
            rest %= seconds;
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() {
        format!("{}ms", duration.as_millis())
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let time = parse("2026-01-31T13:00:00.5+01:00").unwrap();
        assert_eq!(time, Timestamp::from_unix_millis(1_769_860_800_500));
        assert_eq!(exact(time), "2026-01-31T12:00:00.5Z");
        assert_eq!(
            parse("1769860800").unwrap(),
            Timestamp::from_unix_seconds(1_769_860_800)
        );
        for text in ["", "yesterday", "1969-12-31T00:00:00Z", "-5", "2026-01-31"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!(exact(Timestamp::MAX), "281474976710 seconds after 1970");
    }

    #[test]
    fn distances_are_in_plain_words() {
        let now = Timestamp::from_unix_seconds(1_000_000);
        let at = |seconds| distance(Timestamp::from_unix_seconds(seconds), now);
        assert_eq!(at(1_000_000), "now");
        assert_eq!(at(1_000_000 - 180), "3m ago");
        assert_eq!(at(1_000_000 + 27 * 60), "in 27m");
        assert_eq!(at(1_000_000 + 90), "in 1m 30s");
        assert_eq!(at(1_000_000 - 2 * 86_400 - 4 * 3600 - 59), "2d 4h ago");
        assert_eq!(at(1_000_000 - 86_400 - 5), "1d ago");
        assert_eq!(length(Duration::from_millis(500)), "500ms");
    }
}
