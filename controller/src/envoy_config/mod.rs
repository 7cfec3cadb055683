//! Configuration files, and the filter in them.
//!
//! - [`config_file`]: files of YAML or JSON. [`node`]: values in them, each with its path.
//! - [`filter_locator`]: the filter in a configuration of Envoy. [`foreign_config`]: in an object of another control
//!   plane. [`filter_configs`]: its configurations in either.
//! - [`discovery`]: what an Envoy discovers from further files.
//! - [`object_file`]: objects of Kubernetes where a command expects what is in them.

pub(crate) mod config_file;
pub(crate) mod discovery;
pub(crate) mod filter_configs;
pub(crate) mod filter_locator;
pub(crate) mod foreign_config;
pub(crate) mod node;
pub(crate) mod object_file;
