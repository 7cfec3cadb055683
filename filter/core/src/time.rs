//! Times and durations as tokens and configuration write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A wall-clock time in whole milliseconds since the Unix epoch, at most 2^48 - 1 (in the year 10889). By default
/// the epoch.
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

    /// `since_epoch` after the Unix epoch, rounded down to milliseconds.
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

/// A duration as the Gateway API writes it (GEP-2257): `^([0-9]{1,5}(h|m|s|ms)){1,4}$`, such as `30m`, `1h30m` or
/// `500ms`, and less than 100,000 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewayDuration(Duration);

impl GatewayDuration {
    /// The duration as the standard library's type.
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

/// The text is not a GEP-2257 duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a duration like 30m, 1h30m or 500ms \
     (one to four numbers of up to five digits, each with h, m, s or ms; less than 100000h in all)"
)]
pub struct DurationError;

impl FromStr for GatewayDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let mut rest = text;
        let mut total = Duration::ZERO;
        let mut parts = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let number: u32 = match digits {
                1..=5 => number.parse().map_err(|_| DurationError)?,
                _ => return Err(DurationError),
            };
            let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at(letters);
            let unit = match unit {
                "h" => Duration::from_secs(3600),
                "m" => Duration::from_secs(60),
                "s" => Duration::from_secs(1),
                "ms" => Duration::from_millis(1),
                _ => return Err(DurationError),
            };
            total += unit * number;
            parts += 1;
            rest = tail;
        }
        // `Display` could not write a longer duration in this grammar, and no session lasts eleven years.
        if (1..=4).contains(&parts) && total < Duration::from_secs(100_000 * 3600) {
            Ok(Self(total))
        } else {
            Err(DurationError)
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
    fn other_spellings_are_refused() {
        for text in [
            "",
            "30",
            "m",
            "1d",
            "1.5h",
            "-1s",
            "100000s",
            "1h 1m",
            "1h1h1h1h1h",
            "1H",
            "٣s",
        ] {
            assert_eq!(text.parse::<GatewayDuration>(), Err(DurationError), "{text:?}");
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
