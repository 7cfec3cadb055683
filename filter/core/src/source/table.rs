//! What a session asks of a table.

use std::fmt;
use std::time::Duration;

use super::Key;
use crate::time::Timestamp;
use crate::token::Claims;
use crate::view::ViewError;

/// Entries of a policy, by client and scope. An entry says what a token would say.
pub trait Table: fmt::Debug + Send + Sync {
    /// The entry of a key, however old it is. If `is_alive` says so, the entry is noted as used now.
    ///
    /// # Errors
    /// If the proxy does not answer.
    fn find(&self, key: &Key, now: Timestamp, is_alive: &dyn Fn(&Claims) -> bool) -> Result<Option<Claims>, ViewError>;

    /// Sets the entry of a key. Whether another one had to go that was not over: the least recently used.
    ///
    /// # Errors
    /// If the proxy does not answer.
    fn put(&self, key: &Key, claims: &Claims) -> Result<bool, ViewError>;

    /// Removes the entry of a key.
    ///
    /// # Errors
    /// If the proxy does not answer.
    fn remove(&self, key: &Key) -> Result<(), ViewError>;

    /// How far the noted time of the last use may lag behind.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }
}
