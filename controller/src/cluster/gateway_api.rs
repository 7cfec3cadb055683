//! The releases of the Gateway API.

use std::fmt;
use std::str::FromStr;

/// A minor release of the Gateway API, by its minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewayApi(pub(super) u8);

impl GatewayApi {
    /// Those that Limpet supports.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (2..=7).map(Self)
    }
}

impl fmt::Display for GatewayApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl FromStr for GatewayApi {
    type Err = &'static str;

    /// Reads `1.6` or `1.6.1`. The definitions do not change between patches.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.splitn(3, '.').map(|number| number.parse::<u8>().ok());
        let minor = match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(1), Some(minor)) if numbers.all(|patch| patch.is_some()) => minor,
            _ => return Err(EXPECTED),
        };
        Self::all().find(|release| release.0 == minor).ok_or(EXPECTED)
    }
}

const EXPECTED: &str = "expected a release from 1.2 to 1.7, like 1.6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_releases_are_releases() {
        for right in ["1.6", "1.6.1"] {
            assert_eq!(right.parse(), Ok(GatewayApi(6)));
        }
        for wrong in ["1.1", "1.8", "2.6", "1.6.x", "1.6.1.0", "6", ""] {
            assert!(wrong.parse::<GatewayApi>().is_err(), "{wrong}");
        }
    }
}
