//! Users of an API server.

use std::fmt;

/// A user with a token.
#[derive(Clone)]
pub struct User {
    pub(super) name: String,
    pub(super) token: String,
}

impl User {
    /// The user's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("User")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
