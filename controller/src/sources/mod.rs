//! Where objects come from.

mod certificate;
pub(crate) mod files;
pub(crate) mod kube;
