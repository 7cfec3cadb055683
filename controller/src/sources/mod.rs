//! Where objects come from.

mod certificate;
pub(crate) mod kube;
