//! The hosts that listeners and routes are for.

use std::fmt;

use limpet_api::Text;
use serde::Serialize;

/// A set of hosts. In its order, more specific ones come first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hostname {
    /// This one.
    Exact(Text),
    /// All hosts with this suffix, which begins with a dot.
    Suffix(Text),
    /// All.
    Any,
}

impl Hostname {
    /// Reads `shop.example.com` or `*.example.com`. `None` and the empty text mean all hosts.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            None | Some("" | "*") => Self::Any,
            Some(text) => match text.strip_prefix('*') {
                Some(suffix) => Self::Suffix(suffix.to_ascii_lowercase().into()),
                None => Self::Exact(text.to_ascii_lowercase().into()),
            },
        }
    }

    /// The hosts that belong to both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, both) | (both, Self::Any) => Some(both.clone()),
            (Self::Exact(host), Self::Exact(other)) => (host == other).then(|| self.clone()),
            (Self::Exact(host), Self::Suffix(suffix)) | (Self::Suffix(suffix), Self::Exact(host)) => {
                (host.ends_with(suffix.as_str()) && host.len() > suffix.len()).then(|| Self::Exact(host.clone()))
            }
            (Self::Suffix(one), Self::Suffix(two)) => {
                let (long, short) = if one.len() >= two.len() { (one, two) } else { (two, one) };
                long.ends_with(short.as_str()).then(|| Self::Suffix(long.clone()))
            }
        }
    }

    /// Whether it has every host of `other`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.intersection(other).as_ref() == Some(other)
    }

    /// Longer ones first, since routers prefer the most specific one.
    fn rank(&self) -> (u8, std::cmp::Reverse<usize>, &str) {
        match self {
            Self::Exact(host) => (0, std::cmp::Reverse(host.len()), host),
            Self::Suffix(suffix) => (1, std::cmp::Reverse(suffix.len()), suffix),
            Self::Any => (2, std::cmp::Reverse(0), ""),
        }
    }
}

impl Serialize for Hostname {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialOrd for Hostname {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hostname {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
            Self::Any => f.write_str("*"),
        }
    }
}
