//! Times and durations as tokens and configuration write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time in whole milliseconds since the Unix epoch, at most 2^48 - 1 (in the year 10889).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time that a token can carry.
    pub const MAX: Self = Self((1 << 48) - 1);
    /// The earliest time.
    pub const UNIX_EPOCH: Self = Self(0);

    /// `millis` since the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn from_unix_millis(millis: u64) -> Self {
        Self(millis.min(Self::MAX.0))
    }

    /// `seconds` since the Unix epoch.
    #[must_use]
    pub fn from_unix_seconds(seconds: u64) -> Self {
        Self::from_unix_millis(seconds.saturating_mul(1000))
    }

    /// `since_epoch`, rounded down to milliseconds.
    #[must_use]
    pub fn from_unix(since_epoch: Duration) -> Self {
        // `as_millis` counts with 128 bits.
        let seconds = since_epoch.as_secs().saturating_mul(1000);
        Self::from_unix_millis(seconds.saturating_add(since_epoch.subsec_millis().into()))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    #[must_use]
    pub fn unix_seconds(self) -> u64 {
        self.0 / 1000
    }

    /// The time from `earlier` to `self`; zero if `self` is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// One millisecond earlier.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// This time plus `by`.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self::from_unix_millis(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// A duration as the Gateway API writes it (GEP-2257): `^([0-9]{1,5}(h|m|s|ms)){1,4}$`, such as `1h30m`, and less than
/// 100,000 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewayDuration(Duration);

impl GatewayDuration {
    /// The standard library's duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for GatewayDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

/// All durations are shorter: `Display` could not write this one in the grammar.
const LONGEST: Duration = Duration::from_secs(100_000 * 3600);

/// The text is not a GEP-2257 duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{EXPECTED}{}", self.advice())]
pub struct DurationError {
    meant: Option<GatewayDuration>,
}

const EXPECTED: &str = "expected a duration like 30m, 1h30m or 500ms (one to four numbers of up to five digits, each \
                        with h, m, s or ms; less than 100000h in all)";

impl DurationError {
    fn of(text: &str) -> Self {
        Self { meant: meant(text) }
    }

    /// The message about this text.
    #[must_use]
    pub fn about(&self, text: &str) -> String {
        format!("{EXPECTED}, found {text:?}{}", self.advice())
    }

    fn advice(&self) -> String {
        self.meant.map(|meant| format!(": write {meant}")).unwrap_or_default()
    }
}

/// The likely meaning of a text with more digits, a fraction, a unit of another grammar, or none: seconds.
fn meant(text: &str) -> Option<GatewayDuration> {
    let mut rest = text.trim();
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let (whole, tail) = digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let unit = match unit.to_ascii_lowercase().as_str() {
            "w" => 7 * 24 * 3_600_000,
            "d" => 24 * 3_600_000,
            "h" => 3_600_000,
            "m" | "min" => 60_000,
            "s" | "sec" => 1000,
            "" if rest == text && tail.is_empty() => 1000,
            "ms" => 1,
            _ => return None,
        };
        // A longer fraction is no number of milliseconds.
        let thousandths: u64 = format!("{fraction:0<3}").parse().ok().filter(|_| fraction.len() <= 3)?;
        let of_whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
        millis = millis.checked_add(of_whole)?.checked_add(thousandths * unit / 1000)?;
        rest = tail.trim_start();
    }
    let meant = Duration::from_millis(millis);
    (!text.trim().is_empty() && meant < LONGEST).then_some(GatewayDuration(meant))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

impl FromStr for GatewayDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let error = || DurationError::of(text);
        let mut rest = text;
        let mut total = Duration::ZERO;
        let mut parts = 0;
        while !rest.is_empty() {
            let (number, tail) = digits(rest);
            let number: u32 = match number.len() {
                1..=5 => number.parse().map_err(|_| error())?,
                _ => return Err(error()),
            };
            let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at(letters);
            let unit = match unit {
                "h" => Duration::from_secs(3600),
                "m" => Duration::from_secs(60),
                "s" => Duration::from_secs(1),
                "ms" => Duration::from_millis(1),
                _ => return Err(error()),
            };
            total += unit * number;
            parts += 1;
            rest = tail;
        }
        if (1..=4).contains(&parts) && total < LONGEST {
            Ok(Self(total))
        } else {
            Err(error())
        }
    }
}

impl fmt::Display for GatewayDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = self.0.as_millis();
        if millis == 0 {
            return f.write_str("0s");
        }
        for (unit, length) in [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
            if millis >= length {
                write!(f, "{}{unit}", millis / length)?;
                millis %= length;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_gep_2257() {
        for (text, millis) in [
            ("30m", 1_800_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1h1m1s1ms", 3_661_001),
            ("99999h", 359_996_400_000),
            ("0s", 0),
        ] {
            let duration: GatewayDuration = text.parse().unwrap();
            assert_eq!(duration.get().as_millis(), millis, "{text}");
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn other_spellings_are_refused_with_what_to_write() {
        for (text, meant) in [
            ("", None),
            ("30", Some("30s")),
            ("m", None),
            ("1d", Some("24h")),
            ("2w", Some("336h")),
            ("1.5h", Some("1h30m")),
            (".5s", None),
            ("0.25s", Some("250ms")),
            ("0.00025h", None),
            ("-1s", None),
            ("100000s", Some("27h46m40s")),
            ("172800s", Some("48h")),
            ("604800000ms", Some("168h")),
            ("1h 1m", Some("1h1m")),
            ("1h1h1h1h1h", Some("5h")),
            ("1H", Some("1h")),
            ("30 m", None),
            ("30min", Some("30m")),
            ("100000h", None),
            ("99999999999999999999s", None),
            ("1h30", None),
            ("٣s", None),
        ] {
            let refused = text.parse::<GatewayDuration>().unwrap_err();
            let advice = meant.map(|meant| format!(": write {meant}")).unwrap_or_default();
            assert_eq!(refused.advice(), advice, "{text:?}");
            assert!(
                refused.about(text).ends_with(&format!("found {text:?}{advice}")),
                "{text:?}"
            );
        }
    }

    #[test]
    fn times_do_not_wrap() {
        assert_eq!(Timestamp::from_unix_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(
            Timestamp::from_unix_seconds(1).since(Timestamp::from_unix_seconds(2)),
            Duration::ZERO
        );
    }
}
