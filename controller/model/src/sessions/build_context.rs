//! What a build depends on beside the objects and the settings.

use super::WrittenCookie;
use super::cookie_counts::MANY;
use crate::memory::MOST_BYTES;
use limpet_api::ObjectRef;

/// Numbers that tests change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuildLimits {
    pub(crate) most_bytes: usize,
    /// The cookies of a host, before a status says so.
    pub(crate) most_cookies: usize,
}

impl Default for BuildLimits {
    fn default() -> Self {
        Self {
            most_bytes: MOST_BYTES,
            most_cookies: MANY,
        }
    }
}

#[derive(Clone, Copy, Default)]
pub(crate) struct BuildContext<'a> {
    pub(crate) limits: BuildLimits,
    /// The rest, if the objects are a part of all; `None`: they are all that there are.
    pub(crate) elsewhere: Option<&'a dyn CookieOwners>,
    pub(crate) explained: Option<&'a ObjectRef>,
}

pub(crate) trait CookieOwners {
    /// The oldest scope that also writes this cookie and is older, with the time.
    fn older(&self, cookie: &WrittenCookie) -> Option<(String, String)>;
}
