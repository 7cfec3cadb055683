//! The commands that need no cluster.

pub(crate) mod check;
pub(crate) mod keys;
pub(crate) mod token;
