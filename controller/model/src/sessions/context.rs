//! What a build depends on beside the objects and the settings.

use super::WrittenCookie;
use super::crowds::MANY;
use crate::memory::MOST_BYTES;
use limpet_api::ObjectRef;

/// Numbers that tests change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The greatest size of the memory.
    pub(crate) most_bytes: usize,
    /// How many cookies a host may have before a status says so.
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

/// Limits, and what there is beside the objects of the build.
#[derive(Clone, Copy, Default)]
pub(crate) struct Context<'a> {
    pub(crate) limits: Limits,
    /// The rest, if the objects are a part of all; `None`: they are all that there are.
    pub(crate) elsewhere: Option<&'a dyn Elsewhere>,
    /// The route to explain.
    pub(crate) explained: Option<&'a ObjectRef>,
}

/// What objects that are no part of a build have in common with those that are.
pub(crate) trait Elsewhere {
    /// The oldest scope that writes this cookie as well and is older, with the time.
    fn older(&self, cookie: &WrittenCookie) -> Option<(String, String)>;
}
