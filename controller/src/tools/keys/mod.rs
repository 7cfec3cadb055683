//! `limpet keys`: new keys, keyring files, and files of keys.

pub(crate) mod count;
pub(crate) mod generate;
pub(crate) mod ids;
pub(crate) mod keyring_file;
pub(crate) mod keys_file;
pub(crate) mod lifetime;
pub(crate) mod list;
pub(crate) mod revoke;
pub(crate) mod rotate;
pub(crate) mod rotation;
pub(crate) mod source;
pub(crate) mod wrap;
