use std::fmt;
use std::time::Duration;

use super::EntryKey;
use crate::time::Timestamp;
use crate::token::Claims;
use crate::view::ViewError;

/// A policy's entries by client and scope, each as good as a token.
pub trait SourceTable: fmt::Debug + Send + Sync {
    /// The entry of a key, however old, noted as used now if `is_alive`.
    ///
    /// # Errors
    /// If the proxy does not answer.
    fn find(
        &self,
        key: &EntryKey,
        now: Timestamp,
        is_alive: &dyn Fn(&Claims) -> bool,
    ) -> Result<Option<Claims>, ViewError>;

    /// Sets the entry of a key. Returns whether another one was evicted alive.
    ///
    /// # Errors
    /// If the proxy does not answer.
    fn put(&self, key: &EntryKey, claims: &Claims) -> Result<bool, ViewError>;

    /// Removes the entry of a key.
    ///
    /// # Errors
    /// If the proxy does not answer.
    fn remove(&self, key: &EntryKey) -> Result<(), ViewError>;

    /// How far the noted last use may lag.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }
}
