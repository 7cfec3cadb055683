//! How long a token may live unused, which is how long a retiring key has to stay.

use std::time::Duration;

use crate::cli::LifeArgs;
use crate::envoy_config::node::ConfigNode;
use crate::envoy_config::{discovery, filter_configs};
use crate::exit::CommandFailure;
use limpet_core::config;

/// The longest life under a configuration that has the defaults.
pub(super) fn default() -> Duration {
    // 168 hours, a tenth of that, and a minute between clocks: `config::longest_life` of an empty configuration.
    Duration::from_secs(168 * 3960 + 60)
}

pub(crate) fn from_args(args: &LifeArgs) -> Result<Duration, CommandFailure> {
    match (&args.config, args.longest_life) {
        (_, Some(life)) => Ok(life.get()),
        (Some(file), None) => {
            let documents = discovery::read(file)?;
            let roots: Vec<ConfigNode<'_>> = documents
                .iter()
                .map(|(file, value)| ConfigNode::root(file, value))
                .collect();
            let configs = filter_configs::read(file, &roots)?;
            Ok(configs.iter().map(config::longest_life).max().unwrap_or_default())
        }
        (None, None) => Ok(default()),
    }
}
