//! What a build depends on beside the objects and the settings.

use super::WrittenCookie;
use super::crowds::MANY;
use crate::memory::MOST_BYTES;
use limpet_api::ObjectRef;

/// Numbers that tests change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) most_bytes: usize,
    /// The cookies of a host, before a status says so.
    pub(crate) most_cookies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            most_bytes: MOST_BYTES,
            most_cookies: MANY,
        }
    }
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Context<'a> {
    pub(crate) limits: Limits,
    /// The rest, if the objects are a part of all; `None`: they are all that there are.
    pub(crate) elsewhere: Option<&'a dyn Elsewhere>,
    pub(crate) explained: Option<&'a ObjectRef>,
}

pub(crate) trait Elsewhere {
    /// The oldest scope that also writes this cookie and is older, with the time.
    fn older(&self, cookie: &WrittenCookie) -> Option<(String, String)>;
}
