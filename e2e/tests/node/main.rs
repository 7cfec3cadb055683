//! What the manifests of `controller/deploy` do on a genuine node.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod chart;
mod deploy;
mod drained;
mod managed;
mod rollouts;
mod site;
mod test_bed;
